"""The table of paths, joined from one module for each way to behave; `GET /` shows their docstrings."""

from collections.abc import Mapping
from types import MappingProxyType

from tidegate.testing.origin.behaviours import broken, codings, endless, good, kept, slow
from tidegate.testing.origin.exchange import Behaviour, Exchange

COMMON = (
    "What every path takes: status and reason (in place of the status line's own), field (`Name: value`, "
    "one more; may be repeated, and may repeat a field that is there already), connection=close (says so, "
    "and closes after the response), all for the head that the origin makes, so not with /raw and /hold; "
    "and delay (seconds before the answer, 0). The values of `then`: keep the connection, close it (over "
    "TLS with close_notify), cut it (over TLS without), reset it, half-close it and read on, hold it and "
    "read on, stall it and read no more. Sizes and counts are whole numbers, times are seconds; defaults "
    "stand in brackets. A value that makes no sense is answered with 400, and so is a name that the path "
    "does not know; names of one letter mean nothing, and are there to tell requests apart."
)
"""What `GET /` says of all paths."""


async def index(exchange: Exchange) -> None:
    """This list."""
    paths = {f"/{name}": " ".join((it.__doc__ or "").split()) for name, it in BEHAVIOURS.items()}
    await exchange.respond_json({"*": COMMON, **paths})


async def not_found(exchange: Exchange) -> None:
    """The answer to every other path."""
    exchange.read_every()
    await exchange.respond(b"no such behaviour; GET / lists them\n", status=404)


BEHAVIOURS: Mapping[str, Behaviour] = MappingProxyType(
    {
        "": index,
        **good.BEHAVIOURS,
        **slow.BEHAVIOURS,
        **endless.BEHAVIOURS,
        **broken.BEHAVIOURS,
        **kept.BEHAVIOURS,
        **codings.BEHAVIOURS,
    }
)
