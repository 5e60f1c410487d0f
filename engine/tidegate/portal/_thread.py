"""The background thread that runs trio, and the calls in it."""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Generic, TypeVar

import trio

from tidegate.errors import EngineClosed
from tidegate.portal._callers import CLEANUP_GRACE, Caller, current_caller

T = TypeVar("T")


class Call(Generic[T]):
    """One function under way in the trio thread, for one caller."""

    def __init__(
        self, caller: Caller, function: Callable[..., Awaitable[T]], args: tuple[object, ...]
    ) -> None:
        self._caller = caller
        self._function = function
        self._args = args
        self._scope = trio.CancelScope()
        self._value: T
        self._error: BaseException | None = None

    async def run(self) -> None:
        """In the trio thread. What the function raises is for the caller, not for the trio run."""
        current_caller.set(self._caller)
        # If the scope ends it, that is because of the portal, or of a caller who has an exception of its own.
        self._error = portal_closed()
        try:
            with self._scope:
                self._value = await self._function(*self._args)
                self._error = None
        # Past the scope: the whole run is breaking down. No caller must ever see this one.
        except trio.Cancelled:
            raise
        except BaseException as error:
            self._error = error
        finally:
            self._caller.finish()

    def cancel(self) -> None:
        """In the trio thread."""
        self._scope.cancel()

    def refuse(self) -> None:
        """The call will not run, or not on: the thread has ended or is about to."""
        self._error = portal_closed()
        self._caller.finish()

    def result(self) -> T:
        """What the function returned or raised, once it has ended; to be asked for once."""
        if self._error is None:
            return self._value
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error  # it refers to this frame by its traceback


def portal_closed() -> EngineClosed:
    """The error of a call that comes too late, or takes too long."""
    return EngineClosed("the portal is closed")


class TrioThread:
    """A running thread in which a trio run waits for calls. A daemon: the process does not wait for it.

    Raises:
        BaseException: trio could not start; whatever it says, such as too many open files.
    """

    def __init__(self) -> None:
        self._calls: set[Call[Any]] = set()
        self._started: Future[None] = Future()
        self._stopping: trio.Event
        self._nursery: trio.Nursery
        self._token: trio.lowlevel.TrioToken
        self._thread = threading.Thread(target=self._run, name="tidegate-portal", daemon=True)
        self._thread.start()
        self._started.result()

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive()

    def start(self, call: Call[Any]) -> None:
        """Begin a call, with the context variables of whoever asks.

        Raises:
            EngineClosed: the run has ended.
        """
        self._calls.add(call)
        try:
            self._token.run_sync_soon(copy_context().run, self._launch, call)
        except trio.RunFinishedError:
            self._calls.discard(call)
            raise portal_closed() from None

    def cancel(self, call: Call[Any]) -> None:
        """Cancel a call from whatever thread; it ends when it has cleaned up."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(call.cancel)

    def request_stop(self) -> None:
        """Cancel every call with EngineClosed, and end. Does not wait."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._stopping.set)

    def stop(self) -> None:
        """The same, and wait for the end, for a bounded time."""
        self.request_stop()
        if threading.current_thread() is not self._thread:
            self._thread.join(CLEANUP_GRACE)

    def _run(self) -> None:
        try:
            # An empty context, since from Python 3.14 on a thread may inherit that of whoever starts it: the
            # context of the first caller is none of the other callers' business.
            Context().run(trio.run, self._main)
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)
        finally:
            for call in list(self._calls):
                call.refuse()

    async def _main(self) -> None:
        self._stopping = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as self._nursery:
            self._started.set_result(None)
            await self._stopping.wait()
            for call in list(self._calls):
                call.cancel()

    def _launch(self, call: Call[Any]) -> None:
        if self._stopping.is_set():
            self._calls.discard(call)
            call.refuse()
        else:
            self._nursery.start_soon(self._play, call)

    async def _play(self, call: Call[Any]) -> None:
        try:
            await call.run()
        finally:
            self._calls.discard(call)
