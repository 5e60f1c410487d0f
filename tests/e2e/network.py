"""A network of their own for end-to-end tests, made of Linux namespaces; `world.py` says who lives in it.

    pytestmark = pytest.mark.e2e

    async def fetch_status(url: str) -> int:            # runs inside "agent", in a process of its own
        async with tidegate.open_engine(tidegate.Policy()) as engine:
            return (await engine.fetch(url)).status

    def test_redirect_to_metadata(network: Network) -> None:
        network.set_zone({"evil.example.com": [{"A": [world.HOSTILE[0]]}, {"A": ["127.0.0.1"]}]})
        assert network.run(fetch_status, "https://hostile.example.com/content?size=10") == 200
        assert network.requests()[0]["target"] == "/content?size=10"

The fixture clears all counts before a test, and fails it afterwards if one packet went where none may go.
Nothing in these namespaces reaches the machine's own network, and nothing is left of them afterwards.
"""

import json
import os
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.e2e import world
from tests.support.isolation import NEW_NAMESPACES, namespaces

ROOT = Path(__file__).resolve().parents[2]

PROGRAMS = {"nsenter": "util-linux", "mount": "mount", "nginx": "nginx-light"}
"""What the network needs beside namespaces, and the Debian package of each."""

_START_SECONDS = 30.0
_ORDER_SECONDS = 30.0

Target: TypeAlias = str | Callable[[Any], object] | Callable[[Any], Awaitable[object]]


class RunFailedError(Exception):
    """What ran in the network raised, ended badly or did not end; the text says all that is known."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that ran in "agent" to its end."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """What has gone over the network since the last `clear`.

    Attributes:
        packets: SYNs (repeated ones too) and UDP datagrams that "agent" sent, to itself too, by protocol
            (`tcp`, `udp`), destination and port.
        connections: those that a sentinel accepted, in either namespace, by address and port.
        received: bytes that were said to sentinels, by address.
    """

    packets: Mapping[tuple[str, str, int], int]
    connections: Mapping[tuple[str, int], int]
    received: Mapping[str, int]

    def forbidden(self) -> dict[str, int]:
        """Packets and connections by forbidden address; the agent's own public ones are none (D-7)."""
        counts: Counter[str] = Counter()
        for (_, address, _), times in self.packets.items():
            counts[address] += times
        for (address, _), times in self.connections.items():
            counts[address] += times
        return {address: times for address, times in sorted(counts.items()) if world.is_forbidden(address)}


class Network:
    """The running network; the fixture `network`.

    Attributes:
        authority: path of the certificate authority (PEM); in "agent" SSL_CERT_FILE names it as well.
    """

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._buffer = b""
        self.authority = folder / "authority.pem"

    def run(
        self,
        target: Target,
        argument: object = None,
        *,
        timeout: float = 60.0,
        environment: Mapping[str, str] | None = None,
    ) -> Any:
        """Call a function inside "agent", in a Python process of its own.

        Args:
            target: a function at the top of its module, async (run by trio) or not, or `module:function`.
            argument: its one argument; JSON, as its result.
            timeout: seconds until it is killed.
            environment: variables beside those of the session.

        Raises:
            RunFailedError: it raised, or was killed.
        """
        name = target if isinstance(target, str) else f"{target.__module__}:{target.__qualname__}"
        command = [sys.executable, "-m", "tests.e2e.call", name]
        done = self.command(command, stdin=json.dumps(argument), timeout=timeout, environment=environment)
        sys.stderr.write(done.stderr)
        if done.returncode:
            raise RunFailedError(f"{name} ended with {done.returncode}:\n{done.stderr}")
        return json.loads(done.stdout)

    def command(
        self,
        arguments: Sequence[str],
        *,
        stdin: str = "",
        timeout: float = 60.0,
        environment: Mapping[str, str] | None = None,
    ) -> Finished:
        """Run a program inside "agent"; as `run`, but its exit code is the caller's business."""
        details = {"stdin": stdin, "timeout": timeout, "environment": dict(environment or {})}
        result = self._order("command", timeout + _ORDER_SECONDS, arguments=list(arguments), **details)
        return Finished(**result)

    def set_zone(self, names: Mapping[str, object]) -> None:
        """Let the DNS server answer for these names too, in the manner of `tidegate.testing.dns`."""
        self._order("set_zone", zone=dict(names))

    def queries(self) -> Counter[tuple[str, str]]:
        """How often each (name, type) was asked for since the last `clear`."""
        counts: Counter[tuple[str, str]] = Counter()
        for name, kind, _, times in self._order("queries"):
            counts[name, kind] += times
        return counts

    def requests(self) -> list[dict[str, Any]]:
        """What the hostile origin was sent since the last `clear`, as its `/echo` shows it."""
        return list(self._order("requests"))

    def open_connections(self) -> int:
        """How many connections the hostile origin has now."""
        return int(self._order("state")["open"])

    def traffic(self) -> Traffic:
        """All that was sent since the last `clear`."""
        seen = self._order("traffic")
        return Traffic(
            packets={(protocol, address, port): times for protocol, address, port, times in seen["packets"]},
            connections={(address, port): times for address, port, times in seen["connections"]},
            received=seen["received"],
        )

    def clear(self) -> None:
        """Forget every count and log, and every name that `set_zone` brought."""
        self._order("clear")

    def _order(self, order: str, timeout: float = _ORDER_SECONDS, /, **arguments: object) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"order": order, "arguments": arguments}).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self.receive_line(timeout))
        if "error" in answer:
            raise RunFailedError(answer["error"])
        return answer["result"]

    def receive_line(self, timeout: float) -> bytes:
        """The next line that the process prints.

        Raises:
            RunFailedError: it has ended, or took too long.
        """
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._process.stdout], [], [], timeout)
            data = os.read(self._process.stdout.fileno(), 65536) if ready else b""
            if not data:
                # Were it alive, a late answer would be taken for that of a later order.
                self._process.kill()
                raise RunFailedError(f"the network gave no answer:\n{(self._folder / 'log').read_text()}")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line


@contextmanager
def open_network(folder: Path) -> Iterator[Network]:
    """Make the network, and take it down at the end of the block.

    Args:
        folder: an empty one, for its files.

    Raises:
        RunFailedError: it could not be made.
    """
    command = [*NEW_NAMESPACES, sys.executable, "-m", "tests.e2e.internet", str(folder), *namespaces()]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        network = Network(process, folder)
        try:
            network.receive_line(_START_SECONDS)
            yield network
        finally:
            assert process.stdin is not None
            process.stdin.close()
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        # The first process of a pid namespace takes all others with it.
        process.kill()
