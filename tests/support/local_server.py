"""A real HTTP server on loopback, the standard library's, and the operator's rule that makes it reachable."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any
from urllib.parse import parse_qs, urlsplit

import tidegate

HOST = "origin.example"
"""What a test calls the server. The floor refuses 127.0.0.1 itself, as it should."""


class _Handler(BaseHTTPRequestHandler):
    """What a path does.

    `/echo`: the request as text. `/bytes?size=N`: that many. `/hold`: no answer. `/to?location=URL`: a 302.
    """

    protocol_version = "HTTP/1.1"
    server: "_Server"

    def setup(self) -> None:
        super().setup()
        self.server.count_connections(1)

    def finish(self) -> None:
        super().finish()
        self.server.count_connections(-1)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(self.requestline)
        if url.path == "/hold":
            self._hold()
        elif url.path == "/to":
            self._respond(b"", status=302, location=query["location"])
        elif url.path == "/bytes":
            self._respond(b"x" * int(query["size"]))
        else:
            lines = [self.requestline, *(f"{name}: {value}" for name, value in self.headers.items())]
            self._respond("\n".join(lines).encode() + b"\n\n" + content)

    do_HEAD = do_POST = do_GET  # noqa: N815  # names of the standard library

    def _hold(self) -> None:
        """Until the client hangs up, and not a moment longer."""
        self.server.held.put(None)
        self.rfile.read(1)
        self.server.hung_up.put(None)
        self.close_connection = True

    def _respond(self, content: bytes, *, status: int = 200, **fields: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "text/plain", **fields}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # The standard library's 5 let the system drop connections that come at once, which try again in seconds.
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[str] = []
        self.held: SimpleQueue[None] = SimpleQueue()
        self.hung_up: SimpleQueue[None] = SimpleQueue()
        self.connections = 0
        self.changed = threading.Condition()

    def count_connections(self, difference: int) -> None:
        with self.changed:
            self.connections += difference
            self.changed.notify_all()


class LocalServer:
    """A running server.

    Attributes:
        port: where it listens, on 127.0.0.1.
        requests: the request lines it was sent.
        options: of `open_engine`, to reach it as `HOST`.
    """

    def __init__(self, server: _Server) -> None:
        self._server = server
        self.port = int(server.server_address[1])
        self.requests = server.requests

    @property
    def options(self) -> dict[str, Any]:
        policy = tidegate.Policy(private_ranges=[tidegate.PrivateRange("127.0.0.0/8", HOST)])
        return {"policy": policy, "resolver": tidegate.StaticResolver({HOST: ["127.0.0.1"]})}

    def url(self, path: str, host: str = HOST) -> str:
        return f"http://{host}:{self.port}{path}"

    def wait_until_held(self) -> None:
        """Block until a request for `/hold` is there."""
        self._server.held.get(timeout=30)

    def wait_until_hung_up(self) -> None:
        """Block until a client that was held has closed its connection."""
        self._server.hung_up.get(timeout=30)

    def wait_until_unconnected(self) -> None:
        """Block until every client has closed its connections, the idle ones too."""
        with self._server.changed:
            assert self._server.changed.wait_for(lambda: not self._server.connections, timeout=30)


@contextmanager
def local_server() -> Iterator[LocalServer]:
    """Run a server in threads for the length of a block."""
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield LocalServer(server)
        finally:
            server.shutdown()
            thread.join()
