"""Kept connections that are not as a pool would like them."""

from collections.abc import Mapping
from types import MappingProxyType

import trio

from tidegate.testing.origin.exchange import Behaviour, Exchange


async def planted(exchange: Exchange) -> None:
    """A good answer and, in the same segment, a second one that nobody asked for; the connection is kept."""
    await exchange.start()
    unasked = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nplanted"
    await exchange.connection.send(exchange.head("Content-Length: 5") + b"asked" + unasked)


async def late_408(exchange: Exchange) -> None:
    """A good answer; `after` seconds (0.2) later a 408 on the idle connection, `then` (close)."""
    after, then = exchange.seconds("after", 0.2), exchange.then("close")
    await exchange.respond(b"asked\n")
    await trio.sleep(after)
    await exchange.connection.send(
        b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    await exchange.connection.end(then)


async def drop_idle(exchange: Exchange) -> None:
    """A good answer; `after` seconds (0) later the connection ends, `then` (close), without a word."""
    after, then = exchange.seconds("after", 0), exchange.then("close")
    await exchange.respond(b"asked\n")
    await trio.sleep(after)
    await exchange.connection.end(then)


async def drop_second(exchange: Exchange) -> None:
    """A good answer to the first request of a connection; none to a later one, `then` (close)."""
    then = exchange.then("close")
    await exchange.start()
    if exchange.request.number == 1:
        await exchange.respond(b"first\n")
    else:
        await exchange.connection.end(then)


BEHAVIOURS: Mapping[str, Behaviour] = MappingProxyType(
    {
        "planted": planted,
        "late-408": late_408,
        "drop-idle": drop_idle,
        "drop-second": drop_second,
    }
)
