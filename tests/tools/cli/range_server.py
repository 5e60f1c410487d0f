"""A server of one file that knows ranges and validators, and can break off: for resuming downloads."""

import contextlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONTENT = bytes(range(256)) * 400


@dataclass
class RangeServer:
    """The server's behaviour, which a test changes as it goes.

    Attributes:
        url: of the file.
        fields: of every response.
        break_after: content bytes after which the connection is cut; None for never.
        hold_after: content bytes after which nothing more comes until the client hangs up; None for never.
        held: these bytes are on their way.
        ranges: what is done about a Range field: `honest`, `ignored`, `blind` (If-Range is not looked at),
            `none_left` (416) or `misplaced` (a range that nobody asked for).
        requests: the fields of every request, names in lower case.
    """

    url: str = ""
    content: bytes = CONTENT
    fields: dict[str, str] = field(default_factory=lambda: {"ETag": '"one"'})
    break_after: int | None = None
    hold_after: int | None = None
    held: threading.Event = field(default_factory=threading.Event)
    ranges: str = "honest"
    requests: list[dict[str, str]] = field(default_factory=list)


def _handler(server: RangeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.requests.append({name.lower(): value for name, value in self.headers.items()})
            start = self._start()
            if start is None:
                self._answer(200, server.content, {})
            elif server.ranges == "none_left":
                self._answer(416, b"no more", {"Content-Range": f"bytes */{len(server.content)}"})
            else:
                first = start + (server.ranges == "misplaced")
                last, total = len(server.content) - 1, len(server.content)
                self._answer(206, server.content[first:], {"Content-Range": f"bytes {first}-{last}/{total}"})

        def _start(self) -> int | None:
            match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            current = self.headers.get("If-Range") in server.fields.values() or server.ranges == "blind"
            if match is None or server.ranges == "ignored" or not current:
                return None
            return int(match[1])

        def _answer(self, status: int, content: bytes, fields: dict[str, str]) -> None:
            self.send_response_only(status)
            for name, value in {**server.fields, **fields, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if server.hold_after is not None:
                self.wfile.write(content[: server.hold_after])
                server.held.set()
                self.rfile.read(1)
            else:
                self.wfile.write(content[: server.break_after])
            self.close_connection = True

        def log_message(self, *arguments: object) -> None:
            """Say nothing: the requests are kept."""

    return Handler


@contextlib.contextmanager
def open_range_server() -> Iterator[RangeServer]:
    """Run the server on loopback for as long as the block lasts."""
    server = RangeServer()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(server)) as listening:
        server.url = f"http://origin.example:{listening.server_address[1]}/data/big.bin"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
