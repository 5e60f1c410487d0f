"""Others have their turn, however plentiful what a peer or a caller gives, and however small its pieces."""

import array
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trio

import tidegate
from tests.support.engines import engine_with
from tidegate._wire.http1 import Exchange
from tidegate._wire.stream import Stream
from tidegate.testing.memory import Peer


class Plenty(Stream):
    """Has everything already, so that there is never a reason to wait."""

    def __init__(self, sock: socket.socket, data: bytes, pieces_of: int) -> None:
        super().__init__(sock)
        self._data = memoryview(data)
        self._pieces_of = pieces_of

    async def receive_some(self, max_bytes: int = 0) -> bytes:
        piece, self._data = bytes(self._data[: self._pieces_of]), self._data[self._pieces_of :]
        return piece


async def turns_of_others(work: Callable[[], Awaitable[None]]) -> int:
    """How often another task runs meanwhile."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await trio.lowlevel.checkpoint()
        turns = 0
        await work()
        nursery.cancel_scope.cancel()
    return turns


@pytest.mark.parametrize(
    ("chunk", "content"), [(b"1\r\nx\r\n", b"x"), (b"1;a=b\r\nx\r\n", b"x"), (b"002\r\nxy\r\n", b"xy")]
)
@pytest.mark.parametrize("pieces_of", [65536, 65537])
async def test_many_small_chunks(chunk: bytes, content: bytes, pieces_of: int) -> None:
    """64 KiB hold ten thousand of them, each as much work as a whole read."""
    number = 100_000
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * number + b"0\r\n\r\n"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        exchange = Exchange(Plenty(ours, raw, pieces_of), tidegate.Limits())
        received = bytearray()

        async def work() -> None:
            await exchange.receive_head("GET")
            while piece := await exchange.receive_content():
                received.extend(piece)

        turns = await turns_of_others(work)
    assert received == content * number
    assert exchange.wire_bytes == len(received)
    assert exchange.complete
    assert turns >= len(raw) // pieces_of - 1  # one for each piece of the wire


async def upload(nursery: trio.Nursery, content: AsyncIterator[bytes], **limits: int) -> bytes:
    """What a peer gets of it, framing included."""
    got = b""

    async def take(peer: Peer) -> None:
        nonlocal got
        while not got.endswith(b"0\r\n\r\n") and (more := await peer.receive_some()):
            got += more
        await peer.respond(b"taken")

    async with engine_with(nursery, take) as (engine, _):
        await engine.fetch(
            "http://a.example/", method="POST", content=content, limits=tidegate.Limits(timeout=5, **limits)
        )
    return got.partition(b"\r\n\r\n")[2]


async def test_an_upload_of_nothing_without_end(nursery: trio.Nursery) -> None:
    """The caller's iterable never waits; the deadline is seen all the same."""

    async def nothing() -> AsyncIterator[bytes]:
        while True:
            yield b""

    with trio.fail_after(60), pytest.raises(tidegate.DeadlineExceeded):
        await upload(nursery, nothing())


@pytest.mark.parametrize("code", ["B", "I", "d"])
async def test_a_piece_is_as_long_as_its_bytes(code: str, nursery: trio.Nursery) -> None:
    """The length of a memoryview is that of its items: a chunk must not be longer than it says."""
    items = array.array(code, [1, 2, 3])

    async def pieces() -> AsyncIterator[bytes]:
        yield memoryview(items)  # type: ignore[misc]  # taken all the same, and bounded

    size = 3 * items.itemsize
    sent = await upload(nursery, pieces(), max_request_content=size)
    assert sent == b"%x\r\n%b\r\n0\r\n\r\n" % (size, items.tobytes())
    with pytest.raises(tidegate.InvalidArgument, match="max_request_content"):
        await upload(nursery, pieces(), max_request_content=size - 1)
