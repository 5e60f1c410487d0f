"""The process behind the fixture `network`: it makes both namespaces, lives in "internet", and takes orders.

Started by `network.py` in new net, mount and pid namespaces, as the first process of the last, so that all it
starts ends with it. It prints one line when all is ready, then answers each line of JSON with one.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import trio

from tests.e2e import world
from tests.e2e.nginx import start_nginx
from tests.e2e.sentinels import PacketCounter, Sentinels, open_sentinels
from tests.support.isolation import namespaces, require_isolation, require_separate
from tidegate.testing.dns import DnsServer, open_dns_server
from tidegate.testing.origin import HandshakeFault, Listener, Origin, issue_tls, open_origin

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000


# --- two namespaces and a link ------------------------------------------------------------------------------


def _ip(*arguments: str) -> None:
    family = ["-6"] if any(":" in argument for argument in arguments) else []
    subprocess.run(["ip", *family, *arguments], check=True)


def _add_address(address: str, interface: str, prefix: int) -> None:
    nodad = ["nodad"] if ":" in address else []
    _ip("address", "add", f"{address}/{prefix}", "dev", interface, *nodad)


def _add_loopback_addresses(addresses: Sequence[str]) -> None:
    for address in addresses:
        if address not in ("127.0.0.1", "::1") and not address.startswith("fe80:"):
            _add_address(address, "lo", 128 if ":" in address else 32)


def _bring_up(interface: str, link: Sequence[str], link_local: str) -> None:
    # Made by hand, the link-local address is known and there at once.
    _ip("link", "set", interface, "addrgenmode", "none")
    _ip("link", "set", interface, "up")
    # One question to a neighbour that does not exist, none long after whoever asked has gone.
    Path(f"/proc/sys/net/ipv6/neigh/{interface}/mcast_solicit").write_text("1")
    for address, prefix in zip((*link, link_local), (*world.LINK_PREFIXES, 64), strict=True):
        _add_address(address, interface, prefix)


def start_agent(outside: Sequence[str]) -> subprocess.Popen[str]:
    """The process that keeps the namespaces of "agent" alive, which are proved to be new ones."""
    command = ["unshare", "--net", "--mount", "sh", "-c", "echo ready; exec sleep infinity"]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    agent.stdout.readline()
    require_separate(namespaces(agent.pid), outside)
    require_separate(namespaces(agent.pid), namespaces())
    return agent


def set_up_internet(agent: int) -> None:
    """Links, addresses and routes of this namespace."""
    names = (world.INTERNET_INTERFACE, world.AGENT_INTERFACE)
    _ip("link", "set", "lo", "up")
    _ip("link", "add", names[0], "type", "veth", "peer", "name", names[1], "netns", str(agent))
    _bring_up(world.INTERNET_INTERFACE, world.INTERNET_LINK, world.INTERNET_LINK_LOCAL)
    _add_loopback_addresses([world.NAMESERVER, *world.WEB, *world.HOSTILE, *world.INTERNET_SENTINELS])
    for network in world.BLACK_HOLES:
        _ip("route", "add", "blackhole", network)
    # In table main, not local, for the link's own routes must come before it.
    for everything in ("0.0.0.0/0", "::/0"):
        _ip("route", "add", "local", everything, "dev", "lo", "table", "main")


def set_up_agent(agent: int, folder: Path) -> None:
    """The same for "agent", and its own files over those in /etc."""
    in_namespace(agent, _set_up_agent_network)
    for name, text in {
        "resolv.conf": world.RESOLV_CONF,
        "hosts": world.HOSTS,
        "nsswitch.conf": world.NSSWITCH_CONF,
    }.items():
        (folder / name).write_text(text)
        mount = ["mount", "--bind", str(folder / name), f"/etc/{name}"]
        subprocess.run(["nsenter", "--target", str(agent), "--mount", "--", *mount], check=True)


def _set_up_agent_network() -> None:
    _ip("link", "set", "lo", "up")
    _bring_up(world.AGENT_INTERFACE, world.AGENT_LINK, world.AGENT_LINK_LOCAL)
    _add_loopback_addresses(world.AGENT_SENTINELS)
    _ip("route", "add", "default", "via", world.INTERNET_LINK[0])
    _ip("route", "add", "default", "via", world.INTERNET_LINK[1])


def in_namespace(process: int, action: Callable[[], T]) -> T:
    """What `action` returns when a thread does it in the network namespace of a process.

    Sockets and children belong to the namespace in which they were made, wherever they are used afterwards.
    """

    def enter_and_act() -> T:
        with Path(f"/proc/{process}/ns/net").open() as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "cannot enter the network namespace of the agent")
        return action()

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(enter_and_act).result()


# --- who lives there ----------------------------------------------------------------------------------------


class Internet:
    """All that runs, and the orders that tests give; each public method is one, by its name.

    Everything returned is JSON.
    """

    def __init__(
        self, agent: int, folder: Path, outside: Sequence[str], dns: DnsServer, origin: Origin
    ) -> None:
        self._agent = agent
        self._folder = folder
        self._outside = outside
        self._dns = dns
        self._origin = origin
        self.sentinels = Sentinels()
        self.packets = in_namespace(agent, PacketCounter)

    async def command(
        self, arguments: list[str], stdin: str, timeout: float, environment: dict[str, str]
    ) -> dict[str, object]:
        """Run a program in "agent"."""
        enter = ["nsenter", "--target", str(self._agent), "--net", "--mount", f"--wdns={Path.cwd()}", "--"]
        process = None
        with trio.move_on_after(timeout):
            process = await trio.run_process(
                [*enter, *arguments],
                stdin=stdin.encode(),
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                env=os.environ | self._environment() | environment,
            )
        if process is None:
            raise TimeoutError(f"{arguments} did not end within {timeout} seconds")
        return {
            "returncode": process.returncode,
            "stdout": process.stdout.decode(errors="replace"),
            "stderr": process.stderr.decode(errors="replace"),
        }

    def _environment(self) -> dict[str, str]:
        return {
            "SSL_CERT_FILE": str(self._folder / "authority.pem"),
            "TIDEGATE_E2E_OUTSIDE": json.dumps([*self._outside]),
        }

    async def set_zone(self, zone: dict[str, object]) -> None:
        """Names beside or instead of those in the world's zone."""
        self._dns.set_zone(world.ZONE | zone)

    async def queries(self) -> list[object]:
        """What the DNS server was asked."""
        return [[*asked, times] for asked, times in sorted(self._dns.queries.items())]

    async def requests(self) -> list[object]:
        """What the hostile origin was sent."""
        return [request.as_json() for request in self._origin.requests]

    async def state(self) -> dict[str, int]:
        """Connections of the hostile origin."""
        return {"accepted": self._origin.accepted, "open": self._origin.open_connections}

    async def traffic(self) -> dict[str, object]:
        """What "agent" started to send, and who came to the sentinels."""
        self.packets.count()
        return {
            "packets": [[*where, times] for where, times in sorted(self.packets.packets.items())],
            "connections": [[*where, times] for where, times in sorted(self.sentinels.connections.items())],
            "received": dict(self.sentinels.received),
        }

    async def clear(self) -> None:
        """Forget all of that, and go back to the world's zone."""
        self.packets.count()
        self.packets.packets.clear()
        self.sentinels.connections.clear()
        self.sentinels.received.clear()
        self._dns.queries.clear()
        self._dns.set_zone(world.ZONE)
        self._origin.clear()


def _hostile_listeners(authority: Any) -> list[Listener]:
    _, tls = issue_tls(*world.CERTIFIED_NAMES, authority=authority)
    listeners = []
    for host in world.HOSTILE:
        listeners += [
            Listener(host=host, port=80),
            Listener(host=host, port=443, tls=tls),
            Listener(host=host, port=world.SILENT_PORT, silent=True),
            Listener(host=host, port=world.STALLED_TLS_PORT, tls=tls, handshake=HandshakeFault(after=100)),
        ]
    return listeners


async def serve(agent: int, folder: Path, outside: Sequence[str]) -> None:
    """Run everybody until stdin ends."""
    authority, _ = issue_tls("unused.example.com")
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    start_nginx(folder / "nginx", authority)
    async with AsyncExitStack() as stack:
        dns = await stack.enter_async_context(open_dns_server(world.ZONE, host=world.NAMESERVER, port=53))
        origin = await stack.enter_async_context(open_origin(*_hostile_listeners(authority)))
        nursery = await stack.enter_async_context(trio.open_nursery())
        internet = Internet(agent, folder, outside, dns, origin)
        nursery.start_soon(internet.packets.run)
        nursery.start_soon(internet.sentinels.serve, _open_all_sentinels(agent))
        await _obey(internet)
        nursery.cancel_scope.cancel()


def _open_all_sentinels(agent: int) -> list[Any]:
    def in_agent() -> list[Any]:
        return open_sentinels(
            _with_zone(world.AGENT_SENTINELS, world.AGENT_INTERFACE), world.SENTINEL_PORTS
        ) + (open_sentinels(world.AGENT_LINK, world.SENTINEL_PORTS))

    here = _with_zone(world.INTERNET_SENTINELS, world.INTERNET_INTERFACE)
    return open_sentinels(here, world.SENTINEL_PORTS) + in_namespace(agent, in_agent)


def _with_zone(addresses: Sequence[str], interface: str) -> list[str]:
    return [f"{address}%{interface}" if address.startswith("fe80:") else address for address in addresses]


# --- orders -------------------------------------------------------------------------------------------------


async def _lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[bytes]:
    buffer = b""
    while data := await stream.receive_some():
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            yield line


async def _obey(internet: Internet) -> None:
    _print_json({"result": "ready"})
    async for line in _lines(trio.lowlevel.FdStream(os.dup(0))):
        order = json.loads(line)
        _print_json(await _carry_out(getattr(internet, order["order"]), order["arguments"]))


async def _carry_out(
    action: Callable[..., Awaitable[object]], arguments: dict[str, Any]
) -> dict[str, object]:
    try:
        return {"result": await action(**arguments)}
    except Exception:
        return {"error": traceback.format_exc()}


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Set up, then serve; refuses before it does anything if it is not alone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("outside", nargs=2)
    options = parser.parse_args()
    require_isolation(options.outside, ())
    agent = start_agent(options.outside)
    set_up_internet(agent.pid)
    set_up_agent(agent.pid, options.folder)
    trio.run(serve, agent.pid, options.folder, options.outside)


if __name__ == "__main__":
    main()
