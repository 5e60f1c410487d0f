"""From files to values: `agents.config.yaml`, `*.agent.md`, and a project folder that holds both.

A configuration that is wrong in any way is refused as a whole, with every mistake listed.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast

from pydantic import ValidationError

from tidegate._policy.host import canonical_host
from tidegate.errors import FetchError
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.document import Document, front_matter, parse_yaml, read_text
from tidegate_tools.web_request.explain import explain, shown
from tidegate_tools.web_request.files import (
    AGENT_HOST_KEYS,
    GLOBAL_HOST_KEYS,
    SYSTEM_TOOL_HOST_KEYS,
    AgentSpec,
    GlobalConfig,
)
from tidegate_tools.web_request.mistakes import ConfigError, KeyPath, Mistake
from tidegate_tools.web_request.references import FileContext
from tidegate_tools.web_request.substitution import substitute
from tidegate_tools.web_request.suffixes import SuffixKind, public_suffix_kind

GLOBAL_FILE: Final = "agents.config.yaml"
AGENT_SUFFIX: Final = ".agent.md"

_BLOCK: Final[KeyPath] = ("system_tools", "web_request")

_Model = TypeVar("_Model", bound=GlobalConfig | AgentSpec)


@dataclass(frozen=True, slots=True)
class Loaded(Generic[_Model]):
    """A file's values, and where they stand.

    Attributes:
        value: the validated model.
        document: the file as written; what a setting is said to come from is looked up there.
        warnings: what is allowed but deserves a second look.
    """

    value: _Model
    document: Document
    warnings: tuple[Mistake, ...] = ()

    def place(self, path: KeyPath) -> str:
        """`file:line` of a value, as messages name it."""
        line = self.document.line(path)
        return f"{self.document.file}:{line}" if line else self.document.file


def load_global_config(
    path: str | os.PathLike[str],
    *,
    environment: Mapping[str, str] | None = None,
    host_keys: Collection[str] = (),
) -> Loaded[GlobalConfig]:
    """Load `agents.config.yaml`.

    Args:
        path: the file; it must exist.
        environment: what `$NAME` and `%NAME%` are replaced from; None means this process's.
        host_keys: further keys that other parts of the host read, at the top or in `system_tools`.

    Raises:
        ConfigError: it cannot be read or holds mistakes; all of them are listed.
    """
    text = _text(Path(path))
    skip = _skips(GLOBAL_HOST_KEYS.union(host_keys), SYSTEM_TOOL_HOST_KEYS.union(host_keys))
    document = parse_yaml(text, os.fspath(path), skip=skip)
    return _validated(GlobalConfig, document, environment, GLOBAL_HOST_KEYS.union(host_keys))


def load_agent(
    path: str | os.PathLike[str],
    *,
    environment: Mapping[str, str] | None = None,
    host_keys: Collection[str] = (),
) -> Loaded[AgentSpec]:
    """Load the front matter of a `*.agent.md`; without one, everything is at its default.

    The arguments and errors are those of `load_global_config`.
    """
    found = front_matter(_text(Path(path)))
    if found is None:
        problem = "its front matter does not end; a second line of --- is missing"
        raise ConfigError([Mistake(problem=problem, file=os.fspath(path), line=1)])
    text, first_line = found
    skip = _skips(AGENT_HOST_KEYS.union(host_keys), SYSTEM_TOOL_HOST_KEYS.union(host_keys))
    document = parse_yaml(text, os.fspath(path), first_line=first_line, skip=skip)
    return _validated(AgentSpec, document, environment, AGENT_HOST_KEYS.union(host_keys))


def _text(path: Path) -> str:
    text = read_text(path, str(path))
    if isinstance(text, Mistake):
        raise ConfigError([text])
    return text


def _skips(top: Collection[str], system_tools: Collection[str]) -> Any:
    """Which keys belong to the host. Their values are not read: they may hold whatever the host likes."""

    def skip(path: KeyPath) -> bool:
        if len(path) == 1:
            return path[0] in top
        return len(path) == 2 and path[0] == "system_tools" and path[1] in system_tools

    return skip


def _validated(
    model: type[_Model], document: Document, environment: Mapping[str, str] | None, host_keys: Collection[str]
) -> Loaded[_Model]:
    values: Any = document.data
    if values.get("substitute_variables") is not False:
        values = substitute(values, os.environ if environment is None else environment)
    value, mistakes = _checked(model, document, values, host_keys)
    if mistakes or value is None:
        raise ConfigError(mistakes)
    warnings = (
        *_wildcards(document, values, "private"),
        *_shadowed_profiles(document, value),
        *_trial(document, value),
    )
    return Loaded(value, document, warnings)


def _checked(
    model: type[_Model], document: Document, values: Any, host_keys: Collection[str]
) -> tuple[_Model | None, list[Mistake]]:
    """The model, if there is one, and everything that is wrong.

    Mistakes are returned, not raised: a traceback that reached pydantic's error would hold values from the
    environment.
    """
    mistakes = list(document.mistakes)
    value: _Model | None = None
    try:
        context = FileContext(Path(document.file).parent.absolute())
        value = cast("_Model", model.model_validate(values, context=context))  # else it is typed as the union
    except ValidationError as error:
        mistakes = _with_new_keys(mistakes, explain(error, model, document, values, host_keys))
    file_rules = [*_empty_values(document), *_wildcards(document, values, "icann")]
    return value, _with_new_keys(mistakes, file_rules)


def _with_new_keys(mistakes: list[Mistake], more: Iterable[Mistake]) -> list[Mistake]:
    """Both, without what several rules say about a key that is refused already."""
    known = {mistake.key for mistake in mistakes}
    return [*mistakes, *(mistake for mistake in more if mistake.key not in known)]


# Rules that only files are held to ------------------------------------------------------------------------


def _leaves(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _block(values: Any) -> Any:
    """The `web_request` block, or an empty one."""
    for key in _BLOCK:
        values = values.get(key) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def _empty_values(document: Document) -> list[Mistake]:
    """A setting without a value is a mistake.

    `allowed_hosts:` with every entry below it commented out would read as "not set": any public host.
    """
    return [
        document.mistake(
            path,
            "has no value",
            found="nothing",
            allowed="a value, or leave the key out; an empty list is []",
        )
        for path, value in _leaves(_block(document.data), _BLOCK)
        if value is None
    ]


def _wildcards(document: Document, values: Any, kind: SuffixKind) -> list[Mistake]:
    """Stars over public suffixes (D-15): refused where a registry sells the names, else worth a warning."""
    return [
        document.mistake(
            path,
            _SUFFIX_PROBLEM[kind],
            found=shown(document.at(path), path),
            allowed="the hosts you mean, or *.domain for a domain that is yours",
        )
        for path, value in _leaves(_block(values), _BLOCK)
        if isinstance(value, str)
        and value.startswith("*.")
        and _suffix_kind(value.removeprefix("*.")) == kind
    ]


def _shadowed_profiles(document: Document, value: GlobalConfig | AgentSpec) -> Iterator[Mistake]:
    """Of several profiles for one host only the first ever applies (AMB-93)."""
    profiles = None if isinstance(value.web_request, bool | None) else value.web_request.auth
    seen: set[str] = set()
    for index, profile in enumerate(profiles or ()):
        if profile.host in seen:
            yield document.mistake(
                (*_BLOCK, "auth", index), f"is a second profile for {profile.host}; never used"
            )
        seen.add(profile.host)


def _trial(document: Document, value: GlobalConfig | AgentSpec) -> Iterator[Mistake]:
    """A trial is for a while, and whoever forgets that it is on has no list."""
    config = value.web_request
    if isinstance(config, WebRequestConfig) and config.report_only:
        problem = "is on: what allowed_hosts refuses passes, and is only logged"
        if config.allowed_hosts is None:
            problem = "has no effect, unless an agent sets allowed_hosts: there is no list here"
        yield document.mistake((*_BLOCK, "report_only"), problem)


_SUFFIX_PROBLEM: Final[dict[SuffixKind, str]] = {
    "icann": "is a star over a public suffix: anybody can have a host below it",
    "private": "is a star over a domain below which a company gives hosts to its customers",
}


def _suffix_kind(domain: str) -> SuffixKind | None:
    try:
        return public_suffix_kind(canonical_host(domain))
    except FetchError:  # no host at all: the model has refused it already
        return None
