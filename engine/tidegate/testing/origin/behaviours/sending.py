"""How content is framed and sent, well or slowly: by length, in chunks, or to the end of the connection."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tidegate.testing.origin.content import content_pieces
from tidegate.testing.origin.exchange import Exchange
from tidegate.testing.origin.parameters import one_of

FRAMING_FIELDS: Mapping[str, str] = MappingProxyType(
    {"length": "Content-Length: {size}", "chunked": "Transfer-Encoding: chunked", "eof": "Connection: close"}
)

# An endless content by length is one whose end nobody lives to see.
_LENGTH_OF_ENDLESS = 1 << 62


def framing_of(exchange: Exchange, default: str) -> str:
    """The parameter `framing`: a key of `FRAMING_FIELDS`."""
    return one_of("framing", exchange.text("framing", default), FRAMING_FIELDS)


def frame(piece: bytes, framing: str) -> bytes:
    """`piece` as it is, or as a chunk."""
    return b"%x\r\n%b\r\n" % (len(piece), piece) if framing == "chunked" else piece


async def send_content(
    exchange: Exchange, size: int | None, *, chunk: int, interval: float, framing: str
) -> None:
    """Answer with `size` bytes, endless if None.

    The query may ask for another chunk, interval or framing, and for no more than `count` pieces.
    """
    framing, interval = framing_of(exchange, framing), exchange.seconds("interval", interval)
    chunk, count = max(1, exchange.piece_size("chunk", chunk)), exchange.count(None)
    if count is not None:
        size = count * chunk if size is None else min(size, count * chunk)
    pieces = (frame(piece, framing) for piece in content_pieces(size, chunk))
    await send_framed(exchange, framing, size, pieces, interval)


async def send_framed(
    exchange: Exchange, framing: str, size: int | None, pieces: Iterable[bytes], interval: float
) -> None:
    """Answer with `pieces`, framed already, and the last chunk, if there are chunks; then end by `then`."""
    then = exchange.then("close" if framing == "eof" else "keep")
    said = _LENGTH_OF_ENDLESS if size is None else size
    await exchange.send_head(FRAMING_FIELDS[framing].format(size=said))
    if not exchange.has_no_content(200):
        last = [b"0\r\n\r\n"] if framing == "chunked" else []
        await exchange.connection.send_pieces(pieces, interval)
        await exchange.connection.send_pieces(last, 0)
    await exchange.connection.end(then)


async def send_interim(exchange: Exchange, *, count: int | None, interval: float) -> None:
    """Send interim responses, as many and as slowly as the query asks for, then the answer."""
    status = exchange.integer("interim", 103)
    interim = f"HTTP/1.1 {status} Interim\r\nX-Interim: yes\r\n\r\n".encode()
    count, interval = exchange.count(count), exchange.seconds("interval", interval)
    await exchange.start()
    await exchange.send_pieces(lambda _: interim, count, interval)
    await exchange.respond(b"final\n")
