"""A project folder: `agents.config.yaml`, and agents beside it or in `agents/`."""

import contextlib
import os
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
from tidegate_tools.web_request.mistakes import ConfigError, Mistake

_MISNAMED: Final = ("agents.config.yml", "agent.config.yaml", "agent.config.yml")


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
            Agents are the `*.agent.md` files in the folder and in its `agents` folder.
        environment: what `$NAME` and `%NAME%` are replaced from; None means this process's.
        host_keys: further keys that other parts of the host read, at the top of a file or in `system_tools`.

    Raises:
        ConfigError: the mistakes of all files together.
    """
    root, global_file = _places(Path(path))
    files = sorted(_agent_files(root))
    mistakes = [*_misnamed(root), *_same_names(files)]
    global_config = Loaded(GlobalConfig(), Document(str(global_file)))
    specs: list[Loaded[AgentSpec]] = []
    agents: dict[str, ResolvedAgent] = {}
    if global_file != root / GLOBAL_FILE or global_file.exists():
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
    return (path, path / GLOBAL_FILE) if path.is_dir() else (path.parent, path)


def _agent_files(root: Path) -> Iterator[Path]:
    folders = [
        root,
        *(child for child in _children(root) if child.name.lower() == "agents" and child.is_dir()),
    ]
    for folder in folders:
        yield from (file for file in _children(folder) if file.name.lower().endswith(AGENT_SUFFIX))


def _children(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _misnamed(root: Path) -> list[Mistake]:
    """A file that nobody reads would leave everything at its default, which here means on."""
    return [
        Mistake(problem="is read by nobody under this name", file=str(root / name), allowed=GLOBAL_FILE)
        for name in _MISNAMED
        if (root / name).exists()
    ]


def _same_names(files: Iterable[Path]) -> list[Mistake]:
    seen: dict[str, Path] = {}
    mistakes = []
    for file in files:
        first = seen.setdefault(agent_name(str(file)), file)
        if first is not file:
            mistakes.append(Mistake(problem=f"is an agent of the same name as {first}", file=str(file)))
    return mistakes
