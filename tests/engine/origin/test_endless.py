"""What has no end goes on, and ends with the client."""

import pytest
import trio
import trio.testing

from tests.engine.origin.client import Client
from tidegate.testing.origin import open_origin


@pytest.mark.parametrize(
    "target",
    [
        "/endless-head",
        "/endless-field",
        "/endless-content",
        "/endless-content?framing=chunked&chunk=1000",
        "/endless-content?framing=length",
        "/endless-chunks",
        "/endless-extensions",
        "/endless-trailers",
        "/endless-interim",
        "/wrong-length?sent=9999999999999999999",
        f"/reset?size={10**15}&after={10**15}",
        f"/cut?size={10**15}&framing=chunked",
        f"/gzip-members?count={10**15}",
        f"/gzip-name?size={10**15}",
    ],
)
async def test_what_has_no_end_goes_on_and_stops_with_the_client(target: str) -> None:
    async with open_origin() as origin:
        async with await trio.open_tcp_stream("127.0.0.1", origin.port) as stream:
            await Client(stream).send(target)
            received = 0
            while received < 1 << 22:
                data = await stream.receive_some()
                assert data
                received += len(data)
        await origin.wait_all_closed()
