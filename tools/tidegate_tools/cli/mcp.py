"""`tidegate mcp`: the MCP server, over standard input and output or over HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
import trio

from tidegate_tools.cli.configuration import agent_in, load, require_extra
from tidegate_tools.cli.exits import CommandError, ExitCode, UsageError
from tidegate_tools.cli.operator_options import Operator, OperatorOptions, operator_options
from tidegate_tools.cli.terminal import say

if TYPE_CHECKING:
    from tidegate_tools.mcp import PageOptions, PageTool, ServedTool
    from tidegate_tools.registry import ToolSpec

TOOLS: Final = ("fetch", "Fetch", "web_request")


@click.command("mcp")
@click.option("--http", metavar="[HOST:]PORT", help="Serve HTTP there, at /mcp.")
@click.option(
    "--allowed-host", "allowed_hosts", metavar="NAME", multiple=True, help="--http: for Host fields."
)
@click.option(
    "--tool",
    "names",
    type=click.Choice(TOOLS),
    metavar="NAME",
    multiple=True,
    default=("fetch",),
    help="Offer fetch, Fetch or web_request [fetch].",
)
@click.option("--config", metavar="PATH", help="web_request: its configuration.")
@click.option("--agent", metavar="NAME", help="web_request: the agent that asks.")
@click.option("--user-agent", metavar="TEXT", help="fetch: the User-Agent field.")
@click.option("--ignore-robots-txt", is_flag=True, help="fetch: robots.txt has no say.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, 120),
    default=30.0,
    metavar="SECONDS",
    help="fetch: for one page [30].",
)
@click.option(
    "--max-tokens", type=click.IntRange(1000), default=25_000, metavar="N", help="Of one result [25000]."
)
@operator_options
@click.help_option("-h", "--help")
def command(http: str | None, allowed_hosts: Sequence[str], names: Sequence[str], **options: Any) -> int:
    """Serve tools to an MCP host over stdin and stdout: fetch gives pages as markdown, part by part.

    Over HTTP there is no authentication; beyond loopback it needs --allowed-host.
    """
    _require_extras("fetch" in names)
    address = _address(http, allowed_hosts) if http is not None else None
    if address is None and allowed_hosts:
        raise UsageError("--allowed-host is for --http")
    served = _Served.prepare(tuple(dict.fromkeys(names)), options)
    try:
        trio.run(_serve, served, address)
    except OSError as error:
        raise CommandError(f"{http} cannot be listened at: {error.strerror}") from None
    return ExitCode.DONE


@dataclass(frozen=True, slots=True)
class _Address:
    """Where to listen, and by which names."""

    host: str
    port: int
    names: tuple[str, ...]


_MODULES: Final = {"mcp": "mcp", "hypercorn": "mcp", "protego": "mcp"}
_MODULES_OF_FETCH: Final = {"html_to_markdown": "text", "resiliparse": "text"}
"""Which extra brings a module."""


def _require_extras(for_pages: bool) -> None:
    from importlib.util import find_spec

    for module, extra in (_MODULES | (_MODULES_OF_FETCH if for_pages else {})).items():
        if find_spec(module) is None:
            raise CommandError(
                f"{module} is not installed: pip install 'tidegate[{extra}]'", reason="missing_extra"
            )


def _address(text: str, names: Sequence[str]) -> _Address:
    from tidegate_tools.mcp.http import LOOPBACK

    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"--http {text!r} is not [HOST:]PORT")
    if host not in LOOPBACK and not names:
        raise UsageError(f"--http {text!r} is not loopback: name with --allowed-host what clients call it")
    return _Address(host, int(port), tuple(names))


# What is served -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Served:
    """The tools, ready before the event loop starts: a vault or a file may take its time."""

    names: tuple[str, ...]
    operator: Operator
    web_request: "ToolSpec | None"
    pages: "PageOptions"

    @classmethod
    def prepare(cls, names: tuple[str, ...], options: dict[str, Any]) -> "_Served":
        from tidegate_tools.mcp import PageOptions

        config, agent = options.pop("config"), options.pop("agent")
        pages = PageOptions(
            user_agent=options.pop("user_agent"),
            ignore_robots=options.pop("ignore_robots_txt"),
            timeout=options.pop("timeout"),
            max_tokens=options.pop("max_tokens"),
        )
        operator_options = OperatorOptions(**options)
        operator = operator_options.prepare()
        if "web_request" not in names and (config or agent):
            raise UsageError("--config and --agent are for --tool web_request")
        if names == ("web_request",):
            _refuse_policy(operator_options)
        built = _web_request(operator_options, operator, config, agent) if "web_request" in names else None
        return cls(names, operator, built, pages)

    def tools(self, page_tool: "PageTool | None") -> "list[ServedTool]":
        from tidegate_tools.mcp import serve_tool

        served = [page_tool.served] if page_tool is not None else []
        if "Fetch" in self.names:
            from tidegate_tools.fetch import make_fetch_tool

            operator = self.operator
            spec = make_fetch_tool(policy=operator.policy, resolver=operator.resolver, tls=operator.tls)
            served.append(serve_tool(spec, self.pages.max_tokens))
        if self.web_request is not None:
            served.append(serve_tool(self.web_request, self.pages.max_tokens))
        return served


def _refuse_policy(options: OperatorOptions) -> None:
    given = {
        "--policy": options.policy_file,
        "--allow-private": options.allow_private,
        "--ca": options.ca_file,
        "--nameserver": options.nameservers,
    }
    for option, value in given.items():
        if value:
            raise UsageError(f"{option} is for fetch and Fetch; web_request goes by its configuration")


def _web_request(
    options: OperatorOptions, operator: Operator, config: str | None, name: str | None
) -> "ToolSpec":
    """Its policy is its configuration's; of the operator's options it takes --resolve alone."""
    require_extra()
    from tidegate_tools.web_request.capabilities import build_capabilities
    from tidegate_tools.web_request.tool import BuildError

    agent = agent_in(load(config) if config is not None else None, name)
    if not agent.web_request_enabled:
        raise CommandError(f"web_request is off here: {agent.decided_by['web_request']}", reason="tool_off")
    try:
        [tool] = build_capabilities(agent, resolver=operator.resolver if options.resolve else None)
    except BuildError as error:
        raise CommandError(str(error), reason="build_failed") from None
    return tool


async def _serve(served: _Served, address: _Address | None) -> None:
    from tidegate_tools.mcp import open_page_tool

    operator = served.operator
    if "fetch" not in served.names:
        await _run(served, None, address)
        return
    async with open_page_tool(
        operator.policy, resolver=operator.resolver, tls=operator.tls, options=served.pages
    ) as page_tool:
        await _run(served, page_tool, address)


async def _run(served: _Served, page_tool: "PageTool | None", address: _Address | None) -> None:
    from tidegate_tools.mcp import make_server, serve_http, serve_stdio

    server = make_server(served.tools(page_tool), prompts=page_tool)
    if address is None:
        await serve_stdio(server)
        return
    await serve_http(
        server,
        address.host,
        address.port,
        allowed_hosts=address.names,
        started=lambda url: say(f"tidegate: serving MCP at {url}"),
    )
