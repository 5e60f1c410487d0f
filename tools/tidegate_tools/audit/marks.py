"""Texts of strangers and numbers, as a page may show them."""

import html
import unicodedata
from datetime import UTC, datetime

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


def shortened(text: str, most: int) -> str:
    """At most so many characters, the middle left out, not yet escaped."""
    text = visible(text)
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


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
