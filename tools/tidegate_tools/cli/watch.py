"""What the commands that call tools tell operators: `--audit FILE`, and OpenTelemetry where it is set up."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tidegate_tools.cli.exits import UsageError

if TYPE_CHECKING:
    from tidegate import Observer, Policy
    from tidegate.telemetry import AuditLog
    from tidegate_tools.registry import ToolSpec
    from tidegate_tools.telemetry import ToolTelemetry

audit_option = click.option("--audit", metavar="FILE", help="Log each hop and call to FILE; - is stderr.")


@dataclass(frozen=True, slots=True)
class Watch:
    """What watches the tools of a command.

    Without `--audit` and without a provider of OpenTelemetry it is in place and tells nothing (W-11).
    """

    log: "AuditLog | None"
    telemetry: "ToolTelemetry"

    def observer(self, policy: "Policy") -> "Observer":
        """For an engine with this policy."""
        from tidegate.telemetry import Observers

        observers: list[Observer] = []
        if self.log is not None:
            observers.append(self.log.observer(policy))
        try:
            from tidegate.telemetry.otel import OpenTelemetryObserver

            observers.append(OpenTelemetryObserver())
        except ModuleNotFoundError:  # the extra `otel` is not installed
            pass
        return Observers(*observers)

    def observed(self, tool: "ToolSpec") -> "ToolSpec":
        """The same tool, with its calls told."""
        return self.telemetry.observed(tool, audited=True)


@contextmanager
def open_watch(audit: str | None, *, spans: bool = True) -> Iterator[Watch]:
    """Watch for the length of a block, which goes around the event loop; at its end all lines are written.

    Args:
        audit: the file of `--audit`, `-` for standard error, None for no audit log.
        spans: see `ToolTelemetry`.

    Raises:
        UsageError: the file cannot be written.
    """
    from tidegate_tools.telemetry import ToolTelemetry

    with nullcontext() if audit is None else _opened(audit) as log:
        yield Watch(log, ToolTelemetry(audit=log, spans=spans))


def _opened(file: str) -> "AuditLog":
    from tidegate.telemetry import AuditLog

    if file == "-":
        return AuditLog.to_stderr()
    try:
        # The log itself would lose its lines and go on; whoever starts it wants to hear that now.
        os.close(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise UsageError(f"--audit {file!r} cannot be written: {error.strerror}") from None
    return AuditLog.to_file(file)
