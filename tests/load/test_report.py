"""The tables and plots of the load test, made from figures that are known."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.load.figures import bytes_per_hold, growth, overshoot, percentile, slowdown
from tests.load.job import STAGES, Job, Outcome
from tests.load.plan import ATTACKS, BARE, CLIENTS, ENGINE, KIB, Attack, holds_of
from tests.load.report import report
from tests.load.resources import Resources
from tests.load.soak import Round
from tests.load.soak import growth as growth_of_rounds
from tests.load.soak import report as report_of_soak

ATTACK = Attack("http", 4_000, 15)
REST = Resources(memory=1000 * KIB, blocks=1000, descriptors=10)


def outcome(late: float = 0.1, hold: int = 8 * KIB, slower: float = 1.0, after: Resources = REST) -> Outcome:
    return Outcome(
        overshoots={"one": [late] * 100, "other": [late] * 100},
        phases={},
        endings={},
        latencies={
            stage: [0.01 if stage in ("before", "after") else 0.01 * slower] * 100 for stage in STAGES
        },
        failures={},
        before=REST,
        held=REST.memory + hold * ATTACK.holds,
        after=after,
    )


def verdicts(engine: Outcome, bare: Outcome) -> dict[str, str]:
    lines = report({ATTACK: {ENGINE: [engine], BARE: [bare]}}).splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| 4,000")]
    return {figure: met for _, figure, _, _, met in rows}


def test_all_aims_are_met() -> None:
    assert set(verdicts(outcome(0.15), outcome(0.1)).values()) == {"yes"}


@pytest.mark.parametrize(
    ("engine", "figure"),
    [
        (outcome(late=0.16), "overshoot of the deadline, p99"),
        (outcome(hold=10 * KIB), "memory of a hold"),
        (outcome(slower=3.2), "healthy fetch, p99"),
        (outcome(after=replace(REST, blocks=1060)), "memory in use afterwards"),
        (outcome(after=replace(REST, memory=1060 * KIB)), "resident memory afterwards"),
        (outcome(after=replace(REST, descriptors=11)), "file descriptors afterwards"),
    ],
)
def test_an_aim_is_missed(engine: Outcome, figure: str) -> None:
    missed = [name for name, met in verdicts(engine, outcome()).items() if met == "NO"]
    assert missed == [figure]


def test_figures_are_medians_over_the_runs() -> None:
    runs = [
        outcome(late=late, hold=hold, slower=slow) for late, hold, slow in ((1, 1, 1), (2, 2, 2), (9, 9, 9))
    ]
    assert overshoot(runs, 99) == 2
    assert bytes_per_hold(runs, ATTACK) == 2
    assert slowdown(runs, "held") == pytest.approx(2)
    assert set(growth(runs).values()) == {0}


def test_percentiles() -> None:
    values = [float(value) for value in range(101)]
    assert [percentile(values, percent) for percent in (1, 50, 99)] == [1, 50, 99]
    assert percentile([3.0], 99) == 3.0
    assert percentile([], 99) != percentile([], 99)


def test_what_ended_otherwise_is_told() -> None:
    odd = replace(outcome(), endings={"no answer: a response": 2}, failures={"OSError: lost": 1})
    told = report({ATTACK: {ENGINE: [odd]}})
    assert "4,000 holds, plain: tidegate: 2 times no answer: a response." in told
    assert "1 times healthy fetch: OSError: lost." in told


def test_what_is_said_between_processes_survives() -> None:
    assert Outcome.from_json(outcome().to_json()) == outcome()
    job = Job(ATTACK, {"plain": 1}, "ca.pem", None, 2.0)
    assert Job.from_json(job.to_json()) == job


def test_plots(tmp_path: Path) -> None:
    from tests.load.plot import plot

    runs = {client: [outcome()] for client in CLIENTS}
    plot(dict.fromkeys(ATTACKS, runs), tmp_path / "load.svg")
    drawn = (tmp_path / "load.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<?xml")
    for client in CLIENTS:
        assert f">{client}</text>" in drawn


def test_holds_that_never_got_to_their_phase_are_told() -> None:
    """A hold that still waits for its connection when the deadline strikes says nothing of its attack."""
    first = holds_of("http")[0]
    at_work = replace(outcome(), phases={first.title: {first.phase: 3_600, "connect": 300, "admit": 100}})
    told = report({ATTACK: {ENGINE: [at_work], BARE: [outcome()]}})
    assert "- 4,000 holds, plain: tidegate: 10.0% of the holds never got to their phase." in told
    assert told.count("never got") == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_every_phase_in_which_a_peer_can_hold_is_in_an_attack(scheme: str) -> None:
    phases = {hold.phase for hold in holds_of(scheme)}
    assert phases == {"send", "head", "content"} | ({"tls"} if scheme == "https" else set())
    assert len({hold.title for hold in holds_of(scheme)}) == len(holds_of(scheme))


@pytest.mark.parametrize(("last", "grown"), [(1000, 0.0), (1100, 0.1), (900, -0.1)])
def test_growth_of_a_soak(last: int, grown: float) -> None:
    rounds = [Round(10, replace(REST, blocks=blocks)) for blocks in [1000] * 4 + [5000] * 4 + [last] * 4]
    assert growth_of_rounds([one.resources.blocks for one in rounds]) == pytest.approx(grown)
    told = report_of_soak(rounds, Counter({"good": 3}))
    assert f"{grown:+.1%}" in told
