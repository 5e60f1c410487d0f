"""A small cache, bounded in bytes and in age."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Cache(Generic[T]):
    """Values by key; the oldest go first.

    A key must say for whom the value was fetched, not only from where: what one agent was allowed to read,
    another may not be.

    Args:
        max_bytes: of all values together; a value that is larger alone is not kept.
        max_age: seconds that a value is given out.
        size: how many bytes a value takes.
    """

    def __init__(self, max_bytes: int, max_age: float, size: Callable[[T], int] = sys.getsizeof) -> None:
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._size = size
        self._values: OrderedDict[Hashable, tuple[float, int, T]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> T | None:
        """The value, None if there is none or if it is too old."""
        self._forget_old()
        entry = self._values.get(key)
        return entry[2] if entry is not None else None

    def put(self, key: Hashable, value: T) -> None:
        """Keep a value, in place of one with the same key."""
        self._forget_old()
        self._forget(key)
        size = self._size(value)
        if size > self._max_bytes:
            return
        while self._bytes + size > self._max_bytes:
            self._forget(next(iter(self._values)))
        self._values[key] = (trio.current_time(), size, value)
        self._bytes += size

    def _forget_old(self) -> None:
        oldest = trio.current_time() - self._max_age
        while self._values and next(iter(self._values.values()))[0] < oldest:
            self._forget(next(iter(self._values)))

    def _forget(self, key: Hashable) -> None:
        entry = self._values.pop(key, None)
        if entry is not None:
            self._bytes -= entry[1]
