"""A log added up: who went where, what was refused and why, how long it took. In bounded memory.

What counts is a request, which has a line of its own (`hop`), and a call of a tool that was refused, failed
or given up when no request of it was: nothing but its own line (`call`) tells of that. Every other call is
told by its requests, and is not counted again.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tidegate import Reason
from tidegate_tools.audit.lines import Line

SERIES: Final = ("success", "would_deny", "blocked", "invalid", "timeout", "error", "cancelled")
"""What became of a request or call, in the order in which it is drawn."""

REFUSED: Final = ("blocked", "invalid")
FAILED: Final = ("timeout", "error")

PHASES: Final = ("admit", "authorize", "resolve", "connect", "tls", "send", "head", "content")

_OUTCOMES: Final = frozenset(SERIES) - {"success", "would_deny"}
_REASONS: Final = frozenset[str](Reason)

# Bounds of what is kept, whatever the log is like.
_MOST_BUCKETS: Final = 2048
_MOST_NAMES: Final = 20_000
REST: Final = "(others)"
NONE: Final = "(none)"
"""What stands for a host, an agent or a reason that a line does not tell."""

# Latencies by their logarithm: 24 bins a decade are 10 % wide.
_BINS: Final = 24
_SHORTEST: Final = 1e-5


@dataclass(slots=True)
class Tally:
    """Requests and calls by what became of them, and their bytes."""

    series: Counter[str] = field(default_factory=Counter)
    wire_bytes: float = 0.0

    @property
    def count(self) -> int:
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
        """Count one."""
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


@dataclass(slots=True)
class Tallies:
    """What was counted, in total and by what.

    Attributes:
        total: all of it.
        timeline: the same by time.
        hosts: requests by host.
        agents: all of it by agent.
        reasons: how often each reason for a refusal or failure came, each with the series that it is of.
        reported: the reasons of a host list on trial.
        first: when the first one began, in seconds since the epoch; None if there is none.
        last: when the last one did.
    """

    total: Tally = field(default_factory=Tally)
    timeline: Timeline = field(default_factory=Timeline)
    hosts: dict[str, Tally] = field(default_factory=dict)
    agents: dict[str, Tally] = field(default_factory=dict)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    reported: Counter[str] = field(default_factory=Counter)
    first: float | None = None
    last: float | None = None

    def add(self, line: Line, *, sent: bool) -> None:
        """Count what a line tells of.

        Args:
            line: of a request or of a call.
            sent: the host and the bytes of the line count, which no other line tells of.
        """
        series, wire_bytes = series_of(line), line.number("wire_bytes") if sent else 0.0
        self.first = line.time if self.first is None else min(self.first, line.time)
        self.last = line.time if self.last is None else max(self.last, line.time)
        self.total.add(series, wire_bytes)
        self.timeline.add(line.time, series, wire_bytes)
        _named(self.agents, line.text("agent")).add(series, wire_bytes)
        if sent:
            _named(self.hosts, line.text("host")).add(series, wire_bytes)
        if series in REFUSED or series in FAILED:
            _count(self.reasons, (line.text("reason") or line.text("error") or NONE, series), (REST, series))
        if series == "would_deny" or line.text("reported"):
            _count(self.reported, line.text("reported") or NONE, REST)


class Summary:
    """What a log comes to.

    Attributes:
        requests: lines of requests.
        calls: lines of calls of tools.
        untold: those of them that no request tells of.
        claimed: requests that calls say they sent.
        latencies: by phase.
        reused: requests over a connection that was there already.
        answered: requests with a response.
        lost: lines that the log says it lost.
        unreadable: lines that could not be read.
        broken: compressed files that end too early or are damaged.
    """

    def __init__(self) -> None:
        self._tallies = Tallies()
        self._of_calls = Tallies()
        self.requests = self.calls = self.untold = self.claimed = 0
        self.latencies: dict[str, Latencies] = {}
        self.reused = self.answered = 0
        self.lost = self.unreadable = self.broken = 0

    @property
    def tallies(self) -> Tallies:
        """What was counted. In a log without a line of a request, calls that sent some count themselves."""
        return self._tallies if self.requests else self._of_calls

    @property
    def missing(self) -> int:
        """Requests that calls say they sent, and that have no line here: the engine has another observer."""
        return max(self.claimed - self.requests, 0)

    def add(self, line: Line) -> None:
        """Take in one line."""
        if line.event == "lost":
            self.lost += int(line.number("lines"))
        elif line.event == "call":
            self._add_call(line)
        else:
            self._add_request(line)

    def _add_call(self, line: Line) -> None:
        sent, untold = requests_of(line), is_untold(line)
        self.calls += 1
        self.claimed += sent
        self.untold += untold
        if untold:
            self._tallies.add(line, sent=False)
        if not self.requests and (sent or untold):
            self._of_calls.add(line, sent=bool(sent))

    def _add_request(self, line: Line) -> None:
        self.requests += 1
        self._tallies.add(line, sent=True)
        if line.text("status") is not None:
            self.answered += 1
            self.reused += line.facts.get("reused") is True
        for phase, seconds in line.seconds():
            if phase in PHASES:
                self.latencies.setdefault(phase, Latencies()).add(seconds)


def _named(tallies: dict[str, Tally], name: str | None) -> Tally:
    key = NONE if name is None else name
    return tallies.setdefault(key if key in tallies or len(tallies) < _MOST_NAMES else REST, Tally())


_Key = TypeVar("_Key")


def _count(counter: Counter[_Key], key: _Key, rest: _Key) -> None:
    counter[key if key in counter or len(counter) < _MOST_NAMES else rest] += 1


def series_of(line: Line) -> str:
    """What became of a request or call; for one that a list on trial let out, that comes before success."""
    outcome, decision = line.text("outcome"), line.text("decision")
    if outcome in _OUTCOMES:
        return outcome
    if outcome != "success":  # none, or one of another version: the rest of the line may tell
        if decision == "denied":
            return "blocked"
        if line.text("reason") or line.text("error"):
            return "error"
    return "would_deny" if decision == "would_deny" else "success"


def requests_of(line: Line) -> int:
    """How many requests a call says it sent, each of which has a line of its own."""
    return int(line.number("hops"))


def is_untold(line: Line) -> bool:
    """Whether a call was refused, failed or was given up, and no line of a request says so.

    Without a request there is none that could: the agent has no grant for the tool, the arguments are wrong.
    With some, the engine's reason stands at one of them, too. A tool that refuses or fails when all of them
    were answered gives none of the engine's reasons: robots.txt forbids the page, the result has no form.
    """
    if series_of(line) in ("success", "would_deny"):
        return False
    if not requests_of(line):
        return True
    answered = line.text("status") is not None and line.text("outcome") != "cancelled"
    return answered and line.text("reason") not in _REASONS


def summarise(lines: Iterable[Line]) -> Summary:
    """Add up a log."""
    summary = Summary()
    for line in lines:
        summary.add(line)
    return summary
