"""Attacking the clients: a process each, one after the other."""

import os
import subprocess
import sys
from collections.abc import Sequence

from tests.load.job import Job, Outcome
from tests.load.namespace import ROOT
from tests.load.origins import running_origins
from tests.load.plan import BARE, CLIENTS, ENGINE, Attack


def run_attack(attack: Attack, clients: Sequence[str], runs: int, calm: float) -> dict[str, list[Outcome]]:
    """Attack each of the clients.

    Args:
        attack: what is done to each.
        clients: of `plan.CLIENTS`.
        runs: how often the two between which the aims are, by turns; the others have one run.
        calm: seconds of healthy fetches alone, before and after.

    Raises:
        CalledProcessError: a client's process failed; its message is on standard error.
    """
    core_of_origins, core_of_clients = _cores()
    outcomes: dict[str, list[Outcome]] = {client: [] for client in clients}
    turns = [client for run in range(runs) for client in clients if not run or client in (ENGINE, BARE)]
    for client in turns:
        # New origins for each, since what one client left behind must not slow the next.
        with running_origins(core_of_origins) as origins:
            job = Job(attack, origins.ports, origins.ca_file, core_of_clients, calm)
            outcomes[client].append(_attack(client, job))
    return outcomes


def _cores() -> tuple[int | None, int | None]:
    """The last processor for the origins, the first for the clients; None where there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return (cores[-1], cores[0]) if len(cores) > 1 else (None, None)


def _attack(client: str, job: Job) -> Outcome:
    command = [sys.executable, "-m", "tests.load.attack", CLIENTS[client], job.to_json()]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Outcome.from_json(done.stdout)
