"""A small runtime: the agents of a project folder with their tools, to be called by name.

    runtime = load_runtime("my-project")                                     # no event loop needed
    result = await runtime.call("crm", "web_request", {"url": "https://api.example.com/"})          # trio
    result = await portal.run(runtime.call, "crm", "web_request", {"url": ...})                     # asyncio
    result = portal.run_sync(runtime.call, "crm", "web_request", {"url": ...})                      # threads

with a `tidegate.portal.Portal`. Whatever the way in, it is the same tool, built once (W-64).
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Unpack

from tidegate_tools.dispatch import AuditEvent, dispatch_result
from tidegate_tools.registry import ToolNotFound, ToolRegistry, ToolResult, ToolSpec, did_you_mean, quoted
from tidegate_tools.web_request.capabilities import AgentCapabilities, build_capabilities, startup_summary
from tidegate_tools.web_request.project import Project, load_project
from tidegate_tools.web_request.tool import BuildError, BuildOptions


class Runtime:
    """The agents of a project with their tools. Made by `load_runtime`, or of a project that is loaded.

    Args:
        project: the agents, resolved.
        audit: told of each `call` once, refused ones too, agents and tools that there are not included; see
            `dispatch`.
        options: see `BuildOptions`.

    Raises:
        BuildError: tools of one or more agents cannot be built; all problems are listed, by agent.
    """

    def __init__(
        self,
        project: Project,
        *,
        audit: Callable[[AuditEvent], object] | None = None,
        **options: Unpack[BuildOptions],
    ) -> None:
        self.project = project
        self._audit = audit
        self.agents: Mapping[str, AgentCapabilities] = _built(project, options)
        self._registries = {name: agent.registry() for name, agent in self.agents.items()}

    def __repr__(self) -> str:
        return f"<Runtime of {', '.join(self.project.agents) or 'no agents'}>"

    @property
    def summary(self) -> dict[str, list[str]]:
        """See `startup_summary`."""
        return startup_summary(self.agents.values())

    async def call(
        self, agent: str, tool: str, args: Mapping[str, Any], *, tool_call_id: str | int = ""
    ) -> ToolResult:
        """Call a tool of an agent.

        Args:
            agent: its name.
            tool: the tool's name.
            args: its arguments; what is wrong with them is a result, too.
            tool_call_id: the caller's own mark of this call, for `audit`.

        Returns:
            The result; `to_json()` of it is what a model gets. An agent or a tool that is not there is a
            failure of the kind `tool_not_found`.
        """
        registry = self._registries.get(agent)
        if registry is None:
            registry = _NoAgent(agent, self._registries)
        message = {"tool": tool, "args": args, "tool_call_id": tool_call_id}
        return await dispatch_result(message, registry, pid=agent, audit=self._audit)


class _NoAgent(ToolRegistry):
    """What is registered for an agent that there is not: nothing, and it says why."""

    def __init__(self, agent: str, known: Iterable[str]) -> None:
        super().__init__()
        self._problem = f"There is no agent {quoted(agent)}.{did_you_mean(agent, known)}"

    def get(self, name: str) -> ToolSpec:
        raise ToolNotFound(self._problem)


def load_runtime(
    path: str | os.PathLike[str],
    *,
    host_keys: Collection[str] = (),
    audit: Callable[[AuditEvent], object] | None = None,
    **options: Unpack[BuildOptions],
) -> Runtime:
    """Load, merge and build everything in a project folder. Needs no event loop; blocks for vaults.

    Args:
        path: as of `load_project`.
        host_keys: as of `load_project`.
        audit: as of `Runtime`.
        options: see `BuildOptions`; its `environment` is also what the files are read with.

    Raises:
        ConfigError: the files hold mistakes; all of them are listed.
        BuildError: as of `Runtime`.
    """
    project = load_project(path, environment=options.get("environment"), host_keys=host_keys)
    return Runtime(project, audit=audit, **options)


def _built(project: Project, options: BuildOptions) -> dict[str, AgentCapabilities]:
    built: dict[str, AgentCapabilities] = {}
    problems: list[str] = []
    for name, agent in project.agents.items():
        try:
            built[name] = build_capabilities(agent, **options)
        except BuildError as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
    if problems:
        raise BuildError(problems)
    return built
