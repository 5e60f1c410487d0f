"""Plots as inline SVG: no script, no font, no file from elsewhere. Colours are classes of the style."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count as numbers
from typing import Final

from tidegate_tools.audit.marks import count, duration, escaped, moment, shortened, size, width
from tidegate_tools.audit.summary import SERIES, Latencies, Tally, Timeline

NAMES: Final = {
    "success": "let out",
    "would_deny": "would be refused",
    "blocked": "refused",
    "invalid": "invalid",
    "timeout": "timed out",
    "error": "failed",
    "cancelled": "given up",
}
"""What a series is called on the page."""

MOST_COLUMNS: Final = 96

_WIDE: Final = 1060
_HALF: Final = 510
_ROW: Final = 26
_LABEL: Final = 168
_EM: Final = 12
"""The size of the letters of labels and values, as the style has it."""


def _svg(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(title)}">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escaped(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, kind: str, title: str) -> str:
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" class="{kind}">'
        f"<title>{escaped(title)}</title></rect>"
    )


# By time ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the columns of a plot by time stand."""

    first: int
    columns: int
    step: int
    top: float
    height: int

    LEFT = 66
    TOP = 12
    BOTTOM = 26

    @property
    def column(self) -> float:
        return (_WIDE - self.LEFT - 4) / self.columns

    def x(self, number: int) -> float:
        return self.LEFT + (number - self.first) * self.column

    def y(self, value: float) -> float:
        inner = self.height - self.TOP - self.BOTTOM
        return self.TOP + inner * (1 - value / self.top)


def _frame(timeline: Timeline, top: float, height: int) -> _Frame:
    # A log of one moment gets a plot of some width, too.
    columns = max(timeline.span, 12)
    return _Frame(min(timeline.buckets), columns, timeline.step, top, height)


def by_time(timeline: Timeline) -> str:
    """Columns of requests and calls, stacked by what became of them."""
    ticks = nice_ticks(max(tally.count for tally in timeline.buckets.values()), whole=True)
    frame = _frame(timeline, ticks[-1], 250)
    columns = _stacked_columns(timeline, frame, ticks)
    return _svg(_WIDE, frame.height, "Requests and refusals by time", columns)


def _stacked_columns(timeline: Timeline, frame: _Frame, ticks: Sequence[float]) -> Iterator[str]:
    yield from _axes(frame, ticks, count)
    for number, tally in sorted(timeline.buckets.items()):
        below = 0.0
        when = moment(number * frame.step)
        for series in _present(tally):
            value = tally.series[series]
            title = f"{when}: {count(value)} {NAMES[series]}"
            yield _column(frame, number, below, below + value, series, title)
            below += value


def bytes_by_time(timeline: Timeline) -> str:
    """Columns of content bytes received."""
    ticks = nice_ticks(max(tally.wire_bytes for tally in timeline.buckets.values()))
    frame = _frame(timeline, ticks[-1], 160)
    parts = [
        *_axes(frame, ticks, size),
        *(
            _column(
                frame,
                number,
                0,
                tally.wire_bytes,
                "bytes",
                f"{moment(number * frame.step)}: {size(tally.wire_bytes)}",
            )
            for number, tally in sorted(timeline.buckets.items())
        ),
    ]
    return _svg(_WIDE, frame.height, "Bytes received by time", parts)


def _column(frame: _Frame, number: int, low: float, high: float, kind: str, title: str) -> str:
    gap = min(1.5, frame.column / 4)
    # What is there at all must be seen.
    height = max(frame.y(low) - frame.y(high), 1.0 if high > low else 0.0)
    return _rect(frame.x(number), frame.y(low) - height, frame.column - gap, height, kind, title)


def _axes(frame: _Frame, ticks: Sequence[float], label: Callable[[float], str]) -> Iterator[str]:
    for value in ticks:
        y = frame.y(value)
        kind = "base" if value == 0 else "grid"
        yield f'<line x1="{frame.LEFT}" x2="{_WIDE}" y1="{y:.1f}" y2="{y:.1f}" class="{kind}"/>'
        yield _text(frame.LEFT - 8, y + 4, label(value), "axis", "end")
    every = max(1, math.ceil(frame.columns / 8))
    for number in range(frame.first, frame.first + frame.columns, every):
        yield _text(frame.x(number), frame.height - 6, _tick(number * frame.step, frame), "axis")


def _tick(seconds: int, frame: _Frame) -> str:
    when = datetime.fromtimestamp(seconds, UTC)
    if frame.step >= 86_400:
        return when.strftime("%Y-%m-%d")
    clock = when.strftime("%H:%M:%S" if frame.step < 60 else "%H:%M")
    return clock if frame.step * frame.columns < 86_400 else f"{when.strftime('%b')} {when.day}, {clock}"


def nice_ticks(most: float, *, whole: bool = False) -> list[float]:
    """From 0 in round steps to just above `most`: four to six of them, fewer for small whole numbers."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    if whole:
        step = max(step, 1.0)
    ticks = []
    for number in numbers():
        ticks.append(number * step)
        if ticks[-1] >= most:
            return ticks
    raise AssertionError("unreachable")


def _present(tally: Tally) -> list[str]:
    return [series for series in SERIES if tally.series[series]]


# By name ----------------------------------------------------------------------------------------------


def tallies_by_name(title: str, tallies: Mapping[str, Tally], most: int) -> str:
    """Bars of requests by host, agent and so on, stacked by what became of them; the busiest first."""
    rows = sorted(tallies.items(), key=lambda item: (-item[1].count, item[0]))
    shown, rest = rows[:most], rows[most:]
    if rest:
        others = Tally()
        for _, tally in rest:
            others.absorb(tally)
        shown.append((f"{count(len(rest))} others", others))
    top = max(tally.count for _, tally in shown)
    space = _space(_told(tally) for _, tally in shown)
    parts = [part for number, row in enumerate(shown) for part in _tally_row(number, *row, space / top)]
    return _svg(_HALF, len(shown) * _ROW + 4, title, parts)


def _space(values: Iterable[str]) -> float:
    """How long a bar may be beside its label and the widest of the values."""
    return _HALF - _LABEL - 12 - _EM * max(map(width, values))


def _told(tally: Tally) -> str:
    return f"{count(tally.count)} · {size(tally.wire_bytes)}" if tally.wire_bytes else count(tally.count)


def _tally_row(number: int, name: str, tally: Tally, each: float) -> Iterator[str]:
    yield _name(number, name)
    x = float(_LABEL)
    for series in _present(tally):
        value = tally.series[series]
        long = max(value * each, 1.5)
        title = f"{name}: {count(value)} {NAMES[series]}"
        yield _rect(x, number * _ROW + 6, long, _ROW - 10, series, title)
        x += long
    yield _text(x + 7, number * _ROW + 19, _told(tally), "value")


def _name(number: int, name: str) -> str:
    label = escaped(shortened(name, (_LABEL - 10) / _EM))
    return (
        f'<text x="{_LABEL - 10}" y="{number * _ROW + 19}" class="label" text-anchor="end">'
        f"{label}<title>{escaped(name)}</title></text>"
    )


def counts_by_name(title: str, counts: Sequence[tuple[str, int, str]]) -> str:
    """Bars of plain counts: name, count, and the series whose colour it has."""
    each = _space(count(value) for _, value, _ in counts) / max(value for _, value, _ in counts)
    parts = []
    for number, (name, value, series) in enumerate(counts):
        long = max(value * each, 1.5)
        told = f"{name}: {count(value)} {NAMES[series]}"
        parts += [
            _name(number, name),
            _rect(_LABEL, number * _ROW + 6, long, _ROW - 10, series, told),
            _text(_LABEL + long + 7, number * _ROW + 19, count(value), "value"),
        ]
    return _svg(_HALF, len(counts) * _ROW + 4, title, parts)


# Latency ----------------------------------------------------------------------------------------------

_QUANTILES: Final = (0.5, 0.9, 0.99)

_TICK_LABEL: Final = 50
"""How wide a label of the axis may be."""


def latency_by_phase(latencies: Mapping[str, Latencies], phases: Sequence[str]) -> str:
    """Half, nine tenths and 99 % of the times of each phase, on a logarithmic scale."""
    shown = [phase for phase in phases if phase in latencies]
    values = {phase: [latencies[phase].quantile(share) for share in _QUANTILES] for phase in shown}
    decades = _Decades.around(time for times in values.values() for time in times)
    height = len(shown) * _ROW + 30
    parts = [*_decade_lines(decades, height)]
    for number, phase in enumerate(shown):
        parts += _latency_row(number, phase, values[phase], latencies[phase].count, decades)
    return _svg(_HALF, height, "Latency by phase", parts)


@dataclass(frozen=True, slots=True)
class _Decades:
    """A logarithmic axis over whole decades."""

    low: int
    high: int

    LEFT = 76
    RIGHT = 176

    @classmethod
    def around(cls, values: Iterable[float]) -> "_Decades":
        logs = [math.log10(value) for value in values]
        low = math.floor(min(logs))
        return cls(low, max(math.ceil(max(logs)), low + 1))

    def x(self, seconds: float) -> float:
        part = (math.log10(seconds) - self.low) / (self.high - self.low)
        return self.LEFT + part * (_HALF - self.LEFT - self.RIGHT)


def _decade_lines(decades: _Decades, height: int) -> Iterator[str]:
    apart = decades.x(10.0 ** (decades.low + 1)) - decades.x(10.0**decades.low)
    every = math.ceil(_TICK_LABEL / apart)
    for power in range(decades.low, decades.high + 1):
        x = decades.x(10.0**power)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="2" y2="{height - 20}" class="grid"/>'
        if (power - decades.low) % every == 0:
            yield _text(x, height - 5, duration(10.0**power), "axis", "middle")
    yield _text(_HALF, height - 5, "p50 · p90 · p99", "axis", "end")


def _latency_row(
    number: int, phase: str, times: Sequence[float], measured: int, decades: _Decades
) -> Iterator[str]:
    y = number * _ROW + 15
    half, most, nearly_all = map(decades.x, times)
    told = " · ".join(map(duration, times))
    title = f"{phase}: {told} (p50, p90, p99 of {count(measured)})"
    yield _text(decades.LEFT - 10, y + 4, phase, "label", "end")
    yield f'<line x1="{half:.1f}" x2="{nearly_all:.1f}" y1="{y}" y2="{y}" class="range"/>'
    for x, radius, kind in ((nearly_all, 3.5, "p99"), (most, 4.5, "p90"), (half, 5.5, "p50")):
        hint = f"<title>{escaped(title)}</title>"
        yield f'<circle cx="{x:.1f}" cy="{y}" r="{radius}" class="{kind}">{hint}</circle>'
    yield _text(_HALF, y + 4, told, "value", "end")
