"""No end. Each takes `count` (endless) and `interval` (0), and after `count` ends as a good answer does."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tidegate.testing.origin.behaviours.sending import end_content, frame, send_content, send_interim
from tidegate.testing.origin.content import BLOCK_SIZE, content_of
from tidegate.testing.origin.exchange import Behaviour, Exchange


async def _send_endless(exchange: Exchange, piece: Callable[[int], bytes]) -> None:
    await exchange.send_pieces(piece, exchange.count(None), exchange.seconds("interval", 0))


async def endless_head(exchange: Exchange) -> None:
    """Fields without end, `size` bytes (1000) each."""
    value = content_of(exchange.integer("size", 1000))
    await exchange.connection.send(exchange.head("Content-Length: 0").removesuffix(b"\r\n"))
    await _send_endless(exchange, lambda number: b"X-Pad-%d: %b\r\n" % (number, value))
    await exchange.connection.send(b"\r\n")


async def endless_field(exchange: Exchange) -> None:
    """One field line without end, `size` bytes (1000) a piece."""
    value = content_of(exchange.integer("size", 1000) or 1)
    await exchange.connection.send(exchange.head("Content-Length: 0").removesuffix(b"\r\n") + b"X-Pad: ")
    await _send_endless(exchange, lambda _: value)
    await exchange.connection.send(b"\r\n\r\n")


async def endless_content(exchange: Exchange) -> None:
    """`/content` without end; `framing` (eof), `chunk` (65536)."""
    await send_content(exchange, None, chunk=BLOCK_SIZE, interval=0, framing="eof")


async def endless_chunks(exchange: Exchange) -> None:
    """Chunks of `size` bytes (1) without end: more framing than content."""
    chunk = frame(content_of(exchange.integer("size", 1) or 1), "chunked")
    await exchange.send_head("Transfer-Encoding: chunked")
    await _send_endless(exchange, lambda _: chunk)
    await end_content(exchange, "chunked")


async def endless_extensions(exchange: Exchange) -> None:
    """Chunks of one byte without end, each with an extension of `size` bytes (4096)."""
    chunk = b"1;" + b"x" * exchange.integer("size", 4096) + b"\r\na\r\n"
    await exchange.send_head("Transfer-Encoding: chunked")
    await _send_endless(exchange, lambda _: chunk)
    await end_content(exchange, "chunked")


async def endless_trailers(exchange: Exchange) -> None:
    """A short chunked content, then trailer fields without end, `size` bytes (100) each."""
    value = content_of(exchange.integer("size", 100))
    await exchange.send_head("Transfer-Encoding: chunked")
    await exchange.connection.send(b"5\r\nhello\r\n0\r\n")
    await _send_endless(exchange, lambda number: b"X-Pad-%d: %b\r\n" % (number, value))
    await exchange.connection.send(b"\r\n")


async def endless_interim(exchange: Exchange) -> None:
    """Interim responses of status `interim` (103) without end."""
    await send_interim(exchange, count=None, interval=0)


async def endless_redirects(exchange: Exchange) -> None:
    """Each leads to the next; `hop` counts them. `padding`: bytes of a field more (0). Status 302."""
    query = exchange.query_with(hop=str(exchange.integer("hop", 0) + 1))
    padding = "x" * exchange.integer("padding", 0)
    await exchange.respond(b"", f"Location: /endless-redirects?{query}", f"X-Pad: {padding}", status=302)


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
