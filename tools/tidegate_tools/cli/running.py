"""The event loop of a command. SIGTERM and SIGHUP end it as Ctrl+C does: what is open is closed, and told.

Left alone, they would take the process away at once, with the cursor hidden and lines of logs unwritten.
"""

import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, TypeVarTuple

import trio

from tidegate_tools.cli.exits import CommandError, ExitCode

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")

_ENDS: Final = {
    signal.SIGTERM: (ExitCode.TERMINATED, "terminated"),
    signal.SIGHUP: (ExitCode.HUNG_UP, "hung_up"),
}


def run(work: Callable[[*_Arguments], Awaitable[_Result]], *arguments: *_Arguments) -> _Result:
    """Run an async function to its end; see `trio.run`.

    Raises:
        CommandError: SIGTERM or SIGHUP came.
    """
    # Ctrl+C too comes at checkpoints alone, lest it leave a progress bar half begun.
    return trio.run(_until_signalled, work, arguments, restrict_keyboard_interrupt_to_checkpoints=True)


async def _until_signalled(
    work: Callable[[*_Arguments], Awaitable[_Result]], arguments: tuple[*_Arguments]
) -> _Result:
    ended_by: list[int] = []
    with trio.CancelScope() as scope:
        # A nursery would put the errors of the work into a group.
        trio.lowlevel.spawn_system_task(_watch, scope, ended_by)
        return await work(*arguments)
    code, reason = _ENDS[signal.Signals(ended_by[0])]
    raise CommandError(reason.replace("_", " "), code, reason)


async def _watch(scope: trio.CancelScope, ended_by: list[int]) -> None:
    # What is ignored stays so (nohup), and only the main thread may set handlers.
    listened = [number for number in _ENDS if signal.getsignal(number) is signal.SIG_DFL]
    if not listened or threading.current_thread() is not threading.main_thread():
        return
    with trio.open_signal_receiver(*listened) as signals:
        async for number in signals:
            ended_by.append(number)
            scope.cancel()
