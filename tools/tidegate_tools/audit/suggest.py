"""The host list that the traffic of a log would need."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tidegate._policy.host import HostList
from tidegate_tools.audit.lines import Line
from tidegate_tools.audit.summary import REFUSED, requests_of, series_of

_LET_OUT: Final = ("allowed", "would_deny")

NOTHING: Final = (
    "# Nothing to suggest: no line of this log is of a request that was let out, or would have been.\n"
)
"""Instead of an empty list, which as a setting would refuse every host."""


@dataclass(slots=True)
class Wanted:
    """A host that the list would have to name.

    Attributes:
        requests: how many went there.
        last: when the last one did, in seconds since the epoch.
    """

    requests: int = 0
    last: float = 0.0

    def add(self, line: Line) -> None:
        """Count one request."""
        self.requests += 1
        self.last = max(self.last, line.time)


@dataclass(slots=True)
class Suggestion:
    """Hosts by name.

    Attributes:
        hosts: those that requests of the log reached, or would have.
        refused: those that a host list refused, and nothing else; they are not among `hosts`.
        unusable: names in the log that no host list takes.
        unsent: calls of tools that were refused before they sent a request: what they wanted is unknown.
        missing: requests that calls say they sent, and that have no line: their hosts are unknown.
    """

    hosts: dict[str, Wanted] = field(default_factory=dict)
    refused: dict[str, Wanted] = field(default_factory=dict)
    unusable: set[str] = field(default_factory=set)
    unsent: int = 0
    missing: int = 0


def suggest(lines: Iterable[Line]) -> Suggestion:
    """What a log asks for. What the floor refused is never suggested: no list could let it out.

    Lines of tool calls suggest nothing. The host of such a line is that of the call's first request, but its
    decision and its reason may be about a later one: a redirect to a host that the list on trial lacks, or
    that a grant does not cover (`net_denied`). Each request has a line of its own, and that one is heard.
    """
    found = Suggestion()
    claimed = seen = 0
    for line in lines:
        if line.event == "hop":
            seen += 1
            _take(found, line)
        elif line.event == "call":
            claimed += requests_of(line)
            found.unsent += not requests_of(line) and series_of(line) in REFUSED
    found.missing = max(claimed - seen, 0)
    found.refused = {host: wanted for host, wanted in found.refused.items() if host not in found.hosts}
    return found


def _take(found: Suggestion, line: Line) -> None:
    host = line.text("host")
    if host is None:
        return
    if line.text("decision") in _LET_OUT:
        _add(found, found.hosts, host, line)
    elif line.text("reason") == "not_in_allowlist":
        _add(found, found.refused, host, line)


def _add(found: Suggestion, into: dict[str, Wanted], text: str, line: Line) -> None:
    host = _canonical(text)
    if host is None:
        found.unusable.add(text[:253])
        return
    into.setdefault(host, Wanted()).add(line)


def _canonical(text: str) -> str | None:
    """The host as a list would have it; None for a pattern too, which no log of ours holds."""
    try:
        [host] = HostList([text]).patterns
    except ValueError:
        return None
    return None if "*" in host else host


def as_yaml(hosts: dict[str, Wanted]) -> str:
    """The list as the configuration of `web_request` takes it, the busiest host first; or `NOTHING`."""
    if not hosts:
        return NOTHING
    names = sorted(hosts, key=lambda host: (-hosts[host].requests, host))
    width = max(map(len, names)) + 2
    rows = ["allowed_hosts:"]
    for name in names:
        wanted = hosts[name]
        day = datetime.fromtimestamp(wanted.last, UTC).date().isoformat()
        plural = "" if wanted.requests == 1 else "s"
        quoted = f'"{name}"'
        rows.append(f"  - {quoted:<{width}}  # {wanted.requests} request{plural}, the last on {day}")
    return "\n".join(rows) + "\n"
