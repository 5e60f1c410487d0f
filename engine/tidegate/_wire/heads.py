"""Response heads: h11 judges whatever is not plain; a small table says what is repaired when it refuses.

Real servers send field lines that h11 refuses. What is repaired here can only drop or trim a field line, or
read Transfer-Encoding as every browser does; anything that could move a message boundary stays an error. A
repaired head is named in `oddities`, and its connection is never used again.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final

import h11

from tidegate._policy.limits import Limits
from tidegate.errors import MessageTooLarge, RemoteProtocolError

RawFields = list[tuple[bytes, bytes]]

MAX_LENGTH: Final = 2**63 - 1
"""The largest Content-Length or chunk size taken for a number (decision D-4; it fits 64 bits)."""

_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
# By their letters alone: however such a name is disguised, two readers could read it differently.
_FRAMES: Final = re.compile(rb"contentlength|transferencoding")
_LEADS: Final = re.compile(rb"location")
_NO_LETTER: Final = re.compile(rb"[^a-z]")
# A bare CR or a NUL is a line end to some and a character to others (RFC 9112 2.2).
_NEVER_REPAIRED: Final = re.compile(rb"\r(?!\n)|\0")
_LINE_END: Final = re.compile(rb"\r?\n")
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2

# h11 parses an answer only to a request. Which one hardly matters: framing is decided in `http1`.
_REQUEST: Final = h11.Request(method="GET", target="/", headers=[("host", "-")])
_REQUEST_END: Final = h11.EndOfMessage()


@dataclass(frozen=True, slots=True)
class Head:
    """A response head, final or interim, as h11 understood it.

    Attributes:
        status: the status code.
        reason: the reason phrase.
        http_version: "1.1" or "1.0".
        fields: names as the peer wrote them, and values.
        content_length: if there is one.
        chunked: Transfer-Encoding says chunked.
        closing: the peer will close after this message, or it is HTTP/1.0.
        keep_alive: seconds that the peer's Keep-Alive field promises, if it does.
        oddities: what was repaired or tolerated.
    """

    status: int
    reason: bytes
    http_version: str
    fields: RawFields = field(repr=False)
    content_length: int | None
    chunked: bool
    closing: bool
    keep_alive: float | None
    oddities: tuple[str, ...]

    @property
    def interim(self) -> bool:
        """True for 1xx."""
        return self.status < 200

    def values(self, name: bytes) -> list[bytes]:
        """The values of a field, by its lower-case name."""
        return [value for key, value in self.fields if key.lower() == name]


# What answers first where HTTP was expected. Named, never echoed: a banner may tell of the inside.
_BANNERS: Final = (
    (b"\x15\x03", "TLS; use https"),
    (b"\x16\x03", "TLS; use https"),
    (b"SSH-", "SSH"),
    (b"220", "SMTP or FTP"),
    (b"* OK", "IMAP"),
    (b"+OK", "POP3"),
    (b"-ERR", "Redis"),
    (b"-DENIED", "Redis"),
    (b"ICY ", "Shoutcast"),
    (b"RFB ", "VNC"),
    (b"AMQP", "AMQP"),
    (b"\x00\x00", "HTTP/2 without an upgrade"),
)


def check_first_bytes(buffer: bytes | bytearray) -> None:
    """Say early that a peer does not speak HTTP: h11 would wait for a line that never comes.

    Args:
        buffer: the first bytes of an answer, at least one.

    Raises:
        RemoteProtocolError: they cannot become a status line; names the protocol if it is a known one.
    """
    if buffer[:5] == b"HTTP/"[: len(buffer[:5])]:
        return
    known = next((name for banner, name in _BANNERS if buffer.startswith(banner)), None)
    told = f"it seems to speak {known}" if known else "its answer starts otherwise"
    raise RemoteProtocolError(f"the peer does not speak HTTP/1.1 on this port: {told}")


def parse_head(raw: bytes, limits: Limits) -> Head:
    """Parse one whole head, from the status line to the blank line.

    Raises:
        RemoteProtocolError: it is no response head, even after repair; 101 counts as such, since nobody
            asked to upgrade.
        MessageTooLarge: it has more field lines than `max_fields`.
    """
    if raw.count(b"\n") - 2 > limits.max_fields:
        raise MessageTooLarge(f"the response head has more than {limits.max_fields} fields (max_fields)")
    return parse_plain_head(raw) or _parse_with_h11(raw)


# A head in which no two readers could see different things: one version, CRLF throughout, no folding, no
# control character. Possessive, so linear in its length whatever comes.
_PLAIN: Final = re.compile(
    rb"HTTP/1\.1 ([2-9][0-9][0-9])(?: ([\t -~\x80-\xff]*+))?+\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[\t -~\x80-\xff]*+\r\n)*+\r\n"
)


def parse_plain_head(raw: bytes) -> Head | None:
    """The head, if it is plain; None leaves it to h11, on any doubt.

    This halves the CPU of a small fetch. It is a second parser, and so only as good as the fuzz test which
    holds that h11 would say exactly the same (`tests/fuzz/test_heads.py`).
    """
    match = _PLAIN.fullmatch(raw)
    if match is None:
        return None
    fields = [
        (name, value.strip(b" \t"))
        for name, _, value in (line.partition(b":") for line in raw[match.end(1) : -4].split(b"\r\n")[1:])
    ]
    head = _understand(int(match[1]), match[2] or b"", "1.1", fields)
    return None if head is None or head.oddities else head


def _parse_with_h11(raw: bytes) -> Head:
    if _FOLDED.search(raw):
        raise RemoteProtocolError("the peer folded a field that decides where a message ends or leads")
    oddities: list[str] = []
    event = _judge(raw)
    if event is None and not _NEVER_REPAIRED.search(raw):
        event = _judge(_repair(raw, oddities))
    if event is None:
        raise _refusal(raw)
    version = event.http_version.decode("ascii")
    if not version.startswith("1."):
        raise RemoteProtocolError("the peer answers in a version of HTTP that was not asked for")
    if _REPEATED_LENGTH.search(raw):  # h11 folds equal lengths into one
        oddities.append("repeated Content-Length")
    spoken = "1.0" if version == "1.0" else "1.1"  # a higher minor version is read as ours (RFC 9110 2.5)
    head = _understand(event.status_code, bytes(event.reason), spoken, event.headers.raw_items())
    if head is None:
        raise RemoteProtocolError("the peer announced a Content-Length that is no sane number")
    return replace(head, oddities=(*head.oddities, *oddities))


def _refusal(raw: bytes) -> RemoteProtocolError:
    if raw[9:12] == b"101":
        return RemoteProtocolError("the peer switched protocols (101), though nobody asked for it")
    return RemoteProtocolError("the peer's response head is not valid HTTP/1.1")


def parse_trailers(raw: bytes) -> RawFields:
    """Parse a trailer section that ends with its blank line; fields that frame messages are dropped.

    Raises:
        RemoteProtocolError: it holds a line that is no field.
    """
    event = _judge(b"HTTP/1.1 200 OK\r\n" + raw)
    if event is None:
        raise RemoteProtocolError("the peer's trailer section is not valid HTTP/1.1")
    return [pair for pair in event.headers.raw_items() if pair[0].lower() not in _FRAMING]


def _judge(raw: bytes) -> h11.Response | h11.InformationalResponse | None:
    """What h11 makes of it, None if it refuses."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=len(raw) + 1)
    connection.send(_REQUEST)
    connection.send(_REQUEST_END)
    connection.receive_data(_BLANKS_BEFORE_VALUE.sub(rb"\1", raw))
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    if connection.trailing_data[0]:
        return None  # more than one head: nobody else may see where the second one begins
    return event if isinstance(event, h11.Response | h11.InformationalResponse) else None


# h11 tries every way to share these blanks between the one before a value and the one after it, which takes
# seconds for 16 KiB of them, with the interpreter locked. They mean nothing (RFC 9112 5.1).
_BLANKS_BEFORE_VALUE: Final = re.compile(rb"(\n[^ \t:\r\n][^:\r\n]*+:)[ \t]++")


def _understand(status: int, reason: bytes, version: str, fields: RawFields) -> Head | None:
    """What the fields say of framing and of the connection; None if that is not clear."""
    length: int | None = None
    chunked = False
    closing = version != "1.1"
    keep_alive = None
    for name, value in fields:
        match name.lower():
            case b"content-length":
                if length is not None or (length := _length(value)) is None:
                    return None
            case b"transfer-encoding":
                if chunked or value != b"chunked":
                    return None
                chunked = True
            case b"connection":
                closing = closing or b"close" in value.lower()
            case b"keep-alive":
                keep_alive = _keep_alive_timeout(value)
    oddities = ("both Transfer-Encoding and Content-Length",) if chunked and length is not None else ()
    return Head(status, reason, version, fields, length, chunked, closing, keep_alive, oddities)


def _length(value: bytes) -> int | None:
    # Python refuses to read more than some thousand digits, with an error of its own.
    digits = value.lstrip(b"0") or b"0"
    if not value.isdigit() or len(digits) > len(str(MAX_LENGTH)):
        return None
    length = int(digits)
    return length if length <= MAX_LENGTH else None


_REPEATED_LENGTH: Final = re.compile(rb"(?is)\ncontent-length:(?:[^\n]*,|.*\ncontent-length:)")
# A folded line is joined by a space (RFC 9112 5.2), which is harmless in most fields and not in these.
_FOLDED: Final = re.compile(rb"(?i)\n(?:location|content-length|transfer-encoding)[ \t]*:[^\n]*\n[ \t]")
_TIMEOUT: Final = re.compile(rb"timeout\s*=\s*(\d{1,6})", re.IGNORECASE)


def _keep_alive_timeout(value: bytes) -> float | None:
    match = _TIMEOUT.search(value)
    return float(match[1]) if match else None


def _repair(raw: bytes, oddities: list[str]) -> bytes:
    """The same head with what may be repaired repaired; `oddities` tells what was done."""
    status_line, *lines = _LINE_END.split(raw.rstrip(b"\r\n"))
    kept = [status_line]
    codings: list[bytes] = []
    for line in _unfolded(lines, oddities):
        _repair_line(line, kept, codings, oddities)
    if codings:
        kept.extend(_repair_transfer_encoding(codings, oddities))
    return b"\r\n".join(kept) + b"\r\n\r\n"


def _unfolded(lines: list[bytes], oddities: list[str]) -> list[bytes]:
    """Continuation lines joined to their field (RFC 9112 5.2), so that they are dropped with it."""
    joined: list[bytes] = []
    for line in lines:
        if line[:1] not in (b" ", b"\t"):
            joined.append(line)
        elif joined:
            joined[-1] += b" " + line.lstrip(b" \t")
        elif _resembles(_FRAMES, name := line.partition(b":")[0]) or _resembles(_LEADS, name):
            joined.append(line)  # stays refused
        else:
            oddities.append("a first field line that starts with white space was dropped")
    return joined


def _repair_line(line: bytes, kept: list[bytes], codings: list[bytes], oddities: list[str]) -> None:
    name, colon, value = line.partition(b":")
    bare = name.rstrip(b" \t")
    if colon and bare.lower() == b"transfer-encoding" and bare == name:
        codings.extend(coding.strip(b" \t").lower() for coding in value.split(b","))
    elif not colon or (bare == name and _NAME.fullmatch(name)):
        kept.append(line)
    elif _resembles(_FRAMES, bare):
        kept.append(line)  # stays refused
    elif _NAME.fullmatch(bare):
        oddities.append("white space before a colon was removed")  # RFC 9112 5.1
        kept.append(bare + b":" + value)
    elif _resembles(_LEADS, bare):
        kept.append(line)  # stays refused
    else:
        oddities.append("a field line with an invalid name was dropped")


def _resembles(pattern: re.Pattern[bytes], name: bytes) -> bool:
    return pattern.search(_NO_LETTER.sub(b"", name.lower())) is not None


def _repair_transfer_encoding(codings: list[bytes], oddities: list[str]) -> list[bytes]:
    """`identity` means nothing, `chunked` said twice is meant once; everything else stays refused."""
    meant = [coding for coding in codings if coding not in (b"identity", b"")]
    if codings and codings[-1] == b"chunked" and set(meant) == {b"chunked"}:
        oddities.append("an unusual Transfer-Encoding was read as chunked")
        return [b"Transfer-Encoding: chunked"]
    if not meant:
        oddities.append("Transfer-Encoding: identity was ignored")
        return []
    return [b"Transfer-Encoding: " + b", ".join(codings)]
