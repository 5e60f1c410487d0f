"""What a process has: memory and file descriptors."""

import ctypes
import gc
import os
import socket
import stat
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Resources:
    """What a process has.

    Attributes:
        memory: resident bytes, as the kernel counts them.
        blocks: of memory that Python's allocator has handed out.
        descriptors: open files, connections to the healthy origin apart.
    """

    memory: int
    blocks: int
    descriptors: int


def resources_at_rest(kept: Collection[int] = ()) -> Resources:
    """What this process has once all that is free has been given back to the system.

    Args:
        kept: ports to which connections are kept on purpose, and not counted.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    numbers = map(int, os.listdir("/proc/self/fd"))  # noqa: PTH208  numbers, no paths
    descriptors = sum(_peer_port(number) not in kept for number in numbers)
    return Resources(resident_bytes(), sys.getallocatedblocks(), descriptors)


def resident_bytes() -> int:
    """The memory of this process, as the kernel counts it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _peer_port(descriptor: int) -> int | None:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return None
        with socket.socket(fileno=os.dup(descriptor)) as sock:
            return int(sock.getpeername()[1])
    except (OSError, IndexError):  # not open any more, a listener, or one of a pair
        return None
