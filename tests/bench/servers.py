"""The far end: one nginx with one worker, and the chunked origin, on loopback and on a core of their own."""

import gzip
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trustme

from tests.bench.job import ADDRESS, NAME
from tests.bench.works import LARGE, SMALL, TEXT

ROOT: Final = Path(__file__).resolve().parents[2]

# Site: its lines of nginx's configuration.
_NO_TICKETS: Final = "ssl_session_cache off; ssl_session_tickets off;"
_TLS: Final = "ssl_certificate cert.pem; ssl_certificate_key key.pem;"
_SITES: Final = {
    "plain": "",
    "tls": _TLS,
    "new-plain": "keepalive_timeout 0;",
    "new-tls": f"keepalive_timeout 0; {_TLS} {_NO_TICKETS}",
    "resumable-tls": f"keepalive_timeout 0; {_TLS} ssl_session_cache shared:all:1m;",
}

_CONFIGURATION: Final = """
daemon off; worker_processes 1; pid nginx.pid; {user}
events {{ worker_connections 1024; }}
http {{
    log_format wire "$server_port $connection_requests $ssl_session_reused";
    access_log wire.log wire;
    client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp;
    uwsgi_temp_path temp; scgi_temp_path temp;
    keepalive_requests 1000000; keepalive_timeout 600; open_file_cache max=16;
    ssl_protocols TLSv1.2 TLSv1.3; sendfile on; gzip_static on; root files; default_type text/plain;
{servers}
}}
"""
_SERVER: Final = "    server {{ listen {address}:{port} {tls}; {lines} }}\n"


@dataclass(slots=True)
class Wire:
    """What nginx saw of a client: requests, and how many of them opened a connection, or resumed TLS."""

    requests: int = 0
    connections: int = 0
    resumed: int = 0


class Log:
    """nginx's log, one line a request, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._lines = path.open("rb")

    def add_to(self, wire: Wire) -> None:
        """Add what has come since the last call."""
        for line in self._lines:
            _, earlier, session = line.split()
            wire.requests += 1
            wire.connections += earlier == b"1"
            wire.resumed += session == b"r"


@dataclass(frozen=True, slots=True)
class Servers:
    """The running servers.

    Attributes:
        ports: by site.
        ca_file: PEM of the authority of the certificate.
        log: of nginx.
    """

    ports: dict[str, int]
    ca_file: Path
    log: Log


class Missing(Exception):
    """Something that has to be installed is not; the text says how."""


@contextmanager
def running_servers(core: int | None) -> Iterator[Servers]:
    """Start both servers, and end them after the block.

    Args:
        core: the processor that they stay on; None for any.

    Raises:
        Missing: there is no nginx.
    """
    with TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        here = Path(folder)
        ca_file = _write_files(here)
        ports = {site: _free_port() for site in _SITES}
        listener = stack.enter_context(socket.create_server((ADDRESS, 0)))
        ports["chunked"] = listener.getsockname()[1]
        _write_configuration(here, ports)
        with on_core(core):
            stack.enter_context(_process(_nginx(here)))
            stack.enter_context(_process(_origin(listener), listener.fileno()))
        for port in ports.values():
            _wait_for(port)
        yield Servers(ports, ca_file, Log(here / "wire.log"))


def nginx_program() -> str:
    """Where nginx is; Debian has it where only root's PATH leads.

    Raises:
        Missing: there is none.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise Missing("the benchmark needs nginx with TLS; on Debian: apt-get install nginx-light")
    return program


def _nginx(here: Path) -> list[str]:
    return [nginx_program(), "-p", str(here), "-c", "nginx.conf", "-e", "error.log"]


def _origin(listener: socket.socket) -> list[str]:
    return [sys.executable, "-m", "tests.bench.chunked_origin", str(listener.fileno())]


@contextmanager
def _process(command: Sequence[str], *inherited: int) -> Iterator[None]:
    process = subprocess.Popen(command, cwd=ROOT, pass_fds=inherited)
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """What is started in the block inherits its processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if core is None else {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _write_files(here: Path) -> Path:
    files = here / "files"
    files.mkdir()
    dice = random.Random(5)
    (files / "small").write_bytes(dice.randbytes(SMALL))
    (files / "large").write_bytes(dice.randbytes(LARGE))
    text = _text(dice)
    (files / "text").write_bytes(text)
    (files / "text.gz").write_bytes(gzip.compress(text, 6))
    authority = trustme.CA()
    certificate = authority.issue_cert(NAME, ADDRESS)
    certificate.private_key_pem.write_to_path(here / "key.pem")
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(here / "cert.pem", append=True)
    authority.cert_pem.write_to_path(here / "ca.pem")
    return here / "ca.pem"


def _text(dice: random.Random) -> bytes:
    """Text of made-up words, some much more frequent than others; gzip makes about a third of it."""
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = ["".join(dice.choices(letters, range(26, 0, -1), k=dice.randint(2, 9))) for _ in range(4000)]
    ranks = [1 / rank for rank in range(1, 4001)]
    return " ".join(dice.choices(words, ranks, k=TEXT // 4)).encode()[:TEXT]


def _write_configuration(here: Path, ports: dict[str, int]) -> None:
    servers = "".join(
        _SERVER.format(address=ADDRESS, port=ports[site], lines=lines, tls="ssl" if _TLS in lines else "")
        for site, lines in _SITES.items()
    )
    # Only root can name a user, and needs to: the folder is root's own.
    user = "user root;" if os.geteuid() == 0 else ""
    (here / "nginx.conf").write_text(_CONFIGURATION.format(user=user, servers=servers), encoding="ascii")


def _free_port() -> int:
    with socket.create_server((ADDRESS, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    for _ in range(250):
        try:
            socket.create_connection((ADDRESS, port), 1).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"nothing listens on port {port} after 5 s; see the messages of the servers above")
