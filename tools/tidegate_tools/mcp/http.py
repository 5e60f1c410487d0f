"""The transport over HTTP ("streamable HTTP"), on hypercorn's trio worker."""

import re
import signal
import socket
from collections.abc import Callable, Sequence
from functools import partial
from socket import AF_INET, AF_INET6
from typing import Any, Final, cast

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import (
    RequestBodyLimitMiddleware,
    TransportSecurityMiddleware,
    TransportSecuritySettings,
)
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate import FetchError
from tidegate._policy.host import canonical_host
from tidegate._policy.ports import MAX_PORT
from tidegate_tools.mcp.messages import MAX_MESSAGE, problem_of

PATH: Final = "/mcp"

_GRACE: Final = 0.5
"""Seconds that an open connection gets when the server ends: whoever presses Ctrl+C wants the prompt back."""

MAX_SESSIONS: Final = 1_000
"""Sessions at a time. Each takes some 40 KB, and no client has to say who it is."""

MAX_IDLE: Final = 1800.0
"""Seconds that a session without a request lives on; its client then has to begin another."""

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


async def serve_http(
    server: Server[Any],
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    allowed_hosts: Sequence[str] = (),
    max_sessions: int = MAX_SESSIONS,
    max_idle: float = MAX_IDLE,
    started: Callable[[str], object] = lambda url: None,
) -> None:
    """Serve clients until SIGINT or SIGTERM. There is no authentication: whoever reaches it may use it.

    Args:
        server: from `make_server`.
        host: the address to listen at.
        port: 0 for any that is free.
        allowed_hosts: what a Host field may say beside the loopback names, with or without a port. A page in
            a browser that has its own name lead here (DNS rebinding) says another, and gets 421; one whose
            Origin is another gets 403.
        max_sessions: at a time; one more is refused with 503.
        max_idle: seconds that a session lives without a request or an open stream.
        started: called with the URL once it listens.

    Raises:
        OSError: the address cannot be listened at.
        ValueError: an allowed host is none.
    """
    names = [*map(host_field, (*LOOPBACK, *allowed_hosts))]
    hosts = [each for name in names for each in (name, f"{name}:*")]
    origins = [f"{scheme}://{each}" for each in hosts for scheme in ("http", "https")]
    security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=security,
        max_sessions=max_sessions,
        session_idle_timeout=max_idle,
    )
    checked = RequestBodyLimitMiddleware(_Checked(app, security), MAX_MESSAGE)
    config = _config(host, port)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            trigger = partial(anext, aiter(signals))
            run = partial(serve, cast(Any, checked), config, shutdown_trigger=cast(Any, trigger))
            binds = await nursery.start(run)
            started(f"{binds[0]}{PATH}")


def _config(host: str, port: int) -> Config:
    config = Config()
    # Bound here, so that an address that is taken is an error and no group of them.
    listening = socket.create_server((host, port), family=AF_INET6 if ":" in host else AF_INET)
    config.bind = [f"fd://{listening.detach()}"]
    config.graceful_timeout = _GRACE
    config.include_server_header = False
    # Its logs would repeat requests.
    config.errorlog = None
    config.accesslog = None
    return config


_WITH_PORT: Final = re.compile(r"(\[.*\]|[^:\[\]]*):([0-9]{1,5})")


def host_field(text: str) -> str:
    """What a Host field says of a host: in lower case and A-labels, IPv6 in brackets.

    Args:
        text: a name or an address, with or without a port.

    Raises:
        ValueError: it is none; a star is no host either.
    """
    name, port = match.groups() if (match := _WITH_PORT.fullmatch(text)) else (text, None)
    try:
        host = canonical_host(name)
    except FetchError as error:
        raise ValueError(error.message) from None
    if port is not None and not 0 < int(port) <= MAX_PORT:
        raise ValueError(f"The port {port} is none.")
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{int(port)}"


class _Checked:
    """The application, for messages alone; all else is answered as over standard input.

    The whole of a request's content must come at once, as `RequestBodyLimitMiddleware` has it.
    """

    def __init__(self, app: ASGIApp, security: TransportSecuritySettings) -> None:
        self._app = app
        self._security = TransportSecurityMiddleware(security)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope, "headers": [_comparable(*pair) for pair in scope["headers"]]}
        if scope["method"] != "POST" or scope["path"] != PATH:
            await self._app(scope, receive, send)
            return
        message = await receive()
        problem = problem_of(message.get("body", b"")) if message["type"] == "http.request" else None
        if problem is None:
            await self._app(scope, _after(message, receive), send)
            return
        refusal = await self._security.validate_request(Request(scope), is_post=True)
        await (refusal or JSONResponse(problem, 400))(scope, receive, send)


def _comparable(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    # The SDK compares letter by letter, and hosts have no case (RFC 9110 4.2.3).
    return name, value.lower() if name in (b"host", b"origin") else value


def _after(message: Message, receive: Receive) -> Receive:
    """A message that was received already, and then the rest."""
    waiting = [message]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
