"""libcurl by pycurl: one easy handle, blocking. It resumes TLS sessions by itself."""

from io import BytesIO

import pycurl  # type: ignore[import-untyped, unused-ignore]  # it says nothing of its types

from tests.bench.job import Job
from tests.bench.loops import run_blocking


def run(job: Job) -> None:
    """Run a job."""
    handle = pycurl.Curl()
    handle.setopt(pycurl.CAINFO, job.ca_file)
    handle.setopt(pycurl.ACCEPT_ENCODING, "gzip")
    handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)

    def fetch(path: str) -> bytes:
        content = BytesIO()
        handle.setopt(pycurl.URL, job.url(path))
        handle.setopt(pycurl.WRITEDATA, content)
        handle.perform()
        assert handle.getinfo(pycurl.RESPONSE_CODE) == 200
        return content.getvalue()

    run_blocking(job, fetch)
