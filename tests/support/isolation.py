"""Namespaces for tests that send packets, and the proof that a process stands in one before its first."""

import os
import shutil
import socket
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

NEW_NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL")
"""Before a command: it becomes the first process of namespaces of its own, and all it starts ends with it."""

_PROGRAMS = {"unshare": "util-linux", "ip": "iproute2"}
_KINDS = ("net", "mnt")


def missing_requirements(programs: Mapping[str, str]) -> list[str]:
    """What this machine lacks for namespaces with a network of their own; empty if they can be made.

    Args:
        programs: what else is needed, and the Debian package of each.
    """
    needed = _PROGRAMS | dict(programs)
    missing = [f"{name} (package {needed[name]})" for name in needed if shutil.which(name) is None]
    if os.geteuid() != 0:
        missing.append("root")
    elif (
        not missing and subprocess.run([*NEW_NAMESPACES, "true"], check=False, capture_output=True).returncode
    ):
        missing.append("the right to make namespaces")
    return missing


def need_namespaces(programs: Mapping[str, str] = MappingProxyType({})) -> None:
    """Skip the calling test, saying why, where namespaces cannot be made; in CI that is a failure.

    Args:
        programs: as of `missing_requirements`.
    """
    if missing := missing_requirements(programs):
        give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        give_up(f"a network of its own needs {', '.join(missing)}")


class NotIsolatedError(RuntimeError):
    """This process could reach the real network, or mount over real files, so it must not go on."""


def namespaces(process: int | str = "self") -> list[str]:
    """The names of a process's network and mount namespaces, such as `net:[4026532179]`."""
    return [str(Path(f"/proc/{process}/ns/{kind}").readlink()) for kind in _KINDS]


def require_separate(inside: Sequence[str], outside: Sequence[str]) -> None:
    """Demand that no namespace is shared.

    Raises:
        NotIsolatedError: one is, or `outside` does not name one of each kind.
    """
    named = [name.partition(":")[0] for name in outside]
    if sorted(named) != sorted(_KINDS):
        raise NotIsolatedError(f"the namespaces to stay out of must be named, one of each of {_KINDS}")
    if shared := set(inside) & set(outside):
        raise NotIsolatedError(f"refusing to run: {', '.join(sorted(shared))} belongs to the machine itself")


def require_isolation(outside: Sequence[str], interfaces: Collection[str]) -> None:
    """Demand that this process has namespaces of its own, and no network interface but those named.

    Args:
        outside: the namespaces of the test session, by `namespaces()`.
        interfaces: what the harness made; with nothing else there is no way out, whatever the routes say.

    Raises:
        NotIsolatedError: it has not.
    """
    require_separate(namespaces(), outside)
    present = {name for _, name in socket.if_nameindex()}
    if strange := present - {"lo", *interfaces}:
        raise NotIsolatedError(f"refusing to run: the harness has not made the interface {min(strange)}")
    if os.geteuid() != 0:
        raise NotIsolatedError("refusing to run: only root can set up the network")
