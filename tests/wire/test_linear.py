"""No bytes of a peer keep the interpreter busy: what h11's or our own expressions meet takes linear time.

A quadratic one would need minutes for a head of the largest size, in which no deadline is ever seen and no
other thread runs. The alarm ends such a test; a linear one takes milliseconds.
"""

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from tidegate import FetchError, Limits
from tidegate._wire.heads import parse_head, parse_trailers

LIMITS = Limits()
SIZE = LIMITS.max_head - 100

FIELDS = {
    "blanks, then what is no character of a value": b"X:" + b" " * SIZE + b"\x0c",
    "tabs": b"X:" + b"\t" * SIZE + b"\x0b",
    "both": b"X:" + b" \t" * (SIZE // 2) + b"\x0c",
    "blanks after a word": b"X: a" + b" " * SIZE + b"\x0c",
    "words": b"X:" + b"a " * (SIZE // 2) + b"\x0c",
    "one word": b"X:" + b"a" * SIZE + b"\x0c",
    "nothing but blanks": b"X:" + b" " * SIZE,
    "no colon": b"a" * SIZE,
    "blanks before a colon": b"X" + b" " * SIZE + b":\x0c",
    "a name with an end that is none": b"a" * SIZE + b"\x0c:x",
    "folds": b"X:\r\n" + b" \r\n" * 200 + b"Y:" + b" " * (SIZE - 800) + b"\x0c",
    "a long fold": b"X:\r\n" + b" " * SIZE + b"\x0c",
    "blanks in many fields": (b"X:" + b" " * (SIZE // 200) + b"\x0c\r\n") * 200 + b"X: y",
    "Connection": b"A/b: x\r\nConnection: " + b"," * SIZE,
    "Content-Length": b"A/b: x\r\nContent-Length: " + b"1," * (SIZE // 2) + b"1",
    "Content-Length, repeated": b"Content-Length: 1\r\n" * 250 + b"X:" + b" " * (SIZE - 6000) + b"\x0c",
    "Transfer-Encoding": b"A/b: x\r\nTransfer-Encoding: " + b"," * SIZE,
    "Keep-Alive": b"A/b: x\r\nKeep-Alive: " + b"timeout " * (SIZE // 8),
    "Location, folded": b"A/b: x\r\nLocation" + b" " * SIZE + b":\r\n x",
}


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Python's expressions look for signals now and then, so an alarm gets through."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("this takes more than linear time")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
@pytest.mark.parametrize("status", [b"200 OK", b"103 Early Hints", b"200 " + b" " * 50_000 + b"\x0c"])
def test_a_head(fields: bytes, status: bytes) -> None:
    raw = b"HTTP/1.1 " + status + b"\r\n" + fields + b"\r\n\r\n"
    try:
        head = parse_head(raw, LIMITS)
    except FetchError as error:
        assert error.reason in ("protocol_error", "message_too_large")
    else:
        assert b"\x0c" not in raw or head.oddities


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
def test_a_trailer_section(fields: bytes) -> None:
    try:
        parse_trailers(fields + b"\r\n\r\n")
    except FetchError as error:
        assert error.reason == "protocol_error"


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        (b"X:   a  b \t\r\nY:\t\r\nZ: \x85", [(b"X", b"a  b"), (b"Y", b""), (b"Z", b"\x85")]),
        (b"X: a:  b", [(b"X", b"a:  b")]),
        (b"X: a\r\n  b:   c", [(b"X", b"a b:   c")]),
    ],
)
def test_only_blanks_before_a_value_are_cut(raw: bytes, fields: list[tuple[bytes, bytes]]) -> None:
    """RFC 9112 5.1: those mean nothing. All others stay as they came, in the reason phrase too."""
    head = parse_head(b"HTTP/1.0 200 Well:   done\r\n" + raw + b"\r\n\r\n", LIMITS)
    assert head.fields == fields
    assert head.reason == b"Well:   done"
