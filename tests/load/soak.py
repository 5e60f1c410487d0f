"""`python -m tests.load.soak --minutes N`: good and bad traffic at random, cancels at random; nothing grows.

Works in rounds. Between them all fetches end, and what the process has is counted.
"""

import argparse
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import trio

import tidegate
from tests.load.job import ADDRESS, NAME, SITES_OF_TLS
from tests.load.namespace import ROOT, command, enter, missing
from tests.load.origins import Origins, running_origins
from tests.load.plan import MAX_GROWTH
from tests.load.resources import Resources, resources_at_rest
from tests.support.markdown import table
from tidegate._wire.pool import IDLE_TIMEOUT
from tidegate.testing.origin import content_of

WORKERS: Final = 40
ROUNDS: Final = 24
MAX_IDLE: Final = 8
_WARM_UP: Final = 3
"""Rounds that count for nothing: caches fill, and modules are loaded when they are first needed."""

# What each has to give, by its own path on either origin.
GOOD: Final = {
    "/content?size=1000": content_of(1000),
    "/content?size=150000": content_of(150_000),
    "/content?size=150000&framing=chunked&chunk=4096": content_of(150_000),
    "/content?size=20000&framing=eof": content_of(20_000),
    "/redirect?to=/content?size=1000": content_of(1000),
    "/bomb?size=100000": bytes(100_000),
    "/bomb?size=100000&coding=zstd": bytes(100_000),
}
BAD: Final = (
    "/hold",
    "/drip-head?interval=0.05",
    "/drip-content?size=1000&interval=0.05",
    "/drip-chunk-size?interval=0.02",
    "/drip-interim?count=100&interval=0.01",
    "/slow-reader?size=100&interval=0.05",
    "/endless-head",
    "/endless-field",
    "/endless-content",
    "/endless-chunks",
    "/endless-extensions",
    "/endless-trailers",
    "/endless-interim",
    "/endless-redirects",
    "/reset",
    "/reset?after=10",
    "/cut",
    "/cut?framing=chunked",
    "/half-close",
    "/wrong-length",
    "/wrong-length?sent=1500",
    "/early",
    "/planted",
    "/late-408?after=0",
    "/drop-idle",
    "/drop-second",
    "/bomb?size=10000000",
    "/bomb?size=10000000&coding=br",
    "/bomb?size=10000000&coding=zstd&layers=2",
    "/gzip-members?count=5000",
    "/gzip-name?size=1000000",
    "/raw?bytes=HTTP/1.1%20200%20OK%0d%0aContent-Length:%20-1%0d%0a%0d%0a",
)


@dataclass(frozen=True, slots=True)
class Round:
    """What came of one round, and what the process had after it."""

    fetches: int
    resources: Resources


class Soak:
    """The traffic.

    Attributes:
        outcomes: how many fetches ended how.
    """

    def __init__(self, engine: tidegate.Engine, origins: Origins, dice: random.Random) -> None:
        self._engine = engine
        self._origins = origins
        self._dice = dice
        self.outcomes: Counter[str] = Counter()

    async def run_for(self, seconds: float) -> None:
        """Run all workers for so long, and until the last of their fetches has ended."""
        end = trio.current_time() + seconds
        async with trio.open_nursery() as workers:
            for number in range(WORKERS):
                workers.start_soon(self._work, f"agent {number % 5}", end)

    async def _work(self, key: str, end: float) -> None:
        while trio.current_time() < end:
            patience = self._dice.choice([float("inf"), float("inf"), self._dice.uniform(0, 0.2)])
            with trio.move_on_after(patience) as scope:
                await self._dice.choice([self._good, self._good, self._bad, self._half])(key)
            self.outcomes["cancelled"] += scope.cancelled_caught

    async def _good(self, key: str) -> None:
        path, content = self._dice.choice([*GOOD.items()])
        limits = tidegate.Limits(timeout=60, max_redirects=1)
        response = await self._engine.fetch(
            self._url(("healthy", "healthy-tls"), path), limits=limits, key=key
        )
        if response.content != content or not response.complete:
            raise AssertionError(f"{path} gave {len(response.content)} bytes, and not what it has to give")
        self.outcomes["good"] += 1

    async def _bad(self, key: str) -> None:
        """Whatever the peer does, it gives a response or one of our errors; all others end the soak."""
        path = self._dice.choice(BAD)
        method, content = ("POST", bytes(100_000)) if path.startswith(("/early", "/slow")) else ("GET", b"")
        url = self._url(("plain", "tls", "silent", "stalled"), path)
        try:
            response = await self._engine.fetch(
                url, method=method, content=content, limits=self._short(), key=key
            )
        except tidegate.FetchError as error:
            self.outcomes[error.reason] += 1
        else:
            self.outcomes["cut" if response.truncated else "bad, yet a response"] += 1

    async def _half(self, key: str) -> None:
        """A stream that is left in the middle."""
        url = self._url(("healthy", "healthy-tls"), "/content?size=1000000&chunk=1000")
        async with self._engine.stream(url, key=key) as response:
            async for _ in response:
                if self._dice.random() < 0.2:
                    break
        self.outcomes["left"] += 1

    def _short(self) -> tidegate.Limits:
        return tidegate.Limits(
            timeout=self._dice.uniform(0.05, 1), max_content=200_000, max_redirects=self._dice.randrange(6)
        )

    def _url(self, sites: Sequence[str], path: str) -> str:
        site = self._dice.choice(sites)
        scheme = "https" if site in SITES_OF_TLS else "http"
        return f"{scheme}://{NAME}:{self._origins.ports[site]}{path}"


async def soak(origins: Origins, minutes: float, dice: random.Random) -> tuple[list[Round], Counter[str]]:
    """Run it; the rounds, then one more after every idle connection has been closed."""
    rounds = []
    before = resources_at_rest()
    async with tidegate.open_engine(
        tidegate.Policy(private_ranges=[tidegate.PrivateRange(f"{ADDRESS}/32", hosts=[NAME])]),
        resolver=tidegate.StaticResolver({NAME: [ADDRESS]}),
        tls=tidegate.client_context(ca_file=origins.ca_file),
        max_concurrency=WORKERS // 2,
        max_idle=MAX_IDLE,
    ) as engine:
        traffic = Soak(engine, origins, dice)
        for _ in range(_WARM_UP + ROUNDS):
            earlier = traffic.outcomes.total()
            await traffic.run_for(minutes * 60 / (_WARM_UP + ROUNDS))
            rounds.append(Round(traffic.outcomes.total() - earlier, resources_at_rest()))
            print(f"{rounds[-1]}", file=sys.stderr, flush=True)
        await trio.sleep(IDLE_TIMEOUT + 1)
    after = resources_at_rest()
    if after.descriptors > before.descriptors:
        raise AssertionError(f"{after.descriptors - before.descriptors} file descriptors were never closed")
    return rounds[_WARM_UP:], traffic.outcomes


def growth(values: Sequence[float]) -> float:
    """By how much the last third lies above the first, as a share of that."""
    third = len(values) // 3
    return median(values[-third:]) / median(values[:third]) - 1


def report(rounds: Sequence[Round], outcomes: Counter[str]) -> str:
    """The tables."""
    lines: list[Sequence[str]] = [("what", "first third", "last third", "growth", "at most")]
    third = len(rounds) // 3
    for what, values in _figures(rounds).items():
        first, last = median(values[:third]), median(values[-third:])
        lines.append((what, f"{first:,.0f}", f"{last:,.0f}", f"{growth(values):+.1%}", f"{MAX_GROWTH:+.0%}"))
    ended: list[Sequence[str]] = [
        ("fetches", "ended with"),
        *((f"{n:,}", how) for how, n in outcomes.most_common()),
    ]
    return "\n".join([*table(lines), "", *table(ended)])


def _figures(rounds: Sequence[Round]) -> dict[str, list[float]]:
    return {
        "blocks of memory in use": [one.resources.blocks for one in rounds],
        "resident memory, KiB": [one.resources.memory / 1024 for one in rounds],
    }


def main() -> int:
    """Run the soak: once outside, which makes the namespace, and once inside."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.soak")
    parser.add_argument("--minutes", type=float, default=10, help="how long, 10 by default")
    parser.add_argument("--seed", type=int, default=None, help="of the dice; printed, to run the same again")
    parser.add_argument("--outside", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.minutes > 0:
        parser.error(f"--minutes must be more than 0, not {arguments.minutes:g}")
    if not arguments.outside:
        if lacking := missing():
            print(f"the soak needs {', '.join(lacking)}", file=sys.stderr)
            return 2
        return subprocess.run(command("tests.load.soak", sys.argv[1:]), cwd=ROOT, check=False).returncode
    enter(arguments.outside)
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"--seed {seed}", file=sys.stderr)
    with running_origins(None) as origins:
        rounds, outcomes = trio.run(soak, origins, arguments.minutes, random.Random(seed))
    print(report(rounds, outcomes))
    return int(any(growth(values) > MAX_GROWTH for values in _figures(rounds).values()))


if __name__ == "__main__":
    raise SystemExit(main())
