"""An error of a server's own ends one connection, is told, and ends no other."""

import logging

import pytest
import trio
import trio.testing

from tests.engine.origin.client import Client
from tidegate.testing.dns import DnsServer
from tidegate.testing.origin import Origin, open_origin


def failing_stream() -> tuple[trio.abc.Stream, RuntimeError]:
    """A connection on which the server meets an error that no client can be blamed for."""
    error = RuntimeError("no client can be blamed for this")

    async def fail() -> None:
        raise error

    _, theirs = trio.testing.memory_stream_pair()
    assert isinstance(theirs.receive_stream, trio.testing.MemoryReceiveStream)
    theirs.receive_stream.receive_some_hook = fail
    return theirs, error


@pytest.mark.parametrize("kind", ["origin", "dns"])
async def test_an_error_ends_one_connection_and_is_told(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Origin(log_limit=0) if kind == "origin" else DnsServer({})
    serve = server.serve_stream if isinstance(server, Origin) else server.serve_tcp
    stream, error = failing_stream()
    await serve(stream)
    assert list(server.errors) == [error]
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("tidegate.testing", logging.ERROR)
    assert record.exc_info is not None
    assert record.exc_info[1] is error


async def test_other_connections_go_on() -> None:
    async with open_origin() as origin, await trio.open_tcp_stream("127.0.0.1", origin.port) as stream:
        client = Client(stream)
        await client.ask("/content?size=3")
        await origin.serve_stream(failing_stream()[0])
        client.start_next()
        assert (await client.ask("/content?size=3")).content == b"012"
        assert origin.open_connections == 1
