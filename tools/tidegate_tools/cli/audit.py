"""`tidegate audit`: what an audit log says, as a host list or as a page."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

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

    LOG is a file that the engine's audit log has written, or several: the rotated ones as well, in any order,
    compressed by gzip or not. A `-` is standard input.
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

    reader = LogReader()
    with _files(logs, reader) as files:
        found = suggest(reader.read(files))
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
        "broken": reader.broken,
        "unsent_calls": found.unsent,
        "missing_requests": found.missing,
    }


def _remarks(found: "Suggestion", reader: "LogReader", *, denied: bool) -> None:
    if found.refused and not denied:
        complain(f"{_counted(len(found.refused), 'host')} refused by a list left out: --denied adds them")
    if found.unusable:
        complain(f"{_counted(len(found.unusable), 'name')} in the log that no host list takes left out")
    if found.unsent:
        calls = _counted(found.unsent, "tool call")
        complain(f"{calls} refused before any request: no line tells which hosts they were for")
    if found.missing:
        complain(
            f"{_counted(found.missing, 'request')} of tool calls without a line here, so their hosts may be "
            "missing: the engine needs the log's observer, too"
        )
    _remark_on(reader)


def _remark_on(reader: "LogReader") -> None:
    if reader.unreadable:
        complain(f"{_counted(reader.unreadable, 'line')} could not be read")
    if reader.broken:
        broken = _counted(reader.broken, "compressed log")
        complain(f"{broken} damaged or cut off, and read as far as it goes")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@command.command("report")
@_LOGS
@click.option("-o", "--output", metavar="FILE", required=True, help="Write the page here; - is the output.")
@click.option("--title", help="What the page is called [the name of the log].")
def report_command(logs: tuple[str, ...], output: str, title: str | None) -> int:
    """Make one page of HTML with plots of a log.

    It needs no network and no script: requests and refusals by time, by host, by reason and by agent, the
    latency of each phase, and bytes. Nobody but you may read it, as with the log.
    """
    from tidegate_tools.audit.lines import LogReader
    from tidegate_tools.audit.page import render_page
    from tidegate_tools.audit.summary import summarise

    _refuse_to_overwrite(logs, output)
    reader = LogReader()
    with _files(logs, reader) as files:
        summary = summarise(reader.read(files))
    summary.unreadable, summary.broken = reader.unreadable, reader.broken
    _write(output, render_page(summary, title or _title(logs)))
    _remark_on(reader)
    return ExitCode.DONE


def _write(output: str, page: str) -> None:
    from tidegate_tools.audit.saving import save_page

    if output == "-":
        write_text(page)
        return
    try:
        save_page(output, page)
    except OSError as error:
        raise CommandError(f"{output} cannot be written: {error.strerror}") from None


def _refuse_to_overwrite(logs: tuple[str, ...], output: str) -> None:
    """By what the names stand for: a link to a log, or another name of it, is the log."""
    target = _regular_file(output, sys.stdout)
    for name in logs:
        source = _regular_file(name, sys.stdin)
        if target is not None and source is not None and os.path.samestat(source, target):
            raise UsageError(f"-o {output} is the log {name} that is read: give the page another name")


def _regular_file(name: str, stream: TextIO | None) -> os.stat_result | None:
    """What a name, or `-` for a stream, stands for; None if that is no file, or not there yet."""
    with suppress(OSError):
        if name != "-":
            found = Path(name).stat()
        elif stream is not None:
            found = os.fstat(stream.fileno())
        else:
            return None
        return found if stat.S_ISREG(found.st_mode) else None
    return None


def _title(logs: tuple[str, ...]) -> str:
    name = "standard input" if logs[0] == "-" else Path(logs[0]).name
    return name if len(logs) == 1 else f"{name} and {len(logs) - 1} more"


@contextmanager
def _files(logs: tuple[str, ...], reader: "LogReader") -> Iterator[Iterator[BinaryIO]]:
    """The logs, to be read to their end within the block."""
    with ExitStack() as stack:
        try:
            yield _opened(logs, stack)
        except OSError as error:
            raise UsageError(f"the log cannot be read to its end: {error.strerror}") from None
    # A log without a line says that nothing happened; what is no log says nothing at all.
    if not reader.read_lines and (reader.unreadable or reader.broken):
        raise UsageError("not one line could be read: this is no audit log, or it is damaged")


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
