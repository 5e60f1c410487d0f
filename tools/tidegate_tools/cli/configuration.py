"""Configurations of `web_request` for commands: loaded, or refused in the words of the command."""

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate_tools.cli.exits import CommandError, UsageError

if TYPE_CHECKING:
    from tidegate_tools.cli.operator_options import OperatorOptions
    from tidegate_tools.cli.watch import Watch
    from tidegate_tools.web_request.capabilities import AgentCapabilities
    from tidegate_tools.web_request.merge import ResolvedAgent
    from tidegate_tools.web_request.mistakes import Mistake
    from tidegate_tools.web_request.project import Project


class ConfigurationRefused(UsageError):
    """A configuration with mistakes; `mistakes` are all of them."""

    def __init__(self, path: str, mistakes: "tuple[Mistake, ...]") -> None:
        self.mistakes = mistakes
        super().__init__(f"{self.count} in {path}: {'; '.join(map(str, mistakes))}")

    @property
    def count(self) -> str:
        """How many there are, in words."""
        return "1 mistake" if len(self.mistakes) == 1 else f"{len(self.mistakes)} mistakes"


def require_extra() -> None:
    """See that the configuration can be read at all.

    Raises:
        CommandError: the extra `config` is not installed.
    """
    try:
        import tidegate_tools.web_request.project  # noqa: F401  # only to see whether it can be
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in (
            "pydantic",
            "ruamel",
            "publicsuffixlist",
        ):
            raise
        raise CommandError(
            f"{error.name} is not installed: pip install 'tidegate[config]'", reason="missing_extra"
        ) from None


def load(path: str) -> "Project":
    """A project folder, or a file `agents.config.yaml` with the agents beside it.

    Raises:
        ConfigurationRefused: there are mistakes.
        CommandError: the extra `config` is not installed.
    """
    require_extra()
    from tidegate_tools.web_request.mistakes import ConfigError
    from tidegate_tools.web_request.project import load_project

    try:
        return load_project(path)
    except ConfigError as error:
        raise ConfigurationRefused(path, error.mistakes) from None


def agent_in(project: "Project | None", name: str | None) -> "ResolvedAgent":
    """One agent of a project.

    Args:
        project: None for the defaults, as if there were no file at all.
        name: of the agent; None for one whose front matter says nothing.

    Raises:
        UsageError: there is no such agent.
    """
    from tidegate_tools.registry import did_you_mean
    from tidegate_tools.web_request.document import Document
    from tidegate_tools.web_request.files import AgentSpec, GlobalConfig
    from tidegate_tools.web_request.loading import Loaded
    from tidegate_tools.web_request.merge import resolve_agent

    agents = project.agents if project is not None else {}
    if name is None:
        nobody = Loaded(AgentSpec(), Document(""))
        operator = project.global_config if project is not None else Loaded(GlobalConfig(), Document(""))
        return resolve_agent(nobody, operator)
    if name not in agents:
        known = f"; there are {', '.join(agents)}" if agents else "; there are none"
        raise UsageError(f"there is no agent {name!r}{known}.{did_you_mean(name, agents)}".rstrip("."))
    return agents[name]


def capabilities_of(
    config: str | None, name: str | None, options: "OperatorOptions", watch: "Watch"
) -> "AgentCapabilities":
    """An agent with `web_request` in its hands, watched. Of the operator's options it takes --resolve alone.

    Args:
        config: folder or file of the configuration; None for the defaults.
        name: of the agent; see `agent_in`.
        options: the operator's.
        watch: what tells of its calls.

    Raises:
        CommandError: the tool is off for this agent, cannot be built, or lacks the extra `config`.
        UsageError: there is no such agent, or the configuration holds mistakes.
    """
    require_extra()
    from tidegate_tools.telemetry import record_web_request
    from tidegate_tools.web_request.capabilities import build_capabilities
    from tidegate_tools.web_request.tool import BuildError, policy_of

    agent = agent_in(load(config) if config is not None else None, name)
    if agent.web_request_config is None or not agent.web_request_enabled:
        raise CommandError(f"web_request is off here: {agent.decided_by['web_request']}", reason="tool_off")
    policy = policy_of(agent.web_request_config, bad_ports_refused=agent.bad_ports_refused)
    try:
        built = build_capabilities(
            agent,
            resolver=options.prepare().resolver if options.resolve else None,
            observer=watch.observer(policy),
            record=record_web_request,
        )
    except BuildError as error:
        raise CommandError(str(error), reason="build_failed") from None
    return replace(built, web_request_tools=tuple(map(watch.observed, built)))
