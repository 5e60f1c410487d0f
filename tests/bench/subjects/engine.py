"""tidegate, its floor on: a name, a resolver with one row, and one private-range rule for loopback."""

from collections.abc import Callable
from typing import TypeAlias

import trio

import tidegate
from tests.bench.job import ADDRESS, NAME, Job
from tests.bench.loops import Fetch, run_on_trio
from tests.bench.works import LARGE

Wrapper: TypeAlias = Callable[[Fetch], Fetch]


def run(
    job: Job, observer: tidegate.Observer | None = None, *, wrapped: Wrapper = lambda fetch: fetch
) -> None:
    """Run a job.

    Args:
        job: what to do.
        observer: of the engine.
        wrapped: what is to be done around each fetch.
    """
    trio.run(_run, job, observer, wrapped)


async def _run(job: Job, observer: tidegate.Observer | None, wrapped: Wrapper) -> None:
    policy = tidegate.Policy(private_ranges=[tidegate.PrivateRange(f"{ADDRESS}/32", hosts=[NAME])])
    resolver = tidegate.StaticResolver({NAME: [ADDRESS]})
    tls = tidegate.client_context(ca_file=job.ca_file)
    limits = tidegate.Limits(max_content=LARGE)
    async with tidegate.open_engine(policy, resolver=resolver, tls=tls, observer=observer) as engine:

        async def fetch(path: str) -> bytes:
            response = await engine.fetch(job.url(path, NAME), limits=limits)
            assert response.status == 200
            return response.content

        await run_on_trio(job, wrapped(fetch))
