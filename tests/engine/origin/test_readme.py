"""The examples of the page run as they stand, pasted into a file."""

import re
import subprocess
import sys

import pytest

from tests.support.data import ROOT
from tests.support.examples import examples

PAGE = "engine/tidegate/testing/README.md"
ORIGIN = "503 b'01234'\nhead\n['/content?size=5&status=503', '/drip-head?interval=60'] []\n"
DNS = "True None\nFalse loopback\n2 []\n"


@pytest.mark.parametrize(("name", "output"), [("origin", ORIGIN), ("dns", DNS)])
def test_example(name: str, output: str) -> None:
    command = [sys.executable, "-c", examples(PAGE)[name]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (output, "", 0)


def commands() -> list[str]:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    return re.findall(r"^    python (-m tidegate\.testing\.origin .*)$", page, re.MULTILINE)


def test_a_command_for_each_kind_of_listener(tmp_path: "object") -> None:
    """Each starts as it stands, but for the port, which may be taken."""
    assert [next(w for w in line.split() if "bind" in w) for line in commands()] == [
        *("--bind", "--bind", "--tls-bind", "--stall-bind")
    ]
    for line in commands():
        words = [re.sub(r":8\d{2,3}$", ":0", word) for word in line.split()]
        done = subprocess.run(
            [sys.executable, *words, "--exit-with-stdin"],
            input="",
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            cwd=str(tmp_path),
        )
        assert (done.returncode, done.stderr, done.stdout.startswith("{")) == (0, "", True)
