"""The origin that the command is run against, and the two ways to run it."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tools.cli.range_server import RangeServer, open_range_server
from tidegate_tools.cli import main

NAME = "origin.example"
OPERATOR = ("--resolve", f"{NAME}=127.0.0.1", "--allow-private", f"127.0.0.0/8={NAME}")
"""What lets the command reach the origin: an operator's rule and an address, both through the floor."""


@dataclass(frozen=True)
class Origin:
    """The hostile origin, in a process of its own."""

    plain: str
    tls: str
    ca: str


@dataclass(frozen=True)
class Outcome:
    """How one run of the command ended."""

    code: int
    out: bytes
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)


Command = Callable[..., Outcome]


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    ca = tmp_path_factory.mktemp("origin") / "ca.pem"
    program = [sys.executable, "-m", "tidegate.testing.origin", "--exit-with-stdin", "--bind", "127.0.0.1:0"]
    program += ["--tls-bind", "127.0.0.1:0", "--tls-name", NAME, "--tls-authority", str(ca)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        ready = json.loads(process.stdout.readline())
        yield Origin(
            plain=f"http://{NAME}:{ready['plain'][0][1]}",
            tls=f"https://{NAME}:{ready['tls'][0][1]}",
            ca=str(ca),
        )
        process.stdin.close()
        process.wait(10)


@pytest.fixture
def ranges() -> Iterator[RangeServer]:
    with open_range_server() as server:
        yield server


@pytest.fixture
def bare(capsysbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Runs the command in this process, without a word from an operator."""

    def run(*arguments: object) -> Outcome:
        code = main([str(argument) for argument in arguments])
        captured = capsysbinary.readouterr()
        return Outcome(code, captured.out, captured.err.decode())

    return run


@pytest.fixture
def command(bare: Command) -> Command:
    """The same with the operator's options that open the origin."""
    return lambda *arguments: bare(*arguments, *OPERATOR)


@pytest.fixture
def in_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
