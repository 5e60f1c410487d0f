"""Who may call which tool and reach which host: the store, the four host patterns, derivation."""

import pickle
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate._policy.host import HostList
from tidegate_tools.grants import CapabilityDerivationError, Grants, GrantStore, net_grants_of
from tidegate_tools.registry import ToolContext

AGENT = 7


def store_with(tools: Collection[str] = (), hosts: Collection[str] = ()) -> GrantStore:
    store = GrantStore()
    store.grant(AGENT, Grants(tools, hosts))
    return store


# --- Tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grants", "name", "allowed"),
    [
        (["Fetch"], "Fetch", True),
        (["*"], "Fetch", True),
        (["web_request", "Fetch"], "Fetch", True),
        # Neighbours: case, parts, other stars, white space.
        (["fetch"], "Fetch", False),
        (["Fetch"], "fetch", False),
        (["Fetc"], "Fetch", False),
        (["Fetch"], "Fetch ", False),
        (["F*"], "Fetch", False),
        (["**"], "Fetch", False),
        (["web_request"], "Fetch", False),
        ([], "Fetch", False),
        (["*"], "", False),
        ([""], "", False),
        (["*"], None, False),
        (["*"], ["Fetch"], False),
    ],
)
def test_tool_grants_are_exact_names_or_the_star(grants: list[str], name: object, allowed: bool) -> None:
    """F-62."""
    assert store_with(tools=grants).check_tool(AGENT, name) is allowed


# --- Hosts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grant", "host", "allowed"),
    [
        # Exact covers only itself (F-65).
        ("example.com", "example.com", True),
        ("example.com", "api.example.com", False),
        ("example.com", "notexample.com", False),
        ("example.com", "example.com.evil.test", False),
        # One star: exactly one label (F-64).
        ("*.example.com", "api.example.com", True),
        ("*.example.com", "a.b.example.com", False),
        ("*.example.com", "example.com", False),
        ("*.example.com", "apiexample.com", False),
        ("*.example.com", ".example.com", False),
        # Two stars: any depth and the apex (F-65).
        ("**.example.com", "example.com", True),
        ("**.example.com", "api.example.com", True),
        ("**.example.com", "a.b.c.example.com", True),
        ("**.example.com", "notexample.com", False),
        ("**.example.com", "example.com.evil.test", False),
        # Everything (F-65).
        ("*", "example.com", True),
        ("*", "93.184.216.34", True),
        ("**.*", "a.b.example.com", True),
        # No ports, no CIDR, no stars elsewhere: such a grant covers nothing.
        ("example.com:443", "example.com", False),
        ("93.184.216.0/24", "93.184.216.34", False),
        ("api.*", "api.example.com", False),
        ("a*.example.com", "ab.example.com", False),
        ("*.*.example.com", "a.b.example.com", False),
        ("", "example.com", False),
        # Literal addresses: by value, never by the end of their text.
        ("93.184.216.34", "93.184.216.34", True),
        ("*.0.0.1", "127.0.0.1", False),
        ("**.0.0.1", "127.0.0.1", False),
        ("2606:2800::1", "[2606:2800:0::1]", True),
        ("[2606:2800::1]", "2606:2800::1", True),
        # Both sides in one canonical form (AMB-28).
        ("Example.COM", "example.com", True),
        ("example.com.", "EXAMPLE.com", True),
        ("*.bücher.example", "www.xn--bcher-kva.example", True),
        ("xn--bcher-kva.example", "BÜCHER.example.", True),
        # What is no host is covered by nothing, not even by everything.
        ("*", "", False),
        ("*", "2130706433", False),
        ("*", "exa mple.com", False),
        ("*", "*", False),
        ("*", "a..example", False),
    ],
)
def test_net_grants(grant: str, host: str, allowed: bool) -> None:
    """F-63, F-64, F-65; AMB-28; section C, capability and glob semantics."""
    assert store_with(hosts=[grant]).check_net(AGENT, host) is allowed


@pytest.mark.parametrize(
    ("pattern", "host", "as_grant", "as_host_list"),
    [
        # Where the two meanings differ.
        ("*.example.com", "a.b.example.com", False, True),
        ("**.example.com", "example.com", True, None),
        ("**.example.com", "a.b.example.com", True, None),
        ("*", "example.com", True, None),
        ("**.*", "example.com", True, None),
        ("*.com", "example.com", True, None),
        # Where an operator's list refuses what a grant only ignores.
        ("*.0.0.1", "127.0.0.1", False, None),
        ("example.com:443", "example.com", False, None),
        ("2130706433", "127.0.0.1", False, None),
        # Where they agree.
        ("*.example.com", "api.example.com", True, True),
        ("*.example.com", "example.com", False, False),
        ("example.com", "example.com", True, True),
        ("example.com", "api.example.com", False, False),
        ("Example.com.", "example.com", True, True),
        ("[2606:2800::1]", "2606:2800::1", True, True),
    ],
)
def test_a_grant_and_an_operators_host_list_are_two_matchers(
    pattern: str, host: str, as_grant: bool, as_host_list: bool | None
) -> None:
    """X-3, D-15: one table through both; None where the list refuses the pattern when it is built."""
    assert store_with(hosts=[pattern]).check_net(AGENT, host) is as_grant
    if as_host_list is None:
        with pytest.raises(ValueError):
            HostList([pattern])
    else:
        assert HostList([pattern]).matches(host) is as_host_list


# --- The default is no -----------------------------------------------------------------------------


@pytest.mark.parametrize("pid", [8, "7", None, (), [], {}])
def test_an_agent_without_a_row_holds_nothing(pid: object) -> None:
    """F-66, also for a pid that could not even have a row."""
    store = store_with(["*"], ["*"])
    assert store.check_tool(pid, "Fetch") is False
    assert store.check_net(pid, "example.com") is False


@pytest.mark.parametrize("host", [None, 5, b"example.com", ["example.com"], {}, "\ud800", "x" * 100_000])
def test_check_net_never_raises(host: object) -> None:
    """F-66: a host that is none is refused, even to an agent that may reach every host."""
    assert store_with(hosts=["*"]).check_net(AGENT, host) is False


# A shared machine may be slow; what is tested is no time.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(grants=st.lists(st.text()), host=st.text(), name=st.text())
def test_checks_answer_whatever_comes(grants: list[str], host: str, name: str) -> None:
    store = store_with(grants, grants)
    assert store.check_net(AGENT, host) in (True, False)
    assert store.check_tool(AGENT, name) is (name != "" and (name in grants or "*" in grants))


def test_a_new_grant_replaces_the_old_one() -> None:
    store = store_with(["Fetch"], ["a.example"])
    store.grant(AGENT, Grants(["web_request"], ["b.example"]))
    assert not store.check_tool(AGENT, "Fetch")
    assert not store.check_net(AGENT, "a.example")
    assert store.check_tool(AGENT, "web_request")
    assert store.check_net(AGENT, "b.example")


def test_agents_do_not_share_grants() -> None:
    store = store_with(["Fetch"], ["a.example"])
    store.grant(8, Grants(["web_request"], ["b.example"]))
    assert store.check_net(AGENT, "a.example")
    assert not store.check_net(AGENT, "b.example")
    assert not store.check_tool(8, "Fetch")


# --- Grants are values -----------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["Fetch", "*", b"*", [b"Fetch"], [7], [None], None, 5])
def test_grants_are_collections_of_texts(wrong: Any) -> None:
    """One text would be a list of letters: `"*.example.com"` would hold `*`, a grant for everything."""
    with pytest.raises(TypeError):
        Grants(tool_grants=wrong)
    with pytest.raises(TypeError):
        Grants(net_grants=wrong)


def test_grants_keep_no_hold_of_the_list_they_were_made_from() -> None:
    hosts = ["a.example"]
    grants = Grants(net_grants=hosts)
    hosts.append("*")
    store = GrantStore()
    store.grant(AGENT, grants)
    assert not store.check_net(AGENT, "b.example")
    assert Grants(["Fetch", "Fetch"]) == Grants(("Fetch",))


# --- Derivation ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        (["a.example", "b.example"], ["a.example"], []),
        (["a.example"], ["a.example"], []),
        (["a.example"], [], []),
        (["*.example.com"], ["*.example.com"], []),
        (["*"], ["api.example.com", "*", "**.*"], []),
        (["*", "a.example"], ["b.example"], []),
        # Words, not meaning.
        (["*.example.com"], ["api.example.com"], ["api.example.com"]),
        (["**.example.com"], ["*.example.com", "example.com"], ["*.example.com", "example.com"]),
        (["Example.com"], ["example.com"], ["example.com"]),
        # Only the literal star passes on everything.
        (["**.*"], ["a.example"], ["a.example"]),
        (["**.*"], ["*"], ["*"]),
        (["a.example"], ["*"], ["*"]),
        (["a.example"], ["a.example", "c.example", "b.example"], ["b.example", "c.example"]),
        ([], ["a.example"], ["a.example"]),
    ],
)
def test_a_child_gets_a_subset_of_the_words_of_its_parent(
    held: list[str], wanted: list[str], missing: list[str]
) -> None:
    """Section C, derivation; the same rule for tools and for hosts."""
    for kind in ("tool_grants", "net_grants"):
        store = GrantStore()
        store.grant("parent", Grants(**{kind: held}))
        if not missing:
            store.derive("parent", "child", Grants(**{kind: wanted}))
            continue
        with pytest.raises(CapabilityDerivationError) as caught:
            store.derive("parent", "child", Grants(**{kind: wanted}))
        assert getattr(caught.value, kind) == tuple(missing)
        assert all(repr(each) in str(caught.value) for each in missing)


def test_derivation_names_the_json_rpc_code() -> None:
    """Section C: -32111; tools and hosts are named apart, and the error survives a process boundary."""
    store = store_with(["Fetch"], ["*"])
    with pytest.raises(CapabilityDerivationError) as caught:
        store.derive(AGENT, 8, Grants(["Fetch", "Exec"], ["anything.example"]))
    assert caught.value.code == -32111
    assert (caught.value.tool_grants, caught.value.net_grants) == (("Exec",), ())
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_derived_child_may_do_what_it_was_given_and_no_more() -> None:
    store = store_with(["Fetch", "web_request"], ["a.example", "b.example"])
    store.derive(AGENT, 8, Grants(["Fetch"], ["a.example"]))
    assert store.check_tool(8, "Fetch")
    assert store.check_net(8, "a.example")
    assert not store.check_tool(8, "web_request")
    assert not store.check_net(8, "b.example")


def test_a_refused_derivation_changes_nothing() -> None:
    store = store_with(["Fetch"], ["a.example"])
    store.derive(AGENT, 8, Grants(net_grants=["a.example"]))
    with pytest.raises(CapabilityDerivationError):
        store.derive(AGENT, 8, Grants(["Fetch"], ["b.example"]))
    assert store.check_net(8, "a.example")
    assert not store.check_tool(8, "Fetch")


def test_a_parent_without_a_row_has_nothing_to_pass_on() -> None:
    """F-66."""
    store = GrantStore()
    with pytest.raises(CapabilityDerivationError):
        store.derive("nobody", "child", Grants(["Fetch"]))
    store.derive("nobody", "child", Grants())
    assert not store.check_tool("child", "Fetch")


# --- The question about hosts ------------------------------------------------------------------------


async def test_the_question_of_a_tool() -> None:
    """F-63: the store is asked about this agent; F-92: without a kernel there is no question."""
    store = store_with(["Fetch"], ["a.example"])
    authorize = net_grants_of(ToolContext(AGENT, SimpleNamespace(cap=store)))
    assert authorize is not None
    assert [await authorize(host) for host in ("a.example", "b.example")] == [True, False]
    assert net_grants_of(ToolContext(AGENT)) is None


async def test_a_store_may_be_async() -> None:
    """RFC 0005 leaves that to the kernel."""

    class Store:
        async def check_net(self, pid: object, host: str) -> bool:
            await trio.lowlevel.checkpoint()
            return (pid, host) == (AGENT, "a.example")

    authorize = net_grants_of(ToolContext(AGENT, SimpleNamespace(cap=Store())))
    assert authorize is not None
    assert [await authorize(host) for host in ("a.example", "b.example")] == [True, False]
