"""The same engine for programs that do not run trio: plain threads, and asyncio on any event loop.

Trio runs in one background thread. Whoever calls goes on only when the call has ended over there, cleaned up
and all: after a cancellation, a time-out or Ctrl+C too.

    with tidegate.portal.Portal() as portal:
        engine = portal.engine(tidegate.Policy(require_https=True))
        response = engine.fetch_sync("https://example.com/")           # from a plain thread
        response = await engine.fetch("https://example.com/")          # from asyncio

A program that does run trio opens its engine itself, in its own run: `tidegate.open_engine`, or, for
something that lives longer than a run, `RunLocalEngine`.

Why one thread of our own, and not trio's guest mode or a `trio.run` a call: several loops and threads share
one engine and its idle connections, a busy asyncio loop does not hold up the engine's deadlines, and Ctrl+C
leaves nothing behind.
"""

from tidegate.portal._callers import in_caller as in_caller
from tidegate.portal._engine import CheckOptions as CheckOptions
from tidegate.portal._engine import EngineOptions as EngineOptions
from tidegate.portal._engine import FetchOptions as FetchOptions
from tidegate.portal._engine import PortalEngine as PortalEngine
from tidegate.portal._engine import PortalStream as PortalStream
from tidegate.portal._engine import RunLocalEngine as RunLocalEngine
from tidegate.portal._portal import Portal as Portal
from tidegate.portal._portal import shared_portal as shared_portal
