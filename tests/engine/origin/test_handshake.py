"""TLS, its ends, and handshakes that stall or drip."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import trio
import trio.testing

from tests.engine.origin.client import HOST, Client, ends_within_a_day, in_memory, received_to_end
from tidegate.testing.origin import HandshakeFault, Listener, Origin, issue_tls, open_origin


@dataclass(frozen=True, slots=True)
class Secure:
    """An origin's context and one of a client that trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="module")
def secure() -> Secure:
    authority, server = issue_tls(HOST)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return Secure(server, client)


@asynccontextmanager
async def over_tls(secure: Secure, listener: Listener) -> AsyncIterator[tuple[trio.SSLStream[Any], Origin]]:
    async with open_origin(listener) as origin:
        transport = await trio.open_tcp_stream("127.0.0.1", origin.port)
        async with transport:
            yield trio.SSLStream(transport, secure.client, server_hostname=HOST), origin


async def test_tls_is_spoken_and_the_name_asked_for_is_noted(secure: Secure) -> None:
    async with over_tls(secure, Listener(tls=secure.server)) as (stream, _):
        seen = (await Client(stream).ask("/echo")).json()
    assert seen["tls"] == {"version": "TLSv1.3", "server_name": HOST, "resumed": False}


@pytest.mark.parametrize(("then", "told"), [("close", True), ("cut", False), ("reset", False)])
async def test_only_an_orderly_end_sends_close_notify(secure: Secure, then: str, told: bool) -> None:
    async with over_tls(secure, Listener(tls=secure.server)) as (stream, _):
        await Client(stream).send(f"/content?size=5&framing=eof&then={then}")
        if told:
            assert (await received_to_end(stream)).endswith(b"01234")
        else:
            with pytest.raises(trio.BrokenResourceError):
                await received_to_end(stream)


@pytest.mark.parametrize("fault", [None, HandshakeFault(), HandshakeFault(after=300)])
async def test_a_handshake_can_stall_in_the_first_flight(
    secure: Secure, fault: HandshakeFault | None, autojump_clock: trio.testing.MockClock
) -> None:
    listener = Listener(tls=secure.server, silent=fault is None, handshake=fault)
    async with in_memory(listener) as (client, origin):
        stream = trio.SSLStream(client.stream, secure.client, server_hostname=HOST)
        assert not await ends_within_a_day(stream.do_handshake)
        assert origin.open_connections == 1


@pytest.mark.parametrize("listener", [Listener(silent=True), Listener(handshake=HandshakeFault())])
async def test_a_stalled_connection_ends_with_the_client(secure: Secure, listener: Listener) -> None:
    async with open_origin(replace(listener, tls=secure.server)) as origin:
        async with await trio.open_tcp_stream("127.0.0.1", origin.port) as stream:
            await stream.send_all(b"\x16")
        await origin.wait_all_closed()


@pytest.mark.parametrize("after", [1, 100, 700])
async def test_a_handshake_can_stall_at_any_byte_of_the_first_flight(secure: Secure, after: int) -> None:
    listener = Listener(tls=secure.server, handshake=HandshakeFault(after=after, then="cut"))
    async with open_origin(listener) as origin:
        received = await _server_flight(secure, origin.port)
    assert len(received) == after


async def _server_flight(secure: Secure, port: int) -> bytes:
    """All that the server sends in answer to a real ClientHello, while we say nothing more."""
    outgoing = ssl.MemoryBIO()
    handshake = secure.client.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=HOST)
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await _send_flight(stream, handshake, outgoing)
        return await received_to_end(stream)


async def test_a_handshake_can_stall_in_the_second_flight(autojump_clock: trio.testing.MockClock) -> None:
    """In TLS 1.2 the client waits for it, having answered the first."""
    authority, server = issue_tls(HOST)
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with in_memory(Listener(tls=server, handshake=HandshakeFault(flight=1))) as (client, _):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        handshake = context.wrap_bio(incoming, outgoing, server_hostname=HOST)
        await _send_flight(client.stream, handshake, outgoing)
        incoming.write(await client.stream.receive_some())
        await _send_flight(client.stream, handshake, outgoing)
        assert not await ends_within_a_day(client.stream.receive_some)


async def _send_flight(
    stream: trio.abc.SendStream, handshake: ssl.SSLObject, outgoing: ssl.MemoryBIO
) -> None:
    with pytest.raises(ssl.SSLWantReadError):
        handshake.do_handshake()
    assert outgoing.pending
    await stream.send_all(outgoing.read())


async def test_a_handshake_can_drip(secure: Secure, autojump_clock: trio.testing.MockClock) -> None:
    listener = Listener(tls=secure.server, handshake=HandshakeFault(after=20, interval=1, then="cut"))
    async with in_memory(listener) as (client, _):
        stream = trio.SSLStream(client.stream, secure.client, server_hostname=HOST)
        began = trio.current_time()
        with pytest.raises(trio.BrokenResourceError):
            await stream.do_handshake()
        assert trio.current_time() - began == pytest.approx(20)


@pytest.mark.parametrize(
    "values",
    [
        {"flight": -1},
        {"after": -5},
        {"interval": -1},
        {"interval": float("nan")},
        {"interval": float("inf")},
        {"then": "vanish"},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_when_it_is_made(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        HandshakeFault(**values)


async def test_a_session_is_resumed_when_the_client_wants_to(secure: Secure) -> None:
    async with open_origin(Listener(tls=secure.server)) as origin:
        session = None
        for resumed in (False, True):
            async with await trio.open_tcp_stream("127.0.0.1", origin.port) as transport:
                stream = trio.SSLStream(transport, secure.client, server_hostname=HOST)
                if session is not None:
                    stream.session = session
                seen = (await Client(stream).ask("/echo")).json()
                session = stream.session
            assert seen["tls"]["resumed"] is resumed
