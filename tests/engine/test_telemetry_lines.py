"""The writer of the audit log: what it may rename, what it tells of lost lines, and forks."""

import fcntl
import json
import logging
import os
import pty
import re
import select
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path
from struct import unpack

import pytest

from tests.engine.test_telemetry import Stuck, lines_of, wait_until_lost
from tidegate.telemetry import AuditLog, sinks
from tidegate.telemetry.lines import LineWriter
from tidegate.telemetry.sinks import RotatingFile


def write_numbers(log: AuditLog, numbers: range) -> None:
    for number in numbers:
        log.write("test", {"number": number, "text": "x" * 50})


def numbers_in(data: bytes) -> list[int]:
    return [json.loads(line)["number"] for line in data.splitlines()]


def wait_for(happened: Callable[[], bool]) -> None:
    """The writer is another thread, or another process: ask it to go on until it has."""
    for _ in range(10_000):
        if happened():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never happened")


# What may be renamed -----------------------------------------------------------------------------------


def test_a_named_pipe_is_written_and_not_renamed(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with AuditLog.to_file(path, max_bytes=100, keep=2) as log:
        write_numbers(log, range(50))
    assert (numbers_in(os.read(reader, 1 << 16)), log.lost) == ([*range(50)], 0)
    os.close(reader)
    assert [*tmp_path.iterdir()] == [path]
    assert path.is_fifo()


def test_a_pipe_without_a_reader_is_no_wait_without_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with AuditLog.to_file(path) as log:
        log.write("test", {"number": 1})
        wait_until_lost(log, 1)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        log.write("test", {"number": 2})
    gap, line = os.read(reader, 1000).splitlines()
    os.close(reader)
    assert (json.loads(gap)["lines"], json.loads(line)["number"]) == (1, 2)


def test_a_terminal_is_written_and_not_renamed() -> None:
    ours, theirs = pty.openpty()
    with AuditLog.to_file(os.ttyname(theirs), max_bytes=100, keep=2) as log:
        write_numbers(log, range(10))
    told = b""
    while told.count(b"\n") < 10 and select.select([ours], [], [], 10)[0]:
        told += os.read(ours, 1 << 16)
    assert (numbers_in(told), log.lost) == ([*range(10)], 0)
    os.close(ours)
    os.close(theirs)


def test_a_device_behind_a_link_is_written_and_neither_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.symlink_to(os.devnull)
    with AuditLog.to_file(path, max_bytes=100, keep=2) as log:
        write_numbers(log, range(10))
    assert log.lost == 0
    assert [*tmp_path.iterdir()] == [path]
    assert path.readlink() == Path(os.devnull)


def test_of_a_linked_file_the_file_is_renamed(tmp_path: Path) -> None:
    folder, link = tmp_path / "disk", tmp_path / "audit.jsonl"
    folder.mkdir()
    link.symlink_to("disk/file.jsonl")  # which there is not yet
    with AuditLog.to_file(link, max_bytes=1000, keep=2) as log:
        write_numbers(log, range(15))
    assert link.readlink() == Path("disk/file.jsonl")
    assert sorted(path.name for path in folder.iterdir()) == ["file.jsonl", "file.jsonl.1"]
    assert numbers_in((folder / "file.jsonl.1").read_bytes() + link.read_bytes()) == [*range(15)]
    assert sorted(tmp_path.iterdir()) == [link, folder]


STDOUT = """
from tidegate.telemetry import AuditLog
with AuditLog.to_file("stdout", max_bytes=100) as log:
    for number in range(10):
        log.write("test", {"number": number})
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="/dev/stdout is no such link here")
def test_a_file_behind_standard_output_is_not_renamed(tmp_path: Path) -> None:
    """It is the shell's, and the link, made like /dev/stdout, would go on leading to the renamed one."""
    link, out = tmp_path / "stdout", tmp_path / "out"
    link.symlink_to("/proc/self/fd/1")
    with out.open("wb") as file:
        subprocess.run([sys.executable, "-c", STDOUT], cwd=tmp_path, stdout=file, check=True)
    assert (sorted(tmp_path.iterdir()), link.is_symlink()) == ([out, link], True)
    assert numbers_in(out.read_bytes()) == [*range(10)]


def test_the_directory_of_the_process_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with AuditLog.to_file("audit.jsonl", max_bytes=1000) as log:
        monkeypatch.chdir("elsewhere")
        write_numbers(log, range(15))
    assert not [*Path().iterdir()]
    assert (tmp_path / "audit.jsonl.1").exists()


@pytest.mark.parametrize("remove", [Path.unlink, lambda path: path.rename(path.with_name("old"))])
def test_a_file_that_others_take_away_is_begun_anew(remove: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with AuditLog.to_file(path) as log:
        log.write("test", {"number": 1})
        wait_for(lambda: path.exists() and path.read_bytes().endswith(b"\n"))
        remove(path)
        log.write("test", {"number": 2})
    assert numbers_in(path.read_bytes()) == [2]


LOCK = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def test_a_file_that_cannot_be_renamed_grows_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Told once, tried again after another `max_bytes`; then as if nothing had been."""
    path, blocker = tmp_path / "a", tmp_path / "a.1"
    blocker.mkdir()
    sink = RotatingFile(path, max_bytes=100, keep=2)
    with caplog.at_level(logging.WARNING, "tidegate"):
        for _ in range(21):
            sink.write(b"x" * 19 + b"\n")
    assert (path.stat().st_size, blocker.is_dir()) == (420, True)
    subprocess.run([sys.executable, "-c", LOCK, path], check=True)  # a child may try it, too
    assert caplog.messages == ["the audit log cannot be rotated, and grows: Is a directory"]
    blocker.rmdir()
    for _ in range(5):
        sink.write(b"y" * 19 + b"\n")
    assert (tmp_path / "a.1").stat().st_size == 500
    assert path.stat().st_size == 20
    for _ in range(5):
        sink.write(b"z" * 19 + b"\n")
    sink.close()
    assert [(tmp_path / name).stat().st_size for name in ("a", "a.1", "a.2")] == [20, 100, 500]


# What is told of lost lines ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "begins"),
    [
        (b"", b'{"time"'),
        (b'{"event":"hop"}\n', b'{"event":"hop"}\n{"time"'),
        (b'{"event":"ho', b'{"event":"ho\n{"time"'),
        (b"\n", b'\n{"time"'),
    ],
)
def test_a_torn_end_spoils_no_line_of_the_next_process(found: bytes, begins: bytes, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(found)
    with AuditLog.to_file(path) as log:
        log.write("test", {"number": 1})
    assert path.read_bytes().startswith(begins)
    assert json.loads(path.read_bytes().splitlines()[-1])["number"] == 1


def test_each_outage_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "disk"
    path = folder / "audit.jsonl"
    with caplog.at_level(logging.WARNING, "tidegate"), AuditLog.to_file(path) as log:
        for outage in (1, 2):
            for _ in range(3):
                log.write("test", {})
            wait_until_lost(log, 3 * outage)
            assert len(caplog.messages) == outage
            folder.mkdir()
            log.write("test", {"outage": outage})
            wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") == 2)
            folder.rename(tmp_path / f"disk {outage}")
    assert set(caplog.messages) == {"audit lines are being lost: No such file or directory"}
    for outage in (1, 2):
        gap, line = lines_of(tmp_path / f"disk {outage}" / "audit.jsonl")
        assert (gap["event"], gap["lines"], line["outage"]) == ("lost", 3, outage)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", gap["time"])
    assert (log.lost, log.lost_because) == (6, "No such file or directory")


class Slow:
    """A disk that takes a line whenever it is let."""

    def __init__(self) -> None:
        self.asked, self.allowed = threading.Semaphore(0), threading.Semaphore(0)
        self.written = b""

    def write(self, data: bytes) -> None:
        self.asked.release()
        self.allowed.acquire()
        self.written += data

    def close(self) -> None:
        pass


def test_a_queue_that_stays_full_is_one_outage(caplog: pytest.LogCaptureFixture) -> None:
    """Though the disk takes a line now and then."""
    disk = Slow()
    log = AuditLog(disk, max_queue=4)
    log.write("test", {})
    disk.asked.acquire()
    with caplog.at_level(logging.WARNING, "tidegate"):
        for lost in range(1, 4):
            for _ in range(5):
                log.write("test", {})
            for _ in range(2):  # a line, and one that tells of those that are lost
                disk.allowed.release()
                disk.asked.acquire()
            assert log.lost >= lost
        disk.allowed.release(100)
        log.close()
    assert caplog.messages == ["audit lines are being lost: the queue is full"]
    told = [json.loads(line) for line in disk.written.splitlines()]
    written = sum(line["event"] == "test" for line in told)
    assert written + sum(line.get("lines", 0) for line in told) == 16
    assert log.lost == 16 - written


def test_closing_tells_what_no_later_line_does(tmp_path: Path) -> None:
    path = tmp_path / "later" / "audit.jsonl"
    with AuditLog.to_file(path) as log:
        log.write("test", {})
        wait_until_lost(log, 1)
        path.parent.mkdir()
    [gap] = lines_of(path)
    assert (gap["event"], gap["lines"]) == ("lost", 1)


def test_a_disk_that_comes_back_after_closing_is_told_all() -> None:
    disk = Stuck()
    log = AuditLog(disk)
    for _ in range(4):
        log.write("test", {})
    disk.asked.wait()
    log.close(timeout=0.01)
    assert (log.lost, log.lost_because) == (4, "closing took too long")
    disk.released.set()
    wait_for(lambda: disk.written.count(b"\n") == 2)
    _, gap = disk.written.splitlines()  # the line that it had in hand, after all
    assert (json.loads(gap)["event"], json.loads(gap)["lines"]) == ("lost", 4)


def test_a_file_that_must_open_does_so_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        AuditLog.to_file(tmp_path / "none" / "audit.jsonl", must_open=True)
    with AuditLog.to_file(tmp_path / "audit.jsonl", must_open=True):
        assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


NO_THREAD = """
import threading
from tidegate.telemetry import AuditLog
with AuditLog.to_file("audit.jsonl") as log:
    threading.stack_size(1 << 46)  # more than there is
    log.write("test", {"number": 1})
    print(log.lost, log.lost_because)
    threading.stack_size(0)
    log.write("test", {"number": 2})
"""


def test_without_a_thread_lines_are_lost_and_the_next_one_tries_again(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", NO_THREAD], cwd=tmp_path, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"1 no thread can be started\n", b"")
    gap, line = lines_of(tmp_path / "audit.jsonl")
    assert (gap["lines"], line["number"]) == (1, 2)


def test_a_writer_may_be_collected_in_its_own_thread() -> None:
    held: list[LineWriter] = []
    closed = threading.Event()

    class Drops(Stuck):
        def write(self, data: bytes) -> None:
            super().write(data)
            held.clear()

        def close(self) -> None:
            closed.set()

    disk = Drops()
    held.append(LineWriter(disk, max_queue=10))
    held[0].put({"number": 1})
    disk.released.set()  # nobody but the list holds the writer now
    assert closed.wait(10)
    assert numbers_in(disk.written) == [1]


# Standard error ----------------------------------------------------------------------------------------

NO_STDERR = """
import socket
from tidegate.telemetry import AuditLog
ours, theirs = socket.socketpair()
assert ours.fileno() == 2
with AuditLog.to_stderr() as log:
    log.write("test", {})
ours.close()
print(log.lost, log.lost_because, theirs.recv(1000))
"""


def test_without_standard_error_nobody_else_gets_the_lines() -> None:
    """Number 2 is then what the process opens first."""
    shell = ["sh", "-c", 'exec "$@" 2>&-', "sh"]
    done = subprocess.run([*shell, sys.executable, "-c", NO_STDERR], capture_output=True, check=True)
    assert done.stdout == b"1 there is no standard error b''\n"


NUMBER_TWO = """
import os
from tidegate.telemetry import AuditLog
other = os.open("other", os.O_WRONLY | os.O_CREAT)
before = os.listdir("/dev/fd")
with AuditLog.to_stderr() as log:
    os.dup2(other, 2)
    log.write("test", {"number": 1})
print(log.lost, os.listdir("/dev/fd") == before)
"""


def test_lines_stay_with_the_standard_error_that_there_was(tmp_path: Path) -> None:
    """And nothing stays open."""
    done = subprocess.run([sys.executable, "-c", NUMBER_TWO], cwd=tmp_path, capture_output=True, check=True)
    assert (done.stdout, numbers_in(done.stderr)) == (b"0 True\n", [1])
    assert (tmp_path / "other").read_bytes() == b""


NON_BLOCKING = """
import os
from tidegate.telemetry import AuditLog
os.set_blocking(2, False)
with AuditLog.to_stderr() as log:
    for number in range(2000):
        log.write("test", {"number": number, "text": "x" * 200})
print(log.lost)
"""


def test_a_slow_reader_of_a_pipe_that_does_not_block_gets_every_line() -> None:
    """Which it is for whoever shares the pipe with a program that made it so."""
    with subprocess.Popen(
        [sys.executable, "-c", NON_BLOCKING], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        descriptor = process.stderr.fileno()
        wait_for(lambda: unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0] > 60_000)
        assert numbers_in(process.stderr.read()) == [*range(2000)]
        assert process.stdout.read() == b"0\n"


def full_pipe(path: Path) -> int:
    """A named pipe that takes no more; the descriptor of its reader."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writer, b"\n" * 4096)
    os.close(writer)
    return reader


def test_closing_does_not_wait_for_who_never_reads(tmp_path: Path) -> None:
    reader = full_pipe(tmp_path / "pipe")
    log = AuditLog.to_file(tmp_path / "pipe")
    log.write("test", {})
    log.close(timeout=0.1)
    assert (log.lost, log.lost_because) == (1, "closing took too long")
    os.close(reader)  # which ends the wait of the thread


def test_a_line_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "MAX_WAIT", 0.01)
    reader = full_pipe(tmp_path / "pipe")
    with AuditLog.to_file(tmp_path / "pipe") as log:
        log.write("test", {})
    assert (log.lost, log.lost_because) == (1, "nobody read for 0.01 s")
    os.close(reader)


# Forks -------------------------------------------------------------------------------------------------

FORK = """
import os, sys
from tidegate.telemetry import AuditLog
log = AuditLog.to_file("audit.jsonl", max_bytes=2000, keep=100)
def write(who, numbers):
    for number in numbers:
        log.write("test", {"who": who, "number": number})
write("parent", range(100))  # most of which wait when it forks
child = os.fork()
who = "parent" if child else "child"
assert child or log.lost == 0
write(who, range(100, 300))
if child:
    _, status = os.waitpid(child, 0)
    assert status == 0
    write("parent", range(300, 310))
elif "closes" in sys.argv:
    log.close()
    os._exit(log.lost)
"""


@pytest.mark.parametrize("end", ["closes", "just ends"])
def test_parent_and_child_write_what_they_were_given(end: str, tmp_path: Path) -> None:
    """Each line once, in the order of its process, though both rotate the file."""
    subprocess.run([sys.executable, "-c", FORK, end], cwd=tmp_path, check=True)
    files = sorted(tmp_path.iterdir(), key=lambda path: -int("0" + path.suffix.removeprefix(".jsonl")[1:]))
    assert len(files) > 5
    lines = [line for file in files for line in lines_of(file)]
    written = {
        who: sorted(line["number"] for line in lines if line["who"] == who) for who in ("parent", "child")
    }
    assert written == {"parent": [*range(310)], "child": [*range(100, 300)]}


FORK_OF_CLOSED = """
import os
from tidegate.telemetry import AuditLog
log = AuditLog.to_file("audit.jsonl")
log.close()
child = os.fork()
if not child:
    log.write("test", {})
    os._exit(log.lost)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), log.lost)
"""


def test_a_closed_log_is_closed_in_a_child(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK_OF_CLOSED], cwd=tmp_path, capture_output=True, check=True
    )
    assert done.stdout == b"1 0\n"
