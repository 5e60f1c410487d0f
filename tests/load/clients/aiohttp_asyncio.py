"""aiohttp on asyncio, with a total time-out that is not rounded up to whole seconds."""

import math
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from tests.load.clients import DeadlinePassed
from tests.load.job import Job
from tests.load.plan import UPLOAD, Hold

EVENT_LOOP = "asyncio"
_CONTENT = bytes(UPLOAD)


class AiohttpClient:
    """See `tests.load.clients.Client`."""

    def __init__(self, session: aiohttp.ClientSession, job: Job) -> None:
        self._session = session
        self._job = job
        self._timeout = aiohttp.ClientTimeout(total=job.attack.deadline, ceil_threshold=math.inf)

    async def hold(self, hold: Hold) -> None:
        """See `tests.load.clients.Client`."""
        url, method = self._job.url(hold.site, hold.path), "POST" if hold.uploads else "GET"
        content = _CONTENT if hold.uploads else None
        try:
            async with self._session.request(method, url, data=content, timeout=self._timeout) as response:
                await response.read()
        except TimeoutError:
            raise DeadlinePassed from None

    async def fetch(self) -> None:
        """See `tests.load.clients.Client`."""
        async with self._session.get(self._job.healthy_url()) as response:
            assert len(await response.read()) == 1024


@asynccontextmanager
async def open_client(job: Job) -> AsyncIterator[AiohttpClient]:
    """Open one."""
    context = ssl.create_default_context(cafile=job.ca_file)
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield AiohttpClient(session, job)
