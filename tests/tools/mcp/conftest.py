"""The server in a process of its own, as hosts run it, and a site on loopback for it to fetch from."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.tools.mcp.site import Site, open_site

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

PROGRAM = [sys.executable, "-m", "tidegate_tools.cli", "mcp"]


@pytest.fixture
def site() -> Iterator[Site]:
    with open_site() as opened:
        yield opened


@dataclass(frozen=True)
class Running:
    """A server over HTTP."""

    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])


@pytest.fixture
def http_server(site: Site) -> Iterator[Callable[..., Running]]:
    """Starts a server over HTTP; it is ended after the test."""
    with ExitStack() as stack:

        def start(*options: str) -> Running:
            command = [*PROGRAM, "--http", "0", *site.operator, *options]
            process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
            # Gently, so that it is seen to end.
            stack.callback(process.terminate)
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("tidegate: serving MCP at http://127.0.0.1:"), line + process.stderr.read()
            return Running(process, line.split()[-1])

        yield start


@pytest.fixture
def stdio_server(site: Site) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a server at pipes of the test; it is ended after the test."""
    with ExitStack() as stack:

        def start(*options: str) -> subprocess.Popen[bytes]:
            pipe = subprocess.PIPE
            command = [*PROGRAM, *site.operator, *options]
            process = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe))
            stack.callback(process.kill)
            return process

        yield start
