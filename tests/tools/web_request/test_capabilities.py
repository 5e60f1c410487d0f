"""What a runtime carries for each agent: built once, suppressed by the switches, each for itself."""

import ast
from pathlib import Path
from typing import Any

import pytest
import trio

import tidegate_tools.web_request
from tests.support.engines import AnyHost
from tests.support.fetch_tool import Site, answer
from tests.tools.web_request.agents import URL, Certificates, Certified, strict_json
from tidegate_tools.dispatch import dispatch
from tidegate_tools.registry import ToolContext
from tidegate_tools.web_request.capabilities import AgentCapabilities, build_capabilities, startup_summary
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.merge import ResolvedAgent
from tidegate_tools.web_request.tool import create_web_request_tools

ON = ResolvedAgent(name="on", web_request_config=WebRequestConfig())
OFF = ResolvedAgent(name="off", web_request_config=None)
NO_TOOLS = ResolvedAgent(name="no-tools", web_request_config=WebRequestConfig(), tools_disabled=True)


def test_built_once_without_a_loop() -> None:
    """W-62, W-65, W-66, W-G1, W-G3: one tool in its own channel, made synchronously, with no session."""
    built = build_capabilities(ON)
    [tool] = built.web_request_tools
    assert (built.agent, tool.name) == ("on", "web_request")
    assert list(built) == [tool]
    assert built.registry().list() == ["web_request"]


@pytest.mark.parametrize("agent", [OFF, NO_TOOLS])
def test_not_built(agent: ResolvedAgent) -> None:
    """W-8, W-58, W-63, W-G5."""
    built = build_capabilities(agent)
    assert built == AgentCapabilities(agent=agent.name)
    assert len(built.registry()) == 0
    assert create_web_request_tools(None) == ()


def test_an_agent_without_the_tool_needs_none_of_its_secrets() -> None:
    profile = {"host": "a.example", "headers": {"X-Key": {"env": "NO_SUCH_VARIABLE"}}}
    config = WebRequestConfig.model_validate({"auth": [profile]})
    assert not build_capabilities(
        ResolvedAgent(name="a", web_request_config=config, tools_disabled=True), environment={}
    ).web_request_tools


@pytest.mark.parametrize(
    ("agents", "used"),
    [([], []), ([OFF, NO_TOOLS], []), ([OFF, ON], ["web_request"]), ([ON, ON], ["web_request"])],
)
def test_the_summary(agents: list[ResolvedAgent], used: list[str]) -> None:
    """W-70, AMB-98: listed if at least one agent has it, once."""
    assert startup_summary(map(build_capabilities, agents)) == {"system_tools_used": used}


async def test_in_a_registry(nursery: trio.Nursery, certificates: Certificates, ca_file: Path) -> None:
    """D-24: by `dispatch`, with an envelope; a failure has the slug of its kind."""
    config = WebRequestConfig(ca_file=str(ca_file))
    built = build_capabilities(
        ResolvedAgent(name="a", web_request_config=config),
        resolver=AnyHost(),
        connector=Certified(nursery, Site(default=answer(b"x")), certificates),
    )
    message: dict[str, Any] = {"tool": "web_request", "args": {"url": URL}, "tool_call_id": 1}
    envelope = await dispatch(message, built.registry(), pid="a")
    assert envelope["ok"] is True
    assert strict_json(envelope["result"])["status"] == 200
    message["args"] = {"url": "http://api.example.com/"}
    envelope = await dispatch(message, built.registry(), pid="a")
    assert (envelope["ok"], envelope["error"]) == (False, "net_denied")
    assert envelope["message"] == "Plaintext http is refused (require_https is on)."


async def test_two_agents_are_two_tools(
    nursery: trio.Nursery, certificates: Certificates, ca_file: Path
) -> None:
    """W-71: neither configuration, schema nor connections of one are those of the other."""
    connector = Certified(
        nursery, Site(default=answer(b"0123456789", "200 OK", "Content-Type: text/plain")), certificates
    )
    tools = [
        create_web_request_tools(
            WebRequestConfig(ca_file=str(ca_file), max_response_bytes=size),
            resolver=AnyHost(),
            connector=connector,
        )[0]
        for size in (3, 7)
    ]
    tools[0].parameters["properties"].clear()
    assert "url" in tools[1].parameters["properties"]
    for tool, size in zip(tools, (3, 7), strict=True):
        result = await tool.call({"url": URL}, ToolContext())
        assert len(strict_json(str(result.value))["body"]) == size
    assert len(connector.connected) == 2


FORBIDDEN = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "import_module",
    "system",
    "popen",
    "Popen",
    "loads",
    "run_path",
}
MODULES = {"subprocess", "importlib", "runpy", "pickle", "marshal", "shelve", "code", "ctypes"}


def test_nothing_is_ever_executed() -> None:
    """W-131, W-132, W-I1: the package has no way to run what a model or a server says."""
    for file in Path(tidegate_tools.web_request.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names: set[str] = set()
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").partition(".")[0]}
            assert not names & MODULES, file
            if isinstance(node, ast.Call):
                called = node.func
                name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
                # re.compile is the one of these that runs nothing.
                harmless = isinstance(called, ast.Attribute) and ast.unparse(called) == "re.compile"
                assert harmless or name not in FORBIDDEN, f"{file}:{node.lineno}"
