"""Reading an audit log, line by line, whatever stands in it."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

MAX_LINE: Final = 64 * 1024
"""Bytes of the longest line that is read; `AuditLog` writes about 500."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log, of which nothing is certain but its time and its kind.

    Attributes:
        event: `hop`, `call` or `lost`.
        time: seconds since the epoch; 0.0 for `lost`.
        facts: the rest.
    """

    event: str
    time: float
    facts: dict[str, Any]

    def text(self, name: str) -> str | None:
        """A fact that is a text or a whole number, as text; None for anything else."""
        value = self.facts.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return value if isinstance(value, str) else None

    def number(self, name: str) -> float:
        """A fact that is a finite number of at least 0; 0.0 for anything else."""
        return _number(self.facts.get(name))

    def seconds(self) -> Iterator[tuple[str, float]]:
        """How long each phase took."""
        seconds = self.facts.get("seconds")
        if isinstance(seconds, dict):
            for phase, value in seconds.items():
                yield phase, _number(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return 0.0
    return number if math.isfinite(number) and number > 0 else 0.0


class LogReader:
    """Reads lines of any number of files.

    Attributes:
        unreadable: lines so far that were none of a log: torn by a full disk, or not ours.
    """

    def __init__(self) -> None:
        self.unreadable = 0

    def read(self, files: Iterable[BinaryIO]) -> Iterator[Line]:
        """The lines of all files, one after the other."""
        for file in files:
            for data in _split(file):
                if not data.strip():
                    continue
                line = _parse(data)
                if line is None:
                    self.unreadable += 1
                else:
                    yield line


def _split(file: BinaryIO) -> Iterator[bytes]:
    """The lines; of one that is too long only its first part, which is no JSON."""
    whole = True
    while data := file.readline(MAX_LINE):
        if whole:
            yield data
        whole = data.endswith(b"\n")


def _parse(data: bytes) -> Line | None:
    try:
        facts = json.loads(data)
        event = facts["event"]
        time = 0.0 if event == "lost" else _time(facts["time"])
    # Also for digits without end and for brackets without end.
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return Line(event, time, facts) if event in ("hop", "call", "lost") else None


def _time(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
