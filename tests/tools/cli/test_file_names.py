"""File names out of what a server says: they stay within the directory, and look like what they are."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import Headers, parse_url
from tidegate_tools.cli.file_names import FALLBACK, MAX_BYTES, free_path, remote_name, safe_name


@pytest.mark.parametrize(
    ("given_name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("a b (1) & c'.txt", "a b (1) & c'.txt"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("../..", ""),
        (".bashrc", "bashrc"),
        ("...hidden...", "hidden"),
        ("-rf", "_-rf"),
        ("a\x00b\nc\x1b[2J", "a_b_c_[2J"),
        ("invoice\u202efdp.exe", "invoice_fdp.exe"),
        ("C:evil.txt", "C_evil.txt"),
        ("nul.txt", "_nul.txt"),
        ("COM1", "_COM1"),
        ("null.txt", "null.txt"),
        ("a/", ""),
        ("", ""),
        ("???", ""),
        ("x" * 300 + ".tar.gz", "x" * (MAX_BYTES - 3) + ".gz"),
        ("ä" * 200, "ä" * 100),
        ("\ud800.txt", "_.txt"),
    ],
)
def test_safe_names(given_name, safe):
    assert safe_name(given_name) == safe


@given(st.text())
def test_a_safe_name_is_one_visible_component(name):
    """Whatever it is made of; and making it safe again changes nothing."""
    safe = safe_name(name)
    assert safe == "" or (Path(safe).name == safe and safe not in (".", ".."))
    assert not safe.startswith((".", "-"))
    assert len(safe.encode()) <= MAX_BYTES + 1
    assert all(
        character.isprintable() or character == "\u3000" or not character.isascii() for character in safe
    )


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("attachment; filename=a.txt", "a.txt"),
        ('attachment; filename="a;b.txt"', "a;b.txt"),
        (r'attachment; filename="a\"b.txt"', "a_b.txt"),
        ('attachment; filename="open.txt', "open.txt"),
        ("attachment; FileName = a.txt ; size=3", "a.txt"),
        ("attachment; filename=plain.txt; filename*=UTF-8''%e2%82%ac.txt", "€.txt"),
        ("attachment; filename*=ISO-8859-1'en'%a3.txt", "£.txt"),
        ("attachment; filename*=UTF-8''..%2f..%2fetc%2fpasswd", "passwd"),
        ("attachment; filename*=UTF-16''x; filename=b.txt", "b.txt"),
        ("attachment; filename*=UTF-8''%00; filename=b.txt", "b.txt"),
        ("attachment; filename=; filename=c.txt", "last"),
        ("inline", "last"),
        ("", "last"),
        ("filename=no-disposition.txt", "last"),
        ('attachment; filename="' + "\\" * 100_000, "last"),
    ],
)
def test_content_disposition(value, name):
    """RFC 6266: the extended form first; what makes no sense leaves the URL's own name."""
    headers = Headers([(b"Content-Disposition", value.encode())])
    assert remote_name(headers, parse_url("http://a.example/x/last?q=1")) == name


@pytest.mark.parametrize(
    ("path", "name"),
    [("/", FALLBACK), ("/a/", FALLBACK), ("/a%20b.txt", "a b.txt"), ("/%2e%2e%2fx", "x"), ("/%ff", "\ufffd")],
)
def test_the_name_of_the_url(path, name):
    assert remote_name(Headers(), parse_url(f"http://a.example{path}")) == name


def test_a_free_path_is_the_first_that_nothing_has(tmp_path: Path):
    assert free_path(tmp_path, "a.txt", (".part",)).name == "a.txt"
    (tmp_path / "a.txt").symlink_to("nowhere")
    (tmp_path / "a-1.txt.part").touch()
    assert free_path(tmp_path, "a.txt", (".part",)).name == "a-2.txt"
    (tmp_path / "README").touch()
    assert free_path(tmp_path, "README", ()).name == "README-1"
