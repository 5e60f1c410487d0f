"""httpx on trio. Its own time-outs are per operation and end no drip, so a cancel scope goes around it."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import trio

from tests.load.clients import DeadlinePassed
from tests.load.job import Job
from tests.load.plan import UPLOAD, Hold

EVENT_LOOP = "trio"
_CONTENT = bytes(UPLOAD)


class HttpxClient:
    """See `tests.load.clients.Client`."""

    def __init__(self, client: httpx.AsyncClient, job: Job) -> None:
        self._client = client
        self._job = job

    async def hold(self, hold: Hold) -> None:
        """See `tests.load.clients.Client`."""
        url, method = self._job.url(hold.site, hold.path), "POST" if hold.uploads else "GET"
        with trio.move_on_after(self._job.attack.deadline) as scope:
            await self._client.request(method, url, content=_CONTENT if hold.uploads else None)
        if scope.cancelled_caught:
            raise DeadlinePassed

    async def fetch(self) -> None:
        """See `tests.load.clients.Client`."""
        response = await self._client.get(self._job.healthy_url())
        assert len(response.content) == 1024


@asynccontextmanager
async def open_client(job: Job) -> AsyncIterator[HttpxClient]:
    """Open one."""
    context = ssl.create_default_context(cafile=job.ca_file)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx.AsyncClient(verify=context, limits=limits, timeout=None, trust_env=False) as client:
        yield HttpxClient(client, job)
