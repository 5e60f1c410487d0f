"""Arguments of a tool, read one by one and checked on the way.

What is wrong is `invalid_args` with one sentence that names the argument, what it should be and what kind of
value came. A text is never repeated: it may be a secret, or a megabyte.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tidegate_tools.registry import ToolInvalidArgs, did_you_mean, quoted


class Arguments:
    """The arguments of one call.

    A null counts as absent (AMB-21). A boolean is no number; NaN and the infinities are in no range.

    Args:
        given: the arguments as they came.
        known: the names that the tool knows.

    Raises:
        ToolInvalidArgs: there is an argument of another name; the nearest one is suggested (AMB-22).
    """

    def __init__(self, given: Mapping[str, Any], known: Collection[str]) -> None:
        for name in given:
            if name not in known:
                raise ToolInvalidArgs(f"There is no argument {quoted(name)}.{did_you_mean(name, known)}")
        self._given = given

    def get(self, name: str) -> Any:
        """The value as it came; None if it is absent. For an argument of several types."""
        return self._given.get(name)

    def required_text(self, name: str) -> str:
        """A text of at least one character that has to be there."""
        value = self.get(name)
        if value is None:
            raise ToolInvalidArgs(f"{name} is missing; it must be a non-empty string.")
        if not isinstance(value, str) or not value:
            raise wrong(name, "a non-empty string", value)
        return value

    def text(self, name: str, default: str) -> str:
        """A text, which may be empty."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise wrong(name, "a string", value)
        return value

    def flag(self, name: str, default: bool) -> bool:
        """True or false; nothing else is taken for one of them."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong(name, "true or false", value)
        return value

    def integer(self, name: str, default: int, *, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise wrong(name, f"an integer from {low} to {high}", value)
        return value

    def number(self, name: str, default: float, *, low: float, high: float) -> float:
        """A number from `low` to `high`, both included."""
        value = self.get(name)
        if value is None:
            return default
        # The comparison is written so that NaN fails it.
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise wrong(name, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """An object; an empty one if it is absent. What it holds is the tool's to check."""
        value = self.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise wrong(name, "an object", value)
        return value


def wrong(name: str, expected: str, value: object) -> ToolInvalidArgs:
    """The error for an argument that is not what it should be.

    Args:
        name: the argument; for a part of it, such as `headers["Accept"]`, whatever names that part.
        expected: what it should be, with its bounds and an article: `an integer from 0 to 5`.
        value: what came. A number is repeated, of anything else only the kind is told.
    """
    return ToolInvalidArgs(f"{name} must be {expected}, not {_kind(value)}.")


def _kind(value: object) -> str:
    """What kind of value this is, in the words of JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() if abs(value) < 10**15:
            return f"the integer {value}"
        # Python refuses to write out an integer of more than 4,300 digits, with an exception.
        case int():
            return "an integer of more than 15 digits"
        case float():
            return f"the number {value!r}"
        case "":
            return "an empty string"
        case str():
            return "a string"
        case list() | tuple():
            return "an array"
        case Mapping():
            return "an object"
    return f"a value of the type {type(value).__name__}"
