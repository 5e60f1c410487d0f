"""What the README says to the owner of an MCP host is true: its configuration is run."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import click
import pytest

from tests.support.data import ROOT

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tidegate_tools.cli.mcp import command


@pytest.fixture
def section() -> str:
    _, found, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition("# In an MCP host\n")
    if not found:
        raise AssertionError("the README has no section for MCP hosts")
    return re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def test_the_options(section: str) -> None:
    """All that are not the operator's, and no others."""
    own = {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    }
    operator = set(re.findall(r"`(--[\w-]+)`", section.partition("The operator's options")[2]))
    rows = "\n".join(line for line in section.splitlines() if line.startswith("| `"))
    shown = set(re.findall(r"`(--[\w-]+)`", rows))
    assert shown | operator == own - {"--help", "-h"}


@pytest.mark.slow
def test_the_configuration(section: str) -> None:
    """Run as a host would, with the command from PATH."""
    match = re.search(r"```json\n(.*?)```", section, re.DOTALL)
    assert match is not None
    [about] = json.loads(match[1])["mcpServers"].values()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = StdioServerParameters(**about, env={"PATH": path})
    names: list[Any] = []

    async def run() -> None:
        async with Client(program) as client:
            names.extend(tool.name for tool in (await client.list_tools()).tools)
            names.extend(prompt.name for prompt in (await client.list_prompts()).prompts)

    anyio.run(run, backend="trio")
    assert names == ["fetch", "fetch"]
