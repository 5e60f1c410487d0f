"""Lines of JSON, written by a thread of its own, so that nobody who logs ever waits."""

import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Final

from tidegate.telemetry.sinks import Sink, log

_PAUSE: Final = 0.05
"""Seconds that a line may wait for others. Picked without measuring: short for who watches a log."""

_TOO_LONG: Final = "closing took too long"


class LineWriter:
    """Takes objects at once and writes each as a line of JSON a little later.

    In a forked child it has a thread and a count of its own, and nothing of what waited in the parent.

    Args:
        sink: where the lines go.
        max_queue: how many may wait; what comes beyond that is lost, and counted.
        clock: the wall clock, in seconds since the epoch, for the lines that tell of lost ones.
    """

    def __init__(self, sink: Sink, *, max_queue: int, clock: Callable[[], float] = time.time) -> None:
        self._sink = sink
        self._max_queue = max_queue
        self._clock = clock
        self._begin()
        _writers.add(self)

    def _begin(self) -> None:
        self._work = _Work(self._sink, self._max_queue, self._clock)
        # At exit too, for who forgets to close. Holds no reference to this object.
        self._finish = weakref.finalize(self, self._work.finish)

    def begin_in_child(self) -> None:
        """Leave all that is half done to the parent."""
        closed = self._finish.detach() is None
        self._begin()
        if closed:
            self.close(0)

    def put(self, line: Mapping[str, object]) -> None:
        """Take a line. Never waits, never raises; `line` must not change any more."""
        self._work.put(line)

    @property
    def lost(self) -> int:
        """Lines that could not be written so far; once it is closed, all that were not."""
        return self._work.lost

    @property
    def lost_because(self) -> str | None:
        """Why the last of them was lost, None if none was."""
        return self._work.lost_because

    def close(self, timeout: float) -> None:
        """Write what waits, for at most `timeout` seconds, and stop. Harmless when it is done already."""
        if self._finish.detach() is not None:
            self._work.finish(timeout)


_writers: Final[weakref.WeakSet[LineWriter]] = weakref.WeakSet()


def _begin_in_child() -> None:
    for writer in list(_writers):
        writer.begin_in_child()


# Runs before anything else does in the child, where only the thread that forked lives on.
os.register_at_fork(after_in_child=_begin_in_child)


class _Work:
    """The lines of one process and the thread that writes them, which starts with the first."""

    def __init__(self, sink: Sink, max_queue: int, clock: Callable[[], float]) -> None:
        self.lost = 0
        self.lost_because: str | None = None
        self._sink = sink
        self._max_queue = max_queue
        self._clock = clock
        self._waiting: SimpleQueue[Mapping[str, object] | None] = SimpleQueue()
        self._closing = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None
        # Held for some assignments. Who holds it may come again: garbage collection runs anywhere.
        self._lock = threading.RLock()
        self._in_hand = 0
        self._told = 0
        self._outage = False

    # Called by whoever logs.

    def put(self, line: Mapping[str, object]) -> None:
        if self._waiting.qsize() >= self._max_queue:
            self._lose("the log is closed" if self._ended else "the queue is full")
            return
        self._waiting.put(line)
        if self._ended:  # asked afterwards: so either we see it, or `finish` sees the line
            self._drop("the log is closed")
        elif self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None or self._ended:
                return
            self._thread = threading.Thread(target=self._run, name="tidegate-audit", daemon=True)
            try:
                self._thread.start()
                return
            except RuntimeError:
                self._thread = None
        self._drop("no thread can be started")

    def finish(self, timeout: float = 5.0) -> None:
        self._closing.set()
        self._waiting.put(None)
        with self._lock:
            thread = self._thread
            self._ended = thread is None
        if thread is threading.current_thread():  # collected as garbage there, it ends by itself
            return
        if thread is not None:
            thread.join(timeout)
        else:
            self._sink.close()
        self._ended = True
        self._settle(_TOO_LONG)
        self._drop(_TOO_LONG)

    def _drop(self, why: str) -> None:
        lines = 0
        with suppress(Empty):
            while True:
                lines += self._waiting.get_nowait() is not None
        if self._closing.is_set():
            self._waiting.put(None)  # for the thread, should it ever come back from its disk
        self._lose(why, lines)

    def _lose(self, why: str, lines: int = 1) -> None:
        if not lines:
            return
        with self._lock:
            self.lost += lines
            self.lost_because = why
            begins, self._outage = not self._outage, True
        if begins:  # then the count is in `lost`, and in the log itself once it can be written again
            log.warning("audit lines are being lost: %s", why)

    # Called by the thread.

    def _run(self) -> None:
        while (line := self._next()) is not None:
            self._write(line)
        with suppress(Exception):  # those that it would have told of are counted
            self._tell_lost()
        self._sink.close()

    def _next(self) -> Mapping[str, object] | None:
        if not self._waiting.empty():
            return self._waiting.get()
        line = self._waiting.get()
        # Rather several lines at a time than a switch of threads for each.
        self._closing.wait(_PAUSE)
        return line

    def _write(self, line: Mapping[str, object]) -> None:
        self._in_hand = 1
        try:
            self._tell_lost()
            self._sink.write(encode_line(line))
        except Exception as error:  # whatever it is: the thread goes on
            self._settle(getattr(error, "strerror", None) or type(error).__name__)
        else:
            self._settle(None)
            # Not while the queue is about to be full again: each outage is told as a warning.
            self._outage &= self._waiting.qsize() > self._max_queue // 2

    def _tell_lost(self) -> None:
        lost = self.lost
        if lost > self._told:
            self._sink.write(encode_line(stamped_line(self._clock(), "lost", {"lines": lost - self._told})))
            self._told = lost

    def _settle(self, lost_because: str | None) -> None:
        """Tell what became of the line in hand: the thread does, or who gives up waiting for it, not both."""
        with self._lock:
            lines, self._in_hand = self._in_hand, 0
        if lost_because is not None:
            self._lose(lost_because, lines)


def stamped_line(at: float, event: str, facts: Mapping[str, object]) -> dict[str, object]:
    """A line as all of a log are.

    Args:
        at: seconds since the epoch.
        event: what kind of line.
        facts: what else is in it.
    """
    stamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return {"time": stamp.replace("+00:00", "Z"), "event": event, **facts}


def encode_line(line: Mapping[str, object]) -> bytes:
    """One line of JSON in ASCII, so that nothing in it can end the line or confuse a terminal."""
    return _encode(line).encode("ascii") + b"\n"


def _name_of_type(value: object) -> str:
    # What JSON does not know might show anything when it is printed.
    return f"<{type(value).__name__}>"


_encode: Final = json.JSONEncoder(separators=(",", ":"), default=_name_of_type).encode
