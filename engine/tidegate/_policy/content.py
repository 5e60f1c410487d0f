"""What content is and how to show it: media type, charset, kind, strict JSON, cuts between characters.

Media types follow the WHATWG MIME Sniffing and Fetch standards, charsets the WHATWG Encoding and HTML
standards (see `encodings`), JSON RFC 8259.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from types import MappingProxyType
from typing import Final, Literal, NoReturn

from tidegate._policy.encodings import byte_order_mark, declared_in_html, declared_in_xml, decode
from tidegate._policy.encodings import decode_label as decode_label

_HTTP_WHITE_SPACE: Final = "\t\n\r "
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 5.6.2
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # "HTTP quoted-string token code points"
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)

# One parameter up to the next semicolon. A quoted value may lack its closing quote, and what stands behind
# one is ignored: that is how the standard reads both.
_PARAMETER: Final = re.compile(
    r"""
    ; [\t\n\r\ ]* (?P<name>[^;=]*)
    (?: = (?: " (?P<quoted> (?:[^"\\]|\\.)*+ \\? ) "? [^;]* | (?P<bare>[^;]*) ) )?
    """,
    re.VERBOSE | re.DOTALL,
)
# One member of a comma-separated list; a comma within quotes is no comma.
_MEMBER: Final = re.compile(r'(?:[^",]++|"(?:[^"\\]|\\.)*+\\?"?)+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class MediaType:
    """A parsed media type. `str()` writes it as the standard serialises it.

    Attributes:
        essence: "type/subtype" in lower case.
        parameters: by lower-case name, values as they came, read-only.
    """

    essence: str
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __str__(self) -> str:
        return self.essence + "".join(f";{name}={_quoted(value)}" for name, value in self.parameters.items())


def _quoted(value: str) -> str:
    if _TOKEN.fullmatch(value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def parse_media_type(text: str) -> MediaType | None:
    """Read one media type, such as the value of a single Content-Type field; None if it is none.

    WHATWG MIME Sniffing 4.4, "parse a MIME type": a bad parameter is dropped, the first of a name counts.

    Args:
        text: the field value, its bytes read as Latin-1.
    """
    text = text.strip(_HTTP_WHITE_SPACE)
    essence = text.partition(";")[0]
    kind, _, subtype = essence.rstrip(_HTTP_WHITE_SPACE).partition("/")
    if not (_TOKEN.fullmatch(kind) and _TOKEN.fullmatch(subtype)):
        return None
    parameters: dict[str, str] = {}
    for match in _PARAMETER.finditer(text, len(essence)):
        name, value = match["name"], _parameter_value(match)
        if value is not None and _TOKEN.fullmatch(name) and _VALUE.fullmatch(value):
            parameters.setdefault(name.lower(), value)
    return MediaType(f"{kind}/{subtype}".lower(), parameters)


def _parameter_value(match: re.Match[str]) -> str | None:
    if match["quoted"] is not None:
        return _ESCAPED.sub(r"\1", match["quoted"])
    return (match["bare"] or "").rstrip(_HTTP_WHITE_SPACE) or None


def combine_content_type(values: Sequence[str]) -> MediaType | None:
    """The media type that the Content-Type fields of a message give together; None if they give none.

    WHATWG Fetch, "extract a MIME type": the last valid one counts, `*/*` never; a charset is inherited from
    earlier ones of the same essence.

    Args:
        values: the field values in order, bytes read as Latin-1.
    """
    found: MediaType | None = None
    charset: str | None = None
    # Joined first, as the standard does: a quote that one field opens and the next closes is one value.
    for member in _MEMBER.findall(", ".join(values)):
        media_type = parse_media_type(member)
        if media_type is None or media_type.essence == "*/*":
            continue
        if found is None or media_type.essence != found.essence:
            charset = media_type.parameters.get("charset")
        elif charset is not None and "charset" not in media_type.parameters:
            media_type = MediaType(media_type.essence, {**media_type.parameters, "charset": charset})
        found = media_type
    return found


class ContentKind(StrEnum):
    """What content is to be treated as (AMB-65). All but `BINARY` is text."""

    JSON = "json"
    XML = "xml"
    HTML = "html"
    FORM = "form"
    TEXT = "text"
    BINARY = "binary"


_KIND_BY_ESSENCE: Final = {
    "application/json": ContentKind.JSON,
    "text/json": ContentKind.JSON,
    "application/xml": ContentKind.XML,
    "text/xml": ContentKind.XML,
    "text/html": ContentKind.HTML,
    "application/x-www-form-urlencoded": ContentKind.FORM,
}

_KIND_BY_SUFFIX: Final = {
    "+json": ContentKind.JSON,  # RFC 6839 3.1
    "+xml": ContentKind.XML,  # RFC 7303 4.2, so application/xhtml+xml and image/svg+xml too
    "+yaml": ContentKind.TEXT,  # RFC 9512 2.1
    "+json-seq": ContentKind.TEXT,  # RFC 8091
}

# Text that is not registered under text/. Our own list: what people fetch and read.
_TEXT_SUBTYPES: Final = frozenset(
    (
        *("ecmascript", "javascript", "x-ecmascript", "x-javascript", "typescript", "x-typescript"),
        *("json-seq", "jsonl", "jsonlines", "ndjson", "x-jsonlines", "x-ndjson"),
        *("toml", "yaml", "x-toml", "x-yaml"),
        *("graphql", "n-quads", "n-triples", "sparql-query", "sql", "trig"),
        *("vnd.apple.mpegurl", "x-mpegurl", "x-subrip"),
        *("x-httpd-php", "x-latex", "x-perl", "x-python", "x-sh", "x-tex"),
        *("xml-dtd", "xml-external-parsed-entity"),
    )
)


def kind_of(media_type: MediaType | None, data: bytes) -> ContentKind:
    """What content is: its media type decides; without one, valid UTF-8 without NUL is text (AMB-65).

    Args:
        media_type: from `combine_content_type`.
        data: all of the content, or as much as was kept of it, then cut by `cut_utf8`.
    """
    if media_type is None:
        return ContentKind.TEXT if b"\0" not in data and is_utf8(data) else ContentKind.BINARY
    return _kind_of_essence(media_type.essence)


def _kind_of_essence(essence: str) -> ContentKind:
    if essence in _KIND_BY_ESSENCE:
        return _KIND_BY_ESSENCE[essence]
    for suffix, kind in _KIND_BY_SUFFIX.items():
        if essence.endswith(suffix):
            return kind
    tree, _, subtype = essence.partition("/")
    is_text = tree == "text" or (tree == "application" and subtype in _TEXT_SUBTYPES)
    return ContentKind.TEXT if is_text else ContentKind.BINARY


CharsetSource = Literal["bom", "field", "meta", "default"]
"""What said so: a byte order mark, the Content-Type field, the document itself, nobody."""


@dataclass(frozen=True, slots=True)
class Charset:
    """The encoding of some text, and what said so.

    Attributes:
        encoding: the name of a WHATWG encoding, such as "UTF-8" or "windows-1252".
        source: "bom", "field", "meta" (an XML declaration too) or "default".
    """

    encoding: str
    source: CharsetSource


_DECLARED: Final[Mapping[ContentKind, Callable[[bytes], str | None]]] = {
    ContentKind.HTML: declared_in_html,
    ContentKind.XML: declared_in_xml,
}


def charset_of(media_type: MediaType | None, data: bytes) -> Charset:
    """The encoding to read content by: mark, field, document, UTF-8, in this order (HTML 13.2.3.2).

    A label that the web does not know counts as absent (AMB-66). Only HTML and XML documents are asked for
    what they say of themselves, in their first 1,024 bytes.

    Args:
        media_type: from `combine_content_type`.
        data: the content, or at least its first 1,024 bytes.
    """
    if mark := byte_order_mark(data):
        return Charset(mark, "bom")
    if media_type is None:
        return Charset("UTF-8", "default")
    if by_field := decode_label(media_type.parameters.get("charset", "")):
        return Charset(by_field, "field")
    declared = _DECLARED.get(_kind_of_essence(media_type.essence))
    if declared and (by_document := declared(data)):
        return Charset(by_document, "meta")
    return Charset("UTF-8", "default")


def decode_text(data: bytes, charset: Charset) -> str:
    """The text, without byte order mark and with U+FFFD for what is malformed; never raises for data.

    How the encodings "replacement" and "x-user-defined" are treated: see `encodings.decode`.
    """
    return decode(data, charset.encoding).removeprefix("\ufeff")


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are valid UTF-8 to the last one (RFC 3629: no surrogates, nothing overlong)."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


# The beginnings of characters of two, three and four bytes that further bytes can complete (RFC 3629 4).
_INCOMPLETE_CHARACTER: Final = re.compile(
    rb"""
    (?: [\xc2-\xdf]
      | \xe0 [\xa0-\xbf]? | [\xe1-\xec\xee\xef] [\x80-\xbf]? | \xed [\x80-\x9f]?
      | \xf0 (?:[\x90-\xbf] [\x80-\xbf]?)? | [\xf1-\xf3] [\x80-\xbf]{0,2} | \xf4 (?:[\x80-\x8f] [\x80-\xbf]?)?
    ) \Z
    """,
    re.VERBOSE,
)


def cut_utf8(data: bytes) -> bytes:
    """The bytes without the up to three of an incomplete last character, for content cut at a cap (AMB-7).

    Bytes that no further byte could make valid are left: they were wrong before the cut.
    """
    match = _INCOMPLETE_CHARACTER.search(data, max(0, len(data) - 3))
    return data[: match.start()] if match else data


MAX_JSON_DEPTH: Final = 256
"""Arrays and objects in one another: twice what Rust's serde_json takes, and far from Python's stack limit of
1,000, which whoever walks or dumps the value needs, too."""

_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS: Final = bytes(set(range(256)) - set(_STEP))
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str) -> object:
    """The value of a JSON text, if it can be written as strict JSON in UTF-8 again (RFC 8259, AMB-67).

    One byte order mark in front is ignored.

    Raises:
        ValueError: no JSON, or JSON only to Python: NaN, Infinity, a number that overflows to infinity
            (1e999), an integer of more than 4,300 digits, a surrogate without its partner, more than
            `MAX_JSON_DEPTH` levels. Empty text is no JSON either.
    """
    text = text.removeprefix("\ufeff")
    try:
        if _is_too_deep(text):
            raise ValueError(f"more than {MAX_JSON_DEPTH} levels deep")
        value: object = _STRICT_JSON.decode(text)
        _refuse_lone_surrogates(text)
        if _SURROGATE_ESCAPE.search(text):
            _refuse_lone_surrogates(json.dumps(value, ensure_ascii=False))
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:  # the caller itself is deep in the stack
        raise ValueError("not strict JSON: too deep for this stack") from None
    except ValueError as error:
        raise ValueError(f"not strict JSON: {error}") from None
    return value


def _is_too_deep(text: str) -> bool:
    """Whether the parser would meet more than `MAX_JSON_DEPTH` levels before anything that is no JSON.

    Asked first, for a parser in C follows whatever recursion limit the program has set, or crashes.
    """
    if text.count("[") + text.count("{") <= MAX_JSON_DEPTH:
        return False
    # Without escapes every second piece between quotation marks lies outside of strings. An expression that
    # skips strings takes longer than the parser.
    pieces = text.replace("\\\\", "").replace('\\"', "").split('"')[::2]
    brackets = "".join(pieces).encode("ascii", "ignore").translate(None, _NO_BRACKETS)
    return any(depth > MAX_JSON_DEPTH for depth in accumulate(map(_STEP.__getitem__, brackets)))


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError("a number is too large for a double")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_STRICT_JSON: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)


def _refuse_lone_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a surrogate has no partner") from None
