"""httpx on trio."""

import ssl

import httpx
import trio

from tests.bench.job import Job
from tests.bench.loops import run_on_trio


def run(job: Job) -> None:
    """Run a job."""
    trio.run(_run, job)


async def _run(job: Job) -> None:
    context = ssl.create_default_context(cafile=job.ca_file)
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=100)
    async with httpx.AsyncClient(verify=context, limits=limits, trust_env=False) as client:

        async def fetch(path: str) -> bytes:
            response = await client.get(job.url(path))
            assert response.status_code == 200
            return response.content

        await run_on_trio(job, fetch)
