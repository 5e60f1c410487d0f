"""One fetch under way: its hops, its one deadline, and the connection that it owns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from ssl import SSLContext
from traceback import clear_frames
from types import TracebackType
from typing import TYPE_CHECKING, Final

import trio

from tidegate._engine.admission import Admission
from tidegate._engine.content import ContentReader
from tidegate._engine.credentials import CredentialSource
from tidegate._engine.hop import Authorize, authorize_host, resolve_host, with_credentials
from tidegate._engine.progress import progress_of
from tidegate._policy.fields import Headers
from tidegate._policy.limits import Limits
from tidegate._policy.messages import IDEMPOTENT, Hop, Request, Response
from tidegate._policy.pin import PinnedTarget, check_addresses
from tidegate._policy.policy import Policy, check_target
from tidegate._policy.reasons import Phase
from tidegate._policy.redirect import next_request, redirect_target
from tidegate._policy.url import URL
from tidegate._wire.connect import Connector
from tidegate._wire.heads import Head
from tidegate._wire.http1 import Exchange
from tidegate._wire.pool import IDLE_TIMEOUT, Connection, Pool
from tidegate._wire.request import authenticates_connection, offers_codings, request_head
from tidegate._wire.resolve import Resolver
from tidegate._wire.tls import SessionCache, start_tls
from tidegate.errors import (
    ConnectError,
    ConnectionLost,
    DeadlineExceeded,
    EngineClosed,
    FetchError,
    MessageTooLarge,
    TooManyRedirects,
)

if TYPE_CHECKING:
    from tidegate._policy.events import Observer


@dataclass(slots=True, eq=False)
class Core:
    """What the calls of one engine share. Lives in one trio run."""

    policy: Policy
    resolver: Resolver
    connector: Connector
    tls: SSLContext
    observer: "Observer | None"
    credentials: CredentialSource | None
    admission: Admission
    pool: Pool
    sessions: SessionCache = field(default_factory=SessionCache)
    closed: bool = False
    # Those that are open, each with the scope it is in; None between the pieces of a stream.
    calls: "dict[Call, trio.CancelScope | None]" = field(default_factory=dict)
    reaper: trio.CancelScope | None = None

    def keep(self, connection: Connection, keep_alive: float | None) -> None:
        """Keep a connection for other fetches, and see that it is closed when its time is up."""
        self.pool.put(connection, trio.current_time(), keep_alive)
        if self.reaper is None and self.pool:
            self.reaper = trio.CancelScope()
            trio.lowlevel.spawn_system_task(self._reap, self.reaper)

    async def _reap(self, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                # Rather a round too many than a task a fetch: under load the pool is empty now and then.
                await trio.sleep_until(self.pool.next_expiry() or trio.current_time() + IDLE_TIMEOUT)
                self.pool.close_expired(trio.current_time())
                if not self.pool:
                    break
        self.reaper = None

    def close(self) -> None:
        """End every call with EngineClosed, and close what is idle. Never waits."""
        self.closed = True
        for call, scope in self.calls.items():
            if scope is None:
                call.hang_up()
            else:
                scope.cancel()
        self.pool.close()
        if self.reaper is not None:
            self.reaper.cancel()


class Bounded:
    """See `Call.bounded`. A class, since a generator would cost as much as the cancel scope in it."""

    __slots__ = ("_call", "_core", "_scope")

    def __init__(self, core: Core, call: "Call") -> None:
        self._core = core
        self._call = call
        self._scope = trio.CancelScope(deadline=call.deadline)

    def __enter__(self) -> None:
        if self._core.closed:
            raise _engine_closed()
        if trio.current_time() >= self._call.deadline:
            # A scope would only see it at the next wait, and a peer with plenty of data never makes us wait.
            raise self._call.deadline_exceeded()
        self._scope.__enter__()
        self._core.calls[self._call] = self._scope

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._core.calls[self._call] = None
        swallowed = bool(self._scope.__exit__(kind, error, trace))
        if self._scope.cancelled_caught:
            # Not chained: that trio cancelled us is how it was done, not why.
            raise (_engine_closed() if self._core.closed else self._call.deadline_exceeded()) from None
        if isinstance(error, MemoryError):
            # From here, as what led to it holds what there was no more room for.
            raise MessageTooLarge(
                "there is not enough memory for this fetch: lower max_content, or give the process more"
            ) from None
        return swallowed


class Call:
    """One fetch. `open` runs the hops to the final head; the content is then read through `reader`.

    Whoever makes one calls `begin` first, `finish` or `fail` once, and `close` in any case.

    Attributes:
        progress: where it is.
        head: of the final response, once `open` is done.
        reader: of its content.
    """

    head: Head
    reader: ContentReader

    def __init__(self, core: Core, limits: Limits, authorize: Authorize | None, key: object) -> None:
        self._core = core
        self._limits = limits
        self._authorize = authorize
        self._key = key
        self._deadline = trio.current_time() + limits.timeout
        self._admitted: str | None = None
        self._connection: Connection | None = None
        self._exchange: Exchange | None = None
        self._request: Request | None = None
        self.progress = progress_of(core.observer)

    # One deadline over everything (D-16) ...

    def bounded(self) -> "Bounded":
        """A block that runs a part of the fetch under its deadline and under the engine's life."""
        return Bounded(self._core, self)

    @property
    def deadline(self) -> float:
        """When the whole fetch has to be over, by the trio clock."""
        return self._deadline

    def deadline_exceeded(self) -> DeadlineExceeded:
        """The error for a deadline that has passed."""
        return DeadlineExceeded(
            f"the deadline of {self._limits.timeout:g} s passed ({_DOING[self.progress.phase]})"
        )

    def begin(self) -> None:
        """Tell the observer that a fetch was asked for, so that it hears of one that is refused, too."""
        self.progress.start(self._key)

    # Hops ...

    async def open(self, request: Request) -> None:
        """Wait for a slot, then run the hops to the final response head, every check afresh on each.

        Args:
            request: the first one, checked.
        """
        self.progress.enter(Phase.ADMIT)
        await self._core.admission.acquire(self._key, request.url.host)
        self._admitted = request.url.host
        while True:
            stays = request.url.host == self._admitted
            self.progress.start_hop(request, Phase.CHECK if stays else Phase.ADMIT)
            if not stays:
                await self._move_to(request.url.host)
            head = await self._answer(request)
            following = self._redirect(request, head)
            if following is None:
                break
            self._finish_hop()
            self._let_go()  # the content of a followed redirect is never read (pitfall 15)
            self._exchange = None
            request = following
        assert self._exchange is not None
        decode = offers_codings(request.fields)
        self.head = head
        self.reader = ContentReader(self._exchange, head, self._limits, decode=decode)
        self.progress.enter(Phase.CONTENT)

    async def _move_to(self, host: str) -> None:
        """Use the slot for the host that a redirect leads to."""
        before, self._admitted = self._admitted, None
        assert before is not None
        await self._core.admission.move(self._key, before, host)
        self._admitted = host
        self.progress.enter(Phase.CHECK)

    def _redirect(self, request: Request, head: Head) -> Request | None:
        """The request that follows, or None if this response is the final one."""
        self._request = request
        if not self._limits.max_redirects:
            return None
        locations = head.values(b"location")
        if not locations:
            return None
        self.progress.enter(Phase.REDIRECT)
        target = redirect_target(request.url, head.status, locations)
        if target is None:
            return None
        if self.progress.hop >= self._limits.max_redirects:
            raise TooManyRedirects(f"more than {self._limits.max_redirects} redirects (max_redirects)")
        return next_request(request, target, head.status, self._core.policy)

    async def _answer(self, request: Request) -> Head:
        """Everything from the checks of a hop to its response head."""
        targets = await self._pin(request)
        fields = await with_credentials(request.fields, self._core.credentials, request.url)
        message = request_head(request, fields)
        connection = self._core.pool.take(targets, trio.current_time())
        if connection is not None:
            try:
                return await self._exchange_heads(connection, request, message)
            except ConnectionLost as error:
                if not self._may_repeat(request):
                    raise
                self._drop()
                self.progress.repeat(error)
        return await self._exchange_heads(await self._connect(targets), request, message)

    def _may_repeat(self, request: Request) -> bool:
        """A kept connection that died before any byte of the response was stale: once more (D-18)."""
        assert self._exchange is not None
        replayable = request.method in IDEMPOTENT and isinstance(request.content, bytes)
        return replayable and not self._exchange.started

    async def _pin(self, request: Request) -> tuple[PinnedTarget, ...]:
        url = request.url
        reported = check_target(self._core.policy, request)
        if reported is not None:
            self.progress.report(reported)
        if self._authorize is not None:
            self.progress.enter(Phase.AUTHORIZE)
            await authorize_host(self._authorize, url)
        if url.address is None:
            self.progress.enter(Phase.RESOLVE)
        elif self._authorize is not None:
            self.progress.enter(Phase.CHECK)
        addresses = await resolve_host(self._core.resolver, url, self._key)
        return check_addresses(self._core.policy, url, addresses)

    async def _connect(self, targets: Sequence[PinnedTarget]) -> Connection:
        self.progress.enter(Phase.CONNECT)
        try:
            target, stream = await self._core.connector.connect(targets)
        except FetchError:
            raise
        except Exception as error:
            told = getattr(error, "strerror", None) or f"the connector failed ({type(error).__name__})"
            raise ConnectError(f"{targets[0].host} port {targets[0].port}: {told}") from error
        self._connection = connection = Connection(target, stream)
        if target.scheme == "https":
            self.progress.enter(Phase.TLS)
            session = self._core.sessions.get(target, trio.current_time())
            connection.stream = await start_tls(stream, self._core.tls, target.host, session)
        return connection

    async def _exchange_heads(self, connection: Connection, request: Request, message: bytes) -> Head:
        self._connection = connection
        connection.authenticated = authenticates_connection(message)
        self._exchange = Exchange(connection.stream, self._limits)
        self.progress.enter(Phase.SEND)
        await self._exchange.send(message, request.content)
        self.progress.enter(Phase.HEAD)
        head = await self._exchange.receive_head(request.method)
        if not connection.reused:
            self._core.sessions.put(connection.target, connection.stream, trio.current_time())
        return head

    # The end ...

    def finish(self, content_bytes: int) -> None:
        """The content has been read as far as it will be."""
        self._finish_hop()
        self.progress.finish(self.head.status, content_bytes, self.reader.truncated)

    def _finish_hop(self) -> None:
        request, connection, exchange = self._request, self._connection, self._exchange
        assert request is not None
        assert connection is not None
        assert exchange is not None
        assert exchange.head is not None
        hop = Hop(
            url=request.url,
            method=request.method,
            status=exchange.head.status,
            http_version=exchange.head.http_version,
            peer=str(connection.target.address),
            reused=connection.reused,
            tls_version=connection.stream.tls_version,
            tls_resumed=connection.stream.tls_resumed is True,
            timings=self.progress.timings(),
        )
        self.progress.finish_hop(hop, exchange.wire_bytes)

    def response(self, content: bytes) -> Response:
        """The response with its content, after `finish`."""
        head, reader, exchange = self.head, self.reader, self._exchange
        assert exchange is not None
        return Response(
            status=head.status,
            reason_phrase=head.reason.decode("latin-1"),
            http_version=head.http_version,
            url=self.url,
            headers=self.headers(),
            content=content,
            trailers=self.trailers(),
            truncated=reader.truncated,
            complete=reader.complete,
            codings=reader.codings,
            oddities=(*exchange.oddities, *reader.oddities),
            wire_bytes=exchange.wire_bytes,
            hops=tuple(self.progress.hops),
            duration=self.progress.duration,
        )

    def fail(self, error: BaseException | None) -> None:
        """The call ends with an error, or is cancelled or abandoned (None): its connection is not kept."""
        connection = self._connection
        self._drop()
        if isinstance(error, Exception):
            _forget_locals(error)
        self.progress.fail(error if isinstance(error, FetchError) else None, connection, self._exchange)

    @property
    def url(self) -> URL:
        """Of the last hop."""
        assert self._request is not None
        return self._request.url

    @property
    def announced(self) -> int | None:
        """Content bytes that are still to come by Content-Length."""
        return self._exchange.announced if self._exchange is not None else None

    def trailers(self) -> Headers:
        """The trailer fields, once the content has been read."""
        return Headers(self._exchange.trailers) if self._exchange is not None else Headers()

    def headers(self) -> Headers:
        """The final header fields; what described the coded content is left out once that is undone (D-3)."""
        headers = Headers(self.head.fields)
        return headers.without(_OF_CODED_CONTENT) if self.reader.codings else headers

    def close(self) -> None:
        """Give back what the fetch holds. Never waits; harmless when there is nothing."""
        self._core.calls.pop(self, None)
        self._let_go()
        if self._admitted is not None:
            host, self._admitted = self._admitted, None
            self._core.admission.release(self._key, host)

    def hang_up(self) -> None:
        """Close the connection now; whoever reads on finds the engine closed. Never waits."""
        if self._connection is not None:
            self._connection.close()

    def _let_go(self) -> None:
        """Keep the connection for others if nothing was odd about it, else close it."""
        connection, exchange = self._connection, self._exchange
        if connection is None:
            return
        if exchange is not None and exchange.head is not None and exchange.reusable and not self._core.closed:
            self._connection = None
            self._core.keep(connection, exchange.head.keep_alive)
        else:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_OF_CODED_CONTENT: Final = ("content-encoding", "content-length")

_DOING: Final = {
    Phase.ADMIT: "waiting for a free slot",
    Phase.CHECK: "checking the target",
    Phase.AUTHORIZE: "waiting for the authorization of the host",
    Phase.RESOLVE: "resolving the host",
    Phase.CONNECT: "connecting",
    Phase.TLS: "in the TLS handshake",
    Phase.SEND: "sending the request",
    Phase.HEAD: "waiting for the response head",
    Phase.REDIRECT: "following a redirect",
    Phase.CONTENT: "receiving the content",
}


def _forget_locals(error: BaseException) -> None:
    """Clear the ended frames of a traceback: some held a credential, and error reporters print locals.

    All that led to it are somebody else's, too, and may lead in a circle: `raise first from second`.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        clear_frames(current.__traceback__)
        waiting += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions


def _engine_closed() -> EngineClosed:
    return EngineClosed("the engine is closed")
