"""`--timings`: when each phase of each hop began and how long it took, as lines of text."""

from collections.abc import Iterator

from tidegate import Phase
from tidegate_tools.cli.trace import Record, Span

_LABEL = 24
"""Columns that phase and milliseconds take."""

_NARROWEST = 10

# Phases that take no time worth a line unless something went wrong in them.
_BRIEF = frozenset({Phase.ADMIT, Phase.CHECK, Phase.REDIRECT})
_WORTH_A_LINE = 0.001


def waterfall(record: Record, width: int) -> Iterator[str]:
    """The lines of a waterfall.

    Args:
        record: of one fetch, finished or failed.
        width: of the terminal in columns.
    """
    spans = [span for span in record.spans if _is_shown(span)]
    total = max((span.start + span.duration for span in spans), default=0.0)
    columns = max(width - _LABEL - 2, _NARROWEST)
    for number, (method, url) in enumerate(record.requests):
        answer = f" -> {record.hops[number].status}" if number < len(record.hops) else ""
        yield f"hop {number}: {method} {url}{answer}"
        yield from (_line(span, total, columns) for span in spans if span.hop == number)
    if record.duration is not None:
        yield f"total {record.duration * 1000:.1f} ms"


def _is_shown(span: Span) -> bool:
    return span.failed or span.phase not in _BRIEF or span.duration >= _WORTH_A_LINE


def _line(span: Span, total: float, columns: int) -> str:
    scale = columns / total if total else 0.0
    start = min(int(span.start * scale), columns - 1)
    length = min(max(round(span.duration * scale), 1), columns - start)
    bar = " " * start + ("x" if span.failed else "=") * length
    return f"  {span.phase:<9}{span.duration * 1000:9.1f} ms |{bar:<{columns}}|"
