"""`tidegate schema`: the JSON Schemas of the tools and of the configuration files."""

from typing import TYPE_CHECKING, Any

import click

from tidegate_tools.cli.configuration import require_extra
from tidegate_tools.cli.exits import UsageError
from tidegate_tools.cli.failures import write_json
from tidegate_tools.registry import did_you_mean

if TYPE_CHECKING:
    from tidegate_tools.registry import ToolSpec


@click.command("schema")
@click.argument("name", required=False)
@click.help_option("-h", "--help")
def command(name: str | None) -> None:
    """Print the JSON Schema of NAME: a tool, or a configuration file.

    NAME is Fetch, web_request, agents.config.yaml or '*.agent.md'. Of a tool there are its description, the
    schema of its arguments and that of its result. Without NAME: all of them by name.
    """
    if name == "Fetch":
        write_json(_fetch())
        return
    schemas = {"Fetch": _fetch(), **_of_web_request()}
    if name is None:
        write_json(schemas)
    elif name in schemas:
        write_json(schemas[name])
    else:
        raise UsageError(
            f"there is no schema {name!r}; there are {', '.join(schemas)}.{did_you_mean(name, schemas)}"
        )


def _fetch() -> dict[str, Any]:
    from tidegate_tools.fetch import make_fetch_tool

    return _of_tool(make_fetch_tool())


def _of_web_request() -> dict[str, dict[str, Any]]:
    require_extra()
    from tidegate_tools.web_request.config import WebRequestConfig
    from tidegate_tools.web_request.schemas import config_schemas
    from tidegate_tools.web_request.tool import create_web_request_tools

    return {
        **{tool.name: _of_tool(tool) for tool in create_web_request_tools(WebRequestConfig())},
        **config_schemas(),
    }


def _of_tool(tool: "ToolSpec") -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "result": dict(tool.result_schema or {}),
    }
