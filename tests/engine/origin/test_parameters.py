"""Parameters: all are read before the first byte is sent, and the common ones work on every path."""

import pytest
import trio
import trio.testing

from tests.engine.origin.client import ends_within_a_day, in_memory
from tidegate.testing.origin import BEHAVIOURS

PATHS = [f"/{name}" for name in BEHAVIOURS]
WITHOUT_HEAD = ["/raw", "/hold"]
WITH_HEAD = [path for path in PATHS if path not in WITHOUT_HEAD]
# The answer of these comes behind interim responses; and a `raw` answer is none without bytes.
IN_SHORT = {
    "/endless-interim": "count=0&",
    "/drip-interim": "count=0&",
    "/raw": "bytes=x&",
    "/bomb": "size=9&",
}


def target(path: str, query: str) -> str:
    return f"{path}?{IN_SHORT.get(path, '')}{query}"


@pytest.mark.parametrize("path", [path for path in PATHS if path != "/hold"])
async def test_delay_comes_before_the_first_byte(path: str, autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, _):
        await client.send(target(path, "delay=7"))
        began = trio.current_time()
        assert await client.stream.receive_some()
        assert trio.current_time() - began == pytest.approx(7, abs=0.5)


@pytest.mark.parametrize("path", WITH_HEAD)
async def test_a_head_can_be_changed(path: str, autojump_clock: trio.testing.MockClock) -> None:
    query = "status=418&reason=Odd&field=X-A:%201&field=X-A:%202&connection=close"
    received = b""
    async with in_memory() as (client, _):
        await client.send(target(path, f"{query}&after=1000" if path in ("/reset", "/cut") else query))
        with trio.fail_after(100):
            while b"\r\nConnection: close\r\n" not in received:
                received += await client.stream.receive_some()
    assert received.startswith(b"HTTP/1.1 418 Odd\r\n")
    assert b"\r\nX-A: 1\r\nX-A: 2\r\n" in received


@pytest.mark.parametrize("path", WITHOUT_HEAD)
@pytest.mark.parametrize("name", ["status", "reason", "field", "connection"])
async def test_where_no_head_is_made_none_can_be_changed(path: str, name: str) -> None:
    async with in_memory() as (client, _):
        assert (await client.ask(target(path, f"{name}=1"))).status == 400


# Every path with every parameter that it takes and that could be wrong.
NUMBERS = {
    "/content": "size chunk count",
    "/drip-head": "bytes padding",
    "/drip-content": "size chunk count",
    "/drip-chunk-size": "count",
    "/drip-interim": "count interim",
    "/slow-reader": "size",
    "/endless-head": "size count",
    "/endless-field": "size count",
    "/endless-content": "chunk count",
    "/endless-chunks": "size count",
    "/endless-extensions": "size count",
    "/endless-trailers": "size count",
    "/endless-interim": "count interim",
    "/endless-redirects": "hop count padding",
    "/reset": "size after",
    "/cut": "size after",
    "/wrong-length": "sent",
    "/bomb": "size layers",
    "/gzip-members": "size count",
    "/gzip-name": "size",
}
SECONDS = {
    **dict.fromkeys(("/late-408", "/drop-idle"), "after"),
    **dict.fromkeys(("/content", "/drip-head", "/drip-content", "/drip-chunk-size"), "interval"),
    **dict.fromkeys(("/drip-interim", "/slow-reader", "/raw"), "interval"),
    **{path: "interval" for path in PATHS if path.startswith("/endless-")},
}
THEN = (
    *("/content", "/drip-content", "/drip-chunk-size", "/endless-content", "/endless-chunks"),
    *("/endless-extensions", "/reset", "/cut", "/wrong-length", "/early", "/raw", "/late-408"),
    *("/drop-idle", "/drop-second"),
)
FRAMING = ("/content", "/drip-content", "/endless-content", "/reset", "/cut")
TAKEN = [
    *((path, name, "whole number") for path, names in NUMBERS.items() for name in names.split()),
    *((path, name, "number of seconds") for path, name in SECONDS.items()),
    *((path, "then", "unknown: use one of keep") for path in THEN),
    *((path, "framing", "unknown: use one of length") for path in FRAMING),
    ("/bomb", "coding", "unknown: use one of gzip"),
]
COMMON = [
    *((path, "delay", "number of seconds") for path in PATHS),
    *((path, "status", "whole number") for path in WITH_HEAD),
]


@pytest.mark.parametrize(("path", "name", "why"), [*TAKEN, *COMMON])
async def test_a_bad_value_is_refused_before_anything_is_sent(path: str, name: str, why: str) -> None:
    async with in_memory() as (client, _):
        answer = await client.ask(f"{path}?{name}=bogus")
        assert (answer.status, answer.interim) == (400, 0)
        assert f"{name}=bogus is " in answer.content.decode()
        assert why in answer.content.decode()
        client.start_next()
        assert (await client.ask("/content?size=3")).content == b"012"


@pytest.mark.parametrize("path", [path for path in PATHS if path != "/echo"])
async def test_a_name_that_the_path_does_not_know_is_refused(path: str) -> None:
    async with in_memory() as (client, _):
        answer = await client.ask(target(path, "intervall=5"))
        assert (answer.status, answer.interim) == (400, 0)
        assert answer.content.startswith(b"intervall is no parameter of this path")


@pytest.mark.parametrize("path", ["/content?n=1&size=0", "/echo?token=x", "/nowhere?token=x"])
async def test_some_names_are_free(path: str) -> None:
    async with in_memory() as (client, _):
        assert (await client.ask(path)).status in (200, 404)


async def test_what_is_taken_is_listed() -> None:
    async with in_memory() as (client, _):
        listed = (await client.ask("/")).json()
    for path, name, _ in TAKEN:
        described = listed[path] + (listed["/content"] if "`/content`" in listed[path] else "")
        described += listed["/reset"] if "`/reset`" in listed[path] else ""
        assert f"`{name}`" in described, (path, name)
    for name in ("status", "reason", "field", "delay", "connection=close", "half-close", "stall", "cut"):
        assert name in listed["*"]


async def test_an_unread_hold_stays_one(autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, _):
        await client.send("/hold?delay=7")
        assert not await ends_within_a_day(client.stream.receive_some)
