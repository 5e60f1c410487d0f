"""`tidegate mcp`: the MCP server, over standard input and output or over HTTP."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final, TypedDict

import click

from tidegate import Observer, Policy, Resolver
from tidegate_tools.cli.configuration import capabilities_of
from tidegate_tools.cli.exits import CommandError, ExitCode, UsageError
from tidegate_tools.cli.operator_options import Operator, OperatorOptions, operator_options
from tidegate_tools.cli.running import run
from tidegate_tools.cli.stray_logs import stray_logs
from tidegate_tools.cli.terminal import say
from tidegate_tools.cli.watch import Watch, audit_option, open_watch

if TYPE_CHECKING:
    from tidegate_tools.mcp import PageOptions, PageTool, ServedTool
    from tidegate_tools.web_request.capabilities import AgentCapabilities


class _EngineOptions(TypedDict):
    """What the engines of `fetch` and of `Fetch` are opened with."""

    policy: Policy
    resolver: Resolver
    tls: SSLContext
    observer: Observer


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
@audit_option
@operator_options
@click.help_option("-h", "--help")
def command(
    http: str | None,
    allowed_hosts: Sequence[str],
    names: Sequence[str],
    audit: str | None,
    **options: Any,
) -> int:
    """Serve tools to an MCP host over stdin and stdout: fetch gives pages as markdown, part by part.

    Over HTTP there is no authentication; beyond loopback it needs --allowed-host.
    """
    _require_extras("fetch" in names)
    address = _address(http, allowed_hosts) if http is not None else None
    if address is None and allowed_hosts:
        raise UsageError("--allowed-host is for --http")
    if address is None:
        _require_streams()
    # The SDK makes a span of its own around each call.
    with stray_logs(), open_watch(audit, spans=False) as watch:
        served = _Served.prepare(tuple(dict.fromkeys(names)), options, watch)
        try:
            run(_serve, served, address)
        except OSError as error:
            if address is None:
                raise
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


def _require_streams() -> None:
    """See that there is a client at all: after `<&-` or `>&-` there is none."""
    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        if stream is None:
            raise UsageError(f"standard {name} is closed: an MCP host talks there; or serve with --http")


def _address(text: str, names: Sequence[str]) -> _Address:
    from tidegate_tools.mcp.http import LOOPBACK, host_field

    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"--http {text!r} is not [HOST:]PORT")
    if host not in LOOPBACK and not names:
        raise UsageError(f"--http {text!r} is not loopback: name with --allowed-host what clients call it")
    for name in names:
        try:
            host_field(name)
        except ValueError as error:
            raise UsageError(f"--allowed-host {name!r}: {error}".rstrip(".")) from None
    return _Address(host, int(port), tuple(names))


# What is served -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Served:
    """The tools, ready before the event loop starts: a vault or a file may take its time."""

    names: tuple[str, ...]
    operator: Operator
    web_request: "AgentCapabilities | None"
    pages: "PageOptions"
    watch: Watch

    @classmethod
    def prepare(cls, names: tuple[str, ...], options: dict[str, Any], watch: Watch) -> "_Served":
        from tidegate_tools.mcp import PageOptions

        config, agent = options.pop("config"), options.pop("agent")
        try:
            pages = PageOptions(
                user_agent=options.pop("user_agent"),
                ignore_robots=options.pop("ignore_robots_txt"),
                timeout=options.pop("timeout"),
                max_tokens=options.pop("max_tokens"),
            )
        except ValueError as error:  # the numbers have been looked at
            raise UsageError(f"--user-agent: {error}".rstrip(".")) from None
        operator_options = OperatorOptions(**options)
        operator = operator_options.prepare()
        if "web_request" not in names and (config or agent):
            raise UsageError("--config and --agent are for --tool web_request")
        if names == ("web_request",):
            _refuse_policy(operator_options)
        built = capabilities_of(config, agent, operator_options, watch) if "web_request" in names else None
        return cls(names, operator, built, pages, watch)

    def tools(self, page_tool: "PageTool | None") -> "list[ServedTool]":
        from tidegate_tools.mcp import serve_tool

        served = []
        if page_tool is not None:
            served.append(replace(page_tool.served, spec=self.watch.observed(page_tool.served.spec)))
        if "Fetch" in self.names:
            from tidegate_tools.fetch import make_fetch_tool

            spec = self.watch.observed(make_fetch_tool(**self.engine_options()))
            served.append(serve_tool(spec, self.pages.max_tokens))
        served.extend(serve_tool(tool, self.pages.max_tokens) for tool in self.web_request or ())
        return served

    def engine_options(self) -> _EngineOptions:
        operator = self.operator
        return {
            "policy": operator.policy,
            "resolver": operator.resolver,
            "tls": operator.tls,
            "observer": self.watch.observer(operator.policy),
        }


def _refuse_policy(options: OperatorOptions) -> None:
    for option, value in options.of_policy.items():
        if value:
            raise UsageError(f"{option} is for fetch and Fetch; web_request goes by its configuration")


async def _serve(served: _Served, address: _Address | None) -> None:
    from tidegate_tools.mcp import open_page_tool

    if "fetch" not in served.names:
        await _run(served, None, address)
        return
    async with open_page_tool(**served.engine_options(), options=served.pages) as page_tool:
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
