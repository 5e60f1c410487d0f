"""Good behaviour, and what the origin has seen."""

from collections.abc import Mapping
from types import MappingProxyType

from tidegate.testing.origin.behaviours.sending import send_content
from tidegate.testing.origin.content import BLOCK_SIZE
from tidegate.testing.origin.exchange import Behaviour, Exchange


async def content(exchange: Exchange) -> None:
    """`size` bytes (1000) or endless, `chunk` (65536) a piece, at most `count` pieces (endless).

    `interval`: seconds before each piece (0). `framing`: length, chunked, eof. `then` (keep; with eof close).
    """
    size = exchange.integer_or_endless("size", 1000)
    await send_content(exchange, size, chunk=BLOCK_SIZE, interval=0, framing="length")


async def echo(exchange: Exchange) -> None:
    """The request as JSON: method, target, headers, content_base64, connection, number, tls.

    Any parameter is welcome.
    """
    exchange.read_every()
    await exchange.start()
    await exchange.respond_json(exchange.request.as_json())


async def redirect(exchange: Exchange) -> None:
    """`to`: the Location, as given; repeated for several, absent for none. Status 302."""
    locations = [f"Location: {to}" for to in exchange.texts("to")]
    await exchange.respond(b"", *locations, status=302)


async def upload(exchange: Exchange) -> None:
    """Read the content, then answer as JSON how many bytes it had."""
    await exchange.start()
    await exchange.respond_json({"received": len(exchange.request.content)})


async def state(exchange: Exchange) -> None:
    """Counts as JSON: accepted, open, served by path."""
    origin = exchange.origin
    counts = {"accepted": origin.accepted, "open": origin.open_connections, "served": dict(origin.served)}
    await exchange.respond_json(counts)


async def requests(exchange: Exchange) -> None:
    """Every request received so far, as `/echo` shows it; `/requests?clear=1` forgets them afterwards."""
    clears = exchange.text("clear", "")
    await exchange.respond_json([request.as_json() for request in exchange.origin.requests])
    if clears:
        exchange.origin.clear()


BEHAVIOURS: Mapping[str, Behaviour] = MappingProxyType(
    {
        "content": content,
        "echo": echo,
        "redirect": redirect,
        "upload": upload,
        "state": state,
        "requests": requests,
    }
)
