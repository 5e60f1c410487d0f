"""Slowness: an answer that does not come, or byte by byte, and a request that is read so."""

import itertools
from collections.abc import Iterator, Mapping
from math import ceil
from types import MappingProxyType

import trio

from tidegate.testing.origin.behaviours.good import upload
from tidegate.testing.origin.behaviours.sending import end_content, send_content, send_interim
from tidegate.testing.origin.content import PATTERN, content_pieces, split
from tidegate.testing.origin.exchange import Behaviour, Exchange
from tidegate.testing.origin.parameters import numbers


async def hold(exchange: Exchange) -> None:
    """Never answer."""
    await exchange.connection.end("hold")


async def drip_head(exchange: Exchange) -> None:
    """The head of a good answer, `bytes` (1) at a time, `interval` (0.1) before each.

    `padding`: bytes of a field more at its end (0), or endless.
    """
    await exchange.read_all()
    head = exchange.head("Content-Type: text/plain", "Content-Length: 5")
    pieces = _padded(head, exchange.integer_or_endless("padding", 0), max(1, exchange.integer("bytes", 1)))
    await exchange.connection.send_pieces(pieces, exchange.seconds("interval", 0.1))
    await exchange.connection.send(b"" if exchange.has_no_content(200) else b"slow\n")


def _padded(head: bytes, padding: int | None, size: int) -> Iterator[bytes]:
    if padding == 0:
        return split(head, size)
    fields = head.removesuffix(b"\r\n") + b"X-Pad: "
    return itertools.chain(split(fields, size), content_pieces(padding, size), split(b"\r\n\r\n", size))


async def drip_content(exchange: Exchange) -> None:
    """`/content` of `size` bytes (10) or endless, `chunk` (1) a piece, `interval` (0.1) before each."""
    size = exchange.integer_or_endless("size", 10)
    await send_content(exchange, size, chunk=1, interval=0.1, framing="length")


async def drip_chunk_size(exchange: Exchange) -> None:
    """`count` chunks (10), the 18 digits of each size line dripped with `interval` (0.1) between them."""
    interval = exchange.seconds("interval", 0.1)
    await exchange.send_head("Transfer-Encoding: chunked")
    for _ in numbers(exchange.count(10)):
        await exchange.connection.send_slowly(b"%018x\r\n" % len(PATTERN), interval)
        await exchange.connection.send(PATTERN + b"\r\n")
    await end_content(exchange, "chunked")


async def drip_interim(exchange: Exchange) -> None:
    """`count` interim responses (10) of status `interim` (103), `interval` (0.1) apart, then the answer."""
    await send_interim(exchange, count=10, interval=0.1)


async def slow_reader(exchange: Exchange) -> None:
    """As `/upload`, reading `size` bytes (1024) at a time, `interval` (0.1) before each."""
    size, interval = max(1, exchange.integer("size", 1024)), exchange.seconds("interval", 0.1)
    while not exchange.request.complete:
        await trio.sleep(interval)
        data = await exchange.read_some(size)
        # What came along with the head has arrived already; it takes its time nevertheless.
        await trio.sleep(interval * max(0, ceil(len(data) / size) - 1))
    await upload(exchange)


BEHAVIOURS: Mapping[str, Behaviour] = MappingProxyType(
    {
        "hold": hold,
        "drip-head": drip_head,
        "drip-content": drip_content,
        "drip-chunk-size": drip_chunk_size,
        "drip-interim": drip_interim,
        "slow-reader": slow_reader,
    }
)
