"""TLS that never comes to content. OpenSSL reads on in a loop of its own, so what it is given is bounded."""

import ssl
from typing import Any

import pytest
import trio

import tidegate
from tests.support.engines import engine_with
from tidegate.testing.memory import MemoryConnector, Peer

# A message that a client before TLS 1.3 has to ignore during a handshake (RFC 5246 7.4.1.1), in its record.
HELLO_REQUEST = b"\x16\x03\x03\x00\x04\x00\x00\x00\x00"


async def ok(peer: Peer) -> None:
    while await peer.receive_request() is not None:
        await peer.respond(b"ok")


class Flood(MemoryConnector):
    """Sends requests to say hello before it says hello itself."""

    async def _play_over(self, target: Any, transport: trio.SocketStream) -> None:
        await transport.receive_some()
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await transport.send_all(HELLO_REQUEST * 1000)


async def test_a_handshake_without_end(nursery: trio.Nursery, client_tls: ssl.SSLContext) -> None:
    """It ends by its size, long before the deadline."""
    connector = Flood(nursery, ok)
    async with engine_with(nursery, ok, connector=connector, tls=client_tls) as (engine, _):
        with pytest.raises(tidegate.TLSError, match="262144 bytes of TLS without any content"):
            await engine.fetch("https://a.example/", limits=tidegate.Limits(timeout=600))


@pytest.mark.parametrize(("tickets", "survives"), [(2, True), (100, True), (20_000, False)])
async def test_tickets(
    tickets: int, survives: bool, nursery: trio.Nursery, server_tls: Any, client_tls: ssl.SSLContext
) -> None:
    """RFC 8446 4.6.1 sets no bound to how many a server sends after the handshake."""
    server = server_tls("a.example")
    server.num_tickets = tickets
    async with engine_with(nursery, ok, server_tls=server, tls=client_tls) as (engine, _):
        fetch = engine.fetch("https://a.example/", limits=tidegate.Limits(timeout=600))
        if survives:
            assert (await fetch).content == b"ok"
        else:
            with pytest.raises(tidegate.ConnectionLost, match="262144 bytes of TLS without any content"):
                await fetch


def test_nobody_may_renegotiate() -> None:
    """During an upload it would be waited for in vain, at full speed: OpenSSL wants to read, we to write."""
    assert tidegate.client_context().options & ssl.OP_NO_RENEGOTIATION
