"""The network replaced by scripts: a connector whose peers are functions in your test.

Everything but TCP runs for real, the floor and TLS included: a connection is one end of a socket pair, and
what a peer does is written in the test itself. Works under `trio.testing.MockClock`, so that hours cost
nothing and times are exact.
"""

import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from tidegate._policy.pin import PinnedTarget
from tidegate._wire.stream import Stream
from tidegate.errors import ConnectError


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request as a peer saw it on the wire."""

    line: str
    fields: tuple[tuple[str, str], ...]
    content: bytes

    def field(self, name: str) -> str | None:
        """The value of a field, names compared without case; None if it is not there."""
        return next((value for key, value in self.fields if key.lower() == name.lower()), None)


class Peer:
    """The far end of one connection, in the hands of a script.

    Attributes:
        target: what the engine pinned and believes it is connected to.
        stream: for whatever the methods do not do.
    """

    def __init__(self, target: PinnedTarget, stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]):
        self.target = target
        self.stream = stream
        self._buffer = b""

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self.stream.send_all(data)

    async def receive_some(self) -> bytes:
        """The next bytes, b"" once the client closed."""
        received, self._buffer = self._buffer, b""
        # Little at a time, so that there is room for it where a test takes the memory of this process away.
        return received or bytes(await self.stream.receive_some(4096))

    async def receive_head(self) -> bytes | None:
        """The bytes of a request head, its blank line included; None if the client closed before it."""
        received = b""
        while b"\r\n\r\n" not in received:
            more = await self.receive_some()
            if not more:
                return None
            received += more
        head, _, self._buffer = received.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n"

    async def receive_request(self) -> ReceivedRequest | None:
        """A whole request with its content by length; None if the client closed before its end."""
        head = await self.receive_head()
        if head is None:
            return None
        line, *lines = head.decode("ascii").rstrip("\r\n").split("\r\n")
        fields = tuple((name, value.strip()) for name, _, value in (text.partition(":") for text in lines))
        request = ReceivedRequest(line, fields, b"")
        length = int(request.field("content-length") or 0)
        content = b""
        while len(content) < length:
            more = await self.receive_some()
            if not more:
                return None
            content += more
        self._buffer = content[length:]
        return ReceivedRequest(line, fields, content[:length])

    async def respond(
        self, content: bytes = b"", *, status: str = "200 OK", fields: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Send a response with a Content-Length."""
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields)]
        lines.append(f"Content-Length: {len(content)}")
        await self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + content)

    async def until_closed(self) -> bytes:
        """Whatever still comes, until the client closes."""
        received = b""
        while more := await self.receive_some():
            received += more
        return received

    def cut(self) -> None:
        """End the connection without a TLS close_notify."""
        transport = self.stream.transport_stream if isinstance(self.stream, trio.SSLStream) else self.stream
        transport.socket.close()


Script: TypeAlias = Callable[[Peer], Awaitable[None]]


@dataclass
class MemoryConnector:
    """A `Connector` that joins every connection to a script.

    Args:
        nursery: where the scripts run.
        script: run once a connection; the connection is closed after it. `peer.target` tells whom it plays.
        tls: the server context for https targets, from trustme say.
        unreachable: addresses that refuse a connection.

    Attributes:
        connected: the targets that were connected to, in order: what a test of the floor looks at.
    """

    nursery: trio.Nursery
    script: Script
    tls: ssl.SSLContext | None = None
    unreachable: frozenset[str] = frozenset()
    connected: list[PinnedTarget] = field(default_factory=list)
    open_connections: int = 0

    async def connect(self, targets: Sequence[PinnedTarget]) -> tuple[PinnedTarget, Stream]:
        """See `tidegate.Connector`."""
        await trio.lowlevel.checkpoint()
        for target in targets:
            if str(target.address) not in self.unreachable:
                break
        else:
            raise ConnectError(f"{targets[0].host} port {targets[0].port}: Connection refused")
        near, far = socket.socketpair()
        near.setblocking(False)
        self.connected.append(target)
        self.nursery.start_soon(self._play, target, far)
        return target, Stream(near)

    async def _play(self, target: PinnedTarget, sock: socket.socket) -> None:
        self.open_connections += 1
        try:
            async with trio.SocketStream(trio.socket.from_stdlib_socket(sock)) as transport:
                await self._play_over(target, transport)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the engine hung up on the script, which is its right
        finally:
            self.open_connections -= 1

    async def _play_over(self, target: PinnedTarget, transport: trio.SocketStream) -> None:
        if target.scheme == "http":
            await self.script(Peer(target, transport))
            return
        if self.tls is None:
            raise ValueError("MemoryConnector needs a TLS server context for https targets")
        async with trio.SSLStream(transport, self.tls, server_side=True) as stream:
            await stream.do_handshake()
            await self.script(Peer(target, stream))
