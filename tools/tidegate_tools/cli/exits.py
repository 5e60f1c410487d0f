"""Exit codes, and the command's own errors. What each `tidegate.Reason` ends in stands in `failures`."""

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """How the command ends. 3, 4 and 5 are what HTTPie and xh use; from 129 on it is what a shell shows."""

    DONE = 0
    OTHER = 1
    USAGE = 2
    REDIRECTION = 3
    CLIENT_ERROR = 4
    SERVER_ERROR = 5
    DENIED = 10
    DNS = 11
    CONNECT = 12
    TLS = 13
    TIMED_OUT = 14
    TRUNCATED = 15
    PROTOCOL = 16
    HUNG_UP = 129
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


_BY_CLASS: Final = {3: ExitCode.REDIRECTION, 4: ExitCode.CLIENT_ERROR, 5: ExitCode.SERVER_ERROR}


def code_of_status(status: int) -> ExitCode:
    """How a fetch ends whose final response has this status."""
    return _BY_CLASS.get(status // 100, ExitCode.DONE)


class CommandError(Exception):
    """The command itself cannot go on: a file that cannot be written, an extra that is missing.

    Args:
        message: one plain sentence, without a full stop.
        code: how the command ends.
        reason: a word for `--json`, beside the values of `tidegate.Reason`.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.OTHER, reason: str = "output_failed") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason


class UsageError(CommandError):
    """The command line, or a file that it names, makes no sense; nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE, "usage")


class OutputClosed(Exception):
    """Whoever read standard output has gone, as `head` does: the end, and no error."""
