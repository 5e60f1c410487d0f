"""Addresses to listen on, and the program."""

import http.client
import json
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
import trio.testing

from tests.engine.origin.client import Client
from tidegate.testing.origin import Listener, content_of, open_origin, parse_address


async def test_both_families_are_listened_on() -> None:
    async with open_origin(Listener(), Listener(host="::1")) as origin:
        for host, port in zip(("127.0.0.1", "::1"), origin.ports, strict=True):
            async with await trio.open_tcp_stream(host, port) as stream:
                assert (await Client(stream).ask("/content?size=1")).content == b"0"


async def test_an_address_in_use_is_an_error() -> None:
    async with open_origin() as origin:
        with pytest.raises(OSError, match=f"127.0.0.1:{origin.port}: Address already in use"):
            async with open_origin(Listener(), Listener(port=origin.port)):
                pass


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("[fe80::1]:9", ("fe80::1", 9))],
)
def test_addresses_are_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", "80", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:٨"),
        *("::1:8080", "[::1:80", "::1]:80", "[127.0.0.1]:80", "localhost:80", "[]:80"),
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Exception, match="is not ADDRESS:PORT"):
        parse_address(text)


@pytest.mark.parametrize("port", ["65535", "00080"])
def test_the_highest_port(port: str) -> None:
    assert parse_address(f"127.0.0.1:{port}") == ("127.0.0.1", int(port))


@pytest.mark.parametrize("port", ["65536", "99999", "9" * 5000])
def test_a_port_above_the_highest_is_refused(port: str) -> None:
    """The system would listen on another one, without a word."""
    with pytest.raises(Exception, match="a port is at most 65535"):
        parse_address(f"127.0.0.1:{port}")


Ready: TypeAlias = dict[str, list[tuple[str, int]]]


@contextmanager
def running(*options: str) -> Iterator[Ready]:
    """The program, until its input ends; what it said when it was ready."""
    command = [sys.executable, "-m", "tidegate.testing.origin", "--exit-with-stdin", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        yield json.loads(program.stdout.readline())
        program.stdin.close()
        assert program.wait(timeout=10) == 0


def test_the_program_serves_until_its_input_ends(tmp_path: Path) -> None:
    """A plain standard-library client reads from it over TCP and TLS."""
    trusted = tmp_path / "authority.pem"
    addresses = ["--bind", "127.0.0.1:0", "--tls-bind", "127.0.0.1:0", "--silent-bind", "[::1]:0"]
    with running(*addresses, "--tls-name", "localhost", "--tls-authority", str(trusted)) as ready:
        assert {kind: [host for host, _ in listeners] for kind, listeners in ready.items()} == {
            "plain": ["127.0.0.1"],
            "tls": ["127.0.0.1"],
            "silent": ["::1"],
            "stall": [],
        }
        plain = http.client.HTTPConnection("127.0.0.1", ready["plain"][0][1])
        context = ssl.create_default_context(cafile=trusted)
        tls = http.client.HTTPSConnection("localhost", ready["tls"][0][1], context=context)
        for client in (plain, tls):
            client.request("GET", "/content?size=20&framing=chunked")
            assert client.getresponse().read() == content_of(20)
            client.close()


def test_without_an_address_the_program_listens_for_plain_http() -> None:
    with running() as ready:
        assert {kind: len(listeners) for kind, listeners in ready.items()} == {
            "plain": 1,
            "tls": 0,
            "silent": 0,
            "stall": 0,
        }


def test_the_program_drips_a_handshake() -> None:
    """Byte by byte, as long as it was told; the client's own handshake waits all the while."""
    options = ["--stall-after", "30", "--stall-interval", "0.01", "--tls-name", "localhost"]
    with running("--stall-bind", "127.0.0.1:0", *options) as ready:
        outgoing = ssl.MemoryBIO()
        handshake = ssl.create_default_context().wrap_bio(
            ssl.MemoryBIO(), outgoing, server_hostname="localhost"
        )
        with pytest.raises(ssl.SSLWantReadError):
            handshake.do_handshake()
        with socket.create_connection(("127.0.0.1", ready["stall"][0][1]), timeout=10) as client:
            began = time.monotonic()
            client.sendall(outgoing.read())
            with client.makefile("rb") as received:
                assert len(received.read(30)) == 30
            assert time.monotonic() - began >= 0.3
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(1)


def test_the_program_takes_a_small_receive_buffer() -> None:
    """So that a client which uploads to a stall is blocked soon."""
    with running("--silent-bind", "127.0.0.1:0", "--receive-buffer", "4096") as ready:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with client:
            client.connect(("127.0.0.1", ready["silent"][0][1]))
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                for _ in range(64):
                    client.send(bytes(1024))


def run_to_end(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tidegate.testing.origin", "--exit-with-stdin", *options]
    return subprocess.run(command, input="", capture_output=True, text=True, timeout=30, check=False)


STALLED = ("--stall-bind", "127.0.0.1:0")
SECURE = ("--tls-bind", "127.0.0.1:0")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--log-limit", "-1"), "--log-limit"),
        (("--receive-buffer", "99999999999"), "--receive-buffer"),
        (("--receive-buffer", "-1"), "--receive-buffer"),
        ((*STALLED, "--stall-interval", "nan"), "--stall-interval"),
        ((*STALLED, "--stall-interval", "-1"), "--stall-interval"),
        ((*STALLED, "--stall-after", "-5"), "--stall-after"),
        ((*STALLED, "--stall-flight", "-1"), "--stall-flight"),
        (("--stall-after", "5"), "--stall-after does nothing without --stall-bind"),
        (("--tls-authority", "ca.pem"), "--tls-authority does nothing without --tls-bind"),
        ((*SECURE, "--tls-key", "key.pem"), "--tls-key does nothing without --tls-cert"),
        ((*SECURE, "--tls-cert", "cert.pem", "--tls-name", "a.example"), "--tls-name is for a certificate"),
    ],
)
def test_options_that_make_no_sense_are_a_usage_error(options: tuple[str, ...], told: str) -> None:
    done = run_to_end(*options)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((*SECURE, "--tls-name", "a..b"), "for 'a..b'"),
        ((*SECURE, "--tls-cert", "/nowhere.pem"), "from /nowhere.pem"),
        (("--bind", "192.0.2.1:80"), "192.0.2.1:80"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_sentence(options: tuple[str, ...], told: str) -> None:
    done = run_to_end(*options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("tidegate.testing.origin: ")
    assert told in done.stderr


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("program", ["origin", "dns"])
def test_a_signal_right_after_the_ready_line_is_heard(
    program: str, sent: signal.Signals, tmp_path: Path
) -> None:
    zone = tmp_path / "zone.json"
    zone.write_text("{}")
    options = ["--zone", str(zone)] if program == "dns" else []
    for _ in range(3):
        command = [sys.executable, "-m", f"tidegate.testing.{program}", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(sent)
            assert process.wait(timeout=10) == 0


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1500 << 20, 1500 << 20))


@pytest.fixture(scope="module")
def small_port() -> Iterator[int]:
    """The port of a program that may not have much memory, and has to live to the end."""
    command = [sys.executable, "-m", "tidegate.testing.origin", "--exit-with-stdin"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=limit_memory,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        yield json.loads(program.stdout.readline())["plain"][0][1]
        program.stdin.close()
        assert (program.stderr.read(), program.wait(timeout=10)) == (b"", 0)


@pytest.mark.parametrize(
    "target",
    [
        "/content?size=99999999999&chunk=99999999999",
        "/drip-content?size=endless&chunk=99999999999",
        "/drip-head?bytes=9999999999999999999",
        "/slow-reader?size=9999999999999999999",
        "/endless-head?size=99999999999",
        "/endless-field?size=99999999999",
        "/endless-chunks?size=99999999999",
        "/endless-extensions?size=99999999999",
        "/endless-trailers?size=99999999999",
        "/endless-redirects?padding=99999999999",
        "/wrong-length?sent=9999999999999999999",
        "/reset?size=99999999999",
        "/cut?size=99999999999&framing=chunked",
        "/bomb?size=9999999999999999999",
        "/bomb?size=1&layers=9999999999999999999",
        "/gzip-members?count=99999999999",
        "/gzip-members?size=99999999999",
        "/gzip-name?size=99999999999",
    ],
)
def test_no_size_ends_the_program(target: str, small_port: int) -> None:
    with socket.create_connection(("127.0.0.1", small_port), timeout=10) as client:
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert client.recv(9) == b"HTTP/1.1 "
        other = http.client.HTTPConnection("127.0.0.1", small_port, timeout=10)
        other.request("GET", "/content?size=1")
        assert other.getresponse().read() == b"0"
        other.close()
