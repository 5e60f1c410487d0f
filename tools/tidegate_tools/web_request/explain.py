"""What pydantic says about a document, retold for whoever wrote it: file, line, key, what is allowed."""

import difflib
import functools
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import getitem
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tidegate_tools.web_request.config import OPERATOR_FIELDS, WebRequestAgentOverride
from tidegate_tools.web_request.document import Document
from tidegate_tools.web_request.files import SYSTEM_TOOL_HOST_KEYS
from tidegate_tools.web_request.mistakes import KeyPath, Mistake, UnquotingError
from tidegate_tools.web_request.substitution import fields_of_profile, unset_names

_RENAMED: Final = {"http_call": "web_request", "allow_http": "require_https"}
"""Names of an earlier draft (J8); nothing about their spelling leads to the new ones."""

_MAX_SHOWN: Final = 80


def explain(
    error: ValidationError, model: type[BaseModel], document: Document, values: Any, host_keys: Iterable[str]
) -> list[Mistake]:
    """One mistake for each thing that pydantic found.

    Args:
        error: what validating `values` raised.
        model: the model of the whole file.
        document: the file as written.
        values: the same after environment substitution.
        host_keys: keys of the host that are valid beside those of the model, for suggestions.
    """
    case = _Case(model, document, values, frozenset(host_keys))
    return [case.mistake(detail) for detail in error.errors(include_url=False) if not _follows(detail)]


def _follows(detail: ErrorDetails) -> bool:
    """A list is also called too short when its items are refused; that says nothing more."""
    return detail["type"] == "too_short" and bool(detail["input"])


@dataclass(frozen=True, slots=True)
class _Case:
    """Everything that a mistake is explained from."""

    model: type[BaseModel]
    document: Document
    values: Any
    host_keys: frozenset[str]

    def mistake(self, detail: ErrorDetails) -> Mistake:
        path = self._real_path(detail["loc"])
        if detail["type"] == "extra_forbidden":
            return self._unknown_key(path)
        if detail["type"] == "missing":
            missing = detail["loc"][-1]
            return self.document.mistake(
                path, f"lacks the key {missing}", allowed=_description(self.model, (*path, missing))
            )
        written, value = self.document.at(path), functools.reduce(getitem, path, self.values)
        is_rule = detail["type"] == "value_error"  # our own, whose sentence says what is wanted
        return self.document.mistake(
            path,
            _problem(detail, path, written, value),
            found=shown(written, path),
            allowed=None if is_rule else _description(self.model, path),
        )

    def _real_path(self, location: Iterable[str | int]) -> KeyPath:
        """The part of pydantic's location that is in the document: names of union members are not."""
        path: KeyPath = ()
        value: Any = self.values
        for part in location:
            if (isinstance(value, dict) and part in value) or (
                isinstance(value, list) and isinstance(part, int) and part < len(value)
            ):
                value = value[part]  # type: ignore[index]  # narrowed to a list in one branch only
                path = (*path, part)
        return path

    def _unknown_key(self, path: KeyPath) -> Mistake:
        key = str(path[-1])
        found = f"the key {key}"
        _, models = _place(self.model, path[:-1])
        if WebRequestAgentOverride in models and key in OPERATOR_FIELDS:
            return self.document.mistake(path, "may only be set in agents.config.yaml", found=found)
        valid = self._valid_keys(path[:-1], models)
        nearest = _RENAMED.get(key) or next(iter(difflib.get_close_matches(key, valid, 1)), None)
        return self.document.mistake(
            path, "is an unknown key", found=found, nearest=nearest, allowed=", ".join(valid)
        )

    def _valid_keys(self, around: KeyPath, models: Iterable[type[BaseModel]]) -> list[str]:
        at_places: dict[KeyPath, frozenset[str]] = {
            (): self.host_keys,
            ("system_tools",): SYSTEM_TOOL_HOST_KEYS,
        }
        hosts = at_places.get(around, frozenset())
        return sorted(hosts.union(*(model.model_fields for model in models)))


_PROBLEMS: Final = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "string_pattern_mismatch": "is not in the right form",
    "too_short": "is empty",
}


def _problem(detail: ErrorDetails, path: KeyPath, written: Any, value: Any) -> str:
    """What is wrong, in one clause that quotes nothing an environment variable may have put there."""
    text = detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    problem = _PROBLEMS.get(detail["type"], text)
    if _differs(written, value):
        if detail["type"] in _PROBLEMS:
            return f"{problem}, but environment substitution gives a text that does not fit"
        if isinstance(detail.get("ctx", {}).get("error"), UnquotingError):
            return f"{problem}, after environment substitution"
        return "is not allowed there, after environment substitution"
    # Nothing is substituted where a secret reference belongs.
    unset = unset_names(value) if isinstance(value, str) and fields_of_profile(path) is None else []
    return f"{problem.rstrip('.')} (not set: {', '.join(unset)})" if unset else problem


def _differs(written: Any, value: Any) -> bool:
    return written is not value and written != value  # .nan is the same as itself here


# What a model says about a place --------------------------------------------------------------------------


def _description(model: type[BaseModel], path: KeyPath) -> str | None:
    """The docstring of the field that a value belongs to: it says what is allowed there."""
    info, _ = _place(model, path)
    return " ".join(info.description.split()).rstrip(".") if info and info.description else None


def _place(model: type[BaseModel], path: KeyPath) -> tuple[FieldInfo | None, tuple[type[BaseModel], ...]]:
    """The field that a path leads into, and the models whose keys may follow."""
    info: FieldInfo | None = None
    models: tuple[type[BaseModel], ...] = (model,)
    for part in path:
        fields = [candidate.model_fields[part] for candidate in models if part in candidate.model_fields]
        if fields:  # list positions and names of header fields lead no further
            info = fields[0]
            models = tuple(_models_in(info.annotation))
    return info, models


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


# What stands in the file ----------------------------------------------------------------------------------


def shown(value: Any, path: KeyPath = ()) -> str:
    """A value of a configuration as a message shows it: short, on one line, and never a secret."""
    if isinstance(value, dict):
        return f"a mapping with {', '.join(map(str, value)) or 'no keys'}"[:_MAX_SHOWN]
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if fields_of_profile(path) is not None:
        # Somebody may have written the secret itself.
        return f"{_TYPES.get(type(value), 'a value')}, not shown"
    return _scalar(value)


_TYPES: Final = {str: "a text", int: "a number", float: "a number", bool: "a boolean", type(None): "nothing"}


def _scalar(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return json.dumps(value if len(value) <= _MAX_SHOWN else value[:_MAX_SHOWN] + "...")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 256:
        return "a very large number"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value).replace("inf", ".inf").replace("nan", ".nan")
    return str(value)[:_MAX_SHOWN]
