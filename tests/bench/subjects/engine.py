"""tidegate, its floor on: a name, a resolver with one row, and one private-range rule for loopback."""

import trio

import tidegate
from tests.bench.job import ADDRESS, NAME, Job
from tests.bench.loops import run_on_trio
from tests.bench.works import LARGE


def run(job: Job) -> None:
    """Run a job."""
    trio.run(_run, job)


async def _run(job: Job) -> None:
    policy = tidegate.Policy(private_ranges=[tidegate.PrivateRange(f"{ADDRESS}/32", hosts=[NAME])])
    resolver = tidegate.StaticResolver({NAME: [ADDRESS]})
    tls = tidegate.client_context(ca_file=job.ca_file)
    limits = tidegate.Limits(max_content=LARGE)
    async with tidegate.open_engine(policy, resolver=resolver, tls=tls) as engine:

        async def fetch(path: str) -> bytes:
            response = await engine.fetch(job.url(path, NAME), limits=limits)
            assert response.status == 200
            return response.content

        await run_on_trio(job, fetch)
