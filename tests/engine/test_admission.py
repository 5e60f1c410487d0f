"""Slots: bounded, fair by key and host, refused when too many wait (backpressure and fairness)."""

from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing

import tidegate
from tests.support.engines import engine_with
from tidegate.testing.memory import Peer

URL = "http://a.example/"


class Gate:
    """Answers each request when told to, in the order of arrival."""

    def __init__(self) -> None:
        self.arrived: list[str] = []
        self.open = trio.Event()
        self.at_once = 0
        self.most_at_once = 0

    async def script(self, peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            self.arrived.append(request.line.split()[1].strip("/"))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            await self.open.wait()
            self.at_once -= 1
            await peer.respond()


async def start(fetches: trio.Nursery, engine: tidegate.Engine, names: str) -> None:
    for name in names.split():
        fetches.start_soon(lambda name=name: engine.fetch(f"{URL}{name}", key=name[0]))
        await trio.testing.wait_all_tasks_blocked()


async def test_concurrency_is_bounded(nursery: trio.Nursery) -> None:
    gate = Gate()
    async with (
        engine_with(nursery, gate.script, max_concurrency=2) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        await start(fetches, engine, "a1 b1 c1 d1 e1")
        assert gate.arrived == ["a1", "b1"]
        gate.open.set()
    assert sorted(gate.arrived) == ["a1", "b1", "c1", "d1", "e1"]
    assert gate.most_at_once == 2


async def test_keys_take_turns(nursery: trio.Nursery) -> None:
    """One agent's queue does not stand in front of everybody else's."""
    gate = Gate()
    async with (
        engine_with(nursery, gate.script, max_concurrency=1) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        await start(fetches, engine, "a1 a2 a3 a4 b1 c1 b2")
        gate.open.set()
    assert gate.arrived == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_one_key_cannot_take_all_slots(nursery: trio.Nursery) -> None:
    gate = Gate()
    async with (
        engine_with(nursery, gate.script, max_concurrency=3, max_concurrency_per_key=2) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        await start(fetches, engine, "a1 a2 a3 b1")
        assert gate.arrived == ["a1", "a2", "b1"]
        gate.open.set()
    assert gate.arrived[-1] == "a3"


async def test_by_default_one_key_takes_half_of_the_slots(nursery: trio.Nursery) -> None:
    """An agent whose peers never answer leaves room for others, unless its embedder says otherwise."""
    gate = Gate()
    async with (
        engine_with(nursery, gate.script, max_concurrency=5) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        await start(fetches, engine, "a1 a2 a3 a4 b1 b2")
        assert gate.arrived == ["a1", "a2", "a3", "b1", "b2"]
        gate.open.set()


async def test_fetches_without_a_key_are_nobodys(nursery: trio.Nursery) -> None:
    gate = Gate()
    async with (
        engine_with(nursery, gate.script, max_concurrency=2, max_concurrency_per_key=1) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        for name in ("1", "2"):
            fetches.start_soon(engine.fetch, f"{URL}{name}")
        await trio.testing.wait_all_tasks_blocked()
        assert gate.at_once == 2
        gate.open.set()


async def fetch_hosts(fetches: trio.Nursery, engine: tidegate.Engine, hosts: str) -> None:
    """All of one key; the path says who asked, and `a1` asks the host `a.example`."""
    for name in hosts.split():
        fetches.start_soon(lambda name=name: engine.fetch(f"http://{name[0]}.example/{name}", key="agent"))
        await trio.testing.wait_all_tasks_blocked()


async def test_one_host_cannot_take_all_slots(nursery: trio.Nursery) -> None:
    """Nor does the queue in front of it hold up the same agent's fetches of other hosts."""
    gate = Gate()
    bounds = {"max_concurrency": 4, "max_concurrency_per_key": 4, "max_concurrency_per_host": 2}
    async with (
        engine_with(nursery, gate.script, **bounds) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        await fetch_hosts(fetches, engine, "a1 a2 a3 a4 b1 c1 b2")
        assert gate.arrived == ["a1", "a2", "b1", "c1"]
        gate.open.set()
    assert sorted(gate.arrived) == ["a1", "a2", "a3", "a4", "b1", "b2", "c1"]


async def test_hosts_of_one_key_take_turns(nursery: trio.Nursery) -> None:
    gate = Gate()
    async with (
        engine_with(nursery, gate.script, max_concurrency=1) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        await fetch_hosts(fetches, engine, "a1 a2 a3 b1 c1 b2")
        gate.open.set()
    assert gate.arrived == ["a1", "a2", "b1", "c1", "a3", "b2"]


class Redirecting(Gate):
    """Sends whoever asks `r.example` on to `a.example`, when told to; all others wait at the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.send_on = trio.Event()

    async def script(self, peer: Peer) -> None:
        if peer.target.host != "r.example":
            await super().script(peer)
            return
        while (request := await peer.receive_request()) is not None:
            name = request.line.split()[1]
            await self.send_on.wait()
            await peer.respond(status="302 Found", fields=[("Location", f"http://a.example{name}")])


FOLLOW = tidegate.Limits(max_redirects=1)


async def test_a_redirect_takes_its_slot_along(nursery: trio.Nursery) -> None:
    """Whoever is under way does not queue behind those who are not, if the next host has room."""
    gate = Redirecting()
    async with (
        engine_with(nursery, gate.script, max_concurrency=2) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        await start(fetches, engine, "x1")
        fetches.start_soon(lambda: engine.fetch("http://r.example/r1", limits=FOLLOW))
        await trio.testing.wait_all_tasks_blocked()
        await start(fetches, engine, "y1")
        gate.send_on.set()
        await trio.testing.wait_all_tasks_blocked()
        assert gate.arrived == ["x1", "r1"]
        gate.open.set()


async def test_a_redirect_to_a_full_host_waits_without_a_slot(nursery: trio.Nursery) -> None:
    gate = Redirecting()
    async with (
        engine_with(nursery, gate.script, max_concurrency=2, max_concurrency_per_host=1) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        gate.send_on.set()
        await fetch_hosts(fetches, engine, "a1")
        fetches.start_soon(lambda: engine.fetch("http://r.example/r1", limits=FOLLOW))
        await trio.testing.wait_all_tasks_blocked()
        fetches.start_soon(engine.fetch, "http://b.example/b1")
        await trio.testing.wait_all_tasks_blocked()
        assert gate.arrived == ["a1", "b1"]
        gate.open.set()
    assert gate.arrived == ["a1", "b1", "r1"]


async def test_a_deadline_in_the_queue_of_a_redirect_loses_no_slot(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    gate = Redirecting()
    patient, hasty = tidegate.Limits(timeout=60), tidegate.Limits(timeout=1, max_redirects=1)
    async with (
        engine_with(nursery, gate.script, max_concurrency=2, max_concurrency_per_host=1) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        gate.send_on.set()
        fetches.start_soon(lambda: engine.fetch("http://a.example/a1", limits=patient))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(tidegate.DeadlineExceeded) as caught:
            await engine.fetch("http://r.example/r1", limits=hasty)
        assert (caught.value.phase, caught.value.hop) == ("admit", 1)
        for name in ("b1", "c1", "a2"):
            fetches.start_soon(lambda name=name: engine.fetch(f"http://{name[0]}.example/{name}"))
            await trio.testing.wait_all_tasks_blocked()
        assert gate.arrived == ["a1", "b1"]
        gate.open.set()
    assert sorted(gate.arrived) == ["a1", "a2", "b1", "c1"]


async def test_one_key_cannot_fill_the_queue(nursery: trio.Nursery) -> None:
    """Its fetches are refused before those of others are: they have places to wait of their own."""
    gate = Gate()
    async with (
        engine_with(nursery, gate.script, max_concurrency=2) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        await start(fetches, engine, " ".join(f"a{n}" for n in range(17)) + " b1")
        with pytest.raises(tidegate.Overloaded, match="16 fetches of this key"):
            await engine.fetch(URL, key="a")
        await start(fetches, engine, "b2 c1")
        fetches.start_soon(engine.fetch, URL)
        await trio.testing.wait_all_tasks_blocked()
        gate.open.set()
    assert len(gate.arrived) == 21


async def test_too_many_waiting_is_overloaded(nursery: trio.Nursery) -> None:
    gate = Gate()
    async with (
        engine_with(nursery, gate.script, max_concurrency=1) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        for _ in range(17):
            fetches.start_soon(engine.fetch, URL)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(tidegate.Overloaded, match="16 fetches are waiting") as caught:
            await engine.fetch(URL)
        assert (caught.value.reason, caught.value.phase) == ("overloaded", "admit")
        gate.open.set()
    assert len(gate.arrived) == 17


async def test_the_newcomer_takes_the_place_of_who_has_most_waiting(nursery: trio.Nursery) -> None:
    """Two agents, or fetches without a key, fill the queue: a third one is still served."""
    gate = Gate()
    refused: list[str] = []

    async def fetch(engine: tidegate.Engine, name: str) -> None:
        try:
            await engine.fetch(f"{URL}{name}", key=None if name[0] == "-" else name[0])
        except tidegate.Overloaded as error:
            assert "32 fetches are waiting" in str(error)
            refused.append(name)

    async with (
        engine_with(nursery, gate.script, max_concurrency=2) as (engine, _),
        trio.open_nursery() as fetches,
    ):

        async def start_all(names: list[str]) -> None:
            for name in names:
                fetches.start_soon(fetch, engine, name)
                await trio.testing.wait_all_tasks_blocked()

        await start_all(["a0", "b0", *(f"a{n}" for n in range(1, 15)), *(f"-{n}" for n in range(18))])
        assert refused == []
        await start_all(["c1"])
        assert refused == ["-17"]  # the last of the longest
        await start_all(["c2", "b1", "-18"])
        assert refused == ["-17", "-16", "-15", "-18"]  # who has most waiting has no more room
        gate.open.set()
    assert sorted({"c1", "c2", "b1"} & set(gate.arrived)) == ["b1", "c1", "c2"]
    assert len(gate.arrived) == 34


async def test_cancelled_and_turned_away_at_once(nursery: trio.Nursery) -> None:
    """Whichever comes first, no place is lost."""
    gate = Gate()
    async with (
        engine_with(nursery, gate.script, max_concurrency=1) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        scopes = [trio.CancelScope() for _ in range(17)]

        async def fetch(scope: trio.CancelScope) -> None:
            with scope, suppress(tidegate.Overloaded):
                await engine.fetch(URL)

        for scope in scopes:
            fetches.start_soon(fetch, scope)
            await trio.testing.wait_all_tasks_blocked()
        fetches.start_soon(lambda: engine.fetch(URL, key="b"))
        await trio.lowlevel.checkpoint()
        for scope in scopes[1:]:
            scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        gate.open.set()
        assert (await engine.fetch(URL, key="c")).status == 200
    assert len(gate.arrived) == 3


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_concurrency", 0),
        ("max_concurrency", True),
        ("max_concurrency", 1.5),
        ("max_concurrency_per_key", 0),
        ("max_concurrency_per_key", -1),
        ("max_concurrency_per_host", 0),
        ("max_idle", -1),
    ],
)
async def test_bounds_are_checked(option: str, value: Any, nursery: trio.Nursery) -> None:
    with pytest.raises(ValueError, match=option):
        async with engine_with(nursery, Peer.until_closed, **{option: value}):  # type: ignore[arg-type]
            pass
