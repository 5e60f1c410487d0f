"""Header fields: the immutable `Headers`; which request fields are ours, credentials, or safe elsewhere."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from tidegate.errors import InvalidField

HeadersInput: TypeAlias = "Mapping[str, str] | Iterable[tuple[str, str]] | None"
Fields: TypeAlias = tuple[tuple[str, str], ...]
"""Request fields after `check_fields`: ASCII, valid, no name twice."""

MAX_VALUE: Final = 8 * 1024
MAX_SECTION: Final = 64 * 1024
"""Bytes of one field value and of all request fields together (decision D-26)."""

# Decision D-26: framing, routing and hop-by-hop fields are the engine's own.
OWN_FIELDS: Final = frozenset({
    "host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer",
    "expect", "http2-settings", "proxy-authorization", "proxy-connection",
})  # fmt: skip

# RFC 9110 7.6.1, and what older peers add.
HOP_BY_HOP: Final = frozenset({
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip

CREDENTIAL_FIELDS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})

METHOD_OVERRIDE_FIELDS: Final = frozenset({
    "x-http-method-override", "x-http-method", "x-method-override",
    "x-original-method", "x-forwarded-method",
})  # fmt: skip
"""Ask a server to take a request for one with another method.

The first row is heeded by Rails, Express, Laravel, ASP.NET and others; the second one, which proxies set when
they ask whether a request may pass (nginx, Traefik, Caddy), by those that they ask.
"""

PATH_OVERRIDE_FIELDS: Final = frozenset({
    *(
        f"x-{said}-{what}"
        for said in (
            "original", "rewrite", "forwarded", "replaced", "override", "real",
            "matched", "invoke", "envoy-original", "ms-original",
        )
        for what in ("url", "uri", "path")
    ),
    "x-http-path-override", "x-forwarded-prefix", "x-script-name", "script-name", "path-info",
})  # fmt: skip
"""Ask a server to take a request for one of another path: a proxy in front of it would say so.

X-Original-URL and X-Rewrite-URL are heeded behind IIS, by Symfony, Zend, Magento and Yii; X-Forwarded-Uri and
its like behind nginx, Traefik, Caddy, Kong and Envoy; X-Matched-Path and X-Invoke-Path on Vercel. Script-Name
and Path-Info (gunicorn) and the prefixes move the border between where a program lies and its own path.
"""

# A server behind CGI or WSGI cannot tell hyphens from underscores, nor (lighttpd) from any other such mark.
_NO_LETTER: Final = re.compile("[^a-z0-9]")

# Decision D-22: an allow list, since vendors keep inventing names for keys (X-Api-Key and friends).
SAFE_ACROSS_ORIGINS: Final = frozenset({
    "accept", "accept-language", "accept-encoding", "user-agent", "cache-control", "range",
    "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range",
    "content-type", "content-language", "content-encoding",
})  # fmt: skip

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2
# RFC 9110 5.5 without obs-text; the tool `Fetch` refuses the tab as well (AMB-5).
_PRINTABLE: Final = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?|")


class Headers(Mapping[str, str]):
    """Header or trailer fields as they came: ordered, immutable, names compared without case.

    Indexing joins repeated fields with ", " (RFC 9110 5.3), except Set-Cookie, which is joined with a line
    feed since its values hold commas. Values are decoded as UTF-8 if they are that, else as Latin-1.
    """

    __slots__ = ("_by_name", "raw")

    def __init__(self, raw: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.raw: tuple[tuple[bytes, bytes], ...] = tuple(raw)
        self._by_name: dict[str, list[str]] | None = None

    def _index(self) -> dict[str, list[str]]:
        if self._by_name is None:
            index: dict[str, list[str]] = {}
            for name, value in self.raw:
                index.setdefault(name.decode("latin-1").lower(), []).append(_decode(value))
            self._by_name = index
        return self._by_name

    def get_all(self, name: str) -> tuple[str, ...]:
        """Every value of the field, in the order received; empty if there is none."""
        return tuple(self._index().get(name.lower(), ()))

    def __getitem__(self, name: str) -> str:
        values = self._index()[name.lower()]
        return ("\n" if name.lower() == "set-cookie" else ", ").join(values)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._index()

    def __iter__(self) -> Iterator[str]:
        return iter(self._index())

    def __len__(self) -> int:
        return len(self._index())

    def without(self, names: Iterable[str]) -> "Headers":
        """A copy that lacks the named fields."""
        dropped = {name.lower().encode("latin-1") for name in names}
        return Headers(pair for pair in self.raw if pair[0].lower() not in dropped)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        # Names only: values may be secrets (Set-Cookie), and a repr ends up in logs.
        return f"<Headers {', '.join(self)}>" if self.raw else "<Headers>"


def _decode(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def is_own_field(name: str) -> bool:
    """True for a field that only the engine sets, underscore spellings included (decision D-26)."""
    return name.lower().replace("_", "-") in OWN_FIELDS


def overrides_method(name: str) -> bool:
    """True for a field that makes some server take a request for one with another method."""
    return _as_variable(name) in METHOD_OVERRIDE_FIELDS


def overrides_path(name: str) -> bool:
    """True for a field that makes some server take a request for one of another path."""
    return _as_variable(name) in PATH_OVERRIDE_FIELDS


def _as_variable(name: str) -> str:
    return _NO_LETTER.sub("-", name.lower())


def check_fields(headers: HeadersInput) -> Fields:
    """Validate a caller's request fields.

    Args:
        headers: a mapping or pairs of names (RFC 9110 tokens) and values (printable ASCII without white
            space at the ends, at most 8 KiB; all together at most 64 KiB). None means none.

    Returns:
        The fields in their order.

    Raises:
        InvalidField: a name or value is not valid, the engine sets that field itself, a name comes twice
            (letter case aside), or there is too much. The value is never repeated in the message.
    """
    if headers is None:
        return ()
    checked: list[tuple[str, str]] = []
    seen: set[str] = set()
    total = 0
    for name, value in map(_check_field, _pairs(headers)):
        if name.lower() in seen:
            raise InvalidField(f"request field {name!r} is given twice; combine the values into one")
        seen.add(name.lower())
        total += len(name) + len(value) + 4
        checked.append((name, value))
    if total > MAX_SECTION:
        raise InvalidField(f"request fields take {total} bytes together; at most {MAX_SECTION} are sent")
    return tuple(checked)


def _pairs(headers: "Mapping[str, str] | Iterable[tuple[str, str]]") -> list[tuple[object, object]]:
    try:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return [(name, value) for name, value in pairs]  # unpacked here, where a wrong shape is caught
    except (TypeError, ValueError):
        raise InvalidField("headers must be a mapping or pairs of field names and values") from None


def _check_field(pair: tuple[object, object]) -> tuple[str, str]:
    name, value = pair
    if not isinstance(name, str) or not isinstance(value, str):
        raise InvalidField(
            f"field names and values must be text, not {type(name).__name__} and {type(value).__name__}"
        )
    if not _TOKEN.fullmatch(name):
        raise InvalidField(
            f"request field name {name[:64]!r} is not a token of RFC 9110 (letters, digits, hyphen)"
        )
    if is_own_field(name):
        raise InvalidField(f"request field {name!r} is set by the engine itself; leave it out")
    if not _PRINTABLE.fullmatch(value):
        raise InvalidField(
            f"the value of request field {name!r} must be printable ASCII without white space at its ends"
        )
    if len(value) > MAX_VALUE:
        raise InvalidField(f"the value of request field {name!r} has {len(value)} bytes; at most {MAX_VALUE}")
    return name, value


def without_fields(fields: Fields, names: Iterable[str]) -> Fields:
    """The fields whose lower-case name is not among `names`."""
    dropped = frozenset(names)
    return tuple(field for field in fields if field[0].lower() not in dropped)


def only_fields(fields: Fields, names: Iterable[str]) -> Fields:
    """The fields whose lower-case name is among `names`."""
    kept = frozenset(names)
    return tuple(field for field in fields if field[0].lower() in kept)


def has_field(fields: Fields, name: str) -> bool:
    """True if a field of that lower-case name is there."""
    return any(field[0].lower() == name for field in fields)
