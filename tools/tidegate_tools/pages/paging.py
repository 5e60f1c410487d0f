"""Cutting a long text into parts, never within a character or a link."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from tidegate._policy.content import cut_utf8

MAX_LINK: Final = 4096
"""Characters of the longest link that is kept whole."""

# One level of brackets within brackets: an image that is a link, a URL with parentheses. Possessive, so that
# no text makes it slow; and it is never asked for more than two windows of `MAX_LINK`.
_LINK: Final = re.compile(
    r"""
    !?\[ (?: [^\[\]] | \[[^\[\]]*+\] )*+ \] \( (?: [^()] | \([^()]*+\) )*+ \)
    | <https?://[^<>\s]*+>
    | https?://[^\s<>()\[\]]++
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a text.

    Attributes:
        text: the part; empty if it starts behind the end.
        next_index: where the next part starts; None if this one is the last.
    """

    text: str
    next_index: int | None


def cut_page(text: str, start: int, max_length: int, max_bytes: int | None = None) -> Part:
    """One part of a text, cut in front of a link or a character rather than in it.

    Args:
        text: all of it.
        start: index of its first character, from 0.
        max_length: characters, at least 1. Where a link of up to `MAX_LINK` characters, or a character with
            many marks on it, begins the part and is longer, the part is that link or character alone.
        max_bytes: in UTF-8, at least 4; with the same exception.
    """
    end = min(start + max_length, len(text))
    if max_bytes is not None:
        end = start + len(cut_utf8(text[start:end].encode("utf-8", "replace")[:max_bytes]).decode("utf-8"))
    if end >= len(text):
        return Part(text[start:], None)
    end = _end_of_part(text, start, end)
    return Part(text[start:end], end if end < len(text) else None)


def _end_of_part(text: str, start: int, end: int) -> int:
    link = _link_around(text, end)
    if link is not None:
        return link[0] if link[0] > start else link[1]
    before = end
    while before > start and _is_within_character(text, before):
        before -= 1
    if before > start:
        return before
    while end < len(text) and end - start < MAX_LINK and _is_within_character(text, end):
        end += 1
    return end


def _link_around(text: str, index: int) -> tuple[int, int] | None:
    """Where the link begins and ends that a cut at the index would break."""
    window = max(0, index - MAX_LINK)
    for match in _LINK.finditer(text, window, min(len(text), index + MAX_LINK)):
        if match.start() >= index:
            return None
        if match.end() > index:
            return match.span() if match.end() - match.start() <= MAX_LINK else None
    return None


_JOINER: Final = "\u200d"


def _is_within_character(text: str, index: int) -> bool:
    """Whether what stands at the index belongs to the character before it: marks, joined emoji, CR LF."""
    here, before = text[index], text[index - 1]
    if here < "\u0300":
        return here == "\n" and before == "\r"
    return (
        unicodedata.category(here).startswith("M")
        or _JOINER in (here, before)
        or "\U0001f3fb" <= here <= "\U0001f3ff"
    )
