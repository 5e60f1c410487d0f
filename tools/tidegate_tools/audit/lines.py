"""Reading an audit log, line by line, whatever stands in it. What comes out of here is within bounds."""

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, cast

MAX_LINE: Final = 64 * 1024
"""Bytes of the longest line that is read; `AuditLog` writes about 500."""

LEAST: Final = 1e-9
MOST: Final = 1e15
"""The numbers that a fact can be, beside 0: bytes, seconds and counts. Sums of them stay far from infinity,
quotients far from 0."""

LAST_TIME: Final = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
"""Times are from 1970 to here, so that a little before and after one is a date still."""

_GZIP: Final = b"\x1f\x8b"
"""How a gzip member begins (RFC 1952 2.3.1)."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log, of which nothing is certain but its time and its kind.

    Attributes:
        event: `hop`, `call` or `lost`.
        time: seconds since the epoch, from 1970 to 2200; 0.0 for `lost`.
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
        """A fact that is a number from `LEAST` to `MOST`; 0.0 for anything else."""
        return _number(self.facts.get(name)) or 0.0

    def seconds(self) -> Iterator[tuple[str, float]]:
        """How long each phase took, as far as that is a number from 0 to `MOST`."""
        seconds = self.facts.get("seconds")
        if isinstance(seconds, dict):
            for phase, value in seconds.items():
                number = _number(value)
                if number is not None:
                    yield phase, number


def _number(value: object) -> float | None:
    """The number; None for what is none, or is out of bounds. A whole number may have thousands of digits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        return None
    return float(value) if value >= LEAST else 0.0


class LogReader:
    """Reads lines of any number of files, compressed by gzip or not.

    Attributes:
        read_lines: lines so far that were read.
        unreadable: lines so far that were none of a log: torn by a full disk, or not ours.
        broken: compressed files so far that end too early or are damaged; they are read as far as they go.
    """

    def __init__(self) -> None:
        self.read_lines = 0
        self.unreadable = 0
        self.broken = 0

    def read(self, files: Iterable[BinaryIO]) -> Iterator[Line]:
        """The lines of all files, one after the other."""
        for file in files:
            for data in self._pieces(file):
                if not data.strip():
                    continue
                line = _parse(data)
                if line is None:
                    self.unreadable += 1
                else:
                    self.read_lines += 1
                    yield line

    def _pieces(self, file: BinaryIO) -> Iterator[bytes]:
        """The lines of a file, unpacked if need be, and never more of it in memory than one line."""
        buffered = io.BufferedReader(cast(io.RawIOBase, file))
        try:
            if buffered.peek(len(_GZIP)).startswith(_GZIP):
                yield from self._unpacked(buffered)
            else:
                yield from _split(buffered)
        finally:
            with suppress(ValueError):  # the file is closed already
                buffered.detach()  # or it would close the file, which may be standard input

    def _unpacked(self, file: BinaryIO) -> Iterator[bytes]:
        try:
            yield from _split(cast(BinaryIO, gzip.GzipFile(fileobj=file)))
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.broken += 1


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
    time = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not 0 <= time < LAST_TIME:
        raise ValueError
    return time
