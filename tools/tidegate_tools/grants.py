"""Grants: which tools an agent may call and which hosts it may reach (RFC 0005, decisions section C).

The store only answers; who enforces is `dispatch` for tools and the engine's `authorize` question for hosts.
The default is no: an agent without a row, a host that is no host, a pattern that means nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from tidegate import Authorize
from tidegate._policy.host import GrantPatterns
from tidegate.portal import in_caller
from tidegate_tools.registry import Kernel, ToolContext, quoted

# The grant of everything, of tools and of hosts alike. Only this very text lets a child be given anything.
EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Grants:
    """What one agent holds.

    Attributes:
        tool_grants: names of tools, case-sensitive (`Fetch`, not `fetch`), or `*` for all.
        net_grants: host patterns. `example.com`: that host. `*.example.com`: exactly one label more, not
            `example.com`. `**.example.com`: any depth and `example.com`. `*`: all. No ports, no CIDR. They
            are not the operator's `allowed_hosts`, where `*.` has another meaning (X-3). Case, one final dot
            and the script of a name make no difference (AMB-28); a pattern that is no host covers nothing.

    Raises:
        TypeError: either of them is one text, which would count as a list of letters, or holds anything that
            is no text.
    """

    tool_grants: Collection[str] = ()
    net_grants: Collection[str] = ()

    def __post_init__(self) -> None:
        for name in ("tool_grants", "net_grants"):
            given = getattr(self, name)
            texts = None if isinstance(given, str) else frozenset(given)
            if texts is None or not all(isinstance(text, str) for text in texts):
                raise TypeError(f"{name} is a collection of texts, such as ['Fetch'] or ['example.com'].")
            object.__setattr__(self, name, texts)


class CapabilityDerivationError(Exception):
    """A child was to be given more than its parent holds; it was given nothing.

    Attributes:
        code: the JSON-RPC error code of the kernels.
        tool_grants: the tool grants that the parent does not hold, sorted.
        net_grants: the net grants that the parent does not hold, sorted.
    """

    code: ClassVar[int] = -32111

    def __init__(self, tool_grants: Collection[str], net_grants: Collection[str]) -> None:
        super().__init__(tool_grants, net_grants)
        self.tool_grants = tuple(sorted(tool_grants))
        self.net_grants = tuple(sorted(net_grants))

    def __str__(self) -> str:
        missing = [f"tool grant {quoted(name)}" for name in self.tool_grants]
        missing += [f"net grant {quoted(pattern)}" for pattern in self.net_grants]
        return f"A parent cannot pass on what it does not hold in the same words: {', '.join(missing)}."


@dataclass(frozen=True, slots=True)
class _Row:
    """The grants of one agent, with the host patterns made ready once and not for every question."""

    grants: Grants
    hosts: GrantPatterns


_NOTHING = _Row(Grants(), GrantPatterns(()))


class GrantStore:
    """The capability store of a kernel: grants by pid. Use it as `kernel.cap`.

    A row stays when its agent ends, and the checks go on answering (RFC 0005): a late call of an agent that
    is gone is judged like any other. A pid is anything hashable.
    """

    def __init__(self) -> None:
        self._rows: dict[Any, _Row] = {}

    def grant(self, pid: Any, grants: Grants) -> None:
        """Give an agent exactly these grants, in place of any that it had. For the kernel, not for agents."""
        self._rows[pid] = _Row(grants, GrantPatterns(tuple(grants.net_grants)))

    def derive(self, parent: Any, child: Any, grants: Grants) -> None:
        """Give a child these grants, if its parent holds each of them, in the same words.

        Words, not meaning: `api.example.com` cannot be derived from `*.example.com`. Only a parent that holds
        `*` may pass on anything, tools and hosts apart. A parent without a row holds nothing.

        Raises:
            CapabilityDerivationError: it holds less; the child's row is left as it was.
        """
        held = self._row(parent).grants
        missing_tools = _not_held(held.tool_grants, grants.tool_grants)
        missing_hosts = _not_held(held.net_grants, grants.net_grants)
        if missing_tools or missing_hosts:
            raise CapabilityDerivationError(missing_tools, missing_hosts)
        self.grant(child, grants)

    def check_tool(self, pid: Any, name: object) -> bool:
        """Whether the agent may call the tool of exactly that name. Never raises."""
        held = self._row(pid).grants.tool_grants
        return isinstance(name, str) and name != "" and (name in held or EVERYTHING in held)

    def check_net(self, pid: Any, host: object) -> bool:
        """Whether the agent may reach that host, in any spelling that a URL may have. Never raises.

        A yes is no promise: the engine's own floor refuses addresses whatever the grants say (AMB-27).
        """
        return isinstance(host, str) and self._row(pid).hosts.covers(host)

    def _row(self, pid: Any) -> _Row:
        try:
            return self._rows.get(pid, _NOTHING)
        # An unhashable pid can have no row.
        except TypeError:
            return _NOTHING


def _not_held(held: Collection[str], wanted: Collection[str]) -> set[str]:
    return set() if EVERYTHING in held else set(wanted) - set(held)


def net_grants_of(ctx: ToolContext) -> Authorize | None:
    """The question that the engine asks on every hop before DNS (F-63, F-68); None without a kernel (F-92).

    The engine takes only True for a yes, and an exception for a no.
    """
    return None if ctx.kernel is None else partial(_check_net, ctx.kernel, ctx.pid)


async def _check_net(kernel: Kernel, pid: object, host: str) -> bool:
    return await in_caller(kernel.cap.check_net, pid, host)
