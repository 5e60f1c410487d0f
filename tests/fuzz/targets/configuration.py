"""Invariant: a configuration file is a value that holds to its own rules, or a ConfigError that lists why.

No message holds what the environment gave, and a host list that is set is never read as "any host".
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from tests.fuzz.targets.cutting import Cutter
from tests.fuzz.targets.front_matter import files
from tidegate_tools.web_request.loading import load_agent, load_global_config
from tidegate_tools.web_request.mistakes import ConfigError

SECRET: Final = "s3cret-of-the-environment"  # a witness: it must show up nowhere
ENVIRONMENT: Final = {"SECRET": SECRET, "HOST": "api.example.com", "EMPTY": ""}


@cache
def _folder() -> Path:
    return Path(mkdtemp(prefix="tidegate-fuzz-"))


def check(data: bytes) -> None:
    """The bytes as the file of all agents or of one."""
    cutter = Cutter(data)
    is_agent = cutter.number(2)
    name, load = ("a.agent.md", load_agent) if is_agent else ("agents.config.yaml", load_global_config)
    path = _folder() / name
    path.write_bytes(cutter.rest())
    try:
        loaded = load(path, environment=ENVIRONMENT)
    except ConfigError as error:
        assert error.mistakes
        assert SECRET not in str(error)
        assert all(SECRET not in repr(mistake) for mistake in error.mistakes)
        return
    assert SECRET not in "".join(map(str, loaded.warnings))
    block = loaded.document.data.get("system_tools")
    written = block.get("web_request") if isinstance(block, dict) else None
    if isinstance(written, dict) and "allowed_hosts" in written:
        settings = loaded.value.web_request
        assert getattr(settings, "allowed_hosts", None) is not None


def seeds() -> Iterator[bytes]:
    """The files of the scenarios."""
    yield from (b"\0" + text for text in files("agents.config.yaml"))
    yield from (b"\1" + text for text in files("*.agent.md"))
