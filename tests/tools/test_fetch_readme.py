"""What the README says of the tool and of the portal is true: its programs are run as they stand there."""

import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

from tests.support.engines import AnyHost
from tests.support.fetch_tool import Site
from tidegate.testing.memory import MemoryConnector

README = Path(__file__).resolve().parents[2] / "README.md"
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)


def program(heading: str) -> str:
    """The first program under a heading."""
    _, found, section = README.read_text(encoding="utf-8").partition(f"# {heading}\n")
    assert found, f"the README has no section {heading!r}"
    match = PROGRAM.search(section)
    assert match is not None
    return match[1]


class SystemTasks:
    """Stands in for a nursery of the peers, in whatever trio run a connection is made."""

    def start_soon(self, function: Any, *args: Any) -> None:
        trio.lowlevel.spawn_system_task(function, *args)


@pytest.fixture
def internet(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    authority: trustme.CA,
    server_tls: Callable[..., ssl.SSLContext],
) -> None:
    """`https://example.com/`, in memory; its authority is trusted as an operator's is, by SSL_CERT_FILE."""
    anchors = tmp_path / "anchors.pem"
    authority.cert_pem.write_to_path(str(anchors))
    monkeypatch.setenv("SSL_CERT_FILE", str(anchors))
    connector = MemoryConnector(SystemTasks(), Site(), server_tls("example.com"))  # type: ignore[arg-type]
    monkeypatch.setattr("tidegate._engine.engine.TCPConnector", lambda: connector)
    monkeypatch.setattr("tidegate._engine.engine.SystemResolver", AnyHost)


@pytest.mark.parametrize("heading", ["The tool in a kernel in fifteen lines", "From asyncio and plain code"])
def test_a_program_of_the_readme(heading: str, internet: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Each `print` has its output behind it."""
    code = program(heading)
    exec(compile(code, heading, "exec"), {"__name__": "__main__"})
    expected = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert expected
    assert capsys.readouterr().out.splitlines() == expected


def test_fifteen_lines() -> None:
    lines = program("The tool in a kernel in fifteen lines").splitlines()
    assert len([line for line in lines if line]) <= 15
