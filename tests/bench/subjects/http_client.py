"""http.client of the standard library, blocking. It undoes no content codings, so this does, at once."""

import http.client
import ssl
import zlib

from tests.bench.job import ADDRESS, Job
from tests.bench.loops import run_blocking

_FIELDS = {"User-Agent": "http.client", "Accept": "*/*", "Accept-Encoding": "gzip"}


def run(job: Job) -> None:
    """Run a job."""
    context = ssl.create_default_context(cafile=job.ca_file)
    connection = (
        http.client.HTTPSConnection(ADDRESS, job.port, context=context)
        if job.tls
        else http.client.HTTPConnection(ADDRESS, job.port)
    )

    def fetch(path: str) -> bytes:
        connection.request("GET", path, headers=_FIELDS)  # connects again if the server closed
        response = connection.getresponse()
        assert response.status == 200
        content = response.read()
        encoded = response.getheader("Content-Encoding") == "gzip"
        return zlib.decompress(content, 31) if encoded else content

    run_blocking(job, fetch)
