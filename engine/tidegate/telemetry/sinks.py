"""Where lines of the audit log go: a file that is rotated, a device or a pipe, standard error."""

import errno
import fcntl
import logging
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import Final, Protocol

log: Final = logging.getLogger("tidegate.audit")
log.addHandler(logging.NullHandler())  # quiet until the program that uses us sets logging up

MAX_WAIT: Final = 5.0
"""Seconds that a line waits for a reader of a pipe or terminal that is full: as long as `AuditLog.close` waits."""

_FLAGS: Final = (
    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    # A terminal is not to become ours, and a pipe without a reader is an error rather than a wait without end.
    | os.O_NOCTTY | os.O_NONBLOCK
)  # fmt: skip


class Sink(Protocol):
    """Where lines go. One thread at a time calls it."""

    def write(self, line: bytes) -> None:
        """Write one line, its line feed included, or raise OSError. May be called again after that."""

    def close(self) -> None:
        """Let go of what is open, at the end."""


class _Output:
    """An open descriptor, and whether what was written there ends in the middle of a line."""

    def __init__(self, descriptor: int, *, torn: bool = False) -> None:
        self.descriptor = descriptor
        self._torn = torn

    def write(self, line: bytes) -> None:
        # What comes after half a line must not be taken for the rest of it.
        rest = memoryview(b"\n" + line if self._torn else line)
        while rest:
            rest = rest[_write_some(self.descriptor, rest) :]
            self._torn = bool(rest)

    def close(self) -> None:
        with suppress(OSError):  # a write error that the system tells late; the descriptor is gone
            os.close(self.descriptor)


def _write_some(descriptor: int, data: memoryview) -> int:
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:  # who shares the descriptor with us may have made it non-blocking
            _wait_for_reader(descriptor)


def _wait_for_reader(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if not poll.poll(MAX_WAIT * 1000):
        raise TimeoutError(errno.ETIMEDOUT, f"nobody read for {MAX_WAIT:g} s")


class StandardError:
    """The standard error that this process has when this is built, whatever becomes of number 2 later."""

    def __init__(self) -> None:
        self._output = _standard_error()

    def write(self, line: bytes) -> None:
        """See `Sink`."""
        if self._output is None:
            raise OSError(errno.EBADF, "there is no standard error")
        self._output.write(line)

    def close(self) -> None:
        """See `Sink`."""
        if self._output is not None:
            output, self._output = self._output, None
            output.close()


def _standard_error() -> _Output | None:
    if sys.__stderr__ is None:  # closed when Python started: number 2 is what was opened first since then
        return None
    try:
        return _Output(os.dup(sys.__stderr__.fileno()))
    except (OSError, ValueError):  # closed since then
        return None


class RotatingFile:
    """A file that is renamed to `NAME.1`, and that to `NAME.2` and so on, before it grows too large.

    Only the user may read it. If it is a link, the file is renamed that it leads to. Devices, terminals and
    named pipes are written and never renamed. A file that cannot be renamed grows on, which is told once as a
    warning, and it is tried again after another `max_bytes`. If the file is removed or renamed by others, a
    new one is begun. Processes that were forked from one another may write to the same file.

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
        self._path = Path(path).absolute()  # the process may change its directory
        self._max_bytes = max_bytes
        self._keep = keep
        self._output: _Output | None = None
        self._target: Path | None = None
        self._limit = max_bytes
        self._told = False

    def open(self) -> None:
        """Open it now, as the first line would.

        Raises:
            OSError: it cannot be opened for writing.
        """
        self._current()

    def write(self, line: bytes) -> None:
        """See `Sink`."""
        output = self._current()
        if self._target is not None:
            size = os.fstat(output.descriptor).st_size
            if size and size + len(line) > self._limit:
                self._rotate(output, self._target, size)
                output = self._current()
        output.write(line)

    def _current(self) -> _Output:
        if self._output is None or not _still_at(self._path, self._output):
            self.close()
            descriptor = os.open(self._path, _FLAGS, 0o600)
            self._target = _rotatable(self._path, descriptor)
            self._output = _Output(descriptor, torn=self._target is not None and _is_torn(self._target))
            self._limit = self._max_bytes
        return self._output

    def _rotate(self, output: _Output, target: Path, size: int) -> None:
        try:
            with _locked(output.descriptor):
                if _still_at(target, output):  # else another process was faster
                    self._shift(target)
        except OSError as error:
            self._limit = size + self._max_bytes
            if not self._told:
                self._told = True
                log.warning("the audit log cannot be rotated, and grows: %s", error.strerror)
        else:
            self._told = False
            self.close()

    def _shift(self, target: Path) -> None:
        names = [target, *(target.with_name(f"{target.name}.{n + 1}") for n in range(self._keep))]
        for newer, older in reversed([*zip(names, names[1:], strict=False)]):
            if newer.is_file():
                newer.replace(older)

    def close(self) -> None:
        """See `Sink`."""
        if self._output is not None:
            output, self._output = self._output, None
            output.close()


def _still_at(path: Path, output: _Output) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(output.descriptor))
    except FileNotFoundError:
        return False
    except OSError:  # not to be seen from here any more, as after giving up privileges: what is open serves
        return True


def _rotatable(path: Path, descriptor: int) -> Path | None:
    """The name under which a file can be renamed, behind all links; None for what is no file, or has none."""
    status = os.fstat(descriptor)
    if not S_ISREG(status.st_mode):
        return None
    target = path.resolve()
    try:
        return target if os.path.samestat(target.stat(), status) else None
    except OSError:  # such as /dev/stdout, if that is a file which is removed already
        return None


def _is_torn(path: Path) -> bool:
    """Whether the last line lacks its end, as a full disk or a crash leaves it behind."""
    try:
        with path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                return False
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"
    except OSError:  # written, and not read: rather an empty line too many
        return True


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """One process at a time. Where nothing can be locked, nothing is."""
    with suppress(OSError):
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.lockf(descriptor, fcntl.LOCK_UN)
