"""The origin itself: what it has seen, and how it serves the connections of its listeners."""

import contextlib
import itertools
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import h11
import trio

from tidegate.testing._background import open_background
from tidegate.testing._failures import Failures
from tidegate.testing.origin.behaviours import BEHAVIOURS, not_found
from tidegate.testing.origin.connection import Connection
from tidegate.testing.origin.exchange import Exchange
from tidegate.testing.origin.handshake import start_tls
from tidegate.testing.origin.listeners import Listener, bind
from tidegate.testing.origin.parameters import BadParameterError
from tidegate.testing.origin.request import ReceivedRequest


class Origin:
    """A running origin; made by `open_origin`.

    Attributes:
        ports: where it listens, in the order of its listeners.
        requests: every request received, the oldest dropped beyond the limit.
        served: how often each behaviour was asked for.
        accepted: how many connections there have been.
        open_connections: how many there are now.
        errors: the newest errors of the origin's own. Each has ended one connection, and has been logged at
            ERROR under `tidegate.testing`.
    """

    def __init__(self, log_limit: int) -> None:
        self.ports: tuple[int, ...] = ()
        self.requests: deque[ReceivedRequest] = deque(maxlen=log_limit)
        self.served: Counter[str] = Counter()
        self.accepted = 0
        self.open_connections = 0
        self._failures = Failures()
        self.errors = self._failures.errors
        self._a_connection_ended = trio.lowlevel.ParkingLot()

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.ports[0]

    def clear(self) -> None:
        """Forget the requests and counts so far, but not the connections."""
        self.requests.clear()
        self.served.clear()

    async def wait_all_closed(self) -> None:
        """Wait until no connection is open: a client that leaks one makes this wait for ever."""
        while self.open_connections:
            await self._a_connection_ended.park()

    async def serve_stream(self, transport: trio.abc.Stream, listener: Listener | None = None) -> None:
        """Serve one connection until it ends, as `listener` says; its address is not looked at.

        Args:
            transport: a socket stream, or one end of a memory stream pair.
            listener: plain HTTP if None.
        """
        self.accepted += 1
        self.open_connections += 1
        try:
            # A client may go away as it likes.
            went_away = contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError)
            with self._failures.kept("a connection"), went_away:
                await self._serve(transport, listener or Listener(), self.accepted)
        finally:
            self.open_connections -= 1
            self._a_connection_ended.unpark_all()
            # Last, for it raises Cancelled where the origin is being closed; it closes before it does.
            await trio.aclose_forcefully(transport)

    async def _serve(self, transport: trio.abc.Stream, listener: Listener, number: int) -> None:
        if listener.silent:
            await Connection(transport, transport, number).end("stall")
            return
        stream = transport
        if listener.tls is not None:
            stream = await start_tls(transport, listener.tls, listener.handshake)
        await self._converse(Connection(stream, transport, number))

    async def _converse(self, connection: Connection) -> None:
        for number in itertools.count(1):
            exchange = Exchange(self, connection, number)
            try:
                if not (await exchange.receive_head() and await self._answer(exchange)):
                    break
            except h11.RemoteProtocolError as error:
                await self._refuse(exchange, str(error))
                break

    def _note(self, exchange: Exchange) -> None:
        self.requests.append(exchange.request)
        self.served[exchange.name] += 1

    async def _answer(self, exchange: Exchange) -> bool:
        self._note(exchange)
        try:
            await BEHAVIOURS.get(exchange.name, not_found)(exchange)
        except BadParameterError as error:
            await exchange.read_all()
            await exchange.refuse(str(error))
        return await exchange.finish()

    async def _refuse(self, exchange: Exchange, error: str) -> None:
        exchange.request.error = error
        if not exchange.request.method:  # its head was malformed, so it has not been noted yet
            self._note(exchange)
        await exchange.refuse("")
        if exchange.connection.open:
            await exchange.connection.end("close")


async def _accept(origin: Origin, listener: Listener, tcp: trio.SocketListener) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await origin.serve_stream(stream, listener)

    await trio.serve_listeners(serve, [tcp])


@asynccontextmanager
async def open_origin(*listeners: Listener, log_limit: int = 10_000) -> AsyncIterator[Origin]:
    """Run an origin for as long as the `async with` block lasts; its connections are cut at the end.

    Args:
        listeners: plain HTTP on a port of 127.0.0.1 if there are none.
        log_limit: how many requests `Origin.requests` keeps; 0 for load tests.

    Raises:
        OSError: an address cannot be listened on.
    """
    origin = Origin(log_limit)
    async with AsyncExitStack() as stack:
        chosen = listeners or (Listener(),)
        bound = [await stack.enter_async_context(await bind(listener)) for listener in chosen]
        origin.ports = tuple(tcp.socket.getsockname()[1] for tcp in bound)
        async with open_background() as nursery:
            for listener, tcp in zip(chosen, bound, strict=True):
                nursery.start_soon(_accept, origin, listener, tcp)
            yield origin
