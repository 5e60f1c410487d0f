"""Slots for fetches: bounded, fair between keys, and never lost to a cancellation."""

from collections import OrderedDict, deque
from typing import Final

import trio

from tidegate.errors import Overloaded

QUEUE_PER_SLOT: Final = 16
"""Fetches that may wait for each slot; more would only wait past their deadline."""


class Admission:
    """At most so many fetches at once, in all and per key.

    Whoever waits is served in turns by key, first come first served within one: an agent with a thousand
    fetches waits behind itself, not in front of everybody else.

    Args:
        slots: fetches at once.
        slots_per_key: fetches at once of one key; None means no bound of its own. Fetches without a key
            share the key None.
    """

    def __init__(self, slots: int, slots_per_key: int | None) -> None:
        self._free = slots
        self._slots_per_key = slots_per_key or slots
        self._max_waiting = slots * QUEUE_PER_SLOT
        self._running: dict[object, int] = {}
        self._waiting: OrderedDict[object, deque[trio.lowlevel.Task]] = OrderedDict()
        self._waiters = 0

    async def acquire(self, key: object) -> None:
        """Take a slot, waiting for it if need be.

        Raises:
            Overloaded: too many wait already.
        """
        if self._free and self._may_run(key):
            self._take(key)
            return
        if self._waiters >= self._max_waiting:
            raise Overloaded(f"{self._waiters} fetches are waiting for a slot already; try again later")
        await self._wait(key)

    def release(self, key: object) -> None:
        """Give a slot back, to the next waiter if there is one."""
        self._free += 1
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key]
        self._grant()

    def _may_run(self, key: object) -> bool:
        return self._running.get(key, 0) < self._slots_per_key

    def _take(self, key: object) -> None:
        self._free -= 1
        self._running[key] = self._running.get(key, 0) + 1

    async def _wait(self, key: object) -> None:
        task = trio.lowlevel.current_task()
        queue = self._waiting.setdefault(key, deque())
        queue.append(task)
        self._waiters += 1

        def abort(_: object) -> trio.lowlevel.Abort:
            # Trio calls this only while the task still waits. Once it was rescheduled with a slot, the slot
            # is its own and a cancellation strikes later, so none is granted to a task that is gone.
            self._forget(key, task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def _forget(self, key: object, task: trio.lowlevel.Task) -> None:
        self._waiting[key].remove(task)
        if not self._waiting[key]:
            del self._waiting[key]
        self._waiters -= 1

    def _grant(self) -> None:
        while self._free and (ready := [key for key in self._waiting if self._may_run(key)]):
            key = ready[0]
            self._waiting.move_to_end(key)
            task = self._waiting[key][0]
            self._forget(key, task)
            self._take(key)
            trio.lowlevel.reschedule(task)
