"""`tidegate demo`: eight scenes over real sockets, each of which holds, well within the time it may take."""

import os
import subprocess
import sys
import time

import pytest

from tests.tools.cli.conftest import Command
from tidegate_tools.cli.demo import _play
from tidegate_tools.cli.demo_scenes import SCENES, Result, Scene, Stage

PROGRAM = [sys.executable, "-m", "tidegate_tools.cli", "demo"]


@pytest.mark.slow
def test_every_scene_holds_within_fifteen_seconds(bare: Command):
    started = time.monotonic()
    ended = bare("demo", "--json")
    assert time.monotonic() - started < 15
    assert ended.err == ""
    told = ended.json
    assert [scene["scene"] for scene in told["scenes"]] == [scene.title for scene in SCENES]
    assert len(SCENES) == 8
    assert [scene for scene in told["scenes"] if not scene["held"]] == []
    assert (ended.code, told["ok"]) == (0, True)


@pytest.mark.slow
def test_the_table_says_what_was_expected_and_whether_it_held():
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    ended = subprocess.run(PROGRAM, capture_output=True, check=False, encoding="utf-8", env=environment)
    assert ended.returncode == 0
    assert ended.stdout.count("│ yes  │") == len(SCENES)
    assert f"{len(SCENES)} of {len(SCENES)} held, in " in ended.stdout


async def test_a_scene_that_ends_otherwise_is_told_and_does_not_hold():
    """The scene fetches from nowhere; its error is the measurement."""
    import tidegate

    async def play(stage: Stage) -> Result:
        response = await stage.fetch("http://10.0.0.1/")
        return Result(True, str(response.status))

    stage = Stage(plain="", tls="", untrusted="")
    async with tidegate.open_engine() as stage.engine:
        result = await _play(Scene("one", "a page", play), stage)
    assert not result.held
    assert result.seen.startswith("private: ")
