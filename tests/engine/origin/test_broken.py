"""Broken ends come at the byte that was chosen, and in the way that was chosen."""

import pytest
import trio
import trio.testing

from tests.engine.origin.client import Client, ends_within_a_day, in_memory, on_sockets, received_to_end
from tests.support.descriptors import open_files, opened_since
from tidegate.testing.origin import Connection, Listener, Origin, content_of, open_origin


@pytest.mark.parametrize("after", [0, 1, 17, 1000, 60_000])
async def test_a_reset_comes_at_the_chosen_byte(after: int) -> None:
    async with on_sockets() as (client, _):
        await client.send(f"/reset?size=100000&after={after}")
        received = b""
        with pytest.raises(trio.BrokenResourceError):
            while True:
                data = await client.stream.receive_some()
                assert data, "an orderly end instead of a reset"
                received += data
    assert len(received) == after


@pytest.mark.parametrize(("then", "orderly"), [("cut", True), ("close", True), ("reset", False)])
async def test_a_cut_comes_at_the_chosen_byte(then: str, orderly: bool) -> None:
    async with on_sockets() as (client, _):
        await client.send(f"/cut?after=30&then={then}")
        if orderly:
            assert len(await received_to_end(client.stream)) == 30
        else:
            with pytest.raises(trio.BrokenResourceError):
                await received_to_end(client.stream)


async def test_a_half_close_still_reads() -> None:
    async with on_sockets() as (client, origin):
        await client.send("/half-close")
        assert (await received_to_end(client.stream)).endswith(b"good bye\n")
        for _ in range(100):
            await client.stream.send_all(bytes(10_000))
        assert origin.open_connections == 1


@pytest.mark.parametrize(("said", "sent"), [(10, 4), (4, 10), (0, 3), (10, 10)])
async def test_a_length_can_lie(said: int, sent: int) -> None:
    async with in_memory() as (client, _):
        await client.send(f"/wrong-length?said={said}&sent={sent}")
        head, _, content = (await received_to_end(client.stream)).partition(b"\r\n\r\n")
    assert f"Content-Length: {said}".encode() in head
    assert content == content_of(sent)


async def test_raw_bytes_are_sent_as_they_are(autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, _):
        await client.send("/raw?bytes=ICY%20200%0A&bytes=%00%FF&interval=2")
        began = trio.current_time()
        assert await received_to_end(client.stream) == b"ICY 200\n\x00\xff"
        assert trio.current_time() - began == pytest.approx(4)


async def test_an_unknown_end_is_refused() -> None:
    async with in_memory() as (client, _):
        await client.send("/raw?then=vanish")
        assert b"then=vanish is unknown" in await received_to_end_of_answer(client)


async def received_to_end_of_answer(client: Client) -> bytes:
    return (await client.receive()).content


@pytest.mark.parametrize("then", ["stall", "close", "reset"])
async def test_an_early_answer_comes_before_the_content(then: str) -> None:
    async with on_sockets(Listener(receive_buffer=4096)) as (client, origin):
        await client.stream.send_all(
            f"POST /early?then={then} HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n".encode()
        )
        answer = await client.stream.receive_some()
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert not origin.requests[0].complete


async def test_a_stalled_upload_blocks(autojump_clock: trio.testing.MockClock) -> None:
    """In lockstep nothing is buffered, so what is not read cannot be sent."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Origin(log_limit=0).serve_stream, theirs)
        await ours.send_all(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
        assert (await ours.receive_some()).startswith(b"HTTP/1.1 413 ")
        assert await ours.receive_some() == b"too large\n"
        assert not await ends_within_a_day(ours.send_all, b"too large")
        nursery.cancel_scope.cancel()


async def test_a_stalled_upload_ends_with_the_client() -> None:
    async with open_origin(Listener(receive_buffer=4096)) as origin:
        async with await trio.open_tcp_stream("127.0.0.1", origin.port) as stream:
            await stream.send_all(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\ntoo")
            await stream.receive_some()
        await origin.wait_all_closed()


async def test_stalls_end_one_by_one_each_with_its_client() -> None:
    """They share what hears of it, which goes with the last and comes again with the next."""
    async with open_origin(Listener(silent=True)) as origin:
        before = open_files()
        for _ in range(2):
            clients = [await trio.open_tcp_stream("127.0.0.1", origin.port) for _ in range(3)]
            for left, client in reversed(list(enumerate(clients))):
                await client.send_all(b"never read")
                await client.aclose()
                with trio.fail_after(5):
                    while origin.open_connections > left:
                        await trio.testing.wait_all_tasks_blocked()
                assert origin.open_connections == left
            assert not opened_since(before)


@pytest.mark.parametrize("size", [8_000, 16_000, 40_000])
async def test_a_reset_is_over_when_the_client_has_left_bytes_unacknowledged(size: int) -> None:
    """What the client's kernel has no room for lies in the origin's, and stays there for good."""
    async with open_origin() as origin:
        sock = trio.socket.socket()
        sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 2304)
        await sock.connect(("127.0.0.1", origin.port))
        async with trio.SocketStream(sock) as stream:
            await Client(stream).send(f"/reset?size={size}&after={size}")
            while not origin.served["reset"]:
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(5):
            await origin.wait_all_closed()


async def test_an_end_is_reported_by_the_connection() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    connection = Connection(theirs, theirs, 1)
    seen = []
    for how in ("keep", "close"):
        await connection.end(how)
        seen.append(connection.open)
    assert seen == [True, False]
    assert await ours.receive_some() == b""
