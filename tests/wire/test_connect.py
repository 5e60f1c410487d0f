"""Connecting over real sockets on loopback, which only an operator's rule makes possible (D-7, D-12)."""

import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from ipaddress import ip_address
from typing import Any

import pytest
import trio

import tidegate
from tests.support.descriptors import open_files, opened_since
from tests.support.engines import AnyHost
from tidegate._policy.pin import check_addresses
from tidegate._wire import connect

ADMITTED = tidegate.Policy(
    private_ranges=[
        tidegate.PrivateRange("127.0.0.0/8", ["a.example"]),
        tidegate.PrivateRange("::1/128", ["a.example"]),
    ]
)


def pinned(port: int, *addresses: str, policy: tidegate.Policy = ADMITTED) -> Sequence[tidegate.PinnedTarget]:
    url = tidegate.parse_url(f"http://a.example:{port}/")
    return check_addresses(policy, url, [ip_address(address) for address in addresses])


@asynccontextmanager
async def listening(*addresses: str, port: int = 0) -> AsyncIterator[int]:
    """Listeners that answer one request each with their own address."""

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some(65536)
        name = stream.socket.getsockname()[0].encode()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(name), name))

    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        for address in addresses:
            listeners = await trio.open_tcp_listeners(port, host=address)
            port = listeners[0].socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, answer, listeners)
        yield port
        nursery.cancel_scope.cancel()


@contextmanager
def black_hole(port: int = 0) -> Iterator[tuple[str, int]]:
    """An address that lets connections hang: a listener whose queue is full drops every SYN."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.9", port))
        listener.listen(0)
        stuffing = []
        for _ in range(3):
            stuffing.append(socket.socket())
            stuffing[-1].setblocking(False)
            stuffing[-1].connect_ex(listener.getsockname())
        try:
            yield listener.getsockname()
        finally:
            for sock in stuffing:
                sock.close()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def peer_of(*addresses: str, port: int) -> str:
    target, stream = await tidegate.TCPConnector().connect(pinned(port, *addresses))
    stream.close()
    return str(target.address)


async def test_first_address_is_used() -> None:
    async with listening("127.0.0.1", "127.0.0.2") as port:
        assert await peer_of("127.0.0.2", "127.0.0.1", port=port) == "127.0.0.2"


async def test_next_address_at_once_when_one_refuses() -> None:
    """AMB-81: in resolver order; a refusal does not wait for the stagger."""
    async with listening("127.0.0.1") as port:
        started = trio.current_time()
        assert await peer_of("127.0.0.2", "127.0.0.3", "127.0.0.1", port=port) == "127.0.0.1"
        assert trio.current_time() - started < connect.STAGGER


async def test_next_address_when_one_does_not_answer() -> None:
    """connect-next-address-after-timeout: a black hole costs the stagger, not the deadline."""
    with black_hole() as (hole, port):
        async with listening("127.0.0.1", port=port):
            started = trio.current_time()
            assert await peer_of(hole, "127.0.0.1", port=port) == "127.0.0.1"
            assert connect.STAGGER <= trio.current_time() - started < 10 * connect.STAGGER


async def test_both_families_are_tried() -> None:
    async with listening("::1") as port:
        assert await peer_of("127.0.0.2", "::1", port=port) == "::1"


async def test_families_alternate() -> None:
    """RFC 8305 4: one broken family costs one attempt, not all of them."""
    targets = pinned(80, "127.0.0.1", "127.0.0.2", "127.0.0.3", "::1")
    order = [str(target.address) for target in connect._interleaved(targets)]
    assert order == ["127.0.0.1", "::1", "127.0.0.2", "127.0.0.3"]


async def test_nobody_answers() -> None:
    port = free_port()
    for addresses in (["127.0.0.1"], ["127.0.0.1", "127.0.0.2", "::1"]):
        with pytest.raises(tidegate.ConnectError, match="Connection refused"):
            await peer_of(*addresses, port=port)


async def test_hundreds_of_addresses_cost_a_few_attempts() -> None:
    before = open_files()
    with pytest.raises(tidegate.ConnectError):
        await peer_of(*(f"127.0.1.{n}" for n in range(1, 250)), port=free_port())
    assert not opened_since(before)


async def test_no_more_file_descriptors() -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    targets = pinned(80, "127.0.0.1")
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(tidegate.ConnectError, match="Too many open files"):
            await tidegate.TCPConnector().connect(targets)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("addresses", [["127.0.0.9"], ["127.0.0.9", "127.0.0.1"]])
async def test_cancelled_while_connecting(addresses: list[str]) -> None:
    with black_hole() as (_, port):
        before = open_files()
        with trio.move_on_after(0.4) as scope:
            await peer_of(*["127.0.0.9"] * len(addresses), "127.0.0.9", port=port)
        assert scope.cancelled_caught
        assert not opened_since(before)


async def fetch(port: int, policy: tidegate.Policy, address: str = "127.0.0.1") -> tidegate.Response:
    async with tidegate.open_engine(policy, resolver=AnyHost(address)) as engine:
        return await engine.fetch(f"http://a.example:{port}/")


async def test_an_operators_rule_reaches_loopback() -> None:
    """D-12: the demonstration's and the tests' way in, the same one that operators have."""
    async with listening("127.0.0.1") as port:
        assert (await fetch(port, ADMITTED)).content == b"127.0.0.1"


async def test_self(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-7: a peer that turns out to be this machine is refused, whatever its address is called.

    The address counts as public for this test alone: no public address of this machine can be had here.
    """
    from tidegate._policy import pin

    monkeypatch.setattr(pin, "classify_address", lambda _: tidegate.AddressClass.GLOBAL)
    async with listening("127.0.0.1") as port:
        for addresses in (["127.0.0.1"], ["127.0.0.1", "127.0.0.2"]):
            targets = pinned(port, *addresses, policy=tidegate.Policy())
            with pytest.raises(tidegate.AddressDenied) as caught:
                await tidegate.TCPConnector().connect(targets)
            assert tidegate.Reason.SELF is caught.value.reason
        assert (await fetch(port, ADMITTED)).content == b"127.0.0.1"


async def test_peer_must_be_the_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    """W-120: whatever lies between, a connection that ends elsewhere is closed before a byte is sent."""
    real = connect._connect
    async with listening("127.0.0.1", "127.0.0.2") as port:

        async def diverted(sock: Any, address: Any) -> None:
            await real(sock, ("127.0.0.2", address[1]))

        monkeypatch.setattr(connect, "_connect", diverted)
        with pytest.raises(tidegate.ConnectError, match="did not lead to the validated address"):
            await peer_of("127.0.0.1", port=port)
