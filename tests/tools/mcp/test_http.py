"""The server over HTTP: who may talk to it, and how it ends."""

import http.client
import json
import signal
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.tools.mcp.conftest import Running
from tests.tools.mcp.test_stdio import INITIALIZE

pytestmark = pytest.mark.slow

FIELDS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def post(running: Running, content: bytes, **fields: str) -> tuple[int, str | None]:
    """The status and the session of the answer; 0 if the server hung up before the content was sent."""
    with closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)) as connection:
        try:
            connection.request("POST", "/mcp", content, {**FIELDS, **fields})
        except (BrokenPipeError, ConnectionResetError):
            return 0, None
        with connection.getresponse() as response:
            return response.status, response.headers["mcp-session-id"]


def test_dns_rebinding(http_server: Callable[..., Running]) -> None:
    """A page in a browser has its own name lead here, or its own origin."""
    running, content = http_server("--allowed-host", "mcp.example"), json.dumps(INITIALIZE).encode()
    for host, status in {
        "127.0.0.1": 200,
        f"localhost:{running.port}": 200,
        "mcp.example": 200,
        "mcp.example:8000": 200,
        "evil.example": 421,
        f"evil.example:{running.port}": 421,
        "127.0.0.1.evil.example": 421,
        "mcp.example.evil.example:80": 421,
    }.items():
        assert post(running, content, Host=host)[0] == status, host
    for origin, status in {
        "http://localhost:3000": 200,
        "https://mcp.example": 200,
        "http://evil.example": 403,
        "null": 403,
    }.items():
        assert post(running, content, Origin=origin)[0] == status, origin


@pytest.mark.parametrize(
    ("content", "statuses"),
    [(b"{", {400}), (b"[]", {400}), (b"{}", {400}), (b"x" * (5 * 1024 * 1024), {413, 0})],
    ids=["cut", "list", "empty", "huge"],
)
def test_content_that_is_no_message(
    http_server: Callable[..., Running], content: bytes, statuses: set[int]
) -> None:
    running = http_server()
    assert post(running, content)[0] in statuses
    assert post(running, json.dumps(INITIALIZE).encode())[0] == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_it(http_server: Callable[..., Running], number: signal.Signals) -> None:
    """With a stream of events open."""
    running = http_server()
    _, session = post(running, json.dumps(INITIALIZE).encode())
    fields = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-11-25"}
    with closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)) as connection:
        connection.request("GET", "/mcp", headers=fields)
        with connection.getresponse() as response:
            assert response.status == 200
            started = time.monotonic()
            running.process.send_signal(number)
            assert running.process.wait(5) == 0
            assert time.monotonic() - started < 3
    assert running.process.stderr is not None
    assert running.process.stderr.read() == ""


def test_a_port_that_is_taken(http_server: Callable[..., Running], capfd: pytest.CaptureFixture[str]) -> None:
    from tidegate_tools.cli import main

    running = http_server()
    assert main(["mcp", "--http", str(running.port)]) == 1
    assert "cannot be listened at" in capfd.readouterr().err
