"""Engines without an `async with` block around them: one a trio run, and one behind a portal."""

import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from ssl import SSLContext
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypedDict, TypeVar, Unpack

import trio

from tidegate._engine.credentials import CredentialSource
from tidegate._engine.engine import Engine, open_engine
from tidegate._engine.stream import ResponseStream
from tidegate._engine.verdict import Verdict
from tidegate._policy.events import Observer
from tidegate._policy.fields import Headers, HeadersInput
from tidegate._policy.limits import Limits
from tidegate._policy.messages import Hop, Response
from tidegate._policy.policy import Policy
from tidegate._policy.url import URL
from tidegate._wire.connect import Connector
from tidegate._wire.resolve import Resolver
from tidegate.portal._callers import in_caller

T = TypeVar("T")


class EngineOptions(TypedDict, total=False):
    """The options of `tidegate.open_engine`, which says what they mean."""

    resolver: Resolver | None
    connector: Connector | None
    observer: Observer | None
    credentials: CredentialSource | None
    tls: SSLContext | None
    max_concurrency: int
    max_concurrency_per_key: int | None
    max_concurrency_per_host: int | None
    max_idle: int


class FetchOptions(TypedDict, total=False):
    """The options of `tidegate.Engine.fetch`, which says what they mean, for callers that do not run trio.

    `authorize`, sync or async, is called in the caller's thread or loop; so are the pieces of an async
    iterable as `content` made there.
    """

    method: str
    headers: HeadersInput
    content: bytes | AsyncIterable[bytes]
    limits: Limits
    authorize: Callable[[str], bool | Awaitable[bool]] | None
    key: object


class CheckOptions(TypedDict, total=False):
    """The options of `tidegate.Engine.check`, which says what they mean, for callers that do not run trio.

    `authorize`, sync or async, is called in the caller's thread or loop.
    """

    method: str
    limits: Limits
    authorize: Callable[[str], bool | Awaitable[bool]] | None
    key: object


# --- One engine a trio run ----------------------------------------------------------------------------------


class RunLocalEngine:
    """An engine for something that is made without an event loop and outlives trio runs: a tool, say.

    Each trio run that asks for it gets an engine of its own, opened at that moment: engines cannot be shared
    between runs. It is closed as the run ends, or before that as soon as nobody holds this object any more,
    whether or not anybody thinks of it. So whoever uses an engine of it holds on to it meanwhile.

    Args:
        policy: what may be reached; by default any public host.
        options: as of `tidegate.open_engine`. What they hold is shared by all runs.
    """

    def __init__(self, policy: Policy | None = None, **options: Unpack[EngineOptions]) -> None:
        self._open = partial(open_engine, policy, **options)
        # By run, which is known by its token. No `RunVar`, whose values stay until the run ends.
        self._openings: _Openings = weakref.WeakKeyDictionary()
        weakref.finalize(self, _close_all, self._openings).atexit = False

    async def get(self) -> Engine:
        """The engine of this trio run.

        Raises:
            ValueError: an option is wrong, or there are no trust anchors; as from `tidegate.open_engine`.
        """
        run = trio.lowlevel.current_trio_token()
        opening = self._openings.get(run)
        if opening is None or opening.error is not None:
            opening = self._openings[run] = _Opening()
            # System tasks are cancelled when the main task of the run has ended, and awaited.
            trio.lowlevel.spawn_system_task(opening.hold_open, self._open)
        await opening.over.wait()
        if opening.error is not None:
            raise opening.error
        return opening.engine


class _Opening:
    """An engine that is being opened, is open, or could not be opened."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.over = trio.Event()
        self.engine: Engine
        self.error: Exception | None = None

    async def hold_open(self, open_it: Callable[[], AbstractAsyncContextManager[Engine]]) -> None:
        """A system task that knows nothing of whom it holds the engine open for."""
        with self.scope:
            async with AsyncExitStack() as stack:
                try:
                    self.engine = await stack.enter_async_context(open_it())
                # Whoever asked gets it. Out of a system task it would crash the run.
                except Exception as error:
                    self.error = error
                    return
                finally:
                    self.over.set()
                await trio.sleep_forever()


_Openings: TypeAlias = weakref.WeakKeyDictionary[trio.lowlevel.TrioToken, _Opening]


def _close_all(openings: _Openings) -> None:
    """From whatever thread, at whatever moment the garbage collector likes."""
    for run, opening in openings.items():
        with suppress(trio.RunFinishedError):
            run.run_sync_soon(opening.scope.cancel)


# --- An engine behind a portal ------------------------------------------------------------------------------


class _Run(Protocol):
    async def __call__(self, async_fn: Callable[..., Awaitable[T]], *args: object) -> T: ...


class _RunSync(Protocol):
    def __call__(self, async_fn: Callable[..., Awaitable[T]], *args: object) -> T: ...


class PortalEngine:
    """An engine behind a portal, for plain threads and for asyncio. Made by `Portal.engine`.

    It is closed with the portal, or as soon as nobody holds it, or a stream of it, any more. Everything that
    `tidegate.Engine` says holds here; cancellation is as in `Portal.run` and `run_sync`.
    """

    def __init__(self, run: _Run, run_sync: _RunSync, engine: RunLocalEngine) -> None:
        self._run = run
        self._run_sync = run_sync
        self._engine = engine

    async def fetch(self, url: str, **options: Unpack[FetchOptions]) -> Response:
        """Fetch a URL from asyncio; see `tidegate.Engine.fetch`."""
        return await self._run(self._fetch, url, _for_trio(options))

    def fetch_sync(self, url: str, **options: Unpack[FetchOptions]) -> Response:
        """Fetch a URL from a plain thread; see `tidegate.Engine.fetch`."""
        return self._run_sync(self._fetch, url, _for_trio(options))

    async def check(self, url: str, **options: Unpack[CheckOptions]) -> Verdict:
        """Say what each check makes of a URL, from asyncio; see `tidegate.Engine.check`."""
        return await self._run(self._check, url, _for_trio(options))

    def check_sync(self, url: str, **options: Unpack[CheckOptions]) -> Verdict:
        """Say what each check makes of a URL, from a plain thread; see `tidegate.Engine.check`."""
        return self._run_sync(self._check, url, _for_trio(options))

    def stream(self, url: str, **options: Unpack[FetchOptions]) -> "PortalStream":
        """Like `fetch`, for content that is read piece by piece.

        From a plain thread `with engine.stream(url) as response: for piece in response`, from asyncio
        `async with` and `async for`.
        """
        return PortalStream(self._run, self._run_sync, partial(self._enter, url, _for_trio(options)))

    async def _fetch(self, url: str, options: dict[str, Any]) -> Response:
        engine = await self._engine.get()
        return await engine.fetch(url, **options)

    async def _check(self, url: str, options: dict[str, Any]) -> Verdict:
        engine = await self._engine.get()
        return await engine.check(url, **options)

    async def _enter(self, url: str, options: dict[str, Any]) -> ResponseStream:
        engine = await self._engine.get()
        return await engine.stream(url, **options).__aenter__()


def _for_trio(options: FetchOptions | CheckOptions) -> dict[str, Any]:
    """The same options with what is the caller's called in the caller."""
    ready: dict[str, Any] = {**options}
    if (authorize := ready.get("authorize")) is not None:
        ready["authorize"] = partial(in_caller, authorize)
    content = ready.get("content")
    if isinstance(content, AsyncIterable):
        ready["content"] = _PiecesOfCaller(content)
    return ready


class _PiecesOfCaller:
    """An async iterable whose pieces are made where the caller lives."""

    def __init__(self, pieces: AsyncIterable[bytes]) -> None:
        self._pieces = aiter(pieces)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await in_caller(anext, self._pieces)


def _abandon(token: trio.lowlevel.TrioToken, stream: ResponseStream) -> None:
    with suppress(trio.RunFinishedError):
        token.run_sync_soon(stream.abandon)


class PortalStream:
    """A response under way, for plain threads (`with`) and asyncio (`async with`).

    Made by `PortalEngine.stream`. Its attributes are those of `tidegate.ResponseStream`. One that is thrown
    away within its block, with the thread or the loop that had it, closes its connection all the same.
    """

    _stream: ResponseStream

    def __init__(self, run: _Run, run_sync: _RunSync, enter: Callable[[], Awaitable[ResponseStream]]) -> None:
        self._run = run
        self._run_sync = run_sync
        self._enter = enter

    async def _open(self) -> None:
        # Noted over there: a caller that is interrupted as the call ends gets nothing back from it.
        self._stream = await self._enter()
        # A thread may end, and a task be thrown away with its loop, without leaving the block.
        self._finalizer = weakref.finalize(self, _abandon, trio.lowlevel.current_trio_token(), self._stream)
        self._finalizer.atexit = False

    async def _next(self) -> bytes:
        return await anext(self._stream, b"")

    # From asyncio ...

    async def __aenter__(self) -> Self:
        try:
            await self._run(self._open)
        except BaseException as error:
            if hasattr(self, "_stream"):
                await self._run(self._stream.__aexit__, type(error), error, None)
            raise
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if piece := await self._run(self._next):
            return piece
        raise StopAsyncIteration

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is GeneratorExit:  # the task is thrown away, its loop perhaps closed: nothing can be awaited
            self._finalizer()
        else:
            await self._run(self._stream.__aexit__, kind, error, trace)

    # From a plain thread ...

    def __enter__(self) -> Self:
        try:
            self._run_sync(self._open)
        except BaseException as error:
            if hasattr(self, "_stream"):
                self._run_sync(self._stream.__aexit__, type(error), error, None)
            raise
        return self

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if piece := self._run_sync(self._next):
            return piece
        raise StopIteration

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run_sync(self._stream.__aexit__, kind, error, trace)

    # What it says ...

    @property
    def status(self) -> int:
        """The status code."""
        return self._stream.status

    @property
    def reason_phrase(self) -> str:
        """The text beside the status."""
        return self._stream.reason_phrase

    @property
    def http_version(self) -> str:
        """The peer's version: "1.1" or "1.0"."""
        return self._stream.http_version

    @property
    def url(self) -> URL:
        """The URL of the last hop."""
        return self._stream.url

    @property
    def headers(self) -> Headers:
        """The header fields, without those that described an undone coding."""
        return self._stream.headers

    @property
    def trailers(self) -> Headers:
        """Fields after chunked content; empty before its end."""
        return self._stream.trailers

    @property
    def truncated(self) -> bool:
        """The content was cut at a cap."""
        return self._stream.truncated

    @property
    def complete(self) -> bool:
        """All content came, and something proves so; False before the end."""
        return self._stream.complete

    @property
    def codings(self) -> tuple[str, ...]:
        """The content codings that are undone."""
        return self._stream.codings

    @property
    def announced(self) -> int | None:
        """Content bytes still to come as the peer says, None if it does not or if a coding is undone."""
        return self._stream.announced

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The requests that were answered, the last one once its content is read."""
        return self._stream.hops
