"""Witnesses: listeners where nobody may come, and a count of everything that the agent starts to send."""

import socket
import struct
from collections import Counter
from collections.abc import Iterable
from ipaddress import ip_address

import trio

_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_SOL_PACKET = 263
_PACKET_STATISTICS = 6
_SO_RCVBUFFORCE = 33
_SNAP_LENGTH = 256
_BUFFER_SIZE = 64 << 20

_PROTOCOLS = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp"}
_SYN_AND_ACK = 0x12
_SYN = 0x02
_NEIGHBOUR_SOLICITATION = 135

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nforbidden\n"


def open_sentinels(addresses: Iterable[str], ports: Iterable[int]) -> list[socket.socket]:
    """Listening sockets in the namespace of the calling thread; `fe80::1%eth0` is an address too."""
    return [_listen(address, port) for address in addresses for port in ports]


def _listen(address: str, port: int) -> socket.socket:
    family, *_, name = socket.getaddrinfo(address, port, flags=socket.AI_NUMERICHOST)[0]
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(name)
    listener.listen()
    return listener


class Sentinels:
    """Answers whoever comes, so that a leak would be seen on the other side as well, and counts them.

    Attributes:
        connections: by (address, port) that was connected to.
        received: bytes that were said there, by address.
    """

    def __init__(self) -> None:
        self.connections: Counter[tuple[str, int]] = Counter()
        self.received: Counter[str] = Counter()

    async def serve(self, listeners: Iterable[socket.socket]) -> None:
        """Accept for ever."""
        await trio.serve_listeners(
            self._answer, [trio.SocketListener(trio.socket.from_stdlib_socket(one)) for one in listeners]
        )

    async def _answer(self, stream: trio.SocketStream) -> None:
        address, port = stream.socket.getsockname()[:2]
        address = address.partition("%")[0]
        self.connections[address, port] += 1
        try:
            self.received[address] += len(await stream.receive_some())
            await stream.send_all(ANSWER)
        except trio.BrokenResourceError:
            pass  # It has been counted, which is all that matters.


class PacketCounter:
    """Counts what is sent through any interface of one namespace, loopback included: each SYN, each datagram.

    Of TCP only the SYN that opens a connection: nothing goes out without one, and what follows it (answers of
    listeners, a late FIN) would make the counts vague. A packet socket needs no program, and it sees a packet
    whether or not anybody listens at its destination. The kernel says if it dropped any: then counting fails.

    Attributes:
        packets: by (`tcp` or `udp`, destination address, destination port).
    """

    def __init__(self) -> None:
        self.packets: Counter[tuple[str, str, int]] = Counter()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_SIZE)
        self._socket.setblocking(False)

    async def run(self) -> None:
        """Keep the kernel's buffer empty, for ever."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            self.count()

    def count(self) -> None:
        """Count all that was sent before this call: the kernel queues a packet here before it goes out.

        Raises:
            RuntimeError: some could not be counted.
        """
        while (packet := self._next()) is not None:
            if (destination := _destination(packet)) is not None:
                self.packets[destination] += 1
        _, dropped = struct.unpack("II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        if dropped:
            raise RuntimeError(
                f"{dropped} packets were not counted: the buffer of the packet socket is too small"
            )

    def _next(self) -> bytes | None:
        """The start of the next packet from the queue, empty if it was one that came in."""
        try:
            data, (_, _, direction, *_) = self._socket.recvfrom(_SNAP_LENGTH)
        except BlockingIOError:
            return None
        return data if direction == _PACKET_OUTGOING else b""


def _destination(packet: bytes) -> tuple[str, str, int] | None:
    """Protocol, address and port; None for what a program cannot send or only the kernel does (ARP, ICMP)."""
    match packet[0] >> 4 if packet else 0:
        case 4:
            return _transport(packet[9], packet[16:20], packet[(packet[0] & 15) * 4 :])
        case 6:
            return _transport(packet[6], packet[24:40], packet[40:])
    return None


def _transport(protocol: int, destination: bytes, payload: bytes) -> tuple[str, str, int] | None:
    if protocol == socket.IPPROTO_TCP and payload[13] & _SYN_AND_ACK != _SYN:
        return None
    if protocol in _PROTOCOLS:
        return _PROTOCOLS[protocol], str(ip_address(destination)), int.from_bytes(payload[2:4])
    if protocol == socket.IPPROTO_ICMPV6 and payload[0] == _NEIGHBOUR_SOLICITATION:
        # All that is seen of a packet to a neighbour that does not exist.
        return "neighbour", str(ip_address(payload[8:24])), 0
    return None
