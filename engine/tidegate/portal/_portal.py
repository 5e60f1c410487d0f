"""`Portal`: the way from plain threads and from asyncio into one background trio thread."""

import atexit
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar, Unpack

import trio

from tidegate._policy.policy import Policy
from tidegate.portal._callers import CLEANUP_GRACE, ThreadCaller
from tidegate.portal._engine import EngineOptions, PortalEngine, RunLocalEngine
from tidegate.portal._thread import Call, TrioThread, portal_closed

T = TypeVar("T")


class Portal:
    """Runs async functions of trio for callers that do not run trio, in one background thread.

    The thread starts with the first call. Any number of threads and asyncio loops may share a portal. It is
    closed by `close`, at the end of a `with` or `async with` block, or when the process exits. After a fork
    the child starts a thread of its own when it needs one; calls that were under way are the parent's.

    Functions get the caller's context variables, as a copy. They run beside those of other callers, so they
    must not block.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: TrioThread | None = None
        self._finalizer: weakref.finalize[[], Portal] | None = None
        self._closed = False
        _portals.add(self)

    def start(self) -> None:
        """Start the thread now, not with the first call. Harmless if it runs.

        Raises:
            EngineClosed: the portal is closed.
        """
        self._running()

    def run_sync(self, async_fn: Callable[..., Awaitable[T]], *args: object) -> T:
        """Run an async function and wait for its end, blocking this thread.

        Ctrl+C, or whatever else interrupts the wait, cancels the function; the interruption is raised when
        that has cleaned up, after five seconds at the latest.

        Args:
            async_fn: called in the trio thread.
            args: for the function.

        Returns:
            What the function returns.

        Raises:
            BaseException: what the function raises.
            EngineClosed: the portal is closed, or was closed before the function ended.
            RuntimeError: this thread runs trio itself, which would stand still.
        """
        _refuse_in_trio()
        caller = ThreadCaller()
        call = Call(caller, async_fn, args)
        thread = self._running()
        thread.start(call)
        try:
            caller.wait()
        except BaseException:
            thread.cancel(call)
            caller.wait_at_most(CLEANUP_GRACE)
            raise
        return call.result()

    async def run(self, async_fn: Callable[..., Awaitable[T]], *args: object) -> T:
        """Run an async function of trio from asyncio, and await its end.

        A cancellation, by a time-out or a task group too, cancels the function, and comes through when that
        has cleaned up.

        Args:
            async_fn: called in the trio thread.
            args: for the function.

        Returns:
            What the function returns.

        Raises:
            BaseException: what the function raises.
            EngineClosed: the portal is closed, or was closed before the function ended.
            RuntimeError: this thread does not run asyncio.
        """
        _refuse_in_trio()
        from tidegate.portal._loops import LoopCaller

        caller = LoopCaller()
        call = Call(caller, async_fn, args)
        thread = self._running()
        thread.start(call)
        await caller.wait(lambda: thread.cancel(call))
        return call.result()

    def engine(self, policy: Policy | None = None, **options: Unpack[EngineOptions]) -> PortalEngine:
        """An engine in this portal. It opens with its first fetch; `PortalEngine` says when it closes.

        Args:
            policy: what may be reached; by default any public host.
            options: as of `tidegate.open_engine`. They are used in the trio thread.
        """
        return PortalEngine(self.run, self.run_sync, RunLocalEngine(policy, **options))

    def close(self) -> None:
        """Close for good: calls under way end with `EngineClosed`, and their cleaning up is awaited.

        That takes five seconds at the most. Harmless if it is closed already.
        """
        with self._lock:
            self._closed = True
            thread = self._forget_thread()
        if thread is not None:
            thread.stop()

    async def aclose(self) -> None:
        """The same from asyncio, whose loop goes on meanwhile."""
        import asyncio

        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _running(self) -> TrioThread:
        with self._lock:
            if self._closed:
                raise portal_closed()
            if self._thread is None or not self._thread.is_alive:
                self._forget_thread()
                self._thread = TrioThread()
                # A portal that nobody holds any more has no calls; its thread should not outlive it.
                self._finalizer = weakref.finalize(self, self._thread.request_stop)
                self._finalizer.atexit = False
            return self._thread

    def _forget_thread(self) -> TrioThread | None:
        thread, self._thread = self._thread, None
        if self._finalizer is not None:
            self._finalizer.detach()
        return thread

    def _after_fork_in_child(self) -> None:
        """The thread is the parent's, and so may be whoever held the lock."""
        self._lock = threading.Lock()
        self._forget_thread()


_portals: weakref.WeakSet[Portal] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for portal in list(_portals):
        portal.close()


def _after_fork_in_child() -> None:
    for portal in list(_portals):
        portal._after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_after_fork_in_child)

_shared = Portal()


def shared_portal() -> Portal:
    """The one portal of this process, for whoever has no place of their own for one. Not to be closed."""
    return _shared


def _refuse_in_trio() -> None:
    try:
        trio.lowlevel.current_trio_token()
    except RuntimeError:
        return
    raise RuntimeError("this thread runs trio: await the function itself, without a portal")
