"""Downloads into a file: whole or not there, resumed only with a validator, under a name that is safe."""

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.cli.conftest import OPERATOR, Command, Origin
from tests.tools.cli.range_server import CONTENT, RangeServer
from tidegate.testing.origin import content_of
from tidegate_tools.cli.exits import CommandError
from tidegate_tools.cli.part_file import PartFile


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_whole_download(command: Command, origin: Origin, in_directory: Path):
    ended = command("fetch", f"{origin.plain}/content?size=100000", "-o", "data")
    assert (ended.code, ended.out, ended.err) == (0, b"", "")
    assert Path("data").read_bytes() == content_of(100_000)
    assert names(in_directory) == ["data"]


def test_json_names_the_file(command: Command, origin: Origin, in_directory: Path):
    told = command("fetch", f"{origin.plain}/content", "-o", "data", "--json").json
    assert (told["file"], told["content"], told["content_bytes"]) == (str(in_directory / "data"), None, 1000)


def test_the_head_goes_to_standard_output_and_the_content_into_the_file(command, origin, in_directory):
    assert command("fetch", "-i", f"{origin.plain}/content", "-o", "data").out.startswith(
        b"HTTP/1.1 200 OK\r\n"
    )
    assert Path("data").read_bytes() == content_of(1000)


def test_a_dash_is_standard_output(command: Command, origin: Origin, in_directory: Path):
    assert command("fetch", f"{origin.plain}/content?size=3", "-o", "-").out == b"012"
    assert names(in_directory) == []


@pytest.mark.parametrize("path", ["/nothing", "/content?status=500", "/redirect?to=/echo"])
def test_an_error_page_is_not_saved_under_the_name_of_the_file(path, command, origin, in_directory):
    Path("data").write_text("of yesterday")
    ended = command("fetch", origin.plain + path, "-o", "data")
    assert ended.code in (3, 4, 5)
    assert "nothing is saved" in ended.err
    assert (names(in_directory), Path("data").read_text()) == (["data"], "of yesterday")
    assert command("fetch", origin.plain + path, "-o", "data", "--no-check-status").code == 0
    assert Path("data").read_text() != "of yesterday"


@pytest.mark.parametrize(
    ("path", "options", "code"),
    [
        ("/wrong-length", [], 16),
        ("/cut", [], 16),
        ("/reset?after=500", [], 16),
        ("/drip-content?size=100", ["--timeout", "0.5"], 14),
        ("/content?size=100", ["--max-bytes", "10", "--fail-on-truncate"], 15),
    ],
)
def test_half_a_file_is_never_taken_for_a_whole_one(path, options, code, command, origin, in_directory):
    """Without a validator nothing could complete it either, so nothing of it stays."""
    Path("data").write_text("of yesterday")
    ended = command("fetch", origin.plain + path, "-o", "data", *options)
    assert ended.code == code
    assert (names(in_directory), Path("data").read_text()) == (["data"], "of yesterday")


def test_a_cut_that_was_asked_for_is_saved_and_told(command: Command, origin: Origin, in_directory: Path):
    ended = command("fetch", f"{origin.plain}/content", "-o", "data", "--max-bytes", "10")
    assert (ended.code, Path("data").read_bytes()) == (0, b"0123456789")
    assert "cut after 10 bytes" in ended.err


def test_a_refusal_touches_no_file(bare: Command, in_directory: Path):
    assert bare("fetch", "http://10.0.0.1/", "-o", "data").code == 10
    assert names(in_directory) == []


def test_a_link_stays_a_link(command: Command, origin: Origin, in_directory: Path):
    Path("real").write_text("of yesterday")
    Path("link").symlink_to("real")
    command("fetch", f"{origin.plain}/content?size=3", "-o", "link")
    assert Path("link").is_symlink()
    assert Path("real").read_bytes() == b"012"


def test_a_planted_link_is_not_followed(command: Command, origin: Origin, in_directory: Path):
    """In a directory that others write to, `data.part` may be a trap."""
    Path("victim").write_text("precious")
    Path("data.part").symlink_to("victim")
    assert command("fetch", f"{origin.plain}/content?size=3", "-o", "data").code == 0
    assert (Path("victim").read_text(), Path("data").read_bytes()) == ("precious", b"012")


def test_a_device_is_written_and_not_replaced(command: Command, origin: Origin, in_directory: Path):
    assert command("fetch", f"{origin.plain}/content", "-o", os.devnull).code == 0
    assert not Path(os.devnull).is_file()
    ended = command("fetch", f"{origin.plain}/content", "-o", "/dev/full")
    assert (ended.code, ended.err) == (1, "tidegate: /dev/full cannot be written: No space left on device\n")


# More than the buffers of a connection take, so that who has sent it knows that some of it was written.
MUCH = 32 * 1024 * 1024


def test_an_interrupted_download_leaves_only_a_part(in_directory: Path, ranges: RangeServer):
    ranges.content, ranges.hold_after = bytes(MUCH + 1), MUCH
    program = [sys.executable, "-m", "tidegate_tools.cli", "fetch", ranges.url, "-o", "data", *OPERATOR]
    with subprocess.Popen(program, stderr=subprocess.PIPE) as process:
        assert ranges.held.wait(30)
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 130
        assert b"Traceback" not in process.stderr.read()
    assert names(in_directory) == ["data.part", "data.part.json"]
    assert 0 < Path("data.part").stat().st_size <= MUCH


@pytest.mark.usefixtures("hang_ups")
@pytest.mark.parametrize(
    ("number", "code", "reason"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "hung_up")]
)
def test_other_signals_end_it_like_an_interrupt(number, code, reason, in_directory, ranges):
    with downloading(ranges, "--json") as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert process.returncode == code
    assert json.loads(out)["error"]["reason"] == reason
    assert err == f"tidegate: {reason.replace('_', ' ')}\n".encode()
    assert names(in_directory) == ["data.part", "data.part.json"]


def test_what_is_ignored_stays_so(in_directory: Path, ranges: RangeServer):
    """`nohup tidegate fetch ...` lives on when the terminal goes."""
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with downloading(ranges) as process:
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 143
    finally:
        signal.signal(signal.SIGHUP, hang_up)


def test_the_head_alone_makes_an_empty_file(command: Command, origin: Origin, in_directory: Path):
    assert command("fetch", "-X", "HEAD", f"{origin.plain}/content", "-o", "data").code == 0
    assert Path("data").read_bytes() == b""


# --continue -----------------------------------------------------------------------------------------------


def broken(command: Command, ranges: RangeServer, size: int = 5000) -> None:
    """A first download that breaks off."""
    ranges.break_after = size
    assert command("fetch", ranges.url, "-o", "data").code == 16
    ranges.break_after = None


def resumed(command: Command, ranges: RangeServer):
    ranges.requests.clear()
    return command("fetch", ranges.url, "-o", "data", "--continue")


def test_a_broken_download_is_resumed_with_its_validator(command, ranges, in_directory):
    broken(command, ranges)
    assert names(in_directory) == ["data.part", "data.part.json"]
    assert Path("data.part").read_bytes() == CONTENT[:5000]
    ended = resumed(command, ranges)
    assert (ended.code, ended.err) == (0, "")
    assert (ranges.requests[0]["range"], ranges.requests[0]["if-range"]) == ("bytes=5000-", '"one"')
    assert ranges.requests[0]["accept-encoding"] == "identity"
    assert (names(in_directory), Path("data").read_bytes()) == (["data"], CONTENT)


def test_a_download_can_break_more_than_once(command, ranges, in_directory):
    broken(command, ranges)
    ranges.break_after = 7000
    assert resumed(command, ranges).code == 16
    assert Path("data.part").stat().st_size == 12_000
    ranges.break_after = None
    assert resumed(command, ranges).code == 0
    assert Path("data").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"ETag": '"strong"'}, True),
        ({"ETag": 'W/"weak"'}, False),
        ({"ETag": "no quotes"}, False),
        ({}, False),
        ({"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "Date": "Mon, 01 Jan 2024 00:00:01 GMT"}, True),
        ({"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "Date": "Mon, 01 Jan 2024 00:00:00 GMT"}, False),
        ({"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, False),
        ({"Last-Modified": "yesterday", "Date": "today"}, False),
    ],
)
def test_only_a_strong_validator_is_one(fields, kept, command, ranges, in_directory):
    """RFC 9110 13.1.5: a weak one may be the same for other bytes, and so may a date within its second."""
    ranges.fields = fields
    broken(command, ranges)
    assert names(in_directory) == (["data.part", "data.part.json"] if kept else [])
    assert resumed(command, ranges).code == 0
    assert ("range" in ranges.requests[0]) == kept
    assert Path("data").read_bytes() == CONTENT


def test_a_changed_file_is_fetched_anew(command, ranges, in_directory):
    broken(command, ranges)
    ranges.fields, ranges.content = {"ETag": '"two"'}, CONTENT[::-1]
    assert resumed(command, ranges).code == 0
    assert Path("data").read_bytes() == CONTENT[::-1]


def test_a_server_without_ranges_sends_it_all_again(command, ranges, in_directory):
    broken(command, ranges)
    ranges.ranges = "ignored"
    assert resumed(command, ranges).code == 0
    assert Path("data").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"ranges": "blind", "fields": {"ETag": '"two"'}}, 16),
        ({"ranges": "blind", "content": CONTENT[:-1]}, 16),
        ({"ranges": "misplaced"}, 16),
        ({"ranges": "none_left"}, 4),
    ],
    ids=["another tag", "another length", "another place", "nothing left"],
)
def test_what_does_not_fit_is_not_glued_on(change, code, command, ranges, in_directory):
    """Not every server heeds If-Range. The part stays as it was."""
    broken(command, ranges)
    for name, value in change.items():
        setattr(ranges, name, value)
    ended = resumed(command, ranges)
    assert ended.code == code
    assert "fetch again without --continue" in ended.err
    assert names(in_directory) == ["data.part", "data.part.json"]
    assert Path("data.part").read_bytes() == CONTENT[:5000]


def test_a_part_that_was_whole_is_given_its_name(command, ranges, in_directory):
    """Power may fail between the last byte and the new name."""
    broken(command, ranges)
    Path("data.part").write_bytes(CONTENT)
    ranges.ranges = "none_left"
    assert resumed(command, ranges).code == 0
    assert (names(in_directory), Path("data").read_bytes()) == (["data"], CONTENT)


@pytest.mark.parametrize(
    "side",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b'{"version": 1, "request": 1, "value": 2, "length": 3}',
        b"\xff" * 100,
        b"[" * 60_000,
        b" " * 100_000,
        None,
    ],
    ids=lambda value: repr(value)[:12],
)
def test_a_side_file_that_makes_no_sense_is_as_if_absent(side, command, ranges, in_directory):
    broken(command, ranges)
    Path("data.part.json").unlink()
    if side is not None:
        Path("data.part.json").write_bytes(side)
    assert resumed(command, ranges).code == 0
    assert "range" not in ranges.requests[0]
    assert Path("data").read_bytes() == CONTENT


def test_a_side_file_that_is_a_pipe_is_not_waited_for(command, ranges, in_directory):
    broken(command, ranges)
    Path("data.part.json").unlink()
    os.mkfifo("data.part.json")
    assert resumed(command, ranges).code == 0
    assert Path("data").read_bytes() == CONTENT


def test_the_part_of_another_url_is_not_gone_on_with(command, ranges, in_directory):
    broken(command, ranges)
    assert command("fetch", f"{ranges.url}?v=2", "-o", "data", "--continue").code == 0
    assert "range" not in ranges.requests[-1]


def test_the_side_file_holds_no_url(command, ranges, in_directory):
    ranges.url += "?token=s3cret"
    broken(command, ranges)
    assert b"s3cret" not in Path("data.part.json").read_bytes()


def test_nothing_to_continue_is_a_download(command, ranges, in_directory):
    assert resumed(command, ranges).code == 0
    assert Path("data").read_bytes() == CONTENT


def test_decoded_content_is_not_resumed(command, origin, in_directory):
    """A range is of the coded bytes; the part holds what the caller's own Accept-Encoding brought."""
    url = f"{origin.plain}/bomb?size=100000&field=ETag:%22a%22"
    assert command("fetch", url, "-o", "data").code == 0
    assert Path("data").read_bytes().startswith(b"\x1f\x8b")


# Two runs for one file ------------------------------------------------------------------------------------


@contextlib.contextmanager
def downloading(ranges: RangeServer, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A download in a process of its own, part of which has come."""
    ranges.content, ranges.hold_after = bytes(MUCH + 1), MUCH
    ranges.held.clear()
    program = [sys.executable, "-m", "tidegate_tools.cli", "fetch", ranges.url, "-o", "data", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen([*program, *OPERATOR], stdout=pipe, stderr=pipe) as process:
        try:
            assert ranges.held.wait(30)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("options", [(), ("--continue",)])
def test_a_second_run_for_the_same_file_leaves_the_first_alone(options, command, ranges, in_directory):
    """A file is whole or not there: neither may remove, or give its name to, what the other one writes."""
    with downloading(ranges) as first:
        before = Path("data.part").stat().st_ino
        second = command("fetch", ranges.url, "-o", "data", *options)
        assert second.code == 1
        assert second.err.endswith(f"tidegate: another download of {in_directory / 'data'} is running\n")
        assert names(in_directory) == ["data.part", "data.part.json"]
        assert Path("data.part").stat().st_ino == before
        first.terminate()
    ranges.hold_after = None
    assert resumed(command, ranges).code == 0
    assert Path("data").read_bytes() == bytes(MUCH + 1)


def test_a_part_that_is_not_ours_any_more_gets_no_name(tmp_path: Path):
    """Whatever does not look for the lock: an `mv`, another program's download."""
    target = tmp_path / "data"
    part = PartFile.create(target)
    part.write(b"ours")
    part.check(4)
    with pytest.raises(CommandError, match="changed or removed"):
        part.check(5)
    part.path.rename(tmp_path / "aside")
    with pytest.raises(CommandError, match="changed or removed"):
        part.check(4)
    part.path.write_bytes(b"hers")
    with pytest.raises(CommandError, match="changed or removed"):
        part.check(4)
    part.remove()
    part.close()
    assert part.path.read_bytes() == b"hers"


def test_what_a_killed_download_left_is_no_other_download(command, ranges, in_directory):
    with downloading(ranges) as process:
        process.kill()
    ranges.hold_after = None
    assert command("fetch", ranges.url, "-o", "data").code == 0
    assert Path("data").read_bytes() == bytes(MUCH + 1)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o664])
def test_a_file_that_is_replaced_keeps_its_permissions(mode, command, origin, in_directory):
    Path("data").write_text("of yesterday")
    Path("data").chmod(mode)
    assert command("fetch", f"{origin.plain}/content?size=3", "-o", "data").code == 0
    assert (stat.S_IMODE(Path("data").stat().st_mode), Path("data").read_bytes()) == (mode, b"012")


def test_while_it_grows_it_is_no_more_open_than_the_file(command, ranges, in_directory):
    Path("data").touch(0o600)
    broken(command, ranges)
    assert stat.S_IMODE(Path("data.part").stat().st_mode) == 0o600


def test_the_validator_of_an_older_part_does_not_vouch_for_a_newer(command, ranges, in_directory):
    """Not even if the newer download is killed, and nothing tidies up."""
    broken(command, ranges)
    ranges.fields = {}
    with downloading(ranges) as process:
        process.kill()
    assert names(in_directory) == ["data.part"]


# Writing is within the time-out ---------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--format", "text")])
def test_a_pipe_that_nobody_reads(options, command, origin, in_directory):
    os.mkfifo("pipe")
    url = f"{origin.plain}/content?field=Content-Type:text/plain"
    ended = command("fetch", url, "-o", "pipe", "--timeout", "2", *options)
    assert ended.code == 14
    assert "nobody has taken the output within the 2 s of --timeout" in ended.err


def test_a_pipe_that_somebody_reads(command, origin, in_directory):
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        assert command("fetch", f"{origin.plain}/content?size=100000", "-o", "pipe").code == 0
        assert reader.stdout.read() == content_of(100_000)


def test_a_standard_output_that_stalls(origin: Origin):
    program = [sys.executable, "-m", "tidegate_tools.cli", "fetch", f"{origin.plain}/endless-content"]
    program += ["--timeout", "2", *OPERATOR]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.wait(20) == 14
        assert b"nobody has taken the output" in process.stderr.read()


# -O -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ("attachment;filename=report.pdf", "report.pdf"),
        ("attachment;filename=%22../../etc/passwd%22", "passwd"),
        ("attachment;filename*=UTF-8%27%27na%25C3%25AFve.txt", "naïve.txt"),
        ("attachment", "content"),
        ("attachment;filename=..", "content"),
    ],
)
def test_the_server_names_the_file_within_the_directory(disposition, name, command, origin, in_directory):
    url = f"{origin.plain}/content?size=3&field=Content-Disposition:{disposition}"
    told = command("fetch", "-O", url, "--json").json
    assert told["file"] == str(in_directory / name)
    assert (names(in_directory), Path(name).read_bytes()) == ([name], b"012")


def test_a_name_that_a_server_gave_never_replaces_a_file(command, origin, in_directory):
    Path("content").write_text("mine")
    Path("content-1.part").write_text("mine, too")
    assert command("fetch", "-O", f"{origin.plain}/content?size=3").code == 0
    assert names(in_directory) == ["content", "content-1.part", "content-2"]
    assert Path("content").read_text() == "mine"


def test_a_file_system_without_links_will_do(command, origin, in_directory, monkeypatch):
    """FAT has none; there a name that is free is taken by renaming."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert command("fetch", "-O", f"{origin.plain}/content?size=3").code == 0
    assert (names(in_directory), Path("content").read_bytes()) == (["content"], b"012")
