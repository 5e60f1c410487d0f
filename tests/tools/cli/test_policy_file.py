"""`--policy FILE`: what it says counts, and every mistake in it is told with its line."""

import os
from pathlib import Path

import pytest

from tests.tools.cli.conftest import Command, Origin
from tidegate import PrivateRange, RequestRule
from tidegate_tools.cli.exits import UsageError
from tidegate_tools.cli.policy_file import load_policy_file
from tidegate_tools.web_request.document import MAX_BYTES

FULL = """
hosts: [origin.example, "*.example.com"]
require_https: true
ports: [443, 8443]
private_ranges:
  - {cidr: 10.20.0.0/16, hosts: ["*.corp.example"]}
  - cidr: 127.0.0.1
    hosts: origin.example
request_rules:
  - {host: origin.example, methods: [GET], paths: ["/v1/*"]}
  - {host: api.example.com}
ca_file: certificates/ca.pem
nameservers: ["192.0.2.1:5353"]
resolve:
  origin.example: 127.0.0.1
  two.example.com: [192.0.2.1, "2001:db8::1"]
"""


def load(directory: Path, text: str):
    path = directory / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    return load_policy_file(path)


def test_every_key(tmp_path: Path):
    read = load(tmp_path, FULL)
    assert read.policy == {
        "hosts": ("origin.example", "*.example.com"),
        "require_https": True,
        "ports": (443, 8443),
        "private_ranges": (
            PrivateRange("10.20.0.0/16", "*.corp.example"),
            PrivateRange("127.0.0.1/32", "origin.example"),
        ),
        "request_rules": (
            RequestRule("origin.example", ["GET"], ["/v1/*"]),
            RequestRule("api.example.com"),
        ),
    }
    assert read.ca_file == tmp_path / "certificates" / "ca.pem"
    assert read.nameservers == ("192.0.2.1:5353",)
    assert read.resolve == {"origin.example": ("127.0.0.1",), "two.example.com": ("192.0.2.1", "2001:db8::1")}


@pytest.mark.parametrize("text", ["{}", "# no rules\n{}\n"])
def test_a_file_may_say_that_there_are_no_rules(text, tmp_path: Path):
    assert load(tmp_path, text).policy == {}


@pytest.mark.parametrize("text", ["", "\n", "# hosts: [a.example]\n", "---\n", "null", "~"])
def test_a_file_that_says_nothing_is_refused(text, tmp_path: Path):
    """What a deployment cut off must not let every public host pass."""
    with pytest.raises(UsageError, match=r"policy\.yaml: says nothing; allowed: \{\} for no rules$"):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("host: [a.example]", ["policy.yaml:1: host: is an unknown key; nearest: hosts;"]),
        (
            "a: 1\nrequire_http: true",
            ["1: a: is an unknown key", "2: require_http", "nearest: require_https;"],
        ),
        ("hosts: a.example", ["hosts: must be a list of texts"]),
        ("hosts: [1]", ["hosts: must be a text"]),
        ("hosts:\n", ["hosts: must be a list of texts"]),
        ('hosts: ["*"]', ["hosts: Host list entry '*' is refused"]),
        ("require_https: yes", ["require_https: must be true or false"]),
        ("require_https: 1", ["require_https: must be true or false"]),
        ("ports: 443", ["ports: must be a list of port numbers"]),
        ('ports: ["443"]', ["ports: must be a list of port numbers"]),
        ("ports: [0]", ["ports: Policy.ports must be whole numbers from 1 to 65535"]),
        ("ports: [true]", ["ports: Policy.ports must be whole numbers"]),
        ("private_ranges: {cidr: 10.0.0.0/8}", ["private_ranges: must be a list of mappings"]),
        ("private_ranges: [10.0.0.0/8]", ["private_ranges[0]: must be a mapping of keys to values"]),
        ("private_ranges: [{cidr: 10.0.0.0/8}]", ["private_ranges[0]: lacks the key hosts"]),
        ("private_ranges: [{cidr: 10.0.0.0/8, hosts: []}]", ["names no hosts"]),
        ("private_ranges: [{cidr: 10.0.0.1/8, hosts: [a.example]}]", ["is no CIDR block"]),
        ("private_ranges: [{cidr: 169.254.0.0/16, hosts: [a.example]}]", ["can not be admitted by any rule"]),
        (
            "private_ranges:\n  - {cidr: 10.0.0.0/8, host: a.example}",
            ["2: private_ranges[0].host", "nearest: hosts;"],
        ),
        ("request_rules: [{methods: [GET]}]", ["request_rules[0]: lacks the key host"]),
        ("request_rules: [{host: a.example, methods: [get]}]", ["method 'get' is none of"]),
        ("request_rules: [{host: a.example, paths: [x]}]", ["path 'x' must be like"]),
        ("ca_file: 1", ["ca_file: must be a text"]),
        ("nameservers: 192.0.2.1", ["nameservers: must be a list of texts"]),
        ("resolve: [a.example]", ["resolve: must be a mapping of host names to addresses"]),
        (
            "request_rules: [{host: a.example, methods: []}]",
            ["1: request_rules[0]: methods", "at least one; left out, all are allowed"],
        ),
        (
            "request_rules:\n- {host: a.example, paths: []}",
            ["2: request_rules[0]: paths", "at least one; left out, all are allowed"],
        ),
        ("\nca_file: .", ["policy.yaml:2: ca_file: is no regular file"]),
        ("ca_file: /dev/zero", ["policy.yaml:1: ca_file: is no regular file"]),
        (
            "ports: [443]\nnameservers: [dns.example]",
            ["2: nameservers: nameserver 'dns.example' is no address"],
        ),
        ("nameservers: ['192.0.2.1:0']", ["1: nameservers: ", "the port must be from 1 to 65535"]),
        ("nameservers: []", ["1: nameservers: ", "at least one"]),
        ("resolve: {a.example: 1}", ["resolve.a.example: must be a list of texts"]),
        ("resolve:\n  a.example: 192.0.2", ["2: resolve.a.example: '192.0.2' does not appear to be an IP"]),
        ("resolve:\n  a b: 192.0.2.1", ["2: resolve.a b: 'a b' is no host name"]),
        ("hosts: [a.example]\nhosts: [b.example]", ["2: hosts: is given twice, first on line 1"]),
        ("- a", ["is no mapping of keys to values"]),
        ("a: [", ["is no YAML"]),
        ("hosts: !!python/object:os.system [x]", ["has the YAML tag"]),
    ],
)
def test_mistakes(text, problems, tmp_path: Path):
    """D-19: file, line, key, and for an unknown key the nearest valid one."""
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    for problem in problems:
        assert problem in caught.value.message
    assert "\n" not in caught.value.message


def test_the_file_opens_what_it_says_and_nothing_else(bare: Command, origin: Origin, tmp_path: Path):
    path = tmp_path / "policy.yaml"
    path.write_text(
        "hosts: [origin.example]\n"
        "private_ranges: [{cidr: 127.0.0.1/32, hosts: [origin.example]}]\n"
        "resolve: {origin.example: 127.0.0.1, other.example: 127.0.0.1}\n"
        f"ca_file: {origin.ca}\n"
        "request_rules: [{host: origin.example, methods: [GET], paths: [/content]}]\n"
    )
    policy = ("--policy", path)
    assert bare("fetch", f"{origin.tls}/content", *policy).code == 0
    assert "(request_not_allowed)" in bare("fetch", f"{origin.tls}/echo", *policy).err
    assert "(request_not_allowed)" in bare("fetch", f"{origin.tls}/content", "-d", "x", *policy).err
    assert "(not_in_allowlist)" in bare("fetch", "http://other.example/", *policy).err


def test_options_add_ranges_and_beat_the_file_elsewhere(bare: Command, origin: Origin, tmp_path: Path):
    path = tmp_path / "policy.yaml"
    path.write_text("resolve: {origin.example: 192.0.2.1}\nca_file: nowhere.pem\n")
    options = ("--allow-private", "127.0.0.1=origin.example", "--resolve", "origin.example=127.0.0.1")
    assert bare("fetch", f"{origin.tls}/content", "--policy", path, "--ca", origin.ca, *options).code == 0


def test_a_ca_file_is_looked_for_beside_the_policy(bare: Command, origin: Origin, tmp_path: Path):
    (tmp_path / "ca.pem").write_bytes(Path(origin.ca).read_bytes())
    path = tmp_path / "policy.yaml"
    path.write_text("ca_file: ca.pem\n")
    options = ("--allow-private", "127.0.0.1=origin.example", "--resolve", "origin.example=127.0.0.1")
    assert bare("fetch", f"{origin.tls}/content", "--policy", path, *options).code == 0


def test_a_ca_file_that_cannot_be_used_is_told_with_its_line(bare: Command, tmp_path: Path):
    """D-19. It is looked for when it is needed: an option may stand in for it."""
    path = tmp_path / "policy.yaml"
    path.write_text("ports: [443]\nca_file: ca.pem\n")
    for reason in ("No such file or directory", "no certificate"):
        ended = bare("check", "https://127.0.0.1/", "--policy", path)
        assert ended.code == 2
        assert f"{path}:2: ca_file: the CA file {tmp_path}/ca.pem cannot be read as PEM" in ended.err
        assert reason in ended.err
        (tmp_path / "ca.pem").write_text("nothing")
    ended = bare("check", "https://127.0.0.1/", "--ca", tmp_path / "ca.pem")
    assert f"tidegate: --ca: the CA file {tmp_path}/ca.pem cannot be read as PEM" in ended.err


def test_what_may_be_read_from(tmp_path: Path):
    """A pipe of the shell is fine, a device without an end is cut off, a folder is neither."""
    reading, writing = os.pipe()
    with open(reading), open(writing, "w") as pipe:  # noqa: PTH123  # descriptors have no path
        pipe.write("hosts: [a.example]")
        pipe.close()
        assert load_policy_file(Path(f"/dev/fd/{reading}")).policy == {"hosts": ("a.example",)}
    for path, problem in {"/dev/zero": f"has more than {MAX_BYTES} bytes", "/dev": "Is a directory"}.items():
        with pytest.raises(UsageError, match=f"^{path}: .*{problem}"):
            load_policy_file(Path(path))
    os.mkfifo(tmp_path / "ca.pem")
    with pytest.raises(UsageError, match="ca_file: is no regular file"):
        load(tmp_path, "ca_file: ca.pem")
