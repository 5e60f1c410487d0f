"""`Engine.check`: bounded like a fetch, in time, in number and by the life of its engine."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
import trio.testing

import tidegate
from tests.support.engines import AnyHost, engine_with
from tidegate._wire.resolve import lookup_key
from tidegate.testing.memory import Peer
from tidegate.testing.observer import RecordingObserver

URL = "http://a.example/"
REFUSED = ["http://169.254.169.254/", "http://a.example:25/", "http://a.local/", "nonsense"]


async def silent(peer: Peer) -> None:
    await peer.until_closed()


async def never(host: str) -> bool:
    await trio.sleep_forever()


class Hangs:
    async def resolve(self, host: str) -> Sequence[Any]:
        await trio.sleep_forever()


@pytest.mark.parametrize(
    ("phase", "resolver", "authorize"), [("authorize", AnyHost(), never), ("resolve", Hangs(), None)]
)
async def test_deadline(
    phase: str, resolver: Any, authorize: Any, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    """D-16: exact to the tick; nothing is left that it held."""
    async with engine_with(nursery, silent, resolver=resolver, max_concurrency=1) as (engine, _):
        for limits in (tidegate.Limits(timeout=10), tidegate.Limits()):
            started = trio.current_time()
            with pytest.raises(tidegate.DeadlineExceeded) as caught:
                await engine.check(f"{URL}?token=hunter2", authorize=authorize, limits=limits)
            assert trio.current_time() - started == limits.timeout
            assert (caught.value.phase, caught.value.url, caught.value.hop) == (phase, URL, 0)
        started = trio.current_time()
        with pytest.raises(tidegate.DeadlineExceeded):
            await engine.check(URL, authorize=authorize)
        assert trio.current_time() - started == tidegate.Limits().timeout


async def test_it_takes_a_slot_while_it_asks_outside(nursery: trio.Nursery, autojump_clock: Any) -> None:
    async with engine_with(nursery, silent, max_concurrency=1) as (engine, _):

        async def hold() -> None:
            with pytest.raises(tidegate.DeadlineExceeded):
                await engine.fetch(URL, limits=tidegate.Limits(timeout=20))

        async with trio.open_nursery() as fetches:
            fetches.start_soon(hold)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(tidegate.DeadlineExceeded) as caught:
                await engine.check(URL, limits=tidegate.Limits(timeout=10))
            assert (trio.current_time(), caught.value.phase) == (10, "admit")
            for url in REFUSED[1:]:  # what is refused without asking anybody does not wait
                assert not (await engine.check(url)).allowed
            assert (await engine.check(URL)).allowed
            assert trio.current_time() == 20


async def test_its_slot_comes_back(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """After a verdict of any kind, an error, and a cancellation in each phase."""

    async def broken(host: str) -> bool:
        raise KeyError

    async with engine_with(nursery, silent, max_concurrency=1) as (engine, _):
        for url in (*REFUSED, URL):
            await engine.check(url)
        assert (await engine.check(URL, authorize=broken)).reason is tidegate.Reason.NOT_GRANTED
        with trio.move_on_after(1):
            await engine.check(URL, authorize=never)
        with trio.fail_after(1):
            assert (await engine.check(URL)).allowed


async def test_too_many_wait_is_no_verdict(nursery: trio.Nursery) -> None:
    """It says nothing about the URL."""
    async with engine_with(nursery, silent, max_concurrency=1, resolver=Hangs()) as (engine, _):

        async def ask() -> None:
            with pytest.raises(tidegate.EngineClosed):
                await engine.check(URL)

        for _ in range(17):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(tidegate.Overloaded) as caught:
            await engine.check(URL)
        assert (caught.value.phase, caught.value.url) == ("admit", URL)


async def test_of_a_closed_engine(nursery: trio.Nursery) -> None:
    """At once, even of what nobody outside would be asked about; and meanwhile."""
    ended: list[BaseException] = []
    async with engine_with(nursery, silent, resolver=Hangs()) as (engine, _):

        async def ask() -> None:
            with pytest.raises(tidegate.EngineClosed) as caught:
                await engine.check(URL)
            ended.append(caught.value)

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
    await trio.testing.wait_all_tasks_blocked()
    assert len(ended) == 1
    for url in (URL, *REFUSED):
        with pytest.raises(tidegate.EngineClosed):
            await engine.check(url)


@pytest.mark.parametrize(
    ("options", "told"), [({"limits": 10}, "tidegate.Limits, not int"), ({"key": []}, "hashable")]
)
async def test_wrong_options(options: Any, told: str, nursery: trio.Nursery) -> None:
    async with engine_with(nursery, silent) as (engine, _):
        with pytest.raises(tidegate.InvalidArgument, match=told):
            await engine.check(URL, **options)


async def test_an_observer_hears_nothing_of_it(nursery: trio.Nursery, autojump_clock: Any) -> None:
    observer = RecordingObserver()
    async with engine_with(nursery, silent, observer=observer) as (engine, _):
        await engine.check(URL)
        with pytest.raises(tidegate.DeadlineExceeded):
            await engine.check(URL, authorize=never)
    assert observer.events == []


class NotesKeys(AnyHost):
    """A resolver that looks whose lookups they are."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[object] = []

    async def resolve(self, host: str) -> Any:
        self.keys.append(lookup_key.get())
        return await super().resolve(host)


async def answering(peer: Peer) -> None:
    while await peer.receive_request() is not None:
        await peer.respond()


async def by_fetch(engine: tidegate.Engine, key: object) -> None:
    await engine.fetch(URL, key=key)


async def by_stream(engine: tidegate.Engine, key: object) -> None:
    async with engine.stream(URL, key=key):
        assert lookup_key.get() is None


async def by_check(engine: tidegate.Engine, key: object) -> None:
    await engine.check(URL, key=key)


@pytest.mark.parametrize("ask", [by_fetch, by_stream, by_check])
async def test_a_resolver_can_tell_whose_lookup_it_is(
    ask: Callable[[tidegate.Engine, object], Awaitable[None]], nursery: trio.Nursery
) -> None:
    """The system's bounds the threads of each key by it. Nobody else's code sees it afterwards."""
    resolver = NotesKeys()
    async with engine_with(nursery, answering, resolver=resolver) as (engine, _):
        for key in ("agent", None, 7):
            await ask(engine, key)
    assert resolver.keys == ["agent", None, 7]
    assert lookup_key.get() is None
