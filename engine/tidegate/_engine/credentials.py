"""The seam through which an operator's secrets reach a request, and nothing else does."""

from collections.abc import Mapping
from typing import Protocol

from tidegate._policy.url import URL


class CredentialSource(Protocol):
    """Gives the secret fields of one hop. Asked after all its checks, over https only, afresh every time."""

    async def fields_for(self, url: URL) -> Mapping[str, str]:
        """The fields to add to a request for this URL, none if it has no credential.

        They win over the caller's fields of the same name, and never go along with a redirect: the next hop
        asks again. An exception fails the fetch; its text is never shown.
        """
        ...
