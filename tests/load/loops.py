"""The little that an attack needs of an event loop, for trio and for asyncio.

Not anyio, which gives each task a scope of its own: that would be a fifth of what a hold costs.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar

import trio

T = TypeVar("T")


class Tasks(Protocol):
    """Tasks that live in a block."""

    def start(self, function: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Start one."""

    def cancel(self) -> None:
        """Cancel all of them, so that the block ends."""


class Loop(Protocol):
    """An event loop."""

    def now(self) -> float:
        """Its time in seconds."""

    async def sleep_until(self, time: float) -> None:
        """Sleep, or just let others run if the time has come."""

    def tasks(self) -> AbstractAsyncContextManager[Tasks]:
        """A block that ends with the last of its tasks."""


def run(name: str, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Run a function on `trio` or on `asyncio`; its first argument is the loop."""
    if name == "trio":
        return trio.run(function, _TrioLoop(), *arguments)
    return asyncio.run(function(_AsyncioLoop(), *arguments))  # type: ignore[arg-type]  # a coroutine it is


class _TrioLoop:
    def now(self) -> float:
        return trio.current_time()

    async def sleep_until(self, time: float) -> None:
        await trio.sleep_until(time)

    @asynccontextmanager
    async def tasks(self) -> AsyncIterator["_TrioTasks"]:
        async with trio.open_nursery() as nursery:
            yield _TrioTasks(nursery)


class _TrioTasks:
    def __init__(self, nursery: trio.Nursery) -> None:
        self.start = nursery.start_soon
        self.cancel = nursery.cancel_scope.cancel


class _AsyncioLoop:
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep_until(self, time: float) -> None:
        await asyncio.sleep(max(0.0, time - self.now()))

    @asynccontextmanager
    async def tasks(self) -> AsyncIterator["_AsyncioTasks"]:
        tasks = _AsyncioTasks()
        try:
            yield tasks
            await tasks.wait()
        finally:
            tasks.cancel()


class _AsyncioTasks:
    """Not a TaskGroup, which cannot be cancelled from inside before Python 3.13."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, function: Callable[..., Any], *arguments: object) -> None:
        task = asyncio.get_running_loop().create_task(function(*arguments))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def wait(self) -> None:
        while self._running:
            done, _ = await asyncio.wait(self._running)
            for task in done:
                if not task.cancelled():
                    task.result()

    def cancel(self) -> None:
        for task in self._running:
            task.cancel()
