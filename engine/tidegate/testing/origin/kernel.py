"""What only the kernel knows of a TCP connection: bytes not sent yet, and a peer that has hung up unread."""

import fcntl
import select
import socket
import struct
import termios

import trio

_TCP_CLOSE = 7  # tcp_info.tcpi_state, include/net/tcp_states.h
_SHORTEST_PAUSE = 0.001
_LONGEST_PAUSE = 0.25


def tcp_socket(transport: trio.abc.Stream) -> trio.socket.SocketType | None:
    """The socket under a stream; None for memory streams and socket pairs, which the kernel knows less of."""
    sock = transport.socket if isinstance(transport, trio.SocketStream) else None
    return sock if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6) else None


async def wait_until_sent(sock: trio.socket.SocketType) -> None:
    """Wait until the peer's kernel has acknowledged every byte, or never will: the connection is gone."""
    # The kernel has no event for it. Most peers are quick; a crowd that does not read is to cost little.
    pause = _SHORTEST_PAUSE
    while _bytes_unsent(sock) and not _is_gone(sock):
        await trio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _is_gone(sock: trio.socket.SocketType) -> bool:
    # After a reset the bytes that nobody will acknowledge any more still count as unsent.
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_CLOSE


def _bytes_unsent(sock: trio.socket.SocketType) -> int:
    unsent: int = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
    return unsent


def reset_when_closed(sock: trio.socket.SocketType) -> None:
    """Let the next close of this socket send RST, and not FIN."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def wait_until_hung_up(sock: trio.socket.SocketType) -> None:
    """Wait until the peer has ended its direction, however many bytes of it lie unread and stay so."""
    hang_ups = _hang_ups.get(None)
    if hang_ups is None:
        hang_ups = _HangUps()
        _hang_ups.set(hang_ups)
        trio.lowlevel.spawn_system_task(hang_ups.listen)
    try:
        await hang_ups.wait(sock)
    finally:
        if hang_ups.close_if_unused():
            _hang_ups.set(None)


class _HangUps:
    """Hears the hang-ups of all that wait for one.

    `trio.lowlevel.wait_readable` returns at once where bytes lie unread, so this is an epoll of our own that
    asks for EPOLLRDHUP alone. One for all, and while somebody waits: ten thousand stalls cost neither as many
    descriptors more nor, as looking twice a second would, a processor.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._waiting: dict[int, trio.Event] = {}
        self._scope = trio.CancelScope()

    async def wait(self, sock: trio.socket.SocketType) -> None:
        descriptor = sock.fileno()
        event = self._waiting[descriptor] = trio.Event()
        # One shot: until the waiter has run, a peer that is gone would wake `listen` again and again.
        self._epoll.register(descriptor, select.EPOLLRDHUP | select.EPOLLONESHOT)
        try:
            await event.wait()
        finally:
            self._epoll.unregister(descriptor)
            del self._waiting[descriptor]

    def close_if_unused(self) -> bool:
        if not self._waiting:
            self._scope.cancel()
        return not self._waiting

    async def listen(self) -> None:
        with self._epoll, self._scope:
            while True:
                await trio.lowlevel.wait_readable(self._epoll)
                for descriptor, _ in self._epoll.poll(0):
                    self._waiting[descriptor].set()


_hang_ups: trio.lowlevel.RunVar[_HangUps | None] = trio.lowlevel.RunVar("hang_ups")
