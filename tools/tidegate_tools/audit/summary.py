"""A log added up: who went where, what was refused and why, how long it took. In bounded memory."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tidegate_tools.audit.lines import Line

SERIES: Final = ("success", "would_deny", "blocked", "invalid", "timeout", "error", "cancelled")
"""What became of a request, in the order in which it is drawn."""

PHASES: Final = ("admit", "authorize", "resolve", "connect", "tls", "send", "head", "content")

_OUTCOMES: Final = frozenset(SERIES) - {"success", "would_deny"}

# Bounds of what is kept, whatever the log is like.
_MOST_BUCKETS: Final = 2048
_MOST_NAMES: Final = 20_000
REST: Final = "(others)"

# Latencies by their logarithm: 24 bins a decade are 10 % wide.
_BINS: Final = 24
_SHORTEST: Final = 1e-5


@dataclass(slots=True)
class Tally:
    """Requests by what became of them, and their bytes."""

    series: Counter[str] = field(default_factory=Counter)
    wire_bytes: float = 0.0

    @property
    def requests(self) -> int:
        """All of them."""
        return self.series.total()

    def add(self, series: str, wire_bytes: float) -> None:
        """Count one."""
        self.series[series] += 1
        self.wire_bytes += wire_bytes

    def absorb(self, other: "Tally") -> None:
        """Add another one."""
        self.series.update(other.series)
        self.wire_bytes += other.wire_bytes


# Each a multiple of the one before: seconds, minutes, hours, days, weeks, and years of 52 weeks.
_STEPS: Final = (
    *(1, 5, 15, 60, 300, 900, 3600, 10_800, 43_200, 86_400, 604_800, 2_419_200),
    *(31_449_600 * 10**power for power in range(5)),
)


class Timeline:
    """Tallies by time, in steps that grow with the time they cover.

    Attributes:
        step: seconds of one bucket.
        buckets: by the number of steps since the epoch.
    """

    def __init__(self) -> None:
        self.step = _STEPS[0]
        self.buckets: dict[int, Tally] = {}

    def add(self, time: float, series: str, wire_bytes: float) -> None:
        """Count one request."""
        self.buckets.setdefault(int(time // self.step), Tally()).add(series, wire_bytes)
        if len(self.buckets) > _MOST_BUCKETS:
            self._coarsen()

    @property
    def span(self) -> int:
        """Buckets from the first to the last, empty ones included."""
        return max(self.buckets) - min(self.buckets) + 1 if self.buckets else 0

    def fit(self, most: int) -> None:
        """Make steps so long that at most so many cover it all."""
        while self.span > most and self.step < _STEPS[-1]:
            self._coarsen()

    def _coarsen(self) -> None:
        step = next((step for step in _STEPS if step > self.step), self.step)
        ratio, fine = step // self.step, self.buckets
        self.step, self.buckets = step, {}
        for number, tally in fine.items():
            self.buckets.setdefault(number // ratio, Tally()).absorb(tally)


@dataclass(slots=True)
class Latencies:
    """How long one phase took, as a histogram."""

    bins: Counter[int] = field(default_factory=Counter)

    def add(self, seconds: float) -> None:
        """Count one."""
        self.bins[math.floor(math.log10(max(seconds, _SHORTEST)) * _BINS)] += 1

    @property
    def count(self) -> int:
        """How many."""
        return self.bins.total()

    def quantile(self, share: float) -> float:
        """The seconds that this share of them did not exceed, to within 10 %."""
        wanted, seen, number = share * self.count, 0, 0
        for number in sorted(self.bins):
            seen += self.bins[number]
            if seen >= wanted:
                break
        return float(10 ** ((number + 0.5) / _BINS))


class Summary:
    """What a log comes to.

    Attributes:
        total: all requests.
        timeline: the same by time.
        hosts: by host.
        agents: by agent.
        reasons: how often each reason for a refusal or failure came; `would_deny` ones apart.
        reported: reasons of a host list on trial.
        latencies: by phase.
        reused: requests over a connection that was there already.
        answered: requests with a response.
        calls: calls of tools.
        lost: lines that the log says it lost.
        unreadable: lines that could not be read.
        first: when the first request began, in seconds since the epoch; None if there is none.
        last: when the last one did.
    """

    def __init__(self) -> None:
        self.total = Tally()
        self.timeline = Timeline()
        self.hosts: dict[str, Tally] = {}
        self.agents: dict[str, Tally] = {}
        self.reasons: Counter[str] = Counter()
        self.reported: Counter[str] = Counter()
        self.latencies: dict[str, Latencies] = {}
        self.reused = self.answered = self.calls = 0
        self.lost = 0
        self.unreadable = 0
        self.first: float | None = None
        self.last: float | None = None

    def add(self, line: Line) -> None:
        """Take in one line."""
        if line.event == "lost":
            self.lost += int(line.number("lines"))
        elif line.event == "call":
            self.calls += 1
        else:
            self._add_hop(line)

    def _add_hop(self, line: Line) -> None:
        series, wire_bytes = series_of(line), line.number("wire_bytes")
        self.first = line.time if self.first is None else min(self.first, line.time)
        self.last = line.time if self.last is None else max(self.last, line.time)
        self.total.add(series, wire_bytes)
        self.timeline.add(line.time, series, wire_bytes)
        _named(self.hosts, line.text("host")).add(series, wire_bytes)
        _named(self.agents, line.text("agent")).add(series, wire_bytes)
        _count(self.reasons, line.text("reason"))
        _count(self.reported, line.text("reported"))
        if line.text("status") is not None:
            self.answered += 1
            self.reused += line.facts.get("reused") is True
        for phase, seconds in line.seconds():
            if phase in PHASES:
                self.latencies.setdefault(phase, Latencies()).add(seconds)


def _named(tallies: dict[str, Tally], name: str | None) -> Tally:
    key = "(none)" if name is None else name
    return tallies.setdefault(key if key in tallies or len(tallies) < _MOST_NAMES else REST, Tally())


def _count(counter: Counter[str], name: str | None) -> None:
    if name is not None:
        counter[name if name in counter or len(counter) < _MOST_NAMES else REST] += 1


def series_of(line: Line) -> str:
    """What became of a request; for one that a list on trial let out, that comes before success."""
    outcome = line.text("outcome")
    if outcome in _OUTCOMES:
        return outcome
    return "would_deny" if line.text("decision") == "would_deny" else "success"


def summarise(lines: Iterable[Line]) -> Summary:
    """Add up a log."""
    summary = Summary()
    for line in lines:
        summary.add(line)
    return summary
