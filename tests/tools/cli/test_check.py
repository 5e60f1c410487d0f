"""`tidegate check`: every check with its verdict, the setting behind it, and the way out."""

import socket

import pytest

from tests.tools.cli.conftest import Command

NAMES = ["url", "scheme", "host list", "local name", "port", "request", "grant", "resolution", "addresses"]


def test_what_is_allowed(command: Command):
    ended = command("check", "http://origin.example:8080/?q=1")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.decode().splitlines()
    assert lines[0] == "http://origin.example:8080/?q=1: allowed"
    assert [line[2:13].strip() for line in lines[1:10]] == NAMES
    assert all(" passes " in line for line in lines[1:10])
    assert lines[10] == "addresses: 127.0.0.1"


@pytest.mark.parametrize(
    ("url", "code", "refusing", "way_out"),
    [
        ("http://169.254.169.254/", 10, "addresses", None),
        ("http://10.0.0.1/", 10, "addresses", "to allow it: --allow-private 10.0.0.1=10.0.0.1"),
        ("http://printer.local/", 10, "local name", "to allow it: --allow-private CIDR=printer.local"),
        ("http://a.example:25/", 10, "port", "to allow it: ports in the policy file"),
        ("http://2130706433/", 10, "url", "no setting can allow it"),
        ("gopher://a.example/", 10, "url", "no setting can allow it"),
        ("nonsense", 2, "url", None),
        ("http://nothing.invalid/", 11, "resolution", None),
    ],
)
def test_what_is_refused(url, code, refusing, way_out, command: Command):
    ended = command("check", url)
    assert ended.code == code
    lines = ended.out.decode().splitlines()
    (number,) = [number for number, line in enumerate(lines) if " REFUSES " in line]
    assert lines[number].split(" REFUSES ")[0].strip() == refusing
    if way_out:
        assert way_out in lines[number + 1]
    else:
        assert "allow" not in lines[number + 1].replace("allowed", "")


def test_json(command: Command):
    ended = command("check", "http://10.0.0.1/", "--json")
    told = ended.json
    assert (ended.code, told["exit_code"], told["allowed"], told["reason"]) == (10, 10, False, "private")
    assert [check["name"] for check in told["checks"]] == NAMES
    last = told["checks"][-1]
    assert (last["passed"], last["setting"]) == (False, "private_ranges")
    assert last["how_to_allow"].startswith("--allow-private 10.0.0.1=10.0.0.1")
    unasked = command("check", "http://a.example:22/", "--json").json["checks"][-1]
    assert unasked["passed"] is None


def test_a_list_on_trial(command: Command, tmp_path):
    """What it would refuse passes, and is told."""
    path = tmp_path / "policy.yaml"
    path.write_text("hosts: [other.example]\nreport_only: true\n")
    told = command("check", "http://origin.example/", "--policy", path, "--json").json
    assert told["allowed"]
    by_name = {check["name"]: check for check in told["checks"]}
    assert (by_name["host list"]["passed"], by_name["host list"]["reported"]) == (True, "not_in_allowlist")
    assert {check["reported"] for name, check in by_name.items() if name != "host list"} == {None}
    lines = command("check", "http://origin.example/", "--policy", path).out.decode().splitlines()
    [line] = [line for line in lines if line.startswith("  host list ")]
    assert line.split()[2] == "reports"
    allowed = command("check", "http://other.example/", "--policy", path, "--json").json
    assert {check["reported"] for check in allowed["checks"]} == {None}


def test_the_method_counts(command: Command, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("request_rules: [{host: origin.example, methods: [GET]}]\n")
    assert command("check", "http://origin.example/", "--policy", path).code == 0
    ended = command("check", "http://origin.example/", "--policy", path, "-X", "POST", "--json")
    assert (ended.code, ended.json["reason"]) == (10, "request_not_allowed")


def test_a_nameserver_that_never_answers(bare: Command):
    """DNS has its own time; the command ends with its deadline."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        options = ("--nameserver", server, "--timeout", "0.2")
        ended = bare("check", "http://a.example/", *options, "--json")
    assert (ended.code, ended.json["error"]["reason"]) == (14, "timeout")
    assert ended.err == "tidegate: the deadline of 0.2 s passed (resolving the host) (timeout)\n"


@pytest.mark.parametrize(
    "options", [["--timeout", "0"], ["--timeout", "x"], ["--policy", "none"], ["-X"], []]
)
def test_wrong_options(options, bare: Command):
    urls = ["http://a.example/"] if options else []
    ended = bare("check", *urls, *options)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, b"", 1)
