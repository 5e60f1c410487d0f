"""The least that trio and h11 need for a response, under one cancel scope: no limits and no checks."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h11
import trio

from tests.load.clients import DeadlinePassed
from tests.load.job import ADDRESS, Job
from tests.load.plan import UPLOAD, Hold

EVENT_LOOP = "trio"
_CONTENT = bytes(UPLOAD)
_ONE_SEND = 16 * 1024


class BareClient:
    """See `tests.load.clients.Client`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._context = ssl.create_default_context(cafile=job.ca_file)
        self._idle: list[trio.abc.Stream] = []

    async def hold(self, hold: Hold) -> None:
        """See `tests.load.clients.Client`."""
        with trio.move_on_after(self._job.attack.deadline) as scope:
            stream = await self._connect(hold.site)
            try:
                await _exchange(stream, hold.site, hold.path, _CONTENT if hold.uploads else b"")
            finally:
                await trio.aclose_forcefully(stream)
        if scope.cancelled_caught:
            raise DeadlinePassed

    async def fetch(self) -> None:
        """See `tests.load.clients.Client`."""
        site = "healthy" if self._job.attack.scheme == "http" else "healthy-tls"
        stream = self._idle.pop() if self._idle else await self._connect(site)
        assert await _exchange(stream, site, "/content?size=1024", b"") == 1024
        self._idle.append(stream)

    async def _connect(self, site: str) -> trio.abc.Stream:
        stream = await trio.open_tcp_stream(ADDRESS, self._job.ports[site])
        if not self._job.url(site, "").startswith("https"):
            return stream
        return trio.SSLStream(stream, self._context, server_hostname=ADDRESS)


async def _exchange(stream: trio.abc.Stream, host: str, path: str, content: bytes) -> int:
    """Send a request and read its response; how many bytes of content it had."""
    http = h11.Connection(h11.CLIENT)
    fields = [
        ("Host", host),
        ("User-Agent", "bare"),
        ("Accept", "*/*"),
        ("Content-Length", str(len(content))),
    ]
    request = h11.Request(method="POST" if content else "GET", target=path, headers=fields)
    await stream.send_all(http.send(request) or b"")
    # Trio's TLS encrypts all that it is given at once, and a peer that reads slowly would leave it lying.
    for start in range(0, len(content), _ONE_SEND):
        await stream.send_all(http.send(h11.Data(data=content[start : start + _ONE_SEND])) or b"")
    http.send(h11.EndOfMessage())
    received = 0
    while not isinstance(event := http.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            http.receive_data(bytes(await stream.receive_some(65536)))
        elif isinstance(event, h11.Data):
            received += len(event.data)
    return received


@asynccontextmanager
async def open_client(job: Job) -> AsyncIterator[BareClient]:
    """Open one."""
    client = BareClient(job)
    try:
        yield client
    finally:
        for stream in client._idle:
            await trio.aclose_forcefully(stream)
