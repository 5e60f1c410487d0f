"""D-2, D-10b, D-21, D-22, F-21..F-23, W-136, AMB-10..AMB-16, AMB-88..AMB-91: where a response sends us."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.data import rows_of_kind
from tidegate._policy.fields import CREDENTIAL_FIELDS, SAFE_ACROSS_ORIGINS, Fields, check_fields
from tidegate._policy.messages import METHODS, Content, Request
from tidegate._policy.policy import Policy
from tidegate._policy.reasons import Reason
from tidegate._policy.redirect import FOLLOWED, next_request, redirect_target
from tidegate._policy.url import parse_url
from tidegate.errors import BadRedirect, FetchError, HostDenied, InvalidURL, SchemeDenied

BASE = "https://a.example/dir/page?q=1"


async def pieces() -> AsyncIterator[bytes]:
    yield b"only once"


def request(method: str = "GET", url: str = BASE, fields: Fields = (), content: Content = b"") -> Request:
    return Request(method, parse_url(url), fields, content)


def following(
    before: Request, to: str = "https://a.example/next", status: int = 302, policy: Policy | None = None
) -> Request:
    return next_request(before, parse_url(to), status, policy or Policy())


def target(*locations: bytes, status: int = 302, base: str = BASE) -> str | None:
    url = redirect_target(parse_url(base), status, locations)
    return None if url is None else str(url)


# Whether and where to ---------------------------------------------------------------------------------


def test_five_statuses_are_followed() -> None:
    """AMB-16: 300, 304, 305 and 306 are final, and so is everything that is no 3xx, Location or not."""
    assert {status for status in range(1000) if target(b"/next", status=status)} == FOLLOWED
    assert {301, 302, 303, 307, 308} == FOLLOWED


@pytest.mark.parametrize("status", sorted(FOLLOWED))
def test_without_a_location_a_redirect_is_final(status: int) -> None:
    """F-95, D-10b: an empty one is as if absent."""
    assert target(status=status) is None
    assert target(b"", status=status) is None
    assert target(b" \t", status=status) is None


@pytest.mark.parametrize(
    ("location", "to"),
    [
        (b"/x", "https://a.example/x"),
        (b"x", "https://a.example/dir/x"),
        (b"../x", "https://a.example/x"),
        (b"?p=2", "https://a.example/dir/page?p=2"),
        (b"#top", "https://a.example/dir/page?q=1"),
        (b"//b.example/x", "https://b.example/x"),
        (b"http://a.example/x", "http://a.example/x"),
        (b"HTTPS://B.Example.:443/x#y", "https://b.example/x"),
        ("/ü".encode(), "https://a.example/%C3%BC"),
        (b"/\xfc", "https://a.example/%FC"),
    ],
)
def test_a_location_is_resolved_against_its_hop(location: bytes, to: str) -> None:
    """F-67, AMB-15, D-10b; the whole table is in test_url.py."""
    assert target(location) == to


@pytest.mark.parametrize(
    ("location", "kind", "reason"),
    [
        (b"http://", BadRedirect, Reason.BAD_REDIRECT),
        (b"///b.example", BadRedirect, Reason.BAD_REDIRECT),
        (b"http:/b.example", BadRedirect, Reason.BAD_REDIRECT),
        (b"/a\x00b", BadRedirect, Reason.BAD_REDIRECT),
        (b"\\\\b.example\\", BadRedirect, Reason.BAD_REDIRECT),
        (b"//user:secret@b.example/", InvalidURL, Reason.USERINFO_NOT_ALLOWED),
        (b"//b.example:0/", InvalidURL, Reason.INVALID_PORT),
        (b"//b.example:65536/", InvalidURL, Reason.INVALID_PORT),
        (b"file:///etc/passwd", SchemeDenied, Reason.UNSUPPORTED_SCHEME),
        (b"ftp://b.example/", SchemeDenied, Reason.UNSUPPORTED_SCHEME),
        (b"data:text/plain,x", SchemeDenied, Reason.UNSUPPORTED_SCHEME),
        (b"//0x7f.1/", HostDenied, Reason.NON_CANONICAL_IP),
        (b"//2130706433/", HostDenied, Reason.NON_CANONICAL_IP),
    ],
)
def test_a_location_that_is_refused(location: bytes, kind: type[Exception], reason: Reason) -> None:
    """F-69, AMB-9, table A2: a destination that is refused is no broken redirect."""
    with pytest.raises(FetchError) as caught:
        target(location)
    assert (type(caught.value), caught.value.reason) == (kind, reason)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "locations",
    [(b"/x", b"/y"), (b"/x", b"/x", b"/y"), (b"", b"/x"), (b"/x", b""), (b"/x", b"https://a.example/x")],
)
def test_two_locations_that_differ(locations: tuple[bytes, ...]) -> None:
    """Table A2: clients disagree on which of them counts, so none does."""
    with pytest.raises(BadRedirect, match="several Location fields that differ"):
        target(*locations)
    assert target(*locations, status=200) is None


def test_two_locations_that_agree() -> None:
    assert target(b"/x", b"/x") == "https://a.example/x"


@pytest.mark.parametrize("row", rows_of_kind("redirect-status"), ids=lambda row: row["id"])
def test_corpus_of_statuses(row: dict[str, Any]) -> None:
    assert row["followed"] is False
    assert target(row["input"].encode(), status=row["status"], base=row["base"]) is None


# Method and content -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("status", sorted(FOLLOWED))
def test_method_and_content(method: str, status: int) -> None:
    """D-21, AMB-13, AMB-88, W-136: 301 to 303 make a GET of all but HEAD, and none of them keeps content."""
    fields = check_fields({
        "Content-Type": "text/plain", "content-language": "de", "CONTENT-ENCODING": "gzip",
        "Content-Location": "/x", "Content-MD5": "x", "Content-Digest": "y", "Accept": "*/*",
    })  # fmt: skip
    after = following(request(method, fields=fields, content=b"data"), status=status)
    if status in (307, 308):
        assert (after.method, after.content, after.fields) == (method, b"data", fields)
        return
    assert after.method == ("HEAD" if method == "HEAD" else "GET")
    assert after.content == b""
    assert after.fields == (("Accept", "*/*"),)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("status", sorted(FOLLOWED))
def test_content_that_can_be_sent_only_once(method: str, status: int) -> None:
    """Table A2: only where it would have to be sent again is it an error."""
    before = request(method, content=pieces())
    if status not in (307, 308):
        assert following(before, status=status).content == b""
        return
    with pytest.raises(BadRedirect, match=rf"^status {status} asks for the content again") as caught:
        following(before, status=status)
    assert caught.value.reason is Reason.CONTENT_NOT_REPLAYABLE


def test_the_next_request_goes_to_the_target() -> None:
    after = following(request(), to="http://b.example:8080/x?y")
    assert str(after.url) == "http://b.example:8080/x?y"


@pytest.mark.parametrize("row", rows_of_kind("redirect-method"), ids=lambda row: row["id"])
def test_corpus_of_methods(row: dict[str, Any]) -> None:
    fields = (("Content-Type", "text/plain"),)
    base = parse_url(row["base"])
    to = redirect_target(base, row["status"], [row["input"].encode()])
    assert to is not None
    after = next_request(Request(row["method"], base, fields, b"data"), to, row["status"], Policy())
    assert after.method == row["next_method"]
    assert (after.content == b"data") is row["body_kept"]
    assert (after.fields == fields) is row["body_kept"]


# Fields -----------------------------------------------------------------------------------------------

CALLERS = check_fields({
    "Authorization": "Bearer s", "COOKIE": "a=b", "X-Api-Key": "k", "Api-Key": "k", "Cookie2": "c",
    "Private-Token": "t", "Referer": "https://a.example/", "Origin": "https://a.example",
    "Accept": "text/html", "accept-language": "de", "Accept-Encoding": "gzip", "User-Agent": "u",
    "Cache-Control": "no-cache", "Range": "bytes=0-1", "If-None-Match": '"x"', "If-Range": '"x"',
})  # fmt: skip
SAFE = CALLERS[8:]


@pytest.mark.parametrize(
    ("base", "to", "same"),
    [
        ("https://a.example/", "https://a.example/x?y", True),
        ("https://a.example/", "https://A.Example.:443/", True),
        ("http://a.example/", "http://a.example:80/", True),
        ("http://a.example:8080/", "http://a.example:8080/x", True),
        ("https://[2606:4700::1]/", "https://[2606:4700:0::1]/", True),
        ("https://a.example/", "http://a.example/", False),
        ("http://a.example/", "https://a.example/", False),
        ("https://a.example/", "https://a.example:8443/", False),
        ("https://a.example:8443/", "https://a.example/", False),
        ("http://a.example:443/", "https://a.example/", False),
        ("https://a.example/", "https://b.example/", False),
        ("https://a.example/", "https://sub.a.example/", False),
        ("https://sub.a.example/", "https://a.example/", False),
        ("https://a.example/", "https://a.example.evil.example/", False),
        ("https://a.example/", "https://93.184.216.34/", False),
        ("https://xn--bcher-kva.example/", "https://bücher.example/", True),
    ],
)
@pytest.mark.parametrize("keep", [False, True], ids=["drop", "keep"])
@pytest.mark.parametrize("status", [302, 307])
def test_fields_within_and_across_origins(base: str, to: str, same: bool, keep: bool, status: int) -> None:
    """D-22, F-22, F-23, AMB-91: an origin is scheme, host and port.

    Across, only what is known to be safe; within, all but credentials, and those too if the policy says so.
    """
    policy = Policy(keep_credentials_within_origin=keep)
    after = following(request(url=base, fields=CALLERS), to=to, status=status, policy=policy)
    if not same:
        assert after.fields == SAFE
    elif keep:
        assert after.fields == CALLERS
    else:
        assert after.fields == CALLERS[2:]


@pytest.mark.parametrize(
    "name", ["authorization", "AUTHORIZATION", "Cookie", "cOOkie", "Proxy-Authorization"]
)
@pytest.mark.parametrize("to", ["https://a.example/", "https://b.example/"])
def test_credentials_are_found_whatever_their_case(name: str, to: str) -> None:
    """AMB-10, AMB-11: dropped on every redirect, the same host included."""
    before = request(fields=((name, "s"), ("Accept", "*/*")))
    assert following(before, to=to).fields == (("Accept", "*/*"),)


def test_the_operator_can_let_more_fields_across() -> None:
    """D-22: by name, whatever the case; nothing else, and never credentials."""
    policy = Policy(redirect_fields=["X-Api-Key", "ORIGIN"], keep_credentials_within_origin=True)
    after = following(request(fields=CALLERS), to="https://b.example/", policy=policy)
    assert {name.lower() for name, _ in after.fields} - {name.lower() for name, _ in SAFE} == {
        "x-api-key",
        "origin",
    }


def test_content_fields_cross_origins_only_with_the_content() -> None:
    """D-22, D-21."""
    fields = check_fields({"Content-Type": "text/plain", "Content-Language": "de", "Content-MD5": "x"})
    before = request("POST", fields=fields, content=b"data")
    assert following(before, to="https://b.example/", status=307).fields == fields[:2]
    assert following(before, to="https://b.example/", status=303).fields == ()


def test_what_was_dropped_does_not_come_back() -> None:
    """A redirect away and home again: the second hop has nothing left to give."""
    away = following(request(fields=CALLERS), to="https://b.example/")
    home = following(away, to=BASE, policy=Policy(keep_credentials_within_origin=True))
    assert home.fields == SAFE


def test_every_safe_field_crosses_and_no_credential_does() -> None:
    names = sorted(SAFE_ACROSS_ORIGINS | CREDENTIAL_FIELDS)
    before = request("POST", fields=tuple((name.title(), "x") for name in names), content=b"x")
    after = following(before, to="https://b.example/", status=308)
    assert {name.lower() for name, _ in after.fields} == SAFE_ACROSS_ORIGINS


def test_the_request_before_is_left_as_it_was() -> None:
    """F-97."""
    before = request("POST", fields=CALLERS, content=b"data")
    following(before, to="https://b.example/")
    assert before == request("POST", fields=CALLERS, content=b"data")


@pytest.mark.parametrize("row", rows_of_kind("redirect-credentials"), ids=lambda row: row["id"])
def test_corpus_of_credentials(row: dict[str, Any]) -> None:
    """AMB-91: as `web_request` has it, which keeps the model's own within one origin."""
    base = parse_url(row["base"])
    to = redirect_target(base, row["status"], [row["input"].encode()])
    assert to is not None
    fields = check_fields(row["headers_in"])
    policy = Policy(keep_credentials_within_origin=True)
    after = next_request(Request("GET", base, fields, b""), to, row["status"], policy)
    secret = [(name, value) for name, value in fields if name != "Accept"]
    assert all((field in after.fields) is row["sensitive_kept"] for field in secret)
