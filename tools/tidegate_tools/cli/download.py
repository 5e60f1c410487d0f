"""A download into a file: `FILE.part` while it grows, `FILE` once all of it has come, never half of it."""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidegate import ResponseStream
from tidegate_tools.cli.exits import CommandError, ExitCode, UsageError
from tidegate_tools.cli.file_names import free_path, remote_name
from tidegate_tools.cli.outputs import Output
from tidegate_tools.cli.part_file import PART, SIDE, PartFile, beside, write_all
from tidegate_tools.cli.progress import ProgressBar
from tidegate_tools.cli.resume import (
    Validator,
    content_range,
    fits,
    load_validator,
    save_validator,
    validator_of,
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a download goes.

    Attributes:
        path: the file; None lets the response name it (`-O`), and then no existing file is replaced.
        is_device: not a regular file: written as it is.
        remainder: `--continue`: what an earlier download left, None if there is nothing to go on from.
        offset: how many bytes that is.
    """

    path: Path | None
    is_device: bool = False
    remainder: Validator | None = None
    offset: int = 0

    @property
    def fields(self) -> dict[str, str]:
        """The request fields that ask for the rest."""
        if self.remainder is None:
            return {}
        return {"Range": f"bytes={self.offset}-", "If-Range": self.remainder.value}


def prepare_target(output: str | None, *, url: str, resume: bool) -> Target:
    """Look at the file system before anything is sent.

    Args:
        output: the file, None for `-O`.
        url: as given.
        resume: the option `--continue`.

    Raises:
        UsageError: nothing can be written there.
    """
    if output is None:
        return Target(None)
    try:
        return _target(output, url, resume)
    except OSError as error:
        raise UsageError(f"-o {output!r}: {error.strerror}") from None


def _target(output: str, url: str, resume: bool) -> Target:
    if not output or Path(output).is_dir():
        raise UsageError(f"-o {output!r} is a directory; name a file")
    if Path(output).exists() and not Path(output).is_file():
        return Target(Path(output), is_device=True)
    # A link stays a link: what it points to is what is replaced.
    path = Path(os.path.realpath(output))
    if not path.parent.is_dir():
        raise UsageError(f"-o {output!r}: there is no directory {path.parent}")
    validator = load_validator(beside(path, SIDE), url) if resume else None
    offset = _size(beside(path, PART))
    return Target(path, remainder=validator, offset=offset) if validator and offset else Target(path)


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Tell of a file system's errors in one sentence."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or type(error).__name__}") from None


class Saving(Output, Protocol):
    """Content on its way into a file.

    Attributes:
        path: the file, known once `start` is done.
        may_block: see `Output`; it holds for `start`, too.
    """

    path: Path

    def start(self, response: ResponseStream) -> None:
        """The response's head has come."""

    def abandon(self) -> str | None:
        """The download has failed; returns a sentence on what is left of it, None if nothing is."""


def open_saving(target: Target, *, url: str, progress: bool, as_it_came: bool = True) -> Saving:
    """What writes the target.

    Args:
        target: from `prepare_target`.
        url: as given.
        progress: show a bar.
        as_it_came: the content is saved, and not what a converter made of it: only then does the length
            that was announced hold for the file, and can a part of it be gone on with.
    """
    if target.is_device and target.path is not None:
        return DeviceOutput(target.path)
    return Download(target, url=url, progress=progress, as_it_came=as_it_came)


class DeviceOutput:
    """A device or pipe, written as it is: to rename something over /dev/null would be a disaster."""

    may_block = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def start(self, response: ResponseStream) -> None:
        """See `Saving.start`."""
        with _told(self.path):
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        if os.isatty(self._descriptor):
            raise CommandError(f"{self.path} is a terminal: leave -o out")

    def write(self, piece: bytes) -> None:
        """See `Output.write`."""
        assert self._descriptor is not None
        with _told(self.path):
            write_all(self._descriptor, piece)

    def finish(self, *, cut: bool) -> None:
        """See `Output.finish`."""
        self.abandon()

    def abandon(self) -> str | None:
        """See `Saving.abandon`."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        return None


class Download:
    """One response on its way into a regular file.

    Attributes:
        path: the file, known once `start` is done.
        size: bytes in it so far, an earlier download's included.
    """

    path: Path
    may_block = False

    def __init__(self, target: Target, *, url: str, progress: bool, as_it_came: bool = True) -> None:
        self._target = target
        self._url = url
        self._as_it_came = as_it_came
        self._progress = progress
        self._part: PartFile | None = None
        self._bar: ProgressBar | None = None
        self._length: int | None = None
        self._resumable = False
        self._was_whole = False
        self.size = 0

    # The beginning ...

    def start(self, response: ResponseStream) -> None:
        """Open the file as the response's head asks: anew, or to go on with a part.

        Raises:
            CommandError: it cannot be opened, or the rest does not fit what is there.
        """
        self.path = self._target.path or self._free_path(response)
        with _told(self.path):
            self._open(response)
        if self._progress:
            self._bar = ProgressBar(self.path, self._length, self.size)

    def _free_path(self, response: ResponseStream) -> Path:
        return free_path(Path.cwd(), remote_name(response.headers, response.url), (PART, SIDE))

    def _open(self, response: ResponseStream) -> None:
        remainder = self._target.remainder
        if remainder is None or response.status not in (206, 416):
            self._begin(response)
        else:
            self._go_on(remainder, response)

    def _begin(self, response: ResponseStream) -> None:
        part = self._part = self._new_part(response)
        part.side.unlink(missing_ok=True)  # it would vouch for a part that is no more
        if not self._as_it_came:
            return
        self._length = response.announced
        validator = validator_of(self._url, response.headers, self._length)
        # A coding is undone for one transfer; the bytes of a range would be others (RFC 9110 8.4).
        if validator is not None and response.status == 200 and not response.codings:
            save_validator(part.side, validator)
            self._resumable = True

    def _new_part(self, response: ResponseStream) -> PartFile:
        if self._target.path is not None:
            return PartFile.replace(self.path)
        while True:
            try:
                return PartFile.create(self.path)
            except FileExistsError:  # another download has taken the name meanwhile
                self.path = self._free_path(response)

    def _go_on(self, validator: Validator, response: ResponseStream) -> None:
        part = self._part = PartFile.reopen(self.path)
        self._resumable = True
        offset = self._target.offset
        part.check(offset)
        if load_validator(part.side, self._url) != validator:
            raise _mismatch(part.path, ExitCode.OTHER, f"{part.path} is the part of another download by now")
        found = content_range(response.headers)
        if response.status == 206:
            if found is None or not fits(validator, response.headers, found, offset):
                raise _mismatch(part.path, ExitCode.PROTOCOL)
            self._length = found.length
        else:  # the server has no more: fine if the part is all there is (RFC 9110 15.5.17)
            if found is None or found.length != offset:
                raise _mismatch(part.path, ExitCode.CLIENT_ERROR)
            self._length, self._was_whole = offset, True
        self.size = offset

    # ... the middle ...

    def write(self, piece: bytes) -> None:
        """See `Output.write`."""
        if self._was_whole:
            return  # the content of a 416 belongs to no file
        assert self._part is not None
        with _told(self.path):
            self._part.write(piece)
        self.size += len(piece)
        if self._bar is not None:
            self._bar.advance(len(piece))

    # ... and the end.

    def finish(self, *, cut: bool) -> None:
        """Give the file its name.

        Raises:
            CommandError: it cannot be written, is not as long as the server said it would be, or is not the
                one that was written any more.
        """
        assert self._part is not None
        self._stop_bar()
        if not cut and self._length not in (None, self.size):
            raise CommandError(
                f"{self.size} of {self._length} bytes came", ExitCode.PROTOCOL, "incomplete_content"
            )
        with _told(self.path):
            self._part.check(self.size)
            self._part.take_mode_of(self.path)
            # Before the name: as soon as that is free, these files are the next download's.
            self._part.side.unlink(missing_ok=True)
            self._give_name(self._part.path)
        self._close()

    def _give_name(self, part: Path) -> None:
        if self._target.path is not None:
            part.replace(self.path)
            return
        # A name that a peer chose never replaces a file, not even one that came into being meanwhile.
        try:
            os.link(part, self.path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            part.rename(self.path)
        else:
            part.unlink()

    def abandon(self) -> str | None:
        """See `Saving.abandon`: a part that can be resumed is kept, any other goes."""
        self._stop_bar()
        part = self._part
        if part is None:
            return None
        try:
            if self._resumable and part.is_in_place and _size(part.path):
                return f"{part.path} is kept: -o {self.path} --continue goes on from there"
            with contextlib.suppress(OSError):
                part.remove()
            return None
        finally:
            self._close()

    def _close(self) -> None:
        if self._part is not None:
            self._part.close()
            self._part = None

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _mismatch(part: Path, code: ExitCode, what: str = "") -> CommandError:
    what = what or f"the server's answer is not the rest of {part}"
    return CommandError(f"{what}: fetch again without --continue", code, "range_mismatch")
