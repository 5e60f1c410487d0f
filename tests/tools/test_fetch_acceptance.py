"""The twelve acceptance criteria of the Fetch tool design note, in its order and words (F-105 to F-116)."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import trio

from tests.support.fetch_tool import PID, Agent, Site, ToyKernel, Zone, redirect
from tests.support.local_server import LocalServer, local_server
from tidegate_tools import registry as registry_module
from tidegate_tools.dispatch import dispatch
from tidegate_tools.fetch import register_fetch_tool
from tidegate_tools.grants import Grants, GrantStore
from tidegate_tools.registry import ToolRegistry

URL = "http://site.example/"


def test_1_fetch_is_opt_in() -> None:
    """1. register_fetch_tool is NOT called by register_builtin_tools (F-1): here is no such set at all."""
    assert "Fetch" not in ToolRegistry()
    assert not hasattr(registry_module, "register_builtin_tools")
    registry = ToolRegistry()
    assert register_fetch_tool(registry) == "Fetch"
    assert registry.list() == ["Fetch"]


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "gopher://site.example/", "ftp://site.example/", "data:text/plain,x"]
)
async def test_2_other_schemes_are_rejected(url: str, nursery: trio.Nursery) -> None:
    """2. URL with non-http/https scheme rejected."""
    agent = Agent(nursery, Site())
    assert await agent.refusal(url) == "invalid_args"
    assert agent.reached_nobody()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"])
async def test_3_other_methods_are_rejected(method: str, nursery: trio.Nursery) -> None:
    """3. Method outside GET/HEAD/POST rejected."""
    agent = Agent(nursery, Site())
    assert await agent.refusal(URL, method=method) == "invalid_args"
    assert agent.reached_nobody()


async def test_4_a_host_without_a_grant_is_denied(nursery: trio.Nursery) -> None:
    """4. cap.check_net denial -> net_denied."""
    agent = Agent(nursery, Site(), net_grants=["other.example"])
    assert await agent.refusal(URL) == "net_denied"
    assert agent.reached_nobody()


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("127.0.0.1", id="5. Hostname resolving to 127.0.0.1 -> net_denied"),
        pytest.param("10.0.0.7", id="6. Hostname resolving to 10.0.0.x -> net_denied"),
        pytest.param("169.254.169.254", id="7. Hostname resolving to 169.254.169.254 -> net_denied"),
    ],
)
async def test_5_to_7_a_host_inside_is_denied(address: str, nursery: trio.Nursery) -> None:
    agent = Agent(nursery, Site(), resolver=Zone({"site.example": address}))
    assert await agent.refusal(URL) == "net_denied"
    assert agent.connector.connected == []


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with local_server() as server:
        yield server


async def test_8_a_real_fetch_from_a_local_server(server: LocalServer) -> None:
    """8. Real HTTP fetch via local http.server succeeds; size cap, truncation, status, headers correct.

    The floor denies 127.0.0.1, in tests as anywhere (AMB-26). What lets this one through is an operator's
    rule that binds a name to loopback, and a resolver that knows the name.
    """
    registry = ToolRegistry()
    register_fetch_tool(registry, **server.options)
    store = GrantStore()
    store.grant(PID, Grants(["Fetch"], ["origin.example"]))

    async def fetch(path: str, **args: object) -> dict[str, object]:
        message = {"tool": "Fetch", "args": {"url": server.url(path), **args}}
        response = await dispatch(message, registry, pid=PID, kernel=ToyKernel(store))
        result: dict[str, object] = response["result"]
        return result

    whole = await fetch("/bytes?size=5000")
    assert (whole["status"], whole["truncated"], whole["body_bytes"]) == (200, False, 5000)
    assert whole["body"] == "x" * 5000
    assert whole["headers"] | {"date": "", "server": ""} == {  # type: ignore[operator]
        "content-type": "text/plain", "content-length": "5000", "date": "", "server": "",
    }  # fmt: skip
    cut = await fetch("/bytes?size=5000", max_bytes=1024)
    assert (cut["status"], cut["truncated"], cut["body_bytes"]) == (200, True, 1024)
    assert cut["body"] == "x" * 1024

    denied = {"tool": "Fetch", "args": {"url": server.url("/echo", "127.0.0.1")}}
    assert (await dispatch(denied, registry, pid=PID))["error"] == "net_denied"


async def test_9_a_redirect_inside_is_denied(nursery: trio.Nursery) -> None:
    """9. Redirect target with private IP -> net_denied (defense against DNS-rebinding via redirect)."""
    site = Site({URL: redirect("http://inside.example/")})
    zone = Zone({"site.example": "93.184.216.34", "inside.example": "10.0.0.7"})
    agent = Agent(nursery, site, resolver=zone)
    assert await agent.refusal(URL, follow_redirects=True) == "net_denied"
    assert site.urls == [URL]
    assert zone.asked == ["site.example", "inside.example"]


async def test_10_a_redirect_strips_authorization(nursery: trio.Nursery) -> None:
    """10. Redirect strips Authorization header (verified by a redirect to what echoes incoming headers)."""
    site = Site({URL: redirect("/echo")})
    headers = {"Authorization": "Bearer secret", "X-Mine": "kept"}
    result = await Agent(nursery, site).fetch(URL, headers=headers, follow_redirects=True)
    assert site.requests[0].field("authorization") == "Bearer secret"
    assert "authorization" not in result["body"].lower()
    assert "X-Mine: kept" in result["body"]


async def test_11_post_with_a_body(nursery: trio.Nursery) -> None:
    """11. POST with body works."""
    result = await Agent(nursery, Site()).fetch(URL, method="POST", body="grüße")
    assert result["body"].startswith("POST / HTTP/1.1\n")
    assert "Content-Length: 7\n" in result["body"]
    assert result["body"].endswith("\n\ngrüße")


def test_12_nothing_else_knows_of_the_tool() -> None:
    """12. No file outside kernel/, tests/, docs/RFC/ modified: a rule of another repository (AMB-31).

    What it means here: the tool is an addition, and neither the registry nor the grants have heard of it.
    """
    code = "import sys, tidegate_tools.grants, tidegate_tools.registry; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "tidegate_tools.registry" in modules
    assert not [module for module in modules if "fetch" in module]
