"""An agent with `web_request` in its hands, over scripted peers that have a certificate for every name."""

import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio
import trustme

from tests.support.engines import AnyHost
from tidegate.testing.memory import MemoryConnector, Peer
from tidegate_tools.registry import ToolContext, ToolResult
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.records import CallRecord
from tidegate_tools.web_request.tool import create_web_request_tools

URL = "https://api.example.com/"
HOST = "api.example.com"


class Certificates:
    """Server contexts with a certificate for whatever host is asked for, each made once."""

    def __init__(self, authority: trustme.CA) -> None:
        self._authority = authority
        self._contexts: dict[str, ssl.SSLContext] = {}

    def context(self, host: str) -> ssl.SSLContext:
        if host not in self._contexts:
            context = self._contexts[host] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._authority.issue_cert(host).configure_cert(context)
        return self._contexts[host]


class Certified(MemoryConnector):
    """A connector whose peers have a certificate for every name."""

    def __init__(self, nursery: trio.Nursery, script: Any, certificates: Certificates) -> None:
        super().__init__(nursery, script)
        self._certificates = certificates

    async def _play_over(self, target: Any, transport: Any) -> None:
        if target.scheme == "https":
            self.tls = self._certificates.context(target.host)
        await super()._play_over(target, transport)


def strict_json(text: str) -> Any:
    """The value of a text that has to be strict JSON, down to its last byte (W-84)."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    text.encode()
    return json.loads(text, parse_constant=refuse)


class Agent:
    """One agent with one tool, whose every connection leads to `site`.

    Args:
        nursery: where the peers run.
        site: who answers.
        certificates: theirs.
        config: of the tool.
        options: of `create_web_request_tools`.

    Attributes:
        tool: the tool.
        connector: which targets were connected to.
        resolver: who was asked for, if it is one of ours.
        records: of all calls.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        site: Callable[[Peer], Awaitable[None]],
        certificates: Certificates,
        config: Mapping[str, Any],
        **options: Any,
    ) -> None:
        self.connector = options.setdefault("connector", Certified(nursery, site, certificates))
        self.resolver = options.setdefault("resolver", AnyHost())
        self.records: list[CallRecord] = []
        options.setdefault("record", self.records.append)
        [self.tool] = create_web_request_tools(WebRequestConfig.model_validate(config), **options)

    async def call(self, url: Any = URL, /, **args: Any) -> ToolResult:
        """One call, as a registry makes it."""
        return await self.tool.call({"url": url, **args}, ToolContext(pid="agent"))

    async def get(self, url: Any = URL, /, **args: Any) -> dict[str, Any]:
        """The result of a call that has to succeed."""
        result = await self.call(url, **args)
        assert isinstance(result.value, str)
        value: dict[str, Any] = strict_json(result.value)
        assert result.ok, value
        return value

    async def refusal(self, url: Any = URL, /, **args: Any) -> tuple[str, str]:
        """Outcome and reason of a call that has to fail; the form of D-13 is looked at, too."""
        error = await self.error(url, **args)
        return error["outcome"], error["reason"]

    async def error(self, url: Any = URL, /, **args: Any) -> dict[str, Any]:
        """The error object of a call that has to fail."""
        result = await self.call(url, **args)
        assert isinstance(result.value, str)
        error: dict[str, Any] = strict_json(result.value)
        assert not result.ok, error
        assert set(error) == {"error", "outcome", "reason"}
        assert error["error"].endswith((".", "?"))
        assert "://" not in error["error"].replace("https:// in front", "")
        assert result.error is not None
        assert (result.error.message, result.error.reason) == (error["error"], error["reason"])
        return error

    def reached_nobody(self) -> bool:
        """No name was asked for, nothing was connected to."""
        return not self.connector.connected and not self.resolver.asked
