"""One client under attack, in a process of its own: `python -m tests.load.attack MODULE JOB`.

Prints an `Outcome` as JSON.
"""

import os
import sys
from array import array
from collections import Counter
from importlib import import_module
from typing import Any, Final

from tests.load.clients import Client, DeadlinePassed
from tests.load.job import AFTER, BEFORE, ENDING, HELD, OPENING, STAGES, Job, Outcome
from tests.load.loops import Loop, Tasks, run
from tests.load.plan import HEALTHY_RATE, SPREAD, Attack, Hold, holds_of
from tests.load.resources import resident_bytes, resources_at_rest

_HELD_BEFORE: Final = 0.5
"""Seconds before the first deadline at which memory is read."""


class Healthy:
    """Fetches that come regularly, whatever becomes of the ones before.

    Each is timed from the moment it was due, so that a loop too busy to start it is seen as well.

    Attributes:
        stage: of the attack, noted with each; None while the harness itself takes its time.
        latencies: seconds, by stage.
        failures: how many ended otherwise, by what they said.
    """

    def __init__(self, client: Client, loop: Loop) -> None:
        self._client = client
        self._loop = loop
        self.stage: str | None = BEFORE
        # Not lists: their floats, made while all memory is in use, would keep it from being given back.
        self.latencies = {stage: array("d") for stage in STAGES}
        self.failures: Counter[str] = Counter()

    async def run(self, tasks: Tasks) -> None:
        """Start one after the other, until cancelled."""
        due = self._loop.now()
        while True:
            await self._loop.sleep_until(due)
            tasks.start(self._fetch, due, self.stage)
            due += 1 / HEALTHY_RATE

    async def _fetch(self, due: float, stage: str | None) -> None:
        try:
            await self._client.fetch()
        except Exception as error:
            self.failures[_said(error)] += 1
        else:
            if stage is not None:
                self.latencies[stage].append(self._loop.now() - due)


class Holds:
    """The attack: fetches that nobody lets end.

    Attributes:
        overshoots: seconds past the deadline, by the title of the hold.
        phases: in which deadlines struck, by title.
        endings: how many ended otherwise, by what they said.
    """

    def __init__(self, client: Client, attack: Attack, loop: Loop) -> None:
        self._client = client
        self._loop = loop
        self._attack = attack
        self._kinds = holds_of(attack.scheme)
        self.overshoots = {kind.title: array("d") for kind in self._kinds}
        self.phases: dict[str, Counter[str]] = {kind.title: Counter() for kind in self._kinds}
        self.endings: Counter[str] = Counter()

    async def start(self, tasks: Tasks) -> None:
        """Start them all, spread over the time that they have for it."""
        start = self._loop.now()
        for number in range(self._attack.holds):
            await self._loop.sleep_until(start + SPREAD * number / self._attack.holds)
            tasks.start(self._hold, self._kinds[number % len(self._kinds)])

    async def _hold(self, kind: Hold) -> None:
        start = self._loop.now()
        try:
            await self._client.hold(kind)
            self.endings[f"{kind.title}: a response"] += 1
        except DeadlinePassed as passed:
            late = self._loop.now() - start - self._attack.deadline
            self.overshoots[kind.title].append(late)
            self.phases[kind.title].update(map(str, passed.args))
        except Exception as error:
            self.endings[f"{kind.title}: {_said(error)}"] += 1


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


async def attack(loop: Loop, client: Client, job: Job) -> Outcome:
    """Attack a client, and see what becomes of its healthy fetches."""
    healthy, holds = Healthy(client, loop), Holds(client, job.attack, loop)
    async with loop.tasks() as tasks:
        tasks.start(healthy.run, tasks)
        await loop.sleep_until(loop.now() + job.calm)
        healthy.stage = None
        before = resources_at_rest(job.healthy_ports)
        held = await _hold(loop, holds, healthy, job)
        healthy.stage = AFTER
        await loop.sleep_until(loop.now() + job.calm)
        healthy.stage = None
        after = resources_at_rest(job.healthy_ports)
        tasks.cancel()
    return Outcome(
        overshoots={title: list(seconds) for title, seconds in holds.overshoots.items()},
        phases={title: dict(counts) for title, counts in holds.phases.items()},
        endings=dict(holds.endings),
        latencies={stage: list(seconds) for stage, seconds in healthy.latencies.items()},
        failures=dict(healthy.failures),
        before=before,
        held=held,
        after=after,
    )


async def _hold(loop: Loop, holds: Holds, healthy: Healthy, job: Job) -> int:
    """Run the attack to its end; the resident memory in bytes when every hold was open."""
    start = loop.now()
    async with loop.tasks() as tasks:
        healthy.stage = OPENING
        tasks.start(holds.start, tasks)
        await loop.sleep_until(start + (SPREAD + job.attack.deadline) / 2)
        healthy.stage = HELD
        await loop.sleep_until(start + job.attack.deadline - _HELD_BEFORE)
        held = resident_bytes()
        healthy.stage = ENDING
    return held


async def _run(loop: Loop, module: Any, job: Job) -> Outcome:
    async with module.open_client(job) as client:
        return await attack(loop, client, job)


def main() -> None:
    """Run the job of the command line."""
    name, text = sys.argv[1:]
    job = Job.from_json(text)
    if job.core is not None:
        os.sched_setaffinity(0, {job.core})
    module = import_module(f"tests.load.clients.{name}")
    print(run(module.EVENT_LOOP, _run, module, job).to_json())


if __name__ == "__main__":
    main()
