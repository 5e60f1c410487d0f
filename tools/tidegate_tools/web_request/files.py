"""The two configuration files as values: `agents.config.yaml` and the front matter of a `*.agent.md`.

Both files also hold what other parts of an agent runtime read. Their keys are listed here by name and left
alone; every other unknown key is a mistake. Ignoring unknown keys would be friendlier to new hosts, but the
tool is on by default, so `sytem_tools: {web_request: false}` must not pass in silence. A host with more keys
names them when it loads the files (`host_keys`).
"""

from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, Tag, field_validator

from tidegate_tools.web_request.config import WebRequestAgentOverride, WebRequestConfig
from tidegate_tools.web_request.references import STRICT

SYSTEM_TOOL_HOST_KEYS: Final = frozenset({"dynamic_sessions_code_interpreter"})
"""Other system tools, in `system_tools` of both files."""

GLOBAL_HOST_KEYS: Final = frozenset({"model", "timeout", "http_auth"})
"""Other parts of `agents.config.yaml`."""

AGENT_HOST_KEYS: Final = frozenset({
    "trigger", "builtin_endpoints", "debug", "http_auth", "model", "timeout", "logger", "mcp", "skills",
    "input_schema", "response_schema", "response_example", "metadata",
})  # fmt: skip
"""Other parts of an agent's front matter."""


def _is_switch(value: Any) -> str:
    """Mappings and models are configuration; whatever else stands there has to be a switch."""
    return "<object>" if isinstance(value, dict | BaseModel) else "<switch>"


_BY_SHAPE: Final = Discriminator(_is_switch)
_Switch: TypeAlias = Annotated[bool, Tag("<switch>")]


class SystemToolsConfig(BaseModel):
    """`system_tools` of `agents.config.yaml`."""

    model_config = STRICT

    web_request: Annotated[Annotated[WebRequestConfig, Tag("<object>")] | _Switch, _BY_SHAPE] | None = None
    """A mapping of settings; false turns the tool off for every agent; true, or left out, is on with
    defaults."""


class SystemToolsAgentOverride(BaseModel):
    """`system_tools` of one agent's front matter."""

    model_config = STRICT

    web_request: (
        Annotated[Annotated[WebRequestAgentOverride, Tag("<object>")] | _Switch, _BY_SHAPE] | None
    ) = None
    """false turns the tool off for this agent; a mapping sets single settings differently; true, or left out,
    inherits what agents.config.yaml says."""


def _check_tools(value: Any) -> Any:
    """`tools` belongs to the host, but for false, and for the hope that `exclude` reaches this tool."""
    excluded = value.get("exclude") if isinstance(value, dict) else None
    if isinstance(excluded, list) and "web_request" in excluded:
        raise ValueError(
            "excludes web_request, which is a system tool and stays on; set system_tools.web_request to false"
        )
    if isinstance(value, bool | dict | list | None):
        return value
    raise ValueError("must be true, false, or what the host takes as a filter")


_Tools: TypeAlias = Annotated[Any, BeforeValidator(_check_tools)]


class _File(BaseModel):
    model_config = STRICT

    tools: _Tools = None
    """false turns off every tool, web_request with them; else a filter of custom tools, for the host."""

    @property
    def tools_disabled(self) -> bool:
        """True for `tools: false` (G5)."""
        return self.tools is False


class GlobalConfig(_File):
    """`agents.config.yaml`, as far as `web_request` is concerned."""

    system_tools: Annotated[Annotated[SystemToolsConfig, Tag("<object>")] | _Switch, _BY_SHAPE] = Field(
        default_factory=SystemToolsConfig
    )
    """A mapping of system tools to their settings; false turns all of them off for every agent."""

    @field_validator("system_tools", mode="before")
    @classmethod
    def _nothing_is_default(cls, value: Any) -> Any:
        # `system_tools:` with every line below it commented out.
        return SystemToolsConfig() if value is None else value

    @property
    def web_request(self) -> WebRequestConfig | bool | None:
        """The block or switch of `web_request`; `system_tools: false` is false here too."""
        return self.system_tools if isinstance(self.system_tools, bool) else self.system_tools.web_request


class AgentSpec(_File):
    """The front matter of an agent, as far as `web_request` is concerned."""

    name: str | None = None
    """A text: the agent's name for people; the file name is what it is called by."""

    description: str | None = None
    """A text: what the agent is for."""

    substitute_variables: bool = True
    """true or false: whether $NAME and %NAME% in this front matter are replaced from the environment."""

    system_tools: Annotated[Annotated[SystemToolsAgentOverride, Tag("<object>")] | _Switch, _BY_SHAPE] = (
        Field(default_factory=SystemToolsAgentOverride)
    )
    """A mapping of system tools to what this agent sets differently; false turns all of them off for it."""

    @field_validator("system_tools", mode="before")
    @classmethod
    def _nothing_is_default(cls, value: Any) -> Any:
        return SystemToolsAgentOverride() if value is None else value

    @property
    def web_request(self) -> WebRequestAgentOverride | bool | None:
        """The block or switch of `web_request`; `system_tools: false` is false here too."""
        return self.system_tools if isinstance(self.system_tools, bool) else self.system_tools.web_request
