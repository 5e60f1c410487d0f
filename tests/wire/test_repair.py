"""A repair may drop a field line of a head, but never one that decides where a message ends or leads."""

import pytest

import tidegate
from tidegate._wire.heads import parse_head


def head(*lines: bytes) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"", b""])


@pytest.mark.parametrize("name", [b"X-Other", b"X-Content", b"Length", b"Local"])
@pytest.mark.parametrize("disguise", [b" %b: 5", b"\t%b: 5", b"%b\xad: 5", b"(%b): 5", b"%b x: 5"])
def test_an_odd_line_is_dropped(name: bytes, disguise: bytes) -> None:
    parsed = parse_head(head(disguise % name, b"Content-Length: 3"), tidegate.Limits())
    assert parsed.fields == [(b"Content-Length", b"3")]
    assert any("dropped" in oddity for oddity in parsed.oddities)


@pytest.mark.parametrize(
    "name",
    [b"Transfer-Encoding", b"Content-Length", b"Location", b"CONTENT\xadLENGTH", b"Trans\x01fer-Encoding"],
)
@pytest.mark.parametrize("disguise", [b" %b: chunked", b"\t%b: 5", b"%b\xad: 5", b"(%b): 5", b"%b x: 5"])
@pytest.mark.parametrize("other", [b"Content-Length: 3", b"X: y"])
def test_a_disguised_one_that_decides_is_refused(name: bytes, disguise: bytes, other: bytes) -> None:
    """Another reader may see what we would drop."""
    with pytest.raises(tidegate.RemoteProtocolError):
        parse_head(head(disguise % name, other), tidegate.Limits())
