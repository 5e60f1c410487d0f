"""Invariant: a response head is a `Head` within its limits, or a FetchError; so is a trailer section.

The fast reader of plain heads and the one that asks h11 never differ, and no head yields a field that could
be written as two.
"""

from collections.abc import Iterator
from typing import Final

from tests.fuzz.targets.cutting import messages
from tidegate._policy.limits import Limits
from tidegate._wire import heads
from tidegate._wire.heads import Head, RawFields, parse_head, parse_plain_head, parse_trailers
from tidegate.errors import FetchError

LIMITS: Final = Limits(max_fields=12)


def check(data: bytes) -> None:
    """The bytes up to the first blank line as a head, and without their first line as trailers."""
    end = _end(data)
    raw = data[:end] if end else data.rstrip(b"\r\n") + b"\r\n\r\n"
    _check_head(raw)
    _check_trailers(raw.partition(b"\n")[2])


def _end(data: bytes) -> int:
    from tidegate._wire.http1 import _BLANK_LINE

    match = _BLANK_LINE.search(data)
    return match.end() if match else 0


def _check_head(raw: bytes) -> None:
    try:
        heads.check_first_bytes(bytearray(raw))
        head = parse_head(raw, LIMITS)
    except FetchError:
        return
    _check_fields(head.fields)
    assert 100 <= head.status <= 999
    assert head.content_length is None or 0 <= head.content_length <= heads.MAX_LENGTH
    assert len(head.fields) <= LIMITS.max_fields
    plain = parse_plain_head(raw)
    assert plain is None or _framing(plain) == _framing(head)


def _framing(head: Head) -> tuple[object, ...]:
    return head.status, head.content_length, head.chunked, head.closing, list(head.fields)


def _check_trailers(raw: bytes) -> None:
    try:
        fields = parse_trailers(raw)
    except FetchError:
        return
    _check_fields(fields)


def _check_fields(fields: RawFields) -> None:
    for name, value in fields:
        assert name
        assert not set(name + value) & set(b"\r\n\0"), (name, value)
        assert value == value.strip(b" \t")


def seeds() -> Iterator[bytes]:
    """The wire corpus."""
    yield from messages()
