"""`FILE.part`, while a download grows in it: only who holds its lock may write, rename and remove it.

Two runs for one FILE would otherwise remove or rename each other's half. A name tells nothing about that, so
what counts is the open file: it is compared with what lies at the path before that gets FILE's name.
"""

import contextlib
import fcntl
import os
import stat
from pathlib import Path
from typing import Final

from tidegate_tools.cli.exits import CommandError

PART: Final = ".part"
SIDE: Final = ".part.json"

_PERMISSIONS: Final = 0o777
_OWNER_MAY_WRITE: Final = 0o600


def beside(path: Path, suffix: str) -> Path:
    """The path of the part (`PART`) or of its validator (`SIDE`) of a file."""
    return path.with_name(path.name + suffix)


def write_all(descriptor: int, piece: bytes) -> None:
    """Write all of it: a pipe or a full disk may take some of it first."""
    view = memoryview(piece)
    while view:
        view = view[os.write(descriptor, view) :]


class PartFile:
    """The part of one file, open and locked until `close`. Made by `create` and the like.

    Attributes:
        path: where it lies.
        side: where its validator lies.
    """

    def __init__(self, target: Path, flags: int, mode: int = 0o666) -> None:
        self.path = beside(target, PART)
        self.side = beside(target, SIDE)
        # In a directory that others write to, it may be a link or a pipe: a trap.
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, mode)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise CommandError(
                f"another download of {target} is running", reason="download_running"
            ) from None
        except OSError:  # a file system without locks; `check` still tells
            pass

    @classmethod
    def create(cls, target: Path) -> "PartFile":
        """A new one, at first with no more permissions than the file that it will replace.

        Raises:
            FileExistsError: there is one.
        """
        mode = _permissions(target)
        creating = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        return cls(target, creating, 0o666 if mode is None else mode | _OWNER_MAY_WRITE)

    @classmethod
    def replace(cls, target: Path) -> "PartFile":
        """A new one in the place of one that nobody writes any more."""
        while True:
            try:
                return cls.create(target)
            except FileExistsError:
                _remove_left(target)

    @classmethod
    def reopen(cls, target: Path) -> "PartFile":
        """The one that an earlier download has left, to go on with."""
        return cls(target, os.O_WRONLY | os.O_APPEND)

    def close(self) -> None:
        """Let go of the file, and with it of the lock."""
        os.close(self._descriptor)

    @property
    def is_in_place(self) -> bool:
        """True if the open file is still the one at the path."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.lstat())
        except FileNotFoundError:
            return False

    def check(self, size: int) -> None:
        """See that nothing else has had its hands on it.

        Args:
            size: bytes that it must have.

        Raises:
            CommandError: it lies there no more, or is longer or shorter.
        """
        if not self.is_in_place or os.fstat(self._descriptor).st_size != size:
            raise CommandError(
                f"{self.path} has been changed or removed by something else meanwhile", reason="part_changed"
            )

    def write(self, piece: bytes) -> None:
        """Add a piece at the end."""
        write_all(self._descriptor, piece)

    def take_mode_of(self, target: Path) -> None:
        """Take on the permissions of the file that is about to be replaced, if there is one."""
        mode = _permissions(target)
        if mode is not None:
            os.fchmod(self._descriptor, mode)

    def remove(self) -> None:
        """Take it away, with its validator, unless it is another one that lies there."""
        if self.is_in_place:
            self.side.unlink(missing_ok=True)
            self.path.unlink()


def _permissions(target: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(target.stat().st_mode) & _PERMISSIONS
    return None


def _remove_left(target: Path) -> None:
    path = beside(target, PART)
    if path.is_symlink():
        path.unlink()
        return
    with contextlib.suppress(FileNotFoundError), contextlib.closing(PartFile(target, os.O_RDONLY)) as left:
        left.remove()
