"""Status, method and Location decide the next request, or that there is none. Pure."""

from collections.abc import Sequence
from typing import Final

from tidegate._policy.fields import (
    CREDENTIAL_FIELDS,
    SAFE_ACROSS_ORIGINS,
    Fields,
    only_fields,
    without_fields,
)
from tidegate._policy.messages import Request
from tidegate._policy.policy import Policy
from tidegate._policy.reasons import Reason
from tidegate._policy.url import URL, join_location
from tidegate.errors import BadRedirect

FOLLOWED: Final = frozenset({301, 302, 303, 307, 308})
"""The statuses that are redirects to follow. 300, 304, 305 and 306 are final (AMB-16)."""

_REPEATING: Final = frozenset({307, 308})


def redirect_target(url: URL, status: int, locations: Sequence[bytes]) -> URL | None:
    """Where a response sends us, or None if it is no redirect to follow.

    Args:
        url: the URL of the response.
        status: its status code.
        locations: the values of its Location fields, as they came.

    Raises:
        BadRedirect: Location is no URL, or there are two that differ.
        InvalidURL: it holds userinfo or a bad port.
        SchemeDenied: it is not http or https.
        HostDenied: its host is a disguised address.
    """
    if status not in FOLLOWED or not locations:
        return None
    if any(location != locations[0] for location in locations):
        raise BadRedirect("the response has several Location fields that differ")
    return join_location(url, locations[0])


def next_request(request: Request, target: URL, status: int, policy: Policy) -> Request:
    """The request to send to a redirect's target.

    301, 302 and 303 become GET, and HEAD stays HEAD, without content and the fields that describe it; 307
    and 308 repeat method and content (decision D-21, AMB-13). Credentials never cross origins, and other
    fields only if they are known to be safe (D-22); within one origin the policy says whether the caller's
    own credentials go along.

    Raises:
        BadRedirect: the content would have to be repeated and cannot be (`content_not_replayable`).
    """
    method, content, fields = request.method, request.content, request.fields
    if status not in _REPEATING:
        method, content, fields = "HEAD" if method == "HEAD" else "GET", b"", _without_content(fields)
    if not isinstance(content, bytes):
        raise BadRedirect(
            f"status {status} asks for the content again, which can only be sent once; give it as bytes",
            reason=Reason.CONTENT_NOT_REPLAYABLE,
        )
    return Request(method, target, _fields_for(fields, request.url, target, policy), content)


def _without_content(fields: Fields) -> Fields:
    return tuple(field for field in fields if not field[0].lower().startswith("content-"))


def _fields_for(fields: Fields, origin: URL, target: URL, policy: Policy) -> Fields:
    if origin.origin != target.origin:
        safe = SAFE_ACROSS_ORIGINS | policy.redirect_fields
        return without_fields(only_fields(fields, safe), CREDENTIAL_FIELDS)
    if policy.keep_credentials_within_origin:
        return fields
    return without_fields(fields, CREDENTIAL_FIELDS)
