"""What a terminal gets to see: text that cannot drive it, no binary content, and progress while one waits."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.cli.conftest import OPERATOR, Origin
from tidegate_tools.cli.terminal import visible_line, visible_text


def on_terminal(*arguments: str, out: bool = True, err: bool = True) -> tuple[int, str, bytes]:
    """Run the command with standard output or error on a pseudo terminal.

    Returns:
        The exit code, what the terminal showed, and what came through the pipe instead.
    """
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "tidegate_tools.cli", *arguments, *OPERATOR],
        stdin=subprocess.DEVNULL,
        stdout=follower if out else subprocess.PIPE,
        stderr=follower if err else subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    ) as process:
        os.close(follower)
        shown = b""
        while piece := _read(leader):
            shown += piece
        pipe = process.stdout or process.stderr
        piped = pipe.read() if pipe is not None else b""
        code = process.wait(10)
    os.close(leader)
    return code, shown.decode(), piped


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # how Linux says that nobody has the other end any more
        return b""


def raw(origin: Origin, content: str, media_type: str = "text/plain", **fields: str) -> str:
    """A URL whose content is these percent-encoded bytes."""
    head = f"HTTP/1.1 200 OK%0D%0AContent-Type:{media_type}%0D%0A"
    head += "".join(f"{name.replace('_', '-')}:{value}%0D%0A" for name, value in fields.items())
    return f"{origin.plain}/raw?bytes={head.replace(' ', '%20')}%0D%0A{content}"


def test_text_of_a_peer_cannot_drive_a_terminal(origin: Origin):
    """No escape sequence, in C1 form neither; no lone CR that overwrites; no text in another order."""
    content = "a%1b[2J%07%c2%9b31mb%0d%0ac%0dd%e2%80%aee%09f"
    code, shown, _ = on_terminal("fetch", raw(origin, content))
    assert code == 0
    assert shown == "a\\x1b[2J\\x07\\x9b31mb\r\nc\r\nd\\u202ee\tf\r\n"


def test_neither_can_a_head_or_an_error(origin: Origin):
    url = raw(origin, "x", X_Evil="%c2%9b2J%e2%80%ae")
    code, shown, _ = on_terminal("fetch", "-i", url)
    assert code == 0
    assert "X-Evil: \\x9b2J\\u202e\r\n" in shown
    code, shown, _ = on_terminal("fetch", f"{origin.plain}/content?status=404&reason=%c2%9b2J")
    assert code == 4
    assert "\\x9b2J" in shown
    assert "\x1b" not in shown
    assert "\x9b" not in shown


def test_elsewhere_the_bytes_are_left_alone(origin: Origin):
    code, shown, piped = on_terminal("fetch", raw(origin, "a%1b[2J%0d%ff"), out=False)
    assert (code, shown, piped) == (0, "", b"a\x1b[2J\r\xff")


@pytest.mark.parametrize(
    ("content", "media_type"),
    [("%89PNG", "image/png"), ("a%00b", "text/plain"), ("%ff%fe", "application/octet-stream")],
)
def test_binary_content_never_goes_to_a_terminal(content, media_type, origin: Origin):
    code, shown, _ = on_terminal("fetch", raw(origin, content, media_type))
    assert code == 1
    assert "the content is binary" in shown
    assert "use -o FILE, or redirect it" in shown
    assert "PNG" not in shown


def test_content_in_a_coding_that_was_asked_for_is_binary(origin: Origin):
    code, shown, _ = on_terminal("fetch", f"{origin.plain}/bomb?size=10", "-H", "Accept-Encoding: gzip")
    assert (code, "the content is binary" in shown) == (1, True)


def test_text_is_read_in_its_charset(origin: Origin):
    assert on_terminal("fetch", raw(origin, "%e9", "text/plain;charset=windows-1252"))[1] == "é\r\n"
    assert on_terminal("fetch", raw(origin, "%ff%fea%00b%00"))[1] == "ab\r\n"


@pytest.mark.slow
def test_a_slow_download_shows_its_progress(origin: Origin, tmp_path: Path):
    """Amount, rate and time left, on standard error alone; quiet or behind a pipe there is none."""
    url = f"{origin.plain}/drip-content?size=80000&chunk=1000&interval=0.01"
    target = str(tmp_path / "big.bin")
    code, shown, piped = on_terminal("fetch", url, "-o", target, out=False)
    assert (code, piped) == (0, b"")
    assert "big.bin" in shown
    assert "KiB" in shown
    assert "/s" in shown
    assert "tidegate: 80000 bytes came; the file is " in shown
    assert on_terminal("fetch", url, "-o", target, "-q")[1] == ""
    assert on_terminal("fetch", url, "-o", target, err=False) == (0, "", b"")


@pytest.mark.usefixtures("hang_ups")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_leaves_the_cursor_visible(number, code, origin: Origin, tmp_path: Path):
    leader, follower = pty.openpty()
    url = f"{origin.plain}/drip-content?size=80000&chunk=1000&interval=0.1"
    program = [sys.executable, "-m", "tidegate_tools.cli", "fetch", url, "-o", str(tmp_path / "a"), *OPERATOR]
    with subprocess.Popen(program, stderr=follower, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(follower)
        shown = b""
        while b"\x1b[?25l" not in shown:
            shown += os.read(leader, 65536)
        process.send_signal(number)
        while piece := _read(leader):
            shown += piece
        assert process.wait(10) == code
    os.close(leader)
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")


def test_a_broken_download_says_what_is_left(origin: Origin, tmp_path: Path):
    url = f"{origin.plain}/wrong-length?field=ETag:%22a%22"
    code, shown, _ = on_terminal("fetch", url, "-o", str(tmp_path / "a"))
    assert code == 16
    assert "a.part is kept" in shown.replace("\r\n", "")
    assert "--continue goes on from there" in shown


@given(st.text())
def test_visible_text_has_no_controls(text):
    """Printable text is left as it is."""
    shown = visible_line(text)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    assert visible_text(shown) == shown
    if text.isprintable():
        assert shown == text


def test_tabs_and_line_feeds_are_for_texts_alone():
    assert visible_text("a\tb\nc\rd") == "a\tb\nc\\x0dd"
    assert visible_line("a\tb\nc\rd") == "a\\x09b\\x0ac\\x0dd"
