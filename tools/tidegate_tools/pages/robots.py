"""robots.txt (RFC 9309), asked before a model's own fetch, through the same floor as the fetch itself."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from tidegate import URL, Denied, Engine, FetchError, Limits, Reason, Response
from tidegate_tools.pages.cache import Cache

if TYPE_CHECKING:
    from protego import Protego

LIMITS: Final = Limits(timeout=5.0, max_content=512 * 1024, max_redirects=5)
"""Its own deadline. RFC 9309 2.5 asks for at least 500 KiB, 2.3.1.2 for at least five redirects."""

_MAX_AGE: Final = 600.0
_MAX_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RobotsRefusal:
    """Why a URL must not be fetched without a person.

    Attributes:
        message: one sentence for the model.
        retryable: it may be otherwise later: the file could not be had.
    """

    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class _Rules:
    """What a file says, parsed; `parser` is None if there is no file, and everything is allowed."""

    parser: "Protego | None"
    size: int


class Robots:
    """The robots.txt files of the sites that an agent wants pages of.

    Args:
        engine: what fetches them.
        user_agent: the field value that is sent.
        product: the name that rules are looked up for, as in `User-agent: tidegate`.
    """

    def __init__(self, engine: Engine, *, user_agent: str, product: str) -> None:
        self._engine = engine
        self._fields = {"User-Agent": user_agent}
        self._product = product
        self._cache: Cache[_Rules] = Cache(_MAX_BYTES, _MAX_AGE, lambda rules: 1024 + 16 * rules.size)

    async def check(self, url: URL, identity: Hashable = None) -> RobotsRefusal | None:
        """None if the URL may be fetched, else why not.

        401 and 403 are a no, other 4xx a yes (there are no rules), 5xx and every failure a no
        (RFC 9309 2.3.1).

        Args:
            url: of the page.
            identity: for whom; whose fetch it is.

        Raises:
            Denied: the site itself may not be reached, so the page may not either.
        """
        site = f"{url.scheme}://{url.authority}/robots.txt"
        rules = self._cache.get((identity, site))
        if rules is None:
            try:
                response = await self._engine.fetch(site, headers=self._fields, limits=LIMITS, key=identity)
            except FetchError as error:
                return _unread(site, error)
            if refusal := _refusal_by_status(site, response.status):
                return refusal
            rules = await self._parse(response)
            self._cache.put((identity, site), rules)
        if rules.parser is None or await _in_thread(rules.parser, str(url), self._product):
            return None
        return RobotsRefusal(
            f"The robots.txt of the site ({site}) does not allow {self._product} to fetch "
            f"{url.without_query} by itself. {_BY_PROMPT}",
            retryable=False,
        )

    async def _parse(self, response: Response) -> _Rules:
        if response.status >= 400:
            return _Rules(None, 0)
        from protego import Protego

        text = response.content.decode("utf-8", "replace")
        # Half a megabyte of rules takes tenths of a second; a thread lets the others go on.
        parser = await trio.to_thread.run_sync(Protego.parse, text, abandon_on_cancel=True)
        return _Rules(parser, len(text))


async def _in_thread(parser: "Protego", url: str, product: str) -> bool:
    return await trio.to_thread.run_sync(parser.can_fetch, url, product, abandon_on_cancel=True)


_BY_PROMPT: Final = (
    "Tell the user that the page was not read; the user can have it fetched with the prompt `fetch`."
)


def _refusal_by_status(site: str, status: int) -> RobotsRefusal | None:
    if status in (401, 403):
        return RobotsRefusal(
            f"The site answers {status} to a request for {site}, so fetching without a person is taken to be "
            f"unwanted. {_BY_PROMPT}",
            retryable=False,
        )
    if 200 <= status < 300 or 400 <= status < 500:
        return None
    return RobotsRefusal(
        f"The site answers {status} to a request for {site}, so nothing says that fetching is allowed. "
        f"{_BY_PROMPT}",
        retryable=True,
    )


def _unread(site: str, error: FetchError) -> RobotsRefusal:
    if isinstance(error, Denied) and not error.hop and error.reason is not Reason.REQUEST_NOT_ALLOWED:
        raise error
    return RobotsRefusal(
        f"{site} could not be read ({error.reason}), so nothing says that fetching is allowed. {_BY_PROMPT}",
        retryable=not isinstance(error, Denied),
    )
