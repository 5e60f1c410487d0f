"""`tidegate fetch --format`: the text of a page, who made it, and what is said of content that has none."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.tools.cli.conftest import OPERATOR, Command, Origin
from tests.tools.cli.test_terminal import on_terminal
from tests.tools.pages.responses import article
from tidegate_tools.cli import program

MARKDOWN = "resiliparse+html-to-markdown"
PAGE = article("Water rises and falls, é. " * 10)


def url_of(
    origin: Origin, content: bytes | str, content_type: str = "text/html; charset=utf-8", *fields: str
) -> str:
    """A URL at which the origin answers with this content."""
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {content_type}", *fields, "", ""]
    data = "\r\n".join(lines).encode() + (content.encode() if isinstance(content, str) else content)
    return f"{origin.plain}/raw?bytes={quote(data)}"


def test_markdown_is_the_main_part_with_absolute_links(command: Command, origin: Origin) -> None:
    ended = command("fetch", url_of(origin, PAGE), "--format", "markdown")
    text = ended.out.decode()
    assert (ended.code, ended.err) == (0, "")
    assert "# Tides" in text
    assert f"[link]({origin.plain}/moon?a=1)" in text
    assert "falls, é." in text
    assert "imprint" not in text
    assert "<" not in text


def test_text_has_no_marks(command: Command, origin: Origin) -> None:
    text = command("fetch", url_of(origin, PAGE), "--format", "text").out.decode()
    assert "Some link in a text about tides." in text
    assert "#" not in text
    assert "](" not in text


def test_raw_is_the_default(command: Command, origin: Origin) -> None:
    url = url_of(origin, PAGE)
    assert command("fetch", url).out == PAGE.encode()
    assert command("fetch", url, "--format", "raw") == command("fetch", url)


def test_pages_come_out_in_utf_8_whatever_they_came_in(command: Command, origin: Origin) -> None:
    url = url_of(origin, PAGE.encode("windows-1252"), "text/html; charset=windows-1252")
    assert "falls, é." in command("fetch", url, "--format", "markdown").out.decode()


def test_other_text_is_left_as_it_is(command: Command, origin: Origin) -> None:
    ended = command("fetch", "-v", url_of(origin, '{"a": "<b>"}', "application/json"), "--format", "markdown")
    assert ended.out == b'{"a": "<b>"}'
    assert ended.err.endswith("* page: application/json is shown as it came\n")


@pytest.mark.parametrize(("wanted", "converter"), [("markdown", MARKDOWN), ("text", "resiliparse")])
def test_who_made_the_text_is_told(wanted: str, converter: str, command: Command, origin: Origin) -> None:
    """In -v and in --json; a log without -v stays empty."""
    url = url_of(origin, PAGE)
    assert f"* page: {wanted} by {converter}\n" in command("fetch", "-v", url, "--format", wanted).err
    assert command("fetch", url, "--format", wanted).err == ""
    told = command("fetch", "--json", url, "--format", wanted).json
    assert told["page"] == {"format": wanted, "converter": converter, "tried": [], "is_html": True}
    assert "Water rises" in told["content"]
    assert told["content_bytes"] == len(PAGE.encode())
    assert "page" not in command("fetch", "--json", url).json


def test_a_converter_that_found_nothing_is_told_too(command: Command, origin: Origin) -> None:
    url = url_of(origin, "<html><body><h1>Hi</h1></body></html>")
    told = command("fetch", "--json", url, "--format", "markdown").json
    assert told["content"] == "# Hi\n"
    assert told["page"]["converter"] == "html-to-markdown"
    assert told["page"]["tried"] == [f"{MARKDOWN}: found too little text"]


def test_html_that_nobody_could_convert_comes_with_a_warning(command: Command, origin: Origin) -> None:
    """A script would take the HTML for markdown. `-q` is quiet."""
    url = url_of(origin, "<html><head><title></title></head></html>")
    ended = command("fetch", url, "--format", "markdown")
    assert ended.code == 0
    assert ended.out == b"<html><head><title></title></head></html>"
    assert ended.err.startswith("tidegate: the page could not be converted: text/html is shown as it came (")
    assert command("fetch", "-q", url, "--format", "markdown").err == ""


# Into a file ----------------------------------------------------------------------------------------------


def test_a_page_is_saved_as_its_text(command: Command, origin: Origin, in_directory: Path) -> None:
    """Also where a length was announced and a validator given: neither is that of the text."""
    url = url_of(origin, PAGE, "text/html", f"Content-Length: {len(PAGE.encode())}", 'ETag: "one"')
    ended = command("fetch", url, "--format", "markdown", "-o", "page.md")
    assert (ended.code, ended.out) == (0, b"")
    assert "# Tides" in (in_directory / "page.md").read_text("utf-8")
    assert [path.name for path in in_directory.iterdir()] == ["page.md"]
    told = command("fetch", "--json", url, "--format", "markdown", "-o", "page.md").json
    assert (told["content"], told["file"]) == (None, str(in_directory / "page.md"))


def test_a_file_stays_if_there_is_no_text(command: Command, origin: Origin, in_directory: Path) -> None:
    (in_directory / "page.md").write_text("old")
    url = url_of(origin, b"%PDF-1.7 \x00", "application/pdf")
    assert command("fetch", url, "--format", "text", "-o", "page.md").code == 1
    missing = f"{origin.plain}/nothing"
    assert command("fetch", missing, "--format", "text", "-o", "page.md").code == 4
    assert [(path.name, path.read_text()) for path in in_directory.iterdir()] == [("page.md", "old")]


@pytest.mark.parametrize("options", [["-O"], ["-o", "page.md", "--continue"]])
def test_what_is_for_raw_content_is_refused(options: list[str], command: Command, origin: Origin) -> None:
    ended = command("fetch", f"{origin.plain}/content", "--format", "text", *options)
    assert ended.code == 2
    assert "--format text goes with -o FILE, not" in ended.err


# No text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["text", "markdown"])
@pytest.mark.parametrize(
    ("content", "media_type", "said"),
    [
        (b"%PDF-1.7 abc", "application/pdf", "a PDF document, 12 bytes of the type application/pdf"),
        (b"%PDF-1.7 abc", "text/html", "a PDF document, 12 bytes of the type text/html"),
        (b"\x89PNG\r\n\x1a\n\x00", "image/png", "binary, 9 bytes of the type image/png"),
        (b"<p>a\x00b", "text/html", "binary, 6 bytes of the type text/html"),
    ],
)
def test_binary_content_is_said_to_be_such(
    content: bytes, media_type: str, said: str, wanted: str, command: Command, origin: Origin
) -> None:
    ended = command("fetch", url_of(origin, content, media_type), "--format", wanted)
    assert (ended.code, ended.out) == (1, b"")
    assert ended.err == (
        f"tidegate: the content is {said}, and no text: leave --format out, and use -o FILE\n"
    )
    told = command("fetch", "--json", url_of(origin, content, media_type), "--format", wanted)
    assert told.json["error"]["reason"] == "binary_content"


def test_content_that_nobody_decoded_is_no_text(command: Command, origin: Origin) -> None:
    """D-3: the caller asked for the coding, so it is still there."""
    url = f"{origin.plain}/bomb?size=1000"
    ended = command("fetch", url, "--format", "text", "-H", "Accept-Encoding: gzip")
    assert (ended.code, ended.out) == (1, b"")
    assert "still coded (gzip)" in ended.err


def test_where_no_content_comes_there_is_nothing_to_convert(command: Command, origin: Origin) -> None:
    url = url_of(origin, b"", "image/png", "Content-Length: 0")
    assert command("fetch", url, "--format", "markdown") == command("fetch", url)
    empty = url_of(origin, b"", "text/html", "Content-Length: 0")
    assert command("fetch", "-v", empty, "--format", "text").err.endswith("* page: there is no content\n")
    head = command("fetch", "-X", "HEAD", f"{origin.plain}/content", "--format", "markdown")
    assert (head.code, head.err) == (0, "")
    assert head.out.startswith(b"HTTP/1.1 200 OK\r\n")


# Bounds ---------------------------------------------------------------------------------------------------


def test_a_page_is_kept_up_to_four_mebibytes(command: Command, origin: Origin) -> None:
    """D-25: as with --json. A cut is told, and fails where it should."""
    url = f"{origin.plain}/content?size=5000000&field=Content-Type:text/plain"
    ended = command("fetch", url, "--format", "text")
    assert (ended.code, len(ended.out)) == (0, 4 << 20)
    assert "the content is cut after 4194304 bytes" in ended.err
    assert command("fetch", url, "--format", "text", "--fail-on-truncate").code == 15
    assert len(command("fetch", url, "--format", "text", "--max-bytes", "5M").out) == 5_000_000


def test_a_page_that_is_too_much_for_the_converter_is_told(command: Command, origin: Origin) -> None:
    """All of it has come, but only its beginning is printed: nobody should take that for the whole."""
    url = f"{origin.plain}/content?size=17000000&field=Content-Type:text/plain"
    ended = command("fetch", url, "--format", "text", "--max-bytes", "20M")
    assert (ended.code, len(ended.out)) == (0, 64 << 10)
    assert "only its beginning is left" in ended.err
    assert command("fetch", url, "--format", "text", "--max-bytes", "20M", "--fail-on-truncate").code == 15


def test_a_page_cannot_drive_a_terminal(origin: Origin) -> None:
    code, shown, _ = on_terminal("fetch", url_of(origin, PAGE + "<p>a\x1b[2Jb</p>"), "--format", "text")
    assert code == 0
    assert "\x1b" not in shown
    assert "tidegate: text by resiliparse" in shown


# The option -----------------------------------------------------------------------------------------------


def test_a_format_that_there_is_not(command: Command, origin: Origin) -> None:
    ended = command("fetch", f"{origin.plain}/content", "--format", "html")
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "'raw', 'text', 'markdown'" in ended.err


@pytest.mark.parametrize(
    ("words", "offered"),
    [("--form", ["--format"]), ("--format ", ["raw", "text", "markdown"]), ("--format m", ["markdown"])],
)
def test_the_shell_completes_it(
    words: str, offered: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_TIDEGATE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"tidegate fetch {words}")
    monkeypatch.setenv("COMP_CWORD", str(2 + words.count(" ")))
    with pytest.raises(SystemExit):
        program.run([])
    assert capsys.readouterr().out.split() == [f"plain,{word}" for word in offered]


def test_without_the_extra_nothing_is_sent(origin: Origin) -> None:
    script = (
        "import sys; sys.modules['resiliparse'] = None;"
        "from tidegate_tools.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "fetch", "-v", f"{origin.plain}/content", *OPERATOR]
    ended = subprocess.run([*command, "--format", "text"], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr == "tidegate: resiliparse is not installed: pip install 'tidegate[text]'\n"
    assert subprocess.run(command, capture_output=True).returncode == 0
