"""Redirects of `web_request`: not followed unless the operator says so, and then judged hop by hop."""

from typing import Any

import pytest
import trio

from tests.support.data import corpus, rows_of_kind
from tests.support.engines import AnyHost
from tests.support.fetch_tool import Site, Zone, answer, redirect
from tests.tools.web_request.agents import HOST, URL
from tests.tools.web_request.conftest import MakeAgent
from tidegate.testing.memory import Peer, ReceivedRequest

OTHER = "https://other.example/"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 300, 304])
async def test_not_followed_by_default(status: int, agent: MakeAgent) -> None:
    """W-25, W-91, W-130, W-157, W-J3, D-2: a 3xx is the result, Location as it came, nothing else sent."""
    location = "https://user:pass@10.0.0.1/x?token=1"
    site = Site(default=answer(b"", f"{status} Elsewhere", f"Location: {location}"))
    mine = agent(site)
    result = await mine.get(URL)
    assert (result["status"], result["redirect_count"], result["url"]) == (status, 0, URL)
    assert result["response_headers"]["Location"] == location
    assert len(site.requests) == 1
    assert mine.resolver.asked == [HOST]


async def test_followed_if_the_operator_says_so(agent: MakeAgent) -> None:
    """W-45, W-91, W-136, W-C5: the result is that of the last hop, and says how many there were."""
    site = Site({URL: redirect("/a?token=secret"), f"{URL}a?token=secret": redirect(OTHER)})
    result = await agent(site, max_redirects=2).get(URL)
    assert (result["status"], result["redirect_count"], result["url"]) == (200, 2, OTHER)


@pytest.mark.parametrize("status", [300, 304, 305, 306])
async def test_other_statuses_are_final(status: int, agent: MakeAgent) -> None:
    """AMB-16, cross-cutting 11: a 304 with a Location is no redirect to follow."""
    site = Site(default=answer(b"", f"{status} Other", "Location: /elsewhere"))
    result = await agent(site, max_redirects=5).get(URL)
    assert (result["status"], result["redirect_count"]) == (status, 0)
    assert len(site.requests) == 1


async def test_the_content_of_a_redirect_is_not_read(agent: MakeAgent) -> None:
    """Cross-cutting 4: a redirect with a gigabyte behind it costs nothing."""
    sent = 0

    async def heavy(peer: Peer, _: ReceivedRequest) -> None:
        nonlocal sent
        await peer.send(b"HTTP/1.1 302 Found\r\nLocation: /to\r\nContent-Length: 1073741824\r\n\r\n")
        while sent < 1 << 30:
            await peer.send(b"x" * 65536)
            sent += 65536

    mine = agent(Site({URL: heavy}), max_redirects=1, max_response_bytes=1024)
    result = await mine.get(URL)
    assert (result["status"], result["redirect_count"]) == (200, 1)
    assert sent < 4 << 20


@pytest.mark.parametrize(("allowed", "asked"), [(1, 1), (5, 5), (10, 10), (99, 10)])
async def test_too_many(allowed: int, asked: int, agent: MakeAgent) -> None:
    """W-158, W-C7, AMB-90: an error, no partial result; ten at most, whatever is configured."""
    site = Site(default=redirect("/again"))
    error = await agent(site, max_redirects=allowed).error(URL)
    assert (error["outcome"], error["reason"]) == ("error", "too_many_redirects")
    assert "max_redirects" in error["error"]
    assert len(site.requests) == asked + 1


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://other.example/", "https_required"),
        ("https://unlisted.example/", "not_in_allowlist"),
        ("https://rebound.example/", "loopback"),
        ("https://localhost/", "not_in_allowlist"),
        ("https://2130706433/", "non_canonical_ip"),
        ("ftp://other.example/", "unsupported_scheme"),
        ("https://user@other.example/", "userinfo_not_allowed"),
        ("https://other.example:0/", "invalid_port"),
    ],
)
async def test_every_hop_is_checked(location: str, reason: str, agent: MakeAgent) -> None:
    """W-68, W-136, W-158, AMB-89: a target that may not be reached is refused before anything is sent."""
    site = Site({URL: redirect(location)})
    zone = Zone({HOST: "93.184.216.34", "other.example": "8.8.8.8", "rebound.example": "127.0.0.1"})
    mine = agent(
        site,
        max_redirects=3,
        allowed_hosts=[HOST, "other.example", "rebound.example"],
        options={"resolver": zone},
    )
    error = await mine.error(URL)
    assert (error["outcome"], error["reason"]) == ("blocked", reason)
    assert error["error"].startswith("At redirect 1: ")
    assert "example" not in error["error"]
    assert len(site.requests) == 1


@pytest.mark.parametrize("location", ["https:x", "///x", "http:///x"])
async def test_a_location_that_is_none(location: str, agent: MakeAgent) -> None:
    """D-10b, table A2."""
    mine = agent(Site({URL: redirect(location)}), max_redirects=3)
    assert await mine.refusal(URL) == ("error", "bad_redirect")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE"])
async def test_method_and_content(status: int, method: str, agent: MakeAgent) -> None:
    """W-136, W-158, W-C8, D-21, AMB-88: 301, 302, 303 become GET without content, 307 and 308 repeat both."""
    site = Site({URL: redirect("/to", status)}, default=answer(b""))
    await agent(site, max_redirects=1).get(URL, method=method, json={"a": 1})
    repeated = status in (307, 308)
    request = site.requests[1]
    assert request.line.split()[0] == (method if repeated or method == "HEAD" else "GET")
    assert (request.content == b'{"a": 1}') is repeated
    assert (request.field("content-type") is not None) is repeated


@pytest.mark.parametrize(
    ("location", "same_origin"),
    [("/to", True), (f"{URL}to", True), (OTHER, False), ("https://api.example.com:8443/", False)],
)
async def test_what_the_model_sent_goes_along(location: str, same_origin: bool, agent: MakeAgent) -> None:
    """D-22, AMB-91: within one origin all of it, its own credentials too; beyond, only what is safe."""
    site = Site({URL: redirect(location)})
    headers = {"Authorization": "mine", "Cookie": "a=b", "X-Key": "vendor", "Accept": "text/html"}
    await agent(site, max_redirects=1).get(URL, headers=headers)
    _, second = site.requests
    assert second.field("accept") == "text/html"
    for name in ("Authorization", "Cookie", "X-Key"):
        assert second.field(name) == (headers[name] if same_origin else None)


async def test_no_cookie_of_a_hop_is_sent_on(agent: MakeAgent) -> None:
    """W-32: Set-Cookie of one hop is no Cookie of the next."""
    site = Site({URL: answer(b"", "302 Found", "Location: /to", "Set-Cookie: a=b")})
    await agent(site, max_redirects=1).get(URL)
    assert site.requests[1].field("cookie") is None


# Every row of the URL corpus ------------------------------------------------------------------------------

LINE_BREAK = (
    "redirect-064"  # on the wire a line break is the end of the field; the row is about the value alone
)


def answers_of(row: dict[str, Any]) -> list[bytes]:
    """The raw redirects that a row stands for, one after the other."""
    heads = [f"HTTP/1.1 {row['status']} Redirect\r\nContent-Length: 0\r\n".encode()]
    if "raw_headers" in row:
        return [heads[0] + "\r\n".join(row["raw_headers"]).encode() + b"\r\n\r\n"]
    name = row.get("header", "Location").encode()
    locations = [row["input"].encode("utf-8", "surrogateescape")]
    if "chain" in row:
        locations = [location.encode() for location in row["chain"]]
    elif "location_len" in row:
        locations = [b"/" + b"a" * (row["location_len"] - 1)]
    elif row.get("loop"):
        locations = [row["base"].encode()] * 30
    return [heads[0] + name + b": " + location + b"\r\n\r\n" for location in locations]


@pytest.mark.parametrize(
    "row",
    [
        row
        for row in corpus("urls")
        if row["kind"] in {"redirect", "redirect-chain", "redirect-status"} and row["id"] != LINE_BREAK
    ],
    ids=lambda row: row["id"],
)
async def test_redirect_rows(
    row: dict[str, Any], agent: MakeAgent, autojump_clock: trio.testing.MockClock
) -> None:
    """W-136, W-158."""
    left = answers_of(row)
    asked: list[str] = []

    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            asked.append(f"{peer.target.scheme}://{request.field('host')}")
            if left:
                await peer.send(left.pop(0))
                if row["status"] >= 200:
                    continue
            await peer.respond(b"ok")

    table = {
        name: [address for family in ("AAAA", "A") for address in found.get(family, ())]
        for name, found in row["dns"].items()
        if isinstance(found, dict)
    }
    mine = agent(
        script,
        max_redirects=5,
        require_https=row.get("require_https", False),
        allowed_hosts=row.get("allowed_hosts"),
        options={"resolver": Zone(table)},
    )
    result = await mine.call(row["base"])
    outcomes = {row["expect"], *row.get("also", ())}
    # This tool counts a URL that is none among the refusals, other failures as errors.
    expected = {"allow": True, "deny": False, "error": False}
    assert result.ok in {expected[outcome] for outcome in outcomes}, (row["why"], result.value)
    peers = {str(target.address) for target in mine.connector.connected}
    assert peers <= {address for addresses in table.values() for address in addresses}
    assert not peers & set(row.get("never", ()))


@pytest.mark.parametrize("row", rows_of_kind("redirect-credentials"), ids=lambda row: row["id"])
async def test_redirect_credential_rows(row: dict[str, Any], agent: MakeAgent) -> None:
    """D-22, W-D1, W-158: the model's own, as each row says."""
    seen: list[Any] = []

    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            seen.append(request)
            await (peer.send(answers_of(row)[0]) if len(seen) == 1 else peer.respond(b"ok"))

    mine = agent(script, max_redirects=2, require_https=False, options={"resolver": AnyHost()})
    sent = {name: value for name, value in row["headers_in"].items() if name.lower() != "proxy-authorization"}
    await mine.get(row["base"], headers=row["headers_in"])
    first, second = seen
    for name, value in sent.items():
        assert first.field(name) == value
        follows = row["sensitive_kept"] or name == "Accept"
        assert second.field(name) == (value if follows else None), name


@pytest.mark.parametrize("row", rows_of_kind("redirect-method"), ids=lambda row: row["id"])
async def test_redirect_method_rows(row: dict[str, Any], agent: MakeAgent) -> None:
    """D-21, AMB-88."""
    seen: list[Any] = []

    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            seen.append(request)
            await (peer.send(answers_of(row)[0]) if len(seen) == 1 else peer.respond(b""))

    content = "" if row["method"] in {"HEAD", "DELETE"} else "content"
    mine = agent(script, max_redirects=1, require_https=False)
    await mine.get(row["base"], method=row["method"], body=content)
    assert seen[1].line.split()[0] == row["next_method"]
    assert seen[1].content == (content.encode() if row["body_kept"] else b"")
