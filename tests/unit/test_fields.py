"""D-22, D-26, F-50..F-53, W-126, AMB-5, AMB-12, AMB-87: request fields, and the fields of a response."""

import pickle
import string
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.data import rows_of_kind
from tidegate._policy.fields import (
    CREDENTIAL_FIELDS,
    HOP_BY_HOP,
    MAX_SECTION,
    MAX_VALUE,
    OWN_FIELDS,
    SAFE_ACROSS_ORIGINS,
    Headers,
    check_fields,
    has_field,
    is_own_field,
    only_fields,
    without_fields,
)
from tidegate._policy.reasons import Reason
from tidegate.errors import InvalidField

SECRET = "hunter2"


def refusal(headers: Any) -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        check_fields(headers)
    assert caught.value.reason is Reason.INVALID_FIELD
    return caught.value


# Which fields are whose -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "Host", "host", "HOST", "hOsT",
        "Content-Length", "content-length", "content_length", "Content_Length", "CONTENT_LENGTH",
        "Transfer-encoding", "transfer_encoding", "TRANSFER-ENCODING",
        "Connection", "Keep-Alive", "keep_alive", "Upgrade", "TE", "te", "Trailer", "Expect",
        "HTTP2-Settings", "http2_settings",
        "Proxy-Authorization", "Proxy_Authorization", "Proxy-Connection", "proxy_connection",
    ],
)  # fmt: skip
def test_fields_of_the_engine_itself_are_refused(name: str) -> None:
    """D-26, F-53, W-126: framing, routing and hop-by-hop; CGI and friends fold the underscore."""
    assert is_own_field(name)
    error = refusal([(name, SECRET)])
    assert error.message == f"request field {name!r} is set by the engine itself; leave it out"


@pytest.mark.parametrize(
    "name",
    [
        "Ho_st", "Ho-st", "X-Host", "Hosts", "_Host", "Host_", "Host.", "Content.Length", "ContentLength",
        "X-Content-Length", "Content-Type", "Transfer", "Transfer-Encodings", "Connections", "KeepAlive",
        "Upgrade-Insecure-Requests", "TES", "T-E", "Trailers", "Expect-CT", "HTTP2_Setting",
        "Authorization", "Cookie", "Forwarded", "X-Forwarded-Host", "Via",
    ],
)  # fmt: skip
def test_their_neighbours_are_the_callers(name: str) -> None:
    """W-126: others pass. W-15: so does the caller's own Authorization."""
    assert not is_own_field(name)
    assert check_fields({name: "x"}) == ((name, "x"),)


def test_the_list_is_that_of_the_decisions() -> None:
    assert {
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te",
        "trailer", "expect", "http2-settings", "proxy-authorization", "proxy-connection",
    } == OWN_FIELDS  # fmt: skip


def test_the_lists_of_fields_are_lower_case_and_agree_with_each_other() -> None:
    """Whoever looks a name up has made it lower case; a capital in a list would never match."""
    for names in (OWN_FIELDS, HOP_BY_HOP, CREDENTIAL_FIELDS, SAFE_ACROSS_ORIGINS):
        assert all(name == name.lower() and "_" not in name for name in names)
    assert SAFE_ACROSS_ORIGINS.isdisjoint(CREDENTIAL_FIELDS | OWN_FIELDS | HOP_BY_HOP)
    assert HOP_BY_HOP <= OWN_FIELDS


@pytest.mark.parametrize(
    "name",
    [
        "x-api-key", "api-key", "x-goog-api-key", "x-amz-security-token", "private-token", "cookie2",
        "authorization", "cookie", "proxy-authorization", "referer", "origin", "x-csrf-token",
        "content-location", "idempotency-key", "forwarded",
    ],
)  # fmt: skip
def test_no_field_that_may_hold_a_secret_is_safe_across_origins(name: str) -> None:
    """D-22: an allow list, since vendors keep inventing names for keys."""
    assert name not in SAFE_ACROSS_ORIGINS


# Names and values -------------------------------------------------------------------------------------

CHARACTERS = frozenset(map(chr, range(0x180)))
TOKEN = frozenset(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~")
PRINTABLE = frozenset(map(chr, range(0x21, 0x7F)))


def passes(name: str, value: str) -> bool:
    try:
        return check_fields({name: value}) == ((name, value),)
    except InvalidField:
        return False


@pytest.mark.parametrize("place", ["X{}Y", "{}X", "X{}", "{}"])
def test_each_character_in_a_name(place: str) -> None:
    """F-51, AMB-5: names are tokens of RFC 9110 5.6.2 and nothing else, wherever the character stands."""
    assert {character for character in CHARACTERS if passes(place.format(character), "v")} == TOKEN


@pytest.mark.parametrize(
    "name", ["", "\u212aeep", "X-\ud800", "X-\U0001f600", ":path", "Host ", "Content-Length\t"]
)
def test_odd_names_are_refused(name: str) -> None:
    """AMB-87: pseudo-fields of HTTP/2, a space before the colon, letters that only look like ASCII."""
    assert "is not a token" in refusal({name: "v"}).message


@pytest.mark.parametrize(
    ("place", "allowed"),
    [("a{}b", PRINTABLE | {" ", "\t"}), ("{}b", PRINTABLE), ("a{}", PRINTABLE), ("{}", PRINTABLE)],
)
def test_each_character_in_a_value(place: str, allowed: frozenset[str]) -> None:
    """F-52: CR, LF, NUL, other controls and everything beyond ASCII are refused. White space: only inside."""
    assert {character for character in CHARACTERS if passes("X", place.format(character))} == allowed


@pytest.mark.parametrize(
    "value",
    [
        f"{SECRET}\nX-B: 1",
        f"{SECRET}\r\nX-B: 1",
        f"{SECRET}\r\n\r\nGET / HTTP/1.1",
        f"{SECRET}\n",
        f"{SECRET}\x00",
        f"{SECRET}é",
        f"{SECRET}\u010d\u010a",
        f"{SECRET}\u560d\u560a",
        f"{SECRET}\u2028",
        f"{SECRET}\ud800",
        f"{SECRET} ",
        f" {SECRET}",
        f"\t{SECRET}",
        SECRET * MAX_VALUE,
    ],
)
def test_values_that_could_start_a_line_of_their_own(value: str) -> None:
    """F-52, AMB-87: also characters whose low bytes are CR and LF. No value is ever in a message."""
    error = refusal({"X-A": value})
    assert error.message.startswith("the value of request field 'X-A' ")
    assert SECRET not in f"{error} {error!r}"


@pytest.mark.parametrize(
    "value", ["", "x", "a b", "a\tb", "text/html;q=0.9, */*", '"', "~!", "a" * MAX_VALUE]
)
def test_values_that_are_fine(value: str) -> None:
    assert check_fields({"X-A": value}) == (("X-A", value),)


def test_one_value_has_a_bound() -> None:
    """D-26: 8 KiB."""
    error = refusal({"X-A": "a" * (8 * 1024 + 1)})
    assert error.message == "the value of request field 'X-A' has 8193 bytes; at most 8192"


def test_all_fields_together_have_a_bound() -> None:
    """D-26: 64 KiB, with what stands around name and value on the wire."""
    seven = [(f"X-{n}", "a" * (MAX_VALUE - 7)) for n in range(8)]  # 8 fields of exactly 8 KiB each
    assert len(check_fields(seven)) == 8
    assert check_fields(seven)[0] == ("X-0", "a" * (MAX_VALUE - 7))
    for more in (("Y", ""), ("Y", "b")):
        assert f"at most {MAX_SECTION} are sent" in refusal([*seven, more]).message
    many = [(f"X-{n:04}", "") for n in range(MAX_SECTION // 10)]
    assert len(check_fields(many)) == MAX_SECTION // 10
    assert "bytes together" in refusal([*many, ("X-last", "")]).message


def test_a_long_refused_name_is_not_repeated_in_full() -> None:
    assert len(refusal({"é" * 10_000: "v"}).message) < 500


@pytest.mark.parametrize(
    ("first", "second"),
    [("Accept", "Accept"), ("Accept", "accept"), ("x-a", "X-A"), ("AUTHORIZATION", "authorization")],
)
def test_a_name_comes_once_whatever_its_case(first: str, second: str) -> None:
    """D-26, AMB-11: two peers may pick two of them."""
    error = refusal([(first, "1"), ("Other", "2"), (second, SECRET)])
    assert error.message == f"request field {second!r} is given twice; combine the values into one"


def test_names_that_differ_in_more_than_case_may_stand_together() -> None:
    fields = (("X-A", "1"), ("X_A", "2"), ("X-AA", "3"))
    assert check_fields(fields) == fields


# The shape of the argument ----------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [None, {}, [], (), iter(())])
def test_no_fields(headers: Any) -> None:
    assert check_fields(headers) == ()


@pytest.mark.parametrize(
    "make",
    [dict, list, tuple, iter, lambda pairs: (pair for pair in pairs), lambda pairs: map(list, pairs)],
)
def test_mappings_and_pairs_keep_their_order(make: Any) -> None:
    """F-97: what the caller gave is copied, not changed."""
    pairs = [("B", "2"), ("a", "1"), ("C", "")]
    assert check_fields(make(pairs)) == (("B", "2"), ("a", "1"), ("C", ""))
    assert pairs == [("B", "2"), ("a", "1"), ("C", "")]


def test_a_mapping_of_any_kind_will_do() -> None:
    assert check_fields(Headers([(b"X-A", b"1")])) == (("x-a", "1"),)


@pytest.mark.parametrize(
    "headers",
    ["X: 1", "abc", b"abc", 5, object(), [("X",)], [("X", "1", "2")], ["abc"], [None], {"X"}, [5]],
)
def test_another_shape_is_refused(headers: Any) -> None:
    """F-50: and never as a TypeError of Python's."""
    assert refusal(headers).message == "headers must be a mapping or pairs of field names and values"


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        (("X", 1), "str and int"),
        (("X", None), "str and NoneType"),
        (("X", b"1"), "str and bytes"),
        ((b"X", "1"), "bytes and str"),
        ((None, "1"), "NoneType and str"),
        (("X", ["1"]), "str and list"),
    ],
)
def test_names_and_values_are_text(pair: Any, told: str) -> None:
    """F-50: an int value or None is refused, never turned into text."""
    assert refusal([pair]).message == f"field names and values must be text, not {told}"


@pytest.mark.parametrize("row", rows_of_kind("request-header"), ids=lambda row: row["id"])
def test_corpus_of_request_fields(row: dict[str, Any]) -> None:
    """The engine refuses what `web_request` would drop; a tab in a value is only for `Fetch` to refuse."""
    if row["web_request"] == "allow":
        assert check_fields(row["headers"]) == tuple(map(tuple, row["headers"]))
    else:
        refusal(row["headers"])


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=4))
def test_what_passes_makes_whole_lines_and_nothing_else(pairs: list[tuple[str, str]]) -> None:
    """The invariant behind all tables above: each field is one line, with one colon after its own name."""
    try:
        fields = check_fields(pairs)
    except InvalidField:
        return
    assert list(fields) == pairs
    for name, value in fields:
        line = f"{name}: {value}".encode("ascii")
        assert len(line.splitlines()) == 1
        assert line.split(b":", 1) == [name.encode(), b" " + value.encode()]


# Taking fields out ------------------------------------------------------------------------------------

FIELDS = (("Authorization", "s"), ("X-A", "1"), ("ACCEPT", "2"))


@pytest.mark.parametrize(
    ("names", "kept", "dropped"),
    [
        (["authorization"], FIELDS[1:], FIELDS[:1]),
        (["authorization", "x-a", "accept"], (), FIELDS),
        (["accept", "cookie"], FIELDS[:2], FIELDS[2:]),
        ([], FIELDS, ()),
        (["Authorization"], FIELDS, ()),  # names are given in lower case
        (iter(["x-a"]), (FIELDS[0], FIELDS[2]), (FIELDS[1],)),
    ],
)
def test_fields_without_some_names(names: Any, kept: Any, dropped: Any) -> None:
    names = list(names)
    assert without_fields(FIELDS, iter(names)) == kept
    assert only_fields(FIELDS, iter(names)) == dropped


def test_has_field() -> None:
    assert has_field(FIELDS, "accept")
    assert has_field(FIELDS, "x-a")
    assert not has_field(FIELDS, "x")
    assert not has_field((), "accept")


# Headers of a response --------------------------------------------------------------------------------

RAW = [
    (b"Content-Type", b"text/html"),
    (b"Set-Cookie", b"a=1; Expires=Wed, 01 Jan 2031"),
    (b"X-A", b"1"),
    (b"set-cookie", b"b=2"),
    (b"x-a", b"2"),
    (b"X-Name", "Bücher".encode()),
    (b"X-Old", "Bücher".encode("latin-1")),
    (b"X-Empty", b""),
]
HEADERS = Headers(RAW)


@pytest.mark.parametrize("name", ["Content-Type", "content-type", "CONTENT-TYPE"])
def test_names_are_looked_up_without_case(name: str) -> None:
    assert HEADERS[name] == "text/html"
    assert HEADERS.get(name) == "text/html"
    assert HEADERS.get_all(name) == ("text/html",)
    assert name in HEADERS


@pytest.mark.parametrize(
    ("name", "joined", "values"),
    [
        ("X-A", "1, 2", ("1", "2")),
        ("Set-Cookie", "a=1; Expires=Wed, 01 Jan 2031\nb=2", ("a=1; Expires=Wed, 01 Jan 2031", "b=2")),
        ("X-Name", "Bücher", ("Bücher",)),
        ("X-Old", "Bücher", ("Bücher",)),
        ("X-Empty", "", ("",)),
    ],
)
def test_repeated_fields_are_joined_and_none_is_lost(name: str, joined: str, values: tuple[str, ...]) -> None:
    """AMB-12: by comma (RFC 9110 5.3), Set-Cookie by line feed. UTF-8 if it is that, else Latin-1."""
    assert HEADERS[name] == joined
    assert HEADERS.get_all(name) == values


def test_what_is_not_there() -> None:
    assert HEADERS.get("X-B") is None
    assert HEADERS.get_all("X-B") == ()
    assert "X-B" not in HEADERS
    strange: list[Any] = [5, None, b"X-A"]
    assert not any(name in HEADERS for name in strange)
    with pytest.raises(KeyError):
        HEADERS["X-B"]


def test_it_is_a_mapping_of_lower_case_names_in_order() -> None:
    names = ["content-type", "set-cookie", "x-a", "x-name", "x-old", "x-empty"]
    assert list(HEADERS) == names
    assert len(HEADERS) == len(names)
    assert isinstance(HEADERS, Mapping)
    assert dict(HEADERS)["x-a"] == "1, 2"


def test_headers_without_some_names_keep_the_rest_as_it_came() -> None:
    left = HEADERS.without(["SET-COOKIE", "x-a", "x-b"])
    assert left.raw == (RAW[0], *RAW[5:])
    assert HEADERS.raw == tuple(RAW)
    assert HEADERS.without(iter(())) == HEADERS


def test_headers_are_values() -> None:
    assert Headers(iter(RAW)) == HEADERS
    assert hash(Headers(RAW)) == hash(HEADERS)
    assert Headers(RAW[1:]) != HEADERS
    assert dict(HEADERS) != HEADERS
    assert pickle.loads(pickle.dumps(HEADERS)) == HEADERS
    assert not Headers()
    assert HEADERS


def test_a_repr_shows_names_and_no_value() -> None:
    """F-27, D-20: a repr ends up in logs, and Set-Cookie is a secret."""
    shown = repr(Headers([(b"Set-Cookie", SECRET.encode()), (b"X-A", b"1")]))
    assert shown == "<Headers set-cookie, x-a>"
    assert repr(Headers()) == "<Headers>"
