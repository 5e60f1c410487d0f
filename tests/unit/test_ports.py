"""D-11: the ports that are refused without an operator's word, and the default ones."""

import pytest

from tests.support.data import rows_of_kind
from tidegate._policy.ports import BAD_PORTS, DEFAULT_PORTS, MAX_PORT
from tidegate._policy.url import parse_url


def test_default_ports_are_those_of_the_two_schemes_and_no_bad_ones() -> None:
    assert DEFAULT_PORTS == {"http": 80, "https": 443}
    assert BAD_PORTS.isdisjoint(DEFAULT_PORTS.values())


def test_bad_ports_are_the_83_of_the_fetch_standard() -> None:
    assert len(BAD_PORTS) == 83
    assert min(BAD_PORTS) == 0
    assert max(BAD_PORTS) < MAX_PORT == 2**16 - 1


@pytest.mark.parametrize(
    ("first", "last"), [(19, 23), (101, 104), (109, 111), (512, 515), (530, 532), (6665, 6669)]
)
def test_ranges_of_the_standard_are_closed_and_have_good_neighbours(first: int, last: int) -> None:
    assert BAD_PORTS.issuperset(range(first, last + 1))
    assert BAD_PORTS.isdisjoint({first - 1, last + 1})


@pytest.mark.parametrize("port", [1, 22, 25, 79, 179, 989, 2049, 4190, 6000, 6679, 6697, 10_080])
def test_single_bad_ports(port: int) -> None:
    assert port in BAD_PORTS


@pytest.mark.parametrize("port", [80, 443, 3000, 5000, 6379, 8080, 8443, 9200, 10_081, 11_211, 65_535])
def test_ports_of_http_services_are_not_bad(port: int) -> None:
    """What protects an inner service on such a port is the check of its address."""
    assert port not in BAD_PORTS


@pytest.mark.parametrize("row", list(rows_of_kind("bad-port")), ids=lambda row: row["id"])
def test_corpus_of_bad_ports(row: dict[str, str]) -> None:
    refused = parse_url(row["input"]).port in BAD_PORTS
    assert refused == (row["expect"] == "deny"), row["why"]
