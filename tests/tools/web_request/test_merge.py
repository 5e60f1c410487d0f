"""What holds for an agent: the truth table, replacement field by field, and the ceiling."""

from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tidegate._policy.host import HostList
from tidegate._policy.messages import Request
from tidegate._policy.policy import Policy, check_target
from tidegate._policy.url import parse_url
from tidegate.errors import Denied
from tidegate_tools.web_request.ceiling import covers, most_specific, widenings
from tidegate_tools.web_request.config import (
    RequestRule,
    WebRequestAgentOverride,
    WebRequestAuthProfile,
    WebRequestConfig,
    effective_caps,
)
from tidegate_tools.web_request.files import AgentSpec, GlobalConfig
from tidegate_tools.web_request.merge import _resolve_web_request
from tidegate_tools.web_request.mistakes import ConfigError
from tidegate_tools.web_request.references import EnvReference


def _resolve(agent: dict[str, Any], operator: dict[str, Any]) -> WebRequestConfig | None:
    return _resolve_web_request(AgentSpec.model_validate(agent), GlobalConfig.model_validate(operator))


def _block(value: Any) -> dict[str, Any]:
    return {"system_tools": {"web_request": value}}


# The truth table ------------------------------------------------------------------------------------------

SILENT = [
    {},
    {"system_tools": None},
    {"system_tools": True},
    {"system_tools": {}},
    _block(None),
    _block(True),
]
OFF = [{"system_tools": False}, _block(False)]
OBJECT = {"allowed_hosts": ["api.example.com"], "timeout_seconds": 5.0}
NARROW = {"allowed_hosts": ["eu.example.com"]}


@pytest.mark.parametrize(("operator", "agent"), list(product(SILENT, SILENT)))
def test_on_by_default(operator: dict[str, Any], agent: dict[str, Any]) -> None:
    """W-7, W-56, W-59, W-60: nobody says anything, so it is on with defaults, unlike the sandbox."""
    assert _resolve(agent, operator) == WebRequestConfig()


@pytest.mark.parametrize("agent", SILENT)
def test_an_agent_inherits_the_very_object(agent: dict[str, Any]) -> None:
    """W-60, section C: true or absent gives the operator's object, the same instance."""
    operator = GlobalConfig.model_validate(_block(OBJECT))
    assert _resolve_web_request(AgentSpec.model_validate(agent), operator) is operator.web_request


@pytest.mark.parametrize(("operator", "agent"), list(product([*SILENT, _block(OBJECT), _block({})], OFF)))
def test_an_agents_false_wins(operator: dict[str, Any], agent: dict[str, Any]) -> None:
    """W-8, W-21, W-60, AMB-48."""
    assert _resolve(agent, operator) is None


@pytest.mark.parametrize(
    ("operator", "agent"), list(product(OFF, [*SILENT, *OFF, _block(NARROW), _block({})]))
)
def test_off_for_all_is_off_for_all(operator: dict[str, Any], agent: dict[str, Any]) -> None:
    """W-8, W-60, AMB-78: no agent turns it on again, not by an object either."""
    assert _resolve(agent, operator) is None


@pytest.mark.parametrize("operator", [*SILENT, _block({})])
def test_an_empty_block_is_on_with_defaults(operator: dict[str, Any]) -> None:
    """W-73: a mapping that sets nothing, in either file."""
    assert _resolve(_block({}), operator) == WebRequestConfig()


# Replacement ----------------------------------------------------------------------------------------------

EVERYTHING = {
    "allowed_hosts": ["api.example.com"],
    "require_https": True,
    "timeout_seconds": 10,
    "max_response_bytes": 1000,
    "max_request_bytes": 1000,
    "max_redirects": 2,
    "auth": [{"host": "api.example.com", "headers": {"Authorization": {"env": "A"}}}],
    "request_rules": [{"host": "api.example.com", "methods": ["GET"]}],
    "private_ranges": [{"cidr": "10.0.0.0/8", "hosts": ["db.corp.internal"]}],
    "nameservers": ["192.0.2.53"],
    "ca_file": "/etc/ca.pem",
}
REPLACEMENTS = {
    "allowed_hosts": ["other.example"],
    "require_https": False,
    "timeout_seconds": 100.0,
    "max_response_bytes": 2000,
    "max_request_bytes": 2000,
    "max_redirects": 0,
    "auth": [{"host": "other.example", "headers": {"X-Key": {"env": "B"}}}],
    "request_rules": [],
}


@pytest.mark.parametrize("field", WebRequestAgentOverride.model_fields)
def test_a_field_is_replaced_and_the_rest_falls_back(field: str) -> None:
    """W-61, W-142, W-147, W-A2, W-A4, W-A5, W-135, AMB-97: widening included."""
    merged = _resolve(_block({field: REPLACEMENTS[field]}), _block(EVERYTHING))
    assert merged == WebRequestConfig.model_validate({**EVERYTHING, field: REPLACEMENTS[field]})


@pytest.mark.parametrize("field", ["allowed_hosts", "auth", "request_rules"])
def test_an_empty_list_replaces_too(field: str) -> None:
    """AMB-75, AMB-96: [] is set, so it does not fall back: no host, no credential, no rule."""
    merged = _resolve(_block({field: []}), _block(EVERYTHING))
    assert merged is not None
    assert getattr(merged, field) == ()


def test_raised_caps_are_still_clamped() -> None:
    """AMB-97, W-174: an agent may raise caps, not ceilings."""
    merged = _resolve(_block({"timeout_seconds": 9999}), _block(EVERYTHING))
    assert merged is not None
    assert effective_caps(merged).timeout == 120


def test_two_agents_do_not_affect_each_other() -> None:
    """W-71: merging leaves the operator's object as it is."""
    operator = GlobalConfig.model_validate(_block(EVERYTHING))
    before = operator.model_copy(deep=True)
    _resolve_web_request(AgentSpec.model_validate(_block({"auth": []})), operator)
    assert operator == before


# The ceiling ----------------------------------------------------------------------------------------------

HOSTS = {"allowed_hosts": ["api.example.com", "*.partner.example", "2001:db8::1"]}
PROFILES = {
    "auth": [
        {"host": "*.a.example", "headers": {"X-Wide": {"env": "WIDE"}, "X-Also": {"env": "ALSO"}}},
        {"host": "x.a.example", "headers": {"X-Exact": {"env": "EXACT"}}},
    ]
}
RULES = {
    "request_rules": [
        {"host": "*.a.example", "methods": ["GET", "HEAD"], "paths": ["/v1/*", "/status"]},
        {"host": "x.a.example", "methods": ["POST"], "paths": ["/v2/items"]},
    ]
}


def _profile(host: str, **headers: str) -> dict[str, Any]:
    return {"host": host, "headers": {f"X-{name}": {"env": env} for name, env in headers.items()}}


def _rule(host: str, methods: list[str] | None = None, paths: list[str] | None = None) -> dict[str, Any]:
    limits = {"methods": methods, "paths": paths}
    return {"host": host, **{key: value for key, value in limits.items() if value is not None}}


@pytest.mark.parametrize(
    ("operator", "agent", "wider"),
    [
        # hosts
        ({}, {"allowed_hosts": ["any.example"]}, []),
        (HOSTS, {"allowed_hosts": []}, []),
        (HOSTS, {"allowed_hosts": ["API.example.com."]}, []),
        (HOSTS, {"allowed_hosts": ["a.b.partner.example", "*.partner.example", "*.b.partner.example"]}, []),
        (HOSTS, {"allowed_hosts": ["[2001:db8:0::1]"]}, []),
        (HOSTS, {"allowed_hosts": ["partner.example"]}, ["allowed_hosts"]),
        (HOSTS, {"allowed_hosts": ["xpartner.example"]}, ["allowed_hosts"]),
        (HOSTS, {"allowed_hosts": ["*.api.example.com"]}, ["allowed_hosts"]),
        (HOSTS, {"allowed_hosts": ["*.example.com"]}, ["allowed_hosts"]),
        (HOSTS, {"allowed_hosts": ["2001:db8::2"]}, ["allowed_hosts"]),
        ({"allowed_hosts": []}, {"allowed_hosts": ["a.example"]}, ["allowed_hosts"]),
        # https
        ({}, {"require_https": True}, []),
        ({}, {"require_https": False}, ["require_https"]),
        ({"require_https": False}, {"require_https": False}, []),
        ({"require_https": False}, {"require_https": True}, []),
        # caps: what holds is compared, defaults and ceilings included
        ({}, {"timeout_seconds": 30}, []),
        ({}, {"timeout_seconds": 30.5}, ["timeout_seconds"]),
        ({"timeout_seconds": 60}, {"timeout_seconds": 60}, []),
        ({"timeout_seconds": 200}, {"timeout_seconds": 300}, []),
        ({}, {"max_response_bytes": 5_000_001}, ["max_response_bytes"]),
        ({}, {"max_request_bytes": 1_000_000}, []),
        ({}, {"max_request_bytes": 1_000_001}, ["max_request_bytes"]),
        ({}, {"max_redirects": 0}, []),
        ({}, {"max_redirects": 1}, ["max_redirects"]),
        ({"max_redirects": 5}, {"max_redirects": 5}, []),
        ({"max_redirects": 5}, {"max_redirects": 6}, ["max_redirects"]),
        # credentials: never one more, never another one for a host
        ({}, {"auth": []}, []),
        (PROFILES, {"auth": []}, []),
        (PROFILES, PROFILES, []),
        (PROFILES, {"auth": [_profile("y.a.example", Wide="WIDE")]}, []),
        (PROFILES, {"auth": [_profile("*.z.a.example", Also="ALSO")]}, []),
        (PROFILES, {"auth": [_profile("x.a.example", Exact="EXACT")]}, []),
        (PROFILES, {"auth": [_profile("*.a.example", Wide="OTHER")]}, ["auth"]),
        (PROFILES, {"auth": [_profile("*.a.example", Other="WIDE")]}, ["auth"]),
        (PROFILES, {"auth": [_profile("x.a.example", Wide="WIDE")]}, ["auth"]),
        (PROFILES, {"auth": [_profile("a.example", Wide="WIDE")]}, ["auth"]),
        ({}, {"auth": [_profile("y.a.example", Wide="WIDE")]}, ["auth"]),
        # without the exact profile the wider one would send its credentials to x.a.example
        (PROFILES, {"auth": [_profile("*.a.example", Wide="WIDE")]}, ["auth"]),
        (PROFILES, {"auth": [PROFILES["auth"][1], _profile("*.a.example", Also="ALSO")]}, []),
        # methods and paths
        ({}, RULES, []),
        (RULES, RULES, []),
        (RULES, {"request_rules": []}, ["request_rules", "request_rules"]),
        (RULES, {"request_rules": [_rule("*.a.example", ["GET"], ["/v1/users"])]}, []),
        (RULES, {"request_rules": [_rule("*.a.example", ["GET"], ["/v1/a/*", "/status"])]}, []),
        (RULES, {"request_rules": [_rule("*.a.example", ["GET"], ["/v1/a%2Fb"])]}, ["request_rules"]),
        (RULES, {"request_rules": [_rule("*.a.example", ["GET"], ["/v1"])]}, ["request_rules"]),
        (RULES, {"request_rules": [_rule("*.a.example", ["GET"])]}, ["request_rules"]),
        (RULES, {"request_rules": [_rule("*.a.example", ["POST"], ["/v1/*"])]}, ["request_rules"]),
        (RULES, {"request_rules": [_rule("*.a.example", paths=["/v1/*"])]}, ["request_rules"]),
        (RULES, {"request_rules": [_rule("x.a.example", ["GET"], ["/v1/*"])]}, ["request_rules"]),
        (RULES, {"request_rules": [*RULES["request_rules"], _rule("b.example")]}, []),
        (RULES, {"request_rules": [*RULES["request_rules"], _rule("*.a.a.example")]}, ["request_rules"]),
        ({"request_rules": [_rule("x.a.example", ["GET"])]}, {"request_rules": [_rule("*.a.example")]},
         ["request_rules"]),
        ({"request_rules": [_rule("a.example")]}, {"request_rules": [_rule("a.example", ["PUT"])]}, []),
    ],
)  # fmt: skip
def test_only_narrowing_passes(operator: dict[str, Any], agent: dict[str, Any], wider: list[str]) -> None:
    """W-52, W-26: each row is an operator's setting, an agent's, and the fields that go beyond."""
    ceiling = WebRequestConfig.model_validate({**operator, "allow_agent_override": False})
    override = WebRequestAgentOverride.model_validate(agent)
    assert [widening.path[0] for widening in widenings(override, ceiling)] == wider
    if not wider:
        assert _resolve(_block(agent), _block({**operator, "allow_agent_override": False})) is not None
        return
    with pytest.raises(ConfigError) as caught:
        _resolve(_block(agent), _block({**operator, "allow_agent_override": False}))
    assert len(caught.value.mistakes) == len(wider)
    # Without the ceiling the same is fine (A4).
    assert _resolve(_block(agent), _block(operator)) is not None


# Names chosen so that exact hosts, wildcards and neighbours overlap in every way.
_NAMES = ("a.example", "x.a.example", "y.a.example", "z.x.a.example", "b.example")
_PATTERNS = st.sampled_from([*_NAMES, "*.a.example", "*.x.a.example", "*.b.example"])
_REFERENCES = st.sampled_from([EnvReference(env="A"), EnvReference(env="B")])
_PROFILES = st.builds(
    WebRequestAuthProfile,
    host=_PATTERNS,
    headers=st.dictionaries(st.sampled_from(["X-One", "X-Two"]), _REFERENCES, min_size=1),
)
_RULES = st.builds(
    RequestRule,
    host=_PATTERNS,
    methods=st.none() | st.lists(st.sampled_from(["GET", "POST"]), min_size=1, unique=True),
    paths=st.none()
    | st.lists(st.sampled_from(["/a", "/a/*", "/a/b", "/a/b%2Fc", "/*"]), min_size=1, unique=True),
)
_ENTRIES: dict[str, st.SearchStrategy[Any]] = {
    "allowed_hosts": _PATTERNS,
    "auth": _PROFILES,
    "request_rules": _RULES,
}


@st.composite
def _operator_and_agent(draw: st.DrawFn) -> tuple[WebRequestConfig, WebRequestAgentOverride]:
    """An agent that often takes up what the operator has: reordered, with less, or with one thing more."""
    operator = WebRequestConfig.model_validate(
        {field: draw(st.none() | st.lists(entries, max_size=3)) for field, entries in _ENTRIES.items()}
    )
    taken = {}
    for field, entries in _ENTRIES.items():
        theirs = getattr(operator, field)
        either = st.sampled_from(theirs) | entries if theirs else entries
        taken[field] = draw(st.none() | st.lists(either, max_size=3))
    return operator, WebRequestAgentOverride.model_validate(taken)


def _policy(config: WebRequestConfig) -> Policy:
    rules = [rule.as_policy() for rule in config.request_rules or ()]
    return Policy(hosts=config.allowed_hosts, request_rules=rules)


def _allows(policy: Policy, url: str, method: str) -> bool:
    try:
        check_target(policy, Request(method, parse_url(url), (), b""))
    except Denied:
        return False
    return True


def _sent_to(config: WebRequestConfig, host: str) -> set[tuple[str, str]]:
    """What a tool would attach: the first profile of the most specific host (AMB-93)."""
    profiles = config.auth or ()
    best = HostList([profile.host for profile in profiles]).most_specific(host)
    fields = next((profile.headers for profile in profiles if profile.host == best), {})
    return {(name, str(reference)) for name, reference in fields.items()}


@settings(max_examples=200)
@given(_operator_and_agent())
def test_what_passes_a_ceiling_never_widens(
    both: tuple[WebRequestConfig, WebRequestAgentOverride],
) -> None:
    """W-52: no request passes and no credential is sent that the operator's configuration would refuse."""
    operator, override = both
    assume(not widenings(override, operator))
    merged = operator.model_copy(update=override.given())
    before, after = _policy(operator), _policy(merged)
    for host in _NAMES:
        assert _sent_to(merged, host) <= _sent_to(operator, host)
        for path, method in product(("/a", "/a/b", "/a/b/c", "/a/b%2Fc", "/z"), ("GET", "POST")):
            url = f"https://{host}{path}"
            assert _allows(before, url, method) or not _allows(after, url, method)


@pytest.mark.parametrize("host", _NAMES)
@pytest.mark.parametrize("pattern", ["a.example", "*.a.example", "*.x.a.example", "b.example"])
def test_covering_agrees_with_the_matcher(pattern: str, host: str) -> None:
    """W-169: `covers` of a plain host is what the engine's list says."""
    assert covers(pattern, host) is HostList([pattern]).matches(host)


def test_the_most_specific_profile() -> None:
    """AMB-93: exact, then the longest wildcard, then the order."""
    profiles = [
        WebRequestAuthProfile(host=host, headers={"X-Key": EnvReference(env=f"E{index}")})
        for index, host in enumerate(["*.a.example", "x.a.example", "*.a.example"])
    ]
    names = ("x.a.example", "y.a.example", "a.example")
    found = [most_specific(profiles, name) for name in names]
    assert [profile and profile.host for profile in found] == ["x.a.example", "*.a.example", None]
    assert found[1] is profiles[0]
