"""A narrow byte stream over a non-blocking socket, plain or TLS: the only place that touches one.

Not trio's own streams: they cost 1.4 times the CPU of a small fetch and hide how a TLS stream ended. In
memory the same code runs over a socket pair (`tidegate.testing`), so there is no third form to keep true.
"""

import select
import socket
import ssl
from typing import Final, cast

import trio

from tidegate.errors import ConnectionLost

RECEIVE_SIZE: Final = 64 * 1024

# A peer that always has data never makes us wait, so cancellation would never be seen. 64 reads of a
# megabyte a millisecond: about a millisecond between checkpoints.
_READS_PER_CHECKPOINT: Final = 64
# More than that would have to fit the receive buffer, which the system grows only so far.
_LOW_WATER: Final = 256 * 1024
_TLS_RECORD: Final = 16 * 1024
_TLS_FEED: Final = 32 * 1024
_MAX_FRUITLESS: Final = 256 * 1024
"""Bytes of TLS that may come without a byte of content, or before the handshake is done. OpenSSL takes chains
of certificates of up to 100 KiB, and a server's tickets are some hundred bytes each."""


class Stream:
    """A connected plain TCP stream. Owns its socket; whoever owns the stream closes it, synchronously.

    Attributes:
        tls_version: "TLSv1.3" and the like once TLS runs, else None.
        tls_resumed: whether the handshake resumed the session that it offered; None if it offered none.
        cut_short: the end came without a TLS close_notify, so anybody on the path may have cut it.
    """

    tls_version: str | None = None
    tls_resumed: bool | None = None
    cut_short: bool = False

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._eager_reads = 0
        self._low_water = 1
        self._poll: select.poll | None = None
        # Right after a send the answer cannot be there yet: waiting first saves a system call that fails.
        self._wait_first = False

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Hand over what the system takes now; returns how many bytes, possibly 0.

        Raises:
            ConnectionLost: the peer is gone.
        """
        self._wait_first = True
        try:
            return self._send(data)
        except _WOULD_BLOCK:
            return 0
        except OSError as error:
            raise _lost("sending", error) from error

    async def send_all(self, data: bytes | memoryview) -> None:
        """Send everything, waiting whenever the peer does not take more.

        Raises:
            ConnectionLost: the peer is gone.
        """
        view = memoryview(data)
        while True:
            view = view[self.send_nowait(view) :]
            if not view:
                return
            await trio.lowlevel.wait_writable(self._socket)

    async def receive_some(self, max_bytes: int = RECEIVE_SIZE) -> bytes:
        """The next bytes, b"" at the end. Exactly one checkpoint, or none where data is plenty.

        Raises:
            ConnectionLost: the peer reset the connection.
        """
        waits = self._wait_first and not self._pending()
        while True:
            if waits:
                self._wait_first = False
                self._eager_reads = 0
                await trio.lowlevel.wait_readable(self._socket)
            else:
                await self._checkpoint_sometimes()
            try:
                return self._receive(max_bytes)
            except _WOULD_BLOCK:
                waits = True
            except OSError as error:
                return self._ended(error)

    async def fill(self, buffer: memoryview) -> int:
        """Fill a buffer; returns how many bytes came, fewer than it holds only at the end.

        Raises:
            ConnectionLost: the peer reset the connection.
        """
        filled = reads = 0
        try:
            while filled < len(buffer):
                if reads == _READS_PER_CHECKPOINT:
                    reads = 0
                    await trio.lowlevel.checkpoint()
                try:
                    count = self._receive_into(buffer[filled:])
                    if not count:
                        break
                    filled += count
                    reads += 1
                    continue
                except _WOULD_BLOCK:
                    reads = 0
                except OSError as error:
                    self._ended(error)
                    break
                self._wait_for(len(buffer) - filled)
                await trio.lowlevel.wait_readable(self._socket)
        finally:
            self._wait_for(1)
        return filled

    def is_quiet(self) -> bool:
        """True if an idle connection is as it should be: open, and nothing has come unasked."""
        if self._pending():
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._socket, select.POLLIN | getattr(select, "POLLRDHUP", 0))
        return not self._poll.poll(0)

    def detach(self) -> socket.socket:
        """Give the socket away, to a TLS stream; this stream must not be used any more, but may be closed."""
        return self._socket

    def close(self) -> None:
        """Close at once. Never waits, so it is safe while being cancelled; calling it twice is harmless."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    async def _checkpoint_sometimes(self) -> None:
        # Before the read, never after: bytes that were read must not be lost to a cancellation.
        self._eager_reads += 1
        if self._eager_reads > _READS_PER_CHECKPOINT:
            self._eager_reads = 0
            await trio.lowlevel.checkpoint()

    def _ended(self, error: OSError) -> bytes:
        if isinstance(error, ssl.SSLZeroReturnError):
            return b""
        if isinstance(error, ssl.SSLEOFError):
            self.cut_short = True
            return b""
        raise _lost("receiving", error) from error

    def _send(self, data: bytes | memoryview) -> int:
        return self._socket.send(data)

    def _receive(self, max_bytes: int) -> bytes:
        return self._socket.recv(max_bytes)

    def _receive_into(self, buffer: memoryview) -> int:
        return self._socket.recv_into(buffer)

    def _wait_for(self, count: int) -> None:
        """Let the system wake us when that many bytes have come, or the end; a quarter of the wake-ups."""
        low_water = min(count, _LOW_WATER)
        if low_water != self._low_water:
            self._low_water = low_water
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)

    def _pending(self) -> int:
        return 0


class TLSStream(Stream):
    """A stream under TLS. Made by `tidegate._wire.tls.start_tls`.

    OpenSSL works on memory and never sees the socket: given that, it stays in its own loop for as long as a
    peer sends what is no content (tickets, requests to renegotiate), and no deadline would ever be seen.

    Args:
        sock: connected; this stream owns it from here on.
        context: of the engine.
        host: for SNI and the check of the certificate's name.
        session: to resume.
    """

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, host: str, session: ssl.SSLSession | None
    ) -> None:
        super().__init__(sock)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host, session=session)
        self._offers_session = session is not None
        self._fruitless = 0
        self._unsent = b""
        self._record = 0

    async def handshake(self) -> None:
        """Run the handshake.

        Raises:
            ssl.SSLError, OSError: as OpenSSL or the socket raised it; `start_tls` says it in our words.
        """
        while not self._shake_hands():
            while not self._flush():
                await trio.lowlevel.wait_writable(self._socket)
            await trio.lowlevel.wait_readable(self._socket)
            try:
                self._feed()
            except BlockingIOError:
                continue
        while not self._flush():
            await trio.lowlevel.wait_writable(self._socket)
        self._fruitless = 0
        self.tls_version = self._tls.version()
        self.tls_resumed = bool(self._tls.session_reused) if self._offers_session else None

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            self._flush()  # the alert that tells the peer why
            raise
        return True

    @property
    def session(self) -> ssl.SSLSession | None:
        """The session to resume later; useful once the first response has been read (TLS 1.3 tickets)."""
        return self._tls.session

    @property
    def alpn_protocol(self) -> str | None:
        """What ALPN agreed on."""
        return self._tls.selected_alpn_protocol()

    def _send(self, data: bytes | memoryview) -> int:
        view, sent = memoryview(data), 0
        while sent < len(view):
            if not self._record:
                self._record = self._encrypt(view[sent : sent + _TLS_RECORD])
            # A record counts when all of it has left; until then the caller comes back with the same bytes.
            if not self._flush():
                break
            sent, self._record = sent + self._record, 0
        return sent

    def _encrypt(self, data: memoryview) -> int:
        try:
            return self._tls.write(data)
        except ssl.SSLWantReadError:
            raise OSError(None, "the peer wants to renegotiate TLS") from None

    def _flush(self) -> bool:
        """Hand over what TLS has to say; False if the system does not take all of it now."""
        while self._unsent or self._outgoing.pending:
            self._unsent = self._unsent or self._outgoing.read()
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except BlockingIOError:
                return False
        return True

    def _receive(self, max_bytes: int) -> bytes:
        return cast(bytes, self._decrypt(max_bytes))

    def _receive_into(self, buffer: memoryview) -> int:
        return cast(int, self._decrypt(len(buffer), buffer))

    def _decrypt(self, *room: int | memoryview) -> bytes | int:
        """Content out of what is here, or else out of one more piece: then others have their turn."""
        if self._pending():
            try:
                return self._read(*room)
            except ssl.SSLWantReadError:
                pass  # the rest of a record is still to come
        self._feed()
        return self._read(*room)

    def _read(self, *room: int | memoryview) -> bytes | int:
        content: bytes | int = self._tls.read(*room)  # type: ignore[arg-type]  # the stubs lack the buffer
        self._fruitless = 0
        return content

    def _feed(self) -> None:
        """Give OpenSSL one piece of what has come, and the peer what OpenSSL answered to the one before."""
        if not self._flush() and self._outgoing.pending > _MAX_FRUITLESS:
            raise OSError(None, "the peer does not read what TLS answers it")
        data = self._socket.recv(_TLS_FEED)
        if not data:
            self._incoming.write_eof()
            return
        self._fruitless += len(data)
        if self._fruitless > _MAX_FRUITLESS:
            raise OSError(None, f"{_MAX_FRUITLESS} bytes of TLS without any content")
        self._incoming.write(data)

    def _wait_for(self, count: int) -> None:
        """Nothing: what the socket has to hold for so many bytes of content, only the peer knows."""

    def _pending(self) -> int:
        return self._tls.pending() or self._incoming.pending


_WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def _lost(doing: str, error: OSError) -> ConnectionLost:
    return ConnectionLost(f"the connection was lost while {doing}: {error.strerror or type(error).__name__}")
