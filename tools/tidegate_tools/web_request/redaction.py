r"""Secret values out of a text, however they are written there: plain, base64, URL-, JSON- or HTML-escaped.

A server that was sent a credential may give it back, and what it gives back goes to a model. Nothing stops a
server that means to smuggle it out (it may as well spell it backwards); what is caught here is reflection:
the echo of a debugging page, an error message, a redirect. Any part of a value may be escaped, some twice.

So no pattern is made of a value. The text is unescaped instead, a few layers deep, and the value is looked
for in every layer; where it stands in the text itself is worked out only where it is found. That takes time
in proportion to the text, whatever a server sends: `bytes.find` is linear (two-way search), every pass over
the escapes is, and runs of escapes are undone at once.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from tidegate import URL

MARK: Final = "[redacted]"
"""What stands in place of a value."""

MIN_LENGTH: Final = 8
"""Characters of the shortest value that can be told from ordinary text; picked as what the weakest password
rules ask for. A tool with a shorter one is not built."""

_MIN_TAIL: Final = 4
"""Characters of a value's beginning that count as it where a text was cut right behind them."""

_LAYERS: Final = 4
"""The text itself, and three times unescaped: JSON in JSON in a URL, say. Picked without measuring."""

_Spans: TypeAlias = list[tuple[int, int]]

# Escapes of printable ASCII, which is all that a field value may hold (D-26), and of line breaks, which
# wrapped base64 has: RFC 3986 2.1, RFC 8259 7, strings of Python and JavaScript, references of HTML. All but
# the last come in runs, whose escapes are of one width. Each branch begins with a literal: that lets `re`
# skip what is no escape, twenty times as fast.
_ESCAPES: Final = re.compile(
    rb"""
    %  (?P<percent> [2-7][0-9A-Fa-f] (?:%[2-7][0-9A-Fa-f])*+ )
  | \\ (?: (?P<unicode> u00[2-7][0-9A-Fa-f] (?:\\u00[2-7][0-9A-Fa-f])*+ )
         | (?P<hex> x[2-7][0-9A-Fa-f] (?:\\x[2-7][0-9A-Fa-f])*+ )
         | (?P<short> ["'\\/nrt] (?:\\["'\\/nrt])*+ ) )
  | &  (?: \#[xX]0{0,6}(?P<hexadecimal>[2-7][0-9A-Fa-f]) | \#0{0,6}(?P<decimal>[0-9]{2,3})
         | (?P<name>amp|apos|gt|lt|quot) ) ;
    """,
    re.VERBOSE,
)
# The beginning of an escape, where a text was cut in the middle of one.
_HALF_ESCAPE: Final = re.compile(rb"(?:%[2-7]?|\\(?:u0{0,2}[2-7]?|x[2-7]?)?|&[#a-zA-Z0-9]{0,9})\Z")
_LONGEST_ESCAPE: Final = 12

_SHORT: Final = bytes.maketrans(b"nrt", b"\n\r\t")
_NAMED: Final = {b"amp": b"&", b"apos": b"'", b"gt": b">", b"lt": b"<", b"quot": b'"'}
_MARKERS: Final = {"percent": b"%", "unicode": b"\\u00", "hex": b"\\x"}
_SINGLE: Final = {
    **{b"%%%02x" % code: bytes([code]) for code in range(0x20, 0x7F)},
    **{b"%%%02X" % code: bytes([code]) for code in range(0x20, 0x7F)},
}
"""What is escaped twice in a URL has its escapes one by one."""


def _unescaped(match: re.Match[bytes]) -> bytes:
    """What a run of escapes, or one reference, stands for."""
    if (single := _SINGLE.get(match[0])) is not None:
        return single
    kind = match.lastgroup or ""
    if kind in _MARKERS:
        return bytes.fromhex(match[0].replace(_MARKERS[kind], b"").decode())
    code = match[kind]
    if kind == "short":
        return code[::2].translate(_SHORT)
    if kind == "name":
        return _NAMED[code]
    number = int(code, 10 if kind == "decimal" else 16)
    return bytes([number]) if number < 0x80 else match[0]


class _Reading(NamedTuple):
    """A way to read a text.

    Attributes:
        of: gives the text as it is read.
        pattern: what is read as something else.
        meaning: as what.
    """

    of: Callable[[bytes], bytes]
    pattern: re.Pattern[bytes]
    meaning: Callable[[re.Match[bytes]], bytes]

    def origins(self, text: bytes, positions: Sequence[int]) -> Iterator[int]:
        """Where ascending positions in the reading lie in the text; those within a match, at an escape."""
        waiting = iter(positions)
        position = next(waiting, None)
        read = done = 0  # how far we are, in the reading and in the text
        for match in chain(self.pattern.finditer(text), [None]):
            if position is None:
                return
            begin = match.start() if match else len(text) + 1
            first = read + begin - done
            while position is not None and position < first:
                yield done + position - read
                position = next(waiting, None)
            if match:
                length = len(self.meaning(match))
                while position is not None and position < first + length:
                    yield begin + (position - first) * (len(match[0]) // length)
                    position = next(waiting, None)
                read, done = first + length, match.end()

    def trace(self, text: bytes, spans: _Spans) -> _Spans:
        """Where spans of the reading lie in the text."""
        if not spans:
            return spans
        origins = self.origins(text, list(chain.from_iterable(spans)))
        return list(zip(origins, origins, strict=True))


_UNESCAPED: Final = _Reading(lambda text: _ESCAPES.sub(_unescaped, text), _ESCAPES, _unescaped)
_UNWRAPPED: Final = _Reading(
    lambda text: text.translate(None, b" \t\r\n"), re.compile(rb"[ \t\r\n]+"), lambda _: b""
)


# Two ways to compare; both leave every byte in its place.


def _folded(text: bytes) -> bytes:
    """Letter case aside, since a host is lower-cased; a plus counts as the space that it is in a form."""
    return text.lower().replace(b"+", b" ")


_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def _base64_folded(text: bytes) -> bytes:
    """The two alphabets of RFC 4648 as one."""
    return text.translate(_URL_SAFE).lower()


def _base64_cores(value: bytes) -> Iterator[bytes]:
    """What base64 makes of a value within something longer, less the characters that it shares with that."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + value)
        yield encoded[(before * 8 + 5) // 6 : (before + len(value)) * 8 // 6]


def _beginnings_in_urls(value: str) -> Iterator[str]:
    """What a URL makes of a value that stands in it as it is.

    A host ends at the first slash, and loses one final dot. A path ends where the query begins, or the
    fragment; the one is not shown, the other is dropped.
    """
    yield re.split(r"[/?#]", value, maxsplit=1)[0].removesuffix(".")
    yield re.split(r"[?#]", value, maxsplit=1)[0]


class Redactor:
    """Takes secret values out of texts.

    Args:
        secrets: values of printable ASCII. Those of fewer than `MIN_LENGTH` characters are left out: they
            would be found everywhere.
    """

    __slots__ = ("_base64", "_in_urls", "_plain")

    def __init__(self, secrets: Iterable[str]) -> None:
        values = {secret for secret in secrets if len(secret) >= MIN_LENGTH}
        beginnings = {beginning for value in values for beginning in _beginnings_in_urls(value)}
        self._plain = _needles(values)
        self._in_urls = self._plain | _needles(beginnings)
        self._base64 = frozenset(
            _base64_folded(core) for value in values for core in _base64_cores(value.encode())
        )

    def __repr__(self) -> str:
        return "<Redactor>"

    def redact(self, text: str, *, cut: bool = False, of_url: bool = False) -> str:
        """The text with `[redacted]` in place of every value in it.

        Args:
            text: any text.
            cut: there was more of the text, so that a value may have lost its end.
            of_url: it is a URL or tells of one, which may hold no more of a value than its beginning.
        """
        if not self._plain:
            return text
        content = text.encode("utf-8", "surrogatepass")
        spans = self._found(content, self._in_urls if of_url else self._plain, cut=cut)
        return _without(content, spans).decode("utf-8", "surrogatepass") if spans else text

    def redact_url(self, url: URL) -> URL:
        """The same for a URL as a whole: a value with a slash in it may reach from the host into the path.

        What comes out is for eyes alone: its host may be none.
        """
        if not self._plain:
            return url
        text = str(url)
        redacted = self.redact(text, of_url=True)
        if redacted == text:
            return url
        authority, _, target = (redacted.partition("://")[2] or MARK).partition("/")
        host = url.host if authority == url.authority else authority.removesuffix(f":{url.port}")
        path, mark, query = target.partition("?")
        return replace(url, host=host, path=f"/{path}", query=query if mark else None)

    def _found(self, text: bytes, needles: Iterable[bytes], *, cut: bool) -> _Spans:
        """Every place of a value in the text, looked for from the innermost layer outwards."""
        spans: _Spans = []
        for layer in reversed(_layers(text)):
            spans = _merged([*_UNESCAPED.trace(layer, spans), *self._found_in(layer, needles, cut=cut)])
        return spans

    def _found_in(self, layer: bytes, needles: Iterable[bytes], *, cut: bool) -> _Spans:
        plain = _places(_folded(layer), needles, cut=cut)
        wrapped = _places(_base64_folded(_UNWRAPPED.of(layer)), self._base64, cut=cut)
        return [*plain, *_UNWRAPPED.trace(layer, _merged(wrapped))]


def _needles(values: Iterable[str]) -> frozenset[bytes]:
    """What values are looked for as. Those too short to be told from ordinary text are left out."""
    encoded = {value.encode() for value in values if len(value) >= MIN_LENGTH}
    # A value that looks like an escape itself is not there any more once a text is unescaped.
    return frozenset(map(_folded, encoded.union(_layers(value)[-1] for value in encoded)))


def _layers(text: bytes) -> list[bytes]:
    layers = [text]
    while len(layers) < _LAYERS and (inner := _UNESCAPED.of(layers[-1])) != layers[-1]:
        layers.append(inner)
    return layers


def _places(text: bytes, needles: Iterable[bytes], *, cut: bool) -> _Spans:
    spans: _Spans = []
    for needle in needles:
        at = text.find(needle)
        while at >= 0:
            spans.append((at, at + len(needle)))
            at = text.find(needle, at + len(needle))
        if cut:
            spans += _tail(text, needle)
    return spans


def _tail(text: bytes, needle: bytes) -> _Spans:
    """The beginning of a value that the text ends in, with half an escape behind it."""
    half = _HALF_ESCAPE.search(text, max(0, len(text) - _LONGEST_ESCAPE))
    whole = text[: half.start()] if half else text
    for length in range(min(len(needle) - 1, len(whole)), _MIN_TAIL - 1, -1):
        if whole.endswith(needle[:length]):
            return [(len(whole) - length, len(text))]
    return []


def _merged(spans: _Spans) -> _Spans:
    merged: _Spans = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _without(content: bytes, spans: _Spans) -> bytes:
    pieces, done = [], 0
    for start, end in spans:
        pieces += [content[done:start], MARK.encode()]
        done = end
    return b"".join([*pieces, content[done:]])
