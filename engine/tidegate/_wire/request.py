"""The bytes of a request head (RFC 9112 3): origin-form, one Host, framing by us alone."""

import re
from functools import cache
from typing import Final

from tidegate._policy.fields import Fields, has_field
from tidegate._policy.messages import Request
from tidegate._version import __version__
from tidegate._wire.decode import accept_encoding

_USER_AGENT: Final = f"tidegate/{__version__}"
# RFC 9110 8.6: a user agent sends Content-Length with these methods even when there is no content.
_EXPECTING_CONTENT: Final = frozenset({"POST", "PUT", "PATCH"})


def request_head(request: Request, fields: Fields) -> bytes:
    """The head of a request, ready to send.

    Args:
        request: what is asked, and where. Its own `fields` are not looked at.
        fields: the fields of this hop, credentials included; already checked, so they are ASCII.
    """
    lines = [
        f"{request.method} {request.url.target} HTTP/1.1",
        f"Host: {request.url.authority}",
        *(_lines(_defaults(fields)) if fields else _default_lines()),
        *_lines(fields),
        *_framing(request),
        "\r\n",
    ]
    return "\r\n".join(lines).encode("ascii")


# Schemes that authenticate the connection and not the request (RFC 4559 6).
_BY_CONNECTION: Final = re.compile(rb"(?i)\nauthorization:[ \t]*(?:ntlm|negotiate)")


def authenticates_connection(head: bytes) -> bool:
    """True if a request head carries a credential that a server may take for all that follows."""
    return _BY_CONNECTION.search(head) is not None


def _lines(fields: Fields) -> list[str]:
    return [f"{name}: {value}" for name, value in fields]


@cache
def _default_lines() -> tuple[str, ...]:
    return tuple(_lines(_defaults(())))


def offers_codings(fields: Fields) -> bool:
    """True if we offer content codings of our own, and so decode them (decision D-3).

    A caller that sets Accept-Encoding gets the bytes as they came. A range is counted in encoded bytes, so
    a request for one offers nothing either.
    """
    return not has_field(fields, "accept-encoding") and not has_field(fields, "range")


def _defaults(fields: Fields) -> Fields:
    offered = accept_encoding() if offers_codings(fields) else "identity"
    defaults = (("User-Agent", _USER_AGENT), ("Accept", "*/*"), ("Accept-Encoding", offered))
    return tuple(field for field in defaults if not has_field(fields, field[0].lower()))


def _framing(request: Request) -> list[str]:
    if not isinstance(request.content, bytes):
        return ["Transfer-Encoding: chunked"]
    if request.content or request.method in _EXPECTING_CONTENT:
        return [f"Content-Length: {len(request.content)}"]
    return []
