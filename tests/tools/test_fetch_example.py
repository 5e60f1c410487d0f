"""The kernel of the examples does what its description says."""

import subprocess
import sys

from tidegate_tools.examples import kernel


async def test_the_example_kernel() -> None:
    """Two agents with different grants, one of them cancelled in mid-fetch, one line a call in the log."""
    read, log = await kernel.main()
    assert read == ["Welcome.", "net_denied", "Welcome."]
    by_agent = {pid: [event for event in log if event.pid == pid] for pid in ("reader", "watcher")}
    assert [(event.payload["tool"], event.payload["error"]) for event in by_agent["reader"]] == [
        ("Fetch", None),
        ("Fetch", "net_denied"),
        ("web_request", None),
    ]
    assert [(event.kind, event.payload["error"]) for event in by_agent["watcher"]] == [
        ("tool.call.denied", "cancelled")
    ]


def test_the_example_is_a_program() -> None:
    command = [sys.executable, "-m", "tidegate_tools.examples.kernel"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert sum(line.startswith("reader ") for line in lines) == 3
