"""The files of `tidegate audit`: compressed and damaged logs, what is no log, and where the page goes."""

import gzip
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.test_audit import encoded, hop
from tidegate_tools.audit.lines import MAX_LINE, LogReader
from tidegate_tools.cli import main

LOG = encoded(*(hop(f"h{number}.example") for number in range(500)))


def opened(data: bytes) -> tuple[int, LogReader]:
    reader = LogReader()
    file = io.BytesIO(data)
    count = sum(1 for _ in reader.read([file]))
    assert not file.closed  # it may be standard input
    return count, reader


# Compressed logs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [gzip.compress(LOG), gzip.compress(LOG[: len(LOG) // 2]) + gzip.compress(LOG[len(LOG) // 2 :])],
    ids=["one member", "two members"],
)
def test_a_compressed_log(data: bytes) -> None:
    """By its first bytes, whatever it is called; RFC 1952 has members one after the other."""
    count, reader = opened(data)
    assert (count, reader.read_lines, reader.unreadable, reader.broken) == (500, 500, 0, 0)


PACKED = gzip.compress(LOG)


@pytest.mark.parametrize(
    ("data", "least"),
    [
        (PACKED[:-1], 500),
        (PACKED[:-8], 500),
        (PACKED[: len(PACKED) // 2], 100),
        (PACKED[:-8] + bytes(8), 500),  # another checksum
        (PACKED + b"rest", 500),
        (PACKED[:12], 0),
        (PACKED[:2], 0),
        (b"\x1f\x8b" + os.urandom(1000), 0),
    ],
)
def test_a_damaged_one_is_read_as_far_as_it_goes(data: bytes, least: int) -> None:
    count, reader = opened(data)
    assert least <= count <= 500
    assert (reader.read_lines, reader.broken) == (count, 1)


def test_others_are_read_after_a_damaged_one() -> None:
    reader = LogReader()
    files = [io.BytesIO(PACKED[:100]), io.BytesIO(LOG), io.BytesIO(PACKED)]
    assert sum(1 for _ in reader.read(files)) >= 1000
    assert reader.broken == 1


class Counting(io.BytesIO):
    """Counts how much of it is read at the most at once."""

    most = 0

    def readinto(self, buffer: object) -> int:
        read = super().readinto(buffer)  # type: ignore[arg-type]  # what a buffer is, typeshed knows
        self.most = max(self.most, read)
        return read


def test_a_line_without_end_is_never_whole_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand times smaller on the disk, too."""
    asked: list[int | None] = []
    readline = gzip.GzipFile.readline

    def watched(self: gzip.GzipFile, size: int | None = -1) -> bytes:
        asked.append(size)
        return readline(self, size)

    monkeypatch.setattr(gzip.GzipFile, "readline", watched)
    packed = gzip.compress(b"x" * 50_000_000 + b"\n" + LOG)
    file = Counting(packed)
    reader = LogReader()
    assert sum(1 for _ in reader.read([file])) == 500
    assert reader.unreadable == 1
    assert set(asked) == {MAX_LINE}
    assert 0 < file.most <= 128 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Callable[[bytes], str]:
    def write(data: bytes) -> str:
        (tmp_path / "audit.jsonl").write_bytes(data)
        return str(tmp_path / "audit.jsonl")

    return write


@pytest.mark.parametrize("command", [["suggest"], ["report", "-o", "-"]])
def test_the_commands_read_them(
    command: list[str], path: Callable[[bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *command, path(PACKED)]) == 0
    told = capsys.readouterr()
    assert "h0.example" in told.out
    assert told.err == ""
    assert main(["audit", *command, path(PACKED[:-300])]) == 0
    told = capsys.readouterr()
    assert "h0.example" in told.out
    assert told.err == "tidegate: 1 compressed log damaged or cut off, and read as far as it goes\n"
    assert ("1 compressed log damaged" in told.out) is (command[0] == "report")


def test_a_compressed_log_on_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PACKED)))
    assert main(["audit", "suggest", "-"]) == 0
    assert "h499.example" in capsys.readouterr().out


# What is no log ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["suggest"], ["suggest", "--json"], ["report", "-o", "{page}"]])
@pytest.mark.parametrize(
    "data",
    [
        b"text\n",
        b"\xfd7zXZ\x00rest",
        b"\x28\xb5\x2f\xfdrest\n",
        PACKED[:12],
        gzip.compress(b"text"),
        bytes(99),
    ],
)
def test_not_one_line_can_be_read(
    data: bytes,
    command: list[str],
    path: Callable[[bytes], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An empty list from it would refuse every host, an empty page would say that all is well."""
    page = tmp_path / "page.html"
    arguments = [argument.replace("{page}", str(page)) for argument in command]
    assert main(["audit", *arguments, path(data)]) == 2
    told = capsys.readouterr()
    assert "not one line could be read: this is no audit log, or it is damaged" in told.out + told.err
    assert "allowed_hosts" not in told.out
    assert not page.exists()


@pytest.mark.parametrize("data", [b"", b"\n\n", gzip.compress(b"")])
def test_an_empty_log_is_a_log(
    data: bytes, path: Callable[[bytes], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "suggest", path(data)]) == 0
    assert main(["audit", "report", path(data), "-o", "-"]) == 0
    told = capsys.readouterr()
    assert "There is no request in this log." in told.out
    assert told.err == ""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/mem is Linux's")
def test_a_log_whose_disk_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """Reading address 0 of this process is an input/output error."""
    assert main(["audit", "suggest", "/proc/self/mem"]) == 2
    told = capsys.readouterr().err
    assert told == "tidegate: the log cannot be read to its end: Input/output error\n"


# Where the page goes -----------------------------------------------------------------------------------


def same(log: Path, other: Path) -> Path:
    return log


def symbolic(log: Path, other: Path) -> Path:
    other.symlink_to(log)
    return other


def hard(log: Path, other: Path) -> Path:
    other.hardlink_to(log)
    return other


def roundabout(log: Path, other: Path) -> Path:
    return log.parent / ".." / log.parent.name / log.name


@pytest.mark.parametrize("link", [same, symbolic, hard, roundabout])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_log_is_not_written_over(
    link: Callable[[Path, Path], Path],
    swapped: bool,
    path: Callable[[bytes], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By whatever name, and whichever of several it is."""
    log = Path(path(LOG))
    other = link(log, tmp_path / "other")
    first = tmp_path / "first.jsonl"
    first.write_bytes(LOG)
    source, target = (other, log) if swapped else (log, other)
    assert main(["audit", "report", str(first), str(source), "-o", str(target)]) == 2
    told = capsys.readouterr()
    assert told.err == (
        f"tidegate: -o {target} is the log {source} that is read: give the page another name\n"
    )
    assert log.read_bytes() == LOG


def test_nor_if_it_is_standard_input_or_output(
    path: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Path(path(LOG))
    with log.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert main(["audit", "report", "-", "-o", str(log)]) == 2
    assert "is the log - that is read" in capsys.readouterr().err
    with log.open("a") as stream, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream)
        assert main(["audit", "report", str(log), "-o", "-"]) == 2
    assert log.read_bytes() == LOG


@pytest.fixture
def loose_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("loose_umask")
@pytest.mark.parametrize("there", [None, 0o644, 0o600])
def test_the_page_is_for_its_owner_alone(
    there: int | None, path: Callable[[bytes], str], tmp_path: Path
) -> None:
    """As the log is, whose names it tells; also in the place of an older page that was not."""
    page = tmp_path / "page.html"
    if there is not None:
        page.write_text("an older page")
        page.chmod(there)
    assert main(["audit", "report", path(LOG), "-o", str(page)]) == 0
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.read_text().endswith("</html>\n")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["audit.jsonl", "page.html"]


def test_a_link_stays_a_link(path: Callable[[bytes], str], tmp_path: Path) -> None:
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    link.symlink_to(real)
    for _ in range(2):
        assert main(["audit", "report", path(LOG), "-o", str(link)]) == 0
        assert link.is_symlink()
        assert real.read_text().endswith("</html>\n")


def test_whoever_reads_the_older_page_keeps_it(path: Callable[[bytes], str], tmp_path: Path) -> None:
    """It is replaced whole, not emptied and filled."""
    page = tmp_path / "page.html"
    page.write_text("an older page")
    with page.open() as reading:
        assert main(["audit", "report", path(LOG), "-o", str(page)]) == 0
        assert reading.read() == "an older page"


def test_a_page_that_cannot_be_put_in_place_leaves_nothing(
    path: Callable[[bytes], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    assert main(["audit", "report", path(LOG), "-o", str(tmp_path / "folder")]) == 1
    assert "folder cannot be written: Is a directory" in capsys.readouterr().err
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["audit.jsonl", "folder"]


def test_a_device_is_written_as_it_is(path: Callable[[bytes], str]) -> None:
    assert main(["audit", "report", path(LOG), "-o", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()
