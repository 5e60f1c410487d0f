"""What the query of a request asks for: names, numbers, seconds, and one of several words."""

import itertools
import math
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence

ENDLESS = "endless"

ENDS = ("keep", "close", "cut", "reset", "half-close", "hold", "stall")
"""The values of `then`; `Connection.end` is what they do."""

LARGEST_PIECE = 1 << 24
"""Bytes of what is sent in one piece, and so is made in memory; whatever is longer goes out in many."""


class BadParameterError(ValueError):
    """A query parameter of the client's makes no sense; answered with 400."""


def parse_query(query: str) -> dict[str, list[str]]:
    """The values of each name, percent-decoded to a character for each byte. A plus stays a plus."""
    parameters: dict[str, list[str]] = {}
    for pair in query.split("&") if query else []:
        name, _, value = (urllib.parse.unquote(part, "latin-1") for part in pair.partition("="))
        parameters.setdefault(name, []).append(value)
    return parameters


def format_query(parameters: Mapping[str, Sequence[str]]) -> str:
    """The query that `parse_query` reads as `parameters`."""
    pairs = [(name, value) for name, values in parameters.items() for value in values]
    return urllib.parse.urlencode(pairs, quote_via=urllib.parse.quote, encoding="latin-1")


def whole_number(name: str, text: str, most: int | None = None) -> int:
    """A number that is not negative, nor more than `most`.

    Raises:
        BadParameterError: it is none, or has more digits than any count or size here needs, or is too large.
    """
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadParameterError(f"{name}={text} is not a whole number")
    if most is not None and int(text) > most:
        raise BadParameterError(f"{name}={text} is too large: {most} is the most")
    return int(text)


def whole_number_or_endless(name: str, text: str) -> int | None:
    """As `whole_number`; None for `endless`."""
    return None if text == ENDLESS else whole_number(name, text)


def number_of_seconds(name: str, text: str) -> float:
    """Seconds such as `0.25`.

    Raises:
        BadParameterError: it is no number, or a time before now.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise BadParameterError(f"{name}={text} is not a number of seconds")
    return seconds


def one_of(name: str, text: str, known: Iterable[str]) -> str:
    """`text`, if it is one of the words that are known.

    Raises:
        BadParameterError: it is not.
    """
    if text not in (words := list(known)):
        raise BadParameterError(f"{name}={text} is unknown: use one of {', '.join(words)}")
    return text


def numbers(count: int | None) -> Iterable[int]:
    """0, 1, 2, ...: `count` of them, or without end if it is None."""
    return itertools.count() if count is None else range(count)
