"""Live runs: the official Python client on both back ends, over both transports and eras of the protocol."""

import os
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters

from tests.tools.mcp.conftest import PROGRAM, Running
from tests.tools.mcp.site import Site

pytestmark = [
    pytest.mark.slow,
    # The client's own, when it leaves a stream of events.
    pytest.mark.filterwarnings("ignore:Async generator 'http(x|core)2:ResourceWarning"),
]

TOOLS = ("--tool", "fetch", "--tool", "Fetch")
NEXT = re.compile(
    r"\n\n<error>Content truncated\. Call the fetch tool with a start_index of (\d+) "
    r"to get more content\.</error>\Z"
)


def parameters(site: Site, *options: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=PROGRAM[0], args=[*PROGRAM[1:], *site.operator, *options], env=dict(os.environ)
    )


async def text_of(client: Client, **arguments: Any) -> str:
    result = await client.call_tool("fetch", arguments)
    assert not result.is_error, result
    return result.content[0].text


async def tools_are_listed(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"fetch", "Fetch"}
    assert tools["fetch"].annotations.read_only_hint is True
    # It can POST.
    assert tools["Fetch"].annotations.read_only_hint is False
    properties = tools["fetch"].input_schema["properties"]
    assert {name: about.get("default") for name, about in properties.items()} == {
        "url": None,
        "max_length": 5000,
        "start_index": 0,
        "raw": False,
    }


async def pages_are_read(client: Client, site: Site) -> None:
    url = site.url("/article")
    text = await text_of(client, url=url)
    assert text.startswith(f"Contents of {url}:\n# Tides\n\nSome [link]({site.url('/moon?a=1')})")
    raw = await text_of(client, url=url, raw=True)
    assert raw.startswith(
        "Content type text/html cannot be simplified to markdown, but here is the raw content:\n"
        f"Contents of {url}:\n<html>"
    )
    pdf = await text_of(client, url=site.url("/pdf"))
    assert "a PDF document" in pdf
    assert "%PDF" not in pdf


async def long_pages_come_in_parts(client: Client, site: Site) -> None:
    """All parts of one request, none cut in a link, and the reference server's words behind each."""
    url, index, parts = site.url("/long"), 0, []
    while True:
        text = await text_of(client, url=url, start_index=index, max_length=9_000)
        part = text.removeprefix(f"Contents of {url}:\n")
        parts.append(NEXT.sub("", part))
        match = NEXT.search(part)
        if match is None:
            break
        index = int(match[1])
    assert len(parts) == 6
    assert site.paths.count("/long") == 1
    for number in range(900):
        assert sum(f"[{number}](http://t.example/{number})" in part for part in parts) == 1
    past = await text_of(client, url=url, start_index=10**6)
    assert past == f"Contents of {url}:\n<error>No more content available.</error>"


async def failures_say_why(client: Client, site: Site) -> None:
    cases = [
        ({"url": "http://127.0.0.1/"}, "net_denied", "loopback"),
        ({"url": site.url("/not-for-tidegate")}, "net_denied", None),
        ({"url": site.url("/missing")}, "tool_failed", None),
        ({"url": site.url("/article"), "max_length": 0}, "invalid_args", None),
        ({"url": site.url("/article"), "start_index": "5"}, "invalid_args", None),
        ({"nope": 1}, "invalid_args", None),
        ({}, "invalid_args", None),
    ]
    for arguments, error, reason in cases:
        result = await client.call_tool("fetch", arguments)
        assert result.is_error, arguments
        assert (result.structured_content["error"], result.structured_content["reason"]) == (error, reason)
        assert result.structured_content["message"] in result.content[0].text
    denied = await client.call_tool("Fetch", {"url": "http://10.0.0.1/"})
    assert denied.is_error
    assert denied.structured_content["how_to_allow"]
    unknown = await client.call_tool("Ftch", {})
    assert unknown.structured_content["error"] == "tool_not_found"


async def prompts_are_answered(client: Client, site: Site) -> None:
    [prompt] = (await client.list_prompts()).prompts
    assert (prompt.name, [argument.name for argument in prompt.arguments]) == ("fetch", ["url"])
    # The user asks: robots.txt has no say.
    answer = await client.get_prompt("fetch", {"url": site.url("/not-for-tidegate")})
    assert answer.messages[0].content.text.endswith(f"Contents of {site.url('/not-for-tidegate')}:\nno")
    failure = await client.get_prompt("fetch", {"url": site.url("/missing")})
    assert failure.description == f"Failed to fetch {site.url('/missing')}"
    assert "404" in failure.messages[0].content.text
    with pytest.raises(MCPError, match="URL is required"):
        await client.get_prompt("fetch", {})


async def results_are_short(client: Client, site: Site) -> None:
    """25,000 tokens at most, counted as two bytes each; whole characters."""
    for path in ("/big", "/binary", "/cjk"):
        result = await client.call_tool("Fetch", {"url": site.url(path)})
        assert 40_000 < len(result.content[0].text.encode()) <= 50_000
        assert "--max-tokens" in result.content[1].text
    text = await text_of(client, url=site.url("/cjk"), max_length=999_999)
    assert 49_000 < len(text.encode()) <= 50_000
    assert NEXT.search(text)


async def use(connect: Callable[[], Client], site: Site) -> None:
    async with connect() as client:
        await tools_are_listed(client)
        await pages_are_read(client, site)
        await long_pages_come_in_parts(client, site)
        await failures_say_why(client, site)
        await prompts_are_answered(client, site)
        await results_are_short(client, site)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_stdio(site: Site, backend: str, mode: Any) -> None:
    anyio.run(partial(use, lambda: Client(parameters(site, *TOOLS), mode=mode), site), backend=backend)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_http(site: Site, http_server: Callable[..., Running], backend: str, mode: Any) -> None:
    running = http_server(*TOOLS)
    anyio.run(partial(use, lambda: Client(running.url, mode=mode), site), backend=backend)


def test_a_cancelled_call_lets_go(site: Site) -> None:
    """The client gives up; the connection to the site ends at once."""

    async def run() -> None:
        async with Client(parameters(site)) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "fetch", {"url": site.url("/hold")})
                assert await anyio.to_thread.run_sync(site.server.held.wait, 20)
                group.cancel_scope.cancel()
            assert await anyio.to_thread.run_sync(site.server.released.wait, 10)

    anyio.run(run, backend="trio")


def test_calls_at_once(site: Site) -> None:
    """One that hangs does not hold the others."""

    async def run() -> None:
        async with Client(parameters(site)) as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "fetch", {"url": site.url("/hold")})
            for _ in range(3):
                assert "# Tides" in await text_of(client, url=site.url("/article"))
            group.cancel_scope.cancel()

    anyio.run(run, backend="trio")


def test_sessions_do_not_share_pages(site: Site, http_server: Callable[..., Running]) -> None:
    """A later part is in the cache for the session that fetched the page, for another it is a request."""
    running = http_server()

    async def run() -> None:
        for requests in (1, 2):
            async with Client(running.url, mode="legacy") as client:
                await text_of(client, url=site.url("/long"), start_index=0 if requests == 1 else 5000)
                await text_of(client, url=site.url("/long"), start_index=9000)
            assert site.paths.count("/long") == requests

    anyio.run(run, backend="trio")


@pytest.mark.parametrize(
    ("options", "robots", "allowed"),
    [
        ((), (503, b""), False),
        ((), (403, b""), False),
        ((), (404, b""), True),
        (("--ignore-robots-txt",), (503, b""), True),
        (("--user-agent", "other/1"), (200, b"User-agent: tidegate\nDisallow: /"), True),
        (("--user-agent", "other/1"), (200, b"User-agent: other\nDisallow: /"), False),
    ],
)
def test_robots(site: Site, options: tuple[str, ...], robots: tuple[int, bytes], allowed: bool) -> None:
    site.server.robots = robots

    async def run() -> None:
        async with Client(parameters(site, *options)) as client:
            result = await client.call_tool("fetch", {"url": site.url("/article")})
            assert result.is_error is not allowed
            assert ("/article" in site.paths) is allowed
            if not allowed:
                assert "--ignore-robots-txt" in result.structured_content["how_to_allow"]

    anyio.run(run, backend="trio")


@pytest.mark.parametrize(
    ("options", "allowed"), [((), False), (("--ignore-robots-txt",), True)], ids=["asked", "ignored"]
)
def test_robots_of_a_redirect(site: Site, options: tuple[str, ...], allowed: bool) -> None:
    """What robots.txt forbids is not reached by way of a redirect either; a user's prompt does reach it."""
    hidden = site.url("/not-for-tidegate")

    async def run() -> None:
        async with Client(parameters(site, *options)) as client:
            assert "# Tides" in await text_of(client, url=site.url(f"/to?{site.url('/article')}"))
            result = await client.call_tool("fetch", {"url": site.url(f"/to?{hidden}")})
            assert result.is_error is not allowed
            assert ("/not-for-tidegate" in site.paths) is allowed
            if not allowed:
                assert hidden in result.structured_content["message"]
                assert "--ignore-robots-txt" in result.structured_content["how_to_allow"]
            answer = await client.get_prompt("fetch", {"url": site.url(f"/to?{hidden}")})
            assert answer.messages[0].content.text.endswith(":\nno")

    anyio.run(run, backend="trio")


def test_a_page_past_the_cap_says_so(site: Site) -> None:
    async def run() -> None:
        async with Client(parameters(site)) as client:
            text = await text_of(client, url=site.url("/huge"), start_index=4 * 1024 * 1024 - 10)
            assert "xxxxxxxxxx\n\n<error>The content ends here, incomplete" in text

    anyio.run(run, backend="trio")


def test_web_request(site: Site, tmp_path: Any) -> None:
    """Opted in, from its own configuration."""
    (tmp_path / "agents.config.yaml").write_text(
        "system_tools:\n  web_request:\n    private_ranges:\n"
        "      - {cidr: 127.0.0.0/8, hosts: [site.example]}\n    require_https: false\n"
    )

    async def run() -> None:
        options = ("--tool", "web_request", "--config", str(tmp_path), "--resolve", "site.example=127.0.0.1")
        program = StdioServerParameters(
            command=PROGRAM[0], args=[*PROGRAM[1:], *options], env=dict(os.environ)
        )
        async with Client(program) as client:
            [tool] = (await client.list_tools()).tools
            assert tool.name == "web_request"
            started = time.monotonic()
            result = await client.call_tool("web_request", {"url": site.url("/json")})
            assert time.monotonic() - started < 30
            assert '"a"' in result.content[0].text
            refused = await client.call_tool("web_request", {"url": "http://127.0.0.1/"})
            assert refused.is_error

    anyio.run(run, backend="trio")
