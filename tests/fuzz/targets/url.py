"""Invariant: a text is refused with a FetchError, or its URL reads as itself and is the same for WHATWG.

So is what a Location leads to. And a host that reads as an address is the address that it reads as.
"""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from tests.fuzz.test_url_differential import assert_same
from tests.support.data import corpus
from tidegate._policy.url import URL, join_location, parse_url
from tidegate.errors import FetchError

BASE: Final = "https://example.com:81/a/b?c"


def check(data: bytes) -> None:
    """The text by itself, and as a Location."""
    text = data.decode("utf-8", "surrogateescape")
    _check(_parsed(text), text, None)
    try:
        joined = join_location(parse_url(BASE), data)
    except FetchError:
        return
    if joined is not None and text.isprintable():
        _check(joined, text, BASE)


def _parsed(text: str) -> URL | None:
    try:
        return parse_url(text)
    except FetchError:
        return None


def _check(url: URL | None, text: str, base: str | None) -> None:
    if url is None:
        return
    assert _parsed(str(url)) == url, f"{text!r} reads as {url!s}, which reads otherwise"
    assert str(url).isascii()
    if url.address is not None:
        assert ip_address(url.host) == url.address
    if text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") == text:
        assert_same(url, text, base)


def seeds() -> Iterator[bytes]:
    """The URL corpus."""
    for row in corpus("urls"):
        yield row["input"].encode("utf-8", "surrogatepass")
