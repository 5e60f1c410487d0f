"""Invariant: a URL that we accept has the same host, port, path and query for a WHATWG parser.

`ada-url` is that parser. Two differences are decided: one final dot of the host is dropped, and a backslash
in the query is `%5C` (D-10). One more is known: direction is judged label by label (D-10a), so a few names
with right-to-left labels are accepted here alone.
"""

import unicodedata

import ada_url
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate._policy.url import URL, join_location, parse_url
from tidegate.errors import FetchError

LABELS = (
    "a", "example", "com", "xn--bcher-kva", "bücher", "日本", "🐔", "ß", "ς", "a_b", "-a", "a--b",
    "0x7f", "127",
    "مثال", "א", "ﬀ", "K", "ſ", "a\u00adb", "ａ",
)  # fmt: skip
ODD_LABELS = (
    "xn--", "xn--a", "0x", "0X7F", "0177", "00", "1", "255", "256", "１２７", "①", "١", "\u200d",
    "\u200c", "\u0308",
    "%41", "%2e", "*", "~", "", "xn--\u00e9",
)  # fmt: skip
DOTS = (*(".",) * 8, "。", "．", "｡")
LITERALS = (
    "192.0.2.1", "[::1]", "[::]", "[2001:DB8::0:1]", "[1:2:3:4:5:6:7:8]", "[1:2:3:4:5:6:7::]",
    "[::ffff:1.2.3.4]",
    "[::1.2.3.4]", "[1::2:0:0:3:0:0]", "[1:0:0:2::3]", "[::01]", "[::1%25lo]", "[::1", "[1::2::3]",
    "[::00001]", "[::1]a",
)  # fmt: skip
PIECES = (
    "/", "/", "//", ".", "..", "%2e", "%2E", ".%2e", "a", "b c", "ü", "🐔", "%", "%zz", "%5c", "?",
    "?\\", "#", "@",
    ":", ";", "&", "=", "+", "'", '"', "<", ">", "^", "`", "{", "}", "|", "[", "]", "~", "\u2028",
    "\U0010ffff",
)  # fmt: skip
ODD_PIECES = ("\\", "\t", "\n", "\x00", "\x7f", "\x85")


def mostly(usual: st.SearchStrategy[str], odd: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """So that most URLs are accepted: a refusal compares nothing."""
    return st.integers(0, 9).flatmap(lambda number: usual if number else odd)


any_character = st.characters(exclude_categories=["Cs"])
label = mostly(st.sampled_from(LABELS), st.sampled_from(ODD_LABELS) | any_character)
names = st.lists(st.builds("{}{}".format, label, st.sampled_from(DOTS)), min_size=1, max_size=4).map("".join)
hosts = mostly(st.builds("{}com".format, names) | names, st.sampled_from(LITERALS))
schemes = mostly(
    st.sampled_from(["http://", "https://"]), st.sampled_from(["HTTPS://", "//", "http:", "http:/", "ws://"])
)
userinfos = mostly(st.just(""), st.sampled_from(["@", "a@", "a:b@"]))
ports = mostly(
    st.sampled_from(["", ":", ":80", ":443", ":0080"]), st.sampled_from([":0", ":65536", ":8a", ":８"])
)
tails = st.lists(mostly(st.sampled_from(PIECES), any_character), max_size=8).map("".join)
odd_tails = st.lists(st.sampled_from(PIECES + ODD_PIECES), max_size=8).map("".join)
paths = mostly(st.builds("{}{}".format, st.sampled_from(["/", "?", "#"]), tails), odd_tails)
texts = st.builds("{}{}{}{}{}".format, schemes, userinfos, hosts, ports, paths)
references = tails | odd_tails | texts


def has_right_to_left(host: str) -> bool:
    labels = [
        label.removeprefix("xn--").encode().decode("punycode") for label in host.split(".") if "xn--" in label
    ]
    return any(
        unicodedata.bidirectional(character) in ("R", "AL", "AN") for label in labels for character in label
    )


def assert_same(ours: URL, text: str, base: str | None) -> None:
    try:
        theirs = ada_url.URL(text, base)
    except ValueError:
        assert has_right_to_left(ours.host), f"only we accept {text!r} as {ours!r}"
        return
    host = theirs.hostname.removeprefix("[").removesuffix("]").removesuffix(".")
    port = int(theirs.port or {"http:": 80, "https:": 443}[theirs.protocol])
    query = theirs.search.removeprefix("?").replace("\\", "%5C")
    assert (f"{ours.scheme}:", ours.host, ours.port, ours.path, ours.query or "") == (
        theirs.protocol,
        host,
        port,
        theirs.pathname,
        query,
    ), text


def check_alone(text: str) -> None:
    try:
        url = parse_url(text)
    except FetchError:
        return
    assert_same(url, text, None)


@settings(max_examples=500, deadline=None)
@given(texts)
@example("http://a.א/")
@example("http://xn--bcher-kva.example:0080/%2e/..//a\\?\\#\\")
def test_what_we_accept_is_the_same_for_a_browser(text: str) -> None:
    check_alone(text)


@settings(max_examples=500, deadline=None)
@given(
    references, st.sampled_from(["http://example.com/", "https://example.com:81/a/b?c", "http://[::1]//x/"])
)
@example("/.//a", "http://example.com/")
@example("?", "https://example.com:81/a/b?c")
def test_where_a_location_leads_is_the_same_for_a_browser(text: str, base: str) -> None:
    try:
        url = join_location(parse_url(base), text.encode())
    except FetchError:
        return
    # An empty Location is as if absent (D-10b).
    if url is not None:
        assert_same(url, text, base)


@settings(max_examples=200, deadline=None)
@given(st.characters(exclude_categories=["Cs"]), st.sampled_from(["a{}b", "{}", "a{}.b", "xn--{}", "{}1"]))
def test_any_character_in_a_host_means_the_same_for_a_browser(character: str, form: str) -> None:
    check_alone(f"http://{form.format(character)}.example/")
