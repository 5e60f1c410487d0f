"""Engines without an `async with` block around them: one a trio run, and one behind a portal."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from ssl import SSLContext
from types import TracebackType
from typing import Any, Protocol, Self, TypedDict, TypeVar, Unpack

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


# --- One engine a trio run ----------------------------------------------------------------------------------


class RunLocalEngine:
    """An engine for something that is made without an event loop and outlives trio runs: a tool, say.

    Each trio run that asks for it gets an engine of its own, opened at that moment and closed as the run
    ends, whether or not anybody thinks of it: engines cannot be shared between runs.

    Args:
        policy: what may be reached; by default any public host.
        options: as of `tidegate.open_engine`. What they hold is shared by all runs.
    """

    def __init__(self, policy: Policy | None = None, **options: Unpack[EngineOptions]) -> None:
        self._open = partial(open_engine, policy, **options)
        self._opening: trio.lowlevel.RunVar[_Opening | None] = trio.lowlevel.RunVar("tidegate engine", None)

    async def get(self) -> Engine:
        """The engine of this trio run.

        Raises:
            ValueError: an option is wrong, or there are no trust anchors; as from `tidegate.open_engine`.
        """
        opening = self._opening.get()
        if opening is None or opening.error is not None:
            opening = _Opening()
            self._opening.set(opening)
            # System tasks are cancelled when the main task of the run has ended, and awaited.
            trio.lowlevel.spawn_system_task(self._hold_open, opening)
        await opening.over.wait()
        if opening.error is not None:
            raise opening.error
        return opening.engine

    async def _hold_open(self, opening: "_Opening") -> None:
        async with AsyncExitStack() as stack:
            try:
                opening.engine = await stack.enter_async_context(self._open())
            # Whoever asked gets it. Out of a system task it would crash the run.
            except Exception as error:
                opening.error = error
                return
            finally:
                opening.over.set()
            await trio.sleep_forever()


class _Opening:
    """An engine that is being opened, is open, or could not be opened."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.engine: Engine
        self.error: Exception | None = None


# --- An engine behind a portal ------------------------------------------------------------------------------


class _Run(Protocol):
    async def __call__(self, async_fn: Callable[..., Awaitable[T]], *args: object) -> T: ...


class _RunSync(Protocol):
    def __call__(self, async_fn: Callable[..., Awaitable[T]], *args: object) -> T: ...


class PortalEngine:
    """An engine behind a portal, for plain threads and for asyncio. Made by `Portal.engine`.

    Everything that `tidegate.Engine` says holds here; cancellation is as in `Portal.run` and `run_sync`.
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

    async def check(self, url: str, *, method: str = "GET") -> Verdict:
        """Say what each check makes of a URL, from asyncio; see `tidegate.Engine.check`."""
        return await self._run(self._check, url, method)

    def check_sync(self, url: str, *, method: str = "GET") -> Verdict:
        """Say what each check makes of a URL, from a plain thread; see `tidegate.Engine.check`."""
        return self._run_sync(self._check, url, method)

    def stream(self, url: str, **options: Unpack[FetchOptions]) -> "PortalStream":
        """Like `fetch`, for content that is read piece by piece.

        From a plain thread `with engine.stream(url) as response: for piece in response`, from asyncio
        `async with` and `async for`.
        """
        return PortalStream(self._run, self._run_sync, partial(self._enter, url, _for_trio(options)))

    async def _fetch(self, url: str, options: dict[str, Any]) -> Response:
        engine = await self._engine.get()
        return await engine.fetch(url, **options)

    async def _check(self, url: str, method: str) -> Verdict:
        engine = await self._engine.get()
        return await engine.check(url, method=method)

    async def _enter(self, url: str, options: dict[str, Any]) -> ResponseStream:
        engine = await self._engine.get()
        return await engine.stream(url, **options).__aenter__()


def _for_trio(options: FetchOptions) -> dict[str, Any]:
    """The same options with what is the caller's called in the caller."""
    ready: dict[str, Any] = {**options}
    if (authorize := options.get("authorize")) is not None:
        ready["authorize"] = partial(in_caller, authorize)
    content = options.get("content")
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


class PortalStream:
    """A response under way, for plain threads (`with`) and asyncio (`async with`).

    Made by `PortalEngine.stream`. Its attributes are those of `tidegate.ResponseStream`.
    """

    _stream: ResponseStream

    def __init__(self, run: _Run, run_sync: _RunSync, enter: Callable[[], Awaitable[ResponseStream]]) -> None:
        self._run = run
        self._run_sync = run_sync
        self._enter = enter

    async def _open(self) -> None:
        # Noted over there: a caller that is interrupted as the call ends gets nothing back from it.
        self._stream = await self._enter()

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
