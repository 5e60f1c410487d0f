"""Everything in the README that can be run or looked up is; `tests/e2e` runs what needs a network."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import tidegate
from tests.support.data import ROOT
from tests.support.examples import examples

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_limits_table() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", README.partition("### Limits")[2], re.MULTILINE))
    defaults = {field.name: getattr(tidegate.Limits(), field.name) for field in fields(tidegate.Limits)}
    shown = {name: "derived" if value is None else str(value) for name, value in defaults.items()}
    assert shown == {name: rows[name] for name in shown}


def test_extras_table() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = re.findall(r"^\| `(\w+)` \|", README.partition("### Extras")[2], re.MULTILINE)
    assert sorted(rows) == sorted(project["optional-dependencies"])


def test_make_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
    for line in re.findall(r"`make ([\w ]+)`|^    make (\w+)", README, re.MULTILINE):
        assert set(" ".join(line).split()) <= targets


def sections(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for page in ROOT.glob("**/README.md"):
        if ".venv" in page.parts:
            continue
        for link in re.findall(r"\]\(([^)#][^)]*)\)", page.read_text(encoding="utf-8")):
            if not link.startswith("https://"):
                target, _, section = link.partition("#")
                assert (page.parent / target).exists(), f"{page}: {link}"
                assert not section or section in sections(page.parent / target), f"{page}: {link}"


def test_policy_example() -> None:
    names: dict[str, object] = {"tidegate": tidegate}
    exec(examples("README.md")["policy"], names)
    policy = names["policy"]
    assert isinstance(policy, tidegate.Policy)
    assert policy.hosts is not None
    assert policy.hosts.matches("a.example.org")


@pytest.mark.parametrize(
    ("page", "name", "output"),
    [("engine/tidegate/testing/README.md", "memory", "content 10.0\n['93.184.216.34']\n")],
)
def test_example(page: str, name: str, output: str) -> None:
    """Run as its reader would: pasted into a file."""
    done = subprocess.run(
        [sys.executable, "-c", examples(page)[name]], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == (output, 0), done.stderr
