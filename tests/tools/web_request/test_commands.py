"""The commands `tidegate tool`, `schema` and `config check`, against a server on loopback."""

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no types
import pytest

from tests.support.local_server import HOST, LocalServer, local_server
from tidegate import Reason
from tidegate_tools.cli import main
from tidegate_tools.registry import ToolErrorInfo

SCENARIOS = Path(__file__).parent / "scenarios"
RUNTIMES = Path(__file__).parent / "runtimes"
RESOLVE = ("--resolve", f"{HOST}=127.0.0.1")


@dataclass(frozen=True)
class Outcome:
    """How one run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.isascii()
        return json.loads(self.out)


Command = Callable[..., Outcome]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> Outcome:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with local_server() as server:
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two agents: one that may reach the server, one that may not."""
    (tmp_path / "agents.config.yaml").write_text(
        f"""
        system_tools:
          web_request:
            require_https: false
            timeout_seconds: 9999
            private_ranges:
              - {{cidr: 127.0.0.0/8, hosts: [{HOST}]}}
        """
    )
    (tmp_path / "main.agent.md").write_text("---\nname: Main\n---\n")
    (tmp_path / "shut.agent.md").write_text("---\nsystem_tools: {web_request: {allowed_hosts: []}}\n---\n")
    (tmp_path / "off.agent.md").write_text("---\ntools: false\n---\n")
    return tmp_path


# tool -----------------------------------------------------------------------------------------------------


def test_web_request(command: Command, server: LocalServer, project: Path) -> None:
    """Loads, merges, builds and calls; prints what the agent gets, and nothing else."""
    arguments = json.dumps({"url": server.url("/bytes?size=3")})
    ended = command("tool", "web_request", arguments, "--config", project, "--agent", "main", *RESOLVE)
    assert (ended.code, ended.err) == (0, "")
    assert (ended.json["status"], ended.json["body"], ended.json["redirect_count"]) == (200, "xxx", 0)


def test_the_agent_decides(command: Command, server: LocalServer, project: Path) -> None:
    arguments = json.dumps({"url": server.url("/bytes?size=3")})
    ended = command("tool", "web_request", arguments, "--config", project, "--agent", "shut", *RESOLVE)
    assert (ended.code, ended.json["reason"]) == (10, "not_in_allowlist")
    assert ended.err == "tidegate: The host is not in allowed_hosts\n"
    ended = command("tool", "web_request", arguments, "--config", project, *RESOLVE)
    assert ended.code == 0  # an agent that says nothing
    ended = command("tool", "web_request", arguments, "--config", project, "--agent", "off")
    assert (ended.code, ended.out) == (1, "")
    assert f"web_request is off here: {project}/off.agent.md:2" in ended.err


def test_without_a_configuration(command: Command) -> None:
    """W-7: on, with defaults."""
    ended = command("tool", "web_request", '{"url": "http://a.example/"}')
    assert (ended.code, ended.json["reason"]) == (10, "https_required")


def test_arguments_from_standard_input(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"url": "https://127.0.0.1/"}')))
    assert command("tool", "web_request", "-").json["reason"] == "loopback"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_fetch(method: str, command: Command, server: LocalServer) -> None:
    """`Fetch` goes by grants and by the operator's options."""
    arguments = json.dumps({"url": server.url("/echo"), "method": method})
    operator = (*RESOLVE, "--allow-private", f"127.0.0.0/8={HOST}")
    ended = command("tool", "Fetch", arguments, "--grant", HOST, *operator)
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["body"].startswith(f"{method} /echo HTTP/1.1")
    for grants in ((), ("--grant", "other.example")):
        ended = command("tool", "Fetch", arguments, *grants, *operator)
        assert (ended.code, ended.json["error"], ended.json["reason"]) == (10, "net_denied", "not_granted")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("fetch", "{}"), "there is no tool 'fetch'; there are Fetch, web_request. Did you mean 'Fetch'?"),
        (("web_request", "nonsense"), "the arguments are not JSON"),
        (("web_request", "[]"), "the arguments must be a JSON object"),
        (("web_request", '{"url": NaN}'), "the arguments are not strict JSON"),
        (("web_request", "{}", "--grant", "a.example"), "--grant is for Fetch"),
        (("web_request", "{}", "--allow-private", "10.0.0.0/8=a.example"), "--allow-private is for Fetch"),
        (("web_request", "{}", "--ca", "x"), "--ca is for Fetch"),
        (("web_request", "{}", "--nameserver", "192.0.2.1"), "--nameserver is for Fetch"),
        (("web_request", "{}", "--policy", "x"), "--policy is for Fetch"),
        (("Fetch", "{}", "--config", "."), "--config is for web_request"),
        (
            ("web_request", "{}", "--config", "no-such-folder"),
            "no-such-folder: cannot be read: No such file or directory",
        ),
        (("web_request", "{}", "--agent", "crm"), "there is no agent 'crm'; there are none"),
    ],
)
def test_usage(arguments: tuple[str, ...], problem: str, command: Command) -> None:
    ended = command("tool", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert ended.err.count("\n") == 1


def test_an_agent_that_is_not_there(command: Command, project: Path) -> None:
    ended = command("tool", "web_request", "{}", "--config", project, "--agent", "mian")
    assert ended.code == 2
    assert "there are main, off, shut. Did you mean 'main'?" in ended.err


def test_what_cannot_be_built(command: Command) -> None:
    """AMB-95."""
    ended = command(
        "tool", "web_request", "{}", "--config", RUNTIMES / "07_secrets_missing", "--agent", "main"
    )
    assert (ended.code, ended.out) == (1, "")
    assert "{env: API_TOKEN}: the variable is not set" in ended.err


def test_a_wrong_configuration_is_told(command: Command) -> None:
    ended = command("tool", "web_request", "{}", "--config", SCENARIOS / "15_misspelt", "--agent", "main")
    assert (ended.code, ended.out) == (2, "")
    assert "13 mistakes" in ended.err


def test_every_reason_has_its_exit_code() -> None:
    """Table A2: as for a fetch that ends for the same reason; a defect is 1."""
    from tidegate_tools.cli.failures import code_of_reason
    from tidegate_tools.cli.tool import _code_of

    for reason in Reason:
        assert _code_of(ToolErrorInfo("x", "x", reason=reason)) == code_of_reason(reason)
    assert _code_of(ToolErrorInfo("tool_failed", "x", reason="internal_error")) == 1
    assert _code_of(ToolErrorInfo("tool_failed", "x")) == 1


# config check ---------------------------------------------------------------------------------------------


def test_what_an_agent_may_reach(command: Command) -> None:
    """Each setting that holds, and the line that decides it."""
    folder = SCENARIOS / "07_full_surface"
    ended = command("config", "check", folder)
    assert (ended.code, ended.err) == (0, "")
    told = ended.out.replace(f"{folder}/", "")
    for line in (
        "main: web_request is on [agents.config.yaml:3]",
        "  require_https        https only [agents.config.yaml:9]",
        "  private_ranges       10.20.0.0/16 for *.corp.internal; 198.18.0.0/15 for *; "
        "127.0.0.0/8 for localhost [agents.config.yaml:29]",
        "  max_redirects        5 followed, each checked afresh [agents.config.yaml:13]",
        "  nameservers          192.0.2.53, 2001:db8::53 [agents.config.yaml:42]",
        "  ca_file              corp-ca.pem, beside the system's [agents.config.yaml:43]",
    ):
        assert f"{line}\n" in told
    assert "api.example.com gets Authorization {env: API_TOKEN}; " in told


def test_what_is_clamped_and_what_is_not_set(command: Command, project: Path) -> None:
    told = command("config", "check", project).out.replace(f"{project}/", "")
    assert "timeout_seconds      120 s (9999 is more than can be had) [agents.config.yaml:5]" in told
    assert "max_response_bytes   5000000 bytes [built-in default]" in told
    assert "allowed_hosts        no host at all [shut.agent.md:2]" in told
    assert "off: web_request is off [off.agent.md:2]\nshut: web_request is on" in told


def test_a_folder_without_agents(command: Command, tmp_path: Path) -> None:
    """W-7: what any agent would have."""
    told = command("config", "check", tmp_path).out
    assert "(any agent): web_request is on [built-in default]" in told
    assert "allowed_hosts        any public host [built-in default]" in told


def test_ports_under_a_ceiling(command: Command) -> None:
    told = command("config", "check", RUNTIMES / "05_ceiling").out
    assert told.count("(ports)              those of other protocols stay refused") == 1


def test_warnings(command: Command) -> None:
    ended = command("config", "check", SCENARIOS / "20_second_looks")
    assert ended.code == 0
    assert "\nwarning: " in ended.out


def test_as_json(command: Command, project: Path) -> None:
    told = command("config", "check", project, "--json").json
    assert (told["ok"], told["exit_code"], told["warnings"]) == (True, 0, [])
    assert {name: agent["enabled"] for name, agent in told["agents"].items()} == {
        "main": True, "off": False, "shut": True,
    }  # fmt: skip
    assert told["agents"]["main"]["settings"]["require_https"] == {
        "holds": "https and http",
        "decided_by": f"{project}/agents.config.yaml:4",
    }


@pytest.mark.parametrize("folder", ["10_ceiling_broken", "15_misspelt", "16_everything_wrong", "18_no_yaml"])
def test_mistakes(folder: str, command: Command) -> None:
    """D-19: each with its place, on a line of its own; the same as values for programs."""
    path = SCENARIOS / folder
    expected = json.loads((path / "expected.json").read_text("utf-8"))["mistakes"]
    ended = command("config", "check", path)
    assert (ended.code, ended.out) == (2, "")
    *lines, total = ended.err.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"{path}/{mistake['at']}" for mistake in expected]
    assert total == f"tidegate: {len(expected)} mistakes in {path}"
    ended = command("config", "check", path, "--json")
    assert (ended.code, ended.json["ok"], ended.json["error"]["reason"]) == (2, False, "usage")
    assert [mistake["key"] for mistake in ended.json["mistakes"]] == [mistake["key"] for mistake in expected]


# schema ---------------------------------------------------------------------------------------------------


def test_schemas(command: Command) -> None:
    """Of both tools and both files, each by its name, and all at once; all of them are schemas."""
    everything = command("schema").json
    assert set(everything) == {"Fetch", "web_request", "agents.config.yaml", "*.agent.md"}
    for name, schema in everything.items():
        assert command("schema", name).json == schema
        parts = [schema["parameters"], schema["result"]] if "parameters" in schema else [schema]
        for part in parts:
            jsonschema.Draft202012Validator.check_schema(part)
    assert everything["web_request"]["name"] == "web_request"


def test_no_such_schema(command: Command) -> None:
    ended = command("schema", "web_reqest")
    assert (ended.code, ended.out) == (2, "")
    assert "Did you mean 'web_request'?" in ended.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("config", "check", "."), 1),
        (("tool", "web_request", "{}"), 1),
        (("schema",), 1),
        (("schema", "Fetch"), 0),
        (("tool", "Fetch", '{"url": "https://127.0.0.1/"}', "--grant", "*"), 10),
    ],
)
def test_without_the_extra(arguments: tuple[str, ...], code: int, tmp_path: Path) -> None:
    """One sentence names it; what does not need it works without."""
    run = (
        "import sys; sys.modules['pydantic'] = None; from tidegate_tools.cli import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", run, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    if code == 1:
        assert done.stderr == "tidegate: pydantic is not installed: pip install 'tidegate[config]'\n"
