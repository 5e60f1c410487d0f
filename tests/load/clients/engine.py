"""tidegate, its floor on: a name, a resolver with one row, and one private-range rule for loopback.

Its limits are the defaults. The attacker's fetches and the healthy ones have a key each.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import tidegate
from tests.load.clients import DeadlinePassed
from tests.load.job import ADDRESS, NAME, Job
from tests.load.plan import UPLOAD, Hold

EVENT_LOOP = "trio"
_CONTENT = bytes(UPLOAD)
_SPARE = 100


class EngineClient:
    """See `tests.load.clients.Client`."""

    def __init__(self, engine: tidegate.Engine, job: Job) -> None:
        self._engine = engine
        self._job = job
        self._limits = tidegate.Limits(timeout=job.attack.deadline)

    async def hold(self, hold: Hold) -> None:
        """See `tests.load.clients.Client`."""
        try:
            await self._engine.fetch(
                self._job.url(hold.site, hold.path, NAME),
                method="POST" if hold.uploads else "GET",
                content=_CONTENT if hold.uploads else b"",
                limits=self._limits,
                key="attacker",
            )
        except tidegate.DeadlineExceeded as error:
            raise DeadlinePassed(error.phase) from None

    async def fetch(self) -> None:
        """See `tests.load.clients.Client`."""
        response = await self._engine.fetch(self._job.healthy_url(NAME), key="healthy")
        assert len(response.content) == 1024


@asynccontextmanager
async def open_client(job: Job) -> AsyncIterator[EngineClient]:
    """Open one."""
    holds = job.attack.holds
    async with tidegate.open_engine(
        tidegate.Policy(private_ranges=[tidegate.PrivateRange(f"{ADDRESS}/32", hosts=[NAME])]),
        resolver=tidegate.StaticResolver({NAME: [ADDRESS]}),
        tls=tidegate.client_context(ca_file=job.ca_file),
        max_concurrency=holds + _SPARE,
        max_concurrency_per_key=holds,
    ) as engine:
        yield EngineClient(engine, job)
