"""A layer imports only what stands below it, `_policy` touches nothing, and nothing switches checks off."""

import ast
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.data import ROOT

ENGINE: Final = ROOT / "engine" / "tidegate"


def sources(*roots: str) -> list[Path]:
    return sorted(file for root in roots for file in (ROOT / root).rglob("*.py"))


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


# import-linter -----------------------------------------------------------------------------------------


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts in `pyproject.toml` against the packages that lie beside it."""
    program = (
        f"import sys; sys.path[:0] = [{str(folder / 'engine')!r}, {str(folder / 'tools')!r}];"
        "from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"
    )
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_contracts_hold() -> None:
    pytest.importorskip("importlinter", reason="import-linter is in the dependency group `lint`")
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("tidegate/_policy/limits.py", "import trio", "policy is pure"),
        ("tidegate/_policy/limits.py", "import os.path", "policy is pure"),
        ("tidegate/_policy/limits.py", "from socket import socket", "policy is pure"),
        ("tidegate/_policy/limits.py", "import tidegate._wire.stream", "layers of the engine"),
        ("tidegate/_wire/stream.py", "import tidegate._engine.admission", "layers of the engine"),
        ("tidegate/_engine/admission.py", "import tidegate.testing.memory", "layers of the engine"),
        ("tidegate/errors.py", "import tidegate._wire.stream", "layers of the engine"),
        ("tidegate/_engine/admission.py", "import tidegate_tools", "the engine never imports the tools"),
        ("tidegate/new.py", "", "layers of the engine"),
    ],
)
def test_a_breach_is_seen(tmp_path: Path, file: str, line: str, contract: str) -> None:
    """In a copy that is broken on purpose: a contract that cannot break is none."""
    pytest.importorskip("importlinter", reason="import-linter is in the dependency group `lint`")
    for root in ("engine", "tools"):
        shutil.copytree(ROOT / root, tmp_path / root, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "engine" / file).open("a", encoding="utf-8") as broken:
        broken.write(f"\n{line}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1
    assert any(row.startswith(contract) and row.endswith("BROKEN") for row in done.stdout.splitlines())


def test_every_part_has_a_layer() -> None:
    """So that a new module cannot stand beside the contracts."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = [one for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    assert [one["containers"] for one in layers] == [["tidegate"], ["tidegate_tools"]]
    assert all(one["exhaustive"] is True for one in layers)
    assert [one.get("exhaustive_ignores", []) for one in layers] == [["errors"], []]


# The purity of _policy ---------------------------------------------------------------------------------

# What may be imported there: values, texts and numbers. An allow list, since ways to the outside abound.
PURE: Final = {
    "bisect", "codecs", "collections", "dataclasses", "enum", "functools", "ipaddress", "itertools", "json",
    "math", "re", "string", "types", "typing", "unicodedata", "idna",
}  # fmt: skip
OURS: Final = ("tidegate._policy", "tidegate.errors")
OUTSIDE: Final = {"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint", "globals"}


def imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            names.add(node.module)
    return names


@pytest.mark.parametrize("file", sorted((ENGINE / "_policy").glob("*.py")), ids=lambda file: file.stem)
def test_policy_imports_nothing_that_touches_the_world(file: Path) -> None:
    """Values in, values out: no trio, sockets, TLS, files, clock or logging, not even inside a function."""
    foreign = {name for name in imported(file) if not name.startswith(OURS)}
    assert {name.partition(".")[0] for name in foreign} <= PURE
    called = {node.id for node in ast.walk(tree(file)) if isinstance(node, ast.Name)}
    assert called & OUTSIDE == set()


def test_reasons_import_nothing_of_ours_and_errors_only_them() -> None:
    """So everything else may import both."""
    assert imported(ENGINE / "_policy" / "reasons.py") == {"enum"}
    ours = {name for name in imported(ENGINE / "errors.py") if name.startswith("tidegate")}
    assert ours == {"tidegate._policy.reasons"}


def test_no_address_is_judged_by_the_standard_library() -> None:
    """D-6: `ipaddress.is_global` and its relatives say yes to most of what must be denied."""
    banned = {
        "is_global", "is_private", "is_reserved", "is_link_local", "is_loopback", "is_multicast",
        "is_unspecified", "is_site_local",
    }  # fmt: skip
    used = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sources("engine", "tools")
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Attribute) and node.attr in banned
    ]
    assert used == []


# Verification is never off -----------------------------------------------------------------------------

SWITCHES: Final = {"verify", "ssl", "verify_ssl", "ssl_verify", "connection_verify", "check_hostname"}
LAX: Final = {
    "CERT_NONE", "CERT_OPTIONAL", "_create_unverified_context", "_create_stdlib_context",
    "_create_default_https_context", "disable_warnings",
}  # fmt: skip
CURL: Final = {"SSL_VERIFYPEER", "SSL_VERIFYHOST"}


def is_off(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value in (False, 0)


def switched_off(root: ast.AST) -> Iterator[int]:
    """The lines that turn a verification off, or hold what does."""
    for node in ast.walk(root):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in LAX:
                yield node.lineno
            case ast.Constant(value=str(name)) if name in LAX:
                yield node.lineno
            case ast.keyword(arg=str(name), value=value) if name in SWITCHES and is_off(value):
                yield value.lineno
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if name in SWITCHES and is_off(
                value
            ):
                yield node.lineno
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and key.value in SWITCHES and is_off(value):
                        yield value.lineno
            case ast.Call(args=[ast.Attribute(attr=name), value, *_]) if name in CURL and is_off(value):
                yield node.lineno


# How a test tells that it was refused: by the engine, and by the tools, which have no such argument.
REFUSALS: Final = ("does not verify", "There is no argument", "invalid_argument")


def proves_refusal(node: ast.AST) -> bool:
    """A test that expects a switch to be refused."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
        return False
    texts = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant)]
    return any(isinstance(text, str) and refusal in text for text in texts for refusal in REFUSALS)


def test_no_verification_is_switched_off() -> None:
    """F-29, F-30, AMB-25: not in the engine, not in the tools, and in tests only to see it refused."""
    offences = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in sources("engine", "tools", "tests")
        if file != Path(__file__)
        for statement in tree(file).body
        if not proves_refusal(statement)
        for line in switched_off(statement)
    ]
    assert offences == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("context.check_hostname = False", True),
        ("context.check_hostname = True", False),
        ("context.check_hostname = value", False),
        ("context.verify_mode = ssl.CERT_NONE", True),
        ("context.verify_mode = ssl.CERT_REQUIRED", False),
        ("from ssl import CERT_NONE\nx = CERT_NONE", True),
        ("getattr(ssl, 'CERT_NONE')", True),
        ("ssl._create_unverified_context()", True),
        ("httpx.get(url, verify=False)", True),
        ("httpx.get(url, verify=context)", False),
        ("session.get(url, ssl=False)", True),
        ("options = {'verify': False}", True),
        ("options = {'verify': True}", False),
        ("curl.setopt(pycurl.SSL_VERIFYPEER, 0)", True),
        ("curl.setopt(pycurl.SSL_VERIFYPEER, 1)", False),
        ("def test_x():\n    context.check_hostname = False", True),
    ],
)
def test_a_switch_is_seen(source: str, found: bool) -> None:
    assert any(switched_off(ast.parse(source))) is found


def test_a_refusal_is_told_from_a_switch() -> None:
    for match, proof in (("does not verify", True), ("closed", False)):
        source = (
            f"def test_x():\n    c.check_hostname = False\n    with pytest.raises(E, match={match!r}): f(c)"
        )
        assert proves_refusal(ast.parse(source).body[0]) is proof
