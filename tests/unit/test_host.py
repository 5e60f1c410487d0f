"""D-8, D-9, D-10a, D-15, X-3: canonical hosts, local names and the two host matchers."""

import ipaddress
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.data import rows_of_kind
from tidegate._policy.host import GrantPatterns, HostList, address_of, canonical_host, is_local_name
from tidegate._policy.reasons import Reason
from tidegate.errors import HostDenied, InvalidURL

L63 = "a" * 63
NAME_253 = ".".join([L63, L63, L63, "a" * 61])

# canonical_host ---------------------------------------------------------------------------------------

NAMES = [
    ("example.com", "example.com"),
    ("EXAMPLE.Com", "example.com"),
    ("example.com.", "example.com"),
    ("localhost", "localhost"),
    ("foo_bar.example", "foo_bar.example"),
    ("_dmarc.example", "_dmarc.example"),
    ("-a.example", "-a.example"),
    ("a-.example", "a-.example"),
    ("r6---sn-i5onxoxu-cxgl.example", "r6---sn-i5onxoxu-cxgl.example"),
    ("3com.example", "3com.example"),
    ("1.2.3.4.example", "1.2.3.4.example"),
    ("0x7f.example", "0x7f.example"),
    ("127.0.0.1e0", "127.0.0.1e0"),
    ("a.0xg", "a.0xg"),
    ("axn--b.example", "axn--b.example"),
    (L63, L63),
    (NAME_253, NAME_253),
    (NAME_253 + ".", NAME_253),
    ("bücher.example", "xn--bcher-kva.example"),
    ("BÜCHER.example", "xn--bcher-kva.example"),
    ("bu\u0308cher.example", "xn--bcher-kva.example"),
    ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
    ("example。com", "example.com"),
    ("example．com｡", "example.com"),
    ("ｅｘａｍｐｌｅ.com", "example.com"),
    ("exa\u00admple.com", "example.com"),
    ("ex\u200bample.com", "example.com"),
    ("ſtraße.example", "xn--strae-oqa.example"),
    ("faß.de", "xn--fa-hia.de"),
    ("βόλος.com", "xn--nxasmm1c.com"),
    ("日本語.example", "xn--wgv71a119e.example"),
    ("пример.example", "xn--e1afmkfd.example"),
    ("مثال.example", "xn--mgbh0fb.example"),
    ("🐔🐔.example", "xn--co8ha.example"),
    ("xn--co8ha.example", "xn--co8ha.example"),
    ("a_ü.example", "xn--a_-yka.example"),
    ("-ü-.example", "xn-----xka.example"),
    ("ශ්\u200dරී.example", "xn--10cl1a0b660p.example"),
    ("نامه\u200cای.example", "xn--mgba3gch31f060k.example"),
    # Right-to-left characters are judged label by label (D-10a); a whole-name rule would refuse this one.
    ("1.مثال.example", "1.xn--mgbh0fb.example"),
    ("\u00ad" * 900 + "example.com", "example.com"),
]

ADDRESSES = [
    ("0.0.0.0", "0.0.0.0"),
    ("192.0.2.1", "192.0.2.1"),
    ("255.255.255.255", "255.255.255.255"),
    ("::", "::"),
    ("[::1]", "::1"),
    ("::1", "::1"),
    ("[2001:DB8:0:0:0:0:0:1]", "2001:db8::1"),
    ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
    ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
    ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"),
    ("[::ffff:192.0.2.1]", "::ffff:c000:201"),
    ("[::ffff:0:0]", "::ffff:0:0"),
    ("[::192.0.2.1]", "::c000:201"),
    ("[64:ff9b::192.0.2.1]", "64:ff9b::c000:201"),
]

MALFORMED = [
    ("", "is empty"),
    (".", "is empty"),
    ("。", "is empty"),
    ("\u00ad", "is empty"),
    ("..", "empty label"),
    (".example.com", "empty label"),
    ("example..com", "empty label"),
    ("example.com..", "empty label"),
    ("example\u2025com", "The host"),
    (L63 + "a.example", "63 octets"),
    ("ü" * 60 + ".example", "63 octets"),
    ("xn--" + L63 + ".example", "63 octets"),
    (NAME_253 + "a", "253 octets"),
    ("a." * 127 + "a", "253 octets"),
    ("\u00ad" * 1020 + "a.example", "253 octets"),
    ("exa mple.com", "U+0020 ( )"),
    ("example.com%00", "percent-encoding is not decoded"),
    ("ex%61mple.com", "U+0025 (%)"),
    ("*.example.com", "U+002A (*)"),
    ("exam\x00ple.com", "U+0000,"),
    ("exam\x7fple.com", "U+007F,"),
    ("user＠example.com", "U+0040 (@)"),
    ("127.0.0.1：80", "U+003A (:)"),
    ("example.com／x", "U+002F (/)"),
    ("a\u2260=b.example", "U+003D (=)"),
    ("exam\u2028ple.com", "U+2028,"),
    ("example.com\u202e", "U+202E,"),
    ("\U0010ffff.com", "U+10FFFF,"),
    ("\ud800.com", "U+D800,"),
    ("\u0378.com", "U+0378,"),
    ("a\u200cb.com", "UTS 46"),
    ("\u200d.example", "UTS 46"),
    ("\u0301a.example", "UTS 46"),
    ("\u0627a.com", "UTS 46"),
    ("xn--", "punycode"),
    ("xn--a", "UTS 46"),
    ("xn--0.pt", "punycode"),
    ("xn--abc-.example", "punycode"),
    ("xn--bcher-KVA9.example", "punycode"),
    ("xn--te\u0161la", "punycode"),
    ("a.xn--127-0-0-1.example", "punycode"),
    # Punycode takes any ASCII as it is; found by fuzzing.
    ("xn--a b-0tp.example", "U+0020 ( )"),
    ("xn--b]hervankx0-bchxample.c", "U+005D (])"),
    ("xn--a}b-0tp.example", "U+007D (})"),
    ("xn--a%20b-0tp.example", "percent-encoding is not decoded"),
    ("xn--a\tb-0tp.example", "U+0009,"),
    ("XN--A^B-0TP.example", "U+005E (^)"),
    ("xn--1ug.example", "UTS 46"),
    ("xn--u-ccb.example", "UTS 46"),
    # Would decode to a label that begins with xn-- again.
    ("xn--xn---epa", "punycode"),
    # Decodes, but Unicode has no such character.
    ("xn--ab-g4b.example", "U+0378, which is not assigned"),
    ("[]", "neither"),
    ("[", "neither"),
    ("[::1", "neither"),
    ("::1]", "neither"),
    ("[[::1]]", "neither"),
    ("x[::1]", "neither"),
    ("[::1]x", "neither"),
    ("[::1].example.com", "neither"),
    ("[127.0.0.1]", "neither"),
    ("[v1.127.0.0.1]", "neither"),
    ("[example.com]", "neither"),
    ("1::2::3", "neither"),
    ("[1:2:3:4:5:6:7]", "neither"),
    ("[1:2:3:4:5:6:7:8:9]", "neither"),
    ("[::ffff:127.1]", "neither"),
    ("[::ffff:127.0.0.01]", "neither"),
    ("[::ffff:0x7f.0.0.1]", "neither"),
    ("[::g]", "neither"),
    ("[ ::1]", "neither"),
    ("[::１]", "neither"),
    ("[::1%25lo]", "zone id"),
    ("fe80::1%eth0", "zone id"),
    ("example.com:80", "neither"),
]

DISGUISED = [
    "0", "1", "256", "2130706433", "4294967296", "0x", "0x7f000001", "0X7F.1", "0177.0.0.1", "127.1",
    "127.0.1",
    "127.0.0.1.", "127.0.0.1。", "127.000.000.001", "127.0.0.01", "127.0.0.256", "1.2.3.4.5", "1.2.3.0x",
    "127..1",
    ".127.0.0.1", "foo.1", "foo.0x4", "a.b.c.09", "１２７.０.０.１", "８.８.８.８", "①②⑦.⓪.⓪.①",
    "1\u00ad27.0.0.1",
    "127.0.0.１", "0x.0x.0", "134744072", "exa mple.1", L63 + "a.1",
]  # fmt: skip


@pytest.mark.parametrize(("text", "canonical"), NAMES + ADDRESSES)
def test_hosts_have_one_form_and_keep_it(text: str, canonical: str) -> None:
    assert canonical_host(text) == canonical
    assert canonical_host(canonical) == canonical


@pytest.mark.parametrize(("text", "part"), MALFORMED)
def test_malformed_hosts_are_refused_with_what_is_wrong(text: str, part: str) -> None:
    """D-10, D-10a."""
    with pytest.raises(InvalidURL) as caught:
        canonical_host(text)
    assert caught.value.reason is Reason.MALFORMED_URL
    assert part in caught.value.message


@pytest.mark.parametrize("text", DISGUISED)
def test_numbers_that_are_no_plain_address_are_refused_before_anything_else(text: str) -> None:
    """D-9, AMB-29, AMB-82: public or not, and whatever the rest of the text is."""
    with pytest.raises(HostDenied) as caught:
        canonical_host(text)
    assert caught.value.reason is Reason.NON_CANONICAL_IP
    assert text not in caught.value.message


@given(st.text() | st.text("0127.xXaf：１。\u00ad[]:%-", max_size=20))
def test_any_text_is_one_canonical_host_or_one_of_two_refusals(text: str) -> None:
    try:
        host = canonical_host(text)
    except (InvalidURL, HostDenied):
        return
    assert host.isascii()
    assert host == host.lower()
    assert canonical_host(host) == host
    assert not host.endswith(".")


@given(st.ip_addresses())
def test_every_address_is_canonical_and_comes_back_by_value(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assert address_of(canonical_host(str(address))) == address


@given(st.ip_addresses(v=6))
def test_the_text_of_an_ipv6_address_never_has_a_dotted_tail(address: ipaddress.IPv6Address) -> None:
    """RFC 5952 4 without 5, so the form is the same in every version of Python and in WHATWG URL."""
    host = canonical_host(address.exploded)
    assert "." not in host
    assert len(host) <= len(address.exploded)


# address_of, is_local_name ----------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["192.0.2.1", "::1", "::ffff:c000:201", "2001:db8::1"])
def test_literals_have_an_address(host: str) -> None:
    assert address_of(host) == ipaddress.ip_address(host)


@pytest.mark.parametrize(
    "host", ["example.com", "localhost", "1.2.3.4.example", "foo1", "3com", "a.0xg", "_1"]
)
def test_names_have_no_address(host: str) -> None:
    assert address_of(host) is None


@pytest.mark.parametrize("host", ["127.1", "1", "0x7f.1"])
def test_text_that_is_not_canonical_is_never_taken_for_a_name(host: str) -> None:
    """A name would go to the system's resolver, which reads all of these as addresses."""
    with pytest.raises(ValueError):
        address_of(host)


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "foo.localhost", "intranet", "metadata", "printer.local", "a.b.local",
        "host.docker.internal",
        "metadata.google.internal", "home.arpa", "router.home.arpa", "abc.onion", "xn--bcher-kva", "local",
    ],
)  # fmt: skip
def test_local_names(host: str) -> None:
    """D-8."""
    assert is_local_name(host)


@pytest.mark.parametrize(
    "host",
    [
        "example.com", "localhost.example.com", "notlocalhost.example", "local.example",
        "mylocal.internal.example",
        "arpa.example", "x.arpa", "xhome.arpa", "in-addr.arpa", "x.alocal", "onion.example", "::1",
        "127.0.0.1",
    ],
)  # fmt: skip
def test_other_names_and_addresses_are_not_local_names(host: str) -> None:
    assert not is_local_name(host)


# The two matchers -------------------------------------------------------------------------------------

# pattern, host, what a host list says (None: the entry itself is refused), what a grant says
BOTH_MATCHERS = [
    ("example.com", "example.com", True, True),
    ("example.com", "EXAMPLE.com.", True, True),
    ("Example.COM.", "example.com", True, True),
    ("example.com", "www.example.com", False, False),
    ("www.example.com", "example.com", False, False),
    ("example.com", "evilexample.com", False, False),
    ("example.com", "example.com.evil.org", False, False),
    ("*.example.com", "example.com", False, False),
    ("*.example.com", "a.example.com", True, True),
    ("*.example.com", "a.b.example.com", True, False),
    ("*.example.com", "aexample.com", False, False),
    ("*.example.com", "a.example.com.evil.org", False, False),
    ("*.example.com", ".example.com", False, False),
    ("*.example.com", "*.example.com", False, False),
    ("*.b.example.com", "a.b.example.com", True, True),
    ("*.b.example.com", "c.a.b.example.com", True, False),
    ("**.example.com", "example.com", None, True),
    ("**.example.com", "a.example.com", None, True),
    ("**.example.com", "a.b.example.com", None, True),
    ("**.example.com", "aexample.com", None, False),
    ("*", "example.com", None, True),
    ("*", "a.b.example.com", None, True),
    ("*", "192.0.2.1", None, True),
    ("*", "::1", None, True),
    ("**.*", "example.com", None, True),
    ("*.com", "example.com", None, True),
    ("*.com", "a.example.com", None, False),
    ("**.com", "a.example.com", None, True),
    ("*.internal", "db.internal", None, True),
    ("bücher.example", "xn--bcher-kva.example", True, True),
    ("*.bücher.example", "a.BÜCHER.example", True, True),
    ("example.com", "ｅxample.com", True, True),
    ("example.com", "еxample.com", False, False),
    ("192.0.2.1", "192.0.2.1", True, True),
    ("192.0.2.1", "3221225985", False, False),
    ("192.0.2.1", "192.0.2.1.", False, False),
    ("::1", "[::1]", True, True),
    ("[0:0:0:0:0:0:0:1]", "::1", True, True),
    ("::ffff:192.0.2.1", "::ffff:c000:201", True, True),
    ("::ffff:192.0.2.1", "192.0.2.1", False, False),
    ("*.0.0.1", "127.0.0.1", None, False),
    ("**.0.0.1", "127.0.0.1", None, False),
    ("**.127.0.0.1", "127.0.0.1", None, False),
    ("*.1", "127.0.0.1", None, False),
    ("*.[::1]", "::1", None, False),
    ("3221225985", "192.0.2.1", None, False),
    ("localhost", "localhost", True, True),
    ("example.com", "", False, False),
    ("", "", None, False),
    ("", "example.com", None, False),
    ("*.", "example.com", None, False),
    ("**", "example.com", None, False),
    ("*.*", "example.com", None, False),
    ("**.", "example.com", None, False),
    ("example.*", "example.com", None, False),
    ("ex*mple.com", "example.com", None, False),
    ("a.*.example.com", "a.b.example.com", None, False),
    ("*example.com", "aexample.com", None, False),
    ("*.**.example.com", "a.b.example.com", None, False),
    ("example.com:443", "example.com", None, False),
    ("https://example.com", "example.com", None, False),
    ("example.com/", "example.com", None, False),
    ("10.0.0.0/8", "10.0.0.1", None, False),
]


@pytest.mark.parametrize(("pattern", "host", "listed", "_granted"), BOTH_MATCHERS)
def test_what_a_host_list_covers(pattern: str, host: str, listed: bool | None, _granted: bool) -> None:
    """D-15, X-3, W-124, W-155: `*.x` is any depth and never x itself."""
    if listed is None:
        with pytest.raises(ValueError, match="Allowed are"):
            HostList([pattern])
    else:
        assert HostList([pattern]).matches(host) is listed


@pytest.mark.parametrize(("pattern", "host", "_listed", "granted"), BOTH_MATCHERS)
def test_what_a_grant_covers(pattern: str, host: str, _listed: bool | None, granted: bool) -> None:
    """D-15, X-3, section C: `*.x` is one label, `**.x` any depth and x itself, `*` everything."""
    assert GrantPatterns([pattern]).covers(host) is granted


@pytest.mark.parametrize("matcher", [HostList([]).matches, GrantPatterns([]).covers])
def test_an_empty_list_covers_nothing(matcher: Callable[[str], bool]) -> None:
    assert not matcher("example.com")
    assert not matcher("")


REFUSED_ENTRIES = [
    ("*", "A star can only be the whole first label"),
    ("*.", "is empty"),
    ("**.example.com", "A star can only be the whole first label"),
    ("api.*.example.com", "A star can only be the whole first label"),
    ("*.com", "covers too much"),
    ("*.internal", "covers too much"),
    ("*.home.arpa", "covers too much"),
    ("*.localhost", "covers too much"),
    ("*.192.0.2.1", "before a number"),
    ("*.0.0.1", "ends in a number"),
    ("*.[::1]", "before a number"),
    ("192.0.02.1", "ends in a number"),
    ("example.com:8443", "port"),
    ("example.com:", "port"),
    ("[::1]:80", "port"),
    ("192.0.2.1:80", "port"),
    ("https://example.com", "URL"),
    ("example.com/x", "path"),
    ("192.0.2.0/24", "range of addresses"),
    ("exa mple.com", "U+0020"),
    ("::1::", "neither"),
    (7, "not a text"),
    (None, "not a text"),
]


@pytest.mark.parametrize(("entry", "problem"), REFUSED_ENTRIES)
def test_a_refused_entry_is_named_with_what_is_wrong_and_what_is_allowed(entry: Any, problem: str) -> None:
    """AMB-75, AMB-76, D-15: an invalid entry is an error, never dropped in silence."""
    with pytest.raises(ValueError) as caught:
        HostList(["fine.example", entry])
    message = str(caught.value)
    assert repr(entry) in message
    assert problem in message
    assert message.endswith("or *.example.com for every name below example.com.")


def test_one_text_is_no_list() -> None:
    """Letter by letter it would be a list of single-label hosts, or, for a grant, hold a star."""
    with pytest.raises(ValueError, match="not one text"):
        HostList("*.example.com")
    assert not GrantPatterns("*.example.com").covers("a.example.com")
    assert not GrantPatterns("*")


@pytest.mark.parametrize(
    ("pattern", "host"),
    [
        ("*.internal", "db.internal"),
        ("*.local", "printer.local"),
        ("*.home.arpa", "router.home.arpa"),
        ("*.corp", "x.corp"),
        ("*.lan", "a.b.lan"),
        ("*.test", "a.test"),
        ("*.localhost", "a.localhost"),
    ],
)
def test_private_range_rules_may_put_a_star_over_a_special_suffix(pattern: str, host: str) -> None:
    """D-15."""
    assert HostList([pattern], allow_special_suffix=True).matches(host)
    with pytest.raises(ValueError, match="covers too much"):
        HostList([pattern])


@pytest.mark.parametrize("pattern", ["*.com", "*.example", "*", "*.arpa", "*.1"])
def test_a_special_suffix_is_not_any_suffix(pattern: str) -> None:
    with pytest.raises(ValueError):
        HostList([pattern], allow_special_suffix=True)


def test_the_most_specific_entry_is_the_exact_one_then_the_longest_wildcard() -> None:
    """AMB-93, whatever the order of the list."""
    hosts = ["*.example.com", "*.b.example.com", "a.b.example.com", "::1"]
    for order in (hosts, hosts[::-1]):
        listed = HostList(order)
        assert listed.most_specific("a.b.example.com") == "a.b.example.com"
        assert listed.most_specific("c.b.example.com") == "*.b.example.com"
        assert listed.most_specific("d.c.b.example.com") == "*.b.example.com"
        assert listed.most_specific("b.example.com") == "*.example.com"
        assert listed.most_specific("[0::1]") == "::1"
        assert listed.most_specific("example.com") is None
        assert listed.most_specific("127.1") is None


def test_host_lists_are_values() -> None:
    listed = HostList(["B.example.", "a.example", "b.EXAMPLE", "[::0]"])
    assert listed.patterns == ("b.example", "a.example", "::")
    assert listed == HostList(iter(["b.example", "a.example", "::"]))
    assert hash(listed) == hash(HostList(listed.patterns))
    assert listed != HostList(["a.example"])
    grants: object = GrantPatterns(listed.patterns)
    assert listed != grants
    assert listed
    assert not HostList([])
    assert repr(listed) == "HostList(patterns=('b.example', 'a.example', '::'))"
    with pytest.raises(AttributeError):
        listed.patterns = ()  # type: ignore[misc]  # what a frozen value must refuse


def test_grants_are_values_and_keep_their_texts() -> None:
    """Section C: a derived grant must be a subset of its parent's by text."""
    texts = ("*.Example.com", "not a host", "*")
    grants = GrantPatterns(texts)
    assert grants.patterns == texts
    assert grants == GrantPatterns(list(texts))
    assert hash(grants) == hash(GrantPatterns(texts))
    assert grants != GrantPatterns(["*"])
    assert grants
    assert not GrantPatterns([])


def test_patterns_that_are_no_text_grant_nothing() -> None:
    odd: list[Any] = [None, 7, b"a.example", ["a.example"], "b.example"]
    grants = GrantPatterns(odd)
    assert not grants.covers("a.example")
    assert grants.covers("b.example")


ANYTHING = (
    st.none() | st.booleans() | st.integers() | st.binary() | st.text() | st.text("*.a1:[]/", max_size=8)
)


@given(st.lists(ANYTHING), ANYTHING)
def test_grants_never_raise(patterns: list[Any], host: Any) -> None:
    """Section C: checks never raise; what is no host is not covered, by a star neither."""
    covered = GrantPatterns([*patterns, "*"]).covers(host)
    try:
        canonical_host(host)
    except (InvalidURL, HostDenied, TypeError, AttributeError):
        assert not covered
    else:
        assert covered


@given(st.lists(ANYTHING, min_size=1))
def test_host_lists_raise_nothing_but_value_error(patterns: list[Any]) -> None:
    try:
        listed = HostList(patterns)
    except ValueError:
        return
    assert all(HostList([pattern]).patterns == (pattern,) for pattern in listed.patterns)


# The corpus -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", list(rows_of_kind("allowlist")), ids=lambda row: row["id"])
def test_corpus_of_host_lists(row: dict[str, Any]) -> None:
    if row["expect"] == "error":  # an entry with a port
        with pytest.raises(ValueError):
            HostList([row["pattern"]])
    else:
        assert HostList([row["pattern"]]).matches(row["host"]) is row["match"], row["why"]


@pytest.mark.parametrize("row", list(rows_of_kind("allowlist-config")), ids=lambda row: row["id"])
def test_corpus_of_refused_entries(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        HostList([row["input"]])
