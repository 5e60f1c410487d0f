"""The cache: bounded in bytes and age, and apart by identity."""

import trio
from trio.testing import MockClock

from tidegate_tools.pages import Cache


async def test_values_by_key() -> None:
    """What one agent read is not there for another."""
    cache: Cache[str] = Cache(1000, 60, len)
    cache.put(("agent a", "https://site.example/"), "page")
    assert cache.get(("agent a", "https://site.example/")) == "page"
    assert cache.get(("agent b", "https://site.example/")) is None


async def test_bytes_are_bounded() -> None:
    cache: Cache[str] = Cache(10, 60, len)
    for name in "abc":
        cache.put(name, name * 4)
    assert [cache.get(name) for name in "abc"] == [None, "bbbb", "cccc"]
    cache.put("d", "d" * 11)
    assert cache.get("d") is None
    assert len(cache) == 2


async def test_a_value_is_replaced() -> None:
    cache: Cache[str] = Cache(10, 60, len)
    for value in ("aaaaaaaa", "bbbbbbbb", "cccccccc"):
        cache.put("key", value)
    assert (cache.get("key"), len(cache)) == ("cccccccc", 1)


async def test_age_is_bounded(autojump_clock: MockClock) -> None:
    cache: Cache[str] = Cache(10, 60, len)
    cache.put("key", "value")
    await trio.sleep(59)
    assert cache.get("key") == "value"
    await trio.sleep(2)
    assert cache.get("key") is None
    assert len(cache) == 0
