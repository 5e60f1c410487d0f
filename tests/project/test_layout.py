"""What lies where: a short top level, two source roots, every package typed."""

import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

from tests.support.data import ROOT

TOP_LEVEL: Final = {"LICENSE", "Makefile", "README.md", "engine", "pyproject.toml", "tests", "tools"}


def files_in_git() -> list[str] | None:
    """What belongs to the project: tracked, or new and not ignored. None where this is no checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--full-name"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        top = subprocess.run(
            ["git", "rev-parse", "--show-toplevel"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    if Path(top.stdout.strip()) != ROOT:
        return None
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).exists()]


def files_on_disk() -> list[str]:
    """The same without git, by the simple patterns of `.gitignore`."""
    ignore = ROOT / ".gitignore"
    lines = ignore.read_text(encoding="utf-8").split() if ignore.exists() else []
    ignored = [line.strip("/") for line in lines]
    found = (file.relative_to(ROOT) for file in sorted(ROOT.rglob("*")) if file.is_file())
    return [
        file.as_posix()
        for file in found
        if not any(fnmatch(part, pattern) for part in file.parts for pattern in (*ignored, ".git"))
    ]


def project_files() -> list[str]:
    in_git = files_in_git()
    return files_on_disk() if in_git is None else in_git


FILES: Final = project_files()


def test_the_top_level_is_short() -> None:
    assert {name.partition("/")[0] for name in FILES if not name.startswith(".")} == TOP_LEVEL


def test_both_ways_of_looking_agree() -> None:
    """A source distribution has no git, and must be judged alike."""
    in_git = files_in_git()
    if in_git is None:
        pytest.skip("this is no git checkout")
    top = {name.partition("/")[0] for name in in_git}
    assert {name.partition("/")[0] for name in files_on_disk()} == top


def test_tests_lie_in_folders_by_kind() -> None:
    inside = [name.split("/") for name in FILES if name.startswith("tests/")]
    assert {parts[1] for parts in inside if len(parts) == 2} == {"__init__.py", "conftest.py"}


def test_the_source_roots_are_no_packages() -> None:
    """`engine` and `tools` are never imported by those names."""
    assert {name for name in FILES if name.startswith("engine/") and name.count("/") == 1} == set()
    assert {name for name in FILES if name.startswith("tools/") and name.count("/") == 1} == set()
    assert {name.split("/")[1] for name in FILES if name.startswith("engine/")} == {"tidegate"}
    assert {name.split("/")[1] for name in FILES if name.startswith("tools/")} == {"tidegate_tools"}


def test_every_folder_with_python_in_it_is_a_package() -> None:
    folders = {Path(name).parent for name in FILES if name.endswith(".py")}
    assert {str(folder) for folder in folders if f"{folder.as_posix()}/__init__.py" not in FILES} == set()


def test_both_packages_are_typed() -> None:
    assert {"engine/tidegate/py.typed", "tools/tidegate_tools/py.typed"} <= set(FILES)


def test_every_test_lies_in_a_file_that_pytest_looks_at() -> None:
    """A test in a file of another name is never run."""
    for name in FILES:
        file = Path(name)
        if name.startswith("tests/") and file.suffix == ".py" and not file.name.startswith("test_"):
            text = (ROOT / name).read_text(encoding="utf-8")
            assert "\ndef test_" not in text, name
            assert "\nasync def test_" not in text, name


def test_no_file_holds_a_path_of_this_machine_or_a_host_of_a_registry() -> None:
    """The words are put together here, so that this file does not hold them."""
    words = [f"{ROOT}/", "pypi" + ".org", "python" + "hosted.org"]
    wrong = []
    for name in FILES:
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        wrong += [f"{name}: {word}" for word in words if word in text]
    assert wrong == []
