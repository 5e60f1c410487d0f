"""The fixture `network`; see network.py."""

from collections.abc import Iterator

import pytest

from tests.e2e.network import PROGRAMS, Network, open_network
from tests.support.isolation import need_namespaces


@pytest.fixture(scope="session")
def session_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """One network for all tests. Where it cannot be made they are skipped, but in CI that is a failure."""
    need_namespaces(PROGRAMS)
    with open_network(tmp_path_factory.mktemp("network")) as network:
        yield network


@pytest.fixture
def network(session_network: Network) -> Iterator[Network]:
    """The network with every count at nothing; afterwards no forbidden address may have seen a packet.

    A test that goes there on purpose calls `network.clear()` at its end.
    """
    session_network.clear()
    yield session_network
    assert session_network.traffic().forbidden() == {}
