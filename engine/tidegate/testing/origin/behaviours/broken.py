"""Broken ends: answers that stop short, lie about their length, come too early, or are no HTTP at all."""

from collections.abc import Mapping
from types import MappingProxyType

from tidegate.testing.origin.behaviours.sending import FRAMING_FIELDS, frame, framing_of
from tidegate.testing.origin.content import content_of
from tidegate.testing.origin.exchange import Behaviour, Exchange


async def reset(exchange: Exchange) -> None:
    """`/content` of `size` bytes (1000), reset after `after` bytes (half of them), head included."""
    await _send_part(exchange, then="reset")


async def cut(exchange: Exchange) -> None:
    """As `/reset`, but the stream just ends; `then=close` for TLS with close_notify, or any other."""
    await _send_part(exchange, then="cut")


async def _send_part(exchange: Exchange, then: str) -> None:
    framing, body = framing_of(exchange, "length"), content_of(exchange.integer("size", 1000))
    whole = exchange.head(FRAMING_FIELDS[framing].format(size=len(body))) + frame(body, framing)
    await exchange.read_all()
    await exchange.connection.send(whole[: exchange.integer("after", len(whole) // 2)])
    await exchange.connection.end(exchange.text("then", then))


async def half_close(exchange: Exchange) -> None:
    """A good answer, then this side's FIN; the other direction is read on."""
    await exchange.respond(b"good bye\n")
    await exchange.connection.end("half-close")


async def wrong_length(exchange: Exchange) -> None:
    """`sent` bytes (500) where Content-Length says `said` (1000), more or fewer; `then` (close)."""
    await exchange.read_all()
    await exchange.send_head(f"Content-Length: {exchange.text('said', '1000')}")
    await exchange.connection.send(content_of(exchange.integer("sent", 500)))
    await exchange.connection.end(exchange.text("then", "close"))


async def early(exchange: Exchange) -> None:
    """Answer 413 before the content is read, `then` (stall). With `keep` the content is read afterwards."""
    await exchange.send_head("Content-Length: 10", status=413)
    await exchange.connection.send(b"" if exchange.has_no_content(413) else b"too large\n")
    await exchange.connection.end(exchange.text("then", "stall"))


async def raw(exchange: Exchange) -> None:
    """Each `bytes` (percent-encoded) as it is, `interval` seconds (0) before each, then `then` (close)."""
    await exchange.read_all()
    pieces = [piece.encode("latin-1") for piece in exchange.texts("bytes")]
    await exchange.connection.send_pieces(pieces, exchange.seconds("interval", 0))
    await exchange.connection.end(exchange.text("then", "close"))


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
