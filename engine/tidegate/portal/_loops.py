"""Callers that live in an asyncio loop. Imported when there is one: a program without asyncio needs none."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from inspect import isawaitable
from typing import Any

import trio

from tidegate.portal._callers import CLEANUP_GRACE, Caller


class LoopCaller(Caller):
    """A task of an asyncio loop, of asyncio's own or any other, such as uvloop's."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._finished = self._loop.create_future()

    def finish(self) -> None:
        """See `Caller`. A loop that is closed by now has nobody in it who waits."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if not self._finished.done():
            self._finished.set_result(None)

    async def wait(self, cancel: Callable[[], None]) -> None:
        """Wait for the end of the call; a cancellation is passed on to it, and raised when it has ended.

        Args:
            cancel: cancels the call.
        """
        interruption: asyncio.CancelledError | None = None
        try:
            while not self._finished.done():
                try:
                    # `wait`, unlike an await, leaves the future alone when it is cancelled itself.
                    await asyncio.wait([self._finished])
                except asyncio.CancelledError as error:
                    interruption = error
                    cancel()
        finally:
            if not self._finished.done():  # whoever awaited us is torn down, by a loop that ends perhaps
                cancel()
        if interruption is not None:
            raise interruption

    async def call_back(self, function: Callable[..., Any], args: tuple[object, ...]) -> Any:
        """See `Caller`. Runs as a task of the loop, with the context variables of the caller."""
        call = _TaskInLoop(self._loop)
        self._loop.call_soon_threadsafe(lambda: call.start(_called(function, args)), context=self._context)
        return await call.answer()


async def _called(function: Callable[..., Any], args: tuple[object, ...]) -> Any:
    answer = function(*args)
    return await answer if isawaitable(answer) else answer


class _TaskInLoop:
    """A task of the caller's loop that trio waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._token = trio.lowlevel.current_trio_token()
        self._ended = trio.Event()
        self._task: asyncio.Task[Any]

    def start(self, coroutine: Any) -> None:
        """In the loop."""
        self._task = self._loop.create_task(coroutine)
        self._task.add_done_callback(self._report)

    def _report(self, _: object) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._ended.set)

    async def answer(self) -> Any:
        """In the trio thread."""
        try:
            await self._ended.wait()
        except trio.Cancelled:
            # A loop that is closed by now has ended its tasks, or never will.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(lambda: self._task.cancel())
                with trio.move_on_after(CLEANUP_GRACE, shield=True):
                    await self._ended.wait()
            raise
        if self._task.cancelled():
            # asyncio's own exception for it is no Exception, and would tear through the trio run.
            raise RuntimeError("the caller's loop cancelled what was asked of it")
        return self._task.result()
