"""Redirects under robots.txt: each is asked about before it is followed (RFC 9309)."""

from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import tidegate
from tests.support.engines import AnyHost, engine_with
from tests.support.fetch_tool import Site, answer, redirect
from tidegate.testing.memory import Peer, ReceivedRequest
from tidegate.testing.observer import RecordingObserver
from tidegate_tools.pages import Page, PoliteFetch, Robots, RobotsRefusal

START = "http://a.example/start"
NO_DIRECTORY = answer(b"User-agent: *\nDisallow: /no\n")
ALL = answer(b"")


async def got(
    nursery: trio.Nursery,
    pages: Mapping[str, object],
    limits: tidegate.Limits | None = None,
    url: str = START,
    **options: Any,
) -> tuple[Page | RobotsRefusal | tidegate.FetchError, list[str]]:
    """What comes of `START`, and the URLs that were asked for."""
    site = Site({"http://a.example/robots.txt": NO_DIRECTORY, "http://b.example/robots.txt": ALL, **pages})
    async with engine_with(nursery, site, resolver=AnyHost(), **options) as (engine, _):
        fetch = PoliteFetch(
            engine=engine,
            robots=Robots(engine, user_agent="tidegate/1 (test)", product="tidegate"),
            user_agent="tidegate/1 (test)",
            limits=limits or tidegate.Limits(max_redirects=3),
        )
        try:
            received: Page | RobotsRefusal | tidegate.FetchError = await fetch.get(url, "agent")
        except tidegate.FetchError as error:
            received = error
    nursery.cancel_scope.cancel()
    assert {request.field("user-agent") for request in site.requests} <= {"tidegate/1 (test)"}
    return received, site.urls


async def test_without_a_redirect(nursery: trio.Nursery) -> None:
    page, urls = await got(nursery, {START: answer(b"content", "404 Not Found", "X-A: b")})
    assert isinstance(page, Page)
    assert (page.status, page.content, page.headers["x-a"], str(page.url)) == (404, b"content", "b", START)
    assert (page.truncated, page.complete) == (False, True)
    assert urls == ["http://a.example/robots.txt", START]


async def test_an_allowed_redirect_is_followed(nursery: trio.Nursery) -> None:
    """Within the site, and to another one, whose own file is asked."""
    page, urls = await got(
        nursery,
        {
            START: redirect("/more"),
            "http://a.example/more": redirect("http://b.example/no/end#part"),
            "http://b.example/no/end": answer(b"content"),
        },
    )
    assert isinstance(page, Page)
    assert (page.content, str(page.url)) == (b"content", "http://b.example/no/end")
    assert urls == [
        "http://a.example/robots.txt",
        START,
        "http://a.example/more",
        "http://b.example/robots.txt",
        "http://b.example/no/end",
    ]


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("/no/way", "http://a.example/robots.txt"),
        ("http://c.example/", "http://c.example/robots.txt"),
    ],
    ids=["within the site", "to a site whose file is broken"],
)
async def test_a_forbidden_redirect_is_not_followed(first: str, last: str, nursery: trio.Nursery) -> None:
    broken = {"http://c.example/robots.txt": answer(b"", "503 Later")}
    refusal, urls = await got(nursery, {START: redirect(first), **broken})
    assert isinstance(refusal, RobotsRefusal)
    assert last in refusal.message
    assert "http://a.example/no/way" not in urls
    assert "http://c.example/" not in urls


async def test_a_forbidden_start_is_not_fetched(nursery: trio.Nursery) -> None:
    refusal, urls = await got(nursery, {}, url="http://a.example/no")
    assert isinstance(refusal, RobotsRefusal)
    assert urls == ["http://a.example/robots.txt"]


@pytest.mark.parametrize(
    ("location", "reason", "hop", "phase"),
    [
        ("http://10.0.0.1/", "private", 1, "check"),
        ("ftp://b.example/", "unsupported_scheme", 0, "redirect"),
        ("http://user@b.example/", "userinfo_not_allowed", 0, "redirect"),
        ("http:x", "bad_redirect", 0, "redirect"),
    ],
)
async def test_a_redirect_that_the_engine_refuses(
    location: str, reason: str, hop: int, phase: str, nursery: trio.Nursery
) -> None:
    """As it does when it follows redirects itself; the hop is that of the whole fetch."""
    error, _ = await got(nursery, {START: redirect(location)})
    assert isinstance(error, tidegate.FetchError)
    assert (error.reason, error.hop, error.phase) == (reason, hop, phase)
    async with trio.open_nursery() as own, engine_with(own, Site({START: redirect(location)})) as (engine, _):
        with pytest.raises(tidegate.FetchError) as caught:
            await engine.fetch(START, limits=tidegate.Limits(max_redirects=3))
        own.cancel_scope.cancel()
    assert (error.reason, error.hop, error.phase) == (
        caught.value.reason,
        caught.value.hop,
        caught.value.phase,
    )


async def test_too_many_redirects(nursery: trio.Nursery) -> None:
    error, urls = await got(nursery, {START: redirect("/start")})
    assert isinstance(error, tidegate.TooManyRedirects)
    assert (error.hop, error.phase, error.url) == (3, "redirect", START)
    assert urls.count(START) == 4


async def test_one_deadline_for_all_hops(nursery: trio.Nursery, mock_clock: MockClock) -> None:
    """D-16; the question to robots.txt in between is not counted.

    The peers move the clock: one that jumps by itself would do so while a thread reads robots.txt.
    """
    held: list[float] = []

    async def late(peer: Peer, request: ReceivedRequest) -> None:
        mock_clock.jump(4)
        await peer.send(ALL if "robots" in request.line else redirect("http://b.example/hold"))

    async def hold(peer: Peer, _: ReceivedRequest) -> None:
        for seconds in (1.9, 0.2):
            held.append(trio.current_time())
            mock_clock.jump(seconds)
            await trio.testing.wait_all_tasks_blocked()
        await peer.until_closed()

    pages = {START: late, "http://b.example/robots.txt": late, "http://b.example/hold": hold}
    error, _ = await got(nursery, pages, tidegate.Limits(timeout=6, max_redirects=3))
    assert isinstance(error, tidegate.DeadlineExceeded)
    assert held == [pytest.approx(4 + 4), pytest.approx(4 + 4 + 1.9)]
    assert (error.hop, error.phase) == (1, "head")
    assert str(error) == "the deadline of 6 s passed"


async def test_content_of_a_redirect_is_not_read(nursery: trio.Nursery) -> None:
    """One that never ends holds nobody up, or this would end by its deadline."""

    async def endless(peer: Peer, _: ReceivedRequest) -> None:
        await peer.send(b"HTTP/1.1 302 Found\r\nLocation: /end\r\nContent-Length: 1000\r\n\r\nx")
        await peer.until_closed()

    pages = {START: endless, "http://a.example/end": answer(b"content")}
    page, _ = await got(nursery, pages, tidegate.Limits(timeout=10, max_redirects=3))
    assert isinstance(page, Page)
    assert page.content == b"content"


@pytest.mark.parametrize(
    ("location", "limit", "reason"),
    [
        ("http://0x7f.1/", 3, "non_canonical_ip"),
        ("file:///etc/passwd", 3, "unsupported_scheme"),
        ("/start", 1, "too_many_redirects"),
    ],
)
async def test_observers_hear_why_a_redirect_is_not_followed(
    location: str, limit: int, reason: str, nursery: trio.Nursery
) -> None:
    """It was found in a response, after the engine had done its part: not a call that somebody cancelled."""
    observer = RecordingObserver()
    error, _ = await got(
        nursery, {START: redirect(location)}, tidegate.Limits(max_redirects=limit), observer=observer
    )
    assert isinstance(error, tidegate.FetchError)
    assert (error.reason, error.phase) == (reason, "redirect")
    failed = [event for event in observer.events if isinstance(event, tidegate.FetchFailed)]
    assert [event.error for event in failed] == [error]


async def test_content_is_cut_at_the_cap(nursery: trio.Nursery) -> None:
    page, _ = await got(nursery, {START: answer(b"0123456789")}, tidegate.Limits(max_content=4))
    assert isinstance(page, Page)
    assert (page.content, page.truncated) == (b"0123", True)
