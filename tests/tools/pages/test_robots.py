"""robots.txt: who may, and what a missing, broken, slow or endless file means (RFC 9309)."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import tidegate
from tests.support.engines import AnyHost, engine_with
from tidegate.testing.memory import Peer
from tidegate_tools.pages import Robots, RobotsRefusal
from tidegate_tools.pages.robots import LIMITS

PAGE = tidegate.parse_url("http://site.example/dir/page?a=1")


def answer(status: int, content: bytes = b"", *fields: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Any", f"Content-Length: {len(content)}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


async def asked(
    nursery: trio.Nursery, *answers: bytes, url: tidegate.URL = PAGE, **options: Any
) -> tuple[RobotsRefusal | None, list[str]]:
    """What becomes of a URL, and the requests that it took."""
    requests: list[str] = []
    rest = list(answers)

    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            requests.append(request.line)
            if not rest:
                await trio.sleep_forever()
            await peer.send(rest.pop(0))

    async with engine_with(nursery, script, **options) as (engine, _):
        robots = Robots(engine, user_agent="tidegate/1 (test)", product="tidegate")
        refusal = await robots.check(url)
    nursery.cancel_scope.cancel()
    return refusal, requests


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        (b"", True),
        (b"User-agent: *\nDisallow: /", False),
        (b"User-agent: *\nDisallow: /dir/", False),
        (b"User-agent: *\nDisallow: /other", True),
        (b"User-agent: *\nDisallow: /\nAllow: /dir", True),
        (b"User-agent: *\nDisallow: /\n\nUser-agent: tidegate\nAllow: /", True),
        (b"User-agent: Tidegate\nDisallow: /dir/page", False),
        (b"User-agent: other\nDisallow: /", True),
        (b"User-agent: *\nDisallow: /*?a=", False),
        (b"\xff\xfe<html>not rules at all", True),
    ],
)
async def test_rules(nursery: trio.Nursery, rules: bytes, allowed: bool) -> None:
    refusal, requests = await asked(nursery, answer(200, rules))
    assert (refusal is None) is allowed
    assert requests == ["GET /robots.txt HTTP/1.1"]
    if refusal is not None:
        assert "http://site.example/robots.txt" in refusal.message
        assert not refusal.retryable


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        (200, True),
        (204, True),
        (304, False),
        (400, True),
        (401, False),
        (403, False),
        (404, True),
        (410, True),
        (429, True),
        (500, False),
        (503, False),
    ],
)
async def test_status(nursery: trio.Nursery, status: int, allowed: bool) -> None:
    """Of an error page the rules do not count: the reference server takes those of a 500."""
    fields = () if status in (204, 304) else ("X-A: b",)
    content = b"" if status in (204, 304) else b"User-agent: *\nAllow: /"
    head = answer(status, content, *fields)
    refusal, _ = await asked(nursery, head.replace(b"Content-Length: 0\r\n", b"") if not content else head)
    assert (refusal is None) is allowed


async def test_redirects_are_followed(nursery: trio.Nursery) -> None:
    refusal, requests = await asked(
        nursery, answer(301, b"", "Location: /a"), answer(200, b"User-agent: *\nDisallow: /")
    )
    assert refusal is not None
    assert requests == ["GET /robots.txt HTTP/1.1", "GET /a HTTP/1.1"]


async def test_too_many_redirects_are_a_no(nursery: trio.Nursery) -> None:
    refusal, requests = await asked(
        nursery, *[answer(301, b"", f"Location: /{number}") for number in range(9)]
    )
    assert refusal is not None
    assert "too_many_redirects" in refusal.message
    assert len(requests) == 6


async def test_redirects_go_through_the_floor(nursery: trio.Nursery) -> None:
    refusal, requests = await asked(nursery, answer(302, b"", "Location: http://127.0.0.1/robots.txt"))
    assert refusal is not None
    assert "loopback" in refusal.message
    assert len(requests) == 1


async def test_its_own_deadline(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """The reference server waits for ever."""
    started = trio.current_time()
    refusal, _ = await asked(nursery)
    assert refusal is not None
    assert refusal.retryable
    assert trio.current_time() - started == pytest.approx(LIMITS.timeout)


async def test_the_size_is_capped(nursery: trio.Nursery) -> None:
    """What stands behind half a megabyte does not count."""
    padding = b"# padding\n" * 60_000
    refusal, _ = await asked(nursery, answer(200, padding + b"User-agent: *\nDisallow: /"))
    assert refusal is None


async def test_a_site_that_is_refused_is_refused_as_such(nursery: trio.Nursery) -> None:
    """The model hears why its page cannot be had, not that a robots.txt could not."""
    with pytest.raises(tidegate.Denied) as caught:
        async with engine_with(nursery, _never, resolver=AnyHost("10.0.0.1")) as (engine, _):
            await Robots(engine, user_agent="a", product="a").check(PAGE)
    assert caught.value.reason == "private"


async def _never(peer: Peer) -> None:
    raise AssertionError("nothing may be connected")


async def test_a_file_is_asked_for_once(nursery: trio.Nursery) -> None:
    requests: list[str] = []

    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            requests.append(request.line)
            await peer.send(answer(200, b"User-agent: *\nDisallow: /dir"))

    async with engine_with(nursery, script) as (engine, _):
        robots = Robots(engine, user_agent="a/1", product="a")
        assert await robots.check(PAGE) is not None
        assert await robots.check(tidegate.parse_url("http://site.example/other")) is None
        assert len(requests) == 1
        assert await robots.check(PAGE, identity="another agent") is not None
        assert len(requests) == 2
    nursery.cancel_scope.cancel()


async def test_parsing_does_not_stall_the_loop(nursery: trio.Nursery) -> None:
    """Half a megabyte of rules with wildcards takes a while, in a thread."""
    rules = b"User-agent: *\n" + b"".join(b"Disallow: /*%d*a*b$\n" % number for number in range(20_000))
    turns = 0

    async def watch() -> None:
        nonlocal turns
        while True:
            await trio.sleep(0.001)
            turns += 1

    async with trio.open_nursery() as watching:
        watching.start_soon(watch)
        refusal, _ = await asked(nursery, answer(200, rules))
        watching.cancel_scope.cancel()
    assert refusal is None
    assert turns > 5
