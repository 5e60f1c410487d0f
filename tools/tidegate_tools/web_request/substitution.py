"""Environment substitution in configuration values: `$NAME` and `%NAME%` (decisions, section C)."""

import re
from collections.abc import Mapping
from typing import Any, Final

from tidegate_tools.web_request.mistakes import KeyPath

_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
# Escapes first, so that `$$NAME` is never read as a dollar sign before `$NAME`.
_PLACEHOLDER: Final = re.compile(
    rf"\$\$(?P<dollars>{_NAME})|%%(?P<percents>{_NAME})%%|\$(?P<dollar>{_NAME})|%(?P<percent>{_NAME})%"
)


def substitute_text(text: str, environment: Mapping[str, str]) -> str:
    """Replace the placeholders in one text.

    A name that is not set stays as it is written, `$$NAME` gives `$NAME` and `%%NAME%%` gives `%NAME%`. What
    a variable holds is not searched for placeholders again.
    """

    def replaced(match: re.Match[str]) -> str:
        if name := match["dollars"]:
            return f"${name}"
        if name := match["percents"]:
            return f"%{name}%"
        return environment.get(match["dollar"] or match["percent"], match[0])

    return _PLACEHOLDER.sub(replaced, text)


def substitute(value: Any, environment: Mapping[str, str], path: KeyPath = ()) -> Any:
    """Replace placeholders in all texts within a value; keys, numbers and booleans stay as they are.

    Where a secret reference belongs nothing is replaced that could hold a secret: `{env: NAME}` passes
    through untouched as a typed reference (D5), and so do `{file: PATH}` and plain texts, which are refused
    later. Else what a variable holds that was written there by mistake would end up in the message about it.
    """
    if isinstance(value, str):
        return value if _holds_secret(path) else substitute_text(value, environment)
    if isinstance(value, dict):
        return {key: substitute(item, environment, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, environment, (*path, index)) for index, item in enumerate(value)]
    return value


def unset_names(text: str) -> list[str]:
    """The names whose placeholders are still in a text after substitution."""
    found = (match["dollar"] or match["percent"] for match in _PLACEHOLDER.finditer(text))
    return [name for name in found if name]


def _holds_secret(path: KeyPath) -> bool:
    """True for a profile's field value itself, and for anything in it but vaults and identities."""
    within = fields_of_profile(path)
    return within is not None and within[1:2] not in (("key_vault",), ("managed_identity",))


def fields_of_profile(path: KeyPath) -> KeyPath | None:
    """What follows `auth[n].headers` in a path, if it leads there: the field's name and what is in it."""
    for at in range(len(path) - 3):
        if path[at] == "auth" and isinstance(path[at + 1], int) and path[at + 2] == "headers":
            return path[at + 3 :]
    return None
