"""W-150, W-D2: a whole run, and a search through everything that came of it for the secret's value.

One project with secrets of every kind, one server that gives back all it was sent in every encoding, calls
that go well and calls that go wrong. What is searched: results, errors, records, events, logs at their most
talkative, reprs, dumps, pickles and tracebacks with their local variables.
"""

import base64
import copy
import dataclasses
import gc
import html
import io
import json
import logging
import pickle
import re
import traceback
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
import trio

import tidegate
from tests.support.engines import AnyHost
from tests.support.fetch_tool import Site, redirect
from tests.tools.web_request.agents import Certificates, Certified
from tidegate.testing.memory import Peer, ReceivedRequest
from tidegate.testing.observer import RecordingObserver
from tidegate_tools.cli import main
from tidegate_tools.dispatch import dispatch
from tidegate_tools.registry import ToolContext
from tidegate_tools.web_request.records import CallRecord
from tidegate_tools.web_request.references import KeyVaultSecret, ManagedIdentity
from tidegate_tools.web_request.runtime import Runtime, load_runtime
from tidegate_tools.web_request.secrets import SecretError, SecretValue, Token
from tidegate_tools.web_request.tool import BuildError

OF_ENVIRONMENT = 'Ab9-env/+&"secret=='
OF_FILE = "Cd8_file.secret~value"
OF_VAULT = "Ef7 vault secret value"
OF_TOKEN = "Gh6.token.secret-value"
BASIC = base64.b64encode(b"agent:Ij5-basic-password").decode()
SECRETS = [OF_ENVIRONMENT, OF_FILE, OF_VAULT, OF_TOKEN, BASIC, "Ij5-basic-password"]

CONFIG = """
system_tools:
  web_request:
    max_redirects: 3
    max_response_bytes: 100000
    auth:
      - host: env.example.com
        headers:
          X-Key: {env: SECRET_OF_ENVIRONMENT}
      - host: file.example.com
        headers:
          X-Key: {file: secret.txt}
      - host: vault.example.com
        headers:
          X-Key: {key_vault: {vault: corp-vault, name: key}}
      - host: token.example.com
        headers:
          Authorization: {managed_identity: {resource: "https://storage.azure.com"}}
      - host: basic.example.com
        headers:
          Authorization: {env: BASIC}
"""
ENVIRONMENT = {"SECRET_OF_ENVIRONMENT": OF_ENVIRONMENT, "BASIC": f"Basic {BASIC}"}
HOSTS = [f"{kind}.example.com" for kind in ("env", "file", "vault", "token", "basic")]


class Cloud:
    """A vault and an issuer of tokens; it can be broken after the build."""

    broken = False

    def secret(self, reference: KeyVaultSecret) -> SecretValue:
        return SecretValue(OF_VAULT)

    def token(self, reference: ManagedIdentity) -> Token:
        if self.broken:
            raise SecretError(["{managed_identity: ...}: no answer"])
        return Token(SecretValue(OF_TOKEN), 0)


# What is searched for -------------------------------------------------------------------------------------


def _escaped(text: str, form: str) -> str:
    return "".join(form.format(ord(character)) for character in text)


FORMS: list[Callable[[str], str]] = [
    str,
    lambda text: urllib.parse.quote(text, safe=""),
    urllib.parse.quote_plus,
    lambda text: _escaped(text, "%{:02x}"),
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(json.dumps(text))[2:-2],
    lambda text: _escaped(text, "\\u{:04x}"),
    html.escape,
    lambda text: _escaped(text, "&#{};"),
    lambda text: base64.b64encode(text.encode()).decode(),
    lambda text: base64.b64encode(b"x" + text.encode() + b"y").decode(),
    lambda text: base64.urlsafe_b64encode(b"xy" + text.encode() + b"z").decode(),
    lambda text: text[:-4],  # nearly all of it is no better
]


_ESCAPED_IN_JSON = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


def _once_unescaped(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else {"n": "\n", "t": "\t"}.get(match[2], match[2])

    return _ESCAPED_IN_JSON.sub(meant, html.unescape(urllib.parse.unquote(text)))


def _readings(text: str) -> Iterator[str]:
    """A text as its readers may take it: unescaped up to three times, forms and wrapped lines undone."""
    for _ in range(4):
        yield text
        yield text.replace("+", " ")
        yield "".join(text.split()).replace("-", "+").replace("_", "/")
        text = _once_unescaped(text)


def _wanted(secret: str) -> Iterator[str]:
    """A value as it is, nearly all of it, and in base64 at each of its three alignments."""
    yield secret
    yield secret.replace("+", " ")
    yield secret[:-4]
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret.encode()).decode().rstrip("=")
        yield encoded[before * 2 - (before == 2) : -4]


def leaks(text: str) -> list[str]:
    """Which secrets a text holds, in whatever encoding, letter case aside."""
    readings = [reading.lower() for reading in _readings(text)]
    return [
        f"{secret[:3]}... as {wanted[:12]}..."
        for secret in SECRETS
        for wanted in _wanted(secret)
        if any(wanted.lower() in reading for reading in readings)
    ]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", FORMS)
def test_the_search_finds_what_it_looks_for(form: Callable[[str], str], secret: str) -> None:
    """A search that cannot find is no test."""
    assert leaks(f"before {form(secret)} behind")
    assert leaks(json.dumps({"a": [form(secret)]}))
    assert not leaks("an ordinary text with nothing in it")


# The run --------------------------------------------------------------------------------------------------


async def mirror(peer: Peer, request: ReceivedRequest) -> None:
    """Give back what was sent, in every form, in every place that a response has."""
    path = request.line.split()[1].partition("?")[0]
    values = [value for name, value in request.fields if name in ("X-Key", "Authorization")]
    values += [value.partition(" ")[2] for value in values if value.startswith(("Bearer ", "Basic "))]
    values += ["agent:Ij5-basic-password"] * any("Basic" in value for value in values)
    said = [form(value) for value in values for form in FORMS[:-1]]
    match path:
        case "/json":
            content, kind = json.dumps({text: [text, {"nested": text}] for text in said}), "application/json"
        case "/wrapped":
            content = "\n".join(base64.encodebytes(f"{'x' * 50}{text}".encode()).decode() for text in said)
            kind = "text/plain"
        case "/cut":
            content, kind = "x" * (100_000 - 8) + "".join(values), "text/plain"
        case "/redirect":
            await peer.send(redirect("/path/" + urllib.parse.quote("".join(values), safe="")))
            return
        case "/elsewhere":
            await peer.send(redirect("https://elsewhere.example.com/text"))
            return
        case "/downgrade":
            await peer.send(redirect(f"http://{urllib.parse.quote(''.join(values), safe='')}.example/"))
            return
        case "/broken":
            await peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{''.join(values)[:5]}".encode())
            peer.cut()
            return
        case "/nonsense":
            await peer.send(f"{''.join(values)}\r\n\r\n".encode())
            return
        case _:
            content, kind = "\n".join(said), "text/plain"
    fields = [("Content-Type", kind), *((f"X-Echo-{number}", text) for number, text in enumerate(said))]
    fields += [("Location", f"/?key={urllib.parse.quote(value)}") for value in values]
    fields += [("X-Key", value) for value in values] + [("Set-Cookie", f"key={value}") for value in values]
    await peer.respond(content.encode(), fields=[(name, text.replace("\n", "")) for name, text in fields])


PATHS = ["text", "json", "wrapped", "cut", "redirect", "elsewhere", "downgrade", "broken", "nonsense"]


@dataclasses.dataclass
class Run:
    """Everything that a run was and left behind."""

    runtime: Runtime
    records: list[CallRecord]
    observer: RecordingObserver
    outputs: list[str]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agents.config.yaml").write_text(CONFIG)
    (tmp_path / "main.agent.md").write_text("---\nname: Main\n---\n")
    (tmp_path / "secret.txt").write_text(OF_FILE + "\n")
    return tmp_path


@pytest.fixture
async def run(
    project: Path,
    nursery: trio.Nursery,
    certificates: Certificates,
    ca_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> Run:
    """The project loaded and built, and every call made that there is."""
    for name, value in {**ENVIRONMENT, "SSL_CERT_FILE": str(ca_file)}.items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.DEBUG)
    cloud, observer = Cloud(), RecordingObserver()
    records: list[CallRecord] = []
    site = Site(default=mirror)
    runtime = load_runtime(
        project,
        vaults=cloud,
        resolver=AnyHost(),
        connector=Certified(nursery, site, certificates),
        observer=observer,
        record=records.append,
    )
    outputs = []
    for host in HOSTS:
        for path in PATHS:
            result = await runtime.call("main", "web_request", {"url": f"https://{host}/{path}?q=1"})
            outputs += [result.to_json(), repr(result), repr(result.error)]
            outputs.append(json.dumps(dataclasses.asdict(result.error)) if result.error else "")
        arguments: dict[str, Any] = {"url": f"https://{host}/text", "method": "POST", "json": {"a": 1}}
        message = {"tool": "web_request", "args": arguments, "tool_call_id": 1}
        audit: list[Any] = []
        registry = runtime.agents["main"].registry()
        outputs.append(repr(await dispatch(message, registry, pid="main", audit=audit.append)))
        outputs.append(repr(audit))
    # What a model was tricked into saying itself is redacted where it comes out again.
    for args in (
        {"url": f"https://env.example.com/{OF_FILE}"},
        {"url": "https://env.example.com/", "headers": {OF_FILE: "\n"}},
        {"url": "https://env.example.com/", OF_FILE: 1},
        {"url": f"https://{OF_FILE}.example.com/"},
    ):
        outputs.append((await runtime.call("main", "web_request", args)).to_json())
    cloud.broken = True
    outputs.append(
        (await runtime.call("main", "web_request", {"url": "https://token.example.com/"})).to_json()
    )
    assert all(any(secret in repr(request.fields) for request in site.requests) for secret in SECRETS[:5])
    return Run(runtime, records, observer, outputs)


async def test_results_and_errors(run: Run) -> None:
    """Nothing of a value comes out, though all of it went in; and redaction is what did it."""
    for output in run.outputs:
        assert leaks(output) == []
    assert sum("[redacted]" in output for output in run.outputs) > 2 * len(HOSTS) * len(PATHS) / 3


async def test_records_events_and_logs(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """What operators see: records, events with their exceptions, every logger of every library."""
    assert len(run.records) == len(HOSTS) * (len(PATHS) + 1) + 5
    assert leaks(repr(run.records)) == []
    assert leaks(caplog.text) == []
    assert leaks(repr([(record.msg, record.args) for record in caplog.records])) == []
    for event in run.observer.events:
        assert leaks(f"{event!r} {' '.join(map(str, event))}") == []
        for value in event:
            if isinstance(value, tidegate.FetchError):
                assert leaks("".join(traceback.format_exception(value)) + repr(vars(value))) == []
            if isinstance(value, tidegate.Hop):
                assert leaks(str(value.url)) == []


async def test_everything_that_prints(run: Run) -> None:
    """W-134: repr, str, vars, asdict, model_dump and copies of whatever a host gets into its hands."""
    runtime = run.runtime
    [agent] = runtime.agents.values()
    [tool] = agent.web_request_tools
    call: Any = tool.call
    resolved = runtime.project.agents["main"]
    config = resolved.web_request_config
    assert config is not None
    things: list[Any] = [
        runtime, vars(runtime), agent, tool, call, vars(call), runtime.project, resolved, config,
        runtime.project.global_config, runtime.project.global_config.value, call._credentials,
        vars(call._credentials), call._credentials.redactor(),
    ]  # fmt: skip
    for thing in things:
        assert leaks(f"{thing!r} {thing}") == []
    assert leaks(repr(dataclasses.asdict(tool))) == []
    assert leaks(repr(copy.deepcopy(tool))) == []
    assert leaks(config.model_dump_json() + repr(config.model_dump()) + config.__repr__()) == []
    assert leaks(runtime.project.global_config.value.model_dump_json()) == []


async def test_pickles(run: Run) -> None:
    """Configurations can be pickled and hold references; what holds secrets cannot be pickled at all."""
    runtime = run.runtime
    [tool] = runtime.agents["main"].web_request_tools
    for value in (runtime.project, runtime.project.agents["main"], run.records):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert leaks(pickle.dumps(value, protocol).decode("latin-1")) == []
    for holder in (runtime, tool, tool.call, tool.call._credentials):  # type: ignore[attr-defined]
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises((TypeError, AttributeError, pickle.PicklingError)) as caught:
                pickle.dumps(holder, protocol)
            assert leaks(str(caught.value)) == []


def reachable(root: object) -> Iterator[object]:
    """Everything that hangs on an object, but for modules, classes, functions, and what is of this test.

    So is the trio run, which an engine knows by its cancel scopes.
    """
    others = (ModuleType, type, FunctionType, Certified, RecordingObserver, trio.CancelScope)
    seen: set[int] = set()
    queue = [root]
    while queue:
        thing = queue.pop()
        if id(thing) in seen or isinstance(thing, others):
            continue
        seen.add(id(thing))
        yield thing
        queue.extend(gc.get_referents(thing))


async def test_the_core_of_the_configuration(run: Run) -> None:
    """W-68, W-134, W-150: no text that hangs on the configuration, or on the tool, is a secret."""
    texts = 0
    for root in (run.runtime.project, run.runtime.agents, run.runtime):
        for thing in reachable(root):
            if isinstance(thing, str | bytes):
                texts += 1
                assert leaks(thing if isinstance(thing, str) else thing.decode("latin-1")) == []
    assert texts > 100


def _with_locals(error: BaseException) -> str:
    out = io.StringIO()
    traceback.TracebackException.from_exception(error, capture_locals=True).print(file=out)
    return out.getvalue()


@pytest.mark.parametrize("missing", ["SECRET_OF_ENVIRONMENT", "BASIC", "file"])
def test_tracebacks_of_a_build_that_fails(missing: str, project: Path) -> None:
    """AMB-95: with the local variables of every frame, as error reporters have them."""
    environment = Hidden(ENVIRONMENT)
    environment.pop(missing, None)
    if missing == "file":
        (project / "secret.txt").unlink()
    with pytest.raises(BuildError) as caught:
        load_runtime(project, environment=environment, vaults=Cloud())
    assert leaks(_with_locals(caught.value)) == []
    assert leaks(pickle.dumps(caught.value).decode("latin-1")) == []


class Hidden(dict[str, str]):
    """The environment, which is the caller's to hide: it stands in a frame of this test."""

    def __repr__(self) -> str:
        return "<environment>"


async def test_a_call_that_is_torn_down(
    project: Path,
    nursery: trio.Nursery,
    certificates: Certificates,
    ca_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever ends the run from outside shows nothing either, in the frames of the tool."""
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))

    class Torn(BaseException):
        pass

    class Tearing(AnyHost):
        async def resolve(self, host: str) -> Any:
            raise Torn

    runtime = load_runtime(
        project, environment=Hidden(ENVIRONMENT), vaults=Cloud(), resolver=Tearing(),
        connector=Certified(nursery, Site(), certificates),
    )  # fmt: skip
    [tool] = runtime.agents["main"].web_request_tools
    with pytest.raises(Torn) as caught:
        await tool.call({"url": "https://env.example.com/"}, ToolContext())
    assert leaks(_with_locals(caught.value)) == []


def test_the_command_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`tidegate config check`, `schema` and `tool`, with the variables set."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    without_cloud = re.sub(r"\{(key_vault|managed_identity): .*\}", "{env: BASIC}", CONFIG)
    (project / "agents.config.yaml").write_text(without_cloud)
    commands = [
        ["config", "check", str(project)],
        ["config", "check", str(project), "--json"],
        ["tool", "web_request", '{"url": "https://10.0.0.1/"}', "--config", str(project), "--agent", "main"],
        ["schema"],
    ]
    assert [main(arguments) for arguments in commands] == [0, 0, 10, 0]
    told = capsys.readouterr()
    assert "{env: SECRET_OF_ENVIRONMENT}" in told.out
    assert leaks(told.out + told.err) == []
    (project / "agents.config.yaml").write_text(CONFIG.replace("{env: SECRET_OF_ENVIRONMENT}", OF_FILE))
    assert main(["config", "check", str(project)]) == 2
    told = capsys.readouterr()
    assert leaks(told.out + told.err) == []
