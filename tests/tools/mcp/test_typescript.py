"""Live runs of the official TypeScript client, over both transports."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools.mcp.conftest import PROGRAM, Running
from tests.tools.mcp.site import Site

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("client.mjs")


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's program beside a fresh install of the SDK; skips where there is none, but not in CI."""
    folder = tmp_path_factory.mktemp("typescript")
    problem = "npm is not installed"
    if shutil.which("npm") and shutil.which("node"):
        install = ["npm", "install", "--no-audit", "--no-fund", "--silent", "@modelcontextprotocol/sdk@1"]
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode == 0:
            return Path(shutil.copy(SCRIPT, folder))
        problem = "npm cannot install @modelcontextprotocol/sdk here"
    if os.environ.get("CI") == "true":
        pytest.fail(problem)
    pytest.skip(problem)


def run(script: Path, site: Site, **where: Any) -> dict[str, Any]:
    asked = {
        **where,
        "calls": [
            {"url": site.url("/article")},
            {"url": site.url("/long"), "max_length": 4000},
            {"url": site.url("/long"), "start_index": 4000, "max_length": 4000},
            {"url": "http://127.0.0.1/"},
            {"nope": 1},
        ],
        "prompt": site.url("/not-for-tidegate"),
        "hold": site.url("/hold"),
    }
    done = subprocess.run(
        ["node", script, json.dumps(asked)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def judge(answers: dict[str, Any], site: Site) -> None:
    assert answers["tools"] == ["fetch"]
    article, first, second, denied, invalid = answers["results"]
    assert "# Tides" in article["content"][0]["text"]
    assert "Call the fetch tool with a start_index of" in first["content"][0]["text"]
    assert not second.get("isError")
    assert site.paths.count("/long") == 1
    assert denied["isError"] is True
    assert denied["structuredContent"]["reason"] == "loopback"
    assert invalid["structuredContent"]["error"] == "invalid_args"
    assert answers["prompt"]["messages"][0]["content"]["text"].endswith("\nno")
    assert answers["aborted"] is True
    assert site.server.released.wait(10)


def test_stdio(script: Path, site: Site) -> None:
    judge(run(script, site, command=PROGRAM[0], args=[*PROGRAM[1:], *site.operator]), site)


def test_http(script: Path, site: Site, http_server: Callable[..., Running]) -> None:
    judge(run(script, site, url=http_server().url), site)
