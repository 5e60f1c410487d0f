"""Resolvers: the system's with its threads bounded, the operator's nameservers, and a table."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import tidegate
from tidegate._wire import resolve
from tidegate._wire.resolve import lookup_key
from tidegate.testing.dns import open_dns_server


@pytest.fixture
def no_hosts_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resolve, "_HOSTS_FILE", tmp_path / "none")


class StuckLookups:
    """A `getaddrinfo` that hangs until told to go on, but for one name."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
        if host == "free.example.":
            return [(2, 1, 6, "", ("93.184.216.34", 0))]
        self.release.wait(10)
        return [(2, 1, 6, "", ("93.184.216.34", 0)), (10, 1, 6, "", ("fe80::1%eth0", 0, 0, 1))]


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch, no_hosts_file: None) -> Any:
    lookups = StuckLookups()
    monkeypatch.setattr(resolve.socket, "getaddrinfo", lookups)
    yield lookups
    lookups.release.set()


async def test_threads_are_bounded_and_so_is_the_wait(stuck: StuckLookups) -> None:
    """Pitfall 18: abandoned look-ups keep their threads; new ones fail as busy at last."""
    resolver = tidegate.SystemResolver(max_threads=2, max_wait=0.05)
    for _ in range(2):
        with trio.move_on_after(0.05) as scope:
            await resolver.resolve("a.example")
        assert scope.cancelled_caught
    assert tidegate.ResolverStatistics(threads=2, max_threads=2, waiting=0) == resolver.statistics()
    with pytest.raises(tidegate.ResolutionError, match="busy: all 2 lookup threads are taken"):
        await resolver.resolve("a.example")
    # Other threads of the program are not held up by ours.
    with trio.fail_after(5):
        await trio.to_thread.run_sync(lambda: None)
    stuck.release.set()
    with trio.fail_after(5):
        while resolver.statistics().threads:
            await trio.sleep(0.01)
    assert [ip_address("93.184.216.34"), ip_address("fe80::1")] == await resolver.resolve("a.example")


@contextmanager
def looking_up_for(key: object) -> Iterator[None]:
    """What the engine says around a lookup."""
    token = lookup_key.set(key)
    yield
    lookup_key.reset(token)


async def abandon(resolver: tidegate.SystemResolver, key: object, lookups: int) -> None:
    """So many fetches of one key, which give up on names that hang."""

    async def give_up(number: int) -> None:
        with looking_up_for(key), trio.move_on_after(0.05):
            await resolver.resolve(f"h{number}.stuck.example")

    async with trio.open_nursery() as nursery:
        for number in range(lookups):
            nursery.start_soon(give_up, number)


async def test_one_key_never_has_all_threads(stuck: StuckLookups) -> None:
    """However many of its lookups hang: another one's is looked up at once, and its own fail as busy."""
    resolver = tidegate.SystemResolver(max_threads=4, max_wait=0.05)
    await abandon(resolver, "mallory", 9)
    assert tidegate.ResolverStatistics(threads=2, max_threads=4, waiting=0) == resolver.statistics()
    with looking_up_for("mallory"), pytest.raises(tidegate.ResolutionError) as caught:
        await resolver.resolve("free.example")
    assert "all 2 lookup threads that one key may have are taken" in str(caught.value)
    with looking_up_for("alice"), trio.fail_after(5):
        assert [ip_address("93.184.216.34")] == await resolver.resolve("free.example")
    with trio.fail_after(5):
        assert [ip_address("93.184.216.34")] == await resolver.resolve("free.example")


async def test_what_a_key_had_comes_back(stuck: StuckLookups) -> None:
    """When the system returns, though nobody waits for the answer any more; and nothing is kept of a key."""
    resolver = tidegate.SystemResolver(max_threads=2, max_wait=0.05, max_threads_per_key=2)
    await abandon(resolver, "mallory", 5)
    assert resolver.statistics().threads == 2
    with looking_up_for("alice"), pytest.raises(tidegate.ResolutionError, match="busy: all 2 lookup threads"):
        await resolver.resolve("free.example")
    stuck.release.set()
    with trio.fail_after(5):
        while resolver.statistics().threads:
            await trio.sleep(0.01)
    for key in ("alice", "mallory"):
        with looking_up_for(key):
            assert len(await resolver.resolve("a.example")) == 2
    gc.collect()
    assert len(resolver._shares) == 0


async def test_lookups_that_wait_are_counted(stuck: StuckLookups) -> None:
    """Those that wait behind their own key, too; cancelled there, they leave nothing behind."""
    resolver = tidegate.SystemResolver(max_threads=3, max_wait=60)
    async with trio.open_nursery() as nursery:
        for key, lookups in (("mallory", 4), ("alice", 3)):
            with looking_up_for(key):
                for number in range(lookups):
                    nursery.start_soon(resolver.resolve, f"h{number}.stuck.example")
        await wait_all_tasks_blocked()
        assert tidegate.ResolverStatistics(threads=3, max_threads=3, waiting=4) == resolver.statistics()
        nursery.cancel_scope.cancel()
    assert resolver.statistics().waiting == 0
    stuck.release.set()
    with trio.fail_after(5):
        while resolver.statistics().threads:
            await trio.sleep(0.01)


async def test_as_many_as_there_are_threads_run_at_once(stuck: StuckLookups) -> None:
    """Lookups without a key have no bound of their own."""
    resolver = tidegate.SystemResolver(max_threads=3, max_wait=0.05)
    await abandon(resolver, None, 5)
    assert resolver.statistics().threads == 3


@pytest.mark.parametrize("wrong", [{"max_threads": 0}, {"max_threads_per_key": 0}])
def test_no_threads_at_all(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        tidegate.SystemResolver(**wrong)


async def test_names_are_asked_as_absolute_ones(stuck: StuckLookups) -> None:
    """D-23: no search list of the host turns a name into another."""
    stuck.release.set()
    await tidegate.SystemResolver().resolve("a.example")
    assert stuck.asked == ["a.example."]


@pytest.mark.parametrize(
    "error", [OSError(-2, "Name or service not known"), UnicodeError("label too long"), OSError("odd")]
)
async def test_failures_are_ours(
    error: Exception, monkeypatch: pytest.MonkeyPatch, no_hosts_file: None
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(resolve.socket, "getaddrinfo", fail)
    with pytest.raises(tidegate.ResolutionError, match=r"a\.example could not be resolved"):
        await tidegate.SystemResolver().resolve("a.example")


async def test_a_name_that_is_none(no_hosts_file: None) -> None:
    """For real, without a network: `.invalid` never exists (RFC 6761)."""
    with pytest.raises(tidegate.ResolutionError):
        await tidegate.SystemResolver().resolve("nothing.invalid")


async def test_static() -> None:
    resolver = tidegate.StaticResolver(
        {"A.Example.": ["93.184.216.34", "2606:2800:220:1::1"]},
        fallback=tidegate.StaticResolver({"b.example": ["93.184.216.35"]}),
    )
    assert [ip_address("93.184.216.34"), ip_address("2606:2800:220:1::1")] == list(
        await resolver.resolve("a.example")
    )
    assert [ip_address("93.184.216.35")] == list(await resolver.resolve("b.example"))
    with pytest.raises(tidegate.ResolutionError, match=r"c\.example .* no such name"):
        await resolver.resolve("c.example")


@pytest.mark.parametrize(
    ("table", "word"),
    [({"a..b": ["93.184.216.34"]}, "no host name"), ({"a.example": ["93.184.216"]}, "does not appear to be")],
)
def test_static_table_that_is_wrong(table: dict[str, list[str]], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        tidegate.StaticResolver(table)


@pytest.mark.parametrize(
    ("nameservers", "word"),
    [
        ([], "at least one"),
        (["dns.example"], "is no address"),
        (["192.0.2.1:x"], "is no address"),
        (["192.0.2.1:0"], "from 1 to 65535"),
        (["192.0.2.1:65536"], "from 1 to 65535"),
        (["[2001:db8::1"], "is no address"),
        ([""], "is no address"),
    ],
)
def test_nameservers_that_are_wrong(nameservers: list[str], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        tidegate.DnsResolver(nameservers)


ZONE = {
    "dual.example": {"A": ["93.184.216.34"], "AAAA": ["2606:2800:220:1::1"]},
    "v4.example": {"A": ["93.184.216.34"]},
    "v6.example": {"AAAA": ["2606:2800:220:1::1"]},
    "alias.example": {"CNAME": "v4.example"},
    "many.example": {"A": [f"93.184.{n // 256}.{n % 256}" for n in range(300)]},
    "empty.example": {"A": []},
    "fails.example": "SERVFAIL",
    "loop.example": {"CNAME": "loop.example"},
    "silent.example": "TIMEOUT",
    "rebind.example": [{"A": ["93.184.216.34"]}, {"A": ["127.0.0.1"]}],
}


async def ask(name: str, *, timeout: float = 5.0, times: int = 1) -> list[list[str]]:
    async with open_dns_server(ZONE) as server:
        resolver = tidegate.DnsResolver([f"127.0.0.1:{server.port}"], timeout=timeout)
        return [[str(address) for address in await resolver.resolve(name)] for _ in range(times)]


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("dual.example", ["2606:2800:220:1::1", "93.184.216.34"]),
        ("v4.example", ["93.184.216.34"]),
        ("v6.example", ["2606:2800:220:1::1"]),
        ("alias.example", ["93.184.216.34"]),
    ],
)
async def test_nameserver_answers(name: str, addresses: list[str]) -> None:
    assert [addresses] == await ask(name)


async def test_nothing_is_cached() -> None:
    """F-19, W-123: every look-up is a new one."""
    assert await ask("rebind.example", times=2) == [["93.184.216.34"], ["127.0.0.1"]]


async def test_hundreds_of_addresses_come_over_tcp() -> None:
    assert len((await ask("many.example"))[0]) == 300


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nothing.example", "no such name"),
        ("empty.example", "no addresses"),
        ("fails.example", "failure"),
        ("loop.example", "failure"),
        ("silent.example", "no answer within 0.3 s"),
    ],
)
async def test_nameserver_failures(name: str, told: str) -> None:
    with pytest.raises(tidegate.ResolutionError, match=told):
        await ask(name, timeout=0.3)


async def test_nobody_at_the_nameserver() -> None:
    with pytest.raises(tidegate.ResolutionError):
        await tidegate.DnsResolver(["127.0.0.1:1"], timeout=0.3).resolve("a.example")


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("192.0.2.1", ("192.0.2.1", 53)),
        ("192.0.2.1:5353", ("192.0.2.1", 5353)),
        ("2001:db8::1", ("2001:db8::1", 53)),
        ("[2001:db8::1]", ("2001:db8::1", 53)),
        ("[2001:db8::1]:5353", ("2001:db8::1", 5353)),
    ],
)
def test_nameserver_forms(text: str, parsed: tuple[str, int]) -> None:
    assert parsed == resolve._nameserver(text)


def test_without_dnspython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "dns.asyncresolver", None)
    with pytest.raises(ModuleNotFoundError, match=r"tidegate\[dns\]"):
        tidegate.DnsResolver(["192.0.2.1"])
