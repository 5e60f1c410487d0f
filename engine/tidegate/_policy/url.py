"""URLs: the one parser between a text and whatever is checked, resolved, connected and sent.

WHATWG URL for http and https, minus everything on which two parsers could disagree about the host: what
WHATWG repairs (tabs, backslashes, missing slashes, encoded hosts, odd numbers, userinfo) is refused here
with the reason (D-9, D-10, D-10a). A URL that is accepted names the same host, port, path and query as it
does in a browser. Only two things differ: one final dot of the host is dropped, and a backslash in the
query is percent-encoded.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from tidegate._policy.host import Address, address_of, canonical_host
from tidegate._policy.ports import DEFAULT_PORTS, MAX_PORT
from tidegate._policy.reasons import Reason
from tidegate.errors import BadRedirect, FetchError, InvalidURL, SchemeDenied

# Octets of a serialised URL, `query` merged in (D-10). Twice what RFC 9110 4.1 asks everyone to support.
MAX_URL_LENGTH: Final = 16_384

# WHATWG URL 1.3 as regular expressions: what is encoded, which is all but the named characters. Said by its
# complement, since a class that reaches to U+10FFFF takes milliseconds to compile.
_PATH_SET: Final = re.compile(r"[^!$-;=@-\]_a-z|~]+")
# The set of special schemes, and the backslash, which WHATWG leaves alone in a query.
_QUERY_SET: Final = re.compile(r"[^!$-&(-;=?-\[\]-~]+")
_FORM_SET: Final = re.compile(r"[^A-Za-z0-9*\-._]+")

_ASCII_WHITE_SPACE: Final = "\t\n\f\r "
_OPTIONAL_WHITE_SPACE: Final = b"\t "  # RFC 9110 5.6.3
_FORBIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# The same without the surrogates, which stand for bytes of a Location that are not UTF-8.
_FORBIDDEN_IN_LOCATION: Final = re.compile("[\x00-\x1f\x7f-\x9f]")

_HTTP_URL: Final = re.compile(r"([Hh][Tt][Tt][Pp][Ss]?)://([^/?]*)([^?]*)(?:\?(.*))?")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PORT_AFTER_COLON: Final = re.compile(r"[^:]*:[0-9]+(?:[/?].*)?")
_DOT_SEGMENT: Final = re.compile(r"/(?:\.|%2[Ee]){1,2}(?:/|\Z)")

# `parse_url` is pure, so remembering is safe. Few and short texts only: a query may hold a secret, which
# should not stay in memory for longer than it must.
_CACHED_URLS: Final = 64
_CACHED_LENGTH: Final = 1024


@dataclass(frozen=True, slots=True)
class URL:
    """An http or https URL in its one normal form. The fragment is gone.

    Made by `parse_url`, `add_query` and `join_location`, which have checked what nothing later checks again.

    Attributes:
        scheme: `http` or `https`.
        host: what `canonical_host` returns: A-labels without a final dot, or an address without brackets.
        port: the effective port, 1 to 65,535, given or not.
        path: percent-encoded, without dot segments; begins with a slash.
        query: percent-encoded, without the question mark; None if there is none. Left out of `repr`, as it
            may hold secrets.
    """

    scheme: str
    host: str
    port: int
    path: str
    query: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def authority(self) -> str:
        """Host, and port unless it is the scheme's own: the value of the Host field (RFC 9110 7.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def target(self) -> str:
        """Path and query: the request target in origin-form (RFC 9112 3.2.1)."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port (RFC 6454 4)."""
        return self.scheme, self.host, self.port

    @property
    def without_query(self) -> str:
        """The URL for logs, errors and results that must not show a query."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def address(self) -> Address | None:
        """The address, if the host is a literal one."""
        return address_of(self.host)


def parse_url(text: str) -> URL:
    """Parse an absolute http or https URL.

    ASCII white space around it is trimmed. Nothing else is repaired; see D-10 for what is refused.

    Args:
        text: at most 16,384 characters without its fragment.

    Raises:
        InvalidURL: `malformed_url`, `userinfo_not_allowed` or `invalid_port`.
        SchemeDenied: `unsupported_scheme`.
        HostDenied: `non_canonical_ip`, a disguised address.
    """
    if not isinstance(text, str):
        raise InvalidURL("The URL is not a text.")
    return _parse_cached(text) if len(text) <= _CACHED_LENGTH else _parse(text)


def add_query(url: URL, pairs: Iterable[tuple[str, str]]) -> URL:
    """Append form-encoded pairs after the URL's own query, which stays as it is (AMB-73).

    Args:
        url: where they go.
        pairs: names and values in order, not yet encoded.

    Raises:
        InvalidURL: the result has more than 16,384 octets, or a name or value is no text or holds a lone
            surrogate.
    """
    own = [url.query] if url.query else []
    added = [f"{_form_encoded(name)}={_form_encoded(value)}" for name, value in pairs]
    if not added:
        return url
    return _bounded(replace(url, query="&".join(own + added)))


def join_location(base: URL, location: bytes) -> URL | None:
    """Resolve a Location field value against the URL of its hop.

    Args:
        base: the URL that was asked.
        location: the value as received. It may hold UTF-8 or, in path and query, any bytes above 0x7F.

    Returns:
        Where to go next, the fragment dropped; None if the value is empty, which is as if it were absent.

    Raises:
        BadRedirect: it is no URL: what `parse_url` calls `malformed_url`, `http:x` and `///host` among it.
        InvalidURL: `userinfo_not_allowed` or `invalid_port`.
        SchemeDenied, HostDenied: as `parse_url`.
    """
    text = location.strip(_OPTIONAL_WHITE_SPACE).decode("utf-8", "surrogateescape")
    if not text:
        return None
    try:
        return _resolved(base, text)
    except InvalidURL as error:
        if error.reason is not Reason.MALFORMED_URL:
            raise
        raise BadRedirect(f"The Location of the redirect is no URL. {error.message}") from None


# Absolute URLs ----------------------------------------------------------------------------------------


def _parse(text: str) -> URL:
    text = text.strip(_ASCII_WHITE_SPACE)
    if not (text.isascii() and text.isprintable()):
        _refuse_characters(text, _FORBIDDEN)
    return _absolute(_without_fragment(text))


_parse_cached: Final = lru_cache(_CACHED_URLS)(_parse)


def _absolute(text: str) -> URL:
    match = _HTTP_URL.fullmatch(text)
    if match is None:
        raise _no_http_url(text)
    scheme, authority, path, query = match.groups()
    if "\\" in authority:
        raise _backslash()
    scheme = scheme.lower()
    host, port = _split_authority(authority)
    return _bounded(
        URL(scheme, canonical_host(host), _port(port, scheme), _normal_path(path), _normal_query(query))
    )


def _refuse_characters(text: str, forbidden: re.Pattern[str]) -> None:
    """Controls and lone surrogates, the fragment included: something went wrong before us, or will after."""
    if bad := forbidden.search(text):
        raise InvalidURL(
            f"The URL holds U+{ord(bad[0]):04X} at position {bad.start() + 1}, a control character or half a"
            " character; remove or percent-encode it."
        )


def _without_fragment(text: str) -> str:
    kept = text.partition("#")[0]
    if len(kept) > MAX_URL_LENGTH:
        raise _too_long()
    return kept


def _bounded(url: URL) -> URL:
    if len(str(url)) > MAX_URL_LENGTH:
        raise _too_long()
    return url


def _too_long() -> InvalidURL:
    return InvalidURL(f"The URL is longer than {MAX_URL_LENGTH:,} octets.")


def _backslash() -> InvalidURL:
    return InvalidURL("The URL holds a backslash before the query; write a slash, or %5C if it is meant.")


def _no_http_url(text: str) -> FetchError:
    """The error for a text that does not begin with `http://` or `https://`."""
    scheme = _SCHEME.match(text)
    if scheme and scheme[1].lower() in DEFAULT_PORTS:
        return InvalidURL("The URL needs exactly two slashes after its scheme.")
    # `localhost:3000` has the form of a scheme; nobody means it as one (D-10).
    if scheme is None or _PORT_AFTER_COLON.fullmatch(text):
        return InvalidURL("The URL has no scheme; put https:// in front of it.")
    return SchemeDenied("The scheme of the URL is neither https nor http.")


def _split_authority(authority: str) -> tuple[str, str]:
    """Host and port, both as written. The host has a colon only if a bracket is there too."""
    if "@" in authority:
        raise InvalidURL(
            "The URL has user information before its host; send credentials in a field of the request.",
            reason=Reason.USERINFO_NOT_ALLOWED,
        )
    if not authority:
        raise InvalidURL("The URL has no host after its two slashes.")
    bracketed, bracket, rest = authority.rpartition("]")
    host, _, port = rest.partition(":")
    return bracketed + bracket + host, port


def _port(text: str, scheme: str) -> int:
    if not text:
        return DEFAULT_PORTS[scheme]
    digits = text.lstrip("0")
    # The length first: int() of a very long text is slow, and beyond 4,300 digits an error of its own.
    if text.isascii() and text.isdigit() and 1 <= len(digits) <= 5 and int(digits) <= MAX_PORT:
        return int(digits)
    raise InvalidURL("The port of the URL is not a number from 1 to 65535.", reason=Reason.INVALID_PORT)


# Path and query ---------------------------------------------------------------------------------------


def _normal_path(path: str) -> str:
    if "\\" in path:
        raise _backslash()
    encoded = _PATH_SET.sub(_percent_encoded, path)
    if _DOT_SEGMENT.search(encoded):
        return _without_dot_segments(encoded)
    return encoded or "/"


def _normal_query(query: str | None) -> str | None:
    return query and _QUERY_SET.sub(_percent_encoded, query)


def _percent_encoded(match: re.Match[str]) -> str:
    """UTF-8, octet by octet; surrogates are the bytes they stand for (only a Location has them here)."""
    return "".join(f"%{octet:02X}" for octet in match[0].encode("utf-8", "surrogateescape"))


def _without_dot_segments(path: str) -> str:
    """WHATWG URL 4.4, path state. `%2e` is a dot here and nowhere else: other escapes stay as they are."""
    kept: list[str] = []
    kind = ""
    for segment in path.split("/")[1:]:
        kind = segment.lower().replace("%2e", ".")
        if kind == "..":
            del kept[-1:]
        elif kind != ".":
            kept.append(segment)
    if kind in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _form_encoded(text: str) -> str:
    """WHATWG URL 5.2, application/x-www-form-urlencoded."""
    if not isinstance(text, str):
        raise InvalidURL("A query name or value is not a text.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidURL("A query name or value holds half a character (a lone surrogate).") from None
    return _FORM_SET.sub(_percent_encoded, text).replace("%20", "+")


# Relative references ----------------------------------------------------------------------------------


def _resolved(base: URL, text: str) -> URL:
    """RFC 3986 5.2.2, with the ambiguous forms refused (D-10b)."""
    _refuse_characters(text, _FORBIDDEN_IN_LOCATION)
    reference = _without_fragment(text)
    if _SCHEME.match(reference):
        return _absolute(reference)
    if reference.startswith("//"):
        return _absolute(f"{base.scheme}:{reference}")
    return _relative(base, reference)


def _relative(base: URL, reference: str) -> URL:
    path, mark, query = reference.partition("?")
    if not path:
        return _bounded(replace(base, query=_normal_query(query))) if mark else base
    if not path.startswith("/"):
        path = base.path[: base.path.rindex("/") + 1] + path
    return _bounded(
        replace(base, path=_normal_path(path), query=_normal_query(query) if mark else None),
    )
