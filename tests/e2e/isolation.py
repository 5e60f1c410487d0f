"""Proof that a process stands in namespaces of the harness, demanded before its first packet and mount."""

import os
import socket
from collections.abc import Collection, Sequence
from pathlib import Path

_KINDS = ("net", "mnt")


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
