"""Connecting: staggered over the pinned addresses and nothing else, then the peer is compared with the pin.

`trio.open_tcp_stream` resolves names by itself and reads `127.1` as an address, so it has no place here: a
socket is given the text of an `ipaddress` object that has passed every check.
"""

import errno
import os
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import zip_longest
from typing import Final, Protocol

import trio

from tidegate._policy.pin import PinnedTarget
from tidegate._policy.reasons import Reason
from tidegate._wire.stream import Stream
from tidegate.errors import AddressDenied, ConnectError, FetchError

STAGGER: Final = 0.25
"""Seconds until the next address is tried beside the ones under way (RFC 8305 5; trio and Firefox do so)."""

MAX_ATTEMPTS: Final = 8
"""Addresses that are dialled. All are checked; a name with hundreds must not cost hundreds of sockets."""


class Connector(Protocol):
    """Opens connections to pinned targets. The seam for tests and for transports of one's own."""

    async def connect(self, targets: Sequence[PinnedTarget]) -> tuple[PinnedTarget, Stream]:
        """Connect to one of the targets, which share scheme, host and port.

        Args:
            targets: at least one, in order of preference.

        Returns:
            The target that answered, and a connected plain stream to it that the caller owns.

        Raises:
            ConnectError: none of them could be reached.
            AddressDenied: the connection turned out to lead to this machine.
        """
        ...


class TCPConnector:
    """The real one: TCP, happy eyeballs (RFC 8305) over the validated addresses."""

    async def connect(self, targets: Sequence[PinnedTarget]) -> tuple[PinnedTarget, Stream]:
        """See `Connector.connect`."""
        if len(targets) == 1:
            return targets[0], Stream(await _dial(targets[0]))
        return await _race(_interleaved(targets)[:MAX_ATTEMPTS])


def _interleaved(targets: Sequence[PinnedTarget]) -> list[PinnedTarget]:
    """Alternate the address families, the resolver's first choice first (RFC 8305 4)."""
    first = [target for target in targets if target.address.version == targets[0].address.version]
    other = [target for target in targets if target.address.version != targets[0].address.version]
    return [target for pair in zip_longest(first, other) for target in pair if target is not None]


async def _race(targets: Sequence[PinnedTarget]) -> tuple[PinnedTarget, Stream]:
    winners: list[tuple[PinnedTarget, socket.socket]] = []
    failures: list[FetchError] = []

    async def attempt(target: PinnedTarget, failed: trio.Event) -> None:
        try:
            sock = await _dial(target)
        except FetchError as error:
            failures.append(error)
            failed.set()
            if isinstance(error, AddressDenied):
                nursery.cancel_scope.cancel()
            return
        winners.append((target, sock))
        nursery.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            for target in targets:
                failed = trio.Event()
                nursery.start_soon(attempt, target, failed)
                with trio.move_on_after(STAGGER):
                    await failed.wait()
        denied = next((error for error in failures if isinstance(error, AddressDenied)), None)
        if denied is not None or not winners:
            raise denied or failures[-1]
        target, sock = winners.pop(0)
    finally:
        # Two may answer within one tick, and a cancellation may come when one already has.
        for _, spare in winners:
            spare.close()
    return target, Stream(sock)


async def _dial(target: PinnedTarget) -> socket.socket:
    family = socket.AF_INET6 if target.address.version == 6 else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectError(f"no socket could be opened: {error.strerror}") from error
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await _connect(sock, (str(target.address), target.port))
        _check_peer(sock, target)
    except OSError as error:
        sock.close()
        raise ConnectError(
            f"{target.host} port {target.port}: {error.strerror or 'connecting failed'}"
        ) from error
    except BaseException:
        sock.close()
        raise
    return sock


async def _connect(sock: socket.socket, address: tuple[str, int]) -> None:
    code = sock.connect_ex(address)
    if code == errno.EINPROGRESS and not _is_connected(sock):
        await trio.lowlevel.wait_writable(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code not in (0, errno.EINPROGRESS):
        raise OSError(code, os.strerror(code))


def _is_connected(sock: socket.socket) -> bool:
    """True if the handshake was over before the system call was, as with a peer on this machine."""
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


def _check_peer(sock: socket.socket, target: PinnedTarget) -> None:
    peer, port = sock.getpeername()[:2]
    if not _is(peer, target.address) or port != target.port:
        raise ConnectError(f"{target.host}: the connection did not lead to the validated address")
    if not target.self_allowed and _is(sock.getsockname()[0], target.address):
        raise AddressDenied(
            f"{target.host} is this machine itself; only a private-range rule for its address can allow it",
            reason=Reason.SELF,
        )


def _is(text: str, address: IPv4Address | IPv6Address) -> bool:
    # The system may write an IPv6 address in another way than we do, so only equal texts settle it at once.
    return text == str(address) or ip_address(text) == address
