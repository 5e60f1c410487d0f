"""Reuse: checked afresh for every fetch, and only for whom the very same target was pinned."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

import pytest
import trio
import trio.testing

import tidegate
from tests.support.engines import AnyHost, engine_with
from tidegate._wire.pool import IDLE_TIMEOUT, KEEP_ALIVE_MARGIN, MAX_IDLE_PER_HOST
from tidegate.testing.memory import MemoryConnector, Peer

URL = "http://a.example/"


async def ok(peer: Peer) -> None:
    while await peer.receive_request() is not None:
        await peer.respond(b"ok")


class Answers:
    """A resolver with one answer after the other; the last one stays."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def resolve(self, host: str) -> Sequence[Any]:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [ip_address(address) for address in answer]


async def test_resolved_and_checked_for_every_fetch(nursery: trio.Nursery) -> None:
    """F-19, W-123: a kept connection is no reason not to ask again."""
    resolver = Answers(["93.184.216.34"])
    async with engine_with(nursery, ok, resolver=resolver) as (engine, connector):
        for _ in range(3):
            await engine.fetch(URL)
        assert (resolver.asked, len(connector.connected)) == (3, 1)


async def test_a_kept_connection_does_not_outlive_its_answer(nursery: trio.Nursery) -> None:
    """rebind-009: the second answer is judged, and a connection to the first one does not serve it."""
    resolver = Answers(
        ["93.184.216.34"], ["127.0.0.1"], ["93.184.216.35"], ["93.184.216.34", "93.184.216.35"]
    )
    async with engine_with(nursery, ok, resolver=resolver) as (engine, connector):
        await engine.fetch(URL)
        with pytest.raises(tidegate.AddressDenied):
            await engine.fetch(URL)
        await engine.fetch(URL)
        await engine.fetch(URL)
        assert [str(t.address) for t in connector.connected] == ["93.184.216.34", "93.184.216.35"]


@pytest.mark.parametrize(
    "other", ["http://b.example/", "http://a.example:81/", "https://a.example/", "https://a.example:80/"]
)
async def test_never_shared(other: str, nursery: trio.Nursery, server_tls: Any, client_tls: Any) -> None:
    """Pitfall 6, tls-008: scheme, host and port are part of the key, though the address is the same."""
    tls = server_tls("a.example")
    async with engine_with(nursery, ok, server_tls=tls, tls=client_tls) as (engine, connector):
        for url in (URL, other, URL, other):
            await engine.fetch(url)
        assert len(connector.connected) == 2


async def test_concurrent_fetches_have_a_connection_each(nursery: trio.Nursery) -> None:
    async with engine_with(nursery, ok) as (engine, connector):
        async with trio.open_nursery() as fetches:
            for _ in range(5):
                fetches.start_soon(engine.fetch, URL)
        assert len(connector.connected) == 5
        async with trio.open_nursery() as fetches:
            for _ in range(5):
                fetches.start_soon(engine.fetch, URL)
        assert len(connector.connected) == 5


@pytest.mark.parametrize(
    ("fields", "kept_for"),
    [
        ([], IDLE_TIMEOUT),
        ([("Keep-Alive", "timeout=5, max=100")], 5 - KEEP_ALIVE_MARGIN),
        ([("Keep-Alive", "max=100")], IDLE_TIMEOUT),
        ([("Keep-Alive", "timeout=500")], IDLE_TIMEOUT),
        ([("Keep-Alive", "timeout=1")], 0),
        ([("Connection", "close")], 0),
        ([("Connection", "Upgrade, Close")], 0),
    ],
)
async def test_how_long_it_is_kept(
    fields: list[tuple[str, str]], kept_for: float, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    async def script(peer: Peer) -> None:
        while await peer.receive_request() is not None:
            await peer.respond(fields=fields)

    async with engine_with(nursery, script) as (engine, connector):
        await engine.fetch(URL)
        assert bool(kept_for) is (await open_after(connector, kept_for - 0.1) == 1)
        assert await open_after(connector, 0.2) == 0


async def open_after(connector: MemoryConnector, seconds: float) -> int:
    await trio.sleep(max(0, seconds))
    await trio.testing.wait_all_tasks_blocked()
    return connector.open_connections


@pytest.mark.parametrize(("max_idle", "kept"), [(0, 0), (1, 1), (3, 3), (100, MAX_IDLE_PER_HOST)])
async def test_bounded(max_idle: int, kept: int, nursery: trio.Nursery) -> None:
    async with engine_with(nursery, ok, max_idle=max_idle) as (engine, connector):
        async with trio.open_nursery() as fetches:
            for _ in range(MAX_IDLE_PER_HOST + 4):
                fetches.start_soon(engine.fetch, URL)
        await trio.testing.wait_all_tasks_blocked()
        assert kept == connector.open_connections
    await trio.testing.wait_all_tasks_blocked()
    assert connector.open_connections == 0


async def test_the_oldest_makes_room(nursery: trio.Nursery, autojump_clock: Any) -> None:
    async with engine_with(nursery, ok, max_idle=2) as (engine, connector):
        for host in ("a", "b", "c", "b", "c", "a"):
            await engine.fetch(f"http://{host}.example/")
            await trio.sleep(1)
        assert [target.host[0] for target in connector.connected] == ["a", "b", "c", "a"]


async def hang_up(peer: Peer) -> None:
    await peer.receive_request()
    await peer.respond(b"ok")


async def test_closed_by_the_peer_meanwhile(nursery: trio.Nursery) -> None:
    """Pitfall 13: readable while idle means dead, whatever there is to read."""
    async with engine_with(nursery, hang_up) as (engine, connector):
        for _ in range(3):
            assert (await engine.fetch(URL)).content == b"ok"
            await trio.testing.wait_all_tasks_blocked()
        assert len(connector.connected) == 3


class DiesInFlight:
    """The first connection answers once, and hangs up on the second request."""

    def __init__(self, last_words: bytes = b"") -> None:
        self.requests: list[str] = []
        self._last_words = last_words
        self._first = True

    async def __call__(self, peer: Peer) -> None:
        first, self._first = self._first, False
        while (request := await peer.receive_request()) is not None:
            self.requests.append(request.line.split()[0])
            if first and len(self.requests) == 2:
                if self._last_words:
                    await peer.send(self._last_words)
                return
            await peer.respond(b"ok")


@pytest.mark.parametrize(
    ("method", "last_words", "requests"),
    [
        ("GET", b"", 3),
        ("PUT", b"", 3),
        ("DELETE", b"", 3),
        ("POST", b"", 2),
        ("PATCH", b"", 2),
        ("GET", b"HTTP/1.1 200 O", 2),
        ("GET", b"HTTP/1.1 100 Continue\r\n\r\n", 2),
    ],
)
async def test_one_repeat_when_a_kept_connection_dies_in_flight(
    method: str, last_words: bytes, requests: int, nursery: trio.Nursery
) -> None:
    """D-18, W-30: idempotent methods only, once, and only if not one byte of an answer came."""
    peer = DiesInFlight(last_words)
    async with engine_with(nursery, peer) as (engine, _):
        await engine.fetch(URL)
        if requests == 3:
            assert (await engine.fetch(URL, method=method)).content == b"ok"
        else:
            with pytest.raises(tidegate.ConnectionLost):
                await engine.fetch(URL, method=method)
    assert requests == len(peer.requests)


async def test_no_repeat_on_a_new_connection(nursery: trio.Nursery) -> None:
    """D-18: the first use of a connection is never repeated."""
    requests = 0

    async def script(peer: Peer) -> None:
        nonlocal requests
        requests += await peer.receive_request() is not None

    async with engine_with(nursery, script) as (engine, _):
        with pytest.raises(tidegate.ConnectionLost, match="without a response"):
            await engine.fetch(URL)
    assert requests == 1


async def test_no_repeat_of_iterable_content(nursery: trio.Nursery) -> None:
    async def pieces() -> Any:
        yield b"once"

    requests = 0

    async def script(peer: Peer) -> None:
        nonlocal requests
        while await peer.receive_head() is not None:
            requests += 1
            if requests > 1:
                return
            await peer.respond()

    async with engine_with(nursery, script) as (engine, _):
        await engine.fetch(URL)
        with pytest.raises(tidegate.ConnectionLost):
            await engine.fetch(URL, method="PUT", content=pieces())
    assert requests == 2


async def test_a_redirect_gives_its_connection_back(nursery: trio.Nursery) -> None:
    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            if request.line.startswith("GET /1"):
                await peer.respond(b"ok")
            else:
                await peer.respond(status="302 Found", fields=[("Location", "/1")])

    async with engine_with(nursery, script) as (engine, connector):
        response = await engine.fetch(URL, limits=tidegate.Limits(max_redirects=1))
        assert [hop.reused for hop in response.hops] == [False, True]
        assert len(connector.connected) == 1


@pytest.mark.parametrize(
    ("credential", "kept"),
    [
        ("Basic YTpi", True),
        ("Bearer ntlm", True),
        ("NTLM TlRMTVNTUAAB", False),
        ("negotiate\tYII=", False),
    ],
)
async def test_a_connection_that_was_authenticated_is_not_kept(
    credential: str, kept: bool, nursery: trio.Nursery
) -> None:
    """RFC 4559 6: a server takes whatever follows on it for the same caller's."""
    async with engine_with(nursery, ok) as (engine, connector):
        await engine.fetch(URL, headers={"Authorization": credential}, key="a")
        response = await engine.fetch(URL, key="b")
        assert (response.hops[0].reused, len(connector.connected)) == (kept, 1 if kept else 2)


async def test_addresses_of_one_name_are_tried_for_reuse_in_order(nursery: trio.Nursery) -> None:
    resolver = Answers(["93.184.216.34"], ["93.184.216.35", "93.184.216.34"])
    async with engine_with(nursery, ok, resolver=resolver) as (engine, connector):
        for _ in range(2):
            await engine.fetch(URL)
        assert len(connector.connected) == 1


def test_any_host_is_public() -> None:
    """The stand-in of these tests is no way around the floor."""
    assert [tidegate.classify_address(a) for a in AnyHost().addresses] == [tidegate.AddressClass.GLOBAL]
