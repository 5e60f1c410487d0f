"""The least that trio and h11 need for a response: no limits, no deadline, no checks, one connection a task.

It sends the fields that the engine sends, and undoes no coding but gzip.
"""

import ssl
import zlib

import h11
import trio

from tests.bench.job import ADDRESS, Job
from tests.bench.loops import run_on_trio

_FIELDS = [
    ("Host", ADDRESS),
    ("User-Agent", "bare"),
    ("Accept", "*/*"),
    ("Accept-Encoding", "gzip"),
]


class Connection:
    """A stream and the state of HTTP on it."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT)

    async def fetch(self, path: str) -> bytes:
        http = self._http
        request = h11.Request(method="GET", target=path, headers=_FIELDS)
        await self._stream.send_all((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
        pieces = []
        encoded = False
        while not isinstance(event := http.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                http.receive_data(bytes(await self._stream.receive_some(65536)))
            elif isinstance(event, h11.Data):
                pieces.append(event.data)
            elif isinstance(event, h11.Response):
                assert event.status_code == 200
                encoded = (b"content-encoding", b"gzip") in event.headers
        content = b"".join(pieces)
        return zlib.decompress(content, 31) if encoded else content

    async def finish(self) -> bool:
        """True if the connection may be used again; else it is closed."""
        if self._http.our_state is h11.MUST_CLOSE:
            await trio.aclose_forcefully(self._stream)
            return False
        self._http.start_next_cycle()
        return True


def run(job: Job) -> None:
    """Run a job."""
    trio.run(_run, job)


async def _run(job: Job) -> None:
    context = ssl.create_default_context(cafile=job.ca_file)
    idle: list[Connection] = []

    async def connect() -> Connection:
        stream = await trio.open_tcp_stream(ADDRESS, job.port)
        if not job.tls:
            return Connection(stream)
        return Connection(trio.SSLStream(stream, context, server_hostname=ADDRESS))

    async def fetch(path: str) -> bytes:
        connection = idle.pop() if idle else await connect()
        content = await connection.fetch(path)
        if await connection.finish():
            idle.append(connection)
        return content

    await run_on_trio(job, fetch)
