"""The atheris targets over their seeds, and over whatever a run of them has found: needs no atheris."""

import importlib
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz.targets import NAMES

FOUND: Final = Path(__file__).parent / "targets" / "found"


def found() -> list[str]:
    """Every input that was ever a crash."""
    return sorted(path.relative_to(FOUND).as_posix() for path in FOUND.glob("*/*"))


@pytest.mark.parametrize("name", NAMES)
def test_seeds(name: str) -> None:
    """The targets themselves are sound, and hold for what is known to be hard, whole and cut."""
    target = importlib.import_module(f"tests.fuzz.targets.{name}")
    assert str(target.__doc__).startswith("Invariant: ")
    seeds = list(target.seeds())
    assert len(seeds) > 10
    for data in seeds:
        target.check(data)
        target.check(data[: len(data) // 2])


@pytest.mark.parametrize("name", found())
def test_findings(name: str) -> None:
    """What a run has found stays a test."""
    importlib.import_module(f"tests.fuzz.targets.{name.partition('/')[0]}").check((FOUND / name).read_bytes())
