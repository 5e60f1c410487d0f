"""`tidegate audit`: what an audit log says, as a host list or as a page."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from tidegate_tools.cli.exits import CommandError, ExitCode, UsageError
from tidegate_tools.cli.terminal import complain, write_text

if TYPE_CHECKING:
    from tidegate_tools.audit.lines import LogReader
    from tidegate_tools.audit.suggest import Suggestion, Wanted

_LOGS = click.argument("logs", metavar="LOG...", nargs=-1, required=True)


@click.group("audit", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Say what an audit log says.

    LOG is a file that the engine's audit log has written, or several: the rotated ones as well, in any order.
    A `-` is standard input.
    """


@command.command("suggest")
@_LOGS
@click.option("--denied", is_flag=True, help="Also the hosts that a host list refused.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def suggest_command(logs: tuple[str, ...], denied: bool, as_json: bool) -> int:
    """Print the `allowed_hosts` that the requests of a log need.

    Run with a list on trial (`report_only`), look at what comes out here, and make it the list. Hosts that
    were refused by anything else than a list are never in it.
    """
    from tidegate_tools.audit.lines import LogReader
    from tidegate_tools.audit.suggest import as_yaml, suggest
    from tidegate_tools.cli.failures import write_json

    with ExitStack() as stack:
        reader = LogReader()
        found = suggest(reader.read(_opened(logs, stack)))
    hosts = {**found.hosts, **(found.refused if denied else {})}
    if as_json:
        write_json(_facts(hosts, found, reader))
    else:
        write_text(as_yaml(hosts))
    _remarks(found, reader, denied=denied)
    return ExitCode.DONE


def _facts(hosts: "dict[str, Wanted]", found: "Suggestion", reader: "LogReader") -> dict[str, Any]:
    return {
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "allowed_hosts": sorted(hosts),
        "hosts": [
            {
                "host": host,
                "requests": wanted.requests,
                "last": datetime.fromtimestamp(wanted.last, UTC).isoformat(timespec="seconds"),
                "refused": host in found.refused,
            }
            for host, wanted in sorted(hosts.items())
        ],
        "unreadable": reader.unreadable,
    }


def _remarks(found: "Suggestion", reader: "LogReader", *, denied: bool) -> None:
    if found.refused and not denied:
        complain(f"{_counted(len(found.refused), 'host')} refused by a list left out: --denied adds them")
    if found.unusable:
        complain(f"{_counted(len(found.unusable), 'name')} in the log that no host list takes left out")
    if reader.unreadable:
        complain(f"{_counted(reader.unreadable, 'line')} could not be read")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@command.command("report")
@_LOGS
@click.option("-o", "--output", metavar="FILE", required=True, help="Write the page here; - is the output.")
@click.option("--title", help="What the page is called [the name of the log].")
def report_command(logs: tuple[str, ...], output: str, title: str | None) -> int:
    """Make one page of HTML with plots of a log.

    It needs no network and no script: requests and refusals by time, by host, by reason and by agent, the
    latency of each phase, and bytes.
    """
    from tidegate_tools.audit.lines import LogReader
    from tidegate_tools.audit.page import render_page
    from tidegate_tools.audit.summary import summarise

    with ExitStack() as stack:
        reader = LogReader()
        summary = summarise(reader.read(_opened(logs, stack)))
    summary.unreadable = reader.unreadable
    page = render_page(summary, title or _title(logs))
    if output == "-":
        write_text(page)
        return ExitCode.DONE
    try:
        Path(output).write_text(page, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{output} cannot be written: {error.strerror}") from None
    return ExitCode.DONE


def _title(logs: tuple[str, ...]) -> str:
    name = "standard input" if logs[0] == "-" else Path(logs[0]).name
    return name if len(logs) == 1 else f"{name} and {len(logs) - 1} more"


def _opened(logs: tuple[str, ...], stack: ExitStack) -> Iterator[BinaryIO]:
    """The files, each opened when its turn comes and closed with the stack."""
    for name in logs:
        yield _standard_input() if name == "-" else stack.enter_context(_open(name))


def _standard_input() -> BinaryIO:
    if sys.stdin is None:  # after `<&-`
        raise UsageError("standard input is closed")
    return sys.stdin.buffer


def _open(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise UsageError(f"the log {name} cannot be read: {error.strerror}") from None
