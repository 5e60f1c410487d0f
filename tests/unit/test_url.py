"""D-10, D-10a, D-10b, AMB-73: what is a URL here, what it becomes, where a Location leads."""

import ast
import ipaddress
import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.data import corpus
from tidegate._policy.host import is_local_name
from tidegate._policy.reasons import Reason
from tidegate._policy.url import MAX_URL_LENGTH, URL, add_query, join_location, parse_url
from tidegate.errors import BadRedirect, Denied, FetchError, HostDenied, InvalidURL, SchemeDenied

# The value --------------------------------------------------------------------------------------------


def test_a_url_shows_its_parts() -> None:
    url = parse_url("HTTPS://Bücher.Example.:8443/a b?q=ü#top")
    assert url == URL("https", "xn--bcher-kva.example", 8443, "/a%20b", "q=%C3%BC")
    assert str(url) == "https://xn--bcher-kva.example:8443/a%20b?q=%C3%BC"
    assert url.authority == "xn--bcher-kva.example:8443"
    assert url.target == "/a%20b?q=%C3%BC"
    assert url.origin == ("https", "xn--bcher-kva.example", 8443)
    assert url.without_query == "https://xn--bcher-kva.example:8443/a%20b"
    assert url.address is None
    assert pickle.loads(pickle.dumps(url)) == url


@pytest.mark.parametrize(
    ("text", "host", "authority", "address"),
    [
        ("http://192.0.2.1/", "192.0.2.1", "192.0.2.1", ipaddress.IPv4Address("192.0.2.1")),
        ("http://[2001:DB8::0:1]/", "2001:db8::1", "[2001:db8::1]", ipaddress.IPv6Address("2001:db8::1")),
        ("http://[::1]:8080/", "::1", "[::1]:8080", ipaddress.IPv6Address("::1")),
        ("http://example.com:80/", "example.com", "example.com", None),
        ("https://example.com:443/", "example.com", "example.com", None),
        ("https://example.com:80/", "example.com", "example.com:80", None),
        ("http://example.com:443/", "example.com", "example.com:443", None),
    ],
)
def test_authority_has_brackets_and_only_an_unusual_port(
    text: str, host: str, authority: str, address: object
) -> None:
    """W-121: it is the value of the Host field."""
    url = parse_url(text)
    assert (url.host, url.authority, url.address) == (host, authority, address)


def test_the_query_is_not_in_the_repr() -> None:
    url = parse_url("https://example.com/?token=hunter2")
    assert "hunter2" not in repr(url)
    assert "hunter2" not in url.without_query
    assert "hunter2" in str(url)


# What a text becomes ----------------------------------------------------------------------------------

ACCEPTED = [
    ("https://example.com", "https://example.com/"),
    ("HTTP://EXAMPLE.com/Path", "http://example.com/Path"),
    ("https://example.com./x", "https://example.com/x"),
    (" \t\r\n\fhttps://example.com/ \n", "https://example.com/"),
    # Port: empty is the default, leading zeros fall away.
    ("http://example.com:/", "http://example.com/"),
    ("http://example.com:00000000000000000000080/", "http://example.com/"),
    ("http://example.com:1/", "http://example.com:1/"),
    ("http://example.com:65535/", "http://example.com:65535/"),
    ("http://[::1]:/", "http://[::1]/"),
    # Query and fragment.
    ("https://example.com?x=1", "https://example.com/?x=1"),
    ("https://example.com/?", "https://example.com/?"),
    ("https://example.com/?a?b", "https://example.com/?a?b"),
    ("https://example.com#@evil.example/", "https://example.com/"),
    ("https://example.com?@evil.example", "https://example.com/?@evil.example"),
    ("https://example.com/@evil.example", "https://example.com/@evil.example"),
    ("https://example.com/#\\ <ü?", "https://example.com/"),
    ("https://example.com/a#b#c", "https://example.com/a"),
    # Percent-encode sets of WHATWG URL 1.3.
    ("https://example.com/ \"<>^`{}ü~!$&'()*+,;=:@[]|", "https://example.com/%20%22%3C%3E%5E%60%7B%7D%C3%BC~!$&'()*+,;=:@[]|"),
    ("https://example.com/? \"<>'ü^`{}|[]~", "https://example.com/?%20%22%3C%3E%27%C3%BC^`{}|[]~"),
    ("https://example.com/?a\\b", "https://example.com/?a%5Cb"),
    ("https://example.com/🐔", "https://example.com/%F0%9F%90%94"),
    ("https://example.com/%2f%5C%41%zz%", "https://example.com/%2f%5C%41%zz%"),
    ("https://example.com/?%2f%zz%", "https://example.com/?%2f%zz%"),
    # Dot segments.
    ("https://example.com/a/../b", "https://example.com/b"),
    ("https://example.com/a/./b/.", "https://example.com/a/b/"),
    ("https://example.com/a/b/..", "https://example.com/a/"),
    ("https://example.com/..", "https://example.com/"),
    ("https://example.com/../../x", "https://example.com/x"),
    ("https://example.com/a//../b", "https://example.com/a/b"),
    ("https://example.com/.//evil.example", "https://example.com//evil.example"),
    ("https://example.com/a/%2E%2e/b", "https://example.com/b"),
    ("https://example.com/a/%2e/b/.%2E", "https://example.com/a/"),
    ("https://example.com/a/%2e%2e%2e/..b/c..", "https://example.com/a/%2e%2e%2e/..b/c.."),
    ("https://example.com/%2e%2fa", "https://example.com/%2e%2fa"),
    ("https://example.com/?a/../b", "https://example.com/?a/../b"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "serialised"), ACCEPTED)
def test_accepted_texts_have_one_form_and_keep_it(text: str, serialised: str) -> None:
    """D-10."""
    url = parse_url(text)
    assert str(url) == serialised
    assert parse_url(serialised) == url


# What is refused --------------------------------------------------------------------------------------

MALFORMED = [
    ("", "no scheme; put https://"),
    ("   ", "no scheme; put https://"),
    ("example.com", "no scheme; put https://"),
    ("//example.com/", "no scheme; put https://"),
    ("/path", "no scheme; put https://"),
    ("localhost:3000", "no scheme; put https://"),
    ("example.com:8080/x", "no scheme; put https://"),
    ("example.com:8080?x", "no scheme; put https://"),
    ("127.0.0.1:8080", "no scheme; put https://"),
    ("://example.com", "no scheme; put https://"),
    ("1http://example.com/", "no scheme; put https://"),
    ("httpſ://example.com/", "no scheme; put https://"),
    ("ｈttp://example.com/", "no scheme; put https://"),
    ("http;//example.com/", "no scheme; put https://"),
    ("http\\://example.com/", "no scheme; put https://"),
    ("http:", "two slashes"),
    ("http:80", "two slashes"),
    ("http:example.com", "two slashes"),
    ("https:/example.com", "two slashes"),
    ("http:\\\\example.com\\", "two slashes"),
    ("http:／／example.com/", "two slashes"),
    ("http://", "no host"),
    ("http:///example.com/", "no host"),
    ("http:////example.com/", "no host"),
    ("http://?x", "no host"),
    ("http://#x", "no host"),
    ("http://:80/", "The host is empty"),
    ("http://::1/", "The host is empty"),
    ("http://[::1]x/", "neither"),
    ("http://[::1]x:80/", "neither"),
    ("http://[::1/", "neither"),
    ("http://::1]/", "neither"),
    ("http://a:80]:80/", "neither"),
    ("http://exa mple.com/", "U+0020"),
    ("http://ex%61mple.com/", "percent-encoding"),
    ("http://example.com\\@evil.example/", "backslash"),
    ("http://example.com/\\evil.example", "backslash"),
    ("http://example.com/a\\b?c", "backslash"),
    ("ht\ttp://example.com/", "U+0009 at position 3"),
    ("http://example.com/\r\nX: 1", "U+000D at position 20"),
    ("http://example.com/?a\nb", "U+000A"),
    ("http://example.com/#a\x00b", "U+0000"),
    ("\x00http://example.com/", "U+0000 at position 1"),
    ("\x0bhttp://example.com/", "U+000B"),
    ("http://example.com/\x7f", "U+007F"),
    ("http://example.com/\x85", "U+0085"),
    ("http://example.com/\x9f", "U+009F"),
    ("http://example.com/\ud800", "U+D800"),
    ("http://example.com/#\udfff", "U+DFFF"),
    ("\xa0http://example.com/", "no scheme"),
]

USERINFO = [
    "http://user@example.com/",
    "http://user:pass@example.com/",
    "http://@example.com/",
    "http://:@example.com/",
    "http://@/",
    "http://a@b@example.com/",
    "http://example.com:80@127.0.0.1/",
    "http://[::1]@example.com/",
    "http://example.com@[::1]/",
]

PORTS = [
    "0", "000", "65536", "99999", "4294967376", "9" * 5000, "-1", "+80", " 80", "80 ", "8o", "1e2",
    "0x50", "8_0",
    "８０", "٨٠", "²", "%38%30", "80:80", ":80", "80.", ".80", "https",
]  # fmt: skip

SCHEMES = [
    "ftp://example.com/", "file:///etc/passwd", "ws://example.com/", "data:text/plain,x",
    "javascript:alert(1)",
    "view-source:http://example.com/", "http+unix://x/", "httpx://example.com/", "mailto:a@example.com",
    "about:blank",
    "magnet:?xt=x", "h://x",
]  # fmt: skip


def refusal_of(text: Any) -> FetchError:
    with pytest.raises(FetchError) as caught:
        parse_url(text)
    assert caught.value.phase is None
    return caught.value


@pytest.mark.parametrize(("text", "part"), MALFORMED)
def test_malformed_urls_are_refused_with_what_is_wrong(text: str, part: str) -> None:
    """D-10, F-47, F-48, W-97."""
    error = refusal_of(text)
    assert isinstance(error, InvalidURL)
    assert error.reason is Reason.MALFORMED_URL
    assert part in error.message


@pytest.mark.parametrize("given", [None, 7, b"https://example.com/", ["https://example.com/"]])
def test_what_is_no_text_is_malformed(given: object) -> None:
    error = refusal_of(given)
    assert isinstance(error, InvalidURL)
    assert error.reason is Reason.MALFORMED_URL


@pytest.mark.parametrize("text", USERINFO)
def test_userinfo_is_refused_an_empty_one_too(text: str) -> None:
    error = refusal_of(text)
    assert isinstance(error, InvalidURL)
    assert error.reason is Reason.USERINFO_NOT_ALLOWED


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("host", ["example.com", "[::1]"])
def test_ports_that_are_no_number_from_1_to_65535(host: str, port: str) -> None:
    error = refusal_of(f"http://{host}:{port}/")
    assert isinstance(error, InvalidURL)
    assert error.reason is Reason.INVALID_PORT


@pytest.mark.parametrize("text", SCHEMES)
def test_other_schemes_are_denied(text: str) -> None:
    """F-46."""
    error = refusal_of(text)
    assert isinstance(error, SchemeDenied)
    assert error.reason is Reason.UNSUPPORTED_SCHEME


@pytest.mark.parametrize(
    "text", ["http://127.1/", "http://0x7f.1:80/", "https://8.8.8.8./", "http://①.⓪.⓪.①/"]
)
def test_disguised_addresses_are_denied(text: str) -> None:
    """D-9."""
    error = refusal_of(text)
    assert isinstance(error, HostDenied)
    assert error.reason is Reason.NON_CANONICAL_IP


@pytest.mark.parametrize(
    "text",
    [
        "http://hunter2@example.com/",
        "http://user:hunter2@example.com:99999/",
        "user:hunter2@example.com/",
        "hunter2:8080/",
        "http://example.com:hunter2/",
        "http://example.com/?hunter2\x00",
        "http://example.com/hunter2\\",
        "http://hunter2%40/",
        "http://hunter2＠example.com/",
        "http://hunter2.1/",
        "http://[hunter2]/",
        "http://xn--hunter2/",
        "https:hunter2",
        "http://example.com/#hunter2\ud800",
        "http://example.com/hunter2" + "x" * MAX_URL_LENGTH,
    ],
)
def test_no_refusal_repeats_the_text(text: str) -> None:
    """D-13: no URL, no address, no secret in a sentence that a model or a log will see."""
    error = refusal_of(text)
    assert "hunter2" not in repr(error)
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


def test_the_limit_is_on_the_serialised_url_without_its_fragment() -> None:
    """D-10: 16,384 octets."""
    fits = "https://example.com/".ljust(MAX_URL_LENGTH, "x")
    assert str(parse_url(fits + "#" + "f" * 100_000)) == fits
    for text in (fits + "x", fits[:-1] + "ü", fits[:-3] + "?< "):
        assert "16,384" in refusal_of(text).message


def test_a_refusal_is_a_new_exception_every_time() -> None:
    """A cached one would carry a traceback, and what an engine notes on it, from call to call."""
    assert refusal_of("http://127.1/") is not refusal_of("http://127.1/")
    assert parse_url("http://example.com/") == parse_url("http://example.com/")


@given(st.text() | st.text("htps:/?#@[]\\.%0x2e\u00ad ", max_size=40).map("http://".__add__))
def test_any_text_is_a_url_or_one_of_three_refusals(text: str) -> None:
    try:
        url = parse_url(text)
    except (InvalidURL, SchemeDenied, HostDenied):
        return
    assert str(url).isascii()
    assert str(url).isprintable()
    assert " " not in str(url)
    assert parse_url(str(url)) == url


# add_query --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pairs", "serialised"),
    [
        ("https://example.com/", [], "https://example.com/"),
        ("https://example.com/?", [], "https://example.com/?"),
        ("https://example.com/", [("a", "b")], "https://example.com/?a=b"),
        ("https://example.com/?", [("a", "b")], "https://example.com/?a=b"),
        ("https://example.com/?x=%2f&y", [("a", "b"), ("a", "c")], "https://example.com/?x=%2f&y&a=b&a=c"),
        ("https://example.com/", [("", "")], "https://example.com/?="),
        (
            "https://example.com/",
            [("a b", "c+d&e=f%20#?")],
            "https://example.com/?a+b=c%2Bd%26e%3Df%2520%23%3F",
        ),
        ("https://example.com/", [("ü", "日\n\x00")], "https://example.com/?%C3%BC=%E6%97%A5%0A%00"),
        (
            "https://example.com/",
            [("az-AZ_09.*", "~!'()")],
            "https://example.com/?az-AZ_09.*=%7E%21%27%28%29",
        ),
    ],
)
def test_pairs_are_form_encoded_and_follow_the_urls_own_query(
    text: str, pairs: list[tuple[str, str]], serialised: str
) -> None:
    """AMB-73, W-82; WHATWG URL 5.2."""
    assert str(add_query(parse_url(text), iter(pairs))) == serialised


def test_the_limit_holds_with_the_pairs() -> None:
    """D-10: `query` merged in."""
    url = parse_url("https://example.com/")
    room = MAX_URL_LENGTH - len("https://example.com/?a=")
    assert len(str(add_query(url, [("a", "x" * room)]))) == MAX_URL_LENGTH
    with pytest.raises(InvalidURL, match="16,384"):
        add_query(url, [("a", "x" * (room + 1))])


@pytest.mark.parametrize("pair", [("\ud800", "x"), ("x", "\udc80"), (b"x", "y"), ("x", 1), ("x", None)])
def test_pairs_that_are_no_text_are_invalid(pair: Any) -> None:
    with pytest.raises(InvalidURL) as caught:
        add_query(parse_url("https://example.com/"), [pair])
    assert caught.value.reason is Reason.MALFORMED_URL


# join_location ----------------------------------------------------------------------------------------

BASE = "http://example.com:8080/dir/start?x=1"

LOCATIONS = [
    (b"/abs", "http://example.com:8080/abs"),
    (b"rel", "http://example.com:8080/dir/rel"),
    (b"./rel?y", "http://example.com:8080/dir/rel?y"),
    (b"../../up", "http://example.com:8080/up"),
    (b"..", "http://example.com:8080/"),
    (b".", "http://example.com:8080/dir/"),
    (b"sub/", "http://example.com:8080/dir/sub/"),
    (b"?q=2", "http://example.com:8080/dir/start?q=2"),
    (b"?", "http://example.com:8080/dir/start?"),
    (b"#frag", "http://example.com:8080/dir/start?x=1"),
    (b"#", "http://example.com:8080/dir/start?x=1"),
    (b"rel#frag", "http://example.com:8080/dir/rel"),
    (b"//other.example", "http://other.example/"),
    (b"//other.example:81/x", "http://other.example:81/x"),
    (b"https://other.example./x#y", "https://other.example/x"),
    (b"HTTP://OTHER.EXAMPLE/X", "http://other.example/X"),
    (b" \t/abs\t ", "http://example.com:8080/abs"),
    (b"/a//127.0.0.1/b", "http://example.com:8080/a//127.0.0.1/b"),
    (b"/.//evil.example", "http://example.com:8080//evil.example"),
    (b".//evil.example", "http://example.com:8080/dir//evil.example"),
    (b"/%5cevil.example", "http://example.com:8080/%5cevil.example"),
    (b"?a\\b", "http://example.com:8080/dir/start?a%5Cb"),
    (b"/?u=//127.0.0.1\\@x", "http://example.com:8080/?u=//127.0.0.1%5C@x"),
    (b"1a:b", "http://example.com:8080/dir/1a:b"),
    (b":80/", "http://example.com:8080/dir/:80/"),
    (b"/foo bar?${}", "http://example.com:8080/foo%20bar?${}"),
    ("/石".encode(), "http://example.com:8080/%E7%9F%B3"),
    (b"/caff\xe8/\xe7\x9f", "http://example.com:8080/caff%E8/%E7%9F"),
    (b"?caff\xe8\xff", "http://example.com:8080/dir/start?caff%E8%FF"),
    (b"/\xed\xa0\x80", "http://example.com:8080/%ED%A0%80"),
    (b"/x#\xe8", "http://example.com:8080/x"),
    ("//bücher.example/".encode(), "http://xn--bcher-kva.example/"),
]


@pytest.mark.parametrize(("location", "serialised"), LOCATIONS)
def test_where_a_location_leads(location: bytes, serialised: str) -> None:
    """D-10, D-10b, F-67."""
    url = join_location(parse_url(BASE), location)
    assert url is not None
    assert str(url) == serialised
    assert parse_url(serialised) == url


@pytest.mark.parametrize("location", [b"", b" ", b"\t \t"])
def test_an_empty_location_is_as_if_absent(location: bytes) -> None:
    """D-10b."""
    assert join_location(parse_url(BASE), location) is None


@pytest.mark.parametrize(
    "location",
    [
        b"http:x", b"http:/x", b"http:", b"https:/x", b"///other.example", b"////x", b"http:///x",
        b"http://",
        b"https://:443/", b"//", b"//:80", b"//?x", b"localhost:3000", b"\\\\x\\y", b"/\\x", b"a\\b",
        b"//x\\@y/",
        b"/\t/x", b"/a\r\nX: 1", b"/a\x00", b"\n", b"/\x7f", b"/\xc2\x85", b"//exa\xe8mple/",
        b"http://%31/x",
        b"http://[", b"//xn--a.example", b"//a..b", b"/" + b"x" * MAX_URL_LENGTH, b"/" + b"<" * 6000,
    ],
)  # fmt: skip
def test_a_location_that_is_no_url_is_a_bad_redirect(location: bytes) -> None:
    """D-10b, table A2."""
    with pytest.raises(BadRedirect) as caught:
        join_location(parse_url(BASE), location)
    assert caught.value.reason is Reason.BAD_REDIRECT
    assert caught.value.message.startswith("The Location of the redirect is no URL. The ")
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("location", "kind", "reason"),
    [
        (b"http://user:pass@other.example/", InvalidURL, Reason.USERINFO_NOT_ALLOWED),
        (b"//@other.example/", InvalidURL, Reason.USERINFO_NOT_ALLOWED),
        (b"http://other.example:65536/", InvalidURL, Reason.INVALID_PORT),
        (b"//other.example:0", InvalidURL, Reason.INVALID_PORT),
        (b"//other.example:\xe8", InvalidURL, Reason.INVALID_PORT),
        (b"ftp://other.example/", SchemeDenied, Reason.UNSUPPORTED_SCHEME),
        (b"javascript:alert(1)", SchemeDenied, Reason.UNSUPPORTED_SCHEME),
        (b"a:b", SchemeDenied, Reason.UNSUPPORTED_SCHEME),
        (b"//127.1/", HostDenied, Reason.NON_CANONICAL_IP),
        ("http://127.0.0.1。/".encode(), HostDenied, Reason.NON_CANONICAL_IP),
    ],
)
def test_other_refusals_of_a_location_are_those_of_a_url(
    location: bytes, kind: type[FetchError], reason: Reason
) -> None:
    """Table A2, AMB-9."""
    with pytest.raises(kind) as caught:
        join_location(parse_url(BASE), location)
    assert caught.value.reason is reason


@given(st.binary() | st.text("/:.?#\\@h2é\u3002 ").map(str.encode))
def test_any_location_leads_to_a_url_or_a_refusal(location: bytes) -> None:
    try:
        url = join_location(parse_url(BASE), location)
    except (BadRedirect, InvalidURL, SchemeDenied, HostDenied):
        return
    if url is None:
        assert not location.strip(b"\t ")
    else:
        assert parse_url(str(url)) == url


# The corpora ------------------------------------------------------------------------------------------

PARSED_KINDS = {
    "authority-edge", "backslash", "host-syntax", "ipv4-noncanonical", "ipv4-special", "ipv4-unicode",
    "ipv6-literal",
    "ipv6-malformed", "ipv6-zone", "legit", "name-unicode", "percent-host", "port", "scheme",
    "scheme-malformed",
    "special-name", "userinfo", "whitespace-control", "wildcard-dns",
}  # fmt: skip
PARSED_ROWS = [row for row in corpus("urls") if row["kind"] in PARSED_KINDS]
LOCATION_ROWS = [row for row in corpus("urls") if row["kind"] == "redirect"]


def verdict(text: str) -> str:
    """What is decided without an address: `error`, `deny`, or `allow` so far."""
    try:
        url = parse_url(text)
    except InvalidURL:
        return "error"
    except Denied:
        return "deny"
    return "deny" if is_local_name(url.host) else "allow"


def is_refused_later(row: dict[str, Any]) -> bool:
    """Whether the row is about the address that its host is, or that its name resolves to."""
    url = parse_url(row["input"])
    if url.address is not None:
        return "deny" in (row["expect"], *row.get("also", ()))
    answers = row["dns"].get(url.host) or row["dns"].get("*")
    if answers == "NXDOMAIN":
        return True
    return not all(ipaddress.ip_address(text).is_global for texts in answers.values() for text in texts)


@pytest.mark.parametrize("row", PARSED_ROWS, ids=lambda row: row["id"])
def test_corpus_of_urls(row: dict[str, Any]) -> None:
    """Every row's verdict, or the step that gives it is still to come and sees the right host."""
    allowed = {row["expect"], *row.get("also", ())}
    assert verdict(row["input"]) in allowed or is_refused_later(row), row["why"]


@pytest.mark.parametrize(
    "row",
    [row for row in PARSED_ROWS if row["kind"] in ("ipv4-special", "ipv6-literal")],
    ids=lambda row: row["id"],
)
def test_corpus_of_literals_keeps_their_value(row: dict[str, Any]) -> None:
    """Their denial is a matter of the address, which must be the one in the text."""
    assert parse_url(row["input"]).address == ipaddress.ip_address(row["target"])


@pytest.mark.parametrize("row", [row for row in LOCATION_ROWS if "next" in row], ids=lambda row: row["id"])
def test_corpus_of_locations_that_lead_somewhere(row: dict[str, Any]) -> None:
    assert str(join_location(parse_url(row["base"]), row["input"].encode())) == row["next"]


@pytest.mark.parametrize(
    "row",
    [row for row in LOCATION_ROWS if row["expect"] == "error"],
    ids=lambda row: row["id"],
)
def test_corpus_of_locations_that_are_refused(row: dict[str, Any]) -> None:
    base = parse_url(row["base"])
    if row["id"] == "redirect-048":
        # A tab before the value is optional white space (D-10b, RFC 9110 5.5); then the address is denied.
        assert str(join_location(base, row["input"].encode())) == "http://127.0.0.1/"
        return
    with pytest.raises((BadRedirect, InvalidURL, HostDenied)):
        join_location(base, row["input"].encode())


WIRE_ROWS = [row for row in corpus("wire") if row["id"].startswith("loc-") and row["id"] != "loc-multiple"]


@pytest.mark.parametrize("row", WIRE_ROWS, ids=lambda row: row["id"])
def test_corpus_of_locations_on_the_wire(row: dict[str, Any]) -> None:
    head = ast.literal_eval(row["server_bytes"])
    [location] = re.findall(rb"\r\nLocation:(.*)\r\n", head)
    base = parse_url(row["base"])
    if row["expect"]["outcome"] == "error":
        with pytest.raises(BadRedirect):
            join_location(base, location)
    else:
        assert str(join_location(base, location)) == row["expect"]["url"]
