"""A JSON Schema as OpenAI's strict mode takes it, and arguments of that form turned back.

Strict mode knows objects of named keys only, all of them required, and no schema for just any value (notes on
frameworks, 2.1). So what may be left out may be null instead; an object of free names becomes a list of
`{name, value}`; and a value of any kind becomes a JSON text.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from tidegate_tools.registry import ToolInvalidArgs, quoted

_NULL: Final = {"type": "null"}

# Of what we use, strict mode is documented to take these. Each bound that goes is still checked by the tool.
_KEPT: Final = ("type", "enum", "minimum", "maximum", "description")


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The strict form of a schema of type object, array, or of one value. Nothing is shared with it."""
    if "anyOf" in schema:
        return {**_kept(schema), "anyOf": [strict_schema(option) for option in schema["anyOf"]]}
    if schema.get("type") == "array":
        return {**_kept(schema), "items": strict_schema(schema["items"])}
    if _is_map(schema):
        pair = {"name": {"type": "string"}, "value": strict_schema(schema["additionalProperties"])}
        return {**_kept(schema), "type": "array", "items": _closed(pair)}
    if schema.get("type") == "object":
        return {**_kept(schema), **_closed(_properties(schema))}
    if "type" not in schema:
        about = f"{schema.get('description', '')} Written as a JSON text.".strip()
        return {"type": "string", "description": about}
    return _kept(schema)


def from_strict(schema: Mapping[str, Any], value: Any) -> Any:
    """Arguments of the strict form in the form of `schema`.

    What does not fit is left as it is, for the tool to refuse in its own words.

    Args:
        schema: the one that `strict_schema` was given.
        value: what the model said.

    Raises:
        ToolInvalidArgs: a list of names and values is none, or has a name twice; a JSON text is none.
    """
    if "anyOf" in schema:
        options = [option for option in schema["anyOf"] if option.get("type") == _type(value)]
        return from_strict(options[0], value) if options else value
    if schema.get("type") == "array" and isinstance(value, list):
        return [from_strict(schema["items"], item) for item in value]
    if _is_map(schema):
        return _read_pairs(schema["additionalProperties"], value)
    if schema.get("type") == "object" and isinstance(value, Mapping):
        return _read_properties(schema, value)
    return value if "type" in schema else _read_text(value)


# --- To strict ------------------------------------------------------------------------------------


def _is_map(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), Mapping)


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _kept(schema: Mapping[str, Any]) -> dict[str, Any]:
    # Copied through JSON, so that nobody changes the tool's own schema by changing this one.
    kept: dict[str, Any] = json.loads(json.dumps({key: schema[key] for key in _KEPT if key in schema}))
    if "default" in schema:
        about = f"{schema.get('description', '')} Null for {json.dumps(schema['default'])}."
        kept["description"] = about.strip()
    return kept


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    required = schema.get("required", ())
    return {
        name: strict_schema(part) if name in required else _nullable(strict_schema(part))
        for name, part in schema.get("properties", {}).items()
    }


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], _NULL.copy()]}
    about = {key: schema.pop(key) for key in ("description",) if key in schema}
    return {**about, "anyOf": [schema, _NULL.copy()]}


# --- From strict ----------------------------------------------------------------------------------


def _type(value: Any) -> str | None:
    for kind, name in ((str, "string"), (Mapping, "object"), (list, "array")):
        if isinstance(value, kind):
            return name
    return None


def _read_properties(schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    known, required = schema.get("properties", {}), schema.get("required", ())
    return {
        name: from_strict(known[name], part) if name in known and part is not None else part
        for name, part in value.items()
        if part is not None or name in required or name not in known
    }


def _read_pairs(schema: Mapping[str, Any], value: Any) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for pair in value if isinstance(value, list) else [None]:
        if not (
            isinstance(pair, Mapping) and set(pair) == {"name", "value"} and isinstance(pair["name"], str)
        ):
            raise ToolInvalidArgs('Names and values must be a list of {"name": string, "value": ...}.')
        if pair["name"] in pairs:
            raise ToolInvalidArgs(f"The name {quoted(pair['name'])} must stand in its list once, not twice.")
        pairs[pair["name"]] = from_strict(schema, pair["value"])
    return pairs


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, Mapping) and set(pair) == {"name", "value"} and isinstance(pair["name"], str)


def _read_text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ToolInvalidArgs(
            "A value of any kind must be written as a JSON text; this one is none."
        ) from None
