"""The server's half of a TLS handshake, good or spoilt."""

import itertools
import ssl

import trio

from tidegate.testing.origin.connection import Connection, asked_server_name
from tidegate.testing.origin.listeners import HandshakeFault


async def start_tls(
    transport: trio.abc.Stream, context: ssl.SSLContext, fault: HandshakeFault | None
) -> trio.abc.Stream:
    """Speak TLS over `transport`.

    Raises:
        trio.BrokenResourceError: the handshake failed, or was spoilt.
    """
    context.sni_callback = _note_server_name
    spoilt = transport if fault is None else _SpoiltTransport(transport, fault)
    stream = trio.SSLStream(spoilt, context, server_side=True)
    await stream.do_handshake()
    return stream


def _note_server_name(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
    asked_server_name.set(name)


class _SpoiltTransport(trio.abc.Stream):
    """Lets the server's TLS flights through, up to the one that the fault names.

    trio.SSLStream hands over each flight of a handshake in one `send_all`, so counting calls counts flights.
    """

    def __init__(self, transport: trio.abc.Stream, fault: HandshakeFault) -> None:
        self._transport = transport
        self._fault = fault
        self._flights = itertools.count()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if next(self._flights) < self._fault.flight:
            await self._transport.send_all(data)
            return
        connection = Connection(self._transport, self._transport, 0)
        await connection.send_slowly(bytes(data[: self._fault.after]), self._fault.interval)
        await connection.end(self._fault.then)
        raise trio.BrokenResourceError("this handshake was spoilt on purpose")

    async def wait_send_all_might_not_block(self) -> None:
        await self._transport.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._transport.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._transport.aclose()
