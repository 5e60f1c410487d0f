"""What the pages about `web_request` say is so: files load, examples run, the reference is fresh."""

import json
import re
import shlex
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.support.data import ROOT
from tests.support.engines import AnyHost
from tests.support.examples import examples
from tests.support.fetch_tool import Site
from tests.tools.test_fetch_readme import SystemTasks
from tidegate.testing.memory import MemoryConnector
from tidegate_tools.cli import main
from tidegate_tools.web_request import reference
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.failures import outcomes
from tidegate_tools.web_request.project import load_project
from tidegate_tools.web_request.redaction import MIN_LENGTH

PACKAGE = "tools/tidegate_tools/web_request/README.md"
PAGES = [
    page for page in (PACKAGE, "README.md") if "<!-- file: " in (ROOT / page).read_text(encoding="utf-8")
]
_FILE = re.compile(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", re.DOTALL)
ENVIRONMENT = {"API_TOKEN": "Bearer api-secret", "CRM_TOKEN": "Bearer crm-secret"}


def projects(page: str, folder: Path) -> set[str]:
    """Write the files that a page shows into folders, as it names them."""
    for name, content in _FILE.findall((ROOT / page).read_text(encoding="utf-8")):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("page", PAGES)
def test_files(page: str, tmp_path: Path) -> None:
    """W-144, W-162, W-165, W-167: every file that is shown loads, and does what is said of it."""
    shown = projects(page, tmp_path)
    assert {"off", "opted-out", "full"} <= shown
    for name in shown:
        project = load_project(tmp_path / name, environment={})
        assert project.warnings == ()
        on = {agent: resolved.web_request_enabled for agent, resolved in project.agents.items()}
        assert on == {"off": {}, "opted-out": {"quiet": False}, "full": {"crm": True}}[name]
    assert load_project(tmp_path / "off").global_config.value.web_request is False


def test_the_full_surface_is_full() -> None:
    """W-141, W-162: no key is left unsaid."""
    page = (ROOT / PACKAGE).read_text(encoding="utf-8")
    for name in WebRequestConfig.model_fields:
        assert f"{name}:" in page or f"`{name}`" in page


@pytest.fixture
def site(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    authority: trustme.CA,
    server_tls: Callable[..., ssl.SSLContext],
) -> Site:
    """The host that the pages ask, in memory; its authority is trusted as the system's are."""
    anchors = tmp_path / "anchors.pem"
    authority.cert_pem.write_to_path(str(anchors))
    monkeypatch.setenv("SSL_CERT_FILE", str(anchors))
    site = Site()
    connector = MemoryConnector(SystemTasks(), site, server_tls("api.crm.example.com"))  # type: ignore[arg-type]  # starts peers in any run
    monkeypatch.setattr("tidegate._engine.engine.TCPConnector", lambda: connector)
    monkeypatch.setattr("tidegate._engine.engine.SystemResolver", AnyHost)
    return site


def answered(site: Site, out: str) -> Any:
    """What came of the one request: it left for the host, with the credential of the agent."""
    assert site.urls == ["https://api.crm.example.com/v1/users"]
    assert site.requests[0].field("authorization") == ENVIRONMENT["CRM_TOKEN"]
    result = json.loads(out)
    assert (result["status"], ENVIRONMENT["CRM_TOKEN"] in out) == (200, False)
    return result


@pytest.mark.parametrize("page", PAGES)
def test_commands(
    page: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """W-163: typed as they stand there, in a folder with the files of the page; none is refused."""
    projects(page, tmp_path / "page")
    monkeypatch.chdir(tmp_path / "page" / "full")
    text = (ROOT / page).read_text(encoding="utf-8")
    exported = re.findall(r'^    export (\w+)="Bearer \.\.\."$', text, re.MULTILINE)
    assert exported == ["CRM_TOKEN"]
    monkeypatch.setenv("CRM_TOKEN", ENVIRONMENT["CRM_TOKEN"])
    commands = re.findall(r"^    tidegate ((?:tool web_request|config check) .*)$", text, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert main(shlex.split(command, comments=True)) == 0
        out = capsys.readouterr().out
        if command.startswith("tool"):
            answered(site, out)


def test_example(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """W-163: run as its reader would, in a folder with the files of the page."""
    projects(PACKAGE, tmp_path / "page")
    monkeypatch.chdir(tmp_path / "page" / "full")
    monkeypatch.setenv("CRM_TOKEN", ENVIRONMENT["CRM_TOKEN"])
    exec(compile(examples(PACKAGE)["runtime"], PACKAGE, "exec"), {"__name__": "__main__"})
    summary, result = capsys.readouterr().out.splitlines()
    assert summary == "{'system_tools_used': ['web_request']}"
    answered(site, result)


@pytest.mark.parametrize(
    "says",
    [
        "Never write an agent tool that runs code or commands of a model in the worker",  # W-133
        "gives all agents a tool for outbound requests",  # W-144
        "What comes back is untrusted",  # W-162
        "Only public addresses",  # W-162
        "One trust domain",  # W-A6
        "In order of effect",  # W-138, W-I2
        "keeping credentials in another process, are not built",  # W-53, W-54, W-139, W-I3, W-167
        "It catches reflection, not a server that means to smuggle",  # W-138
    ],
)
def test_caveats(says: str) -> None:
    """W-133, W-138, W-139, W-144, W-162, W-167, W-A6, W-I2, W-I3: what a reader must have been told."""
    page = (ROOT / PACKAGE).read_text(encoding="utf-8")
    assert says in " ".join(page.replace("**", "").split())


def test_numbers_and_names() -> None:
    page = (ROOT / PACKAGE).read_text(encoding="utf-8")
    assert f"fewer than {MIN_LENGTH} characters" in page
    assert f'"outcome": "{"|".join(outcomes())}"' in page
    modules = {path.stem for path in (ROOT / PACKAGE).parent.glob("*.py")} - {"__init__"}
    assert set(re.findall(r"`(\w+)`", page.partition("| module | |")[2])) & modules == modules


def test_the_reference_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """W-164: the page is what the models say; else `python -m tidegate_tools.web_request.reference`."""
    assert reference.PAGE.read_text("utf-8") == reference.render()
    monkeypatch.setattr(sys, "argv", ["reference", "--check"])
    assert reference.main() == 0


def test_a_stale_reference_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = tmp_path / "reference.md"
    stale.write_text(reference.render() + "\nmore")
    monkeypatch.setattr(reference, "PAGE", stale)
    monkeypatch.setattr(sys, "argv", ["reference", "--check"])
    assert reference.main() == 1
    monkeypatch.setattr(sys, "argv", ["reference"])
    assert reference.main() == 0
    assert stale.read_text("utf-8") == reference.render()
