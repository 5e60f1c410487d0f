"""A fetch as robots.txt wants it: each redirect is asked about before it is followed, as the first URL is."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import count

import trio

from tidegate import URL, Engine, FetchError, Limits, Phase, TooManyRedirects, parse_url
from tidegate_tools.pages.page import Page
from tidegate_tools.pages.robots import Robots, RobotsRefusal
from tidegate_tools.redirects import redirect_of

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
                received = await self._receive(url, identity, left)
                left -= trio.current_time() - started
            except FetchError as error:
                error.hop = hop + (error.hop or 0)
                raise
            if isinstance(received, Page):
                return received
            if hop == self.limits.max_redirects:
                told = TooManyRedirects(f"more than {hop} redirects (max_redirects)")
                raise told.located(phase=Phase.REDIRECT, url=url.without_query, hop=hop)
            url = received
        raise AssertionError

    async def _receive(self, url: URL, identity: Hashable, timeout: float) -> Page | URL:
        """One request; of a redirect its target, the content unread."""
        limits = replace(self.limits, timeout=max(timeout, _SHORTEST), max_redirects=0)
        fields = {"User-Agent": self.user_agent}
        content = BytesIO()
        async with self.engine.stream(str(url), headers=fields, limits=limits, key=identity) as response:
            target = redirect_of(response)
            if target is not None:
                return target
            async for piece in response:
                content.write(piece)
        return Page.of(response, content.getvalue())
