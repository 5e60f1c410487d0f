"""Slots: bounded, fair by key, refused when too many wait (backpressure and fairness)."""

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
        await start(fetches, engine, "a1 a2 a3 a4 a5")
        assert gate.arrived == ["a1", "a2"]
        gate.open.set()
    assert sorted(gate.arrived) == ["a1", "a2", "a3", "a4", "a5"]
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


async def test_too_many_waiting_is_overloaded(nursery: trio.Nursery) -> None:
    gate = Gate()
    async with (
        engine_with(nursery, gate.script, max_concurrency=1) as (engine, _),
        trio.open_nursery() as fetches,
    ):
        await start(fetches, engine, " ".join(f"a{n}" for n in range(17)))
        with pytest.raises(tidegate.Overloaded) as caught:
            await engine.fetch(URL)
        assert (caught.value.reason, caught.value.phase) == ("overloaded", "admit")
        gate.open.set()
    assert len(gate.arrived) == 17


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_concurrency", 0),
        ("max_concurrency", True),
        ("max_concurrency", 1.5),
        ("max_concurrency_per_key", 0),
        ("max_concurrency_per_key", -1),
        ("max_idle", -1),
    ],
)
async def test_bounds_are_checked(option: str, value: Any, nursery: trio.Nursery) -> None:
    with pytest.raises(ValueError, match=option):
        async with engine_with(nursery, Peer.until_closed, **{option: value}):  # type: ignore[arg-type]
            pass
