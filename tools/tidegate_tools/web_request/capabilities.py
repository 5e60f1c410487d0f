"""What a runtime holds for each agent: its tools, built once, and what is told of them when it starts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Unpack

from tidegate_tools.registry import ToolRegistry, ToolSpec
from tidegate_tools.web_request.merge import ResolvedAgent
from tidegate_tools.web_request.tool import NAME, BuildOptions, create_web_request_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCapabilities:
    """The tools of one agent, each kind in a channel of its own (W-62, W-G3).

    A host has further kinds: sandbox tools made for each session, tools of its user. Those are its own to
    carry; what is here is the same for every way into the agent.

    Attributes:
        agent: its name.
        web_request_tools: one tool; none if it is off for this agent, or if all tools are.
    """

    agent: str
    web_request_tools: tuple[ToolSpec, ...] = field(default=(), repr=False)

    def __iter__(self) -> Iterator[ToolSpec]:
        """All tools, of every channel."""
        return iter(self.web_request_tools)

    def registry(self) -> ToolRegistry:
        """A registry of exactly these tools, for `dispatch`."""
        registry = ToolRegistry()
        for tool in self:
            registry.register(tool)
        return registry


def build_capabilities(agent: ResolvedAgent, **options: Unpack[BuildOptions]) -> AgentCapabilities:
    """Build the tools of an agent, once, when it is registered. Needs no event loop; blocks for vaults.

    Args:
        agent: from `resolve_agent` or `load_project`.
        options: see `BuildOptions`.

    Raises:
        BuildError: a secret, a nameserver or a certificate that the configuration refers to cannot be had
            (AMB-95). The agent then has no tool, rather than one that works by half.
    """
    tools = create_web_request_tools(
        agent.web_request_config if agent.web_request_enabled else None,
        agent=agent.name,
        bad_ports_refused=agent.bad_ports_refused,
        **options,
    )
    return AgentCapabilities(agent=agent.name, web_request_tools=tools)


def startup_summary(agents: Iterable[AgentCapabilities]) -> dict[str, list[str]]:
    """What a runtime logs of its system tools when it starts: `system_tools_used`.

    `web_request` is listed if at least one agent has it, not if it is merely not turned off (AMB-98).
    """
    used = any(agent.web_request_tools for agent in agents)
    return {"system_tools_used": [NAME] if used else []}
