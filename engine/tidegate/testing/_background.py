"""Servers that run for as long as a block of code does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_background() -> AsyncIterator[trio.Nursery]:
    """A nursery that is cancelled when its block ends; a single exception comes out as it is, in no group."""
    alone = None
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        alone = group.exceptions[0]
    if alone is not None:
        raise alone
