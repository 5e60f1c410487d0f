"""Cancellation at every scheduler step, one after the other, until the work gets through."""

from collections.abc import Awaitable, Callable
from itertools import count

import trio
import trio.testing


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope right before the k-th step of the task that made this, or of one of its descendants."""

    def __init__(self, step: int, scope: trio.CancelScope) -> None:
        self._step = step
        self._scope = scope
        self._root = trio.lowlevel.current_task()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count it, if it is ours."""
        if self._is_ours(task):
            self._step -= 1
            if self._step == 0:
                self._scope.cancel()

    def _is_ours(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None:
            if task is self._root:
                return True
            task = task.parent_nursery.parent_task if task.parent_nursery else None
        return False


async def cancel_at_every_step(
    work: Callable[[], Awaitable[None]], afterwards: Callable[[], Awaitable[None]], *, repeat: int = 1
) -> int:
    """Run `work` again and again, cancelled one step later each time, until it ends by itself.

    Args:
        work: what is cancelled; it starts from the same state each time.
        afterwards: asserts that nothing was left behind.
        repeat: runs per step, since trio shuffles the tasks that may run within a tick.

    Returns:
        How many steps there are.
    """
    for step in count(1):
        uncancelled = 0
        for _ in range(repeat):
            with trio.CancelScope() as scope:
                instrument = CancelAtStep(step, scope)
                trio.lowlevel.add_instrument(instrument)
                try:
                    await work()
                finally:
                    trio.lowlevel.remove_instrument(instrument)
            uncancelled += not scope.cancel_called
            await afterwards()
        if uncancelled == repeat:
            return step - 1
    raise AssertionError("unreachable: count() never ends")
