"""The server over HTTP: who may talk to it, and how it ends."""

import http.client
import json
import signal
import socket
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, cast

import pytest
import trio

from tests.tools.mcp.conftest import Running
from tests.tools.mcp.test_stdio import INITIALIZE
from tidegate_tools.mcp import make_server, serve_http
from tidegate_tools.mcp.messages import problem_of

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
    options = ("--allowed-host", "MCP.Example", "--allowed-host", "b\u00fccher.example:8000")
    running, content = http_server(*options), json.dumps(INITIALIZE).encode()
    for host, status in {
        "127.0.0.1": 200,
        f"localhost:{running.port}": 200,
        "mcp.example": 200,
        "mcp.example:8000": 200,
        "Mcp.Example": 200,
        "xn--bcher-kva.example:8000": 200,
        "xn--bcher-kva.example:8001": 421,
        "evil.example": 421,
        f"evil.example:{running.port}": 421,
        "127.0.0.1.evil.example": 421,
        "mcp.example.evil.example:80": 421,
    }.items():
        assert post(running, content, Host=host)[0] == status, host
    for origin, status in {
        "http://localhost:3000": 200,
        "https://mcp.example": 200,
        "https://MCP.example": 200,
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


@pytest.mark.parametrize(
    ("content", "number", "code"),
    [
        (b"[]", None, -32600),
        (b"null", None, -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "SECRET"}', 1, -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": "\\ud800"}}', 1, -32602),
        (b'{"SECRET', None, -32700),
    ],
)
def test_what_is_no_message_is_answered_as_at_a_pipe(
    http_server: Callable[..., Running], content: bytes, number: int | None, code: int
) -> None:
    """In our own words, which repeat nothing of it; a page that may not ask at all is told that alone."""
    running = http_server()
    for version in ({}, {"Mcp-Protocol-Version": "2026-07-28"}):
        status, told = exchange(running, content, **version)
        assert (status, json.loads(told)) == (400, problem_of(content))
        assert (json.loads(told)["id"], json.loads(told)["error"]["code"]) == (number, code)
        assert b"SECRET" not in told
        assert b"pydantic" not in told
    assert exchange(running, content, Host="evil.example")[0] == 421


def exchange(running: Running, content: bytes, **fields: str) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)) as connection:
        connection.request("POST", "/mcp", content, {**FIELDS, **fields})
        with connection.getresponse() as response:
            return response.status, response.read()


def test_what_a_stranger_sends_cannot_drive_the_terminal(http_server: Callable[..., Running]) -> None:
    """The SDK warns of such fields as they came, however long."""
    running, content = http_server(), json.dumps(INITIALIZE).encode()
    evil = "\x1b]0;pwn\x07\x1b[31mx"
    assert raw_status(running, "Host", f"127.0.0.1:{running.port}", content, Origin=f"http://{evil}") == 403
    assert raw_status(running, "Host", evil, content) in (400, 421)
    assert raw_status(running, "Host", f"127.0.0.1:{running.port}", content, Origin="x" * 60_000) in (
        400,
        403,
    )
    running.process.terminate()
    _, errors = running.process.communicate(timeout=10)
    assert "\\x1b]0;pwn" in errors
    assert "\x1b" not in errors
    assert max(map(len, errors.splitlines())) < 300


def raw_status(running: Running, name: str, value: str, content: bytes, **fields: str) -> int:
    """By hand, since `http.client` refuses to send such values."""
    lines = [f"{name}: {value}", *(f"{name}: {value}" for name, value in {**FIELDS, **fields}.items())]
    head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, f"Content-Length: {len(content)}", "", ""])
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        connection.sendall(head.encode() + content)
        return int(connection.makefile("rb").readline().split()[1])


async def test_sessions_are_bounded_and_end() -> None:
    """Nobody has to say who it is to begin one, and each takes memory."""
    server = make_server([])
    serving = partial(serve_http, server, port=0, max_sessions=2, max_idle=1.0)
    content = json.dumps(INITIALIZE).encode()
    async with trio.open_nursery() as nursery:
        told, urls = trio.open_memory_channel[str](1)
        nursery.start_soon(partial(serving, started=told.send_nowait))
        running = Running(cast(Any, None), await urls.receive())
        statuses = [(await trio.to_thread.run_sync(post, running, content))[0] for _ in range(3)]
        assert statuses == [200, 200, 503]
        with trio.fail_after(20):
            while (await trio.to_thread.run_sync(post, running, content))[0] != 200:
                await trio.sleep(0.1)
        nursery.cancel_scope.cancel()


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
