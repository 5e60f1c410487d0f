"""The types are part of the interface: what must type-check does, and what must not does not.

The pin is a type: to connect to an unchecked name or address is a type error, and the tables below keep it
one. Each row has a right and a wrong form of the same statement, so that a row cannot fail for another reason
than the one it is about.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

import pytest

import tidegate
from tests.support.data import ROOT

pytest.importorskip("mypy", reason="mypy is in the dependency group `lint`")

API: Final = ROOT / "tests" / "typing" / "api.py"

PRELUDE: Final = """\
import dataclasses
from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import Any

import tidegate
from tidegate import URL, Connector, Engine, Headers, PinnedTarget, Policy, PrivateRange, Response
from tidegate import TCPConnector
from tidegate._policy.pin import check_addresses
from tidegate.portal import PortalEngine


class Anywhere:
    async def connect(self, targets: Sequence[str]) -> Any:
        raise NotImplementedError


class Texts:
    async def resolve(self, host: str) -> Sequence[str]:
        raise NotImplementedError


class Names:
    async def resolve(self, host: str) -> Sequence[IPv4Address]:
        raise NotImplementedError


class Deaf: ...


class Log:
    def on_event(self, event: tidegate.Event) -> None:
        raise NotImplementedError


def at_once(host: str) -> bool:
    raise NotImplementedError


async def later(host: str) -> bool:
    raise NotImplementedError


async def statement(
    engine: Engine,
    portal: PortalEngine,
    connector: Connector,
    policy: Policy,
    url: URL,
    address: IPv4Address,
    target: PinnedTarget,
    response: Response,
    headers: Headers,
) -> None:
"""


class Row(NamedTuple):
    """The same statement twice, and the kind of error (mypy's code) that the second one is."""

    right: str
    wrong: str
    code: str


ROWS: Final = {
    # The pin.
    "a connector takes no text": Row(
        "await connector.connect([target])", "await connector.connect('93.184.216.34')", "arg-type"
    ),
    "a connector takes no address": Row(
        "await connector.connect([target])", "await connector.connect([address])", "list-item"
    ),
    "a connector takes no pair of address and port": Row(
        "await connector.connect([target])", "await connector.connect([('93.184.216.34', 443)])", "list-item"
    ),
    "a connector takes no unpinned tuple": Row(
        "await connector.connect((target,))",
        "await connector.connect((('https', 'a.example', 443, address, False),))",
        "arg-type",
    ),
    "a connector takes no URL": Row(
        "await connector.connect([target])", "await connector.connect([url])", "list-item"
    ),
    "a connector takes no single target": Row(
        "await connector.connect([target])", "await connector.connect(target)", "arg-type"
    ),
    "the real connector takes no text either": Row(
        "await TCPConnector().connect([target])", "await TCPConnector().connect(['127.0.0.1'])", "list-item"
    ),
    "nothing that takes texts is a connector": Row(
        "one: Connector = TCPConnector()", "one: Connector = Anywhere()", "assignment"
    ),
    "a pin is not made by hand": Row(
        "check_addresses(policy, url, [address])",
        "PinnedTarget('https', 'a.example', 443, address, False)",
        "call-arg",
    ),
    "a pin is not made with a seal of one's own": Row(
        "check_addresses(policy, url, [address])",
        "PinnedTarget('https', 'a.example', 443, address, False, object())",
        "arg-type",
    ),
    "a pin is not made of another": Row(
        "dataclasses.replace(url, host='b.example')",
        "dataclasses.replace(target, address=address)",
        "call-arg",
    ),
    "a pin does not change": Row("print(target.address)", "target.address = address", "misc"),
    "a pin is made of addresses, not of texts": Row(
        "check_addresses(policy, url, [address])",
        "check_addresses(policy, url, ['93.184.216.34'])",
        "list-item",
    ),
    "a pin is made of a parsed URL": Row(
        "check_addresses(policy, url, [address])",
        "check_addresses(policy, 'https://a.example/', [address])",
        "arg-type",
    ),
    # The other seams.
    "a resolver gives addresses, not texts": Row(
        "tidegate.open_engine(resolver=Names())", "tidegate.open_engine(resolver=Texts())", "arg-type"
    ),
    "an observer has on_event": Row(
        "tidegate.open_engine(observer=Log())", "tidegate.open_engine(observer=Deaf())", "arg-type"
    ),
    "authorize is asynchronous": Row(
        "await engine.fetch('https://a.example/', authorize=later)",
        "await engine.fetch('https://a.example/', authorize=at_once)",
        "arg-type",
    ),
    # No switch turns verification or the floor off (F-30, W-5).
    "a fetch has no verify": Row(
        "await engine.fetch('https://a.example/')",
        "await engine.fetch('https://a.example/', verify=False)",
        "call-arg",
    ),
    "an engine has no verify": Row(
        "tidegate.open_engine(tls=None)", "tidegate.open_engine(verify=False)", "call-arg"
    ),
    "a context has no verify": Row(
        "tidegate.client_context()", "tidegate.client_context(verify=False)", "call-arg"
    ),
    "a policy has no switch": Row("Policy(hosts=None)", "Policy(allow_private=True)", "call-arg"),
    # Values.
    "a private range is no text": Row(
        "Policy(private_ranges=[PrivateRange('10.0.0.0/8', 'a.example')])",
        "Policy(private_ranges=['10.0.0.0/8'])",
        "list-item",
    ),
    "a private range names hosts": Row(
        "PrivateRange('10.0.0.0/8', 'a.example')", "PrivateRange('10.0.0.0/8')", "call-arg"
    ),
    "a URL is text": Row(
        "await engine.fetch(str(url))", "await engine.fetch(b'https://a.example/')", "arg-type"
    ),
    "content is bytes": Row(
        "await engine.fetch('https://a.example/', content=b'x')",
        "await engine.fetch('https://a.example/', content='x')",
        "arg-type",
    ),
    "limits are no number": Row(
        "await engine.fetch('https://a.example/', limits=tidegate.Limits(timeout=5))",
        "await engine.fetch('https://a.example/', limits=5)",
        "arg-type",
    ),
    "limits of a check are no number": Row(
        "await engine.check('https://a.example/', limits=tidegate.Limits(timeout=5))",
        "await engine.check('https://a.example/', limits=5)",
        "arg-type",
    ),
    "limits of a check in a portal are none either": Row(
        "portal.check_sync('https://a.example/', limits=tidegate.Limits(timeout=5), authorize=at_once)",
        "portal.check_sync('https://a.example/', limits=5)",
        "arg-type",
    ),
    "a check sends no content": Row(
        "await portal.check('https://a.example/', key=1)",
        "await portal.check('https://a.example/', content=b'x')",
        "call-arg",
    ),
    "limits have names": Row("tidegate.Limits(timeout=5.0)", "tidegate.Limits(5.0)", "call-arg"),
    "an engine is entered asynchronously": Row(
        "async with tidegate.open_engine(): pass", "with tidegate.open_engine(): pass", "attr-defined"
    ),
    "a fetch is awaited": Row(
        "(await engine.fetch('https://a.example/')).status",
        "engine.fetch('https://a.example/').status",
        "attr-defined",
    ),
    "a response does not change": Row("print(response.status)", "response.status = 200", "misc"),
    "headers do not change": Row("print(headers['x'])", "headers['x'] = 'y'", "index"),
    "a reason is no text": Row(
        "tidegate.HostDenied('No.', reason=tidegate.Reason.LOCAL_NAME)",
        "tidegate.HostDenied('No.', reason='local_name')",
        "arg-type",
    ),
    "the address of a URL may be missing": Row(
        "print(url.address and url.address.packed)", "print(url.address.packed)", "union-attr"
    ),
}


def mypy(*files: Path) -> dict[str, set[str]]:
    """Type-check files under the project's own settings; the codes of their errors, by name of the file."""
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--no-pretty"]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    codes: dict[str, set[str]] = defaultdict(set)
    for line in done.stdout.splitlines():
        if match := re.fullmatch(r"(.+?):\d+: error: .*\[([a-z-]+)\]", line):
            codes[Path(match[1]).name].add(match[2])
    assert bool(codes) is bool(done.returncode), done.stdout
    return codes


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """All rows in one run: mypy takes long to start and no time to go on."""
    folder = tmp_path_factory.mktemp("typing")
    files = []
    for number, row in enumerate(ROWS.values()):
        for form, text in (("right", row.right), ("wrong", row.wrong)):
            files.append(folder / f"{form}_{number}.py")
            files[-1].write_text(f"{PRELUDE}    {text}\n", encoding="utf-8")
    return mypy(*files)


def test_every_public_signature_type_checks() -> None:
    assert mypy(API) == {}


def test_every_public_name_is_used_there() -> None:
    """A new public name needs a use that type-checks."""
    used = set(re.findall(r"\btidegate\.(\w+)", API.read_text(encoding="utf-8")))
    names = {name for name in dir(tidegate) if not name.startswith("_")} | {"__version__"}
    public = {name for name in names if not isinstance(getattr(tidegate, name), ModuleType)}
    assert public - used == set()
    assert used - public == set()


@pytest.mark.parametrize("row", ROWS)
def test_the_right_form_type_checks_and_the_wrong_one_does_not(
    verdicts: dict[str, set[str]], row: str
) -> None:
    number = list(ROWS).index(row)
    assert verdicts.get(f"right_{number}.py") is None
    assert verdicts.get(f"wrong_{number}.py") == {ROWS[row].code}
