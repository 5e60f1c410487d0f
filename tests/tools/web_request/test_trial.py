"""`report_only`: a host list on trial refuses nothing, is told of, and nothing else is on trial with it."""

import logging
from pathlib import Path

import pytest

from tests.support.engines import AnyHost
from tests.support.fetch_tool import Site, redirect
from tests.tools.web_request.agents import URL
from tests.tools.web_request.conftest import MakeAgent
from tidegate import DenialReported
from tidegate.testing.observer import RecordingObserver
from tidegate_tools.cli import main
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.tool import policy_of

LIST = {"allowed_hosts": ["other.example.com"], "report_only": True}
LOGGER = "tidegate.tools.web_request"
PASSES = "report_only is on, so this passes:"


async def test_what_the_list_refuses_passes_and_is_logged(
    agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    """By its host alone: no path, no query."""
    mine = agent(Site(), **LIST)
    with caplog.at_level(logging.WARNING, LOGGER):
        await mine.get(f"{URL}path?token=secret")
    assert caplog.messages == [f"{PASSES} api.example.com is not in allowed_hosts"]
    assert mine.records[0].outcome == "success"


async def test_what_the_list_allows_is_not_logged(agent: MakeAgent, caplog: pytest.LogCaptureFixture) -> None:
    mine = agent(Site(), allowed_hosts=["api.example.com"], report_only=True)
    with caplog.at_level(logging.WARNING, LOGGER):
        await mine.get()
    assert caplog.messages == []


async def test_a_list_that_is_not_on_trial_refuses(
    agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    mine = agent(Site(), **{**LIST, "report_only": False})
    with caplog.at_level(logging.WARNING, LOGGER):
        assert await mine.refusal() == ("blocked", "not_in_allowlist")
    assert caplog.messages == []


async def test_every_hop_is_told(agent: MakeAgent, caplog: pytest.LogCaptureFixture) -> None:
    site = Site({URL: redirect("https://third.example.com/")})
    with caplog.at_level(logging.WARNING, LOGGER):
        await agent(site, **LIST, max_redirects=1).get()
    hosts = [message.partition("passes: ")[2].split()[0] for message in caplog.messages]
    assert hosts == ["api.example.com", "third.example.com"]


async def test_a_host_that_is_a_secret_is_logged_without_it(
    agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    """W-F3: a server may redirect to a host that holds the credential which it was sent."""
    key = "sk-live-0123456789"
    site = Site({URL: redirect(f"https://{key.upper()}.evil.example/")})
    auth = [{"host": "api.example.com", "headers": {"X-Key": {"env": "KEY"}}}]
    mine = agent(site, **LIST, auth=auth, max_redirects=1, options={"environment": {"KEY": key}})
    with caplog.at_level(logging.WARNING, LOGGER):
        await mine.get()
    assert caplog.messages[1:] == [f"{PASSES} [redacted].evil.example is not in allowed_hosts"]


async def test_the_observer_is_told_as_well(agent: MakeAgent) -> None:
    observer = RecordingObserver()
    await agent(Site(), **LIST, options={"observer": observer}).get()
    told = [event for event in observer.events if isinstance(event, DenialReported)]
    assert [event.refusal.reason for event in told] == ["not_in_allowlist"]
    assert len(observer.events) > len(told)


@pytest.mark.parametrize(
    ("url", "address", "config", "reason"),
    [
        (URL, "10.0.0.1", {}, "private"),
        (URL, "169.254.169.254", {}, "imds"),
        ("https://127.0.0.1/", "93.184.216.34", {}, "loopback"),
        ("https://printer.local/", "93.184.216.34", {}, "local_name"),
        ("https://2130706433/", "93.184.216.34", {}, "non_canonical_ip"),
        ("http://api.example.com/", "93.184.216.34", {}, "https_required"),
        ("https://api.example.com:25/", "93.184.216.34", {}, "blocked_port"),
        (
            URL,
            "93.184.216.34",
            {"request_rules": [{"host": "api.example.com", "methods": ["POST"]}]},
            "request_not_allowed",
        ),
    ],
)
async def test_nothing_else_is_on_trial(
    url: str, address: str, config: dict[str, object], reason: str, agent: MakeAgent
) -> None:
    """W-5: the floor least of all."""
    mine = agent(Site(), **LIST, **config, options={"resolver": AnyHost(address)})
    assert await mine.refusal(url) == ("blocked", reason)
    assert not mine.connector.connected


@pytest.mark.parametrize(
    ("config", "on_trial"),
    [
        (LIST, True),
        ({**LIST, "allowed_hosts": []}, True),
        ({"report_only": True}, False),
        ({"allowed_hosts": ["a.example"]}, False),
    ],
)
def test_the_policy(config: dict[str, object], on_trial: bool) -> None:
    """Without a list there is nothing to try."""
    assert policy_of(WebRequestConfig.model_validate(config)).report_only is on_trial


async def test_a_model_is_not_told_of_the_list(agent: MakeAgent) -> None:
    """It would keep to it, and the trial would show nothing."""
    assert "other.example.com" not in agent(Site(), **LIST).tool.description
    assert "other.example.com" in agent(Site(), **{**LIST, "report_only": False}).tool.description


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        (
            "22_list_on_trial",
            "report_only          allowed_hosts is on trial: what it refuses passes, and is",
        ),
        ("23_trial_without_a_list", "report_only          nothing is on trial: there is no list"),
        ("07_full_surface", "report_only          allowed_hosts is enforced [built-in default]"),
    ],
)
def test_config_check_says_so(folder: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", str(Path(__file__).parent / "scenarios" / folder)]) == 0
    assert words in capsys.readouterr().out
