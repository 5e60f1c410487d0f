"""The far end: a hostile origin and a healthy one, a process each, on a processor of their own."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trustme

from tests.load.job import ADDRESS, NAME
from tests.load.namespace import ROOT
from tests.load.plan import INTERVAL

_ANY_PORT: Final = f"{ADDRESS}:0"
_SITES: Final = {"plain": "--bind", "tls": "--tls-bind", "silent": "--silent-bind", "stalled": "--stall-bind"}


@dataclass(frozen=True, slots=True)
class Origins:
    """The running origins.

    Attributes:
        ports: `healthy`, `healthy-tls`, and of the hostile one `plain`, `tls`, `silent` (which accepts and
            never reads) and `stalled` (whose TLS handshake comes byte by byte).
        ca_file: PEM of the authority of their certificate.
    """

    ports: dict[str, int]
    ca_file: str


@contextmanager
def running_origins(core: int | None) -> Iterator[Origins]:
    """Start both, and end them after the block.

    The hostile one is given less of the processor, or the healthy one's delays would be laid at the client's
    door.

    Args:
        core: the processor that they stay on; None for any.
    """
    with TemporaryDirectory(prefix="load-") as folder, ExitStack() as stack:
        ca_file, certificate = _issue(Path(folder))
        place = [] if core is None else ["taskset", "--cpu-list", str(core)]
        stalled = ["--stall-after", "100000", "--stall-interval", f"{INTERVAL:g}"]
        sites = [argument for option in _SITES.values() for argument in (option, _ANY_PORT)]
        hostile = stack.enter_context(_origin([*place, "nice", "-n", "10"], [*sites, *stalled, *certificate]))
        healthy = stack.enter_context(
            _origin(place, ["--bind", _ANY_PORT, "--tls-bind", _ANY_PORT, *certificate])
        )
        ports = {site: _port(hostile, _kind(option)) for site, option in _SITES.items()}
        ports |= {"healthy": _port(healthy, "plain"), "healthy-tls": _port(healthy, "tls")}
        yield Origins(ports, ca_file)


def _issue(folder: Path) -> tuple[str, list[str]]:
    authority = trustme.CA()
    issued = authority.issue_cert(NAME, ADDRESS)
    names = {name: str(folder / f"{name}.pem") for name in ("authority", "certificate", "key")}
    authority.cert_pem.write_to_path(names["authority"])
    issued.cert_chain_pems[0].write_to_path(names["certificate"])
    issued.private_key_pem.write_to_path(names["key"])
    return names["authority"], ["--tls-cert", names["certificate"], "--tls-key", names["key"]]


@contextmanager
def _origin(before: Sequence[str], arguments: Sequence[str]) -> Iterator[dict[str, list[list[object]]]]:
    """Run one; what it printed when it was ready."""
    program = [sys.executable, "-m", "tidegate.testing.origin", "--log-limit", "0"]
    process = subprocess.Popen([*before, *program, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def _kind(option: str) -> str:
    return {"--bind": "plain"}.get(option, option.removeprefix("--").removesuffix("-bind"))


def _port(ready: dict[str, list[list[object]]], kind: str) -> int:
    ((_, port),) = ready[kind]
    assert isinstance(port, int)
    return port
