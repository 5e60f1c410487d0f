"""What the commands that call tools tell operators: `--audit FILE`, and OpenTelemetry where it is set up."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tidegate_tools.cli.exits import UsageError
from tidegate_tools.cli.terminal import complain

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
    """Watch for the length of a block, which goes around the event loop.

    At its end all lines are written, and one sentence on standard error tells how many could not be.

    Args:
        audit: the file of `--audit`, `-` for standard error, None for no audit log.
        spans: see `ToolTelemetry`.

    Raises:
        UsageError: the file cannot be written.
    """
    from tidegate_tools.telemetry import ToolTelemetry

    with nullcontext() if audit is None else _open_log(audit) as log:
        yield Watch(log, ToolTelemetry(audit=log, spans=spans))


@contextmanager
def _open_log(file: str) -> "Iterator[AuditLog]":
    """The log, and at its end how many lines of it are missing: nobody else would tell."""
    log = _log_to(file)
    try:
        with log:
            yield log
    finally:
        if log.lost:
            lines = "1 line" if log.lost == 1 else f"{log.lost} lines"
            complain(f"--audit {file!r}: {lines} could not be written: {log.lost_because}")


def _log_to(file: str) -> "AuditLog":
    from tidegate.telemetry import AuditLog

    if file == "-":
        return AuditLog.to_stderr()
    try:
        # The log would lose its lines and go on; whoever starts it wants to hear that now.
        return AuditLog.to_file(file, must_open=True)
    except OSError as error:
        raise UsageError(f"--audit {file!r} cannot be written: {error.strerror}") from None
