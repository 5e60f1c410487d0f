"""Cancels where `test_cancel` does not reach: slow uploads, streams under TLS, who is asked, real sockets.

And the portal: a caller in asyncio that is cancelled, a plain thread that is interrupted, at many points.

TIDEGATE_SWEEPS=1000 repeats what depends on how trio and the system take turns; 1 without it.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing

import tidegate
from tests.support.cancelling import CancelAtStep, cancel_at_every_step
from tests.support.data import ROOT
from tests.support.descriptors import open_files, opened_since
from tests.support.engines import AnyHost, engine_with
from tests.support.local_server import LocalServer, local_server
from tidegate.portal import Portal, PortalEngine
from tidegate.testing.memory import MemoryConnector, Peer

SWEEPS = int(os.environ.get("TIDEGATE_SWEEPS", "1"))
UPLOAD = bytes(600_000)
PIECE = b"x" * 30_000

Work = Callable[[tidegate.Engine, str], Awaitable[None]]


async def serve(peer: Peer) -> None:
    """Takes an upload in small bites, or gives content in pieces; a step of ours between each."""
    while (head := await peer.receive_head()) is not None:
        if head.startswith(b"POST"):
            await _bite(peer, head)
            await peer.respond(b"taken")
        elif b"/redirects" in head:
            await peer.respond(status="302 Found", fields=[("Location", "/redirect")])
        elif b"/redirect" in head:
            await peer.respond(status="302 Found", fields=[("Location", "/")])
        else:
            await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(4):
                await peer.send(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))
                await trio.lowlevel.checkpoint()
            await peer.send(b"0\r\n\r\n")


async def _bite(peer: Peer, head: bytes) -> None:
    chunked, received = b"chunked" in head, bytearray()
    while not (received.endswith(b"\r\n0\r\n\r\n") if chunked else len(received) >= len(UPLOAD)):
        more = await peer.receive_some()
        if not more:
            return
        received += more
        await trio.lowlevel.checkpoint()


class Pieces:
    """Content in pieces; an iterator and no generator, so that nothing waits to be closed."""

    def __init__(self) -> None:
        self._left = 12

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        self._left -= 1
        if self._left < 0:
            raise StopAsyncIteration
        return UPLOAD[:50_000]


async def uploaded(engine: tidegate.Engine, origin: str) -> None:
    response = await engine.fetch(f"{origin}/", method="POST", content=UPLOAD)
    assert response.content == b"taken"


async def uploaded_in_pieces(engine: tidegate.Engine, origin: str) -> None:
    response = await engine.fetch(f"{origin}/", method="POST", content=Pieces())
    assert response.content == b"taken"


async def streamed(engine: tidegate.Engine, origin: str) -> None:
    async with engine.stream(f"{origin}/") as response:
        assert sum([len(piece) async for piece in response]) == 4 * len(PIECE)


async def left_early(engine: tidegate.Engine, origin: str) -> None:
    async with engine.stream(f"{origin}/") as response:
        async for _ in response:
            await trio.lowlevel.checkpoint()
            break


async def redirected(engine: tidegate.Engine, origin: str) -> None:
    response = await engine.fetch(f"{origin}/redirects", limits=tidegate.Limits(max_redirects=2))
    assert len(response.content) == 4 * len(PIECE)


async def granted(engine: tidegate.Engine, origin: str) -> None:
    async def authorize(host: str) -> bool:
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        return True

    limits = tidegate.Limits(max_redirects=1)
    await engine.fetch(f"{origin}/redirect", authorize=authorize, limits=limits)


ALL: dict[str, Work] = {
    "upload read slowly": uploaded,
    "upload in pieces read slowly": uploaded_in_pieces,
    "stream": streamed,
    "stream left early": left_early,
    "grant, lookup and credentials": granted,
}


class Asked(AnyHost):
    """A resolver and a credential source that take a few steps for each answer."""

    async def resolve(self, host: str) -> Sequence[Any]:
        await trio.lowlevel.checkpoint()
        return await super().resolve(host)

    async def fields_for(self, url: tidegate.URL) -> Mapping[str, str]:
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        return {"Authorization": "Bearer secret"}


def options(connector: MemoryConnector, client_tls: Any, **more: Any) -> dict[str, Any]:
    asked = Asked()
    return {"connector": connector, "resolver": asked, "credentials": asked, "tls": client_tls, **more}


@pytest.mark.parametrize("work", ALL.values(), ids=ALL)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_sweep(
    work: Work, scheme: str, nursery: trio.Nursery, server_tls: Any, client_tls: Any
) -> None:
    """At every step in turn, an engine a step: nothing stays open."""
    connector = MemoryConnector(nursery, serve, server_tls("a.example"))
    before = open_files()

    async def once() -> None:
        async with engine_with(nursery, serve, **options(connector, client_tls)) as (engine, _):
            await work(engine, f"{scheme}://a.example")

    async def nothing_is_left() -> None:
        await trio.testing.wait_all_tasks_blocked()
        assert connector.open_connections == 0
        assert not opened_since(before)

    assert await cancel_at_every_step(once, nothing_is_left) > 5


@pytest.mark.parametrize("work", [*ALL.values(), redirected], ids=[*ALL, "redirect"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_several_of_each_on_a_small_pool(
    work: Work, scheme: str, nursery: trio.Nursery, server_tls: Any, client_tls: Any
) -> None:
    """Three under one scope share two slots and one idle connection of one engine, which survives it all."""
    connector = MemoryConnector(nursery, serve, server_tls("a.example"))
    origin = f"{scheme}://a.example"
    small = options(connector, client_tls, max_concurrency=2, max_idle=1)
    before = open_files()
    async with engine_with(nursery, serve, **small) as (engine, _):

        async def three() -> None:
            async with trio.open_nursery() as fetches:
                for _ in range(3):
                    fetches.start_soon(work, engine, origin)

        async def all_slots_work() -> None:
            with trio.fail_after(10):
                await three()

        # Of an upload every seventh step, for the time it takes; the sweeps begin at different ones.
        stride = 7 if work in (uploaded, uploaded_in_pieces) else 1
        for sweep in range(SWEEPS):
            await _cancel_at_some_steps(three, all_slots_work, start=1 + sweep % stride, stride=stride)
    await trio.testing.wait_all_tasks_blocked()
    assert connector.open_connections == 0
    assert not opened_since(before)


async def _cancel_at_some_steps(
    work: Callable[[], Awaitable[None]], afterwards: Callable[[], Awaitable[None]], *, start: int, stride: int
) -> None:
    for step in count(start, stride):
        with trio.CancelScope() as scope:
            instrument = CancelAtStep(step, scope)
            trio.lowlevel.add_instrument(instrument)
            try:
                await work()
            finally:
                trio.lowlevel.remove_instrument(instrument)
        await afterwards()
        if not scope.cancel_called:
            return


# The race of connections, over real sockets ...


@contextmanager
def black_hole(port: int) -> Iterator[None]:
    """127.0.0.9 lets connections hang: a listener whose queue is full drops every SYN."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.9", port))
        listener.listen(0)
        stuffing = [socket.socket() for _ in range(3)]
        for sock in stuffing:
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        try:
            yield
        finally:
            for sock in stuffing:
                sock.close()


RACES = {
    "one": ["127.0.0.1"],
    "two that answer": ["127.0.0.1", "127.0.0.2"],
    "refused, then one that answers": ["127.0.0.3", "127.0.0.4", "127.0.0.1"],
    "black holes, then one that answers": ["127.0.0.9", "127.0.0.9", "127.0.0.2"],
    "nobody": ["127.0.0.3", "127.0.0.4"],
}


@pytest.mark.parametrize("addresses", RACES.values(), ids=RACES)
async def test_race_of_connections(addresses: list[str], nursery: trio.Nursery, autojump_clock: Any) -> None:
    """Neither the winner's socket nor a loser's outlives a cancel at any step."""

    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                await converse(stream)

    async def converse(stream: trio.SocketStream) -> None:
        if await stream.receive_some(65536):
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await stream.receive_some(1)

    (first,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = first.socket.getsockname()[1]
    (second,) = await trio.open_tcp_listeners(port, host="127.0.0.2")
    nursery.start_soon(trio.serve_listeners, answer, [first, second])
    policy = tidegate.Policy(private_ranges=[tidegate.PrivateRange("127.0.0.0/8", ["a.example"])])

    async def once() -> None:
        async with tidegate.open_engine(policy, resolver=AnyHost(*addresses)) as engine:
            try:
                await engine.fetch(f"http://a.example:{port}/")
            except tidegate.ConnectError:
                assert "127.0.0.3" in addresses

    async def nothing_is_left() -> None:
        # What the other end has still to see is seen within a few turns.
        with trio.fail_after(5):
            while opened_since(before):
                await trio.sleep(0.01)

    with black_hole(port):
        await trio.testing.wait_all_tasks_blocked()
        before = open_files()
        for _ in range(SWEEPS):
            assert await cancel_at_every_step(once, nothing_is_left) > 3
    nursery.cancel_scope.cancel()


# The portal ...


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with local_server() as server:
        yield server


@pytest.fixture
def portal() -> Iterator[Portal]:
    with Portal() as portal:
        yield portal


BIG = "/bytes?size=3000000"
POINTS = 12
"""Delays, evenly over as long as the work takes by itself."""


async def pieces() -> AsyncIterator[bytes]:
    for _ in range(5):
        await asyncio.sleep(0)
        yield b"piece"


async def asks(host: str) -> bool:
    for _ in range(3):
        await asyncio.sleep(0)
    return True


Fetch = Callable[[PortalEngine, LocalServer], Awaitable[object]]

FROM_ASYNCIO: dict[str, Fetch] = {
    "fetch": lambda engine, server: engine.fetch(server.url(BIG)),
    "upload": lambda engine, server: engine.fetch(server.url("/echo"), method="POST", content=UPLOAD),
    "grant": lambda engine, server: engine.fetch(server.url(BIG), authorize=asks),
    "check": lambda engine, server: engine.check(server.url("/echo")),
}


@pytest.mark.parametrize("fetch", FROM_ASYNCIO.values(), ids=FROM_ASYNCIO)
def test_cancelled_from_asyncio(fetch: Fetch, portal: Portal, server: LocalServer) -> None:
    """At many moments, and after each number of turns of the loop: the only slot always comes back."""
    engine = portal.engine(**server.options, max_concurrency=1, max_idle=0)

    async def cancelled_after(wait: Callable[[], Awaitable[None]]) -> None:
        async def work() -> None:
            await fetch(engine, server)

        task = asyncio.create_task(work())
        await wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None
        response = await asyncio.wait_for(engine.fetch(server.url("/echo")), 10)
        assert response.status == 200

    async def main() -> None:
        started = time.perf_counter()
        await fetch(engine, server)
        seconds = time.perf_counter() - started
        for _ in range(SWEEPS):
            for point in range(POINTS):
                await cancelled_after(partial(asyncio.sleep, seconds * point / POINTS))
                await cancelled_after(partial(_turns, point))

    asyncio.run(main())
    server.wait_until_unconnected()


async def _turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def test_a_stream_is_cancelled_while_it_is_read_from_asyncio(portal: Portal, server: LocalServer) -> None:
    """Between and within pieces, each number of them: the connection is closed, the slot comes back."""
    engine = portal.engine(**server.options, max_concurrency=1, max_idle=0)

    async def read(entered: asyncio.Event) -> None:
        async with engine.stream(server.url(BIG)) as response:
            entered.set()
            async for _ in response:
                pass

    async def main() -> None:
        for turns in range(SWEEPS * POINTS):
            entered = asyncio.Event()
            task = asyncio.create_task(read(entered))
            await entered.wait()
            await _turns(turns)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or task.exception() is None
            await asyncio.wait_for(engine.fetch(server.url("/echo")), 10)

    asyncio.run(main())
    server.wait_until_unconnected()


LOST_STREAM = """
import asyncio, threading, tidegate
from trio.testing import wait_all_tasks_blocked
from tests.support.local_server import local_server
from tidegate.portal import Portal

come = threading.Event()

class Heads:
    def on_event(self, event):
        if isinstance(event, tidegate.PhaseStarted) and event.phase is tidegate.Phase.CONTENT:
            come.set()

async def main(portal, server):
    engine = portal.engine(**server.options, max_concurrency=1, max_idle=0, observer=Heads())
    task = asyncio.create_task(engine.stream(server.url("/bytes?size=3000000")).__aenter__())
    await asyncio.sleep(0)  # the call is on its way
    assert come.wait(10)  # this loop stands still until the stream is open, and until the call has ended
    portal.run_sync(wait_all_tasks_blocked)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    await asyncio.wait_for(engine.fetch(server.url("/echo")), 3)
    print("the slot is free")

with local_server() as server, Portal() as portal:
    asyncio.run(main(portal, server))
"""


def test_a_stream_is_cancelled_just_after_it_opened() -> None:
    """The loop hears of the open stream and of the cancel in one turn: nobody has it, so it must close."""
    command = [sys.executable, "-c", LOST_STREAM]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, "the slot is free\n")


def test_interrupted_in_a_plain_thread(portal: Portal, server: LocalServer) -> None:
    """Ctrl+C at many moments of a blocking fetch: the wait ends, and so has the fetch: the slot is free."""
    engine = portal.engine(**server.options, max_concurrency=1, max_idle=0)
    started = time.perf_counter()
    engine.fetch_sync(server.url(BIG))
    seconds = time.perf_counter() - started
    for _ in range(SWEEPS):
        for point in range(POINTS):
            _interrupted(lambda: engine.fetch_sync(server.url(BIG)), seconds * point / POINTS)
            assert engine.fetch_sync(server.url("/echo"), limits=tidegate.Limits(timeout=10)).status == 200
    server.wait_until_unconnected()


def _interrupted(work: Callable[[], object], seconds: float) -> None:
    """Interrupt `work` after so many seconds; if it is over by then, interrupt what is left of this."""
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(seconds, signal.pthread_kill, [main, signal.SIGINT])
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        work()
        timer.join()
        raise AssertionError("nothing has interrupted this")
    except KeyboardInterrupt:
        timer.join()
    finally:
        signal.signal(signal.SIGINT, former)


# Whoever made the content ...


async def test_a_generator_of_content_is_closed_with_the_fetch(nursery: trio.Nursery) -> None:
    """Its `finally` runs before the fetch ends, as trio asks (`aclosing`), however the fetch ends."""
    closed: list[str] = []

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield UPLOAD[:50_000]
        finally:
            closed.append("closed")

    async def early(peer: Peer) -> None:
        await peer.receive_head()
        await peer.respond(b"no more", status="413 Content Too Large")
        await peer.until_closed()

    async with engine_with(nursery, early) as (engine, _):
        kept = endless()  # nothing is collected while we look
        await engine.fetch("http://a.example/", method="POST", content=kept)
        found = list(closed)
        await kept.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert found == ["closed"]
