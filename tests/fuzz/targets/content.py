"""Invariant: content is the same however it is cut up, within its length and caps, or a FetchError.

A connection whose peer has said one byte too many, or one too few, is never used again.
"""

import itertools
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeAlias, TypeVar, cast

from tests.fuzz.targets.cutting import Cutter, messages
from tidegate._policy.limits import Limits
from tidegate._wire.http1 import Exchange
from tidegate._wire.stream import Stream
from tidegate.errors import FetchError

LIMITS: Final = Limits(max_head=1024, max_fields=12, max_interim=3, max_trailers=3, max_chunk_overhead=1024)
METHODS: Final = ("GET", "HEAD", "POST")

T = TypeVar("T")
Outcome: TypeAlias = tuple[object, ...]


class Replay:
    """A stream whose bytes are all here already, in pieces of these sizes, and which then ends."""

    cut_short = False

    def __init__(self, data: bytes, sizes: Iterator[int]) -> None:
        self._data = data
        self._sizes = sizes

    @property
    def unread(self) -> int:
        return len(self._data)

    def send_nowait(self, data: bytes) -> int:
        return len(data)

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        size = min(max_bytes, next(self._sizes))
        piece, self._data = self._data[:size], self._data[size:]
        return piece

    async def receive_into(self, buffer: memoryview) -> int:
        piece = await self.receive_some(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


def check(data: bytes) -> None:
    """A whole message at once, byte by byte, in pieces; and by a known length at once."""
    cutter = Cutter(data)
    method, size, cap = METHODS[cutter.number(3)], 1 + cutter.number(40), cutter.number(200)
    raw = cutter.rest()
    whole = _read(raw, method, itertools.repeat(65536))
    assert whole == _read(raw, method, itertools.repeat(1))
    assert whole == _read(raw, method, itertools.cycle([size, 1, 7]))
    _check_rest(raw, method, cap)


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Nothing here ever waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast(T, stop.value)
    raise AssertionError("a stream that never blocks was waited for")


def _read(raw: bytes, method: str, sizes: Iterator[int]) -> Outcome:
    stream = Replay(raw, sizes)
    exchange = Exchange(cast(Stream, stream), LIMITS)
    content = bytearray()
    try:
        _run(exchange.send(b"GET / HTTP/1.1\r\n\r\n", b""))
        head = _run(exchange.receive_head(method))
        while piece := _run(exchange.receive_content()):
            content += piece
    except FetchError as error:
        # Which bytes count as received at an error depends on where they were cut: not compared.
        return type(error), error.reason
    assert exchange.wire_bytes == len(content)
    assert exchange.announced in (None, 0)
    # What is left in the stream when a connection is kept is seen by `Stream.is_quiet`.
    junk_read = "bytes after the response" in exchange.oddities
    assert not (exchange.reusable and junk_read)
    reusable = exchange.reusable and not stream.unread
    return (
        head.status,
        tuple(head.fields),
        bytes(content),
        tuple(exchange.trailers),
        exchange.complete,
        reusable,
    )


def _check_rest(raw: bytes, method: str, cap: int) -> None:
    """`receive_rest` gives the same content, cut at the cap."""
    exchange = Exchange(cast(Stream, Replay(raw, itertools.repeat(3))), LIMITS)
    try:
        _run(exchange.receive_head(method))
        announced = exchange.announced
        if announced is None or announced > 1 << 20:
            return
        content = _run(exchange.receive_rest(cap))
    except FetchError:
        return
    assert len(content) == min(announced, cap)
    assert content in raw


def seeds() -> Iterator[bytes]:
    """The wire corpus, for each method."""
    for message in messages():
        for method in range(3):
            yield bytes([method, 9, 20]) + message
