"""Fields that ask a server for another method or path, where request rules restrict those."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import trio

import tidegate
from tests.support.engines import AnyHost
from tests.support.fetch_tool import Agent, Site, redirect
from tidegate.testing.memory import MemoryConnector
from tidegate_tools.registry import ToolContext, ToolResult
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.tool import create_web_request_tools

URL = "http://a.example/v1/things"
POST = {"host": "a.example", "methods": ["POST"]}

Rules = Sequence[Mapping[str, Any]]


async def by_fetch(
    nursery: trio.Nursery, site: Site, rules: Rules, url: str, headers: Mapping[str, str]
) -> ToolResult:
    policy = tidegate.Policy(request_rules=[tidegate.RequestRule(**rule) for rule in rules])
    options = {"follow_redirects": True}
    return await Agent(nursery, site, policy=policy).call(
        url, method="POST", headers=dict(headers), **options
    )


async def by_web_request(
    nursery: trio.Nursery, site: Site, rules: Rules, url: str, headers: Mapping[str, str]
) -> ToolResult:
    config = {"request_rules": rules, "require_https": False, "max_redirects": 5}
    [tool] = create_web_request_tools(
        WebRequestConfig.model_validate(config),
        connector=MemoryConnector(nursery, site),
        resolver=AnyHost(),
    )
    return await tool.call({"url": url, "method": "POST", "headers": dict(headers)}, ToolContext())


WAYS = pytest.mark.parametrize("way", [by_fetch, by_web_request])


@WAYS
@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"X-HTTP-Method-Override": "DELETE"}, False),
        ({"X-HTTP-Method": "DELETE"}, False),
        ({"X-Method-Override": "DELETE"}, False),
        ({"x-http-method-override": "delete"}, False),
        ({"X_HTTP_METHOD_OVERRIDE": "DELETE"}, False),
        ({"X-HTTP-Method_Override": "DELETE"}, False),
        ({"X-HTTP-Method-Override": "PURGE"}, False),
        ({"X-HTTP-Method-Override": "POST, DELETE"}, False),
        ({"X-HTTP-Method-Override": ""}, False),
        ({"X-HTTP-Method-Override": "POST", "X-Method-Override": "DELETE"}, False),
        ({"X-Original-Method": "DELETE"}, False),
        ({"X-Forwarded-Method": "DELETE"}, False),
        ({"X-HTTP-Method-Override": "POST"}, True),
        ({"X-Original-Method": "POST"}, True),
        ({"X-HTTP-Method-Override": "post"}, True),
        ({"X-HTTP-Method-Overridden": "DELETE"}, True),
        ({"X-Method": "DELETE"}, True),
        ({}, True),
    ],
)
async def test_where_a_rule_allows_post_alone(
    way: Any, headers: Mapping[str, str], allowed: bool, nursery: trio.Nursery
) -> None:
    """What is refused is not sent; what passes is sent as it came."""
    site = Site()
    result = await way(nursery, site, [POST], URL, headers)
    if not allowed:
        assert (result.error.slug, result.error.reason) == ("net_denied", "request_not_allowed")
        assert result.error.how_to_allow is not None
        assert site.requests == []
        return
    assert result.ok
    [request] = site.requests
    assert {name: request.field(name) for name in headers} == headers


@WAYS
@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ([], True),
        ([{"host": "a.example"}], True),
        ([{"host": "a.example", "paths": ["/v1/*"]}], True),
        ([{"host": "b.example", "methods": ["POST"]}], True),
        ([{"host": "*.a.example", "methods": ["POST"]}], True),
        ([{"host": "*.a.example", "methods": ["POST", "DELETE"]}, POST], False),
        ([{"host": "a.example", "methods": ["POST", "DELETE"]}], True),
        ([{"host": "a.example", "methods": ["POST", "DELETE"], "paths": ["/v1/*"]},
          {"host": "a.example", "methods": ["POST"], "paths": ["/v2/*"]}], True),
        ([{"host": "a.example", "methods": ["POST"], "paths": ["/v1/*"]},
          {"host": "a.example", "methods": ["POST", "DELETE"], "paths": ["/v2/*"]}], False),
    ],
)  # fmt: skip
async def test_only_where_rules_restrict_methods(
    way: Any, rules: Rules, allowed: bool, nursery: trio.Nursery
) -> None:
    """Elsewhere the field is one like others: APIs that sit behind old proxies ask for it."""
    site = Site()
    result = await way(nursery, site, rules, URL, {"X-HTTP-Method-Override": "DELETE"})
    assert result.ok is allowed
    assert len(site.requests) == allowed


@WAYS
@pytest.mark.parametrize(
    "name", ["X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Uri", "x_original_uri", "Script_Name"]
)
@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ([], True),
        ([POST], True),
        ([{"host": "a.example", "paths": ["/v1/*"]}], False),
        ([{"host": "a.example", "paths": ["/v1/things"]}], False),
        ([{"host": "a.example", "paths": ["/v1/*"]}, POST], True),
        ([{"host": "a.example", "paths": ["/v1/*"]}, {"host": "a.example", "methods": ["GET"]}], False),
        ([{"host": "b.example", "paths": ["/v1/*"]}], True),
    ],
)
async def test_a_field_that_asks_for_another_path(
    way: Any, name: str, rules: Rules, allowed: bool, nursery: trio.Nursery
) -> None:
    """Where the path of the URL decides, none that no rule has seen goes out beside it."""
    site = Site()
    result = await way(nursery, site, rules, URL, {name: "/admin"})
    assert result.ok is allowed
    assert [request.field(name) for request in site.requests] == ["/admin"] * allowed
    if not allowed:
        assert (result.error.slug, result.error.reason) == ("net_denied", "request_not_allowed")


@WAYS
async def test_each_hop_is_checked(way: Any, nursery: trio.Nursery) -> None:
    """A redirect within the origin takes the field along, to paths where it may not be."""
    site = Site({URL: redirect("/v2/things", 307)})
    rules = [
        {"host": "a.example", "methods": ["POST", "DELETE"], "paths": ["/v1/*"]},
        {"host": "a.example", "methods": ["POST"], "paths": ["/v2/*"]},
    ]
    result = await way(nursery, site, rules, URL, {"X-HTTP-Method-Override": "DELETE"})
    assert (result.error.slug, result.error.reason) == ("net_denied", "request_not_allowed")
    assert len(site.requests) == 1


@WAYS
async def test_the_field_stays_within_its_origin(way: Any, nursery: trio.Nursery) -> None:
    """D-22: so no rule of another host needs to allow it."""
    site = Site({URL: redirect("http://b.example/", 307)})
    rules = [{"host": "a.example"}, {"host": "b.example", "methods": ["POST"]}]
    result = await way(nursery, site, rules, URL, {"X-HTTP-Method-Override": "DELETE"})
    assert result.ok
    assert [request.field("x-http-method-override") for request in site.requests] == ["DELETE", None]


@WAYS
async def test_a_url_that_is_none_is_told_as_such(way: Any, nursery: trio.Nursery) -> None:
    result = await way(nursery, Site(), [POST], "http://user@a.example/", {"X-HTTP-Method-Override": "GET"})
    assert result.error.reason == "userinfo_not_allowed"
