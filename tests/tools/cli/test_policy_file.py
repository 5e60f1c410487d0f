"""`--policy FILE`: what it says counts, and every mistake in it is told with its line."""

from pathlib import Path

import pytest

from tests.tools.cli.conftest import Command, Origin
from tidegate import PrivateRange, RequestRule
from tidegate_tools.cli.exits import UsageError
from tidegate_tools.cli.policy_file import load_policy_file

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


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}"])
def test_an_empty_file_says_nothing(text, tmp_path: Path):
    assert load(tmp_path, text).policy == {}


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
        ("resolve: {a.example: 1}", ["resolve: must be a list of texts"]),
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
