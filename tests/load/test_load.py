"""The short form of the load test: a thousand holds, as a test of behaviour and not of speed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.load.figures import bytes_per_hold, growth, overshoots
from tests.load.job import STAGES, Outcome
from tests.load.namespace import ROOT
from tests.load.plan import ATTACKS, ENGINE, MAX_BYTES, MAX_GROWTH, Attack, holds_of
from tests.support.isolation import namespaces, need_namespaces

SHORT = [attack for attack in ATTACKS if attack.holds == 1_000]


def run(*arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run a module of the load test."""
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module", params=SHORT, ids=lambda attack: attack.scheme)
def attacked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Attack, Outcome]:
    """An attack, and what it did to the engine."""
    need_namespaces()
    attack: Attack = request.param
    file = tmp_path_factory.mktemp("load") / "measured.json"
    only = ["--holds", str(attack.holds), "--scheme", attack.scheme, "--client", ENGINE, "--runs", "1"]
    done = run("tests.load", *only, "--calm", "2", "--json", str(file))
    assert done.returncode == 0, done.stderr
    (measured,) = json.loads(file.read_text(encoding="utf-8"))[attack.title][ENGINE]
    return attack, Outcome.from_json(json.dumps(measured))


@pytest.mark.e2e
def test_every_hold_ends_by_its_deadline_in_its_phase(attacked: tuple[Attack, Outcome]) -> None:
    """F-25: whatever the peer does, and never before the deadline."""
    attack, outcome = attacked
    assert outcome.endings == {}
    late = overshoots(outcome)
    assert len(late) == attack.holds
    assert min(late) >= 0
    for hold in holds_of(attack.scheme):
        assert outcome.phases[hold.title] == {hold.phase: len(outcome.overshoots[hold.title])}, hold.title


@pytest.mark.e2e
def test_every_healthy_fetch_succeeds_meanwhile(attacked: tuple[Attack, Outcome]) -> None:
    _, outcome = attacked
    assert outcome.failures == {}
    assert {stage: bool(outcome.latencies[stage]) for stage in STAGES} == dict.fromkeys(STAGES, True)


@pytest.mark.e2e
def test_a_hold_costs_little_and_leaves_nothing(attacked: tuple[Attack, Outcome]) -> None:
    """A buffer for the petabyte that is announced, or for what may still come, would be seen here at once."""
    attack, outcome = attacked
    assert bytes_per_hold([outcome], attack) < 1.5 * MAX_BYTES[attack.scheme]
    assert outcome.after.descriptors == outcome.before.descriptors
    assert growth([outcome])["memory in use"] <= MAX_GROWTH


@pytest.mark.e2e
def test_soak() -> None:
    """Good and bad traffic at random, with random cancels: nothing grows, nothing is wrong."""
    need_namespaces()
    done = run("tests.load.soak", "--minutes", "0.5", "--seed", "7")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert "blocks of memory in use" in done.stdout
    assert "good" in done.stdout


@pytest.mark.parametrize("module", ["tests.load", "tests.load.soak"])
def test_it_refuses_to_run_outside_a_namespace_of_its_own(module: str) -> None:
    done = run(module, "--outside", *namespaces())
    assert done.returncode == 1
    assert "refusing to run" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tests.load", "--holds", "5"), "--holds"),
        (("tests.load", "--runs", "0"), "--runs"),
        (("tests.load", "--calm", "nan"), "--calm"),
        (("tests.load.soak", "--minutes", "0"), "--minutes"),
    ],
)
def test_what_nobody_can_run_is_a_usage_error(arguments: tuple[str, ...], told: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert told in done.stderr


def test_the_page_shows_a_whole_measurement() -> None:
    """Every attack is in the kept tables, and so are the plots."""
    page = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    for attack in ATTACKS:
        assert f"### {attack.title}, deadline {attack.deadline:g} s" in page
    assert Path(__file__).with_name("load.svg").is_file()
