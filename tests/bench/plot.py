"""The plot, an SVG by hand: what each client costs beside the engine, and where the aims are."""

import math
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from tests.bench.report import ratio
from tests.bench.runs import Row
from tests.bench.works import ENGINE, SUBJECTS, Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart.
_COLOURS: Final = dict(
    zip(SUBJECTS, ("#000", "#999", "#56b4e9", "#0072b2", "#d55e00", "#009e73", "#cc79a7"), strict=True)
)
_LEFT, _WIDTH, _TOP, _LINE = 330, 560, 84, 34
_LOWEST, _HIGHEST = 1 / 4, 16.0
_TICKS: Final = (0.25, 0.5, 1, 2, 4, 8, 16)


def plot(rows: Sequence[Row]) -> str:
    """An SVG: a line for each row with clients but memory, a dot for each of them, a tick for each aim."""
    shown = [row for row in rows if row.work.has_clients and row.work.figure is not Figure.MEMORY]
    height = _TOP + _LINE * len(shown) + 20
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 30} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{_LEFT + _WIDTH + 30}" height="{height}" fill="#fff"/>',
        _text(16, 22, "Cost of a fetch, tidegate = 1 (further right is slower)", weight="bold"),
        *_legend(),
        *_axis(height),
        *(mark for place, row in enumerate(shown) for mark in _row(row, _TOP + _LINE * (place + 0.5))),
        "</svg>",
        "",
    ])  # fmt: skip


def _legend() -> Iterator[str]:
    x = 16.0
    for subject in SUBJECTS:
        if subject != ENGINE:
            yield _dot(x + 5, 42, subject)
            yield _text(x + 15, 46, subject)
            x += 32 + 7.2 * len(subject)
    yield _text(x, 46, "| where an aim wants the dot of that colour, or further right", colour="#555")


def _axis(height: float) -> Iterator[str]:
    for tick in _TICKS:
        x = _x(tick)
        colour = "#000" if tick == 1 else "#ddd"
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{height - 14}" stroke="{colour}"/>'
        yield _text(x, _TOP - 8, f"{tick:g}", anchor="middle", colour="#555")


def _row(row: Row, y: float) -> Iterator[str]:
    yield _text(_LEFT - 14, y + 4, row.work.title, anchor="end")
    for aim in row.work.aims:
        if aim.of in _COLOURS:
            x, stroke = _x(1 / aim.bound), f'stroke="{_COLOURS[aim.of]}" stroke-width="2"'
            yield f'<line x1="{x:.1f}" y1="{y - 12}" x2="{x:.1f}" y2="{y + 12}" {stroke}/>'
    for subject in SUBJECTS:
        measured = ratio(row, subject)
        if subject != ENGINE and measured is not None:
            yield _dot(_x(1 / measured.middle), y, subject)


def _x(cost: float) -> float:
    cost = min(max(cost, _LOWEST), _HIGHEST)
    return _LEFT + _WIDTH * math.log(cost / _LOWEST) / math.log(_HIGHEST / _LOWEST)


def _dot(x: float, y: float, subject: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{_COLOURS[subject]}"/>'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#000", weight: str = "normal"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}" font-weight="{weight}">{escape(text)}</text>'
