"""Slowness: an answer that does not come, or byte by byte, and a request that is read so."""

import itertools
from collections.abc import Iterator, Mapping
from math import ceil
from types import MappingProxyType

import trio

from tidegate.testing.origin.behaviours.good import upload
from tidegate.testing.origin.behaviours.sending import send_content, send_interim
from tidegate.testing.origin.content import PATTERN, content_pieces, split
from tidegate.testing.origin.exchange import Behaviour, Exchange
from tidegate.testing.origin.parameters import numbers


async def hold(exchange: Exchange) -> None:
    """Never answer."""
    await exchange.start(reads=False, makes_head=False)
    await exchange.connection.end("hold")


async def drip_head(exchange: Exchange) -> None:
    """The head of a good answer, `bytes` (1) at a time, `interval` (0.1) before each.

    `padding`: bytes of a field more at its end (0), or endless.
    """
    padding, size = exchange.integer_or_endless("padding", 0), max(1, exchange.piece_size("bytes", 1))
    interval = exchange.seconds("interval", 0.1)
    await exchange.start()
    head = exchange.head("Content-Type: text/plain", "Content-Length: 5")
    await exchange.connection.send_pieces(_padded(head, padding, size), interval)
    await exchange.connection.send(b"" if exchange.has_no_content(200) else b"slow\n")


def _padded(head: bytes, padding: int | None, size: int) -> Iterator[bytes]:
    if padding == 0:
        return split(head, size)
    fields = head.removesuffix(b"\r\n") + b"X-Pad: "
    return itertools.chain(split(fields, size), content_pieces(padding, size), split(b"\r\n\r\n", size))


async def drip_content(exchange: Exchange) -> None:
    """`/content` with `size` (10), `chunk` (1) and `interval` (0.1)."""
    size = exchange.integer_or_endless("size", 10)
    await send_content(exchange, size, chunk=1, interval=0.1, framing="length")


async def drip_chunk_size(exchange: Exchange) -> None:
    """`count` chunks (10) or endless, the 18 digits of each size line dripped, `interval` (0.1) before each.

    `then` (keep).
    """
    count, interval, then = exchange.count(10), exchange.seconds("interval", 0.1), exchange.then("keep")
    await exchange.send_head("Transfer-Encoding: chunked")
    for _ in numbers(count):
        await exchange.connection.send_slowly(b"%018x\r\n" % len(PATTERN), interval)
        await exchange.connection.send(PATTERN + b"\r\n")
    await exchange.connection.send(b"0\r\n\r\n")
    await exchange.connection.end(then)


async def drip_interim(exchange: Exchange) -> None:
    """`count` interim responses (10) or endless of status `interim` (103), then the answer.

    `interval` (0.1): seconds before each.
    """
    await send_interim(exchange, count=10, interval=0.1)


async def slow_reader(exchange: Exchange) -> None:
    """As `/upload`, reading `size` bytes (1024) at a time, `interval` (0.1) before each."""
    size, interval = max(1, exchange.piece_size("size", 1024)), exchange.seconds("interval", 0.1)
    exchange.settle()
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
