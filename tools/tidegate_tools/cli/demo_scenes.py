"""The scenes of `tidegate demo`: each does something for real, and measures whether what should hold does.

Nothing here asserts: a scene says what it saw, and whether that is what was expected.
"""

import json
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from tidegate import Engine, FetchError, Limits, PinnedTarget, PrivateRange, Reason, Response, Timings

NAME: Final = "origin.example"
"""The one name that may be on loopback here."""

MIXED: Final = "mixed.example"
"""A name with one public address and a private one."""

TABLE: Final = {NAME: ["127.0.0.1"], MIXED: ["93.184.215.14", "10.0.0.1"]}
EXCEPTION: Final = PrivateRange("127.0.0.1/32", NAME)

MIB: Final = 1 << 20
CAP: Final = MIB
LARGE: Final = 50 * MIB
BOMB: Final = 64 * MIB
DEADLINE: Final = 1.0

MAX_OVERSHOOT: Final = 0.5
"""Seconds past the deadline that a busy machine may take; an idle one takes a few milliseconds."""

MAX_PEAK: Final = 8 * CAP
"""Memory that a fetch of `CAP` bytes may take, a long way below what the bomb would."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a scene saw.

    Attributes:
        held: it is what was expected.
        seen: in a few words, with figures.
    """

    held: bool
    seen: str


@dataclass(slots=True)
class Stage:
    """What the scenes share: the engine, where the origin listens, and what went over the seams.

    Attributes:
        plain: the origin's URL without TLS.
        tls: with TLS and a certificate by an authority that is trusted here.
        untrusted: with TLS and a certificate by another.
        engine: with one exception, for `NAME`; the stage has to be there before it.
        questions: names that the resolver was asked for.
        connected: targets that were connected to.
    """

    plain: str
    tls: str
    untrusted: str
    engine: Engine = field(init=False)
    questions: list[str] = field(default_factory=list)
    connected: list[PinnedTarget] = field(default_factory=list)

    def on_answer(self, host: str, _: Sequence[IPv4Address | IPv6Address]) -> None:
        """DNS was asked."""
        self.questions.append(host)

    def on_connected(self, target: PinnedTarget) -> None:
        """A connection was opened."""
        self.connected.append(target)

    def forget(self) -> None:
        """Begin a scene."""
        self.questions.clear()
        self.connected.clear()

    async def fetch(self, url: str, **limits: Any) -> Response:
        """Fetch with these limits."""
        return await self.engine.fetch(url, limits=Limits(**limits))

    async def refusal(self, url: str, **limits: Any) -> FetchError | None:
        """The error that a fetch ends with, None if it ends well."""
        try:
            await self.fetch(url, **limits)
        except FetchError as error:
            return error
        return None


def _describe(error: FetchError | None) -> str:
    return f"{error.reason} ({error.phase})" if error is not None else "fetched"


def _has(error: FetchError | None, reason: Reason, hop: int = 0) -> bool:
    return error is not None and error.reason is reason and error.hop == hop


async def _page(stage: Stage) -> Result:
    response = await stage.fetch(f"{stage.tls}/echo")
    (hop,) = response.hops
    sni = json.loads(response.content)["tls"]["server_name"]
    phases = {name: getattr(hop.timings, name) for name in Timings.__slots__}
    times = ", ".join(
        f"{name} {seconds * 1000:.1f}" for name, seconds in phases.items() if seconds is not None
    )
    held = response.status == 200 and sni == NAME and None not in phases.values()
    return Result(held, f"{response.status}, {hop.tls_version}, SNI {sni}; ms: {times}")


async def _large(stage: Stage) -> Result:
    response = await stage.fetch(f"{stage.tls}/content?size={LARGE}", max_content=CAP)
    size = len(response.content)
    return Result(
        size == CAP and response.truncated,
        f"{size:,} bytes kept, {'cut' if response.truncated else 'not cut'}",
    )


async def _redirect(stage: Stage) -> Result:
    url = f"{stage.tls}/redirect?to=http://169.254.169.254/latest/meta-data/"
    error = await stage.refusal(url, max_redirects=5)
    elsewhere = [target for target in stage.connected if target.host != NAME]
    held = _has(error, Reason.IMDS, hop=1) and not elsewhere
    return Result(
        held, f"{_describe(error)} at hop {error.hop if error else 0}, {len(elsewhere)} connections to it"
    )


async def _mixed(stage: Stage) -> Result:
    error = await stage.refusal(f"http://{MIXED}/")
    held = _has(error, Reason.PRIVATE) and stage.questions == [MIXED] and not stage.connected
    return Result(held, f"{_describe(error)}, {len(stage.connected)} connections")


async def _disguised(stage: Stage) -> Result:
    error = await stage.refusal("http://2130706433/")
    held = _has(error, Reason.NON_CANONICAL_IP) and not stage.questions and not stage.connected
    return Result(held, f"{_describe(error)}, {len(stage.questions)} DNS questions")


async def _drip(stage: Stage) -> Result:
    started = time.monotonic()
    error = await stage.refusal(f"{stage.tls}/drip-content?size=1000&interval=0.1", timeout=DEADLINE)
    overshoot = time.monotonic() - started - DEADLINE
    held = _has(error, Reason.TIMEOUT) and 0 <= overshoot < MAX_OVERSHOOT
    return Result(held, f"{_describe(error)}, {overshoot * 1000:.1f} ms over the deadline")


async def _untrusted(stage: Stage) -> Result:
    error = await stage.refusal(f"{stage.untrusted}/upload")
    served = json.loads((await stage.fetch(f"{stage.plain}/state")).content)["served"]
    requests = served.get("upload", 0)
    return Result(
        _has(error, Reason.TLS_FAILED) and not requests, f"{_describe(error)}, {requests} requests sent"
    )


async def _bomb(stage: Stage) -> Result:
    tracemalloc.start()
    try:
        response = await stage.fetch(f"{stage.tls}/bomb?size={BOMB}", max_content=CAP)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = len(response.content)
    held = size == CAP and response.truncated and peak < MAX_PEAK
    return Result(
        held, f"{response.wire_bytes:,} bytes on the wire, {size:,} kept, peak {peak / MIB:.1f} MiB"
    )


@dataclass(frozen=True, slots=True)
class Scene:
    """One line of the demo."""

    title: str
    expected: str
    play: Callable[[Stage], Awaitable[Result]]


SCENES: Final = (
    Scene("a page over TLS", f"200, SNI {NAME}, a time for every phase", _page),
    Scene(f"a body of {LARGE // MIB} MiB", f"cut at the cap of {CAP:,} bytes", _large),
    Scene("a redirect to 169.254.169.254", "imds at hop 1, no connection to it", _redirect),
    Scene("a name with a good and a bad address", "private, no connection to either", _mixed),
    Scene("http://2130706433/", "non_canonical_ip, before any DNS question", _disguised),
    Scene(
        "a server that drips",
        f"timeout after {DEADLINE:g} s, under {MAX_OVERSHOOT * 1000:.0f} ms late",
        _drip,
    ),
    Scene("an untrusted certificate", "tls_failed, no request sent", _untrusted),
    Scene(
        f"a bomb of {BOMB // MIB} MiB",
        f"cut at the cap of {CAP:,} bytes, peak under {MAX_PEAK // MIB} MiB",
        _bomb,
    ),
)
