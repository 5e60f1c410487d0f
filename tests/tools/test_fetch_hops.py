"""Every hop of `Fetch`: grants, the floor, redirects, and what goes along with them."""

from typing import Any

import pytest
import trio
import trio.testing

import tidegate
from tests.support.engines import AnyHost
from tests.support.fetch_tool import (
    Agent,
    AskedStore,
    Play,
    Site,
    Zone,
    answer,
    redirect,
)
from tidegate_tools.grants import GrantStore
from tidegate_tools.registry import ToolContext

URL = "http://site.example/"


# --- Grants -----------------------------------------------------------------------------------------


async def test_the_dispatcher_asks_for_the_tool(nursery: trio.Nursery) -> None:
    """F-62: `Fetch` by name or `*`, case matters; without it the handler does not run."""
    for tool_grants, slug in [
        (["Fetch"], None),
        (["*"], None),
        (["fetch"], "permission_denied"),
        ([], "permission_denied"),
    ]:
        agent = Agent(nursery, Site(), tool_grants=tool_grants)
        response = await agent.dispatch({"url": URL})
        assert response.get("error") == slug
        assert agent.reached_nobody() is (slug is not None)


@pytest.mark.parametrize(
    ("grant", "granted", "denied"),
    [
        (
            "site.example",
            ["site.example", "SITE.example."],
            ["www.site.example", "example", "site.example.org"],
        ),
        ("*.site.example", ["www.site.example"], ["site.example", "a.b.site.example"]),
        ("**.site.example", ["site.example", "www.site.example", "a.b.site.example"], ["other-site.example"]),
        ("*", ["site.example", "a.b.c.example", "8.8.8.8"], []),
        ("bücher.example", ["xn--bcher-kva.example", "BÜCHER.example"], ["bucher.example"]),
        ("93.184.216.34", ["93.184.216.34"], ["93.184.216.35"]),
    ],
)
async def test_the_four_patterns(
    grant: str, granted: list[str], denied: list[str], nursery: trio.Nursery
) -> None:
    """F-63, F-64, F-65, AMB-28."""
    agent = Agent(nursery, Site(), net_grants=[grant])
    for host in granted:
        await agent.fetch(f"http://{host}/")
    connections = len(agent.connector.connected)
    for host in denied:
        assert await agent.refusal(f"http://{host}/") == "net_denied"
    assert len(agent.connector.connected) == connections


async def test_an_agent_without_a_row_is_denied(nursery: trio.Nursery) -> None:
    """F-66."""

    class ToolsOnly(GrantStore):
        def check_tool(self, pid: Any, name: object) -> bool:
            return True

    agent = Agent(nursery, Site(), cap=ToolsOnly())
    assert await agent.refusal(URL) == "net_denied"
    assert agent.reached_nobody()


async def test_without_a_kernel_nobody_is_asked_but_the_floor_stays(nursery: trio.Nursery) -> None:
    """F-92."""
    agent = Agent(nursery, Site(), net_grants=[])
    call = agent.registry.get("Fetch").call
    assert (await call({"url": URL}, ToolContext())).ok
    denied = await call({"url": "http://10.0.0.7/"}, ToolContext())
    assert denied.error is not None
    assert (denied.error.slug, denied.error.reason) == ("net_denied", "private")


async def test_a_grant_is_asked_for_before_dns_with_the_canonical_host(nursery: trio.Nursery) -> None:
    """F-68, AMB-28."""
    store = AskedStore(["xn--bcher-kva.example"])
    agent = Agent(nursery, Site(), cap=store)
    assert await agent.refusal("http://[2606:4700::1111]/") == "net_denied"
    assert await agent.refusal("http://WWW.Site.Example./") == "net_denied"
    assert agent.reached_nobody()
    await agent.fetch("http://BÜCHER.example/")
    assert store.asked == ["2606:4700::1111", "www.site.example", "xn--bcher-kva.example"]


@pytest.mark.parametrize("answer_of_kernel", [False, None, 1, "yes", (False, "no"), KeyError("secret")])
async def test_only_true_is_a_yes(answer_of_kernel: Any, nursery: trio.Nursery) -> None:
    """F-86, and default deny: what a broken kernel says is no."""

    class Odd(AskedStore):
        def check_net(self, pid: Any, host: str) -> Any:
            if isinstance(answer_of_kernel, Exception):
                raise answer_of_kernel
            return answer_of_kernel

    agent = Agent(nursery, Site(), cap=Odd([]))
    response = await agent.dispatch({"url": URL})
    assert response["error"] == "net_denied"
    assert "secret" not in response["message"]
    assert agent.reached_nobody()


async def test_an_async_store(nursery: trio.Nursery) -> None:
    class Async:
        async def check_tool(self, pid: Any, name: str) -> bool:
            return True

        async def check_net(self, pid: Any, host: str) -> bool:
            await trio.lowlevel.checkpoint()
            return host == "site.example"

    agent = Agent(nursery, Site(), cap=Async())
    assert (await agent.fetch(URL))["status"] == 200
    assert await agent.refusal("http://other.example/") == "net_denied"


async def test_a_pid_may_be_anything(nursery: trio.Nursery) -> None:
    agent = Agent(nursery, Site())
    call = agent.registry.get("Fetch").call
    for pid in ([1], {"pid": 1}, None, "agent"):
        result = await call({"url": URL}, ToolContext(pid))
        assert result.ok


# --- The floor --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        *(("127.0.0.1", "loopback"), ("127.255.255.254", "loopback")),  # F-8
        *(("10.0.0.0", "private"), ("10.255.255.255", "private"), ("11.0.0.1", None)),  # F-9
        *(("172.16.0.1", "private"), ("172.31.255.255", "private")),  # F-10
        *(("172.15.255.255", None), ("172.32.0.1", None)),
        *(("192.168.0.1", "private"), ("192.169.0.1", None)),  # F-11
        *(("169.254.0.1", "link_local"), ("169.254.169.254", "imds")),  # F-12
        *(
            ("::1", "loopback"),
            ("fc00::1", "ula"),
            ("fd00::1", "ula"),
            ("fe80::1", "link_local"),
        ),  # F-13..F-15
        *(("0.0.0.0", "unspecified"), ("0.1.2.3", "reserved")),  # F-16
        *(("1.1.1.1", None), ("8.8.8.8", None), ("2606:4700::1111", None)),  # F-18, F-104
    ],
)
async def test_the_address_decides(address: str, reason: str | None, nursery: trio.Nursery) -> None:
    """F-3, F-17, F-20, F-87, AMB-27: name or literal alike, and whatever the grants say."""
    agent = Agent(nursery, Site(), net_grants=["*", address], resolver=AnyHost(address))
    literal = f"http://[{address}]/" if ":" in address else f"http://{address}/"
    for url in (URL, literal):
        result = await agent.call(url)
        assert result.ok is (reason is None)
        if result.error is not None:
            assert (result.error.slug, result.error.reason) == ("net_denied", reason)
    connected = [] if reason else [address, address]
    assert [str(target.address) for target in agent.connector.connected] == connected


async def test_one_bad_answer_is_enough(nursery: trio.Nursery) -> None:
    """F-71, AMB-2."""
    for bad in (["93.184.216.34", "10.0.0.7"], ["93.184.216.34", "::1"]):
        agent = Agent(nursery, Site(), resolver=Zone({"site.example": bad}))
        assert await agent.refusal(URL) == "net_denied"
        assert agent.connector.connected == []


async def test_rebinding(nursery: trio.Nursery) -> None:
    """F-4, F-19, F-20: asked afresh for every request, and the answer that was checked is the one dialled."""

    class Rebinding(AnyHost):
        async def resolve(self, host: str) -> Any:
            if self.asked:
                self.addresses = AnyHost("127.0.0.1").addresses
            return await super().resolve(host)

    site = Site({URL: redirect("/next")})
    agent = Agent(nursery, site, resolver=Rebinding())
    assert await agent.refusal(URL, follow_redirects=True) == "net_denied"
    assert agent.resolver.asked == ["site.example"] * 2
    assert [str(target.address) for target in agent.connector.connected] == ["93.184.216.34"]
    assert site.urls == [URL]


async def test_names_that_are_local_and_ports_of_others(nursery: trio.Nursery) -> None:
    """D-8, D-11; X-17: refused before anybody is asked."""
    store = AskedStore([])
    agent = Agent(nursery, Site(), cap=store)
    for url in (
        "http://localhost/",
        "http://router/",
        "http://a.internal/",
        "http://site.example:25/",
        "http://0x7f.1/",
    ):
        assert await agent.refusal(url) == "net_denied"
    assert store.asked == []
    assert agent.reached_nobody()


async def test_an_operators_policy(nursery: trio.Nursery) -> None:
    """Table A2: https_required and not_in_allowlist are refusals on the first URL, too."""
    for policy, reason in [
        (tidegate.Policy(require_https=True), "https_required"),
        (tidegate.Policy(hosts=["other.example"]), "not_in_allowlist"),
        (tidegate.Policy(ports=[443]), "blocked_port"),
        (
            tidegate.Policy(request_rules=[tidegate.RequestRule("site.example", ["POST"])]),
            "request_not_allowed",
        ),
    ]:
        agent = Agent(nursery, Site(), policy=policy)
        result = await agent.call(URL)
        assert result.error is not None
        assert (result.error.slug, result.error.reason) == ("net_denied", reason)
        assert result.error.how_to_allow
        assert agent.reached_nobody()


# --- Redirects --------------------------------------------------------------------------------------


async def test_a_redirect_is_a_result_unless_asked_for(nursery: trio.Nursery) -> None:
    """F-44, F-45, F-90, AMB-17."""
    site = Site({URL: redirect("http://other.example/")})
    result = await Agent(nursery, site).fetch(URL, max_redirects=5)
    assert (result["status"], result["url"], result["redirects"]) == (302, URL, [])
    assert result["headers"]["location"] == "http://other.example/"
    assert site.urls == [URL]


async def test_a_chain(nursery: trio.Nursery) -> None:
    """F-67, F-74, F-81, AMB-14, AMB-15: every hop asked for, absolute at both ends, queries and all."""
    pages: dict[str, bytes | Play] = {
        URL + "a/b?q=1": redirect("../c?q=2#part", 301),
        URL + "c?q=2": redirect("//other.example/d", 303),
        "http://other.example/d": redirect("?e", 307),
        "http://other.example/d?e": answer(b"there"),
    }
    site = Site(pages)
    store = AskedStore(["site.example", "other.example"])
    agent = Agent(nursery, site, cap=store)
    result = await agent.fetch(URL + "a/b?q=1", follow_redirects=True)
    urls = [*pages]
    assert site.urls == urls
    assert result["url"] == urls[-1]
    assert result["body"] == "there"
    assert result["redirects"] == [
        {"from": urls[0], "to": urls[1], "status": 301},
        {"from": urls[1], "to": urls[2], "status": 303},
        {"from": urls[2], "to": urls[3], "status": 307},
    ]
    assert store.asked == ["site.example"] * 2 + ["other.example"] * 2
    assert agent.resolver.asked == store.asked


@pytest.mark.parametrize(
    ("max_redirects", "hops", "passes"),
    [(0, 0, True), (0, 1, False), (1, 1, True), (1, 2, False), (5, 5, True), (5, 6, False)],
)
async def test_how_many(max_redirects: int, hops: int, passes: bool, nursery: trio.Nursery) -> None:
    """F-60, F-93, F-94, AMB-8: one more is an error without a partial result; 0 lets none pass."""
    pages: dict[str, bytes | Play] = {f"{URL}{hop}": redirect(f"/{hop + 1}") for hop in range(hops)}
    site = Site(pages)
    response = await Agent(nursery, site).dispatch(
        {"url": f"{URL}0", "follow_redirects": True, "max_redirects": max_redirects}
    )
    assert response["ok"] is passes
    assert len(site.urls) == min(hops, max_redirects) + 1
    if not passes:
        assert response["error"] == "tool_failed"
        assert "too many redirects" in response["message"]


@pytest.mark.parametrize("max_redirects", [0, 3])
@pytest.mark.parametrize(
    "response",
    [
        *(answer(b"body", f"{status} X", "Location: /next") for status in (200, 201, 300, 304, 305, 306)),
        *(answer(b"body", f"{status} X") for status in (301, 302, 303, 307, 308)),
        answer(b"body", "302 X", "Location:"),
    ],
)
async def test_what_is_no_redirect(response: bytes, max_redirects: int, nursery: trio.Nursery) -> None:
    """F-95, AMB-16, D-10b."""
    if b" 304 " in response:
        response = b"HTTP/1.1 304 X\r\nLocation: /next\r\n\r\n"
    site = Site({URL: response})
    result = await Agent(nursery, site).fetch(URL, follow_redirects=True, max_redirects=max_redirects)
    assert result["redirects"] == []
    assert result["body"] == ("" if result["status"] == 304 else "body")
    assert site.urls == [URL]


@pytest.mark.parametrize("max_redirects", [0, 3])
@pytest.mark.parametrize(
    ("location", "slug", "reason"),
    [
        *(
            (f"{scheme}://site.example/", "net_denied", "unsupported_scheme")
            for scheme in ("file", "ftp", "ws")
        ),
        ("data:text/plain,x", "net_denied", "unsupported_scheme"),
        ("http://user:secret@site.example/", "net_denied", "userinfo_not_allowed"),
        ("http://site.example:0/", "net_denied", "invalid_port"),
        ("http://2130706433/", "net_denied", "non_canonical_ip"),
        ("http:///site.example/", "tool_failed", "bad_redirect"),
        ("http://site.example\\/", "tool_failed", "bad_redirect"),
    ],
)
async def test_a_location_that_leads_nowhere(
    location: str, slug: str, reason: str, max_redirects: int, nursery: trio.Nursery
) -> None:
    """F-69, F-88, AMB-9: the arguments were right, the destination is refused, and nothing more is sent."""
    site = Site({URL: redirect(location)})
    result = await Agent(nursery, site).call(URL, follow_redirects=True, max_redirects=max_redirects)
    assert result.error is not None
    assert (result.error.slug, result.error.reason) == (slug, reason)
    assert "secret" not in result.error.message
    assert "edirect" in result.error.message
    assert site.urls == [URL]


async def test_each_hop_is_checked_like_the_first(nursery: trio.Nursery) -> None:
    """F-5, F-21, F-70: grant, then DNS, then address; no request to what is refused."""
    policy = tidegate.Policy(hosts=["site.example", "ungranted.example", "inside.example"])
    zone = Zone({"site.example": "93.184.216.34", "inside.example": "10.0.0.7"})
    for location, reason, asked in [
        ("http://ungranted.example/", "not_granted", ["site.example"]),
        ("http://unlisted.example/", "not_in_allowlist", ["site.example"]),
        ("http://inside.example/", "private", ["site.example", "inside.example"]),
    ]:
        site, zone.asked = Site({URL: redirect(location)}), []
        agent = Agent(
            nursery, site, cap=AskedStore(["site.example", "inside.example"]), policy=policy, resolver=zone
        )
        result = await agent.call(URL, follow_redirects=True)
        assert result.error is not None
        assert (result.error.slug, result.error.reason) == ("net_denied", reason)
        assert result.error.message.startswith("Redirect 1 is refused: ")
        assert site.urls == [URL]
        assert zone.asked == asked


SECRETS = {"AUTHORIZATION": "Bearer secret", "cookie": "a=secret"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", ["/next", "http://site.example/next", "http://other.example/next"])
@pytest.mark.parametrize("keep", [False, True])
async def test_credentials_go_nowhere_else(
    status: int, target: str, keep: bool, nursery: trio.Nursery
) -> None:
    """F-6, F-22, F-23, F-72, AMB-10, AMB-11, D-22: any case, same host too, whatever the policy keeps."""
    site = Site({URL: redirect(target, status)})
    agent = Agent(nursery, site, policy=tidegate.Policy(keep_credentials_within_origin=keep))
    headers = {**SECRETS, "X-Api-Key": "key", "Accept": "text/html"}
    await agent.fetch(URL, headers=headers, follow_redirects=True)
    first, second = site.requests
    assert (first.field("authorization"), first.field("cookie")) == ("Bearer secret", "a=secret")
    assert (second.field("authorization"), second.field("cookie")) == (None, None)
    assert second.field("accept") == "text/html"
    assert second.field("x-api-key") == (None if "other" in target else "key")


async def test_cookies_of_the_call_are_gone_after_a_redirect(nursery: trio.Nursery) -> None:
    """F-101: as the Cookie field that they are."""
    site = Site({URL: redirect("/next")})
    await Agent(nursery, site).fetch(URL, cookies={"a": "b"}, follow_redirects=True)
    assert [request.field("cookie") for request in site.requests] == ["a=b", None]


async def test_no_cookie_is_kept(nursery: trio.Nursery) -> None:
    """F-27: neither for the next hop nor for the next call."""
    pages: dict[str, bytes | Play] = {URL: answer(b"", "302 X", "Location: /next", "Set-Cookie: a=b; Path=/")}
    site = Site(pages, default=answer(b"", "200 OK", "Set-Cookie: c=d"))
    agent = Agent(nursery, site)
    for _ in range(2):
        await agent.fetch(URL, follow_redirects=True)
    assert [request.field("cookie") for request in site.requests] == [None] * 4


@pytest.mark.parametrize(
    ("method", "status", "repeated"),
    [
        *(("POST", status, False) for status in (301, 302, 303)),
        *(("POST", status, True) for status in (307, 308)),
        *(("HEAD", status, True) for status in (301, 303, 307)),
    ],
)
async def test_the_method_of_a_redirect(
    method: str, status: int, repeated: bool, nursery: trio.Nursery
) -> None:
    """AMB-13, D-21."""
    site = Site({URL: redirect("/next", status)})
    body = {"body": "content"} if method == "POST" else {}
    headers = {"Content-Type": "text/plain"} if body else {}
    await Agent(nursery, site).fetch(URL, method=method, headers=headers, follow_redirects=True, **body)
    second = site.requests[1]
    assert second.line.split(" ")[0] == (method if repeated else "GET")
    kept = repeated and method == "POST"
    assert second.content == (b"content" if kept else b"")
    assert second.field("content-type") == ("text/plain" if kept else None)
