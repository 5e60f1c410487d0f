"""The program around the commands: help that fits a screen, errors of every kind in one sentence."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.data import ROOT
from tests.tools.cli.conftest import Command
from tidegate import FetchError, InvalidURL
from tidegate_tools.cli import program
from tidegate_tools.cli.exits import CommandError, ExitCode
from tidegate_tools.cli.failures import failure_of
from tidegate_tools.cli.program import COMMANDS


def test_help_lists_every_command(bare: Command):
    ended = bare("--help")
    assert ended.code == 0
    for listed in COMMANDS:
        assert f"  {listed.name} " in ended.out.decode()
    assert bare() == ended


@pytest.mark.parametrize("command_line", [[], *([listed.name] for listed in COMMANDS)])
def test_help_fits_a_screen(command_line, bare: Command):
    lines = bare(*command_line, "--help").out.decode().splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


def test_every_exit_code_is_in_the_help(bare: Command):
    told = set(map(int, re.findall(r"\b(\d+) ", bare("--help").out.decode())))
    assert set(ExitCode) - told <= {3, 4, 5, ExitCode.BROKEN_PIPE}


def test_the_readme_tells_of_every_command_and_exit_code():
    text = (ROOT / "tools/tidegate_tools/cli/README.md").read_text()
    assert [listed.name for listed in COMMANDS if f"tidegate {listed.name}" not in text] == []
    table = text.partition("### Exit codes")[2].partition("###")[0]
    assert {str(int(code)) for code in ExitCode} <= set(re.findall(r"\d+", table))


def test_the_version(bare: Command):
    assert re.fullmatch(rb"tidegate \d+\.\d+\.\d+\n", bare("--version").out)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(["fetsch"], "No such command"), (["--nope"], "No such option"), (["fetch"], "Missing argument 'URL'")],
)
def test_wrong_command_lines(arguments, problem, bare: Command):
    ended = bare(*arguments)
    assert (ended.code, ended.out) == (2, b"")
    assert problem in ended.err
    assert "--help" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("command_line", ["--help", "--version", "fetch --help", "audit --help"])
def test_a_help_that_cannot_be_written(command_line: str):
    with Path("/dev/full").open("wb") as full:
        program = [sys.executable, "-m", "tidegate_tools.cli", *command_line.split()]
        ended = subprocess.run(program, stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode == 1
    assert ended.stderr == b"tidegate: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize("command_line", ["tool Fetch -", "fetch http://a.example/ -d @-"])
def test_a_closed_standard_input_is_a_sentence(command_line: str):
    script = f"exec {sys.executable} -m tidegate_tools.cli {command_line} <&-"
    ended = subprocess.run(["/bin/sh", "-c", script], stderr=subprocess.PIPE)
    assert ended.returncode == 2
    assert ended.stderr.endswith(b": standard input is closed\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["fetch", ""], "it is empty"),
        (["check", " "], "it is empty"),
        (["tool", "Fetch", '{"a": ' + "9" * 5000 + "}"], "5000 digits\n"),
        (["fetch", "http://a.example/", "--json-body", "9" * 5000], "5000 digits\n"),
        (["tool", "Fetch", "{}", "--grant", ""], "--grant '' is no host"),
        (["tool", "Fetch", "{}", "--grant", "http://o.example"], "--grant 'http://o.example' is no host"),
        (["tool", "Fetch", "{}", "--grant", "*.10.0.0.1"], "is no host"),
        (["tool", "Fetch", "{}", "--grant", "o.example:80"], "is no host"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_values_that_make_no_sense(arguments, problem, bare: Command):
    ended = bare(*arguments)
    assert (ended.code, ended.out) == (2, b"")
    assert problem in ended.err
    assert "https://" not in ended.err
    assert "set_int_max_str_digits" not in ended.err


@pytest.mark.parametrize(
    "grant", ["*", "**.*", "*.o.example", "**.o.example", "O.example.", "[::1]", "10.0.0.1"]
)
def test_grants_that_make_sense(grant, bare: Command):
    assert bare("tool", "Fetch", '{"url": "http://10.0.0.1/"}', "--grant", grant).code == 10


def test_a_host_list_is_called_as_in_the_policy_file(bare: Command, tmp_path: Path):
    (tmp_path / "policy.yaml").write_text("hosts: [b.example]")
    for name in ("fetch", "check"):
        ended = bare(name, "http://a.example/", "--policy", tmp_path / "policy.yaml")
        assert ended.code == 10
        assert "a.example is not in hosts" in ended.err + ended.out.decode()
        assert "allowed_hosts" not in ended.err + ended.out.decode()


RUN = "import sys; from tidegate_tools.cli import main; code = main(sys.argv[1:])"


def imported_by(*arguments: str) -> set[str]:
    script = f"{RUN}; print(*sys.modules, file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, check=True)
    return set(ended.stderr.decode().split())


def test_the_help_does_not_wait_for_the_engine():
    assert imported_by("--help").isdisjoint({"trio", "tidegate", "rich", "ruamel.yaml"})
    assert imported_by("fetch", "--help").isdisjoint({"rich", "trustme", "dns", "ruamel.yaml"})


@pytest.mark.parametrize(
    ("missing", "arguments", "sentence"),
    [
        ("click", ["--help"], "click is not installed: pip install 'tidegate[cli]'"),
        ("rich", ["demo"], "rich is not installed: pip install 'tidegate[cli]'"),
        ("ruamel.yaml", ["fetch", "http://a.example/", "--policy", "x"], "pip install 'tidegate[cli]'"),
        ("trustme", ["demo"], "trustme is not installed: pip install 'tidegate[testing]'"),
        ("dns", ["fetch", "http://a.example/", "--nameserver", "192.0.2.1"], "install tidegate[dns]"),
    ],
)
def test_a_missing_extra_is_named(missing, arguments, sentence):
    script = f"import sys; sys.modules[{missing!r}] = None; {RUN}; sys.exit(code)"
    ended = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True)
    assert ended.returncode == 1
    assert sentence in ended.stderr.decode()
    assert ended.stderr.count(b"\n") == 1


def test_completion_is_offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("_TIDEGATE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "tidegate fe")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit):
        program.run([])
    assert capsys.readouterr().out == "plain,fetch\n"


def boom() -> None:
    raise ZeroDivisionError("secret")


def test_a_bug_is_told_without_a_traceback_and_without_its_text():
    with pytest.raises(ZeroDivisionError) as caught:
        boom()
    failure = failure_of(caught.value)
    assert (failure.code, failure.reason) == (1, "internal_error")
    assert re.fullmatch(
        r"internal error: ZeroDivisionError in test_program.py, line \d+; please report it", str(failure)
    )


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (CommandError("no space"), 1, "no space"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BaseExceptionGroup("", [KeyboardInterrupt()]), 130, "interrupted"),
        (InvalidURL("no URL."), 2, "no URL"),
    ],
)
def test_every_error_is_a_failure(error, code, sentence):
    failure = failure_of(error)
    assert failure.code == code
    assert str(failure).startswith(sentence)


def test_every_error_of_the_engine_is_one():
    def subclasses(kind):
        yield kind
        for below in kind.__subclasses__():
            yield from subclasses(below)

    for kind in subclasses(FetchError):
        if kind.default_reason is not None:
            assert failure_of(kind("x")).reason == kind.default_reason
