"""Idle connections: who may reuse which, and for how long. Nothing here ever waits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate._policy.pin import PinnedTarget
from tidegate._wire.stream import Stream

IDLE_TIMEOUT: Final = 15.0
"""Seconds a connection is kept idle (aiohttp's figure; Node servers close after 5, nginx after 75)."""

KEEP_ALIVE_MARGIN: Final = 1.0
"""Seconds taken off a peer's own Keep-Alive figure: its clock started earlier than ours."""

MAX_IDLE_PER_HOST: Final = 64
"""As many as a burst of an agent's fetches to one host; the bound in all is the engine's `max_idle`."""


@dataclass(slots=True, eq=False)
class Connection:
    """A stream to a pinned target, and how it has been used.

    Attributes:
        reused: it has served an earlier fetch.
        authenticated: a request authenticated the connection itself, so whatever follows on it is that
            caller's; it is never kept.
    """

    target: PinnedTarget
    stream: Stream
    reused: bool = False
    authenticated: bool = False
    expires: float = 0.0

    def close(self) -> None:
        """Close at once; never waits."""
        self.stream.close()


class Pool:
    """Idle connections of one engine, and so of one TLS context.

    A connection is only given to a fetch whose own checks have just pinned the very same target: scheme,
    host, port, address, and whether it may be this machine (pitfalls 6 and 12: a certificate is checked for
    one name only). One that a credential was bound to serves nobody else (RFC 4559 6).

    Args:
        max_idle: idle connections in all; 0 keeps none.
    """

    def __init__(self, max_idle: int) -> None:
        self._max_idle = max_idle
        self._idle: dict[PinnedTarget, list[Connection]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def take(self, targets: Sequence[PinnedTarget], now: float) -> Connection | None:
        """A healthy idle connection to one of the targets, which the caller owns from here on."""
        for target in targets:
            kept = self._idle.get(target)
            while kept:
                connection = kept.pop()  # the youngest: most likely still open at the peer
                self._count -= 1
                if not kept:
                    del self._idle[target]
                if connection.expires > now and connection.stream.is_quiet():
                    connection.reused = True
                    return connection
                connection.close()
        return None

    def put(self, connection: Connection, now: float, keep_alive: float | None) -> None:
        """Keep a connection whose exchange ended with nothing odd, or close it if there is no room.

        Args:
            connection: given away to the pool.
            now: the trio clock.
            keep_alive: what the peer's Keep-Alive field promised, in seconds.
        """
        promised = IDLE_TIMEOUT if keep_alive is None else keep_alive - KEEP_ALIVE_MARGIN
        connection.expires = now + min(IDLE_TIMEOUT, promised)
        kept = self._idle.get(connection.target, [])
        wanted = not connection.authenticated and connection.expires > now and len(kept) < MAX_IDLE_PER_HOST
        if not (wanted and self._make_room(now)):
            connection.close()
            return
        self._idle.setdefault(connection.target, kept).append(connection)
        self._count += 1

    def _make_room(self, now: float) -> bool:
        if self._count >= self._max_idle:
            self.close_expired(now)
        if self._count >= self._max_idle and self._idle:
            self._drop(min(self._all(), key=lambda connection: connection.expires))
        return self._count < self._max_idle

    def next_expiry(self) -> float | None:
        """When the next idle connection is due to be closed; None if there is none."""
        return min((connection.expires for connection in self._all()), default=None)

    def close_expired(self, now: float) -> None:
        """Close the connections whose time is up."""
        for connection in [one for one in self._all() if one.expires <= now]:
            self._drop(connection)

    def close(self) -> None:
        """Close them all."""
        for connection in list(self._all()):
            self._drop(connection)

    def _all(self) -> Iterable[Connection]:
        return (connection for kept in self._idle.values() for connection in kept)

    def _drop(self, connection: Connection) -> None:
        kept = self._idle[connection.target]
        kept.remove(connection)
        if not kept:
            del self._idle[connection.target]
        self._count -= 1
        connection.close()
