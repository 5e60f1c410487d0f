"""The table of paths, joined from one module for each way to behave; `GET /` shows their docstrings."""

from collections.abc import Mapping
from types import MappingProxyType

from tidegate.testing.origin.behaviours import broken, codings, endless, good, kept, slow
from tidegate.testing.origin.exchange import Behaviour, Exchange


async def index(exchange: Exchange) -> None:
    """This list."""
    await exchange.respond_json(
        {f"/{name}": " ".join((it.__doc__ or "").split()) for name, it in BEHAVIOURS.items()}
    )


async def not_found(exchange: Exchange) -> None:
    """The answer to every other path."""
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
