"""The reference of `web_request`, made of the models and tables themselves.

    python -m tidegate_tools.web_request.reference            writes reference.md beside this module
    python -m tidegate_tools.web_request.reference --check    exits with 1 if that is not what it would write

A test does the second (W-164).
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tidegate_tools.web_request.config import (
    OPERATOR_FIELDS,
    PrivateRangeRule,
    RequestRule,
    WebRequestAuthProfile,
    WebRequestConfig,
)
from tidegate_tools.web_request.failures import outcomes
from tidegate_tools.web_request.files import (
    AgentSpec,
    GlobalConfig,
    SystemToolsAgentOverride,
    SystemToolsConfig,
)
from tidegate_tools.web_request.parameters import PARAMETERS
from tidegate_tools.web_request.references import (
    EnvReference,
    FileReference,
    KeyVaultReference,
    KeyVaultSecret,
    ManagedIdentity,
    ManagedIdentityReference,
)
from tidegate_tools.web_request.shaping import HIDDEN_FIELDS, RESULT

PAGE: Final = Path(__file__).with_name("reference.md")


def render() -> str:
    """The page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Reference of `web_request`"
    yield ""
    yield "Made by `python -m tidegate_tools.web_request.reference`; a test sees to it that it is up to date."
    yield ""
    yield from ("## `agents.config.yaml`", "")
    yield from _keys("", GlobalConfig)
    yield from _keys("system_tools", SystemToolsConfig)
    yield from _keys("system_tools.web_request", WebRequestConfig, by_agents=True)
    yield from _keys("system_tools.web_request.auth[]", WebRequestAuthProfile)
    yield from _keys("system_tools.web_request.private_ranges[]", PrivateRangeRule)
    yield from _keys("system_tools.web_request.request_rules[]", RequestRule)
    yield from ("## Front matter of `*.agent.md`", "")
    yield from _keys("", AgentSpec)
    yield from _keys("system_tools", SystemToolsAgentOverride)
    yield "`system_tools.web_request` of an agent has the keys above that an agent may set."
    yield ""
    yield from ("## Secrets", "")
    for reference in (EnvReference, FileReference, KeyVaultReference, ManagedIdentityReference):
        yield f"- {_one_line(reference.__doc__)}"
    yield ""
    yield from _keys("key_vault", KeyVaultSecret)
    yield from _keys("managed_identity", ManagedIdentity)
    yield from ("## What a model may say", "")
    yield from _properties(PARAMETERS, required=PARAMETERS["required"])
    yield from ("## What a model gets", "")
    yield from _properties(RESULT, required=())
    names = ", ".join(f"`{name}`" for name in sorted(HIDDEN_FIELDS))
    yield f"Never among `response_headers`: {names}, whatever `Connection` names, and the fields of `auth`."
    yield ""
    yield from ("## Outcomes and reasons of failures", "")
    yield from _table(
        ("outcome", "reasons"),
        (
            (outcome, ", ".join(f"`{reason}`" for reason in reasons))
            for outcome, reasons in outcomes().items()
        ),
    )


def _keys(where: str, model: type[BaseModel], *, by_agents: bool = False) -> Iterator[str]:
    if where:
        yield from (f"### `{where}`", "")
    yield from _table(
        ("key", "what may stand there", "left out", *(("agents",) if by_agents else ())),
        (
            (
                f"`{name}`",
                _one_line(info.description),
                _default(info),
                *((("-" if name in OPERATOR_FIELDS else "yes"),) if by_agents else ()),
            )
            for name, info in model.model_fields.items()
        ),
    )


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "must be there"
    if info.default in (None, (), PydanticUndefined):
        return "-"
    return f"`{str(info.default).lower()}`"


def _properties(schema: Any, *, required: Iterable[str]) -> Iterator[str]:
    yield from _table(
        ("name", "type", "what it is"),
        (
            (f"`{name}`{' (required)' if name in required else ''}", _type(info), info.get("description", ""))
            for name, info in schema["properties"].items()
        ),
    )


def _type(info: dict[str, Any]) -> str:
    if "enum" in info:
        return ", ".join("null" if value is None else f"`{value}`" for value in info["enum"])
    found = info.get("type", "any JSON value")
    words = found if isinstance(found, str) else " or ".join(found)
    return f"{words} of strings" if words == "object" else words


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def main() -> int:
    """Write the page, or with `--check` compare it."""
    page = render()
    if sys.argv[1:] == ["--check"]:
        return 0 if PAGE.read_text("utf-8") == page else 1
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
