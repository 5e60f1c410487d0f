"""Ceiling mode, `allow_agent_override: false`: an agent may narrow what the operator allows, never widen it.

Every rule asks: is there a request that the agent's setting lets through, or a credential it sends, that the
operator's does not? Where that would take reasoning over several rules at once, the answer errs towards yes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidegate._policy import policy
from tidegate._policy.url import parse_url
from tidegate_tools.web_request.config import (
    RequestRule,
    WebRequestAgentOverride,
    WebRequestAuthProfile,
    WebRequestConfig,
    effective_caps,
)
from tidegate_tools.web_request.mistakes import KeyPath


@dataclass(frozen=True, slots=True)
class Widening:
    """One setting of an agent that goes beyond the operator's.

    Attributes:
        path: where it stands, below `web_request`.
        ceiling: the operator's setting that it goes beyond, below `web_request`.
        allowed: what the agent may set.
    """

    path: KeyPath
    ceiling: KeyPath
    allowed: str


def widenings(override: WebRequestAgentOverride, ceiling: WebRequestConfig) -> list[Widening]:
    """Everything in an agent's settings that goes beyond the operator's; empty if it only narrows."""
    return [
        *_hosts(override, ceiling),
        *_https(override, ceiling),
        *_caps(override, ceiling),
        *_auth(override, ceiling),
        *_request_rules(override, ceiling),
    ]


def covers(pattern: str, other: str) -> bool:
    """True if every host that `other` names is named by `pattern` too; both canonical host-list entries."""
    if pattern == other:
        return True
    return pattern.startswith("*.") and other.removeprefix("*.").endswith(pattern[1:])


def _hosts(override: WebRequestAgentOverride, ceiling: WebRequestConfig) -> Iterator[Widening]:
    if override.allowed_hosts is None or ceiling.allowed_hosts is None:
        return
    for index, entry in enumerate(override.allowed_hosts):
        if not any(covers(pattern, entry) for pattern in ceiling.allowed_hosts):
            yield Widening(
                ("allowed_hosts", index),
                ("allowed_hosts",),
                f"hosts within {', '.join(ceiling.allowed_hosts) or '[]'}",
            )


def _https(override: WebRequestAgentOverride, ceiling: WebRequestConfig) -> Iterator[Widening]:
    if ceiling.require_https and override.require_https is False:
        yield Widening(("require_https",), ("require_https",), "true")


_CAPS = {
    "timeout_seconds": "timeout",
    "max_response_bytes": "max_response_bytes",
    "max_request_bytes": "max_request_bytes",
    "max_redirects": "max_redirects",
}


def _caps(override: WebRequestAgentOverride, ceiling: WebRequestConfig) -> Iterator[Widening]:
    """What holds is compared: a default is a ceiling too, and beyond the absolute one nothing counts."""
    highest = effective_caps(ceiling)
    wanted = effective_caps(ceiling.model_copy(update=override.given()))
    for name, attribute in _CAPS.items():
        if getattr(wanted, attribute) > getattr(highest, attribute):
            yield Widening((name,), (name,), f"at most {getattr(highest, attribute):.15g}")


# Credentials ----------------------------------------------------------------------------------------------


def most_specific(profiles: Sequence[WebRequestAuthProfile], pattern: str) -> WebRequestAuthProfile | None:
    """The profile for all hosts that a pattern names: exact before wildcards, longest first (AMB-93)."""
    fitting = [profile for profile in profiles if covers(profile.host, pattern)]
    return max(
        fitting, key=lambda profile: (not profile.host.startswith("*."), len(profile.host)), default=None
    )


def _auth(override: WebRequestAgentOverride, ceiling: WebRequestConfig) -> Iterator[Widening]:
    if override.auth is None:
        return
    for index, profile in enumerate(override.auth):
        if not _sends_no_more(profile, override.auth, ceiling.auth or ()):
            yield Widening(
                ("auth", index), ("auth",), "profiles of agents.config.yaml, for the same hosts or fewer"
            )


def _sends_no_more(
    profile: WebRequestAuthProfile,
    agent: Sequence[WebRequestAuthProfile],
    operator: Sequence[WebRequestAuthProfile],
) -> bool:
    """True if the operator sends at least these credentials to every host of the profile.

    Hosts for which the operator has a profile of their own count for themselves: dropping that one must not
    make the wider profile's credentials go there.
    """
    inner = [theirs.host for theirs in operator if covers(profile.host, theirs.host)]
    for pattern in (profile.host, *inner):
        ours, theirs = most_specific(agent, pattern), most_specific(operator, pattern)
        if ours is profile and not (theirs is not None and ours.headers.items() <= theirs.headers.items()):
            return False
    return True


# Methods and paths ----------------------------------------------------------------------------------------


def _request_rules(override: WebRequestAgentOverride, ceiling: WebRequestConfig) -> Iterator[Widening]:
    """A host that a rule names may be asked for what any of its rules allows, other hosts for anything.

    So each of the agent's rules must lie within one of the operator's, unless no rule of the operator touches
    its hosts; and no host may lose its last rule.
    """
    if override.request_rules is None:
        return
    operator = ceiling.request_rules or ()
    for index, rule in enumerate(override.request_rules):
        touched = [
            theirs for theirs in operator if covers(theirs.host, rule.host) or covers(rule.host, theirs.host)
        ]
        if touched and not any(_rule_within(rule, theirs) for theirs in touched):
            yield Widening(
                ("request_rules", index), ("request_rules",), "methods and paths within one rule there"
            )
    for index, theirs in enumerate(operator):
        if not any(covers(rule.host, theirs.host) for rule in override.request_rules):
            yield Widening(
                ("request_rules",),
                ("request_rules", index),
                f"a list that has a rule for all of {theirs.host}",
            )


def _rule_within(inner: RequestRule, outer: RequestRule) -> bool:
    return (
        covers(outer.host, inner.host)
        and _all_within(inner.methods, outer.methods)
        and (outer.paths is None or (inner.paths is not None and _paths_within(inner.paths, outer.paths)))
    )


def _all_within(inner: Iterable[str] | None, outer: Iterable[str] | None) -> bool:
    return outer is None or (inner is not None and set(inner) <= set(outer))


def _paths_within(inner: Iterable[str], outer: Iterable[str]) -> bool:
    return all(any(_path_covers(pattern, path) for pattern in outer) for path in inner)


def _path_covers(pattern: str, path: str) -> bool:
    """True if every path that `path` names is named by `pattern`; what a star covers is for the engine."""
    if path.endswith("/*"):
        return pattern.endswith("/*") and path.startswith(pattern[:-1])
    rule = policy.RequestRule("host.example", paths=(pattern,))
    return rule.allows(parse_url(f"https://host.example{path}"), "GET")
