"""A project folder: `agents.config.yaml`, and agents beside it or in `agents/`."""

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate_tools.web_request.document import Document
from tidegate_tools.web_request.files import AgentSpec, GlobalConfig
from tidegate_tools.web_request.loading import (
    AGENT_SUFFIX,
    GLOBAL_FILE,
    Loaded,
    load_agent,
    load_global_config,
)
from tidegate_tools.web_request.merge import ResolvedAgent, agent_name, resolve_agent
from tidegate_tools.web_request.mistakes import ConfigError, Mistake, unreadable

_MISNAMED: Final = frozenset(
    {"agents.config.yaml", "agents.config.yml", "agent.config.yaml", "agent.config.yml"}
)
"""In any letter case; only one of them is read."""


@dataclass(frozen=True, slots=True)
class Project:
    """All agents of a folder, resolved.

    Attributes:
        global_config: the operator's configuration; all defaults if there is no file.
        agents: by name.
        warnings: of all files.
    """

    global_config: Loaded[GlobalConfig]
    agents: Mapping[str, ResolvedAgent]
    warnings: tuple[Mistake, ...]


def load_project(
    path: str | os.PathLike[str],
    *,
    environment: Mapping[str, str] | None = None,
    host_keys: Collection[str] = (),
) -> Project:
    """Load and merge everything in a project folder.

    Args:
        path: the folder, which may lack an `agents.config.yaml`, or that file itself, by whatever name.
            Agents are the `*.agent.md` files in the folder and in its `agents` folder. What is there but
            cannot be read, a link to nowhere too, is a mistake and never counts as missing: a project
            without a configuration is open.
        environment: what `$NAME` and `%NAME%` are replaced from; None means this process's.
        host_keys: further keys that other parts of the host read, at the top of a file or in `system_tools`.

    Raises:
        ConfigError: the mistakes of all files together.
    """
    if not os.fspath(path):  # as of an unset variable, and not the current folder
        raise ConfigError([Mistake(problem="the path of the configuration is empty")])
    root, global_file = _places(Path(path))
    mistakes: list[Mistake] = []
    beside = _children(root, mistakes)
    files = sorted(_agent_files(beside, mistakes))
    mistakes += [*_misnamed(beside, global_file), *_same_names(files)]
    global_config = Loaded(GlobalConfig(), Document(str(global_file)))
    specs: list[Loaded[AgentSpec]] = []
    agents: dict[str, ResolvedAgent] = {}
    if global_file == Path(path) or global_file in beside:
        with _listing(mistakes):
            global_config = load_global_config(global_file, environment=environment, host_keys=host_keys)
    for file in files:
        with _listing(mistakes):
            specs.append(load_agent(file, environment=environment, host_keys=host_keys))
    for spec in specs:
        with _listing(mistakes):
            agents[agent_name(spec.document.file)] = resolve_agent(spec, global_config)
    if mistakes:
        raise ConfigError(mistakes)
    warnings = [
        *global_config.warnings,
        *(warning for agent in agents.values() for warning in agent.warnings),
    ]
    return Project(global_config, agents, tuple(warnings))


@contextlib.contextmanager
def _listing(mistakes: list[Mistake]) -> Iterator[None]:
    """Collect what is wrong and go on with the next file."""
    try:
        yield
    except ConfigError as error:
        mistakes.extend(error.mistakes)


def _places(path: Path) -> tuple[Path, Path]:
    """The project's folder and its global file. A path that is no folder is taken for the file."""
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        raise ConfigError([unreadable(str(path), error)]) from None
    if is_folder:
        return path, path / GLOBAL_FILE
    if _is_agent(path):
        raise ConfigError([Mistake(problem="is a single agent; name the folder", file=str(path))])
    return path.parent, path


def _is_agent(file: Path) -> bool:
    return file.name.lower().endswith(AGENT_SUFFIX)


def _agent_files(beside: Iterable[Path], mistakes: list[Mistake]) -> Iterator[Path]:
    yield from filter(_is_agent, beside)
    for child in beside:
        if child.name.lower() == "agents":
            yield from filter(_is_agent, _children(child, mistakes))


def _children(folder: Path, mistakes: list[Mistake]) -> list[Path]:
    """What a folder holds, by name alone: a link to nowhere is there, too."""
    try:
        return list(folder.iterdir())
    except OSError as error:
        mistakes.append(unreadable(str(folder), error))
        return []


def _misnamed(beside: Iterable[Path], global_file: Path) -> list[Mistake]:
    """A file that nobody reads would leave everything at its default, which here means on."""
    return [
        Mistake(problem="is read by nobody under this name", file=str(file), allowed=GLOBAL_FILE)
        for file in beside
        if file.name.lower() in _MISNAMED and file.name != GLOBAL_FILE and file != global_file
    ]


def _same_names(files: Iterable[Path]) -> list[Mistake]:
    seen: dict[str, Path] = {}
    mistakes = []
    for file in files:
        first = seen.setdefault(agent_name(str(file)), file)
        if first is not file:
            mistakes.append(Mistake(problem=f"is an agent of the same name as {first}", file=str(file)))
    return mistakes
