"""Addresses to listen on, and the program."""

import http.client
import json
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
        with pytest.raises(OSError, match="in use"):
            async with open_origin(Listener(), Listener(port=origin.port)):
                pass


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("[fe80::1]:9", ("fe80::1", 9))],
)
def test_addresses_are_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "80", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:٨"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Exception, match="is not ADDRESS:PORT"):
        parse_address(text)


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
