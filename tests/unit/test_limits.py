"""D-4, D-16, D-25: the bounds of one fetch, each with the value just inside and just outside."""

import dataclasses
import math
from typing import Any

import pytest

from tidegate._policy.limits import KIB, MIB, Limits

DEFAULTS = {
    "timeout": 30.0,
    "max_content": 4 * MIB,
    "max_encoded_content": None,
    "max_request_content": MIB,
    "max_redirects": 0,
    "max_head": 256 * KIB,
    "max_fields": 256,
    "max_interim": 16,
    "max_trailers": 100,
    "max_chunk_overhead": 16 * KIB,
    "max_codings": 3,
    "max_coding_members": 1024,
}

BOUNDS: list[tuple[str, float, float]] = [
    ("timeout", 0.001, 3600),
    ("max_content", 0, 2**40),
    ("max_encoded_content", 0, 2**41),
    ("max_request_content", 0, 2**30),
    ("max_redirects", 0, 20),
    ("max_head", 1024, 2**20),
    ("max_fields", 1, 10_000),
    ("max_interim", 0, 1_000),
    ("max_trailers", 0, 1_000),
    ("max_chunk_overhead", 1024, 2**20),
    ("max_codings", 0, 8),
    ("max_coding_members", 1, 100_000),
]


def limits(**values: Any) -> Limits:
    return Limits(**values)


def test_defaults_are_those_of_the_decisions() -> None:
    """D-25: 4 MiB, 30 s, head 256 KiB, 256 fields, 16 interim responses, 100 trailers. D-2: no redirect."""
    assert dataclasses.asdict(Limits()) == DEFAULTS


def test_every_limit_stands_in_the_table_below() -> None:
    assert [name for name, _, _ in BOUNDS] == list(DEFAULTS)


@pytest.mark.parametrize(("name", "floor", "ceiling"), BOUNDS, ids=[name for name, _, _ in BOUNDS])
def test_floor_and_ceiling_are_taken_and_their_neighbours_are_not(
    name: str, floor: float, ceiling: float
) -> None:
    step = 0.0005 if name == "timeout" else 1
    for value in (floor, ceiling):
        assert getattr(limits(**{name: value}), name) == value
    for value in (floor - step, ceiling + step, -ceiling):
        with pytest.raises(ValueError, match=rf"^Limits\.{name} must be .* from .* to .*, not "):
            limits(**{name: value})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0, -0.0, -1, 10**400])
def test_a_timeout_is_a_finite_positive_number(value: float) -> None:
    """D-16: NaN compares false with everything; an int too big for a float is no OverflowError."""
    with pytest.raises(ValueError, match=r"^Limits\.timeout must be a number of seconds from 0\.001 to 3600"):
        Limits(timeout=value)


@pytest.mark.parametrize("value", [1, 1.5, 3600, 0.001])
def test_a_timeout_may_be_whole_or_not(value: float) -> None:
    assert Limits(timeout=value).timeout == value


@pytest.mark.parametrize("value", [True, "30", None, b"1", 1j, [30]])
def test_a_timeout_of_another_kind_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=rf"must be a number of seconds, not {type(value).__name__}$"):
        Limits(timeout=value)


@pytest.mark.parametrize("name", [name for name in DEFAULTS if name != "timeout"])
@pytest.mark.parametrize("value", [True, False, 2048.0, math.nan, "2048", b"2048"])
def test_counts_are_whole_numbers(name: str, value: Any) -> None:
    """Even a float that happens to be whole is a sign that somebody computed with the wrong thing."""
    with pytest.raises(ValueError, match=rf"^Limits\.{name} must be a whole number, not "):
        limits(**{name: value})


@pytest.mark.parametrize("name", list(DEFAULTS))
def test_only_the_encoded_cap_may_be_left_open(name: str) -> None:
    if name == "max_encoded_content":
        assert Limits(max_encoded_content=None).max_encoded_content is None
        return
    with pytest.raises(ValueError, match=rf"^Limits\.{name} "):
        limits(**{name: None})


@pytest.mark.parametrize(
    ("content", "encoded", "cap"),
    [
        (0, None, 64 * KIB),
        (64, None, 64 + 1 + 64 * KIB),
        (63, None, 63 + 64 * KIB),
        (MIB, None, MIB + 16 * KIB + 64 * KIB),
        (2**40, None, 2**40 + 2**34 + 64 * KIB),
        (MIB, 0, 0),
        (MIB, 10, 10),
        (0, MIB, MIB),
    ],
)
def test_the_cap_on_encoded_content_is_given_or_follows_from_the_other(
    content: int, encoded: int | None, cap: int
) -> None:
    """D-3, D-4: both caps hold; a zero that was given stays one."""
    assert Limits(max_content=content, max_encoded_content=encoded).encoded_content == cap


def test_limits_are_values() -> None:
    assert Limits(timeout=5) == Limits(timeout=5)
    assert hash(Limits(timeout=5)) == hash(Limits(timeout=5))
    assert dataclasses.replace(Limits(), max_redirects=3).max_redirects == 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        Limits().timeout = 1  # type: ignore[misc]  # that is what must fail
    with pytest.raises(ValueError, match="max_redirects"):
        dataclasses.replace(Limits(), max_redirects=21)
    assert not hasattr(Limits(), "__dict__")
    with pytest.raises(TypeError):
        limits(max_size=1)
    with pytest.raises(TypeError):
        Limits(5.0)  # type: ignore[call-arg]  # every limit has a name
