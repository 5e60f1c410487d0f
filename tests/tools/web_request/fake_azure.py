"""A Key Vault and a managed identity endpoint over TLS, as Microsoft's clients see them.

There is no emulator to install; these two routes are all that the clients ask for. The certificate is from a
CA of the test, so verification stays on.
"""

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import trustme


@dataclass
class FakeAzure:
    """What the server has, and what it has been asked.

    Attributes:
        url: where it listens, as the vault's URL and the identity endpoint's.
        secrets: by name.
        tokens: handed out one after the other, the last one again and again.
        lifetime: seconds that a token is said to be good for.
        identity_status: what the identity endpoint answers; 200 is a token.
        vault_asked: names of secrets asked for with a good token.
        identity_asked: (resource, client id) of each token asked for.
    """

    url: str = ""
    secrets: dict[str, str] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=lambda: ["token-one"])
    lifetime: int = 3600
    identity_status: int = 200
    vault_asked: list[str] = field(default_factory=list)
    identity_asked: list[tuple[str, str | None]] = field(default_factory=list)
    issued: list[str] = field(default_factory=list)

    def issue(self) -> str:
        """The next token."""
        token = self.tokens[0] if len(self.tokens) == 1 else self.tokens.pop(0)
        self.issued.append(token)
        return token


@contextmanager
def fake_azure(authority: trustme.CA | None) -> Iterator[FakeAzure]:
    """Serve on a free port of loopback while the block runs; without a CA over plain http, as VMs do."""
    fake = FakeAzure()
    handler = type("Handler", (_Handler,), {"fake": fake})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        fake.url = f"http://localhost:{server.server_port}"
        if authority is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert("localhost").configure_cert(context)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            fake.url = f"https://localhost:{server.server_port}"
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeAzure
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/metadata/identity/oauth2/token" and self.headers.get("Metadata") == "true":
            self._token({name: values[0] for name, values in parse_qs(parts.query).items()})
        elif parts.path.startswith("/secrets/"):
            self._secret(parts.path.split("/")[2])
        else:
            self._answer(404, {})

    def _token(self, query: dict[str, str]) -> None:
        self.fake.identity_asked.append((query["resource"], query.get("client_id")))
        if self.fake.identity_status != 200:
            body = {"error": "invalid_request", "error_description": "Identity not found"}
            self._answer(self.fake.identity_status, body)
            return
        token = {
            "access_token": self.fake.issue(),
            "expires_in": str(self.fake.lifetime),
            "token_type": "Bearer",
        }
        self._answer(200, {**token, "resource": query["resource"]})

    def _secret(self, name: str) -> None:
        if self.headers.get("Authorization") not in {f"Bearer {token}" for token in self.fake.issued}:
            challenge = (
                'Bearer authorization="https://login.example/tenant", resource="https://vault.azure.net"'
            )
            self._answer(401, {}, {"WWW-Authenticate": challenge})
            return
        self.fake.vault_asked.append(name)
        if name not in self.fake.secrets:
            self._answer(404, {"error": {"code": "SecretNotFound", "message": f"{name} was not found"}})
            return
        identity = f"{self.fake.url}/secrets/{name}/0123456789abcdef"
        self._answer(200, {"value": self.fake.secrets[name], "id": identity, "attributes": {"enabled": True}})

    def _answer(self, status: int, body: Mapping[str, object], headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        """Tests print nothing."""
