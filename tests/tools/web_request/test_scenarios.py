"""Folders of real configuration files, each with what must come of it in its `expected.json`.

`holds` says in one sentence what the folder is about, with the requirements it answers for. Either `agents`
is there (for each: on or off, every setting that is not at its default, and the line that decides it), or
`mistakes`.
"""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tidegate_tools.web_request.mistakes import ConfigError, Mistake
from tidegate_tools.web_request.project import Project, load_project

SCENARIOS = sorted(path for path in (Path(__file__).parent / "scenarios").iterdir() if path.is_dir())
EVERY = pytest.mark.parametrize("folder", SCENARIOS, ids=lambda folder: folder.name)


def _load(folder: Path) -> tuple[dict[str, Any], Project | ConfigError]:
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    try:
        return expected, load_project(folder, environment=expected.get("environment", {}))
    except ConfigError as error:
        return expected, error


def _without(folder: Path, value: Any) -> Any:
    """The same with paths as seen from the scenario's folder."""
    return json.loads(json.dumps(value).replace(f"{folder}/", ""))


def _check_notices(folder: Path, expected: list[dict[str, Any]], found: tuple[Mistake, ...]) -> None:
    places = [
        (f"{notice.file}:{notice.line}" if notice.line else notice.file, notice.key) for notice in found
    ]
    assert _without(folder, places) == [[notice["at"], notice["key"]] for notice in expected]
    for wanted, notice in zip(expected, found, strict=True):
        for words in wanted["says"]:
            assert words in _without(folder, str(notice))


@EVERY
def test_outcome(folder: Path) -> None:
    """W-148: what comes of each folder is what it says."""
    expected, outcome = _load(folder)
    if isinstance(outcome, ConfigError):
        assert "agents" not in expected, str(outcome)
        _check_notices(folder, expected["mistakes"], outcome.mistakes)
        return
    agents = {}
    for name, agent in sorted(outcome.agents.items()):
        config = agent.web_request_config
        agents[name] = {
            "enabled": agent.web_request_enabled,
            **({"bad_ports_refused": True} if agent.bad_ports_refused else {}),
            "config": config and config.model_dump(mode="json", exclude_defaults=True),
            "decided_by": {key: by for key, by in agent.decided_by.items() if by != "built-in default"},
        }
    assert _without(folder, agents) == expected.get("agents")
    _check_notices(folder, expected.get("warnings", []), outcome.warnings)


@EVERY
def test_no_secret_in_any_output(folder: Path) -> None:
    """W-150: neither a variable's value nor a secret written into a file shows in what loading gives back."""
    _, outcome = _load(folder)
    outputs = [str(outcome), repr(outcome)]
    if isinstance(outcome, ConfigError):
        outputs += [pickle.dumps(outcome).decode("latin-1"), *map(repr, outcome.mistakes)]
        assert outcome.__context__ is None
    else:
        configs = [
            outcome.global_config.value,
            *(agent.web_request_config for agent in outcome.agents.values()),
        ]
        outputs += [config.model_dump_json() for config in configs if config is not None]
    for output in outputs:
        assert "sk-live" not in output


def test_mistakes_print_as_a_list() -> None:
    """D-19: one line a mistake, after a heading that counts them."""
    _, outcome = _load(next(folder for folder in SCENARIOS if folder.name.startswith("15")))
    heading, *lines = str(outcome).splitlines()
    assert heading == "The configuration has 13 mistakes:"
    assert len(lines) == 13
    assert (
        "agents.config.yaml:1: sytem_tools: is an unknown key; found: the key sytem_tools; nearest: "
        in lines[0]
    )
