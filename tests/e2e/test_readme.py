"""The README's first example, pasted into a file, in a network where its names exist."""

import sys

import pytest

from tests.e2e import world
from tests.e2e.network import Network
from tests.support.examples import examples

pytestmark = pytest.mark.e2e


def test_ten_lines_to_embed_it(network: Network) -> None:
    done = network.command([sys.executable, "-c", examples("README.md")["embed"]])
    fetched, refused = done.stdout.splitlines()
    assert fetched.startswith("200 ")
    assert fetched.split()[-1] in world.WEB
    assert refused.startswith("imds - metadata.example.com resolves to a cloud metadata")
    assert done.stderr == ""
