"""The progress bar of a download, on standard error, once it has been worth one."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegate_tools.cli.terminal import visible_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE: Final = 0.5
"""Seconds that a download may take without a bar: most are over by then, and a flash tells nothing."""


class ProgressBar:
    """A bar with amount, rate and time left.

    Args:
        path: the file that is written.
        total: bytes in all, None if nobody knows.
        done: bytes that an earlier download left.
    """

    def __init__(self, path: Path, total: int | None, done: int) -> None:
        self._name = visible_line(path.name)
        self._total = total
        self._done = done
        self._first = done
        self._appears = time.monotonic() + PATIENCE
        self._shown: tuple[Progress, TaskID] | None = None

    def advance(self, size: int) -> None:
        """So many bytes more are written."""
        self._done += size
        if self._shown is None and time.monotonic() >= self._appears:
            self._show()
        if self._shown is not None:
            progress, task = self._shown
            progress.update(task, completed=self._done)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        progress = Progress(
            # A name is text from a peer, so it must not be read as markup.
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        task = progress.add_task(self._name, total=self._total, completed=self._first)
        # Known before it hides the cursor, so that whatever comes between, `stop` shows that again.
        self._shown = progress, task
        progress.start()

    def stop(self) -> None:
        """Take the bar away."""
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None
