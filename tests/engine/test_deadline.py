"""One deadline over everything, exact to the tick, with the phase it struck in (D-16, F-25, W-C7)."""

from typing import Any

import pytest
import trio
import trio.testing

import tidegate
from tests.support.engines import AnyHost, engine_with
from tidegate.testing.memory import MemoryConnector, Peer

URL = "http://a.example/"
HEAD = b"HTTP/1.1 200 OK\r\n"


class SlowResolver(AnyHost):
    async def resolve(self, host: str) -> Any:
        await trio.sleep_forever()


class SlowConnector(MemoryConnector):
    async def connect(self, targets: Any) -> Any:
        await trio.sleep_forever()


class SilentTLS(MemoryConnector):
    async def _play_over(self, target: Any, transport: Any) -> None:
        await trio.sleep_forever()


async def silent(peer: Peer) -> None:
    await peer.until_closed()


async def deaf(peer: Peer) -> None:
    await trio.sleep_forever()


def drip(start: bytes, again: bytes, seconds: float = 0.9) -> Any:
    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(start)
        while True:
            await trio.sleep(seconds)
            await peer.send(again)

    return script


async def redirects_slowly(peer: Peer) -> None:
    while await peer.receive_request() is not None:
        await trio.sleep(4)
        await peer.respond(status="302 Found", fields=[("Location", "/again")])


async def never(host: str) -> bool:
    await trio.sleep_forever()
    return True


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "grant": ("authorize", {"script": silent}, {"authorize": never}),
    "dns": ("resolve", {"script": silent, "resolver": SlowResolver()}, {}),
    "connect": ("connect", {"connector": SlowConnector}, {}),
    "tls": ("tls", {"connector": SilentTLS}, {"url": "https://a.example/"}),
    "send": ("send", {"script": deaf}, {"method": "POST", "content": bytes(1 << 20)}),
    "no answer": ("head", {"script": silent}, {}),
    "dripped head": ("head", {"script": drip(HEAD, b"X: y\r\n")}, {}),
    "dripped interim": ("head", {"script": drip(b"", b"HTTP/1.1 102 Wait\r\n\r\n")}, {}),
    "dripped content": ("content", {"script": drip(HEAD + b"Content-Length: 99\r\n\r\n", b"x")}, {}),
    "dripped chunk": (
        "content",
        {"script": drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n", b"x")},
        {},
    ),
    "dripped chunk size": (
        "content",
        {"script": drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0")},
        {},
    ),
    "no end": ("content", {"script": drip(HEAD + b"\r\n", b"x")}, {}),
    "several hops": ("head", {"script": redirects_slowly}, {"limits": {"max_redirects": 9}}),
}


@pytest.mark.parametrize("case", CASES)
async def test_deadline(case: str, nursery: trio.Nursery, autojump_clock: Any, client_tls: Any) -> None:
    phase, options, arguments = CASES[case]
    options, arguments = dict(options), dict(arguments)
    if "connector" in options:
        options["connector"] = options["connector"](nursery, silent)
    script = options.pop("script", silent)
    limits = tidegate.Limits(timeout=10, **arguments.pop("limits", {}))
    async with engine_with(nursery, script, tls=client_tls, **options) as (engine, _):
        started = trio.current_time()
        with pytest.raises(tidegate.DeadlineExceeded) as caught:
            await engine.fetch(arguments.pop("url", URL), limits=limits, **arguments)
        assert trio.current_time() - started == 10
        assert tidegate.Reason.TIMEOUT is caught.value.reason
        assert phase == caught.value.phase
        nursery.cancel_scope.cancel()


async def test_waiting_for_a_slot_counts(nursery: trio.Nursery, autojump_clock: Any) -> None:
    async with engine_with(nursery, silent, max_concurrency=1) as (engine, _):
        limits = tidegate.Limits(timeout=10)

        async def first() -> None:
            with pytest.raises(tidegate.DeadlineExceeded):
                await engine.fetch(URL, limits=tidegate.Limits(timeout=20))

        async with trio.open_nursery() as fetches:
            fetches.start_soon(first)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(tidegate.DeadlineExceeded) as caught:
                await engine.fetch(URL, limits=limits)
            assert trio.current_time() == 10
            assert caught.value.phase == "admit"


async def test_the_callers_own_time_is_never_cut_off(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """While a stream's caller works, the deadline passes unnoticed; the next piece is refused at once."""
    script = drip(HEAD + b"Content-Length: 99\r\n\r\n", b"x", 1)
    async with (
        engine_with(nursery, script) as (engine, _),
        engine.stream(URL, limits=tidegate.Limits(timeout=10)) as response,
    ):
        assert await anext(aiter(response)) == b"x"
        await trio.sleep(100)
        assert trio.current_time() == 101
        with pytest.raises(tidegate.DeadlineExceeded):
            await anext(aiter(response))
        assert trio.current_time() == 101


async def test_an_endless_stream_of_data_meets_the_deadline(nursery: trio.Nursery) -> None:
    """A peer that always has data never makes us wait, and is cut off all the same (real time)."""

    async def flood(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(HEAD + b"\r\n")
        while True:
            await peer.send(bytes(1 << 16))

    async with engine_with(nursery, flood) as (engine, _):
        with pytest.raises(tidegate.DeadlineExceeded):
            async with engine.stream(
                URL, limits=tidegate.Limits(timeout=0.3, max_content=1 << 40)
            ) as response:
                async for _ in response:
                    pass
