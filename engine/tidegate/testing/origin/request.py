"""What one request was on the wire."""

import base64
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class ReceivedRequest:
    """What one request was on the wire.

    Attributes:
        connection: which connection of the origin, from 1.
        number: which request on that connection, from 1.
        head: the bytes up to and including the empty line; what there was of them, if it was malformed.
        method: text, as all below, is the wire's bytes read as Latin-1.
        target: as sent, normally path and query.
        version: `1.1` or `1.0`.
        fields: names and values in the order and with the case of the wire.
        content: decoded from its framing, as far as it has been read.
        complete: the content was read to its end.
        tls: version, server_name and resumed, see `Connection.describe_tls`.
        error: why the request was refused as malformed.
    """

    connection: int
    number: int
    head: bytes = b""
    method: str = ""
    target: str = ""
    version: str = "1.1"
    fields: tuple[tuple[str, str], ...] = ()
    content: bytearray = field(default_factory=bytearray)
    complete: bool = False
    tls: dict[str, object] | None = None
    error: str | None = None

    def values(self, name: str) -> list[str]:
        """The values of every field called `name`, in any case."""
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def as_json(self) -> dict[str, object]:
        """The object that `/echo` and `/requests` send; the keys are stable."""
        return {
            "connection": self.connection,
            "number": self.number,
            "method": self.method,
            "target": self.target,
            "version": self.version,
            "headers": [list(pair) for pair in self.fields],
            "content_base64": base64.b64encode(self.content).decode(),
            "complete": self.complete,
            "tls": self.tls,
            "error": self.error,
        }
