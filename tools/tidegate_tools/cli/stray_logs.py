"""Warnings of libraries that nobody has asked for: one short line each, which cannot drive a terminal.

Python itself would write them as they are. The MCP SDK warns of fields that a stranger has sent, and logs
the traceback of an error, which may hold anything.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidegate_tools.cli.terminal import say

LONGEST: Final = 200
"""Characters of a message."""


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # its text and its arguments do not go together
            message = "a message that cannot be shown"
        cut = "..." if len(message) > LONGEST else ""
        what = f" ({record.exc_info[0].__name__})" if record.exc_info and record.exc_info[0] else ""
        say(f"tidegate: {record.name}: {message[:LONGEST]}{cut}{what}")


@contextmanager
def stray_logs() -> Iterator[None]:
    """Show what has no handler like this, for the length of a block."""
    before = logging.lastResort
    logging.lastResort = _Lines(logging.WARNING)
    try:
        yield
    finally:
        logging.lastResort = before
