"""Slowness, on a fake clock: every interval is exact."""

import pytest
import trio
import trio.testing

from tests.engine.origin.client import Client, ends_within_a_day, in_memory
from tidegate.testing.origin import Origin, content_of, open_origin

INTERIM = b"HTTP/1.1 103 Interim\r\nX-Interim: yes\r\n\r\n"


@pytest.mark.parametrize(
    ("target", "seconds"),
    [
        ("/content?delay=3", 3),
        ("/drip-content?size=10&interval=0.5", 5),
        ("/drip-content?size=10&chunk=5&interval=0.5", 1),
        ("/drip-content?size=4&interval=1&framing=chunked", 4),
        ("/drip-interim?count=7&interval=2", 14),
        ("/drip-chunk-size?count=2&interval=1", 40),
        ("/endless-head?count=5&interval=3", 15),
        ("/endless-redirects?interval=4", 4),
        ("/content?interval=2&chunk=100", 20),
        ("/slow-reader?interval=1", 1),
    ],
)
async def test_intervals_and_counts_are_exact(
    target: str, seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    async with in_memory() as (client, _):
        began = trio.current_time()
        await client.ask(target)
        assert trio.current_time() - began == pytest.approx(seconds)


async def test_a_dripped_head_comes_byte_by_byte(autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, _):
        began = trio.current_time()
        await client.send("/drip-head?interval=1")
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = await client.stream.receive_some()
            head += piece
            assert len(piece) == 1
            assert trio.current_time() - began == pytest.approx(len(head))


async def test_a_hold_never_answers(autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, origin):
        await client.send("/hold")
        assert not await ends_within_a_day(client.stream.receive_some)
        assert origin.open_connections == 1


async def test_a_hold_ends_with_the_client() -> None:
    async with open_origin() as origin:
        async with await trio.open_tcp_stream("127.0.0.1", origin.port) as stream:
            await Client(stream).send("/hold")
        await origin.wait_all_closed()


@pytest.mark.parametrize(("size", "seconds"), [(1, 1000), (100, 10), (300, 4), (1000, 1), (5000, 1)])
async def test_a_slow_reader_takes_its_time(
    size: int, seconds: int, autojump_clock: trio.testing.MockClock
) -> None:
    """For what came along with the head too; the last look finds the end."""
    async with in_memory() as (client, _):
        began = trio.current_time()
        answer = await client.ask(f"/slow-reader?size={size}&interval=1", "POST", bytes(1000))
        assert answer.json() == {"received": 1000}
        assert trio.current_time() - began == pytest.approx(seconds + 1)


async def test_a_slow_reader_takes_a_byte_at_each_interval(autojump_clock: trio.testing.MockClock) -> None:
    """In lockstep nothing is buffered: a client's `send_all` returns when its bytes are taken."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Origin(log_limit=0).serve_stream, theirs)
        await ours.send_all(
            b"POST /slow-reader?size=1&interval=3 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
        )
        began = trio.current_time()
        await ours.send_all(b"012345")
        assert trio.current_time() - began == pytest.approx(18)
        nursery.cancel_scope.cancel()


TEN_MINUTES = 600


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/drip-content?size=endless&interval=1", TEN_MINUTES),
        ("/drip-content?size=endless&interval=1&framing=eof", TEN_MINUTES),
        ("/drip-content?size=endless&interval=1&framing=chunked", 6 * TEN_MINUTES),
        ("/drip-content?size=1000000000000000&interval=1", TEN_MINUTES),
        ("/drip-content?size=endless&interval=60&chunk=1000", 10_000),
        ("/drip-head?padding=endless&interval=1", TEN_MINUTES),
        ("/drip-head?padding=1000000000000000&interval=1", TEN_MINUTES),
        ("/drip-head?padding=endless&interval=1&bytes=7", 7 * TEN_MINUTES),
        ("/drip-chunk-size?count=endless&interval=1", TEN_MINUTES // 20 * 38),
        ("/drip-interim?count=endless&interval=1", len(INTERIM) * TEN_MINUTES),
        ("/endless-field?size=1&interval=1", TEN_MINUTES),
    ],
)
async def test_a_drip_can_go_on_without_end(
    target: str, expected: int, autojump_clock: trio.testing.MockClock
) -> None:
    """And at the same rate for ever. A size that cannot be built is none that is built."""
    async with in_memory() as (client, _):
        await client.send(target)
        await received_for(TEN_MINUTES + 0.5, client.stream)
        for _ in range(3):
            assert len(await received_for(TEN_MINUTES, client.stream)) == pytest.approx(expected, abs=20)


async def received_for(seconds: float, stream: trio.abc.ReceiveStream) -> bytes:
    received = b""
    with trio.move_on_after(seconds):
        while True:
            data = await stream.receive_some()
            assert data, "an end"
            received += data
    return received


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_dripped_head_can_be_padded(size: int, autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, _):
        answer = await client.ask(f"/drip-head?padding=50&interval=1&bytes={size}")
    assert (answer.values("x-pad"), answer.content) == ([content_of(50).decode()], b"slow\n")


@pytest.mark.parametrize("said", ["endless", "1000000000000000"])
async def test_a_huge_size_is_announced(said: str) -> None:
    async with in_memory() as (client, _):
        await client.send(f"/drip-content?size={said}")
        head = await client.stream.receive_some()
    announced = head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
    assert announced.decode() == (str(1 << 62) if said == "endless" else said)
