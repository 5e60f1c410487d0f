"""URLs for eyes that must not see a secret."""

import re
from typing import Final
from urllib.parse import unquote

from tidegate._policy.url import URL

SIGNATURES: Final = frozenset({
    "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "AWSAccessKeyId", "Signature", "sig",
    "X-Goog-Signature",
})  # fmt: skip
"""Query keys whose values are credentials: those of the OpenTelemetry conventions for `url.full`, by case."""

_PAIR: Final = re.compile(r"([^=&]*)=([^&]*)")


def shown_url(url: URL, *, query: bool = False) -> str:
    """The URL without its query, or with one in which the values of signatures are replaced.

    There is no userinfo to hide: `parse_url` refuses it.

    Args:
        url: what to show.
        query: show the query. Only a few known names are covered: whatever else is secret in it is seen.
    """
    if not query or url.query is None:
        return url.without_query
    return f"{url.without_query}?{_PAIR.sub(_covered, url.query)}"


def _covered(pair: re.Match[str]) -> str:
    return f"{pair[1]}=REDACTED" if unquote(pair[1]) in SIGNATURES else pair[0]
