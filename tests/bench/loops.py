"""The same loop three times over: batches of fetches on trio, on asyncio, and by a blocking client."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from tests.bench.job import Job, turns
from tests.bench.works import LENGTHS

Fetch: TypeAlias = Callable[[str], Awaitable[bytes]]
"""Takes a path, gives the content of a 200 response, decoded."""


async def run_on_trio(job: Job, fetch: Fetch) -> None:
    """Run a job, its batches in nurseries."""

    async def one(path: str) -> None:
        _check(path, await fetch(path))

    async def together(path: str) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(job.at_once):
                nursery.start_soon(one, path)

    await _run_turns(job, one if job.at_once == 1 else together)


async def run_on_asyncio(job: Job, fetch: Fetch) -> None:
    """Run a job, its batches gathered."""

    async def one(path: str) -> None:
        _check(path, await fetch(path))

    async def together(path: str) -> None:
        await asyncio.gather(*(one(path) for _ in range(job.at_once)))

    await _run_turns(job, one if job.at_once == 1 else together)


async def _run_turns(job: Job, batch: Callable[[str], Awaitable[None]]) -> None:
    for meter in turns():
        await batch(job.warm_up)
        with meter.measure():
            for _ in range(job.batches):
                await batch(job.path)


def run_blocking(job: Job, fetch: Callable[[str], bytes]) -> None:
    """Run a job, one fetch after the other."""
    for meter in turns():
        _check(job.warm_up, fetch(job.warm_up))
        with meter.measure():
            for _ in range(job.batches):
                _check(job.path, fetch(job.path))


def _check(path: str, content: bytes) -> None:
    """Every fetch must have fetched."""
    if len(content) != LENGTHS[path]:
        raise AssertionError(f"{path}: {len(content)} bytes instead of {LENGTHS[path]}")
