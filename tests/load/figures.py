"""What is read off an attack on one client: each figure is the median over the runs."""

from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import median, quantiles
from typing import TypeAlias

from tests.load.job import BEFORE, ENDING, HELD, OPENING, Outcome
from tests.load.plan import Attack, holds_of

Runs: TypeAlias = Sequence[Outcome]
Results: TypeAlias = Mapping[Attack, Mapping[str, Runs]]
"""What each attack did to each client."""

UNDER_ATTACK = (OPENING, HELD, ENDING)

_RESOURCES = {"memory in use": "blocks", "resident memory": "memory", "file descriptors": "descriptors"}


def overshoot(runs: Runs, percent: int) -> float:
    """Seconds past the deadline that so many percent of the holds do not exceed."""
    return median(percentile(overshoots(run), percent) for run in runs)


def bytes_per_hold(runs: Runs, attack: Attack) -> float:
    """Resident memory that an open hold costs."""
    return median((run.held - run.before.memory) / attack.holds for run in runs)


def slowdown(runs: Runs, *stages: str) -> float:
    """p99 of healthy fetches in these stages over that before the attack."""
    return median(
        percentile(latencies(run, *stages), 99) / percentile(latencies(run, BEFORE), 99) for run in runs
    )


def growth(runs: Runs) -> dict[str, float]:
    """What the process has after the attack beyond what it had before, as shares of that."""
    return {
        what: median(getattr(run.after, field) / getattr(run.before, field) - 1 for run in runs)
        for what, field in _RESOURCES.items()
    }


def elsewhere(runs: Runs, attack: Attack) -> float:
    """The share of holds whose deadline struck in another phase than planned; 0 where a client tells none."""
    planned = {hold.title: hold.phase for hold in holds_of(attack.scheme)}
    return median(
        sum(
            number
            for title, phases in run.phases.items()
            for phase, number in phases.items()
            if phase != planned[title]
        )
        / attack.holds
        for run in runs
    )


def overshoots(run: Outcome) -> list[float]:
    """Seconds past the deadline, of every hold."""
    return list(chain.from_iterable(run.overshoots.values()))


def latencies(run: Outcome, *stages: str) -> list[float]:
    """Seconds of every healthy fetch of these stages."""
    return list(chain.from_iterable(run.latencies[stage] for stage in stages))


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that `percent` of the values do not exceed; nan without values."""
    if len(values) < 2:
        return values[0] if values else float("nan")
    return quantiles(values, n=100, method="inclusive")[percent - 1]
