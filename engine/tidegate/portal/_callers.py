"""Who waits for a call: how it learns of the end, and how the call asks something of it on the way."""

import queue
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, Final, TypeVar, cast, overload

import trio

T = TypeVar("T")

CLEANUP_GRACE: Final = 5.0
"""Seconds that somebody waits for the cleaning up of the other side after a cancellation, Ctrl+C or `close`.

The engine closes its sockets without waiting, so this is for other people's code. Picked without measuring.
"""


class Caller(ABC):
    """Somebody outside of the trio thread who waits for one call."""

    @abstractmethod
    def finish(self) -> None:
        """Wake it up: the call has ended. From the trio thread."""

    @abstractmethod
    async def call_back(self, function: Callable[..., Any], args: tuple[object, ...]) -> Any:
        """Call a function where the caller lives; its answer, or what it raised. From the trio thread."""


current_caller: Final[ContextVar[Caller | None]] = ContextVar("tidegate_portal_caller", default=None)


@overload
async def in_caller(function: Callable[..., Awaitable[T]], *args: object) -> T: ...


@overload
async def in_caller(function: Callable[..., T | Awaitable[T]], *args: object) -> T: ...


async def in_caller(function: Callable[..., T | Awaitable[T]], *args: object) -> T:
    """From within a call through a portal: call a function in the thread, or the loop, that waits for it.

    For what belongs to the caller and may not be touched by another thread: a kernel's grants, a callback. In
    a trio program, where no portal is in between, the function is called here.

    Args:
        function: a plain function, or one that returns an awaitable. The awaitable is awaited in the caller's
            asyncio loop; if the caller is a plain thread, which has none, then in trio.
        args: for the function.

    Returns:
        What the function returned, awaited if it had to be.

    Raises:
        Exception: whatever the function raises. If this call is cancelled meanwhile, a coroutine is cancelled
            too and awaited; a plain function that has begun cannot be stopped, and is not waited for.
    """
    caller = current_caller.get()
    answer = function(*args) if caller is None else await caller.call_back(function, args)
    return await answer if isawaitable(answer) else cast(T, answer)


class ThreadCaller(Caller):
    """A plain thread, which runs what the call asks of it while it waits."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._gone = False

    def finish(self) -> None:
        """See `Caller`."""
        self._inbox.put(None)

    def wait(self) -> None:
        """Wait for the end of the call. Ctrl+C gets through."""
        while (job := self._inbox.get()) is not None:
            job()

    def wait_at_most(self, seconds: float) -> None:
        """Wait for the end of a call that was cancelled, but no longer than this; then be gone."""
        deadline = time.monotonic() + seconds
        with suppress(queue.Empty):
            while (job := self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))) is not None:
                job()
        self._gone = True

    async def call_back(self, function: Callable[..., Any], args: tuple[object, ...]) -> Any:
        """See `Caller`."""
        job = _Job(function, args)
        self._inbox.put(job.run)
        if self._gone:
            raise RuntimeError("the caller of this call has gone; nothing can be asked of it any more")
        return await job.answer()


class _Job:
    """A function for the caller's thread, and its answer."""

    def __init__(self, function: Callable[..., Any], args: tuple[object, ...]) -> None:
        self._function = function
        self._args = args
        self._token = trio.lowlevel.current_trio_token()
        self._answered = trio.Event()
        self._abandoned = False
        self._value: Any = None
        self._error: Exception | None = None

    def run(self) -> None:
        """In the caller's thread. What is no Exception, Ctrl+C say, is the caller's own and ends its wait."""
        if self._abandoned:
            return
        try:
            self._value = self._function(*self._args)
        except Exception as error:
            self._error = error
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._answered.set)

    async def answer(self) -> Any:
        """In the trio thread."""
        try:
            await self._answered.wait()
        except trio.Cancelled:
            self._abandoned = True
            raise
        if self._error is not None:
            raise self._error
        return self._value
