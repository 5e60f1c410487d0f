"""Faults that are no single fetch: an engine that closes in flight, overload, and a process out of memory.

When memory runs out, the fetch that needs it fails with `MessageTooLarge`, or with `RemoteProtocolError`
where a decoder reports it as an error of its own. Either way it is told at once and in its phase, the socket
is closed, the slot given back, and the engine serves the next fetch.
"""

import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing

import tidegate
from tests.faults import names
from tests.faults.peers import BY_LENGTH, UPLOAD, falls_silent, reads_nothing, reads_on
from tests.support.data import ROOT
from tests.support.descriptors import open_files, opened_since
from tests.support.engines import engine_with
from tidegate import Phase
from tidegate.testing.memory import MemoryConnector

URL = "http://a.example/"


class NeverConnects(MemoryConnector):
    async def connect(self, targets: Any) -> Any:
        await trio.sleep_forever()


class SilentTLS(MemoryConnector):
    async def _play_over(self, target: Any, transport: Any) -> None:
        while await transport.receive_some(65536):
            pass


async def never(host: str) -> bool:
    await trio.sleep(float("inf"))
    return True


CLOSED_IN: dict[Phase, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    Phase.AUTHORIZE: (reads_on, {}, {"authorize": never}),
    Phase.RESOLVE: (reads_on, {"resolver": names.Hangs()}, {}),
    Phase.CONNECT: (reads_on, {"connector": NeverConnects}, {}),
    Phase.TLS: (reads_on, {"connector": SilentTLS}, {"url": "https://a.example/"}),
    Phase.SEND: (reads_nothing, {}, UPLOAD),
    Phase.HEAD: (reads_on, {}, {}),
    Phase.CONTENT: (falls_silent(BY_LENGTH), {}, {}),
}


@pytest.mark.parametrize("phase", CLOSED_IN)
async def test_engine_closed_in_flight(phase: Phase, autojump_clock: Any, client_tls: Any) -> None:
    """The block ends while a fetch is under way in this phase, and another one waits for its slot."""
    script, options, arguments = CLOSED_IN[phase]
    files = open_files()
    caught: list[Phase | None] = []

    async def fetch(engine: tidegate.Engine, url: str = URL, **arguments: Any) -> None:
        with pytest.raises(tidegate.EngineClosed) as error:
            await engine.fetch(url, **arguments)
        caught.append(error.value.phase)

    async with trio.open_nursery() as nursery:
        if "connector" in options:
            options = {"connector": options["connector"](nursery, script)}
        async with engine_with(nursery, script, tls=client_tls, max_concurrency=1, **options) as (engine, _):
            nursery.start_soon(lambda: fetch(engine, **arguments))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(fetch, engine)
            await trio.testing.wait_all_tasks_blocked()
            started = trio.current_time()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(map(str, caught)) == sorted([Phase.ADMIT, phase])
        assert trio.current_time() == started
    assert not opened_since(files)


async def test_engine_closed_under_a_stream(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """Whoever reads finds out with the next piece; what was open is closed at once."""
    async with engine_with(nursery, falls_silent(BY_LENGTH + b"12345")) as (engine, connector):
        response = engine.stream(URL)
        await response.__aenter__()
        assert await anext(response) == b"12345"
    with pytest.raises(tidegate.EngineClosed) as caught:
        await anext(response)
    assert caught.value.phase == Phase.CONTENT
    await trio.testing.wait_all_tasks_blocked()
    assert connector.open_connections == 0


async def test_overload(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """One slot, sixteen may wait for it, and the next is refused at once; all others meet their deadline."""
    outcomes: list[tuple[str, Phase | None, float]] = []

    async def fetch(engine: tidegate.Engine) -> None:
        with pytest.raises(tidegate.FetchError) as caught:
            await engine.fetch(URL, limits=tidegate.Limits(timeout=10))
        outcomes.append((caught.value.reason, caught.value.phase, trio.current_time()))

    async with engine_with(nursery, reads_on, max_concurrency=1) as (engine, connector):
        async with trio.open_nursery() as fetches:
            for _ in range(1 + 16 + 3):
                fetches.start_soon(fetch, engine)
        assert sorted(outcomes) == [
            *[("overloaded", Phase.ADMIT, 0)] * 3,
            *[("timeout", Phase.ADMIT, 10)] * 16,
            ("timeout", Phase.HEAD, 10),
        ]
        await trio.testing.wait_all_tasks_blocked()
        assert connector.open_connections == 0


async def test_content_of_the_callers_that_fails(nursery: trio.Nursery) -> None:
    """The caller's own exception comes out as it is, in no group, and nothing stays open."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise ZeroDivisionError("mine")

    async with engine_with(nursery, reads_on, max_concurrency=1) as (engine, connector):
        for _ in range(2):  # the one slot was given back
            with pytest.raises(ZeroDivisionError, match="mine"):
                await engine.fetch(URL, method="POST", content=pieces())
        await trio.testing.wait_all_tasks_blocked()
        assert connector.open_connections == 0


# In a process of its own ...

OUT_OF_MEMORY = """
import os, resource, sys, trio, trio.testing, tidegate
from pathlib import Path
from tests.faults.peers import coded
from tests.support.engines import engine_with
from tidegate.testing.memory import Peer
from tidegate.testing.origin import compress

coding, room = sys.argv[1], int(sys.argv[2])
bomb = coded(coding, compress(coding, 64 << 20))

async def serve(peer):
    while (request := await peer.receive_request()) is not None:
        if "/bomb" in request.line:
            await peer.send(bomb)
        else:
            await peer.respond(b"healthy")

async def main():
    async with trio.open_nursery() as nursery:
        async with engine_with(nursery, serve, max_concurrency=1) as (engine, connector):
            await engine.fetch("http://a.example/")
            files = len(os.listdir("/proc/self/fd"))
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limits = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, limits[1]))
            started = trio.current_time()
            try:
                await engine.fetch("http://a.example/bomb", limits=tidegate.Limits(max_content=64 << 20))
                outcome = "a response"
            except tidegate.FetchError as error:
                outcome = f"{type(error).__name__}:{error.phase}:{trio.current_time() - started < 30}"
            resource.setrlimit(resource.RLIMIT_AS, limits)
            response = await engine.fetch("http://a.example/")
            await trio.testing.wait_all_tasks_blocked()
            print(outcome, response.content.decode(), len(os.listdir("/proc/self/fd")) - files)
        nursery.cancel_scope.cancel()

trio.run(main)
"""


def run(program: str, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


@pytest.mark.parametrize("room", [0, 16 << 20])
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_memory_limit_hit_in_a_decoder(coding: str, room: int) -> None:
    """64 MiB are decoded where there is no room for them: see the policy above."""
    outcome, healthy, leaked = run(OUT_OF_MEMORY, coding, str(room)).split(" ", 2)
    error, phase, at_once = outcome.split(":")
    assert error in ("MessageTooLarge", "RemoteProtocolError")
    assert phase == "content" or (room, phase) == (0, "head")  # without any room, it may be the head already
    assert at_once == "True"
    assert (healthy, int(leaked) <= 0) == ("healthy", True)


NO_THREADS = """
import threading, trio, tidegate
from tests.support.engines import engine_with

def fail(thread):
    raise RuntimeError("can't start new thread")

real, threading.Thread.start = threading.Thread.start, fail
async def main():
    resolver = tidegate.SystemResolver(max_threads=1)
    async with trio.open_nursery() as nursery, engine_with(nursery, None, resolver=resolver) as (engine, _):
        for _ in range(2):
            try:
                await engine.fetch("http://a.invalid/")
            except tidegate.ResolutionError as error:
                print(error.phase, resolver.statistics().threads)
        threading.Thread.start = real
        try:
            await engine.fetch("http://a.invalid/")
        except tidegate.ResolutionError as error:
            print("failed" not in str(error))

trio.run(main)
"""


def test_no_thread_can_be_started() -> None:
    """A lookup fails, no token of its limiter is lost, and the next one works."""
    assert run(NO_THREADS).split("\n") == ["resolve 0", "resolve 0", "True"]
