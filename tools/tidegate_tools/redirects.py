"""Where a response leads that the engine was told not to follow."""

from tidegate import URL, FetchError, Phase, ResponseStream
from tidegate._policy.redirect import redirect_target


def redirect_of(response: ResponseStream) -> URL | None:
    """The target of a redirect, None for every other response.

    Raises:
        FetchError: it leads to what cannot be followed.
    """
    locations = [value for name, value in response.headers.raw if name.lower() == b"location"]
    try:
        return redirect_target(response.url, response.status, locations)
    except FetchError as error:
        raise refused(response, error) from None


def refused(response: ResponseStream, error: FetchError) -> FetchError:
    """End a fetch because of where its response leads; the error, to be raised."""
    return response.fail(error.located(phase=Phase.REDIRECT, url=response.url.without_query, hop=0))
