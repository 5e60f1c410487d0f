"""Secrets in every place that a request or a response has, and then a search of everything that is told.

The path is the one place that is shown on purpose, by spans alone: decision W-F2 lists it, and `url.full` is
what the conventions ask for. Whoever has secrets in paths gives `OpenTelemetryObserver` a `redact`.
"""

import base64
import io
import json
import logging
import pickle
import ssl
import traceback
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is in the dependency group `test`")

import tidegate
from tests.support.engines import AnyHost, engine_with
from tests.support.telemetry import Sdk, open_sdk
from tests.tools.web_request.agents import Certificates, Certified
from tidegate.telemetry import (
    AuditLog,
    Counters,
    HopObserver,
    HopRecord,
    Observers,
    RememberingResolver,
    logging_observer,
)
from tidegate.testing.memory import MemoryConnector, Peer
from tidegate.testing.observer import RecordingObserver
from tidegate_tools.audit.lines import LogReader
from tidegate_tools.audit.page import render_page
from tidegate_tools.audit.suggest import as_yaml, suggest
from tidegate_tools.audit.summary import summarise
from tidegate_tools.dispatch import dispatch
from tidegate_tools.fetch import make_fetch_tool
from tidegate_tools.registry import ToolRegistry
from tidegate_tools.telemetry import ToolTelemetry, record_web_request
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.records import CallRecord
from tidegate_tools.web_request.redaction import MARK as REDACTED
from tidegate_tools.web_request.tool import create_web_request_tools


def secret(place: str) -> str:
    """A value that is found wherever it goes, in whatever letter case."""
    return f"s3cr3t-{place}-s3cr3t"


MARK = "s3cr3t"
PATH = "p4th-s3cr3t".replace("s3cr3t", "value")  # shown by spans, and by the `url` of errors
INSIDE = "10.66.77.88"

FIELDS = {
    "Authorization": f"Bearer {secret('authorization')}",
    "Cookie": f"session={secret('cookie')}",
    "X-Api-Key": secret("field"),
}
QUERY = f"key={secret('query')}&sig={secret('signature')}"


async def serve(peer: Peer) -> None:
    """Says secrets wherever a response can, and what the path asks for."""
    while (request := await peer.receive_request()) is not None:
        said = [
            ("Set-Cookie", f"id={secret('set-cookie')}"),
            ("WWW-Authenticate", f'Basic realm="{secret("challenge")}"'),
            ("X-Token", secret("response-field")),
            ("Content-Type", "text/plain"),
        ]
        path = request.line.split(" ")[1]
        if request.field("transfer-encoding"):
            sent = b""
            while not sent.endswith(b"0\r\n\r\n"):
                sent += await peer.receive_some()
        if "/redirect" in path:
            location = f"https://b.example/{PATH}?{QUERY}#{secret('fragment')}"
        elif "/inside" in path:
            location = f"https://inside.example/{PATH}?{QUERY}"
        elif "/userinfo" in path:
            location = f"https://{secret('user')}:{secret('password')}@b.example/"
        elif "/nonsense" in path:
            location = f"https://b.example:{secret('port')}/"
        elif "/ftp" in path:
            location = f"ftp://b.example/{secret('ftp')}"
        elif "/broken" in path:
            await peer.send(f"HTTP/1.1 200 OK\r\n{secret('bad-line')}\x01\r\n\r\n".encode())
            return
        elif "/coding" in path:
            await peer.respond(secret("not-gzip").encode(), fields=[*said, ("Content-Encoding", "gzip")])
            continue
        elif "/short" in path:
            head = f"HTTP/1.1 200 {secret('phrase')}\r\nContent-Length: 1000\r\n\r\n{secret('content')}"
            await peer.send(head.encode())
            return
        elif "/hold" in path:
            await trio.sleep_forever()
        else:
            await peer.respond(secret("content").encode(), status=f"200 {secret('phrase')}", fields=said)
            continue
        await peer.respond(secret("content").encode(), status="302 X", fields=[*said, ("Location", location)])


class Names(AnyHost):
    """Public addresses, but for one name; and one that breaks, saying a secret."""

    async def resolve(self, host: str) -> Any:
        if host == "odd.example":
            raise tidegate.ResolutionError("odd.example does not exist")
        inside = AnyHost(INSIDE) if host == "inside.example" else super()
        return await inside.resolve(host)


class Vault:
    """Credentials of an operator; for one host it breaks, saying the secret."""

    async def fields_for(self, url: tidegate.URL) -> Mapping[str, str]:
        if url.host == "vault.example":
            raise RuntimeError(f"the vault says {secret('vault')}")
        return {"X-Configured": secret("configured")}


async def content() -> AsyncIterator[bytes]:
    yield secret("streamed").encode()


FETCHES: list[tuple[str, dict[str, Any]]] = [
    (f"https://a.example/{PATH}?{QUERY}#{secret('fragment')}", {"headers": FIELDS}),
    (f"https://a.example/{PATH}", {"method": "POST", "content": secret("request-content").encode()}),
    (f"https://a.example/{PATH}", {"method": "POST", "content": content()}),
    (f"https://a.example/redirect?{QUERY}", {"headers": FIELDS}),
    (f"https://a.example/inside?{QUERY}", {}),
    ("https://a.example/userinfo", {}),
    ("https://a.example/nonsense", {}),
    ("https://a.example/ftp", {}),
    ("https://a.example/broken", {}),
    ("https://a.example/coding", {}),
    (f"https://a.example/short?{QUERY}", {}),
    (f"https://a.example/hold?{QUERY}", {"limits": tidegate.Limits(timeout=1)}),
    (f"https://inside.example/{PATH}?{QUERY}", {"headers": FIELDS}),
    (f"https://odd.example/{PATH}?{QUERY}", {}),
    (f"https://vault.example/{PATH}?{QUERY}", {}),
    (f"https://{secret('user')}:{secret('password')}@a.example/", {}),
    (f"https://a.example:{secret('port')}/", {}),
    (f"{secret('no-url')}", {}),
    (f"gopher://a.example/{secret('gopher')}", {}),
    (f"https://169.254.169.254/{PATH}?{QUERY}", {"headers": FIELDS}),
    (f"https://a.example:25/{PATH}?{QUERY}", {}),
    ("https://a.example/", {"headers": {"X-Key": f"{secret('bad-value')}\x00"}}),
    ("https://a.example/", {"headers": {"Host": secret("own-field")}}),
    ("https://a.example/", {"headers": {"X-Key": secret("twice"), "x-key": secret("twice")}}),
    ("https://a.example/", {"headers": {"X-Key": secret("long") * 1000}}),
    ("https://a.example/", {"content": secret("large").encode() * 100_000}),
]


class Told:
    """Everything that is told, by where."""

    def __init__(self, sdk: Sdk, log_file: Path) -> None:
        self.sdk = sdk
        self.log_file = log_file
        self.taken: list[HopRecord] = []
        self.recording = RecordingObserver()
        self.counters = Counters()
        self.said: list[str] = []

    def observer(
        self, log: AuditLog, resolver: RememberingResolver | None = None, *, query: bool = False
    ) -> Observers:
        return Observers(
            log.observer(tidegate.Policy(), blocked_addresses=resolver),
            self.sdk.observer(query=True) if query else self.sdk.observer(),
            logging_observer(),
            self.counters.observer(),
            HopObserver(self.taken.append),
            self.recording,
        )

    def say(self, value: object) -> None:
        """Whatever a program or a crash reporter would print of it."""
        self.said += [str(value), repr(value)]
        if isinstance(value, BaseException):
            self.said += ["".join(traceback.format_exception(value)), repr(vars(value))]
            if isinstance(value, tidegate.FetchError):
                self.said.append(pickle.dumps(value).decode("latin-1"))

    def surfaces(self, caplog: pytest.LogCaptureFixture) -> dict[str, str]:
        audit = self.log_file.read_text()
        lines = list(LogReader().read([io.BytesIO(audit.encode())]))
        metrics = self.sdk.reader.get_metrics_data()
        logged = [f"{record.getMessage()} {record.args!r} {record.exc_info!r}" for record in caplog.records]
        return {
            "spans": "\n".join(span.to_json() for span in self.sdk.spans),
            "metrics": metrics.to_json() if metrics else "",
            "audit": audit,
            "report": render_page(summarise(lines), "log"),
            "suggestion": as_yaml(suggest(lines).hosts),
            "logs": "\n".join(logged),
            "said": "\n".join(self.said),
            "reprs": repr((self.taken, self.recording.events, self.counters.snapshot())),
        }


def check(surfaces: Mapping[str, str]) -> None:
    """No secret anywhere, no address of a refused request, and a path only where it is shown on purpose."""
    for where, text in surfaces.items():
        assert "a.example" in text, f"{where} tells of nothing: the search of it would find nothing"
        at = text.lower().find(MARK)
        assert at < 0, f"{where}: ...{text[max(at - 200, 0) : at + 60]}..."
        assert INSIDE not in text, where
    assert {where for where, text in surfaces.items() if PATH in text} <= {"spans", "said", "reprs"}
    assert PATH in surfaces["spans"]


@pytest.fixture
def tls(server_tls: Callable[..., ssl.SSLContext]) -> ssl.SSLContext:
    names = ("a", "b", "inside", "odd", "vault")
    return server_tls(*(f"{name}.example" for name in names))


async def test_no_secret_is_told_by_the_engine(
    nursery: trio.Nursery,
    autojump_clock: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    tls: ssl.SSLContext,
    client_tls: ssl.SSLContext,
) -> None:
    """W-22, W-F3, D-20."""
    caplog.set_level(logging.DEBUG)
    with open_sdk() as sdk:
        told = Told(sdk, tmp_path / "audit.jsonl")
        with AuditLog.to_file(told.log_file) as log:
            async with engine_with(
                nursery,
                serve,
                server_tls=tls,
                tls=client_tls,
                resolver=Names(),
                observer=told.observer(log),
                credentials=Vault(),
            ) as (engine, _):
                for url, options in FETCHES:
                    options.setdefault("limits", tidegate.Limits(max_redirects=3))
                    try:
                        told.say(await engine.fetch(url, **options))
                    except tidegate.FetchError as error:
                        told.say(error)
                    with suppress(tidegate.FetchError):
                        told.say(await engine.check(url))
        assert log.lost == 0
        surfaces = told.surfaces(caplog)
    surfaces["said"] = without_verdicts_addresses(surfaces["said"])
    check(surfaces)
    assert {record.reason for record in told.taken} >= {
        None, "private", "imds", "userinfo_not_allowed", "malformed_url", "unsupported_scheme",
        "protocol_error", "incomplete_content", "timeout", "dns_resolution_failed", "connect_failed",
        "blocked_port", "invalid_field", "request_too_large",
    }  # fmt: skip


def without_verdicts_addresses(text: str) -> str:
    """`Verdict.addresses` is for the operator's eyes: what `check` is asked for."""
    return text.replace(f"addresses=(IPv4Address('{INSIDE}'),)", "")


async def test_addresses_of_refused_requests_only_where_they_are_asked_for(
    nursery: trio.Nursery, autojump_clock: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The operator's switch opens the audit log, and nothing else."""
    caplog.set_level(logging.DEBUG)
    resolver = RememberingResolver(Names())
    with open_sdk() as sdk:
        told = Told(sdk, tmp_path / "audit.jsonl")
        with AuditLog.to_file(told.log_file) as log:
            observer = told.observer(log, resolver)
            async with engine_with(nursery, serve, observer=observer, resolver=resolver) as (engine, _):
                with pytest.raises(tidegate.Denied) as caught:
                    await engine.fetch("http://inside.example/")
                told.say(caught.value)
        surfaces = told.surfaces(caplog)
    assert {where for where, text in surfaces.items() if INSIDE in text} == {"audit"}


CALLS: list[dict[str, Any]] = [
    {"url": f"https://a.example/{PATH}?{QUERY}", "headers": {"X-Api-Key": secret("field")}},
    {"url": f"https://a.example/redirect?{QUERY}"},
    {"url": f"https://a.example/inside?{QUERY}"},
    {"url": f"https://inside.example/{PATH}?{QUERY}"},
    {"url": "https://a.example/userinfo"},
    {"url": "https://a.example/broken"},
    {"url": "https://a.example/coding"},
    {"url": f"https://a.example/short?{QUERY}"},
    {"url": f"https://{secret('user')}:{secret('password')}@a.example/"},
    {"url": f"{secret('no-url')}"},
    {"url": f"https://10.0.0.1/{PATH}?{QUERY}"},
    {"url": "https://a.example/", "headers": {"X-Key": f"{secret('bad-value')}\x00"}},
    {"url": "https://a.example/", "method": "POST", "body": secret("body")},
    {"url": "https://a.example/", secret("unknown"): secret("argument")},
    {"url": ["https://a.example/", secret("list")]},
]


async def test_no_secret_is_told_of_a_tool(
    nursery: trio.Nursery,
    autojump_clock: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    tls: ssl.SSLContext,
    authority: trustme.CA,
    client_tls: ssl.SSLContext,
) -> None:
    """W-69, W-160, F-118: `Fetch` and `web_request` with a configured credential, by `dispatch`."""
    caplog.set_level(logging.DEBUG)
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(authority.cert_pem.bytes())
    with open_sdk() as sdk:
        told = Told(sdk, tmp_path / "audit.jsonl")
        with AuditLog.to_file(told.log_file) as log:
            telemetry = ToolTelemetry(audit=log, **sdk.providers)
            network = {
                "connector": MemoryConnector(nursery, serve, tls),
                "resolver": Names(),
                "observer": told.observer(log),
            }
            registry = ToolRegistry()
            registry.register(telemetry.observed(make_fetch_tool(tls=client_tls, **network)))
            [web_request] = create_web_request_tools(
                WebRequestConfig.model_validate(
                    {
                        "ca_file": str(ca_file),
                        "max_redirects": 3,
                        "auth": [{"host": "a.example", "headers": {"X-Configured": {"env": "KEY"}}}],
                    }
                ),
                environment={"KEY": secret("configured")},
                record=record_web_request,
                **network,
            )
            registry.register(telemetry.observed(web_request))
            for number, args in enumerate(CALLS):
                for tool in registry.list():
                    message = {"tool": tool, "args": args, "tool_call_id": number}
                    await dispatch(message, registry, pid=7, audit=telemetry.record)
            await dispatch({"tool": f"{'x' * 64}{secret('name')}"}, registry, pid=7, audit=telemetry.record)
        told.say((telemetry, registry, web_request, log, "a.example"))
        surfaces = told.surfaces(caplog)
    check(surfaces)
    lines = [json.loads(line) for line in surfaces["audit"].splitlines()]
    assert len([line for line in lines if line["event"] == "call"]) == 2 * len(CALLS) + 1


# A configured secret that comes back ----------------------------------------------------------------------

KEYS = {"plain": "S3cr3t-Key-0123456789", "odd": 'S3cr3t-Key/of?odd#parts<"%41+=.'}


def _percent(text: str) -> str:
    return "".join(f"%{octet:02X}" for octet in text.encode())


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "percent-encoded": lambda key: urllib.parse.quote(key, safe=""),
    "percent-encoded, all of it": _percent,
    "percent-encoded in lower case": lambda key: _percent(key).lower(),
    "percent-encoded twice": lambda key: _percent(_percent(key)),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 for URLs": lambda key: base64.urlsafe_b64encode(f"k:{key}".encode()).decode().rstrip("="),
}

LOCATIONS: dict[str, str] = {
    "a path": "/echo/{}",
    "a part of a path": "/echo/x{}y/end",
    "the end of a path": "/echo/a-{}",
    "a relative path": "echo/{}",
    "a query": "/echo?key={}",
    "a fragment": "/echo#{}",
    "a host": "https://{}.b.example/",
    "a host with a path": "https://x-{}.b.example/p",
    "a host with a port": "https://{}.b.example:8443/p",
    "a host without a scheme": "//{}.b.example",
    "a host that ends in a dot": "https://{}./",
    "all of a host": "https://{}",
    "a host and a path": "https://{0}.b.example/{0}?{0}",
    "a local host": "https://{}.local/",
    "a host inside": "https://{}.inside.example/",
    "a host that is not there": "https://{}.odd.example/",
    "a host of which it does not know": "https://{}.stranger.example/",
    "a host by http": "http://{}.b.example/",
    "a host with a bad port": "https://{}.b.example:25/",
    "a host that breaks HTTP": "https://{}.b.example/broken",
    "a host that loops": "https://{}.b.example/loop/{}",
    "userinfo": "https://{0}:{0}@b.example/",
    "a port": "https://b.example:{}/",
    "a scheme": "{}://b.example/",
    "another scheme": "gopher://{}/{}",
    "two that differ": "/echo/{}\r\nLocation: /other/{}",
}


async def reflect(peer: Peer) -> None:
    """Redirects to where the query says, with the credential in it; /loop goes on for ever."""
    while (request := await peer.receive_request()) is not None:
        key = request.field("x-configured") or ""
        path, _, asked = request.line.split(" ")[1].partition("?")
        if path == "/reflect":
            form, _, place = asked.partition("/")
            said = FORMS[urllib.parse.unquote(form)](key)
            location = LOCATIONS[urllib.parse.unquote(place)].format(said, said)
            await peer.send(f"HTTP/1.1 302 X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())
        elif path == "/broken":
            await peer.send(b"HTTP/1.1 200 OK\r\nbad line\x01\r\n\r\n")
            return
        elif path.startswith("/loop"):
            await peer.respond(status="302 X", fields=[("Location", path)])
        else:
            await peer.respond(b"content", fields=[("Content-Type", "text/plain")])


class AnyName(AnyHost):
    """Public addresses, but for names below `inside.example`, and below `odd.example`."""

    async def resolve(self, host: str) -> Any:
        if host.endswith("odd.example"):
            raise tidegate.ResolutionError(f"{host} does not exist")
        inside = AnyHost(INSIDE) if host.endswith("inside.example") else super()
        return await inside.resolve(host)


class Strangers(Certificates):
    """A certificate for every name, but another's below `stranger.example`."""

    def context(self, host: str) -> ssl.SSLContext:
        return super().context("other.example" if host.endswith("stranger.example") else host)


@pytest.mark.slow
@pytest.mark.parametrize("on_trial", [False, True], ids=["enforced", "on trial"])
@pytest.mark.parametrize("kind", KEYS)
async def test_no_configured_secret_is_told_of_a_redirect(
    kind: str,
    on_trial: bool,
    nursery: trio.Nursery,
    autojump_clock: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    authority: trustme.CA,
) -> None:
    """W-F3, W-150, W-160: a server that was sent it puts it where it likes, in whatever form.

    Nothing of it is anywhere, not even its beginning where a URL ends before it does; nor in queries, which
    OpenTelemetry shows here.
    """
    caplog.set_level(logging.DEBUG)
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    config: dict[str, Any] = {
        "ca_file": str(tmp_path / "ca.pem"),
        "max_redirects": 3,
        "auth": [{"host": "a.example", "headers": {"X-Configured": {"env": "KEY"}}}],
    }
    if on_trial:
        config |= {"allowed_hosts": ["a.example"], "report_only": True}
    records: list[CallRecord] = []

    def record(call: CallRecord) -> None:
        records.append(call)
        record_web_request(call)

    with open_sdk() as sdk:
        told = Told(sdk, tmp_path / "audit.jsonl")
        with AuditLog.to_file(told.log_file) as log:
            telemetry = ToolTelemetry(audit=log, **sdk.providers)
            [tool] = create_web_request_tools(
                WebRequestConfig.model_validate(config),
                environment={"KEY": KEYS[kind]},
                connector=Certified(nursery, reflect, Strangers(authority)),
                resolver=AnyName(),
                observer=told.observer(log, query=True),
                record=record,
                observed=telemetry.observed,
            )
            registry = ToolRegistry()
            registry.register(tool)
            urls = [
                f"https://a.example/reflect?{urllib.parse.quote(form)}/{urllib.parse.quote(place)}"
                for form in FORMS
                for place in LOCATIONS
            ]
            urls += [f"https://a.example/{KEYS[kind]}", f"https://{KEYS[kind]}.b.example/"]
            for url in urls:
                message = {"tool": "web_request", "args": {"url": url}}
                told.say(await dispatch(message, registry, pid=7, audit=telemetry.record))
        for event in told.recording.events:
            for value in event:
                told.say(value)
        told.say(records)
        surfaces = told.surfaces(caplog)
    forms = {form(KEYS[kind]).lower() for form in FORMS.values()} | {MARK, _percent("s3cr3t").lower()}
    for where, text in surfaces.items():
        found = [form for form in forms if form in urllib.parse.unquote(text).lower() or form in text.lower()]
        assert found == [], where
    assert {where for where, text in surfaces.items() if REDACTED not in text} <= {"suggestion", "report"}
    reasons = {record.reason for record in told.taken}
    assert reasons >= {
        None, "https_required", "local_name", "private", "dns_resolution_failed", "tls_failed",
        "protocol_error", "too_many_redirects", "blocked_port", "bad_redirect", "unsupported_scheme",
        "userinfo_not_allowed", "invalid_port",
    }  # fmt: skip
    assert any(record.reported for record in told.taken) is on_trial
