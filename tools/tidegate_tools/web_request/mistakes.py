"""What is wrong with a configuration, one value a mistake, and the error that carries all of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Where a value stands in a file: keys and list positions, from the top."""


def dotted(path: KeyPath) -> str:
    """`system_tools.web_request.auth[0].host`: a key path as people write it."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing that is wrong, or worth a warning, in one configuration file.

    Never holds a secret: values are shown as they stand in the file, before environment substitution, and
    what stands where a secret reference belongs is only named by its type.

    Attributes:
        problem: what is wrong, in one clause.
        file: the file, as the caller named it; empty for values that came from no file.
        line: its line, from 1; None if the whole file is meant.
        key: the dotted key, as `system_tools.web_request.timeout_seconds`; empty for the whole file.
        found: what stands there; None if nothing does.
        allowed: what may stand there.
        nearest: for an unknown key, the valid one that looks most like it.
    """

    problem: str
    file: str = ""
    line: int | None = None
    key: str = ""
    found: str | None = None
    allowed: str | None = None
    nearest: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part)
        start = ": ".join(part for part in (place, self.key, self.problem) if part)
        details = (("found", self.found), ("nearest", self.nearest), ("allowed", self.allowed))
        return "; ".join((start.rstrip("."), *(f"{name}: {text}" for name, text in details if text)))


def unreadable(file: str, error: OSError) -> Mistake:
    """What is wrong with a file or folder that the system does not let us read."""
    return Mistake(problem=f"cannot be read: {error.strerror or type(error).__name__}", file=file)


class UnquotingError(ValueError):
    """A rule's refusal in a sentence that quotes nothing of the value.

    So it can be shown where the value came out of the environment, and may be what nobody should read.
    """


class ConfigError(Exception):
    """The configuration is refused as a whole; `mistakes` lists everything that is wrong with it.

    Attributes:
        mistakes: at least one, by file and line.
    """

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        # A set first: a value that several rules refuse for the same reason is listed once.
        ordered = sorted(dict.fromkeys(mistakes), key=lambda mistake: (mistake.file, mistake.line or 0))
        self.mistakes: tuple[Mistake, ...] = tuple(ordered)
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        count = len(self.mistakes)
        heading = (
            "The configuration has a mistake:" if count == 1 else f"The configuration has {count} mistakes:"
        )
        return "\n  ".join((heading, *map(str, self.mistakes)))
