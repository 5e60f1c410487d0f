"""`tidegate tool`: call an agent tool as an agent would, and print what it would get."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from tidegate import Reason
from tidegate._policy.content import parse_json
from tidegate._policy.host import GrantPatterns
from tidegate_tools.cli.configuration import capabilities_of
from tidegate_tools.cli.exits import ExitCode, UsageError
from tidegate_tools.cli.failures import code_of_reason, write_json
from tidegate_tools.cli.operator_options import OperatorOptions, operator_options
from tidegate_tools.cli.request_options import json_problem, read_input
from tidegate_tools.cli.running import run
from tidegate_tools.cli.terminal import complain
from tidegate_tools.cli.watch import Watch, audit_option, open_watch
from tidegate_tools.registry import Kernel, ToolContext, ToolErrorInfo, did_you_mean

if TYPE_CHECKING:
    from tidegate_tools.registry import ToolSpec

TOOLS: Final = ("Fetch", "web_request")


@click.command("tool")
@click.argument("name")
@click.argument("arguments", metavar="JSON")
@click.option("--config", metavar="PATH", help="web_request: folder or file of the configuration.")
@click.option("--agent", metavar="NAME", help="web_request: the agent that asks [one without settings].")
@click.option("--grant", "grants", metavar="HOST", multiple=True, help="Fetch: grant HOST; '*' is all hosts.")
@audit_option
@operator_options
@click.help_option("-h", "--help")
def command(
    name: str,
    arguments: str,
    config: str | None,
    agent: str | None,
    grants: Sequence[str],
    audit: str | None,
    **operator: Any,
) -> int:
    """Call the tool NAME with the arguments JSON ('-' reads them from stdin), and print what an agent gets.

    web_request goes by its configuration; Fetch by grants and by the operator's options, of which
    web_request takes --resolve alone. The exit code is 0 if the tool did it, whatever the status of the
    response, else that of a fetch that ends for the same reason.
    """
    if name not in TOOLS:
        raise UsageError(
            f"there is no tool {name!r}; there are {', '.join(TOOLS)}.{did_you_mean(name, TOOLS)}"
        )
    given = _arguments(arguments)
    options = OperatorOptions(**operator)
    if name == "Fetch":
        _refuse_options("web_request", {"--config": config, "--agent": agent})
    else:
        _refuse_options("Fetch", {"--grant": grants, **options.of_policy})
    with open_watch(audit) as watch:
        if name == "Fetch":
            prepared = _fetch(options, grants, watch)
        else:
            prepared = _web_request(options, config, agent, watch)
        return _call(prepared, given)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A tool, and who calls it."""

    tool: "ToolSpec"
    ctx: ToolContext


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = parse_json(read_input("the arguments").decode() if text == "-" else text)
    except ValueError as error:
        raise UsageError(f"the arguments are {json_problem(error)}") from None
    if not isinstance(value, dict):
        raise UsageError("the arguments must be a JSON object")
    return value


def _refuse_options(tool: str, options: Mapping[str, object]) -> None:
    for option, value in options.items():
        if value:
            raise UsageError(f"{option} is for {tool}")


# Fetch ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shell:
    """The kernel of an agent that is somebody at a shell."""

    cap: Any


def _grant(pattern: str) -> str:
    """The grant, if it means anything: a kernel would take it, and grant nothing (AMB-28)."""
    domain = pattern.removeprefix("**.").removeprefix("*.")
    granted = GrantPatterns([pattern])
    if not any(map(granted.covers, (domain, f"x.{domain}", "x"))):
        raise UsageError(
            f"--grant {pattern!r} is no host; give example.com, *.example.com, **.example.com or '*'"
        )
    return pattern


def _fetch(options: OperatorOptions, grants: Sequence[str], watch: Watch) -> _Prepared:
    from tidegate_tools.fetch import make_fetch_tool
    from tidegate_tools.grants import Grants, GrantStore

    operator = options.prepare()
    store = GrantStore()
    store.grant("shell", Grants(["Fetch"], tuple(map(_grant, grants))))
    tool = make_fetch_tool(
        policy=operator.policy,
        resolver=operator.resolver,
        tls=operator.tls,
        observer=watch.observer(operator.policy),
    )
    kernel: Kernel = _Shell(store)
    return _Prepared(watch.observed(tool), ToolContext(pid="shell", kernel=kernel))


# web_request ----------------------------------------------------------------------------------------------


def _web_request(options: OperatorOptions, config: str | None, name: str | None, watch: Watch) -> _Prepared:
    agent = capabilities_of(config, name, options, watch)
    [tool] = agent.web_request_tools
    return _Prepared(tool, ToolContext(pid=agent.agent or None))


# The call -------------------------------------------------------------------------------------------------


def _call(prepared: _Prepared, arguments: Mapping[str, Any]) -> ExitCode:
    result = run(prepared.tool.call, arguments, prepared.ctx)
    # Read again, to be written as all output of the command is: in ASCII, so that it cannot drive a terminal.
    write_json(json.loads(result.to_json()))
    if result.error is None:
        return ExitCode.DONE
    complain(result.error.message.rstrip("."))
    return _code_of(result.error)


def _code_of(error: ToolErrorInfo) -> ExitCode:
    try:
        return code_of_reason(Reason(error.reason or ""))
    except ValueError:
        return ExitCode.OTHER
