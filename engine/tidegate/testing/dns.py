"""A DNS server that answers as its zone tells it to, over UDP and TCP: what resolvers meet, for tests.

In a test::

    zone = {"rebind.example.com": [{"A": ["93.184.216.34"]}, {"A": ["127.0.0.1"]}]}
    async with open_dns_server(zone) as server:
        ...                                         # ask 127.0.0.1, UDP or TCP port {server.port}
    assert server.count("rebind.example.com", "A") == 2

As a program, which prints one line of JSON when it is ready, and one with its counts at the end::

    python -m tidegate.testing.dns --bind 127.0.0.1:0 --zone zone.json

A zone is an object by name; `*` stands for every name that is not there, and without it those are NXDOMAIN.
The value of a name is one of

    {"A": [...], "AAAA": [...]}     addresses, hundreds if you like; a type that is absent has no records
    {"CNAME": "other.example"}      followed through the zone; addresses beside it are its target's
    "NXDOMAIN", "SERVFAIL", ...     this response code
    "TIMEOUT"                       never an answer
    [..., ...]                      successive answers, counted by name and type; the last one stays

and an object may also hold `"delay"` (seconds, or seconds by type: `{"AAAA": 2}`), `"truncate": true` (over
UDP nothing but the flag TC) and `"ttl"` (seconds; 0). For the program that is JSON, one object in a file::

    {
      "www.example.com": {"A": ["93.184.216.34"], "AAAA": ["2606:2800:220:1::34"], "ttl": 60},
      "alias.example.com": {"CNAME": "www.example.com"},
      "rebind.example.com": [{"A": ["93.184.216.34"]}, {"A": ["127.0.0.1"]}],
      "slow.example.com": {"A": ["93.184.216.34"], "delay": 2},
      "hole.example.com": "TIMEOUT",
      "*": "SERVFAIL"
    }

Needs the extra `dns`.
"""

import argparse
import errno
import ipaddress
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import trio

from tidegate.testing._background import open_background
from tidegate.testing._failures import Failures
from tidegate.testing._program import naming_address, parse_address, print_json, run_until_told

try:
    import dns.exception
    import dns.flags
    import dns.message
    import dns.name
    import dns.opcode
    import dns.rcode
    import dns.rdatatype
    import dns.rrset
except ModuleNotFoundError as error:
    error.add_note("this DNS server is built on dnspython: pip install 'tidegate[dns]'")
    raise

# BIND and unbound give up at about as many; here a loop ends.
_LONGEST_CHAIN = 16
_UDP_SIZE_WITHOUT_EDNS = 512
_LARGEST_DATAGRAM = 65507  # over IPv4, and so over both
_TCP_SIZE = 65535
_PORT_ATTEMPTS = 20
_MOST_SECONDS = 2**31 - 1  # of a TTL: RFC 2181, 8

Zone: TypeAlias = Mapping[str, object]
"""Answers by name; what they may be is said in the module's docstring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """One answer of one name: a value of the zone, checked."""

    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cname: str | None = None
    rcode: str = "NOERROR"
    delay: Mapping[str, float] = field(default_factory=dict)
    silent: bool = False
    truncate: bool = False
    ttl: int = 0


_NO_SUCH_NAME = (_Answer(rcode="NXDOMAIN"),)


def _parse_answer(value: object) -> _Answer:
    if value == "TIMEOUT":
        return _Answer(silent=True)
    if isinstance(value, str):
        return _Answer(rcode=dns.rcode.to_text(dns.rcode.from_text(value)))
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is neither an object nor a response code")
    if unknown := set(value) - {"A", "AAAA", "CNAME", "delay", "truncate", "ttl"}:
        raise ValueError(f"unknown key {min(unknown)!r}")
    return _Answer(
        addresses={kind: _parse_addresses(kind, value[kind]) for kind in ("A", "AAAA") if kind in value},
        cname=_parse_name(value["CNAME"]) if "CNAME" in value else None,
        delay=_parse_delay(value.get("delay", 0)),
        truncate=_parse_truncate(value.get("truncate", False)),
        ttl=int(_parse_seconds("ttl", value.get("ttl", 0))),
    )


def _parse_addresses(kind: str, addresses: object) -> tuple[str, ...]:
    if not (isinstance(addresses, list | tuple) and all(isinstance(address, str) for address in addresses)):
        raise ValueError(f"{kind} must be a list of addresses")  # numbers are addresses to `ipaddress`
    make = ipaddress.IPv4Address if kind == "A" else ipaddress.IPv6Address
    return tuple(str(make(address)) for address in addresses)


def _parse_delay(value: object) -> Mapping[str, float]:
    if isinstance(value, Mapping):
        return {_parse_type(kind): _parse_seconds("delay", seconds) for kind, seconds in value.items()}
    return dict.fromkeys(("A", "AAAA"), _parse_seconds("delay", value))


def _parse_type(kind: object) -> str:
    with suppress(ValueError, dns.exception.DNSException):
        if isinstance(kind, str) and dns.rdatatype.to_text(dns.rdatatype.from_text(kind)) == kind:
            return kind
    raise ValueError(f'delay is by type such as "A" or "AAAA", and {kind!r} is none')


def _parse_seconds(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_SECONDS:
        raise ValueError(f"{key} must be seconds from 0 to {_MOST_SECONDS}")
    return value


def _parse_truncate(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("truncate must be true or false")
    return value


def _parse_name(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"a name must be text, not {type(name).__name__}")
    return _normalise(dns.name.from_text(name).to_text())


def _parse_zone(zone: Zone) -> dict[str, tuple[_Answer, ...]]:
    if not isinstance(zone, Mapping):
        raise ValueError('the zone must be an object by name, such as {"a.example": {"A": ["192.0.2.1"]}}')
    parsed: dict[str, tuple[_Answer, ...]] = {}
    for name, value in zone.items():
        try:
            values = value if isinstance(value, list | tuple) else [value]
            normal = _parse_name(name)
            answers = tuple(map(_parse_answer, values)) or _NO_SUCH_NAME
            if parsed.setdefault(normal, answers) != answers:
                raise ValueError("that name is there twice, with different answers")
        except (ValueError, dns.exception.DNSException) as error:
            raise ValueError(f"the zone's answer for {name!r} cannot be used: {error}") from error
    return parsed


def _normalise(name: str) -> str:
    return name.lower().removesuffix(".")


class DnsServer:
    """A running server; made by `open_dns_server`.

    Attributes:
        port: of UDP and of TCP.
        queries: how often each (name, type, `udp` or `tcp`) was asked.
        errors: the newest errors of the server's own. Each has ended one datagram or connection, and has been
            logged at ERROR under `tidegate.testing`.
    """

    def __init__(self, zone: Zone) -> None:
        self.port = 0
        self.queries: Counter[tuple[str, str, str]] = Counter()
        self._failures = Failures()
        self.errors = self._failures.errors
        self._turns: Counter[tuple[str, str]] = Counter()
        self.set_zone(zone)

    def set_zone(self, zone: Zone) -> None:
        """Answer by another zone from now on; successive answers start afresh.

        Raises:
            ValueError: an answer in it makes no sense.
        """
        self._answers = _parse_zone(zone)
        self._turns.clear()

    def count(self, name: str, kind: str | None = None, transport: str | None = None) -> int:
        """How many queries there were for a name, of one type (`A`) and transport (`tcp`) or of all."""
        return sum(
            times
            for (asked, asked_kind, asked_over), times in self.queries.items()
            if asked == _normalise(name) and kind in (None, asked_kind) and transport in (None, asked_over)
        )

    def _take(self, name: str, kind: str) -> _Answer:
        answers = self._answers.get(name) or self._answers.get("*") or _NO_SUCH_NAME
        turn = self._turns[name, kind]
        self._turns[name, kind] += 1
        return answers[min(turn, len(answers) - 1)]

    def _chain(self, name: str, kind: str) -> Iterator[tuple[str, _Answer]]:
        for _ in range(_LONGEST_CHAIN):
            answer = self._take(name, kind)
            yield name, answer
            if answer.cname is None or answer.addresses:
                return
            name = answer.cname

    async def _respond(self, wire: bytes, transport: str) -> bytes | None:
        """The response to a query; None if there is to be none, or it is no query."""
        if (query := _parse_query(wire)) is None:
            return None
        name = _normalise(query.question[0].name.to_text())
        kind = dns.rdatatype.to_text(query.question[0].rdtype)
        self.queries[name, kind, transport] += 1
        chain = list(self._chain(name, kind))
        await trio.sleep(sum(answer.delay.get(kind, 0) for _, answer in chain))
        if any(answer.silent for _, answer in chain):
            return None
        return _to_wire(query, kind, chain, transport)

    async def serve_udp(self, udp: trio.socket.SocketType) -> None:
        """Answer datagrams for ever; a slow answer holds up no other."""

        async def answer(wire: bytes, client: tuple[object, ...]) -> None:
            with self._failures.kept("a query over UDP"):
                if (response := await self._respond(wire, "udp")) is not None:
                    await udp.sendto(response, client)

        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(answer, *await udp.recvfrom(65535))

    async def serve_tcp(self, stream: trio.abc.Stream) -> None:
        """Answer the queries of one TCP connection in order; each has its length before it (RFC 7766, 8)."""
        async with stream:
            with self._failures.kept("a connection"), suppress(trio.BrokenResourceError):
                while length := await _receive_exactly(stream, 2):
                    wire = await _receive_exactly(stream, int.from_bytes(length))
                    if (response := await self._respond(wire, "tcp")) is not None:
                        await stream.send_all(len(response).to_bytes(2) + response)


async def _receive_exactly(stream: trio.abc.ReceiveStream, size: int) -> bytes:
    received = b""
    while len(received) < size and (data := await stream.receive_some(size - len(received))):
        received += data
    return received


def _parse_query(wire: bytes) -> dns.message.Message | None:
    with suppress(dns.exception.DNSException):
        query = dns.message.from_wire(wire)
        is_query = query.opcode() == dns.opcode.QUERY and not query.flags & dns.flags.QR
        return query if is_query and len(query.question) == 1 else None
    return None


def _to_wire(
    query: dns.message.Message, kind: str, chain: list[tuple[str, _Answer]], transport: str
) -> bytes:
    response = dns.message.make_response(query, recursion_available=True)
    response.set_rcode(dns.rcode.from_text(chain[-1][1].rcode))
    if transport == "udp" and any(answer.truncate for _, answer in chain):
        response.flags |= dns.flags.TC
        return response.to_wire()
    for name, answer in chain:
        _add_records(response, name, kind, answer)
    size = _TCP_SIZE if transport == "tcp" else _udp_size(query)
    return response.to_wire(max_size=size, prefer_truncation=True)


def _add_records(response: dns.message.Message, name: str, kind: str, answer: _Answer) -> None:
    owner = name + "."
    if answer.cname is not None:
        target = answer.cname + "."
        response.answer.append(dns.rrset.from_text(owner, answer.ttl, "IN", "CNAME", target))
        owner = target
    if addresses := answer.addresses.get(kind):
        response.answer.append(dns.rrset.from_text(owner, answer.ttl, "IN", kind, *addresses))


def _udp_size(query: dns.message.Message) -> int:
    said = query.payload if query.edns >= 0 else 0
    # RFC 6891, 6.2.3: less than 512 means 512.
    return min(max(said, _UDP_SIZE_WITHOUT_EDNS), _LARGEST_DATAGRAM)


async def _bind(
    host: str, port: int, attempts: int = _PORT_ATTEMPTS
) -> tuple[trio.SocketListener, trio.socket.SocketType]:
    """TCP and UDP on the same port; tried again if the system chose one whose other half is taken."""
    try:
        return await _bind_both(host, port)
    except OSError as error:
        if port == 0 and error.errno == errno.EADDRINUSE and attempts > 1:
            return await _bind(host, port, attempts - 1)
        raise naming_address(error, host, port) from error


async def _bind_both(host: str, port: int) -> tuple[trio.SocketListener, trio.socket.SocketType]:
    (tcp,) = await trio.open_tcp_listeners(port, host=host)
    udp = trio.socket.socket(tcp.socket.family, trio.socket.SOCK_DGRAM)
    try:
        await udp.bind((host, tcp.socket.getsockname()[1]))
    except OSError:
        udp.close()
        await tcp.aclose()
        raise
    return tcp, udp


@asynccontextmanager
async def open_dns_server(zone: Zone, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[DnsServer]:
    """Run a DNS server for as long as the `async with` block lasts.

    Args:
        zone: what it answers, see the module's docstring; `DnsServer.set_zone` changes it.
        host: an IPv4 or IPv6 address of this machine.
        port: 0 lets the system choose.

    Raises:
        OSError: the address cannot be listened on.
        ValueError: an answer in the zone makes no sense.
    """
    server = DnsServer(zone)
    tcp, udp = await _bind(host, port)
    server.port = tcp.socket.getsockname()[1]
    with udp:
        async with open_background() as nursery:
            nursery.start_soon(server.serve_udp, udp)
            await nursery.start(trio.serve_listeners, server.serve_tcp, [tcp])
            yield server


# --- the program --------------------------------------------------------------------------------------------


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tidegate.testing.dns",
        description="A scriptable DNS server for tests. Prints JSON: a line when ready, one at the end.",
        epilog="".join((__doc__ or "").partition("A zone is an object by name")[1:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--bind",
        metavar="ADDRESS:PORT",
        type=parse_address,
        default=("127.0.0.1", 0),
        help="where to listen, over UDP and TCP; 127.0.0.1:0 if not given, the system then chooses the port",
    )
    parser.add_argument("--zone", metavar="FILE", type=Path, required=True, help="the zone: JSON, see below")
    parser.add_argument("--exit-with-stdin", action="store_true", help="stop when standard input ends")
    return parser


async def _run(options: argparse.Namespace) -> None:
    host, port = options.bind
    zone = _read_zone(options.zone)
    async with open_dns_server(zone, host=host, port=port) as server:
        ready = {"host": host, "port": server.port}
        await run_until_told(exit_with_stdin=options.exit_with_stdin, ready=ready)
    print_json({"queries": [[*asked, times] for asked, times in sorted(server.queries.items())]})


def _read_zone(path: Path) -> Zone:
    try:
        zone: Zone = json.loads(path.read_text(encoding="utf-8"))
        _parse_zone(zone)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
    return zone


def main() -> None:
    """Run the program; the module's docstring shows how."""
    try:
        trio.run(_run, _arguments().parse_args())
    except (OSError, ValueError) as error:
        sys.exit(f"tidegate.testing.dns: {error}")


if __name__ == "__main__":
    main()
