"""Standard output and error: what goes to a terminal is made harmless, what goes elsewhere is left alone.

Text of a peer could drive a terminal: move the cursor, set the title, answer for the user, or show its words
in another order than they are. So control characters are shown as escapes there (CVE-2003-0063 and its many
successors), and binary content never gets there.
"""

import contextlib
import os
import re
import select
import stat
import sys
from typing import Final, TextIO

from tidegate_tools.cli.exits import CommandError, OutputClosed

# C0, DEL and C1 (a terminal may take U+009B for ESC [), marks that reorder text, halves of characters.
_UNSAFE: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT: Final = re.compile(f"[{_UNSAFE}]")
_IN_LINE: Final = re.compile(f"[{_UNSAFE}\t\n]")


def visible_text(text: str) -> str:
    r"""The text with its control characters as `\x1b` and the like; tabs and line feeds stay."""
    return _IN_TEXT.sub(_escaped, text)


def visible_line(text: str) -> str:
    """The same on one line: tabs and line feeds are escaped, too."""
    return _IN_LINE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return (
        match[0].encode("ascii", "backslashreplace").decode()
        if match[0] > "\x7f"
        else f"\\x{ord(match[0]):02x}"
    )


def is_terminal(stream: TextIO | None) -> bool:
    """True if a person may be looking at it."""
    return stream is not None and stream.isatty()


def output_is_terminal() -> bool:
    """True if standard output goes to a person."""
    return is_terminal(sys.stdout)


def output_may_block() -> bool:
    """True if whoever reads standard output may keep a writer waiting: a pipe or a terminal, and no file."""
    try:
        return sys.stdout is not None and not stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:  # it has no number
        return False


def write_output(data: bytes) -> None:
    """Write to standard output at once.

    Raises:
        OutputClosed: its reader has gone.
        CommandError: it is closed, or its disk is full.
    """
    if sys.stdout is None:  # after `>&-`
        raise CommandError("standard output is closed")
    try:
        _write_all(memoryview(data))
    except OSError as error:
        raise output_failed(error) from None


def _write_all(view: memoryview) -> None:
    # Without the buffer: a thread that is left behind in a write would keep its lock, and Python its exit.
    raw = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    while view:
        taken = raw.write(view)
        if taken is None:  # somebody has made the other end of it non-blocking
            select.select((), (raw,), ())
        view = view[taken or 0 :]


def output_failed(error: OSError) -> Exception:
    """How a command ends that could not write to standard output; nothing is written there any more."""
    _forget_output()
    if isinstance(error, BrokenPipeError):
        return OutputClosed()
    return CommandError(f"standard output cannot be written: {error.strerror}")


def _forget_output() -> None:
    # What is left in the buffer would be tried again when Python exits, with a complaint and exit code 120.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def write_text(text: str) -> None:
    """Write text to standard output in its encoding; what that lacks is escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    write_output(text.encode(encoding, "backslashreplace"))


def say(text: str) -> None:
    """Write one line to standard error, if there is one."""
    if sys.stderr is None:  # after `2>&-`; print would take standard output instead
        return
    with contextlib.suppress(OSError):  # nobody is left to tell
        print(visible_line(text), file=sys.stderr, flush=True)


def complain(sentence: str) -> None:
    """Say why the command ends as it does."""
    say(f"tidegate: {sentence}")


class Notes:
    """What is worth knowing and no error. Quiet, it says nothing at all.

    Args:
        quiet: the option `-q`.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    @property
    def watched(self) -> bool:
        """True if a person wants to see how it goes."""
        return not self._quiet and is_terminal(sys.stderr)

    def note(self, sentence: str) -> None:
        """Tell a person at a terminal; logs of scripts stay empty."""
        if self.watched:
            complain(sentence)

    def warn(self, sentence: str) -> None:
        """Tell that the output is not what it seems, wherever standard error goes."""
        if not self._quiet:
            complain(sentence)
