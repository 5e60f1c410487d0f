"""A network namespace of its own, with loopback alone: nothing in it can reach anybody."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.isolation import NEW_NAMESPACES, missing_requirements, namespaces, require_isolation

ROOT: Final = Path(__file__).resolve().parents[2]

_SETTINGS: Final = {
    # Thousands connect within two seconds, to origins that are busy.
    "core/somaxconn": "65535",
    "ipv4/tcp_max_syn_backlog": "65535",
    "ipv4/ip_local_port_range": "10000 65535",
    # A connection here needs no more, and an upload is to fill them.
    "ipv4/tcp_rmem": "4096 16384 65536",
    "ipv4/tcp_wmem": "4096 16384 65536",
}


def command(module: str, arguments: Sequence[str]) -> list[str]:
    """The command that runs a module of tests.load in new namespaces; `enter` is the first thing it does."""
    return [*NEW_NAMESPACES, sys.executable, "-m", module, *arguments, "--outside", *namespaces()]


def missing() -> list[str]:
    """What this machine lacks; empty if the command can run."""
    return missing_requirements({})


def enter(outside: Sequence[str]) -> None:
    """Prove that this process stands in new namespaces, then set the network up.

    Args:
        outside: the namespaces of the process that ran the command.

    Raises:
        NotIsolatedError: it does not.
    """
    require_isolation(outside, ())
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for name, value in _SETTINGS.items():
        Path("/proc/sys/net", name).write_text(value, encoding="ascii")
