"""What one agent may reach, setting by setting, with the line that says so: for `tidegate config check`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tidegate_tools.web_request.config import PrivateRangeRule, RequestRule, WebRequestConfig, effective_caps
from tidegate_tools.web_request.merge import ResolvedAgent


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of an agent, as it holds after merging, defaults and ceilings.

    Attributes:
        name: as it is called in the files.
        holds: what it comes to, for people. Secrets stand there as their references.
        decided_by: `file:line`, or "built-in default".
    """

    name: str
    holds: str
    decided_by: str


def reach_of(agent: ResolvedAgent) -> Iterator[Setting]:
    """Every setting of an agent; `web_request` alone if the tool is off for it."""
    decided_by = agent.decided_by
    switch = "on" if agent.web_request_enabled else "off"
    yield Setting("web_request", switch, decided_by["web_request"])
    if agent.web_request_config is None or not agent.web_request_enabled:
        return
    for name, words in _WORDS.items():
        yield Setting(name, words(agent.web_request_config), decided_by[name])
    if agent.bad_ports_refused:
        yield Setting("(ports)", "those of other protocols stay refused", decided_by["allow_agent_override"])


def _hosts(config: WebRequestConfig) -> str:
    if config.allowed_hosts is None:
        return "any public host"
    return ", ".join(config.allowed_hosts) or "no host at all"


def _trial(config: WebRequestConfig) -> str:
    if not config.report_only:
        return "allowed_hosts is enforced"
    if config.allowed_hosts is None:
        return "nothing is on trial: there is no list"
    return "allowed_hosts is on trial: what it refuses passes, and is logged"


def _auth(config: WebRequestConfig) -> str:
    profiles = (
        f"{profile.host} gets {', '.join(f'{name} {ref}' for name, ref in profile.headers.items())}"
        for profile in config.auth or ()
    )
    return "; ".join(profiles) or "no credentials"


def _request_rules(config: WebRequestConfig) -> str:
    return "; ".join(map(_request_rule, config.request_rules or ())) or "any method, any path"


def _request_rule(rule: RequestRule) -> str:
    return (
        f"{rule.host}: {', '.join(rule.methods or ['any method'])} on {', '.join(rule.paths or ['any path'])}"
    )


def _private_ranges(config: WebRequestConfig) -> str:
    return "; ".join(map(_private_range, config.private_ranges)) or "none"


def _private_range(rule: PrivateRangeRule) -> str:
    return f"{rule.cidr} for {', '.join(rule.hosts)}"


def _capped(name: str, unit: str) -> Callable[[WebRequestConfig], str]:
    """What is in force of a cap, and what was asked for if that is more than can be had."""
    attribute = name.removesuffix("_seconds")

    def words(config: WebRequestConfig) -> str:
        given, effective = getattr(config, name), getattr(effective_caps(config), attribute)
        asked = f" ({given:.15g} is more than can be had)" if given is not None and given > effective else ""
        return f"{effective:.15g} {unit}{asked}"

    return words


def _redirects(config: WebRequestConfig) -> str:
    words = _capped("max_redirects", "followed, each checked afresh")
    return words(config) if config.max_redirects else "not followed"


_WORDS: Final[dict[str, Callable[[WebRequestConfig], str]]] = {
    "allowed_hosts": _hosts,
    "report_only": _trial,
    "require_https": lambda config: "https only" if config.require_https else "https and http",
    "request_rules": _request_rules,
    "private_ranges": _private_ranges,
    "auth": _auth,
    "max_redirects": _redirects,
    "timeout_seconds": _capped("timeout_seconds", "s"),
    "max_request_bytes": _capped("max_request_bytes", "bytes"),
    "max_response_bytes": _capped("max_response_bytes", "bytes"),
    "nameservers": lambda config: ", ".join(config.nameservers or ()) or "the system's resolver",
    "ca_file": lambda config: f"{config.ca_file}, beside the system's" if config.ca_file else "the system's",
    "allow_agent_override": lambda config: (
        "agents may widen this" if config.allow_agent_override else "agents may only narrow this"
    ),
}
"""How each setting is put into words."""
