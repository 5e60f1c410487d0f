"""One connection and every way to end it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar

import trio

from tidegate.testing.origin.content import BLOCK_SIZE, split
from tidegate.testing.origin.kernel import reset_when_closed, tcp_socket, wait_until_hung_up, wait_until_sent
from tidegate.testing.origin.parameters import ENDS, one_of

asked_server_name: ContextVar[str | None] = ContextVar("asked_server_name", default=None)
"""The name in the ClientHello of the connection that the current task serves."""


class Connection:
    """One accepted connection: bytes in, bytes out, and every way to end it.

    Attributes:
        number: which connection of this origin, from 1.
        open: False once this side has ended it.
        unparsed: bytes that came behind the last request.
    """

    def __init__(self, stream: trio.abc.Stream, transport: trio.abc.Stream, number: int) -> None:
        self._stream = stream
        self._transport = transport
        self._socket = tcp_socket(transport)
        self.number = number
        self.open = True
        self.unparsed = b""

    async def send(self, data: bytes) -> None:
        """Send all of `data`."""
        await self._stream.send_all(data)

    async def send_pieces(self, pieces: Iterable[bytes], interval: float) -> None:
        """Send each of `pieces`, `interval` seconds before each."""
        for piece in pieces:
            await trio.sleep(interval)
            await self._stream.send_all(piece)

    async def send_slowly(self, data: bytes, interval: float, size: int = 1) -> None:
        """Send `data` in pieces of `size` bytes, `interval` seconds before each; at once if that is 0."""
        await self.send_pieces(split(data, size if interval else len(data) or 1), interval)

    async def receive(self, max_bytes: int = BLOCK_SIZE) -> bytes:
        """What has arrived, at most `max_bytes`; nothing at the end of the stream."""
        return bytes(await self._stream.receive_some(max_bytes))

    async def end(self, how: str) -> None:
        """End the connection as `then` says, see `tidegate.testing.origin`; returns when it is over.

        Raises:
            BadParameterError: there is no such way.
        """
        ways: Mapping[str, Callable[[], Awaitable[None]]] = {
            "keep": trio.lowlevel.checkpoint,
            "close": self._stream.aclose,
            "cut": self._cut,
            "reset": self._reset,
            "half-close": self._half_close,
            "hold": self._hold,
            "stall": self._stall,
        }
        way = ways[one_of("then", how, ENDS)]
        self.open = how == "keep"
        await way()

    # Memory streams and socket pairs know neither resets nor hang-ups: cut instead, and held for ever.

    async def _cut(self) -> None:
        await trio.aclose_forcefully(self._transport)

    async def _reset(self) -> None:
        if self._socket is not None:
            # A reset throws away what is still queued, and the client is to get every byte before it.
            await wait_until_sent(self._socket)
            reset_when_closed(self._socket)
        await self._cut()

    async def _half_close(self) -> None:
        if isinstance(self._transport, trio.abc.HalfCloseableStream):
            await self._transport.send_eof()
        await self._hold()

    async def _hold(self) -> None:
        # Reading is how the client's end is seen; what it says is dropped.
        while await self.receive():
            pass
        await self._cut()

    async def _stall(self) -> None:
        if self._socket is None:
            await trio.sleep_forever()
        await wait_until_hung_up(self._socket)
        await self._cut()

    def describe_tls(self) -> dict[str, object] | None:
        """Version, server name asked for and whether the session was resumed; None without TLS."""
        if not isinstance(self._stream, trio.SSLStream):
            return None
        return {
            "version": self._stream.version(),
            "server_name": asked_server_name.get(),
            "resumed": self._stream.session_reused,
        }
