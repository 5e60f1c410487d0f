"""The tool `Fetch` through `dispatch`, in a network of its own: real DNS, real TLS, real refusals."""

import base64
import json
from typing import Any

import pytest

from tests.e2e import world
from tests.e2e.network import Network
from tests.e2e.nginx import FILES
from tidegate_tools.dispatch import AuditEvent, dispatch
from tidegate_tools.fetch import register_fetch_tool
from tidegate_tools.grants import Grants, GrantStore
from tidegate_tools.registry import ToolRegistry

pytestmark = pytest.mark.e2e


class Kernel:
    """The least that `dispatch` asks of a kernel."""

    def __init__(self) -> None:
        self.cap = GrantStore()
        self.cap.grant(
            "agent", Grants(["Fetch"], ["**.example.com", "*.example.org", "127.0.0.1", "*.nip.io"])
        )
        self.cap.grant("no tool", Grants([], ["*"]))
        self.log: list[AuditEvent] = []


async def call_all(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    registry, kernel = ToolRegistry(), Kernel()
    register_fetch_tool(registry)
    responses = [
        await dispatch(
            {"tool": "Fetch", "args": call["args"], "tool_call_id": str(number)},
            registry,
            pid=call.get("pid", "agent"),
            kernel=kernel,
            audit=kernel.log.append,
        )
        for number, call in enumerate(calls)
    ]
    return [*responses, {"audit": [[event.kind, event.payload] for event in kernel.log]}]


def call(network: Network, *calls: dict[str, Any]) -> list[dict[str, Any]]:
    responses = network.run(call_all, [call if "args" in call else {"args": call} for call in calls])
    assert isinstance(responses, list)
    return responses


def test_a_page_over_tls(network: Network) -> None:
    """F-73..F-82, F-112."""
    response, _ = call(network, {"url": "https://www.example.com/data.json"})
    assert response["ok"], response
    result = response["result"]
    assert FILES["data.json"].decode() == result["body"]
    assert tuple(result[name] for name in ("status", "encoding", "truncated", "redirects")) == (
        200,
        "utf-8",
        False,
        [],
    )
    assert len(FILES["data.json"]) == result["body_bytes"]
    assert result["headers"]["content-type"] == "application/json"


def test_binary_is_cut_at_the_cap(network: Network) -> None:
    """F-24, F-78..F-80."""
    response, _ = call(network, {"url": "https://www.example.com/big.bin", "max_bytes": 4096})
    result = response["result"]
    assert (result["encoding"], result["body_bytes"], result["truncated"]) == ("utf-8", 4096, True)
    assert bytes(4096) == result["body"].encode()


@pytest.mark.parametrize(
    ("arguments", "slug", "word"),
    [
        ({"url": "http://private.example.com/"}, "net_denied", "private"),
        ({"url": "http://metadata.example.com/"}, "net_denied", "metadata"),
        ({"url": "http://mixed.example.com/"}, "net_denied", "private"),
        ({"url": "http://hosts-file.example.com/"}, "net_denied", "private"),
        ({"url": "http://127.0.0.1/"}, "net_denied", "loopback"),
        ({"url": "http://2130706433/"}, "net_denied", "ends in a number"),
        ({"url": "http://www.example.net/"}, "net_denied", "not granted"),
        ({"url": "http://www.example.com/to-metadata", "follow_redirects": True}, "net_denied", "redirect 1"),
        (
            {"url": "http://www.example.com/to-private-name", "follow_redirects": True},
            "net_denied",
            "private",
        ),
        ({"url": "file:///etc/passwd"}, "invalid_args", "scheme"),
        ({"url": "http://no-such-name.example.com/"}, "tool_failed", "resol"),
        ({"url": f"https://{world.EXPIRED}/"}, "tool_failed", "expired"),
        ({"url": "http://silent-dns.example.com/", "timeout_s": 1}, "tool_failed", "resolving"),
        ({"url": "http://www.example.com/to-itself", "follow_redirects": True}, "tool_failed", "redirects"),
    ],
)
def test_refusals_and_failures(network: Network, arguments: dict[str, Any], slug: str, word: str) -> None:
    """F-26, F-63, F-68, F-70, F-71, F-86..F-89, F-94, F-96, F-103, F-109..F-113."""
    response, audit = call(network, arguments)
    assert slug == response["error"], response
    assert word in response["message"].lower(), response["message"]
    assert [
        ["tool.call.denied", {"tool": "Fetch", "tool_call_id": "0", "ok": False, "error": slug}]
    ] == audit["audit"]
    assert "http" not in json.dumps(audit)  # F-118: no arguments
    if slug == "net_denied" and word == "not granted":
        assert not network.queries()["www.example.net", "A"]


def test_a_tool_that_was_not_granted(network: Network) -> None:
    """F-62."""
    response, _ = call(network, {"args": {"url": "https://www.example.com/"}, "pid": "no tool"})
    assert response["error"] == "permission_denied"
    assert not network.queries()


def test_credentials_do_not_survive_a_redirect(network: Network) -> None:
    """F-22, F-72, F-114: also within one origin."""
    response, _ = call(
        network,
        {
            "url": "https://hostile.example.com/redirect?to=/echo",
            "follow_redirects": True,
            "headers": {"AUTHORIZATION": "Bearer secret", "X-Mine": "kept"},
            "cookies": {"session": "secret"},
        },
    )
    names = {name.lower() for name, _ in json.loads(response["result"]["body"])["headers"]}
    assert "x-mine" in names
    assert not {"authorization", "cookie"} & names
    first, _ = network.requests()
    assert {"authorization", "cookie"} <= {name.lower() for name, _ in first["headers"]}


def test_post(network: Network) -> None:
    """F-55, F-56, F-115."""
    content = bytes(range(256))
    response, _ = call(
        network,
        {
            "url": "https://hostile.example.com/echo",
            "method": "POST",
            "body": {"_b64": base64.b64encode(content).decode()},
        },
    )
    echoed = json.loads(response["result"]["body"])
    assert ("POST", content) == (echoed["method"], base64.b64decode(echoed["content_base64"]))
