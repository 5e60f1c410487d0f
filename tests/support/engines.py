"""Engines over scripted peers, for tests that need nothing special."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

import tidegate
from tidegate.testing.memory import MemoryConnector, Peer, Script

PUBLIC = "93.184.216.34"


class AnyHost:
    """A resolver that gives every name the same public address, and counts who was asked for."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = [tidegate_address(address) for address in addresses or (PUBLIC,)]
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Sequence[Any]:
        self.asked.append(host)
        await trio.lowlevel.checkpoint()
        return self.addresses


def tidegate_address(text: str) -> Any:
    from ipaddress import ip_address

    return ip_address(text)


@asynccontextmanager
async def engine_with(
    nursery: trio.Nursery, script: Script, **options: Any
) -> AsyncIterator[tuple[tidegate.Engine, MemoryConnector]]:
    """An engine whose every connection leads to `script`; options are those of `open_engine`."""
    connector = options.pop("connector", None) or MemoryConnector(
        nursery, script, options.pop("server_tls", None)
    )
    options.setdefault("resolver", AnyHost())
    async with tidegate.open_engine(connector=connector, **options) as engine:
        yield engine, connector


def answers(by_path: Mapping[str, bytes]) -> Script:
    """A script that answers requests by their path with raw bytes, on one connection for as long as asked."""

    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            await peer.send(by_path[request.line.split(" ")[1]])

    return script
