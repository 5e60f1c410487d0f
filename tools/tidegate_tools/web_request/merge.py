"""What holds for one agent: the operator's configuration, its own front matter, and which of them decided."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidegate_tools.web_request.ceiling import widenings
from tidegate_tools.web_request.config import WebRequestAgentOverride, WebRequestConfig
from tidegate_tools.web_request.document import Document
from tidegate_tools.web_request.explain import shown
from tidegate_tools.web_request.files import AgentSpec, GlobalConfig
from tidegate_tools.web_request.loading import AGENT_SUFFIX, GLOBAL_FILE, Loaded
from tidegate_tools.web_request.mistakes import ConfigError, KeyPath, Mistake

_BLOCK: Final[KeyPath] = ("system_tools", "web_request")
BUILT_IN: Final = "built-in default"
"""What decides where no file says anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedAgent:
    """One agent, with what `web_request` may do for it. Holds references to secrets, never a secret.

    Attributes:
        name: what the agent is called by: its file name without `.agent.md`.
        web_request_config: the configuration that holds for it; None if the tool is off for it (W-58).
        tools_disabled: `tools: false` is set; no tool is built, whatever the configuration (G5, W-63).
        bad_ports_refused: keep refusing the WHATWG bad ports on listed hosts too. A listed host may be
            reached on any port (D-11), and under a ceiling without a list an agent must not get there by
            listing hosts itself.
        decided_by: for `web_request` (on or off) and, if it is on, for each of its settings: `file:line` of
            what decides it, or "built-in default".
        warnings: what deserves a second look in the agent's own file.
    """

    name: str
    web_request_config: WebRequestConfig | None
    tools_disabled: bool = False
    bad_ports_refused: bool = False
    decided_by: dict[str, str] = field(default_factory=dict)
    warnings: tuple[Mistake, ...] = ()

    @property
    def web_request_enabled(self) -> bool:
        """True if the tool is to be built for this agent."""
        return self.web_request_config is not None and not self.tools_disabled


def resolve_agent(agent: Loaded[AgentSpec], global_config: Loaded[GlobalConfig]) -> ResolvedAgent:
    """Merge one agent with the operator's configuration.

    Raises:
        ConfigError: the agent goes beyond a ceiling; every widening names both places.
    """
    config = _resolve_web_request(
        agent.value, global_config.value, agent_place=agent, global_place=global_config
    )
    return ResolvedAgent(
        name=agent_name(agent.document.file),
        web_request_config=config,
        tools_disabled=agent.value.tools_disabled or global_config.value.tools_disabled,
        bad_ports_refused=_lists_under_open_ceiling(agent.value, global_config.value),
        decided_by=_decided_by(config, agent, global_config),
        warnings=(*agent.warnings, *_in_vain(agent, global_config)),
    )


def agent_name(file: str) -> str:
    """The name an agent is called by: its file name without `.agent.md`."""
    return Path(file).name[: -len(AGENT_SUFFIX)]


def _resolve_web_request(
    spec: AgentSpec,
    global_config: GlobalConfig,
    *,
    agent_place: Loaded[AgentSpec] | None = None,
    global_place: Loaded[GlobalConfig] | None = None,
) -> WebRequestConfig | None:
    """The configuration of `web_request` that holds for an agent; None if it is off (W-59..W-61).

    Unlike the sandbox it is on when nobody says anything. Globally false turns it off for all, and no agent
    turns it on again (AMB-78); an agent's false turns it off for that agent. An agent's mapping replaces
    field by field, `auth` as a whole, and may widen (A4) unless `allow_agent_override` is false.

    Args:
        spec: the agent's front matter.
        global_config: the operator's configuration.
        agent_place: where `spec` came from, for messages.
        global_place: where `global_config` came from.

    Raises:
        ConfigError: the agent goes beyond a ceiling.
    """
    base = _operator_config(global_config)
    setting = spec.web_request
    if base is None or setting is False:
        return None
    if not isinstance(setting, WebRequestAgentOverride):
        return base
    if not base.allow_agent_override:
        _refuse_widenings(setting, base, agent_place, global_place)
    return base.model_copy(update=setting.given())


def _operator_config(global_config: GlobalConfig) -> WebRequestConfig | None:
    if isinstance(global_config.web_request, WebRequestConfig):
        return global_config.web_request
    return None if global_config.web_request is False else WebRequestConfig()


def _lists_under_open_ceiling(spec: AgentSpec, global_config: GlobalConfig) -> bool:
    base, setting = _operator_config(global_config), spec.web_request
    return (
        base is not None
        and not base.allow_agent_override
        and base.allowed_hosts is None
        and isinstance(setting, WebRequestAgentOverride)
        and setting.allowed_hosts is not None
    )


def _refuse_widenings(
    setting: WebRequestAgentOverride,
    base: WebRequestConfig,
    agent_place: Loaded[AgentSpec] | None,
    global_place: Loaded[GlobalConfig] | None,
) -> None:
    document = agent_place.document if agent_place else Document("")
    mistakes = []
    for widening in widenings(setting, base):
        path = (*_BLOCK, *widening.path)
        ceiling = _said(global_place, (*_BLOCK, *widening.ceiling))
        lock = _said(global_place, (*_BLOCK, "allow_agent_override"))
        mistakes.append(
            document.mistake(
                path,
                f"goes beyond {ceiling}, and allow_agent_override is false ({lock})",
                found=shown(document.at(path), path) if agent_place else None,
                allowed=widening.allowed,
            )
        )
    if mistakes:
        raise ConfigError(mistakes)


def _said(place: Loaded[Any] | None, path: KeyPath) -> str:
    """`agents.config.yaml:7` if the setting stands there, else that it is a default."""
    if place is None:
        return GLOBAL_FILE
    if path in place.document.lines:
        return place.place(path)
    return f"the default of {path[-1]} in {place.document.file}"


# Which setting decides ------------------------------------------------------------------------------------


def _decided_by(
    config: WebRequestConfig | None, agent: Loaded[AgentSpec], global_config: Loaded[GlobalConfig]
) -> dict[str, str]:
    decided = {"web_request": _switched_by(agent, global_config)}
    for name in WebRequestConfig.model_fields if config is not None else ():
        path = (*_BLOCK, name)
        places = (place.place(path) for place in (agent, global_config) if path in place.document.lines)
        decided[name] = next(places, BUILT_IN)
    return decided


def _switched_by(agent: Loaded[AgentSpec], global_config: Loaded[GlobalConfig]) -> str:
    """What turns the tool off, if something does, the operator's word first; else the nearest block."""
    switches = (("tools",), ("system_tools",), _BLOCK)
    off = (
        place.place(path)
        for place in (global_config, agent)
        for path in switches
        if path in place.document.lines and place.document.at(path) is False
    )
    blocks = (place.place(_BLOCK) for place in (agent, global_config) if _BLOCK in place.document.lines)
    return next(itertools.chain(off, blocks), BUILT_IN)


def _in_vain(agent: Loaded[AgentSpec], global_config: Loaded[GlobalConfig]) -> tuple[Mistake, ...]:
    """A warning for an agent that turns on, or sets up, what the operator has turned off for all (AMB-78)."""
    if global_config.value.web_request is not False or agent.value.web_request in (None, False):
        return ()
    off = _switched_by(agent, global_config)
    return (agent.document.mistake(_BLOCK, f"has no effect: web_request is turned off by {off}"),)
