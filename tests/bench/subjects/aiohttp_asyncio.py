"""aiohttp on asyncio, with its C parser."""

import asyncio
import ssl

import aiohttp
import aiohttp.http_parser

from tests.bench.job import Job
from tests.bench.loops import run_on_asyncio


def run(job: Job) -> None:
    """Run a job."""
    asyncio.run(_run(job))


async def _run(job: Job) -> None:
    parser: type = aiohttp.http_parser.HttpResponseParser
    assert parser is not aiohttp.http_parser.HttpResponseParserPy, "aiohttp lacks its C extension"
    context = ssl.create_default_context(cafile=job.ca_file)
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def fetch(path: str) -> bytes:
            async with session.get(job.url(path)) as response:
                assert response.status == 200
                return await response.read()

        await run_on_asyncio(job, fetch)
