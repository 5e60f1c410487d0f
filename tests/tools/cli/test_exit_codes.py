"""Every exit code of the architecture, each by a run of the real command in a process of its own."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.tools.cli.conftest import NAME, OPERATOR, Command, Origin
from tidegate import Reason
from tidegate_tools.cli.exits import ExitCode, code_of_status
from tidegate_tools.cli.failures import REFUSALS, code_of_reason

PROGRAM = (sys.executable, "-m", "tidegate_tools.cli")


def shell(*arguments: str, operator: Sequence[str] = OPERATOR) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PROGRAM, *arguments, *operator], capture_output=True, stdin=subprocess.DEVNULL)


ROWS = [
    (0, ["{plain}/content?size=10"]),
    (0, ["{plain}/nothing", "--no-check-status"]),
    (0, ["{plain}/content?size=10", "--max-bytes", "5"]),
    (0, ["-L", "{plain}/redirect?to=/echo"]),
    (0, ["{tls}/echo", "--ca", "{ca}"]),
    (1, ["{plain}/content", "-o", "{directory}/blocked"]),
    (2, ["origin.example:80"]),
    (2, ["http://user@origin.example/"]),
    (2, ["http://origin.example:0/"]),
    (2, ["{plain}/", "-H", "Host: else.example"]),
    (2, ["{plain}/", "-X", "TRACE"]),
    (2, ["{plain}/", "--no-such-option"]),
    (3, ["{plain}/redirect?to=/echo"]),
    (4, ["{plain}/nothing"]),
    (5, ["{plain}/content?status=503"]),
    (10, ["ftp://origin.example/"]),
    (10, ["http://169.254.169.254/"]),
    (10, ["http://0x7f.1/"]),
    (10, ["http://localhost/"]),
    (10, ["-L", "{plain}/redirect?to=http://10.0.0.1/"]),
    (11, ["http://nothing.invalid/"]),
    (12, ["{closed}/"]),
    (12, ["{plain}/cut?after=0"]),
    (13, ["{tls}/echo"]),
    (14, ["{plain}/hold", "--timeout", "0.2"]),
    (15, ["{plain}/content?size=10", "--max-bytes", "5", "--fail-on-truncate"]),
    (16, ["{plain}/raw?bytes=nonsense%0D%0A%0D%0A"]),
    (16, ["{plain}/wrong-length"]),
    (16, ["-L", "{plain}/endless-redirects"]),
    (16, ["-L", "{plain}/redirect?to=http:x"]),
]


@pytest.fixture
def places(origin: Origin, tmp_path: Path) -> Iterator[dict[str, str]]:
    (tmp_path / "blocked.part").mkdir()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port, and it refuses
        closed = f"http://{NAME}:{unused.getsockname()[1]}"
        yield {**vars(origin), "closed": closed, "directory": str(tmp_path)}


def ids(rows: Sequence[tuple[int, Sequence[str]]]) -> list[str]:
    return [f"{code} {' '.join(arguments)}" for code, arguments in rows]


@pytest.mark.parametrize(("code", "arguments"), ROWS, ids=ids(ROWS))
def test_a_fetch_ends_with_the_code_of_its_outcome(code, arguments, places, command: Command):
    """Table A2 and the architecture's list: wherever it is not 0, one sentence says why."""
    ended = command("fetch", *(argument.format(**places) for argument in arguments))
    assert ended.code == code
    if code:
        assert ended.err.startswith("tidegate: ")
        assert ended.err.count("\n") == 1


@pytest.mark.parametrize(("code", "arguments"), ROWS, ids=ids(ROWS))
def test_json_is_one_object_on_failure_too(code, arguments, places, command: Command):
    ended = command("fetch", "--json", *(argument.format(**places) for argument in arguments))
    assert ended.code == code
    assert ended.json["exit_code"] == code
    if ended.json["ok"]:
        assert ended.json["status"]
    else:
        assert ended.json["error"]["reason"]
        assert ended.json["error"]["message"].rstrip(".") in ended.err


REAL = [row for row in ROWS if row[1][0] in ("{tls}/echo", "{plain}/hold", "http://169.254.169.254/")]


@pytest.mark.parametrize(("code", "arguments"), REAL, ids=ids(REAL))
def test_the_process_ends_with_that_code(code, arguments, places):
    """The same through an interpreter of its own, where a traceback would show."""
    ended = shell("fetch", *(argument.format(**places) for argument in arguments))
    assert ended.returncode == code
    assert b"Traceback" not in ended.stderr


def test_an_interrupted_fetch_ends_with_130(origin: Origin):
    with subprocess.Popen(
        [*PROGRAM, "fetch", f"{origin.plain}/drip-content?size=1000", *OPERATOR],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.read(1)  # it is under way
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(5) == 130
    assert said == b"tidegate: interrupted\n"


def test_a_reader_that_goes_away_ends_it_quietly(origin: Origin):
    """SIGPIPE is no error: nothing on standard error, and the code that a shell shows for it."""
    with subprocess.Popen(
        [*PROGRAM, "fetch", f"{origin.plain}/endless-content", *OPERATOR],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(5) == 141
    assert said == b""


def test_a_full_disk_and_a_closed_output_are_sentences(origin: Origin):
    url = f"{origin.plain}/content"
    with Path("/dev/full").open("wb") as full:
        process = subprocess.run([*PROGRAM, "fetch", url, *OPERATOR], stdout=full, stderr=subprocess.PIPE)
    assert process.returncode == 1
    assert process.stderr == b"tidegate: standard output cannot be written: No space left on device\n"
    script = f"exec {' '.join(PROGRAM)} fetch {url} {' '.join(OPERATOR)} >&-"
    process = subprocess.run(["/bin/sh", "-c", script], stderr=subprocess.PIPE)
    assert process.returncode == 1
    assert process.stderr == b"tidegate: standard output is closed\n"


def test_without_standard_error_nothing_is_said_elsewhere(origin: Origin):
    script = f"exec {' '.join(PROGRAM)} fetch {origin.plain}/nothing {' '.join(OPERATOR)} 2>&-"
    process = subprocess.run(["/bin/sh", "-c", script], stdout=subprocess.PIPE)
    assert (process.returncode, process.stdout) == (4, b"no such behaviour; GET / lists them\n")


def test_nothing_reads_standard_input_unasked(origin: Origin):
    """HTTPie hangs in cron because it does: an open input that never ends must not matter."""
    with subprocess.Popen(
        [*PROGRAM, "fetch", f"{origin.plain}/content?size=3", *OPERATOR],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.read() == b"012"
        assert process.wait(5) == 0


def test_standard_input_is_sent_when_asked_for(origin: Origin):
    ended = subprocess.run(
        [*PROGRAM, "fetch", f"{origin.plain}/upload", "-d", "@-", *OPERATOR],
        input=b"12345",
        capture_output=True,
    )
    assert json.loads(ended.stdout) == {"received": 5}


def test_every_reason_has_a_code():
    assert {code_of_reason(reason) for reason in Reason} <= set(ExitCode)
    assert all(code_of_reason(reason) is ExitCode.DENIED for reason in REFUSALS)


@pytest.mark.parametrize(
    ("status", "code"),
    [(200, 0), (204, 0), (299, 0), (300, 3), (304, 3), (399, 3), (400, 4), (499, 4), (500, 5), (599, 5)],
)
def test_statuses(status, code):
    assert code_of_status(status) == code
