"""A fetch as robots.txt wants it: each redirect is asked about before it is followed, as the first URL is."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import count

import trio

from tidegate import URL, DeadlineExceeded, Engine, FetchError, Limits, Phase, TooManyRedirects, parse_url
from tidegate_tools.pages.page import Page
from tidegate_tools.pages.robots import Robots, RobotsRefusal
from tidegate_tools.redirects import redirect_of, refused

_SHORTEST = 0.001
"""Seconds of the shortest deadline that the engine takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliteFetch:
    """GETs that no robots.txt forbids.

    Attributes:
        engine: what sends them; also behind `robots`.
        robots: who is asked.
        user_agent: the field value that is sent.
        limits: of one fetch: redirects are followed one by one here, within one deadline, in which the
            questions to robots.txt do not count.
    """

    engine: Engine
    robots: Robots
    user_agent: str
    limits: Limits

    async def get(self, text: str, identity: Hashable = None) -> Page | RobotsRefusal:
        """Fetch a URL.

        Args:
            text: the URL.
            identity: for whom; whose fetch it is.

        Raises:
            FetchError: it cannot be had; `hop` counts the redirects before.
        """
        url, left = parse_url(text), self.limits.timeout
        for hop in count():
            try:
                refusal = await self.robots.check(url, identity)
                if refusal is not None:
                    return refusal
                started = trio.current_time()
                received = await self._receive(url, identity, left, last=hop == self.limits.max_redirects)
                left -= trio.current_time() - started
            except DeadlineExceeded as error:
                # The engine knows only what was left of it.
                told = DeadlineExceeded(f"the deadline of {self.limits.timeout:g} s passed")
                raise told.located(phase=error.phase or Phase.REDIRECT, url=error.url, hop=hop) from None
            except FetchError as error:
                error.hop = hop + (error.hop or 0)
                raise
            if isinstance(received, Page):
                return received
            url = received
        raise AssertionError

    async def _receive(self, url: URL, identity: Hashable, timeout: float, *, last: bool) -> Page | URL:
        """One request; of a redirect its target, the content unread. After the last one there is none."""
        limits = replace(self.limits, timeout=max(timeout, _SHORTEST), max_redirects=0)
        fields = {"User-Agent": self.user_agent}
        content = BytesIO()
        async with self.engine.stream(str(url), headers=fields, limits=limits, key=identity) as response:
            target = redirect_of(response)
            if target is not None and last:
                most = self.limits.max_redirects
                raise refused(response, TooManyRedirects(f"more than {most} redirects (max_redirects)"))
            if target is not None:
                return target
            async for piece in response:
                content.write(piece)
        return Page.of(response, content.getvalue())
