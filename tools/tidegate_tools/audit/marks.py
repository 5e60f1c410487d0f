"""Texts of strangers and numbers, as a page may show them."""

import html
import unicodedata
from datetime import UTC, datetime
from itertools import accumulate
from typing import Final

# Controls, formats (the marks that reorder text are among them), halves of characters, line and paragraph
# separators, what is unassigned or private: shown as what they are, or a name could pass for another one.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})


def visible(text: str) -> str:
    """The text with everything that cannot be seen written as `<U+202E>`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"<U+{ord(character):04X}>" if unicodedata.category(character) in _HIDDEN else character
        for character in text
    )


def escaped(text: str) -> str:
    """The text between tags or in a quoted attribute."""
    return html.escape(visible(text), quote=True)


# Widths in ems: those of the widest font that the style names, DejaVu Sans, rounded up by kinds.
_NARROW: Final = frozenset(" !'(),-./:;I[]fijlrt|·\u202f")
_BROAD: Final = frozenset("%@MWmw…")
_MARK: Final = 0.25


def width(text: str) -> float:
    """How wide a text can be in the fonts of the page, in ems; what is wider than its room is cut off."""
    return sum(map(_width, text))


def _width(character: str) -> float:
    if character in _NARROW:
        return 0.42
    if character in _BROAD:
        return 1.0
    if character.isascii():
        return 0.85 if character.isupper() or character in "#&+<=>^~" else 0.66
    kind = unicodedata.category(character)
    if kind in ("Mn", "Me"):  # they stand on the character before, but a heap of them has to end somewhere
        return _MARK
    is_wide = kind != "So" and unicodedata.east_asian_width(character) in ("W", "F")
    return 1.0 if is_wide or kind == "Ll" else 1.3  # emoji are So, and wider than an em


def shortened(text: str, most: float) -> str:
    """At most so many ems of a text, the middle left out, not yet escaped."""
    text = visible(text)
    if width(text) <= most:
        return text
    half = (most - _width("…")) / 2
    head, tail = _fitting(text, half), _fitting(text[::-1], half)[::-1]
    while tail and _width(tail[0]) == _MARK:  # of a character that is left out
        tail = tail[1:]
    return f"{head}…{tail}"


def _fitting(text: str, most: float) -> str:
    """As much of the beginning as fits."""
    ends = accumulate(map(_width, text))
    return "".join(character for character, end in zip(text, ends, strict=True) if end <= most)


def count(number: float) -> str:
    """A whole number, thousands apart."""
    return f"{number:,.0f}".replace(",", "\u202f")


def plural(number: int, what: str) -> str:
    """A number of things."""
    return f"{count(number)} {what}{'' if number == 1 else 's'}"


def share(part: float, whole: float) -> str:
    """A percentage; tiny ones are not shown as nothing."""
    if not whole:
        return "0 %"
    percent = 100 * part / whole
    return "< 0.1 %" if 0 < percent < 0.1 else f"{percent:.3g} %"


def size(number: float) -> str:
    """Bytes in decimal units."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 999.5 or unit == "TB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.3g} {unit}"
        number /= 1000
    raise AssertionError("unreachable")


def duration(seconds: float) -> str:
    """Seconds in the unit that fits."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.2g} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def moment(seconds: float) -> str:
    """A time since the epoch, to the second, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
