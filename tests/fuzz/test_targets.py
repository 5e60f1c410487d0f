"""The atheris targets over their seeds, and over whatever a run of them has found: needs no atheris."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz.targets import NAMES
from tests.fuzz.targets.__main__ import shown
from tests.support.data import ROOT

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


def test_a_finding_may_lie_anywhere() -> None:
    assert shown(FOUND / "url" / "crash-1") == Path("tests/fuzz/targets/found/url/crash-1")
    assert shown(Path("/elsewhere/crash-1")) == Path("/elsewhere/crash-1")


@pytest.mark.parametrize("seconds", ["0", "-3"])
def test_no_time_to_run_is_a_usage_error(seconds: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz.targets", "--seconds", seconds]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"--seconds must be 1 or more, not {seconds}" in done.stderr
