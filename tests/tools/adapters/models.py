"""Models by script, behind the APIs that the official SDKs speak: one call of the tool, then an end."""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any


class ScriptedAPI:
    """An API, as a handler of requests: it asks for `Fetch` once, and ends when it got the result.

    Attributes:
        requests: what it was sent.
    """

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.args = args
        self.requests: list[dict[str, Any]] = []

    def anthropic(self, request: Any) -> Any:
        """The messages API."""
        use = {"type": "tool_use", "id": "toolu_1", "name": "Fetch", "input": self.args}
        content, reason = (
            ([{"type": "text", "text": "Done."}], "end_turn") if self._heard(request) else ([use], "tool_use")
        )
        return _response(
            id="msg_1",
            type="message",
            role="assistant",
            model="scripted",
            content=content,
            stop_reason=reason,
            stop_sequence=None,
            usage={"input_tokens": 1, "output_tokens": 1},
        )

    def openai(self, request: Any) -> Any:
        """The chat completions API."""
        function = {"name": "Fetch", "arguments": json.dumps(self.args)}
        message: dict[str, Any] = {"role": "assistant", "content": "Done."}
        reason = "stop"
        if not self._heard(request):
            calls = [{"id": "call_1", "type": "function", "function": function}]
            message, reason = {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"
        choice = {"index": 0, "finish_reason": reason, "message": message}
        return _response(id="1", object="chat.completion", created=0, model="scripted", choices=[choice])

    def _heard(self, request: Any) -> bool:
        """Take note of a request; whether there was one before."""
        self.requests.append(json.loads(request.content))
        return len(self.requests) > 1


def _response(**facts: Any) -> Any:
    return import_module("httpx2").Response(200, json=facts)
