# Every target makes the environment that it needs from pyproject.toml, in .venv; nothing else is touched.

PYTHON ?= python3
BIN := .venv/bin
EXTRAS := cli,codings,config,dns,testing,certifi,azure,otel,text,mcp

.PHONY: demo test test-all lint types layers e2e bench load soak fuzz clean

demo: .venv/.demo
	@$(BIN)/tidegate demo

test: .venv/.dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -m "not e2e"
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --include='*/tidegate/_policy/*' --fail-under=100

# The tests on every supported Python that is found, each in an environment of its own.
test-all:
	@for python in python3.11 python3.12 python3.13 python3.14; do \
		$$python --version 2>/dev/null || continue; \
		$$python -m venv .venv-$$python && \
		.venv-$$python/bin/python -m pip install -q --upgrade 'pip>=25.1' && \
		.venv-$$python/bin/python -m pip install -q -e '.[$(EXTRAS)]' --group test && \
		.venv-$$python/bin/python -m pytest -q -m "not e2e" || exit 1; \
	done

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/mypy engine/tidegate tools/tidegate_tools

layers: .venv/.dev
	$(BIN)/lint-imports

# In network namespaces of its own: needs Linux, root, iproute2 and nginx-light.
e2e: .venv/.dev
	$(BIN)/python -m pytest -q -m e2e

# Needs Linux; installs nginx-light (Debian) where there is no nginx. BENCH="--quick kept" passes arguments.
bench: .venv/.bench
	@command -v nginx >/dev/null || test -x /usr/sbin/nginx || apt-get install -y --no-install-recommends nginx-light
	$(BIN)/python -m tests.bench $(BENCH)

# In a network namespace of its own: needs Linux, root and iproute2. LOAD="--holds 1000" passes arguments.
load: .venv/.dev
	$(BIN)/python -m tests.load $(LOAD)

# The same place; good and bad traffic for MINUTES, and nothing may grow.
MINUTES ?= 10
soak: .venv/.dev
	$(BIN)/python -m tests.load.soak --minutes $(MINUTES)

# Every target for SECONDS, one after the other; what is found becomes a test.
SECONDS ?= 60
fuzz: .venv/.dev
	$(BIN)/python -m pip install -q --group fuzz
	$(BIN)/python -m tests.fuzz.targets --seconds $(SECONDS)

clean:
	rm -rf .venv .venv-* .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.venv/.pip:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --upgrade 'pip>=25.1'
	@touch $@

.venv/.demo: .venv/.pip pyproject.toml
	$(BIN)/python -m pip install -q -e '.[cli,codings,testing]'
	@touch $@

.venv/.dev: .venv/.pip pyproject.toml
	$(BIN)/python -m pip install -q -e '.[$(EXTRAS)]' --group test --group controls --group load --group lint
	@touch $@

.venv/.bench: .venv/.dev
	$(BIN)/python -m pip install -q --group bench
	@touch $@
