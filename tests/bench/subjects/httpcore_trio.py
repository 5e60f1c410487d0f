"""httpcore on trio. It undoes no content codings, so this does, at once."""

import ssl
import zlib

import httpcore
import trio

from tests.bench.job import Job
from tests.bench.loops import run_on_trio

_FIELDS = [("User-Agent", "httpcore"), ("Accept", "*/*"), ("Accept-Encoding", "gzip")]


def run(job: Job) -> None:
    """Run a job."""
    trio.run(_run, job)


async def _run(job: Job) -> None:
    context = ssl.create_default_context(cafile=job.ca_file)
    async with httpcore.AsyncConnectionPool(context, max_keepalive_connections=100) as pool:

        async def fetch(path: str) -> bytes:
            response = await pool.request("GET", job.url(path), headers=_FIELDS)
            assert response.status == 200
            encoded = (b"Content-Encoding", b"gzip") in response.headers
            return zlib.decompress(response.content, 31) if encoded else response.content

        await run_on_trio(job, fetch)
