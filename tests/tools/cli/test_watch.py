"""`--audit FILE`: what `tidegate tool` tells operators of the call and its hops."""

import json
import os
import select
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.tools.cli.conftest import NAME, OPERATOR, Command, Origin
from tidegate_tools.cli import main

FETCH = ("tool", "Fetch")


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_fetch(bare: Command, origin: Origin, tmp_path: Path):
    """A line a hop and one a call; a second run appends."""
    log = tmp_path / "log"
    for path, options in (("/redirect?to=/echo", {"follow_redirects": True}), ("/echo?token=s3cret", {})):
        arguments = json.dumps({"url": origin.plain + path, **options})
        assert bare(*FETCH, arguments, "--grant", NAME, *OPERATOR, "--audit", log).code == 0
    text = log.read_text()
    told = [(line["event"], line["agent"], line["tool"], line["outcome"]) for line in lines_of(text)]
    hop, call = (("hop", "shell", "Fetch", "success"), ("call", "shell", "Fetch", "success"))
    assert told == [hop, hop, call, hop, call]
    assert lines_of(text)[0]["rule"] == "private_ranges 127.0.0.0/8"
    assert "s3cret" not in text
    assert log.stat().st_mode & 0o777 == 0o600


def test_web_request(bare: Command, origin: Origin, tmp_path: Path):
    """By the agent's own policy."""
    (tmp_path / "agents.config.yaml").write_text(
        f"system_tools:\n  web_request:\n    allowed_hosts: [{NAME}]\n    require_https: false\n"
        f"    private_ranges: [{{cidr: 127.0.0.0/8, hosts: [{NAME}]}}]\n"
    )
    (tmp_path / "crm.agent.md").write_text("---\nname: CRM\n---\n")
    options = ("--config", tmp_path, "--agent", "crm", *OPERATOR[:2], "--audit", tmp_path / "log")
    assert bare("tool", "web_request", json.dumps({"url": f"{origin.plain}/echo"}), *options).code == 0
    assert bare("tool", "web_request", '{"url": "http://a.example/"}', *options).code == 10
    lines = lines_of((tmp_path / "log").read_text())
    told = [(line["event"], line["agent"], line["decision"], line.get("rule")) for line in lines]
    assert told == [
        ("hop", "crm", "allowed", "private_ranges 127.0.0.0/8"),
        ("call", "crm", "allowed", None),
        ("hop", "crm", "denied", "hosts"),
        ("call", "crm", "denied", "hosts"),
    ]


def test_a_list_on_trial(bare: Command, tmp_path: Path):
    """What `report_only` lets through is in the log as such."""
    (tmp_path / "agents.config.yaml").write_text(
        "system_tools:\n  web_request:\n    allowed_hosts: [a.example]\n    report_only: true\n"
    )
    options = ("--config", tmp_path, "--audit", tmp_path / "log", "--resolve", "b.example=10.0.0.1")
    ended = bare("tool", "web_request", '{"url": "https://b.example/"}', *options)
    assert (ended.code, ended.json["reason"]) == (10, "private")
    hop = lines_of((tmp_path / "log").read_text())[0]
    assert (hop["reported"], hop["reason"]) == ("not_in_allowlist", "private")


def test_a_dash_is_standard_error(capfd: pytest.CaptureFixture[str]):
    assert main([*FETCH, '{"url": "http://10.0.0.1/"}', "--grant", "*", "--audit", "-"]) == 10
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert [json.loads(line)["event"] for line in lines] == ["hop", "call"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    ("arguments", "lines"), [('{"url": "http://10.0.0.1/"}', "2 lines"), ("{}", "1 line")]
)
def test_lost_lines_are_told_at_the_end(arguments: str, lines: str, bare: Command):
    """In one sentence, and the call ends as it would have."""
    ended = bare(*FETCH, arguments, "--grant", "*", "--audit", "/dev/full")
    assert ended.json["error"]
    _, told = ended.err.splitlines()
    assert told == f"tidegate: --audit '/dev/full': {lines} could not be written: No space left on device"


def test_a_pipe_is_opened_once(bare: Command, tmp_path: Path):
    """Opened to try it and again to write, its reader would see an end between the two, and leave."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    ends: list[int] = []

    def wait_for_the_end() -> None:
        poll = select.poll()
        poll.register(reader, 0)  # that is, for the last writer to leave
        poll.poll(10_000)
        ends.append(len(lines_of(os.read(reader, 1 << 16).decode())))

    thread = threading.Thread(target=wait_for_the_end)
    thread.start()
    assert bare(*FETCH, '{"url": "http://10.0.0.1/"}', "--grant", "*", "--audit", pipe).code == 10
    thread.join()
    os.close(reader)
    assert ends == [2]


@pytest.mark.parametrize("command_line", [[*FETCH, "{}"], ["mcp"]], ids=["tool", "mcp"])
def test_a_file_that_cannot_be_written(command_line: list[str], bare: Command, tmp_path: Path):
    """Told before anything is called or served, and not line by line."""
    ended = bare(*command_line, "--audit", tmp_path / "none" / "log")
    assert (ended.code, ended.out) == (2, b"")
    assert "cannot be written: No such file or directory" in ended.err
    assert ended.err.count("\n") == 1
