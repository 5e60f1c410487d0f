"""JSON Schemas of the two configuration files, for editors and for the reference."""

from collections.abc import Iterable
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from tidegate_tools.web_request.files import (
    AGENT_HOST_KEYS,
    GLOBAL_HOST_KEYS,
    SYSTEM_TOOL_HOST_KEYS,
    AgentSpec,
    GlobalConfig,
)

_DIALECT: Final = GenerateJsonSchema.schema_dialect
_OF_THE_HOST: Final = {"description": "Read by other parts of the agent runtime; not checked here."}


def config_schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schemas (2020-12) of `agents.config.yaml` and of the front matter of `*.agent.md`.

    They hold what a schema can: hosts, ranges, suffixes and names of header fields are checked further when
    the files are loaded.
    """
    return {
        "agents.config.yaml": _schema(GlobalConfig, "agents.config.yaml", GLOBAL_HOST_KEYS),
        "*.agent.md": _schema(AgentSpec, "Front matter of *.agent.md", AGENT_HOST_KEYS),
    }


def _schema(model: type[BaseModel], title: str, host_keys: Iterable[str]) -> dict[str, Any]:
    schema = model.model_json_schema()
    _add_keys(schema, host_keys)
    for name, definition in schema["$defs"].items():
        if name.startswith("SystemTools"):
            _add_keys(definition, SYSTEM_TOOL_HOST_KEYS)
        else:
            _refuse_null(definition)
    # Nothing at all, after `system_tools:`, is as if the key were left out.
    schema["properties"]["system_tools"]["oneOf"].append({"type": "null"})
    tidied: dict[str, Any] = _tidied({"$schema": _DIALECT, **schema, "title": title})
    return tidied


def _tidied(value: Any) -> Any:
    """Descriptions on one line: in the source they are wrapped docstrings."""
    if isinstance(value, list):
        return [_tidied(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: " ".join(item.split()) if key == "description" and isinstance(item, str) else _tidied(item)
        for key, item in value.items()
    }


def _add_keys(schema: dict[str, Any], keys: Iterable[str]) -> None:
    schema["properties"] |= {key: dict(_OF_THE_HOST) for key in sorted(keys)}


def _refuse_null(definition: dict[str, Any]) -> None:
    """In Python None means "not set"; in a file a key without a value is a mistake."""
    for field in definition.get("properties", {}).values():
        if "anyOf" in field:
            options = [option for option in field.pop("anyOf") if option != {"type": "null"}]
            field |= options[0] if len(options) == 1 else {"anyOf": options}
        if field.get("default", ...) is None:
            del field["default"]
