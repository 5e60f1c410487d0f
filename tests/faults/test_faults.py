"""Every fault of the table: the error, its phase and its time, and that nothing is left behind.

After each of them the same engine, which has a single slot, serves a healthy fetch at once; and once it is
closed there are no more file descriptors and tasks than before.
"""

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
import trio.testing
import trustme

import tidegate
from tests.faults.fault import BAD, HEALTHY, TIMEOUT, Failure, LoopbackFault, MemoryFault
from tests.faults.handshakes import good_server
from tests.faults.table import LOOPBACK_FAULTS, MEMORY_FAULTS
from tests.support.descriptors import open_files, opened_since
from tests.support.engines import AnyHost
from tidegate.testing.dns import open_dns_server
from tidegate.testing.memory import MemoryConnector, Peer
from tidegate.testing.origin import Listener, open_background, open_origin


class FaultyNetwork(MemoryConnector):
    """Leads to the fault, and for the healthy host to a good peer."""

    def __init__(self, nursery: trio.Nursery, fault: MemoryFault, authority: trustme.CA) -> None:
        self._fault = fault
        self._authority = authority
        make = fault.server or good_server
        super().__init__(nursery, self._play_script, make(authority) if fault.scheme == "https" else None)

    def mend(self, nursery: trio.Nursery) -> None:
        """Good peers from now on."""
        self.nursery = nursery
        self.tls = good_server(self._authority)

    async def _play_over(self, target: tidegate.PinnedTarget, transport: trio.SocketStream) -> None:
        if target.host == BAD and self._fault.wire is not None:
            assert self.tls is not None
            await self._fault.wire(transport, self.tls)
            return
        with suppress(ssl.SSLError):  # a client that refuses the handshake
            await super()._play_over(target, transport)

    async def _play_script(self, peer: Peer) -> None:
        if peer.target.host == HEALTHY or self._fault.script is None:
            while await peer.receive_request() is not None:
                await peer.respond(b"healthy")
        else:
            await self._fault.script(peer)


class Names:
    """Asks one resolver about the healthy host and another about the rest."""

    def __init__(self, fault: tidegate.Resolver, healthy: tidegate.Resolver) -> None:
        self._fault = fault
        self._healthy = healthy

    async def resolve(self, host: str) -> Sequence[Any]:
        return await (self._healthy if host == HEALTHY else self._fault).resolve(host)


def own_context(change: Callable[[ssl.SSLContext], None], authority: trustme.CA) -> ssl.SSLContext:
    context = tidegate.client_context(ca_data=authority.cert_pem.bytes().decode())
    change(context)
    return context


def living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def hold_nursery(task_status: trio.TaskStatus[trio.Nursery]) -> None:
    """A nursery that can be cancelled without whoever uses it."""
    async with trio.open_nursery() as nursery:
        task_status.started(nursery)
        await trio.sleep_forever()


async def _is_healthy(engine: tidegate.Engine, url: str) -> None:
    started = trio.current_time()
    response = await engine.fetch(url, limits=tidegate.Limits(timeout=5))
    assert (response.status, response.complete) == (200, True)
    assert trio.current_time() - started < 1


async def _run(
    fault: MemoryFault | LoopbackFault, engine: tidegate.Engine, url: str, timeout: float
) -> float:
    """Meet the fault, check what came of it, and say how long that took."""
    for _ in range(fault.earlier):
        await engine.fetch(url)
        await trio.testing.wait_all_tasks_blocked()
    limits = tidegate.Limits(timeout=timeout, **fault.limits)
    started = trio.current_time()
    with fault.around():
        if isinstance(fault.gives, Failure):
            with pytest.raises(tidegate.FetchError) as caught:
                await engine.fetch(url, limits=limits, **fault.arguments)
            taken = trio.current_time() - started
            fault.gives.check(caught.value)
        else:
            response = await engine.fetch(url, limits=limits, **fault.arguments)
            taken = trio.current_time() - started
            fault.gives.check(response)
    return taken


@pytest.mark.parametrize("fault", MEMORY_FAULTS, ids=str)
async def test_in_virtual_time(
    fault: MemoryFault, autojump_clock: Any, authority: trustme.CA, client_tls: ssl.SSLContext
) -> None:
    files, tasks = open_files(), living_tasks()
    options = {"tls": own_context(fault.client, authority) if fault.client else client_tls, **fault.options()}
    resolver = Names(options.pop("resolver", AnyHost()), AnyHost())
    async with open_background() as peers:
        bad_peers = await peers.start(hold_nursery)
        network = FaultyNetwork(bad_peers, fault, authority)
        async with tidegate.open_engine(
            resolver=resolver, connector=network, max_concurrency=1, **options
        ) as engine:
            taken = await _run(fault, engine, f"{fault.scheme}://{BAD}{fault.path}", TIMEOUT)
            assert taken == fault.gives.seconds
            bad_peers.cancel_scope.cancel()
            if isinstance(fault.gives, Failure):
                # What is not kept for others is closed already, not at the end of the engine.
                await trio.testing.wait_all_tasks_blocked()
                assert len(opened_since(files)) == len(engine._core.pool)
            network.mend(peers)
            await _is_healthy(engine, f"{fault.scheme}://{HEALTHY}/")
        served = True
    await trio.testing.wait_all_tasks_blocked()
    assert served
    assert not opened_since(files)
    assert tasks == living_tasks()


# Over real sockets ...


@asynccontextmanager
async def resolver_for(fault: LoopbackFault) -> AsyncIterator[tidegate.Resolver]:
    if fault.zone is None:
        here = tidegate.StaticResolver({host: ["127.0.0.1"] for host in (BAD, HEALTHY)})
        yield Names(fault.resolver() if fault.resolver else here, here)
        return
    async with open_dns_server({HEALTHY: {"A": ["127.0.0.1"]}, **fault.zone}) as server:
        yield tidegate.DnsResolver([f"127.0.0.1:{server.port}"], timeout=fault.dns_timeout)


def listeners_of(fault: LoopbackFault, tls: ssl.SSLContext) -> tuple[Listener, Listener]:
    """The bad one and the good one."""
    good = Listener(tls=tls if fault.scheme == "https" else None)
    return (fault.listener(tls) if fault.listener else good), good


POLICY = tidegate.Policy(private_ranges=[tidegate.PrivateRange("127.0.0.0/8", [BAD, HEALTHY])])


@pytest.mark.parametrize("fault", LOOPBACK_FAULTS, ids=str)
async def test_over_real_sockets(
    fault: LoopbackFault, authority: trustme.CA, client_tls: ssl.SSLContext
) -> None:
    files, tasks = open_files(), living_tasks()
    listeners = listeners_of(fault, good_server(authority))
    async with open_origin(*listeners) as origin, resolver_for(fault) as resolver:
        with_peers = open_files()
        async with tidegate.open_engine(
            POLICY, resolver=resolver, tls=client_tls, max_concurrency=1, **fault.options()
        ) as engine:
            bad, good = origin.ports
            taken = await _run(fault, engine, f"{fault.scheme}://{BAD}:{bad}{fault.path}", fault.timeout)
            assert fault.gives.seconds <= taken <= fault.within
            await _is_healthy(engine, f"{fault.scheme}://{HEALTHY}:{good}/content")
        if fault.heard:
            with trio.fail_after(5):
                await origin.wait_all_closed()
            assert not opened_since(with_peers)
    assert not opened_since(files)
    assert tasks == living_tasks()
