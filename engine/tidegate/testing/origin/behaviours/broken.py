"""Broken ends: answers that stop short, lie about their length, come too early, or are no HTTP at all."""

import itertools
from collections.abc import Mapping
from types import MappingProxyType

from tidegate.testing.origin.behaviours.sending import FRAMING_FIELDS, framing_of
from tidegate.testing.origin.content import BLOCK_SIZE, content_pieces, first_bytes
from tidegate.testing.origin.exchange import Behaviour, Exchange


async def reset(exchange: Exchange) -> None:
    """`/content` of `size` bytes (1000), reset after `after` bytes (half of them), head included.

    `framing`: length, chunked (in one chunk), eof; `then` (reset).
    """
    await _send_part(exchange, then="reset")


async def cut(exchange: Exchange) -> None:
    """As `/reset`, but the stream just ends: `then` (cut); `then=close` for TLS with close_notify."""
    await _send_part(exchange, then="cut")


async def _send_part(exchange: Exchange, then: str) -> None:
    framing, size = framing_of(exchange, "length"), exchange.integer("size", 1000)
    begin, end = (b"%x\r\n" % size, b"\r\n") if framing == "chunked" else (b"", b"")
    begin = exchange.head(FRAMING_FIELDS[framing].format(size=size)) + begin
    after, then = exchange.integer("after", (len(begin) + size + len(end)) // 2), exchange.then(then)
    whole = itertools.chain([begin], content_pieces(size, BLOCK_SIZE), [end])
    await exchange.start()
    await exchange.connection.send_pieces(first_bytes(whole, after), 0)
    await exchange.connection.end(then)


async def half_close(exchange: Exchange) -> None:
    """A good answer, then this side's FIN; the other direction is read on."""
    await exchange.respond(b"good bye\n")
    await exchange.connection.end("half-close")


async def wrong_length(exchange: Exchange) -> None:
    """`sent` bytes (500) where Content-Length is `said` (1000; any text at all); `then` (close)."""
    said, sent, then = exchange.text("said", "1000"), exchange.integer("sent", 500), exchange.then("close")
    await exchange.send_head(f"Content-Length: {said}")
    await exchange.connection.send_pieces(content_pieces(sent, BLOCK_SIZE), 0)
    await exchange.connection.end(then)


async def early(exchange: Exchange) -> None:
    """Answer 413 before the content is read, `then` (stall). With `keep` the content is read afterwards."""
    then = exchange.then("stall")
    await exchange.start(reads=False)
    await exchange.send_head("Content-Length: 10", status=413)
    await exchange.connection.send(b"" if exchange.has_no_content(413) else b"too large\n")
    await exchange.connection.end(then)


async def raw(exchange: Exchange) -> None:
    """Each `bytes` (percent-encoded) as it is, `interval` seconds (0) before each, then `then` (close)."""
    pieces = [piece.encode("latin-1") for piece in exchange.texts("bytes")]
    interval, then = exchange.seconds("interval", 0), exchange.then("close")
    await exchange.start(makes_head=False)
    await exchange.connection.send_pieces(pieces, interval)
    await exchange.connection.end(then)


BEHAVIOURS: Mapping[str, Behaviour] = MappingProxyType(
    {
        "reset": reset,
        "cut": cut,
        "half-close": half_close,
        "wrong-length": wrong_length,
        "early": early,
        "raw": raw,
    }
)
