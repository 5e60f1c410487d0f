"""What was measured, as ratios: verdicts on the aims, and tables in Markdown for page and terminal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

from tests.bench.runs import Row
from tests.bench.servers import Wire
from tests.bench.works import ENGINE, SUBJECTS, Aim, Figure, Work
from tests.support.markdown import table

_TOLERATED: Final = 0.1
"""The share of fetches that may open a connection where one is kept; more is remarked upon."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure over another's, turn by turn; for memory, the figure itself.

    Attributes:
        middle: the median.
        low: a quarter of the turns lies below.
        high: a quarter of the turns lies above.
    """

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Ratio":
        """The ratio of a list of one for each turn."""
        low, middle, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
        return cls(middle, low, high)


def ratio(row: Row, other: str | None, who: str = ENGINE) -> Ratio | None:
    """The figures of `who` over those of `other`, turn by turn, since neighbours share their weather.

    Without another one, the figures themselves. None if either was not measured.
    """
    ours = row.figures.get(who)
    if other is None:
        return Ratio.of(ours) if ours else None
    theirs = row.figures.get(other)
    if not ours or not theirs:
        return None
    return Ratio.of([one / another for one, another in zip(ours, theirs, strict=True)])


def is_met(aim: Aim, measured: Ratio) -> bool:
    """Whether an aim is met, to the two digits that are shown."""
    return round(measured.middle, 2) <= aim.bound


def report(rows: Sequence[Row]) -> str:
    """All tables."""
    return "\n".join([*_aims(rows), "", *_clients(rows), "", *_remarks(rows)])


def _aims(rows: Iterable[Row]) -> list[str]:
    lines: list[Sequence[str]] = [("work", "figure", "aim", "measured", "middle half", "met")]
    for row in rows:
        for aim in row.work.aims:
            measured = ratio(row, aim.of, aim.who)
            if measured is not None:
                lines.append(_aim(row, aim, measured))
    return table(lines)


def _aim(row: Row, aim: Aim, measured: Ratio) -> tuple[str, ...]:
    return (
        row.work.title if aim.who == ENGINE else f"{row.work.title}, {aim.who}",
        row.work.figure.value,
        f"at most {aim.bound:g} of {aim.of}" if aim.of else f"at most {aim.bound:g}",
        f"{measured.middle:.2f}",
        f"{measured.low:.2f} to {measured.high:.2f}",
        "yes" if is_met(aim, measured) else "NO",
    )


def _clients(rows: Iterable[Row]) -> list[str]:
    """The engine over every client, memory as it is."""
    others = [subject for subject in SUBJECTS if subject != ENGINE]
    lines: list[Sequence[str]] = [("engine over ...", *others)]
    memory: list[Sequence[str]] = [("MiB beside the content", *SUBJECTS)]
    for row in rows:
        if row.work.figure is Figure.MEMORY:
            memory.append((row.work.title, *(_median(row, subject) for subject in SUBJECTS)))
        elif row.work.has_clients:
            lines.append((row.work.title, *(_ratio(row, subject) for subject in others)))
    return [*table(lines), "", *table(memory)]


def _ratio(row: Row, subject: str) -> str:
    measured = ratio(row, subject)
    return "" if measured is None else f"{measured.middle:.2f}"


def _median(row: Row, subject: str) -> str:
    figures = row.figures.get(subject)
    return f"{median(figures):.1f}" if figures else ""


def _remarks(rows: Iterable[Row]) -> list[str]:
    """What nginx saw that a reader of the tables must know."""
    return [
        f"- {row.work.title}: {subject} {remark}."
        for row in rows
        for subject, wire in row.wires.items()
        if wire.requests
        for remark in _remarks_on(row.work, wire)
    ]


def _remarks_on(work: Work, wire: Wire) -> Iterator[str]:
    opened = wire.connections / wire.requests
    if work.keeps_connections and opened > _TOLERATED:
        yield f"opened a connection for {opened:.0%} of its fetches, not only for the first"
    if work.opens_connections and wire.connections < wire.requests:
        yield f"opened a connection only for {opened:.0%} of its fetches"
    if wire.resumed:
        yield f"resumed a TLS session for {wire.resumed / wire.requests:.0%} of its fetches"
