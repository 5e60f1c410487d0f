"""What `Fetch` advises where a grant is missing: nothing that the floor would refuse all the same."""

import pytest
import trio

from tests.support.fetch_tool import Agent, Site, redirect

URL = "http://site.example/"
GRANT = "Add the host to this agent's net_grants."
RULE = "Add a private-range rule to the operator's policy that names this host and its range."


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("http://other.example/", GRANT),
        ("http://8.8.8.8/", GRANT),
        ("http://[2606:4700::1111]/", GRANT),
        ("http://10.0.0.1/", f"{GRANT} {RULE}"),
        ("http://[::1]/", f"{GRANT} {RULE}"),
        ("http://169.254.169.254/", None),
        ("http://[::ffff:169.254.169.254]/", None),
        ("http://169.254.1.1/", None),
        ("http://224.0.0.1/", None),
        ("http://0.0.0.0/", None),
    ],
)
@pytest.mark.parametrize("redirected", [False, True])
async def test_advice_for_a_host_that_is_not_granted(
    url: str, advice: str | None, redirected: bool, nursery: trio.Nursery
) -> None:
    """F-68, F-87: the refusal is the grant's either way; what would allow it is told only where it would."""
    agent = Agent(nursery, Site({URL: redirect(url)}), net_grants=["site.example"])
    result = await agent.call(URL if redirected else url, follow_redirects=True)
    assert result.error is not None
    assert (result.error.slug, result.error.reason) == ("net_denied", "not_granted")
    assert result.error.how_to_allow == advice
    place = "Redirect 1 is" if redirected else "The destination is"
    assert result.error.message.startswith(f"{place} refused: ")
    assert result.error.message.endswith(f" is not granted. {advice}" if advice else " is not granted.")
