"""What the README says to users of agent frameworks is true: its program is run, its table checked."""

import re
import sys
from importlib import import_module

import pytest

import tidegate_tools.adapters
from tests.tools.test_fetch_readme import README, program
from tests.tools.test_fetch_readme import internet as internet
from tidegate_tools.fetch import make_fetch_tool

HEADING = "In an agent framework"
MODULES = (
    *("agent_framework", "agents", "anthropic.lib.tools"),
    *("langchain_core.tools", "pydantic_ai", "smolagents"),
)
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| .+ \|$", re.MULTILINE)


@pytest.mark.usefixtures("internet")
def test_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    """The `print` has its output behind it."""
    code = program(HEADING)
    exec(compile(code, HEADING, "exec"), {"__name__": "__main__"})
    [expected] = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert capsys.readouterr().out == f"{expected}\n"


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each adapter has its row, and asks for the package that stands there."""
    _, _, section = README.read_text(encoding="utf-8").partition(f"# {HEADING}\n")
    rows = dict(ROW.findall(section.split("\n#")[0]))
    listed = re.findall(r"tidegate_tools\.adapters\.(\w+)", tidegate_tools.adapters.__doc__ or "")
    assert sorted(rows) == sorted(listed)
    assert rows.pop("openai") == "none needed"
    for module in MODULES:
        monkeypatch.setitem(sys.modules, module, None)
    for name, package in rows.items():
        adapter = import_module(f"tidegate_tools.adapters.{name}")
        with pytest.raises(ImportError, match=f"pip install {package.strip('`')}$"):
            adapter.make_tool(make_fetch_tool())
