"""F-49, W-79, D-18, D-20: methods, and the frozen values that go in and come out."""

import dataclasses
import pickle
from typing import Any

import pytest

from tidegate._policy.fields import Headers
from tidegate._policy.messages import (
    IDEMPOTENT,
    METHODS,
    Hop,
    Request,
    Response,
    Timings,
    add_timings,
    check_method,
)
from tidegate._policy.reasons import Reason
from tidegate._policy.url import parse_url
from tidegate.errors import InvalidArgument

SECRET = "hunter2"
URL = parse_url("https://a.example/x?token=" + SECRET)


def hop(**seconds: float) -> Hop:
    return Hop(
        url=URL,
        method="GET",
        status=200,
        http_version="1.1",
        peer="93.184.216.34",
        reused=False,
        tls_version="TLSv1.3",
        tls_resumed=False,
        timings=Timings(**seconds),
    )


def response(*hops: Hop) -> Response:
    return Response(
        status=200,
        reason_phrase="OK",
        http_version="1.1",
        url=URL,
        headers=Headers([(b"Set-Cookie", SECRET.encode())]),
        content=SECRET.encode(),
        trailers=Headers(),
        truncated=False,
        complete=True,
        codings=(),
        oddities=(),
        wire_bytes=7,
        hops=hops,
        duration=1.0,
    )


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_methods_that_are_sent(method: str) -> None:
    assert check_method(method) == method
    assert method in METHODS


@pytest.mark.parametrize(
    ("method", "shown"),
    [
        ("get", "'get'"),
        ("Get", "'Get'"),
        (" GET", "' GET'"),
        ("GET ", "'GET '"),
        ("GET\r\nX: y", r"'GET\r\nX: y'"),
        ("TRACE", "'TRACE'"),
        ("CONNECT", "'CONNECT'"),
        ("QUERY", "'QUERY'"),
        ("", "''"),
        ("GET /" + SECRET * 100, "'GET /hunter2hunt'"),
        (None, "a NoneType"),
        (b"GET", "a bytes"),
        (["GET"], "a list"),
        (1, "a int"),
    ],
)
def test_methods_that_are_not(method: Any, shown: str) -> None:
    """F-49, W-79: CONNECT would open a tunnel past every check, TRACE echoes credentials; case matters."""
    with pytest.raises(InvalidArgument) as caught:
        check_method(method)
    assert str(caught.value) == (
        f"method must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, not {shown}"
    )
    assert caught.value.reason is Reason.INVALID_ARGUMENT


def test_idempotent_methods() -> None:
    """D-18, RFC 9110 9.2.2: only these are repeated when a kept connection was stale."""
    assert set(METHODS) - {"POST", "PATCH"} == IDEMPOTENT


def test_no_repr_shows_a_query_a_field_or_content() -> None:
    """D-20: values end up in logs and tracebacks by their repr."""
    request = Request("POST", URL, (("Authorization", SECRET),), SECRET.encode())
    for value in (request, hop(), response(hop())):
        assert SECRET not in repr(value)
        assert "a.example" in repr(value)


@pytest.mark.parametrize("value", [Request("GET", URL, (), b""), Timings(), hop(), response(hop())])
def test_messages_are_frozen_values(value: Any) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert dataclasses.replace(value) == value
    assert not hasattr(value, "__dict__")
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)


def test_what_comes_out_is_made_by_name() -> None:
    """A new attribute must not shift the meaning of another."""
    kinds: list[Any] = [Timings, Hop, Response]
    for kind in kinds:
        with pytest.raises(TypeError, match="positional"):
            kind(1)


# Timings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "total"),
    [
        ({}, 0.0),
        ({"send": 0.25}, 0.25),
        ({"resolve": 0.0}, 0.0),
        ({"resolve": 1, "connect": 2, "tls": 4, "send": 8, "head": 16, "content": 32}, 63),
    ],
)
def test_the_total_is_the_sum_of_what_happened(seconds: dict[str, float], total: float) -> None:
    assert Timings(**seconds).total == total


@pytest.mark.parametrize(
    ("timings", "summed"),
    [
        ([], Timings()),
        ([Timings()], Timings()),
        ([Timings(), Timings(send=1)], Timings(send=1)),
        ([Timings(send=1, head=2), Timings(send=4, tls=8)], Timings(send=5, head=2, tls=8)),
        ([Timings(resolve=0.0), Timings()], Timings(resolve=0.0)),
        (
            [Timings(resolve=1, connect=2, tls=3, send=4, head=5, content=6)] * 2,
            Timings(resolve=2, connect=4, tls=6, send=8, head=10, content=12),
        ),
    ],
)
def test_timings_add_up_per_phase(timings: list[Timings], summed: Timings) -> None:
    """A phase that happened in no hop stays None, which is not the same as no time."""
    assert add_timings(iter(timings)) == summed


def test_the_timings_of_a_response_are_those_of_all_hops() -> None:
    assert response(hop(resolve=1, send=1), hop(send=2)).timings == Timings(resolve=1, send=3)
    assert response().timings == Timings()
