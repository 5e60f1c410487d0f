"""Fixtures: an authority in a file, as an operator names it, and agents that trust it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

from tests.tools.web_request.agents import Agent, Certificates
from tidegate.testing.memory import Peer

MakeAgent = Callable[..., Agent]


@pytest.fixture(scope="session")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of the tests' authority."""
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture(scope="session")
def certificates(authority: trustme.CA) -> Certificates:
    return Certificates(authority)


@pytest.fixture
def agent(
    nursery: trio.Nursery, certificates: Certificates, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> MakeAgent:
    """Makes agents: `agent(site, max_redirects=1)`, with `options` of `create_web_request_tools` apart."""
    # To read the anchors of a whole system takes a twentieth of a second, for each of a thousand agents.
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))

    def make(site: Callable[[Peer], Awaitable[None]], *, options: Any = None, **config: Any) -> Agent:
        return Agent(nursery, site, certificates, {"ca_file": str(ca_file), **config}, **(options or {}))

    return make
