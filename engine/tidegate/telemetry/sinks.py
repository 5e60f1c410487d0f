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
"""Seconds that a line waits for the reader of a pipe that is full: as long as `AuditLog.close` does."""

_FLAGS: Final = (
    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    # A terminal is not to become ours; a pipe without a reader is an error, and not a wait without end.
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

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._torn = False

    def write(self, line: bytes) -> None:
        # What comes after half a line must not be taken for the rest of it.
        rest = b"\n" + line if self._torn else line
        while rest:
            rest = rest[_write_some(self.descriptor, rest) :]
            self._torn = bool(rest)

    def close(self) -> None:
        with suppress(OSError):  # a write error that the system tells late; the descriptor is gone
            os.close(self.descriptor)


def _write_some(descriptor: int, data: bytes) -> int:
    while True:
        try:
            if written := os.write(descriptor, data):
                return written
            raise OSError(errno.EIO, "nothing was written")
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
        # Never as number 0 or 1, should one of them be closed: somebody means standard input by that.
        return _Output(fcntl.fcntl(sys.__stderr__.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))
    except (OSError, ValueError):  # closed since then
        return None


class _OpenFile(_Output):
    """What stood at a path when it was opened.

    Attributes:
        size: in bytes, as of the last look.
        target: the name under which it can be renamed; None for what is no file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(os.open(path, _FLAGS, 0o600))
        self._status = os.fstat(self.descriptor)
        self.size = self._status.st_size
        is_file = S_ISREG(self._status.st_mode)
        self.target = _behind_links(path) if is_file else None
        self._torn = is_file and self.size > 0 and _is_torn(path, self._status)

    def is_at(self, path: Path) -> bool:
        """Look whether it still stands there."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return False
        except OSError:  # out of sight, as after giving up privileges: what is open serves
            status = os.fstat(self.descriptor)
        self.size = status.st_size
        return os.path.samestat(status, self._status)


def _behind_links(path: Path) -> Path | None:
    """The file's own name; None if it was reached by a descriptor, like the one behind /dev/stdout."""
    while path.is_symlink():
        folder = path.parent.resolve()
        if folder.is_relative_to("/proc"):
            return None
        path = folder / path.readlink()
    return path.resolve()


def _is_torn(path: Path, status: os.stat_result) -> bool:
    """Whether the last line of a file lacks its end, as a full disk or a crash leaves it behind."""
    try:
        with path.open("rb") as file:
            if not os.path.samestat(os.fstat(file.fileno()), status):  # another process was faster
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except PermissionError:  # it may be written, and not read: rather an empty line too many
        return True
    except OSError:  # taken away
        return False


class RotatingFile:
    """A file that is renamed to `NAME.1`, and that to `NAME.2` and so on, before it grows too large.

    Only the user may read it. If it is a link, the file is renamed that it leads to. Devices, terminals and
    pipes are written and never renamed. A file that cannot be renamed grows on, which is told as a warning
    once, and it is tried again after another `max_bytes`. If others remove or rename it, a new one is begun.
    Processes that were forked from one another may write to the same file.

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
        self._file: _OpenFile | None = None
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
        file = self._current()
        if file.target is not None and file.size and file.size + len(line) > self._limit:
            self._rotate(file, file.target)
            file = self._current()
        file.write(line)

    def _current(self) -> _OpenFile:
        if self._file is None or not self._file.is_at(self._path):
            self.close()
            self._file = _OpenFile(self._path)
            self._limit = self._max_bytes
        return self._file

    def _rotate(self, file: _OpenFile, target: Path) -> None:
        try:
            with _locked(file.descriptor):
                if file.is_at(target):
                    self._rename(target)
        except OSError as error:
            self._limit = file.size + self._max_bytes
            if not self._told:
                self._told = True
                log.warning("the audit log cannot be rotated, and grows: %s", error.strerror)
        else:
            self._told = False

    def _rename(self, target: Path) -> None:
        for number in range(self._keep, 0, -1):
            newer = target.with_name(f"{target.name}.{number - 1}") if number > 1 else target
            if newer.is_file():
                newer.replace(target.with_name(f"{target.name}.{number}"))

    def close(self) -> None:
        """See `Sink`."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()


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
