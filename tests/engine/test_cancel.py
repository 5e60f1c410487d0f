"""Cancelled at any step, a fetch leaves no socket, no slot and no task behind, and nothing is renamed."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

import tidegate
from tests.support.cancelling import cancel_at_every_step
from tests.support.descriptors import open_files, opened_since
from tests.support.engines import AnyHost, engine_with
from tidegate.testing.memory import MemoryConnector, Peer

# Trio shuffles what may run within a tick, so several fetches at once are swept several times.
REPEATS = int(os.environ.get("TIDEGATE_SWEEPS", "5"))

Fetch = Callable[[tidegate.Engine, str], Awaitable[None]]


async def serve(peer: Peer) -> None:
    """/ answers in pieces, /redirect leads to /, /elsewhere to another host, an upload is read slowly."""
    while (request := await peer.receive_request()) is not None:
        if "/elsewhere" in request.line:
            await peer.respond(status="302 Found", fields=[("Location", "http://b.example/")])
            continue
        if "/redirect" in request.line:
            await peer.respond(status="302 Found", fields=[("Location", "/"), ("Connection", "close")])
            return
        await peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await trio.lowlevel.checkpoint()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n")
        await trio.lowlevel.checkpoint()
        await peer.send(b"5\r\npedia\r\n0\r\n\r\n")


async def plain(engine: tidegate.Engine, origin: str) -> None:
    assert (await engine.fetch(f"{origin}/")).content == b"Wikipedia"


async def redirected(engine: tidegate.Engine, origin: str) -> None:
    response = await engine.fetch(f"{origin}/redirect", limits=tidegate.Limits(max_redirects=1))
    assert response.content == b"Wikipedia"


async def pooled(engine: tidegate.Engine, origin: str) -> None:
    for _ in range(2):
        await plain(engine, origin)


async def streamed(engine: tidegate.Engine, origin: str) -> None:
    async with engine.stream(f"{origin}/") as response:
        assert b"".join([piece async for piece in response]) == b"Wikipedia"


async def uploaded(engine: tidegate.Engine, origin: str) -> None:
    limits = tidegate.Limits(max_request_content=8 << 20)
    await engine.fetch(f"{origin}/", method="POST", content=bytes(4 << 20), limits=limits)


async def uploaded_in_pieces(engine: tidegate.Engine, origin: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            yield b"piece"

    # `serve` knows no chunked requests, so it answers early.
    await engine.fetch(f"{origin}/", method="POST", content=pieces())


async def together(engine: tidegate.Engine, origin: str) -> None:
    """Several under one scope on fewer slots than fetches (pitfall 2)."""
    async with trio.open_nursery() as nursery:
        for work in (plain, redirected, streamed, plain):
            nursery.start_soon(work, engine, origin)


SWEPT: dict[str, Fetch] = {
    "plain": plain,
    "redirect": redirected,
    "pooled": pooled,
    "stream": streamed,
    "upload": uploaded,
    "upload in pieces": uploaded_in_pieces,
    "together": together,
}


@pytest.mark.parametrize("work", SWEPT.values(), ids=SWEPT)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_sweep(
    work: Fetch, scheme: str, nursery: trio.Nursery, server_tls: Any, client_tls: Any
) -> None:
    """At every scheduler step in turn; afterwards the engine is as good as new."""
    connector = MemoryConnector(nursery, serve, server_tls("a.example"))
    origin = f"{scheme}://a.example"
    repeat = 10 if work is together else 1
    resolver = AnyHost("93.184.216.34", "93.184.216.35")
    options = {"connector": connector, "resolver": resolver, "tls": client_tls, "max_concurrency": 2}
    before = open_files()

    async def once() -> None:
        async with engine_with(nursery, serve, **options) as (engine, _):
            await work(engine, origin)

    async def nothing_is_left() -> None:
        await trio.testing.wait_all_tasks_blocked()
        assert connector.open_connections == 0
        assert not opened_since(before)

    steps = await cancel_at_every_step(once, nothing_is_left, repeat=repeat)
    assert steps > 3


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_sweep_over_one_engine(
    scheme: str, nursery: trio.Nursery, server_tls: Any, client_tls: Any
) -> None:
    """One engine survives every cancel: no slot is lost, and what it kept is still good."""
    connector = MemoryConnector(nursery, serve, server_tls("a.example"))
    origin = f"{scheme}://a.example"
    async with engine_with(nursery, serve, connector=connector, tls=client_tls, max_concurrency=2) as (
        engine,
        _,
    ):

        async def all_slots_work() -> None:
            with trio.fail_after(5):
                async with trio.open_nursery() as fetches:
                    for _ in range(3):
                        fetches.start_soon(plain, engine, origin)

        await cancel_at_every_step(lambda: together(engine, origin), all_slots_work, repeat=REPEATS)
    await trio.testing.wait_all_tasks_blocked()
    assert connector.open_connections == 0


async def test_sweep_of_redirects_between_hosts(nursery: trio.Nursery) -> None:
    """A redirect moves a slot from one host to another, or waits for one: none is lost on the way."""
    connector = MemoryConnector(nursery, serve)
    bounds = {"max_concurrency": 2, "max_concurrency_per_host": 1}
    async with engine_with(nursery, serve, connector=connector, **bounds) as (engine, _):

        async def elsewhere(host: str) -> None:
            limits = tidegate.Limits(max_redirects=1)
            await engine.fetch(f"http://{host}.example/elsewhere", limits=limits)

        async def crossing() -> None:
            async with trio.open_nursery() as fetches:
                for host in "aabc":
                    fetches.start_soon(elsewhere, host)

        async def all_slots_work() -> None:
            with trio.fail_after(5):
                await crossing()

        await cancel_at_every_step(crossing, all_slots_work, repeat=REPEATS)
    await trio.testing.wait_all_tasks_blocked()
    assert connector.open_connections == 0


async def test_a_cancelled_fetch_raises_nothing_of_ours(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """`trio.Cancelled` passes through and is not renamed, even when our deadline passes in the same tick."""
    async with engine_with(nursery, Peer.until_closed) as (engine, _):  # type: ignore[arg-type]
        with trio.move_on_after(1) as scope:
            await engine.fetch("http://a.example/", limits=tidegate.Limits(timeout=2))
        assert scope.cancelled_caught


async def test_closing_the_engine_ends_its_fetches(nursery: trio.Nursery, autojump_clock: Any) -> None:
    errors: list[tidegate.FetchError] = []

    async def fetch(engine: tidegate.Engine) -> None:
        with pytest.raises(tidegate.EngineClosed) as caught:
            await engine.fetch("http://a.example/")
        errors.append(caught.value)

    async with (
        trio.open_nursery() as fetches,
        engine_with(nursery, Peer.until_closed) as (engine, connector),  # type: ignore[arg-type]
    ):
        for _ in range(2):
            fetches.start_soon(fetch, engine)
        await trio.testing.wait_all_tasks_blocked()
    assert [error.phase for error in errors] == [tidegate.Phase.HEAD] * 2
    await trio.testing.wait_all_tasks_blocked()
    assert connector.open_connections == 0
    with pytest.raises(tidegate.EngineClosed):
        await engine.fetch("http://a.example/")
    with pytest.raises(tidegate.EngineClosed):
        async with engine.stream("http://a.example/"):
            pass
