"""Tables in Markdown that read well in a terminal, too."""

from collections.abc import Sequence


def table(lines: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, its columns aligned; nothing if there is but a heading."""
    if len(lines) < 2:
        return []
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head, *body = (
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )
    return [head, "|" + "|".join("-" * (width + 2) for width in widths) + "|", *body]
