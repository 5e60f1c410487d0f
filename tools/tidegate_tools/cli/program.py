"""The program `tidegate`: the list of its commands, and how any of them ends."""

import importlib
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from tidegate_tools.cli.exits import ExitCode, OutputClosed, UsageError


class Listed(NamedTuple):
    """One command: a module of this package with a `click.Command` called `command` in it."""

    name: str
    module: str
    summary: str


COMMANDS: Final = (
    Listed("fetch", "fetch", "Fetch a URL: to standard output, or into a file."),
    Listed("check", "check", "Say what each check makes of a URL; nothing is sent."),
    Listed("demo", "demo", "Show the engine fetch, refuse and cut off, on loopback."),
    Listed("audit", "audit", "Say what an audit log says: a host list, or a page."),
    Listed("tool", "tool", "Call an agent tool, and print what an agent would get."),
    Listed("schema", "schema", "Print the JSON Schemas of the tools and the configuration."),
    Listed("config", "config", "Check a configuration, and say what each agent may reach."),
    Listed("mcp", "mcp", "Serve pages and tools to an MCP host."),
)
"""Every command. A new one is a module and a line here; its module is imported only when it is asked for."""

_EPILOG: Final = """\b
Exit codes: 0 done, 1 other, 2 usage; 3, 4, 5 a final 3xx, 4xx, 5xx;
10 denied, 11 DNS, 12 connect, 13 TLS, 14 timed out, 15 cut (with
--fail-on-truncate), 16 protocol; 129 hung up, 130 interrupted,
143 terminated.

\b
Completion, in the start file of your shell:
bash, zsh  eval "$(_TIDEGATE_COMPLETE=bash_source tidegate)"  (zsh_source)
fish       _TIDEGATE_COMPLETE=fish_source tidegate | source
"""


class _Commands(click.Group):
    """A group that imports a command when it is asked for: the engine alone takes longer than the help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [listed.name for listed in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        listed = next((listed for listed in COMMANDS if listed.name == cmd_name), None)
        if listed is None:
            return None
        command: click.Command = importlib.import_module(f"tidegate_tools.cli.{listed.module}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(listed.name, listed.summary) for listed in COMMANDS])


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from tidegate import __version__

        click.echo(f"tidegate {__version__}")
        context.exit()


@click.group(cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
def program() -> None:
    """Outbound HTTP that an agent can be trusted with.

    Only public addresses are reached, every hop is checked afresh, and nothing is waited for without end.
    `tidegate COMMAND --help` says more.
    """


def run(arguments: Sequence[str]) -> int:
    """Run a command line, and say in one sentence how it went wrong, if it did.

    Returns:
        The exit code.
    """
    try:
        return program.main(list(arguments) or ["--help"], prog_name="tidegate", standalone_mode=False) or 0
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:
        return _tell(error, as_json="--json" in arguments)


def _tell(error: BaseException, *, as_json: bool) -> int:
    from tidegate_tools.cli.failures import failure_of, report

    if isinstance(error, click.Abort):
        error = KeyboardInterrupt()
    if isinstance(error, click.ClickException):
        error = UsageError(_with_hint(error))
    if isinstance(error, OSError) and _is_of_click(error):
        from tidegate_tools.cli.terminal import output_failed

        error = output_failed(error)
    try:
        if isinstance(error, OutputClosed):
            raise error
        return report(failure_of(error), as_json=as_json)
    except OutputClosed:
        return ExitCode.BROKEN_PIPE


def _is_of_click(error: OSError) -> bool:
    """True if it was click that met it: of all files it touches standard output alone, to print a help."""
    innermost = traceback.extract_tb(error.__traceback__)[-1].filename
    return Path(innermost).parent == Path(click.__file__).parent


def _with_hint(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message}; see {context.command_path} --help" if context is not None else message
