"""The URL corpus through the whole engine: what is let through, and what no connection ever leads to.

`tests/unit/test_url.py` judges the same rows by the parser alone; here DNS answers, redirects and grades
count, and the one thing that matters is watched: the addresses that were connected to.
"""

import ssl
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any

import pytest
import trio

import tidegate
from tests.support.data import corpus
from tests.support.engines import engine_with
from tidegate._policy.url import join_location
from tidegate.testing.memory import MemoryConnector, Peer

TARGET_KINDS = {
    "ipv4-special", "ipv4-noncanonical", "ipv4-unicode", "name-unicode", "ipv6-literal", "ipv6-zone",
    "ipv6-malformed", "userinfo", "backslash", "whitespace-control", "percent-host", "authority-edge",
    "scheme", "scheme-malformed", "port", "bad-port", "host-syntax", "special-name", "wildcard-dns",
    "dns-answer", "legit",
}  # fmt: skip

# Policy rows whose proposal a decision replaces: the verdict that holds, and the decision.
DECIDED: dict[str, tuple[str, str]] = {}


class CorpusResolver:
    """Answers as a row says: by name, or one answer after the other."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._table = row.get("dns", {})
        self._answers = list(row.get("dns_seq", ()))
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Sequence[Any]:
        self.asked.append(host)
        found = self._table.get(host, self._table.get("*", "NXDOMAIN"))
        answer = self._answers.pop(0) if self._answers else found
        if answer == "UnicodeError":
            raise UnicodeError("label too long")
        if answer == "TIMEOUT":
            await trio.sleep_forever()
        if isinstance(answer, str) or not set(answer) & {"A", "AAAA"}:
            raise tidegate.ResolutionError(f"{host} could not be resolved: {answer}")
        return [address for kind in ("AAAA", "A") for address in addresses(answer.get(kind, []))]


def addresses(texts: Any) -> list[Any]:
    if texts == "4096xpublic+127.0.0.1":
        return [ip_address(0x5DB80000 + n) for n in range(4096)] + [ip_address("127.0.0.1")]
    return [ip_address(text) for text in texts]


def verdict_of(error: tidegate.FetchError | None) -> str:
    """`allow`, `deny` or `error` as the corpus means them: a denial is a policy refusal, not a bad URL."""
    if error is None:
        return "allow"
    return "deny" if isinstance(error, tidegate.Denied) else "error"


def accepted(row: dict[str, Any]) -> set[str]:
    if row["id"] in DECIDED:
        return {DECIDED[row["id"]][0]}
    return {row["expect"], *row.get("also", ())}


def ip_text(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


@pytest.fixture
def any_tls(authority: Any) -> Callable[[str], ssl.SSLContext]:
    """Server contexts for whatever name a client asks for, made when it does."""
    made: dict[str, ssl.SSLContext] = {}

    def context_for(host: str) -> ssl.SSLContext:
        if host not in made:
            made[host] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            # X.509 tools refuse to name some hosts that DNS has; a wildcard over the parent covers those.
            name = host if host.count(".") < 2 or ip_text(host) else "*." + host.partition(".")[2]
            authority.issue_cert(name).configure_cert(made[host])
        return made[host]

    return context_for


class CorpusConnector(MemoryConnector):
    """Refuses what a row calls unreachable, and plays TLS for every name."""

    def __init__(self, nursery: trio.Nursery, script: Any, tls_for: Any, row: dict[str, Any]) -> None:
        super().__init__(nursery, script, unreachable=frozenset(row.get("connect_fail", ())))
        self._tls_for = tls_for

    async def _play_over(self, target: Any, transport: Any) -> None:
        if target.scheme == "https":
            self.tls = self._tls_for(target.host)
        await super()._play_over(target, transport)


async def run(
    row: dict[str, Any], url: str, nursery: trio.Nursery, client_tls: Any, any_tls: Any, **options: Any
) -> tuple[tidegate.Response | None, tidegate.FetchError | None, MemoryConnector, CorpusResolver]:
    script = options.pop("script")
    policy = options.pop("policy", tidegate.Policy())
    resolver = CorpusResolver(row)
    connector = CorpusConnector(nursery, script, any_tls, row)
    response = error = None
    async with engine_with(
        nursery, script, connector=connector, resolver=resolver, tls=client_tls, policy=policy
    ) as (engine, _):
        try:
            response = await engine.fetch(url, **options)
        except tidegate.FetchError as caught:
            error = caught
    return response, error, connector, resolver


def check_connections(row: dict[str, Any], connector: MemoryConnector) -> None:
    peers = [str(target.address) for target in connector.connected]
    assert not set(peers) & set(row.get("never", ()))
    for peer in peers:
        assert tidegate.classify_address(peer) == tidegate.AddressClass.GLOBAL
    if "connect_to" in row:
        assert set(peers) <= set(row["connect_to"])


async def ok(peer: Peer) -> None:
    while await peer.receive_request() is not None:
        await peer.respond(b"ok")


@pytest.mark.parametrize(
    "row", [row for row in corpus("urls") if row["kind"] in TARGET_KINDS], ids=lambda row: row["id"]
)
async def test_target(
    row: dict[str, Any], nursery: trio.Nursery, autojump_clock: Any, client_tls: Any, any_tls: Any
) -> None:
    """F-8..F-18, F-26, F-46..F-48, F-71, W-97..W-119."""
    # No tool issues a certificate for a name with an underscore, so those two rows go over http.
    url = row["input"].replace("https:", "http:") if "underscore" in row["why"] else row["input"]
    _, error, connector, _ = await run(row, url, nursery, client_tls, any_tls, script=ok)
    assert verdict_of(error) in accepted(row), (row["why"], error)
    assert (error is None) is bool(connector.connected)
    check_connections(row, connector)


@pytest.mark.parametrize(
    "row", [row for row in corpus("urls") if row["kind"] == "rebind"], ids=lambda row: row["id"]
)
async def test_rebinding(
    row: dict[str, Any], nursery: trio.Nursery, autojump_clock: Any, client_tls: Any, any_tls: Any
) -> None:
    """F-19, F-20, W-123: one look-up a hop, and the connection goes to what was checked."""
    redirect = row.get("redirect")

    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            if redirect and redirect["location"] not in request.line:
                status = f"{redirect['status']} Found"
                await peer.respond(status=status, fields=[("Location", redirect["location"])])
            else:
                await peer.respond(b"ok")

    limits = tidegate.Limits(max_redirects=5)
    _, error, connector, resolver = await run(
        row, row["input"], nursery, client_tls, any_tls, script=script, limits=limits
    )
    assert verdict_of(error) in accepted(row), error
    assert len(resolver.asked) == (2 if redirect else 1)
    check_connections(row, connector)


# On the wire a line break in Location is the end of the field, so this row is about the value alone.
LINE_BREAK = "redirect-064"


def test_line_break_in_location() -> None:
    row = next(row for row in corpus("urls") if row["id"] == LINE_BREAK)
    with pytest.raises(tidegate.FetchError):
        join_location(tidegate.parse_url(row["base"]), row["input"].encode())


def redirecting(row: dict[str, Any], seen: list[Any]) -> Any:
    """The first answers of a chain are redirects, the one after them is final."""
    name = row.get("header", "Location")
    locations: list[bytes | list[str]] = [row["input"].encode("utf-8", "surrogateescape")]
    if "chain" in row:
        locations = [location.encode() for location in row["chain"]]
    elif "raw_headers" in row:
        locations = [row["raw_headers"]]
    elif "location_len" in row:
        locations = [b"/" + b"a" * (row["location_len"] - 1)]
    elif row.get("loop"):
        locations = [row["base"].encode()] * 30

    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            seen.append((peer.target, request))
            if len(seen) > len(locations):
                await peer.respond(b"ok")
                continue
            location = locations[len(seen) - 1]
            lines = location if isinstance(location, list) else [f"{name}: "]
            head = "\r\n".join([f"HTTP/1.1 {row['status']} Redirect", "Content-Length: 0", *lines]).encode()
            await peer.send(head + (b"" if isinstance(location, list) else location) + b"\r\n\r\n")
            if row["status"] < 200:
                await peer.respond(b"ok")

    return script


@pytest.mark.parametrize(
    "row",
    [
        row
        for row in corpus("urls")
        if row["kind"] in {"redirect", "redirect-chain", "redirect-status"} and row["id"] != LINE_BREAK
    ],
    ids=lambda row: row["id"],
)
async def test_redirect(
    row: dict[str, Any], nursery: trio.Nursery, autojump_clock: Any, client_tls: Any, any_tls: Any
) -> None:
    """F-21, F-67, F-69, F-113, W-136, W-158: every hop is checked like the first."""
    seen: list[Any] = []
    policy = tidegate.Policy(hosts=row.get("allowed_hosts"), require_https=row.get("require_https", False))
    response, error, connector, _ = await run(
        row,
        row["base"],
        nursery,
        client_tls,
        any_tls,
        script=redirecting(row, seen),
        policy=policy,
        limits=tidegate.Limits(max_redirects=5),
    )
    assert verdict_of(error) in accepted(row), (row["why"], error)
    check_connections(row, connector)
    if error is None:
        assert response is not None
        followed = len(response.hops) > 1
        assert followed is row.get("followed", followed)
        if "next" in row:
            assert row["next"].partition("#")[0] == str(response.url)


@pytest.mark.parametrize(
    "row", [row for row in corpus("urls") if row["kind"] == "redirect-credentials"], ids=lambda row: row["id"]
)
@pytest.mark.parametrize("tool", ["fetch", "web_request"])
async def test_redirect_credentials(
    row: dict[str, Any], tool: str, nursery: trio.Nursery, autojump_clock: Any, client_tls: Any, any_tls: Any
) -> None:
    """F-22, F-23, F-72, D-22: credentials never cross origins; a tool says what holds within one."""
    seen: list[Any] = []
    kept = row["sensitive_kept"] and tool == "web_request"
    _, error, _, _ = await run(
        row,
        row["base"],
        nursery,
        client_tls,
        any_tls,
        script=redirecting(row, seen),
        policy=tidegate.Policy(keep_credentials_within_origin=tool == "web_request"),
        headers=row["headers_in"],
        limits=tidegate.Limits(max_redirects=5),
    )
    assert error is None
    (_, first), (_, second) = seen
    same_origin = row["sensitive_kept"]
    for name, value in row["headers_in"].items():
        assert value == first.field(name)
        credential = name.lower() in {"authorization", "cookie", "proxy-authorization"}
        follows = kept if credential else same_origin or name == "Accept"
        assert (value if follows else None) == second.field(name), name


@pytest.mark.parametrize(
    "row", [row for row in corpus("urls") if row["kind"] == "redirect-method"], ids=lambda row: row["id"]
)
async def test_redirect_method(
    row: dict[str, Any], nursery: trio.Nursery, autojump_clock: Any, client_tls: Any, any_tls: Any
) -> None:
    """D-21, AMB-13, AMB-88."""
    seen: list[Any] = []
    content = b"" if row["method"] in {"HEAD", "DELETE"} else b"content"
    _, error, _, _ = await run(
        row,
        row["base"],
        nursery,
        client_tls,
        any_tls,
        script=redirecting(row, seen),
        method=row["method"],
        content=content,
        headers={"Content-Type": "text/plain"},
        limits=tidegate.Limits(max_redirects=1),
    )
    assert error is None
    _, (_, second) = seen
    assert row["next_method"] == second.line.split(" ")[0]
    assert (content if row["body_kept"] else b"") == second.content
    assert row["body_kept"] is (second.field("content-type") is not None)


def test_all_kinds_are_run_somewhere() -> None:
    """A kind that is new in the corpus must be given a test."""
    here = TARGET_KINDS | {"rebind", "redirect", "redirect-chain", "redirect-status", "redirect-credentials"}
    elsewhere = {
        "redirect-method", "request-header", "method", "request-body", "response", "response-limits",
        "allowlist", "allowlist-config", "environment", "tls", "self-connection",
    }  # fmt: skip
    assert {row["kind"] for row in corpus("urls")} == here | elsewhere
