"""Whatever the bytes, a head is a `Head` or one of two errors, and a repair never moves a message boundary.

The second reader here knows less than the first: it looks at framing lines alone, and asks h11 about those.
"""

import re
from collections import Counter

import h11
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate._policy.limits import Limits
from tidegate._wire.heads import MAX_LENGTH, Head, RawFields, parse_head, parse_plain_head, parse_trailers
from tidegate.errors import MessageTooLarge, RemoteProtocolError

LIMITS = Limits(max_fields=12)
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2
FRAMING = (b"content-length", b"transfer-encoding")

small_budget = settings(max_examples=250, deadline=None)

# Heads that are nearly right: random bytes hardly ever get past the status line.
NAMES = (
    b"Content-Length", b"content-LENGTH", b"Transfer-Encoding", b"transfer-encoding", b"Connection", b"X-A",
    b"Location", b"Keep-Alive", b"Content-Length-X", b"X Y", b"a/b", b"(", b"",
)  # fmt: skip
VALUES = (
    b"0", b"5", b"5, 5", b"05", b"5 5", b"+5", b"chunked", b"Chunked", b"identity", b"identity, chunked",
    b"chunked, identity", b"chunked, chunked", b"gzip, chunked", b",chunked", b"close", b"timeout=5", b"",
)  # fmt: skip
ODD_BYTES = (b"\r", b"\0", b"\x0b", b"\x0c", b"\t", b" ", b",", b":", b";", b"/", b"\x85", b"\xa0", b"\xff")
LINE_ENDS = (b"\r\n", b"\r\n", b"\r\n", b"\n")


def with_odd_byte(text: bytes, odd: bytes, at: int) -> bytes:
    return text[:at] + odd + text[at:]


def latin1(text: str) -> bytes:
    return text.encode("latin-1")


def spoiled(texts: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    plain = st.sampled_from(texts)
    odd = st.builds(with_odd_byte, plain, st.sampled_from(ODD_BYTES), st.integers(0, 20))
    return st.one_of(plain, plain, odd)


field_lines = st.tuples(
    spoiled(NAMES), st.sampled_from((b": ", b":", b": ", b" : ", b"\t:", b"")), spoiled(VALUES)
).map(b"".join)
folds = st.tuples(st.sampled_from((b" ", b"\t")), spoiled(VALUES)).map(b"".join)
lines = st.tuples(st.one_of(field_lines, field_lines, field_lines, folds), st.sampled_from(LINE_ENDS)).map(
    b"".join
)
sections = st.lists(lines, max_size=6).map(b"".join)
status_lines = st.sampled_from(
    (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 204 \n", b"HTTP/1.0 200\r\n", b"HTTP/1.1 100 Continue\r\n")
)
heads = st.builds(lambda status, section: status + section + b"\r\n", status_lines, sections)


def parsed(raw: bytes) -> Head | None:
    """The head, or None for an error that may be; anything else fails the test."""
    try:
        return parse_head(raw, LIMITS)
    except (RemoteProtocolError, MessageTooLarge):
        return None


def logical_lines(raw: bytes) -> list[bytes]:
    """The lines after the first one, each with its folded continuations joined to it by a space."""
    joined: list[bytes] = []
    for line in raw.replace(b"\r\n", b"\n").split(b"\n")[1:]:
        if line[:1] in (b" ", b"\t") and joined:
            joined[-1] += b" " + line.strip(b" \t")
        elif line:
            joined.append(line)
    return joined


def as_field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name.strip(b" \t"), one_space(value)


def one_space(value: bytes) -> bytes:
    """The value with every run of white space as one space: how a fold is joined is not the matter here."""
    return re.sub(rb"[ \t]+", b" ", value).strip(b" ")


# Any bytes ...


@small_budget
@given(raw=st.one_of(st.binary(max_size=200), heads, st.builds(bytes.__add__, status_lines, st.binary())))
def test_any_bytes(raw: bytes) -> None:
    head = parsed(raw)
    if head is None:
        return
    assert 100 <= head.status <= 999
    assert head.http_version.startswith("1.")
    assert len(head.fields) <= LIMITS.max_fields
    assert head.content_length is None or 0 <= head.content_length <= MAX_LENGTH
    for name, value in head.fields:
        assert TOKEN.fullmatch(name)
        assert not re.search(rb"[\r\n\0]", value)


# Repairs ...


@settings(small_budget, max_examples=600)
@given(raw=heads)
# A bare CR or NUL: some reader takes it for a line end, or for the end of all (RFC 9112 2.2, RFC 9110 5.5).
@example(raw=b"HTTP/1.1 200 OK\n\rA: 1\n\n")
@example(raw=b"HTTP/1.1 200 OK\r\nA\r: 1\r\n\r\n")
@example(raw=b"HTTP/1.1 200 OK\r\n\0A: 1\r\n\r\n")
@example(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, \rchunked\r\n\r\n")
@example(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\r\n\r\n")
@example(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\r\n\r\n")
# A continuation belongs to the line that it continues, and goes with it.
@example(raw=b"HTTP/1.1 200 OK\r\nA: 1\r\nX/Y: 2\r\n folded\r\n\r\n")
@example(raw=b"HTTP/1.1 200 OK\r\nLocation: http://a.example/\r\nX/Y: 2\r\n b\r\n\r\n")
@example(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX/Y: 1\r\n , 5\r\n\r\n")
@example(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nX/Y: 1\r\n , chunked\r\n\r\n")
# White space around a coding is space and tab, nothing that Python strips besides (RFC 9110 5.6.3).
@example(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\n\r\n")
@example(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, \x0cchunked\r\nContent-Length: 5\r\n\r\n")
@example(raw=b"HTTP/1.1 200 OK\r\nX/Content-Length: 5\r\n\r\n")
def test_repairs(raw: bytes) -> None:
    """A repair drops or trims lines, says so, and leaves a message's end where h11 sees it."""
    head = parsed(raw)
    if head is None:
        return
    assert not re.search(rb"\r(?!\n)|\0", raw)
    assert head.oddities or by_h11(raw)
    assert framing_by_h11(raw) == (head.content_length, head.chunked)
    sent = Counter(as_field(line) for line in logical_lines(raw))
    made = Counter((name, one_space(value)) for name, value in head.fields if name.lower() not in FRAMING)
    assert made <= sent


def framing_lines(raw: bytes) -> list[tuple[bytes, bytes]] | None:
    """The framing fields, None if a line only looks like one: some other reader could take it for one."""
    found = []
    for line in logical_lines(raw):
        name, value = as_field(line)
        exact = line.partition(b":")[0]
        if name.lower() in FRAMING and exact == name:
            found.append((name, value))
        elif any(framing in exact.lower() for framing in FRAMING) and not TOKEN.fullmatch(exact):
            return None
    return found


def cleaned(fields: list[tuple[bytes, bytes]]) -> bytes | None:
    """A head of framing fields alone, with `identity` taken away and `chunked` said once."""
    lines = [name + b": " + value for name, value in fields if name.lower() == b"content-length"]
    codings = [
        coding.strip(b" \t").lower()
        for name, value in fields
        if name.lower() == b"transfer-encoding"
        for coding in value.split(b",")
    ]
    meant = {coding for coding in codings if coding not in (b"identity", b"")}
    if meant and (meant != {b"chunked"} or codings[-1] != b"chunked"):
        return None
    lines.extend([b"Transfer-Encoding: chunked"] if meant else [])
    return b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"", b""])


def by_h11(raw: bytes) -> h11.Response | h11.InformationalResponse | None:
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "a.example")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(raw)
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    return event if isinstance(event, h11.Response | h11.InformationalResponse) else None


def framing_by_h11(raw: bytes) -> tuple[int | None, bool] | None:
    """Length and whether chunked, as h11 reads the framing lines alone; None if there is no one reading."""
    fields = framing_lines(raw)
    head = None if fields is None else cleaned(fields)
    event = None if head is None else by_h11(head)
    if event is None:
        return None
    values = dict(event.headers)
    length = values.get(b"content-length")
    return None if length is None else int(length), b"transfer-encoding" in values


# Plain heads, which h11 never sees ...

plain_values = st.text('az09 \t,;="/\x80\xff', max_size=12).map(latin1)
plain_lines = st.one_of(
    st.sampled_from(
        (b"Content-Length: 5", b"content-length:\t07 ", b"Transfer-Encoding: chunked", b"Connection: close",
         b"Connection: Keep-Alive", b"Keep-Alive: timeout=5, max=9")
    ),
    plain_values.map(lambda value: b"X-A:" + value),
)  # fmt: skip
plain_heads = st.builds(
    lambda start, reason, lines: b"\r\n".join([start + reason, *lines, b"", b""]),
    st.sampled_from((b"HTTP/1.1 200", b"HTTP/1.1 599", b"HTTP/1.1 999", b"HTTP/1.1 100", b"HTTP/1.0 200")),
    st.one_of(st.sampled_from((b" OK", b"", b" ", b"  O K ")), plain_values.map(lambda value: b" " + value)),
    st.lists(plain_lines, max_size=4),
)
nearly_plain_heads = st.builds(with_odd_byte, plain_heads, st.sampled_from(ODD_BYTES), st.integers(0, 80))


@settings(small_budget, max_examples=600)
@given(raw=st.one_of(plain_heads, nearly_plain_heads))
def test_plain_heads(raw: bytes) -> None:
    """What is read without h11 is what h11 reads, to the byte, and nothing that it finds odd."""
    head = parse_plain_head(raw)
    if head is None:
        return
    event = by_h11(raw)
    assert event is not None
    assert (event.status_code, bytes(event.reason)) == (head.status, head.reason)
    assert (event.http_version.decode(), event.headers.raw_items()) == (head.http_version, head.fields)
    assert framing_by_h11(raw) == (head.content_length, head.chunked)
    assert head.oddities == ()
    options = b",".join(value.lower() for name, value in event.headers if name == b"connection")
    assert head.closing is (b"close" in options)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nDate: Tue, 01 Jan 2030 00:00:00 GMT\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b; Path=/\r\n\r\n",
        b"HTTP/1.1 304\r\nX-Note: caf\xe9\r\nConnection: close\r\n\r\n",
    ],
)
def test_everyday_heads_are_plain(raw: bytes) -> None:
    """Or the test before this one would look at nothing."""
    assert parse_plain_head(raw) is not None


# Trailers ...


def parsed_trailers(raw: bytes) -> RawFields | None:
    try:
        return parse_trailers(raw)
    except RemoteProtocolError:
        return None


@small_budget
@given(raw=st.one_of(st.binary(max_size=60), sections.map(lambda section: section + b"\r\n")))
@example(raw=b"\nHTTP/1.1 200 OK\r\n\r\n")
@example(raw=b"A: 1\r\n\r\nB: 2\r\n\r\n")
def test_trailers(raw: bytes) -> None:
    """Every line is a field or the section is refused; fields that frame messages are dropped."""
    fields = parsed_trailers(raw)
    if fields is None:
        return
    sent = [as_field(line) for line in logical_lines(b"\n" + raw)]
    assert [(name, one_space(value)) for name, value in fields] == [
        field for field in sent if field[0].lower() not in FRAMING
    ]
    assert b"\n\n" not in raw.replace(b"\r\n", b"\n").rstrip(b"\n")
