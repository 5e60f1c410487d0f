"""What is run, and what is aimed at: the attack, its sizes, the clients, the aims of issue 6."""

from dataclasses import dataclass
from typing import Final

KIB: Final = 1024

ENGINE: Final = "tidegate"
BARE: Final = "bare trio + h11"
CLIENTS: Final = {ENGINE: "engine", BARE: "bare_loop", "aiohttp": "aiohttp_asyncio", "httpx": "httpx_trio"}
"""Clients, and the module of `tests.load.clients` that is each."""

SPREAD: Final = 2.0
"""Seconds over which the holds of an attack start."""

HEALTHY_RATE: Final = 50
"""Healthy fetches a second, before, during and after the attack."""

INTERVAL: Final = 5.0
"""Seconds between two bytes (or two interim responses) of a hold."""

UPLOAD: Final = 512 * KIB
"""Content bytes of an upload that is never read to its end: more than the buffers of both sides."""


@dataclass(frozen=True, slots=True)
class Hold:
    """One way to keep a fetch from ending.

    Attributes:
        title: where the fetch is held.
        site: of the hostile origin, see `origins`.
        path: of the request.
        phase: in which the engine's deadline strikes.
        uploads: a POST with `UPLOAD` bytes.
    """

    title: str
    site: str
    path: str
    phase: str
    uploads: bool = False


_DRIP: Final = f"interval={INTERVAL:g}"

_IN_ANY: Final = (
    Hold("no answer", "{}", "/hold", "head"),
    Hold("head, byte by byte", "{}", f"/drip-head?padding=100000&{_DRIP}", "head"),
    Hold("interim responses", "{}", f"/drip-interim?count=endless&{_DRIP}", "head"),
    Hold("content of a petabyte, byte by byte", "{}", f"/drip-content?size={10**15}&{_DRIP}", "content"),
    Hold("chunk sizes, digit by digit", "{}", f"/drip-chunk-size?count=endless&{_DRIP}", "content"),
    Hold("upload, read byte by byte", "{}", f"/slow-reader?size=1&{_DRIP}", "send", uploads=True),
)


def holds_of(scheme: str) -> tuple[Hold, ...]:
    """Every way to hold a fetch over `http` or `https`; an attack takes them in turns."""
    site = "plain" if scheme == "http" else "tls"
    first = (
        Hold("accepted, and no byte read", "silent", "/", "head")
        if scheme == "http"
        else Hold("TLS handshake, byte by byte", "stalled", "/", "tls")
    )
    rest = (Hold(hold.title, site, hold.path, hold.phase, hold.uploads) for hold in _IN_ANY)
    return (first, *rest)


@dataclass(frozen=True, slots=True)
class Attack:
    """One row of the table.

    Attributes:
        scheme: http or https.
        holds: how many at once.
        deadline: seconds, the same for every hold and client. Long enough for the engine and the bare loop to
            have opened all connections before half of it is over.
    """

    scheme: str
    holds: int
    deadline: float

    @property
    def title(self) -> str:
        """Its name in the tables."""
        return f"{self.holds:,} holds, {'plain' if self.scheme == 'http' else 'TLS'}"


ATTACKS: Final = (
    Attack("http", 1_000, 10),
    Attack("http", 4_000, 15),
    Attack("http", 10_000, 25),
    Attack("https", 1_000, 12),
    Attack("https", 4_000, 22),
    Attack("https", 10_000, 45),
)

MAX_OVERSHOOT: Final = 1.5
"""p99 of the engine's overshoot over that of the bare loop, from `FROM_HOLDS` holds up."""
FROM_HOLDS: Final = 4_000
MAX_BYTES: Final = {"http": 9 * KIB, "https": 48 * KIB}
"""Memory of a hold."""
MAX_SLOWDOWN: Final = 3.0
"""p99 of a healthy fetch during the attack over that before it."""
MAX_GROWTH: Final = 0.05
"""Memory and file descriptors after the attack beyond those before it."""
