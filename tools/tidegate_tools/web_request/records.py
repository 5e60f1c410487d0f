"""One finished call as telemetry, audit and metrics may show it: the one place where all of that is known."""

from typing import NamedTuple

from tidegate.telemetry import Outcome


class CallRecord(NamedTuple):
    """One call of `web_request` that has ended, or that its caller gave up.

    It holds no query, no field, no content and no address (W-F3), and secrets are redacted. A named tuple, as
    it is made for every call, in a third of the time of a frozen dataclass.

    Attributes:
        agent: whose call it was.
        method: the method asked for; None if the arguments made no sense.
        host: the host asked for, None likewise.
        path: the path asked for, None likewise.
        status: of the final response; None if there was none.
        duration: seconds of the whole call.
        response_bytes: bytes of content that were kept, after decoding; None without a response.
        body_truncated: the content was cut, or may have been.
        redirect_count: how many redirects were followed.
        outcome: how it ended; `cancelled` if its caller gave it up.
        reason: why it failed; None if it did not.
    """

    agent: str | None
    method: str | None
    host: str | None
    path: str | None
    status: int | None
    duration: float
    response_bytes: int | None
    body_truncated: bool
    redirect_count: int
    outcome: Outcome
    reason: str | None
