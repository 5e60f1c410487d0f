"""A peer that plays given bytes: one answer in pieces, then silence, then the end of the connection."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

import tidegate
from tests.support.engines import engine_with
from tidegate.testing.memory import Peer

URL = "http://a.example/"
SECOND = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"

# Seconds, all virtual: between two pieces, and from the last one until the peer closes.
PACE, PATIENCE = 1 / 16, 100.0

T = TypeVar("T")


class Player:
    """Lets an engine fetch from the peer. Made by `open_player`; needs an autojump clock.

    Attributes:
        engine: the engine.
        reused: the ordinary fetch after the last play went over the same connection.
    """

    engine: tidegate.Engine
    reused = False

    def __init__(self) -> None:
        self._pieces: Sequence[bytes] = (SECOND,)
        self._played = trio.Event()

    async def play(self, pieces: Sequence[bytes], fetch: Callable[[tidegate.Engine], Awaitable[T]]) -> T:
        """What `fetch` returns when the peer answers its first request with these pieces.

        Then an ordinary fetch follows on whatever connection was kept: no bytes of the first answer, however
        odd, may touch the second (pitfall 1).
        """
        self._pieces, self._played = pieces, trio.Event()
        result = await fetch(self.engine)
        await self._played.wait()
        second = await self.engine.fetch(URL, limits=tidegate.Limits(timeout=2 * PATIENCE))
        assert second.content == b"second"
        self.reused = second.hops[-1].reused
        return result

    async def script(self, peer: Peer) -> None:
        request = await peer.receive_request()
        while request is not None:
            await self._answer(peer)
            request = None
            with trio.move_on_after(PATIENCE):
                request = await peer.receive_request()

    async def _answer(self, peer: Peer) -> None:
        (first, *rest), self._pieces = self._pieces, (SECOND,)
        played = self._played
        try:
            await peer.send(first)
            for piece in rest:
                await trio.sleep(PACE)
                await peer.send(piece)
        finally:
            played.set()


@asynccontextmanager
async def open_player(nursery: trio.Nursery, **options: Any) -> AsyncIterator[Player]:
    """A player whose engine takes the options of `open_engine`."""
    player = Player()
    async with engine_with(nursery, player.script, **options) as (player.engine, _):
        yield player
