"""A small runtime: the agents of a project folder with their tools, to be called by name.

    runtime = load_runtime("my-project")                                     # no event loop needed
    result = await runtime.call("crm", "web_request", {"url": "https://api.example.com/"})          # trio
    result = await portal.run(runtime.call, "crm", "web_request", {"url": ...})                     # asyncio
    result = portal.run_sync(runtime.call, "crm", "web_request", {"url": ...})                      # threads

with a `tidegate.portal.Portal`. Whatever the way in, it is the same tool, built once (W-64).
"""

import os
from collections.abc import Collection, Mapping
from typing import Any, Unpack

from tidegate_tools.registry import ToolContext, ToolNotFound, ToolResult, ToolSpec, did_you_mean, quoted
from tidegate_tools.web_request.capabilities import AgentCapabilities, build_capabilities, startup_summary
from tidegate_tools.web_request.project import Project, load_project
from tidegate_tools.web_request.tool import BuildError, BuildOptions


class Runtime:
    """The agents of a project with their tools. Made by `load_runtime`, or of a project that is loaded.

    Args:
        project: the agents, resolved.
        options: see `BuildOptions`.

    Raises:
        BuildError: tools of one or more agents cannot be built; all problems are listed, by agent.
    """

    def __init__(self, project: Project, **options: Unpack[BuildOptions]) -> None:
        self.project = project
        self.agents: Mapping[str, AgentCapabilities] = _built(project, options)
        self._registries = {name: agent.registry() for name, agent in self.agents.items()}

    def __repr__(self) -> str:
        return f"<Runtime of {', '.join(self.project.agents) or 'no agents'}>"

    @property
    def summary(self) -> dict[str, list[str]]:
        """See `startup_summary`."""
        return startup_summary(self.agents.values())

    async def call(self, agent: str, tool: str, args: Mapping[str, Any]) -> ToolResult:
        """Call a tool of an agent.

        Args:
            agent: its name.
            tool: the tool's name.
            args: its arguments; what is wrong with them is a result, too.

        Returns:
            The result; `to_json()` of it is what a model gets. An agent or a tool that is not there is a
            failure of the kind `tool_not_found`.
        """
        try:
            return await self._tool(agent, tool).call(args, ToolContext(pid=agent))
        except ToolNotFound as error:
            return ToolResult.failure(error)

    def _tool(self, agent: str, tool: str) -> ToolSpec:
        registry = self._registries.get(agent)
        if registry is None:
            raise ToolNotFound(f"There is no agent {quoted(agent)}.{did_you_mean(agent, self._registries)}")
        return registry.get(tool)


def load_runtime(
    path: str | os.PathLike[str], *, host_keys: Collection[str] = (), **options: Unpack[BuildOptions]
) -> Runtime:
    """Load, merge and build everything in a project folder. Needs no event loop; blocks for vaults.

    Args:
        path: as of `load_project`.
        host_keys: as of `load_project`.
        options: see `BuildOptions`; its `environment` is also what the files are read with.

    Raises:
        ConfigError: the files hold mistakes; all of them are listed.
        BuildError: as of `Runtime`.
    """
    project = load_project(path, environment=options.get("environment"), host_keys=host_keys)
    return Runtime(project, **options)


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
