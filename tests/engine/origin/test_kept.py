"""Kept connections that are not as a pool would like them."""

import pytest
import trio
import trio.testing

from tests.engine.origin.client import in_memory, received_to_end


async def test_a_planted_response_comes_with_the_first() -> None:
    async with in_memory() as (client, _):
        await client.send("/planted")
        received = await client.stream.receive_some()
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert received.endswith(b"planted")


async def test_a_late_408_follows_on_the_idle_connection(autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, _):
        assert (await client.ask("/late-408?after=3")).content == b"asked\n"
        began = trio.current_time()
        assert (await received_to_end(client.stream)).startswith(b"HTTP/1.1 408 ")
        assert trio.current_time() - began == pytest.approx(3)


async def test_a_second_request_is_dropped_unanswered() -> None:
    async with in_memory() as (client, origin):
        await client.ask("/drop-second")
        client.start_next()
        await client.send("/drop-second")
        assert await client.stream.receive_some() == b""
        assert [request.number for request in origin.requests] == [1, 2]


async def test_an_idle_connection_is_dropped() -> None:
    async with in_memory() as (client, _):
        await client.ask("/drop-idle")
        assert await client.stream.receive_some() == b""
