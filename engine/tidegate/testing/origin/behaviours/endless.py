"""No end. Each takes `count` (endless) and `interval` (0), and after `count` ends as a good answer does."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import trio

from tidegate.testing.origin.behaviours.sending import frame, send_content, send_interim
from tidegate.testing.origin.content import BLOCK_SIZE, content_of
from tidegate.testing.origin.exchange import Behaviour, Exchange


async def _send_endless(
    exchange: Exchange, before: bytes, piece: Callable[[int], bytes], after: bytes, then: str = "keep"
) -> None:
    """Send `before`, endless many pieces, or as many as the query asks for, and `after`."""
    count, interval = exchange.count(None), exchange.seconds("interval", 0)
    await exchange.start()
    await exchange.connection.send(before)
    await exchange.send_pieces(piece, count, interval)
    await exchange.connection.send(after)
    await exchange.connection.end(then)


async def endless_head(exchange: Exchange) -> None:
    """Fields without end, `size` bytes (1000) each; `count` (endless), `interval` (0) before each."""
    value = content_of(exchange.piece_size("size", 1000))
    await _send_endless(
        exchange,
        exchange.head("Content-Length: 0").removesuffix(b"\r\n"),
        lambda number: b"X-Pad-%d: %b\r\n" % (number, value),
        b"\r\n",
    )


async def endless_field(exchange: Exchange) -> None:
    """One field line without end, `size` bytes (1000) a piece.

    `count` (endless), `interval` (0) before each.
    """
    value = content_of(exchange.piece_size("size", 1000) or 1)
    await _send_endless(
        exchange,
        exchange.head("Content-Length: 0").removesuffix(b"\r\n") + b"X-Pad: ",
        lambda _: value,
        b"\r\n\r\n",
    )


async def endless_content(exchange: Exchange) -> None:
    """`/content` without end; `framing` (eof), `chunk` (65536), `count` (endless), `interval` (0), `then`."""
    await send_content(exchange, None, chunk=BLOCK_SIZE, interval=0, framing="eof")


async def endless_chunks(exchange: Exchange) -> None:
    """Chunks of `size` bytes (1): more framing than content.

    `count` (endless), `interval` (0) before each, `then` (keep).
    """
    await _send_chunks(exchange, frame(content_of(exchange.piece_size("size", 1) or 1), "chunked"))


async def endless_extensions(exchange: Exchange) -> None:
    """Chunks of one byte, each with an extension of `size` bytes (4096).

    `count` (endless), `interval` (0) before each, `then` (keep).
    """
    await _send_chunks(exchange, b"1;" + b"x" * exchange.piece_size("size", 4096) + b"\r\na\r\n")


async def _send_chunks(exchange: Exchange, chunk: bytes) -> None:
    then = exchange.then("keep")
    await _send_endless(
        exchange, exchange.head("Transfer-Encoding: chunked"), lambda _: chunk, b"0\r\n\r\n", then
    )


async def endless_trailers(exchange: Exchange) -> None:
    """A short chunked content, then trailer fields without end, `size` bytes (100) each.

    `count` (endless), `interval` (0) before each.
    """
    value = content_of(exchange.piece_size("size", 100))
    await _send_endless(
        exchange,
        exchange.head("Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n",
        lambda number: b"X-Pad-%d: %b\r\n" % (number, value),
        b"\r\n",
    )


async def endless_interim(exchange: Exchange) -> None:
    """Interim responses of status `interim` (103) without end, then the answer.

    `count` (endless), `interval` (0) before each.
    """
    await send_interim(exchange, count=None, interval=0)


async def endless_redirects(exchange: Exchange) -> None:
    """Each leads to the next; `hop` counts them. `padding`: bytes of a field more (0). Status 302.

    After `count` (endless) comes 200; `interval` (0): seconds before each.
    """
    hop, count, interval = exchange.integer("hop", 0), exchange.count(None), exchange.seconds("interval", 0)
    padding = exchange.piece_size("padding", 0)
    await exchange.start()
    if count is not None and hop >= count:
        await exchange.respond(b"the end\n")
        return
    await trio.sleep(interval)
    location = f"Location: /endless-redirects?{exchange.query_with(hop=str(hop + 1))}"
    await exchange.respond(b"", location, f"X-Pad: {'x' * padding}", status=302)


BEHAVIOURS: Mapping[str, Behaviour] = MappingProxyType(
    {
        "endless-head": endless_head,
        "endless-field": endless_field,
        "endless-content": endless_content,
        "endless-chunks": endless_chunks,
        "endless-extensions": endless_extensions,
        "endless-trailers": endless_trailers,
        "endless-interim": endless_interim,
        "endless-redirects": endless_redirects,
    }
)
