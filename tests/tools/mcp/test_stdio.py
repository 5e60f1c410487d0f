"""The server at its pipes: broken messages, clients that vanish, one Ctrl+C."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools.mcp.conftest import PROGRAM
from tests.tools.mcp.site import Site

pytestmark = pytest.mark.slow

Start = Callable[..., subprocess.Popen[bytes]]

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def send(process: subprocess.Popen[bytes], *messages: Any) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def connected(start: Start, *options: str) -> subprocess.Popen[bytes]:
    process = start(*options)
    send(process, INITIALIZE)
    assert answer(process)["result"]["serverInfo"]["name"] == "tidegate"
    send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    return process


def call(number: int, url: str) -> dict[str, Any]:
    parameters = {"name": "fetch", "arguments": {"url": url}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": parameters}


PING = {"jsonrpc": "2.0", "id": 99, "method": "ping"}


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b"{\n", -32700, "no JSON"),
        (b"hello\n", -32700, "no JSON"),
        (b"\xff\xfe\n", -32700, "no JSON"),
        (b"[" * 100_000 + b"\n", -32700, "no JSON"),
        (b"{}\n", -32600, "no JSON-RPC"),
        (b'{"jsonrpc": "1.0", "method": "ping"}\n', -32600, "no JSON-RPC"),
        (b"null\n", -32600, "no JSON-RPC"),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}\n', -32600, "neither a text nor a whole number"),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}\n', -32600, "neither a text nor a whole number"),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}\n', -32600, "neither a text nor a whole number"),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}\n', -32600, "neither a text nor a whole number"),
        (b'{"jsonrpc": "2.0", "id": 5, "result": "\\ud800"}\n', -32700, "no JSON"),
        (b'"text"\n', -32600, "no JSON-RPC"),
        (b'{"a": "' + b"x" * (9 * 1024 * 1024) + b'"}\n', -32700, "more than 4194304 bytes"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_line_that_is_no_message(stdio_server: Start, line: bytes, code: int, words: str) -> None:
    """An error with a null id, and the next message is served."""
    process = connected(stdio_server)
    send(process, line)
    told = answer(process)
    assert (told["id"], told["error"]["code"]) == (None, code)
    assert words in told["error"]["message"]
    send(process, b"\n", PING)
    assert answer(process) == {"jsonrpc": "2.0", "id": 99, "result": {}}


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', 1, -32600),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": [1]}', "a", -32600),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"a": "\\ud800"}}', 5, -32602),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": {"a": "\xff"}}', "a", -32602),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"a": %b}}' % (b"9" * 5000), 5, -32602),
        (
            b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"a": %b}}' % (b"[" * 300 + b"]" * 300),
            5,
            -32602,
        ),
    ],
    ids=lambda value: repr(value)[:64],
)
def test_a_request_that_cannot_be_read_is_answered_by_its_id(
    stdio_server: Start, line: bytes, number: int | str, code: int
) -> None:
    """Its host would wait for ever."""
    process = connected(stdio_server)
    send(process, line + b"\n")
    told = answer(process)
    assert (told["id"], told["error"]["code"]) == (number, code)
    send(process, PING)
    assert answer(process)["id"] == 99


@pytest.mark.parametrize(
    ("redirection", "code", "words"),
    [
        ("<&-", 2, "standard input is closed"),
        ("</dev/null >&-", 2, "standard output is closed"),
        ("</dev/null 2>&-", 0, ""),
        ("</dev/null >/dev/full", 0, ""),
    ],
)
def test_streams_that_are_closed(redirection: str, code: int, words: str) -> None:
    script = f"exec {' '.join(PROGRAM)} {redirection}"
    ended = subprocess.run(["/bin/sh", "-c", script], capture_output=True, timeout=20, text=True)
    assert ended.returncode == code
    assert ended.stderr.count("\n") == bool(words)
    assert words in ended.stderr


@pytest.mark.usefixtures("hang_ups")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_other_signals_end_it_like_an_interrupt(
    stdio_server: Start, number: signal.Signals, code: int
) -> None:
    process = connected(stdio_server)
    process.send_signal(number)
    assert process.wait(5) == code


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 5, "method": "no/such/method"},
        {"jsonrpc": "2.0", "id": 5, "method": "tools/call"},
        {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": 5}},
        {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": [1]},
        {"jsonrpc": "2.0", "id": 5, "method": "prompts/get", "params": {"name": "no-such-prompt"}},
    ],
    ids=lambda value: str(value.get("params")),
)
def test_a_message_that_makes_no_sense(stdio_server: Start, message: dict[str, Any]) -> None:
    process = connected(stdio_server)
    send(process, message)
    told = answer(process)
    assert "error" in told
    assert "Traceback" not in json.dumps(told)
    send(process, PING)
    assert answer(process)["id"] == 99


def children(process: subprocess.Popen[bytes]) -> set[str]:
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return {child for task in tasks for child in task.read_text().split()}


def gone(pids: set[str]) -> bool:
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True


def test_the_end_of_input_is_the_end(stdio_server: Start, site: Site) -> None:
    """Also with a call under way, and no converter process is left."""
    process = connected(stdio_server)
    send(process, call(2, site.url("/article")))
    answer(process)
    converters = children(process)
    assert converters
    send(process, call(3, site.url("/hold")))
    assert site.server.held.wait(10)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(5) == 0
    assert site.server.released.wait(5)
    assert gone(converters)
    assert process.stderr is not None
    assert process.stderr.read() == b""


@pytest.mark.parametrize("busy", [False, True])
def test_one_interrupt_ends_it_at_once(stdio_server: Start, site: Site, busy: bool) -> None:
    """While its client holds the pipe open (python-sdk #3551)."""
    process = connected(stdio_server)
    if busy:
        send(process, call(3, site.url("/hold")))
        assert site.server.held.wait(10)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130
    assert time.monotonic() - started < 3
    assert process.stderr is not None
    assert process.stderr.read() == b"tidegate: interrupted\n"


def test_an_interrupt_while_the_client_reads_nothing(stdio_server: Start, site: Site) -> None:
    """A full pipe must not hold it either."""
    process = connected(stdio_server)
    send(process, *(PING for _ in range(5_000)))
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130


def test_a_client_that_vanishes(stdio_server: Start, site: Site) -> None:
    """Nobody reads any more: a clean end, without a traceback."""
    process = connected(stdio_server)
    assert process.stdout is not None
    process.stdout.close()
    send(process, PING)
    assert process.wait(5) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_a_message_without_its_end(stdio_server: Start) -> None:
    process = connected(stdio_server)
    assert process.stdin is not None
    process.stdin.write(b'{"jsonrpc": "2.0", "id"')
    process.stdin.close()
    assert process.wait(5) == 0


def test_what_is_printed_is_no_message(stdio_server: Start) -> None:
    """Standard output holds messages alone: it was diverted, and every line that came is JSON."""
    process = connected(stdio_server)
    send(process, PING, {"jsonrpc": "2.0", "id": 98, "method": "tools/list"})
    assert {answer(process)["id"] for _ in range(2)} == {98, 99}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--http", "x"), "is not [HOST:]PORT"),
        (("--http", "0.0.0.0:0"), "not loopback"),
        (("--allowed-host", "a.example"), "--allowed-host is for --http"),
        (("--config", "x"), "are for --tool web_request"),
        (("--tool", "nope"), "--tool"),
        (("--tool", "web_request"), "--allow-private is for fetch and Fetch"),
        (("--timeout", "0"), "--timeout"),
        (("--user-agent", "\u00e9"), "--user-agent: "),
        (("--user-agent", "a\nb"), "--user-agent: "),
        (("--user-agent", ""), "--user-agent: "),
        (("--http", "0", "--allowed-host", "*"), "--allowed-host '*': "),
        (("--http", "0", "--allowed-host", ""), "--allowed-host '': "),
        (
            ("--http", "0", "--allowed-host", "https://mcp.example/"),
            "--allowed-host 'https://mcp.example/': ",
        ),
        (("--http", "0", "--allowed-host", "mcp.example:0"), "--allowed-host 'mcp.example:0': "),
    ],
)
def test_options_that_make_no_sense(stdio_server: Start, options: tuple[str, ...], words: str) -> None:
    process = stdio_server(*options)
    assert process.wait(20) == 2
    assert process.stderr is not None
    assert words in process.stderr.read().decode()
