"""Lines into a file or to standard error from a thread of its own, so that nobody who logs ever waits."""

import errno
import json
import logging
import os
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Protocol

_log: Final = logging.getLogger("tidegate.audit")
_log.addHandler(logging.NullHandler())  # quiet until the program that uses us sets logging up


_PAUSE: Final = 0.05
"""Seconds that a line may wait for others. Picked without measuring: short for who watches a log."""


class Sink(Protocol):
    """Where lines go. Only the writer's thread calls it."""

    def write(self, line: bytes) -> None:
        """Write one line, its line feed included, or raise OSError."""

    def close(self) -> None:
        """Let go of what is open."""


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = os.write(descriptor, rest)
        if not written:
            raise OSError(errno.EIO, "nothing was written")
        rest = rest[written:]


class StandardError:
    """Standard error of this process."""

    def write(self, line: bytes) -> None:
        """See `Sink`."""
        _write_all(2, line)

    def close(self) -> None:
        """See `Sink`."""


class RotatingFile:
    """A file that is renamed to `NAME.1`, and that to `NAME.2` and so on, before it grows too large.

    Only the user may read it. One process writes to one file: two would rename it under each other.

    Args:
        path: the file; it is appended to. Its directory must exist.
        max_bytes: how large it may grow, unless a single line is larger.
        keep: how many old files are kept, at least one.

    Raises:
        ValueError: a bound is out of range.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int, keep: int) -> None:
        if max_bytes < 1 or keep < 1:
            raise ValueError("max_bytes and keep of an audit file must be at least 1")
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._keep = keep
        self._descriptor: int | None = None
        self._size = 0
        self._torn = False

    def write(self, line: bytes) -> None:
        """See `Sink`."""
        descriptor = self._open()
        if self._size and self._size + len(line) > self._max_bytes:
            self._rotate()
            descriptor = self._open()
        if self._torn:
            # A failed write left half a line behind; what comes now must not be taken for the rest of it.
            line = b"\n" + line
        self._torn = True
        _write_all(descriptor, line)
        self._torn = False
        self._size += len(line)

    def _open(self) -> int:
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o600)
            self._size = os.fstat(self._descriptor).st_size
        return self._descriptor

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))
        self._torn = False

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def close(self) -> None:
        """See `Sink`."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with suppress(OSError):  # a write error that the system tells late; the descriptor is gone
                os.close(descriptor)


class LineWriter:
    """Takes objects at once and writes each as a line of JSON a little later.

    Args:
        sink: where the lines go.
        max_queue: how many may wait; what comes beyond that is lost, and counted.
    """

    def __init__(self, sink: Sink, *, max_queue: int) -> None:
        self._state = _State(sink)
        self._max_queue = max_queue
        self._thread = threading.Thread(target=self._state.run, name="tidegate-audit", daemon=True)
        self._thread.start()
        # At exit too, for who forgets to close. Holds no reference to this object.
        self._finish = weakref.finalize(self, _finish, self._state, self._thread)

    def put(self, line: Mapping[str, object]) -> None:
        """Take a line. Never waits, never raises; `line` must not change any more."""
        if not self._finish.alive or self._state.queue.qsize() >= self._max_queue:
            self._state.lose("the queue is full" if self._finish.alive else "the log is closed")
        else:
            self._state.queue.put(line)

    @property
    def lost(self) -> int:
        """Lines that could not be written so far."""
        return self._state.lost

    def close(self, timeout: float) -> None:
        """Write what waits, for at most `timeout` seconds, and stop. Harmless when it is done already."""
        if self._finish.alive:
            self._finish.detach()
            _finish(self._state, self._thread, timeout)


def _finish(state: "_State", thread: threading.Thread, timeout: float = 5.0) -> None:
    state.closing.set()
    state.queue.put(None)
    thread.join(timeout)


class _State:
    """What the thread works on."""

    def __init__(self, sink: Sink) -> None:
        self.queue: SimpleQueue[Mapping[str, object] | None] = SimpleQueue()
        self.closing = threading.Event()
        self.lost = 0
        self._told = 0
        self._sink = sink
        self._lock = threading.Lock()

    def run(self) -> None:
        while (line := self._next()) is not None:
            self._write(line)
        self._sink.close()

    def _next(self) -> Mapping[str, object] | None:
        if not self.queue.empty():
            return self.queue.get()
        line = self.queue.get()
        # Rather several lines at a time than a switch of threads for each.
        self.closing.wait(_PAUSE)
        return line

    def _write(self, line: Mapping[str, object]) -> None:
        lost = self.lost
        try:
            if lost > self._told:
                self._sink.write(encode_line({"event": "lost", "lines": lost - self._told}))
                self._told = lost
            self._sink.write(encode_line(line))
        except Exception as error:  # whatever it is: the thread goes on
            self._sink.close()
            self.lose(getattr(error, "strerror", None) or type(error).__name__)

    def lose(self, why: str) -> None:
        with self._lock:
            self.lost += 1
            first = self.lost == 1
        if first:  # then the count is in `lost`, and in the log itself once it can be written again
            _log.warning("audit lines are being lost: %s", why)


def encode_line(line: Mapping[str, object]) -> bytes:
    """One line of JSON in ASCII, so that nothing in it can end the line or confuse a terminal."""
    return _encode(line).encode("ascii") + b"\n"


def _name_of_type(value: object) -> str:
    # What JSON does not know might show anything when it is printed.
    return f"<{type(value).__name__}>"


_encode: Final = json.JSONEncoder(separators=(",", ":"), default=_name_of_type).encode
