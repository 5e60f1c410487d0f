"""The transport over HTTP ("streamable HTTP"), on hypercorn's trio worker."""

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
from mcp.server.transport_security import TransportSecuritySettings

PATH: Final = "/mcp"

_GRACE: Final = 0.5
"""Seconds that an open connection gets when the server ends: whoever presses Ctrl+C wants the prompt back."""

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


async def serve_http(
    server: Server[Any],
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    allowed_hosts: Sequence[str] = (),
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
        started: called with the URL once it listens.

    Raises:
        OSError: the address cannot be listened at.
    """
    names = [*(f"[{name}]" if ":" in name else name for name in LOOPBACK), *allowed_hosts]
    hosts = [each for name in names for each in (name, f"{name}:*")]
    origins = [f"{scheme}://{each}" for each in hosts for scheme in ("http", "https")]
    security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    config = _config(host, port)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            trigger = partial(anext, aiter(signals))
            run = partial(serve, cast(Any, app), config, shutdown_trigger=cast(Any, trigger))
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
