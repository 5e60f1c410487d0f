"""The kernel of the examples does what its description says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tidegate.telemetry import AuditLog
from tidegate_tools.examples import kernel

CALLS = [
    ("reader", "Fetch", None, "success"),
    ("reader", "Fetch", "net_denied", "blocked"),
    ("reader", "web_request", None, "success"),
    ("watcher", "Fetch", "cancelled", "cancelled"),
]


def calls(lines: list[dict[str, Any]]) -> list[tuple[str, str, str | None, str]]:
    """The calls of each agent, in their order."""
    told = [line for line in lines if line["event"] == "call"]
    told.sort(key=lambda line: line["agent"])
    return [(line["agent"], line["tool"], line.get("error"), line["outcome"]) for line in told]


async def test_the_example_kernel(tmp_path: Path) -> None:
    """Two agents with different grants, one of them cancelled in mid-fetch, one line a call in the log."""
    with AuditLog.to_file(tmp_path / "log") as log:
        assert await kernel.main(log) == ["Welcome.", "net_denied", "Welcome."]
    lines = [json.loads(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    assert calls(lines) == CALLS
    hops = {(line["host"], line["decision"]) for line in lines if line["event"] == "hop"}
    assert hops == {
        ("docs.example", "allowed"), ("intranet.example", "denied"), ("live.feeds.example", "allowed"),
    }  # fmt: skip


def test_the_example_is_a_program() -> None:
    command = [sys.executable, "-m", "tidegate_tools.examples.kernel"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ""
    assert calls([json.loads(line) for line in done.stderr.splitlines()]) == CALLS
