"""Slots for fetches: bounded, fair between keys and hosts, and never lost to a cancellation."""

from collections import OrderedDict, deque
from typing import Final, TypeAlias, TypeVar

import trio

from tidegate.errors import Overloaded

QUEUE_PER_SLOT: Final = 16
"""Fetches that may wait for each slot; more would only wait past their deadline."""

T = TypeVar("T")

_Queue: TypeAlias = deque[trio.lowlevel.Task]


class Admission:
    """At most so many fetches at once, in all, per key and per host.

    Whoever waits is served in turns: by key, within one key by host, within both first come first served. An
    agent with a thousand fetches waits behind itself, not in front of everybody else, and its fetches of a
    host that has no room left hold up no other. When the queue is full, a fetch of a key that has fewer in it
    than another one takes the place of that one's last.

    Args:
        slots: fetches at once.
        per_key: fetches at once of one key. The key None is nobody's, and has no bound of its own.
        per_host: fetches at once of one host.
    """

    def __init__(self, slots: int, per_key: int, per_host: int) -> None:
        self._free = slots
        self._per_key = per_key
        self._per_host = per_host
        self._max_waiting = slots * QUEUE_PER_SLOT
        # Its share of the queue, as it has one of the slots: else one key could leave others no room to wait.
        self._max_waiting_per_key = per_key * QUEUE_PER_SLOT
        self._keys: dict[object, int] = {}
        self._hosts: dict[str, int] = {}
        self._waiting: OrderedDict[object, OrderedDict[str, _Queue]] = OrderedDict()
        self._waiters = 0
        self._turned_away: set[trio.lowlevel.Task] = set()

    async def acquire(self, key: object, host: str) -> None:
        """Take a slot, waiting for it if need be.

        Raises:
            Overloaded: too many wait already, or too many of this key; also after a wait, when others who
                have fewer waiting come.
        """
        if self._free and self._has_room(key, host):
            self._take(key, host)
            return
        if key is not None and self._waiters_of(key) >= self._max_waiting_per_key:
            raise Overloaded(
                f"{self._waiters_of(key)} fetches of this key are waiting for a slot already; try again later"
            )
        if self._waiters >= self._max_waiting:
            self._make_room_for(key)
        await self._wait(key, host)

    async def move(self, key: object, host: str, to: str) -> None:
        """Use a slot for another host, after a redirect: at once, unless that one has no room.

        If this raises, the slot has been given back.

        Raises:
            Overloaded: there is no room, and too many wait already.
        """
        self._leave(key, host)
        moves_on = self._has_room(key, to)
        if moves_on:
            self._take(key, to)
        self._grant()
        if not moves_on:
            await self.acquire(key, to)

    def release(self, key: object, host: str) -> None:
        """Give a slot back, to the next waiter if there is one."""
        self._leave(key, host)
        self._grant()

    def _has_room(self, key: object, host: str) -> bool:
        return self._key_has_room(key) and self._host_has_room(host)

    def _key_has_room(self, key: object) -> bool:
        return key is None or self._keys.get(key, 0) < self._per_key

    def _host_has_room(self, host: str) -> bool:
        return self._hosts.get(host, 0) < self._per_host

    def _take(self, key: object, host: str) -> None:
        self._free -= 1
        self._keys[key] = self._keys.get(key, 0) + 1
        self._hosts[host] = self._hosts.get(host, 0) + 1

    def _leave(self, key: object, host: str) -> None:
        self._free += 1
        _decrement(self._keys, key)
        _decrement(self._hosts, host)

    async def _wait(self, key: object, host: str) -> None:
        task = trio.lowlevel.current_task()
        self._waiting.setdefault(key, OrderedDict()).setdefault(host, deque()).append(task)
        self._waiters += 1

        def abort(_: object) -> trio.lowlevel.Abort:
            # Trio calls this only while the task still waits. Once it was rescheduled with a slot, the slot
            # is its own and a cancellation strikes later, so none is granted to a task that is gone.
            self._forget(key, host, task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if task in self._turned_away:
            self._turned_away.remove(task)
            raise self._overloaded()

    def _make_room_for(self, key: object) -> None:
        longest = max(self._waiting, key=self._waiters_of)
        if self._waiters_of(key) + 1 >= self._waiters_of(longest):
            raise self._overloaded()
        host, queue = max(self._waiting[longest].items(), key=lambda item: len(item[1]))
        task = queue[-1]
        self._forget(longest, host, task)
        self._turned_away.add(task)
        trio.lowlevel.reschedule(task)

    def _overloaded(self) -> Overloaded:
        return Overloaded(f"{self._max_waiting} fetches are waiting for a slot already; try again later")

    def _waiters_of(self, key: object) -> int:
        return sum(len(queue) for queue in self._waiting.get(key, {}).values())

    def _forget(self, key: object, host: str, task: trio.lowlevel.Task) -> None:
        hosts = self._waiting[key]
        hosts[host].remove(task)
        if not hosts[host]:
            del hosts[host]
        if not hosts:
            del self._waiting[key]
        self._waiters -= 1

    def _grant(self) -> None:
        while self._free and (turn := self._next_turn()) is not None:
            key, host = turn
            self._waiting.move_to_end(key)
            self._waiting[key].move_to_end(host)
            task = self._waiting[key][host][0]
            self._forget(key, host, task)
            self._take(key, host)
            trio.lowlevel.reschedule(task)

    def _next_turn(self) -> tuple[object, str] | None:
        for key, hosts in self._waiting.items():
            if self._key_has_room(key):
                for host in hosts:
                    if self._host_has_room(host):
                        return key, host
        return None


def _decrement(counts: dict[T, int], of: T) -> None:
    counts[of] -= 1
    if not counts[of]:
        del counts[of]
