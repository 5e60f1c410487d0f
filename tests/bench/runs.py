"""Running the clients: a process each, taking turns, several times over."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from tests.bench.job import Job, Meter
from tests.bench.servers import ROOT, Servers, Wire, on_core
from tests.bench.works import ENGINE, LENGTHS, MIB, OBSERVED, SUBJECTS, TOOLS, Figure, Work

_MODULES: Final = SUBJECTS | OBSERVED | TOOLS
_IMPORTS: Final = {ENGINE: "import tidegate", "trio, h11": "import trio, h11"}
_TIME_IMPORT: Final = "import time; start = time.process_time(); {}; print(time.process_time() - start)"


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Attributes:
        runs: how many times the processes of a row are started.
        turns: how often each of them has its turn, one client after the other.
        only_aims: leave out the clients that no aim of the row names.
    """

    runs: int
    turns: int
    only_aims: bool = False

    def subjects(self, work: Work) -> tuple[str, ...]:
        """The clients that run a row."""
        if not self.only_aims:
            return work.subjects
        named = {name for aim in work.aims for name in (ENGINE, aim.who, aim.of)}
        return tuple(subject for subject in work.subjects if subject in named)


@dataclass(frozen=True, slots=True)
class Cores:
    """Where the servers stay and where the clients do; None where there is only one processor."""

    servers: int | None
    clients: int | None

    @classmethod
    def available(cls) -> "Cores":
        """The last processor for the servers, the first for the clients."""
        cores = sorted(os.sched_getaffinity(0))
        return cls(cores[-1], cores[0]) if len(cores) > 1 else cls(None, None)


@dataclass(slots=True)
class Row:
    """What was measured of one row.

    Attributes:
        work: of the table.
        figures: of each client, one a turn; the same index is the same turn.
        wires: what nginx saw of each client, warm-up included.
    """

    work: Work
    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wires: dict[str, Wire] = field(default_factory=lambda: defaultdict(Wire))


class _Client:
    """A client's process. Between its turns it waits."""

    def __init__(self, subject: str, job: Job, stack: ExitStack) -> None:
        command = [sys.executable, "-m", "tests.bench.client", _MODULES[subject], job.to_json()]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        stack.callback(self._end)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.subject = subject

    def _end(self) -> None:
        self._process.communicate()

    def wait_until_ready(self) -> None:
        self._line()

    def turn(self) -> Meter:
        self._stdin.write("turn\n")
        self._stdin.flush()
        return Meter(**json.loads(self._line()))

    def _line(self) -> str:
        line = self._stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.subject} ended; see its message above")
        return line


def measure(work: Work, effort: Effort, servers: Servers, cores: Cores) -> Row:
    """Measure one row."""
    row = Row(work)
    if work.figure is Figure.IMPORT:
        _measure_imports(row, effort, cores)
        return row
    # A second fetch of that size would find the memory of the first.
    turns = 1 if work.figure is Figure.MEMORY else effort.turns
    for _ in range(effort.runs):
        with ExitStack() as stack:
            clients = _start(work, effort.subjects(work), servers, cores, stack)
            for client in _in_turns(clients, turns):
                row.figures[client.subject].append(_figure(work, client.turn()))
                servers.log.add_to(row.wires[client.subject])
    return row


def _start(
    work: Work, subjects: Sequence[str], servers: Servers, cores: Cores, stack: ExitStack
) -> list[_Client]:
    warm_up = "/small" if work.figure is Figure.MEMORY else work.path
    job = Job(
        tls=work.site.endswith("tls"),
        port=servers.ports[work.site],
        path=work.path,
        batches=work.batches,
        at_once=work.at_once,
        warm_up=warm_up,
        ca_file=str(servers.ca_file),
        core=cores.clients,
    )
    clients = [_Client(subject, job, stack) for subject in subjects]
    for client in clients:
        client.wait_until_ready()
    return clients


def _in_turns(clients: Sequence[_Client], turns: int) -> Iterator[_Client]:
    """All clients so many times; another one begins each time."""
    for turn in range(turns):
        first = turn % len(clients)
        yield from (*clients[first:], *clients[:first])


def _figure(work: Work, meter: Meter) -> float:
    if work.figure is Figure.MEMORY:
        return (meter.peak - LENGTHS[work.path]) / MIB
    seconds = meter.wall if work.figure is Figure.WALL else meter.cpu
    return seconds / (work.batches * work.at_once)


def _measure_imports(row: Row, effort: Effort, cores: Cores) -> None:
    for _ in range(effort.runs * effort.turns):
        for subject in row.work.subjects:
            command = [sys.executable, "-c", _TIME_IMPORT.format(_IMPORTS[subject])]
            with on_core(cores.clients):
                seconds = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
            row.figures[subject].append(float(seconds))
