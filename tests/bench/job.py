"""What a process of one client is asked to do, and how it measures itself."""

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

NAME: Final = "origin.example"
"""The host that the engine asks for: its resolver and its private-range rule lead to loopback.

The others are given the address itself, so that none of them pays for a look-up.
"""

ADDRESS: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Job:
    """What one client fetches at each of its turns.

    Attributes:
        tls: https instead of http.
        port: of the site.
        path: of the file.
        batches: how many batches of fetches are measured.
        at_once: fetches of a batch, started together and awaited together.
        warm_up: path of the one batch before them, which is not measured.
        ca_file: PEM of the one authority to trust.
        core: the processor to stay on; None for any.
    """

    tls: bool
    port: int
    path: str
    batches: int
    at_once: int
    warm_up: str
    ca_file: str
    core: int | None

    def to_json(self) -> str:
        """For the command line of the process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """The reverse."""
        return cls(**json.loads(text))

    def url(self, path: str, host: str = ADDRESS) -> str:
        """The URL of a file of the site."""
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{path}"


@dataclass(slots=True)
class Meter:
    """What one turn cost.

    Attributes:
        cpu: seconds of this process, all its threads and the kernel's work for it.
        wall: seconds.
        peak: bytes of resident memory at most, over what was there before.
    """

    cpu: float = 0.0
    wall: float = 0.0
    peak: int = 0

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measure a block."""
        resident = _start_of_peak()
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.cpu = time.process_time() - cpu
        self.wall = time.perf_counter() - wall
        self.peak = _memory("VmHWM") - resident


def turns() -> Iterator[Meter]:
    """A meter for each turn that the bench gives this process, by a line on its standard input.

    That the process waits for it in the middle of an event loop does no harm: nothing else happens there.
    """
    print("ready", flush=True)
    for _ in sys.stdin:
        meter = Meter()
        yield meter
        print(json.dumps(asdict(meter)), flush=True)


def _start_of_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # proc(5): resets VmHWM
    return _memory("VmRSS")


def _memory(name: str) -> int:
    """Bytes, by the kernel's own count."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    match = re.search(rf"^{name}:\s*(\d+) kB$", status, re.MULTILINE)
    assert match is not None, f"this system has no {name}"
    return int(match[1]) * 1024
