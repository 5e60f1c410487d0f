"""Each adapter in its framework, where that is installed: one fetch from a real server, and its refusals.

Models are scripted; the framework's own loop runs the tool.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import trio

from tests.tools.adapters.conftest import UNGRANTED, Bench, is_echo
from tests.tools.adapters.models import ScriptedAPI
from tidegate_tools.adapters import (
    agent_framework,
    anthropic,
    langchain,
    openai,
    openai_agents,
    pydantic_ai,
    smolagents,
)
from tidegate_tools.web_request.parameters import PARAMETERS as WEB_REQUEST

Run = Callable[[Callable[[], Awaitable[None]]], None]
BOTH = pytest.mark.parametrize("run", [lambda main: asyncio.run(main()), trio.run], ids=["asyncio", "trio"])


def installed(module: str, package: str) -> Any:
    return pytest.importorskip(module, reason=f"{package} is not installed")


# --- OpenAI ---------------------------------------------------------------------------------------


@BOTH
def test_openai(run: Run, bench: Bench) -> None:
    """The SDK, the chat API, and a loop by hand."""
    sdk, httpx2 = installed("openai", "openai"), installed("httpx2", "openai")
    api = ScriptedAPI({"url": bench.url})
    messages: list[Any] = [{"role": "user", "content": "Fetch it."}]

    async def main() -> None:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(api.openai)) as http:
            client = sdk.AsyncOpenAI(api_key="none", http_client=http)
            tools = [openai.chat_tool(bench.spec)]
            answer = await client.chat.completions.create(model="scripted", messages=messages, tools=tools)
            message = answer.choices[0].message
            [asked] = message.tool_calls
            text = await openai.call_tool(bench.spec, asked.function.arguments, caller=bench.caller)
            messages.extend([message, {"role": "tool", "tool_call_id": asked.id, "content": text}])
            await client.chat.completions.create(model="scripted", messages=messages, tools=tools)

    run(main)
    assert api.requests[0]["tools"][0]["function"]["parameters"] == bench.spec.parameters
    assert is_echo(json.loads(api.requests[1]["messages"][2]["content"]))


# --- Anthropic ------------------------------------------------------------------------------------


def _anthropic_result(run: Run, bench: Bench, args: dict[str, Any]) -> Any:
    sdk, httpx2 = installed("anthropic", "anthropic"), installed("httpx2", "anthropic")
    api = ScriptedAPI(args)
    tool = anthropic.make_tool(bench.spec, caller=bench.caller)

    async def main() -> None:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(api.anthropic)) as http:
            client = sdk.AsyncAnthropic(api_key="none", http_client=http)
            messages = [{"role": "user", "content": "Fetch it."}]
            await client.beta.messages.tool_runner(
                model="scripted", max_tokens=100, messages=messages, tools=[tool]
            ).until_done()

    run(main)
    assert api.requests[0]["tools"][0]["input_schema"] == bench.spec.parameters
    [result] = api.requests[1]["messages"][-1]["content"]
    return result


@BOTH
def test_anthropic(run: Run, bench: Bench) -> None:
    result = _anthropic_result(run, bench, {"url": bench.url})
    assert not result.get("is_error")
    assert is_echo(json.loads(result["content"]))


@BOTH
@pytest.mark.parametrize(
    ("args", "slug"), [({"url": UNGRANTED}, "net_denied"), ({"uri": "x"}, "invalid_args")]
)
def test_anthropic_refused(run: Run, args: dict[str, Any], slug: str, bench: Bench) -> None:
    result = _anthropic_result(run, bench, args)
    assert result["is_error"] is True
    assert json.loads(result["content"])["error"] == slug


# --- LangChain ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["ainvoke", "invoke"])
def test_langchain(way: str, bench: Bench) -> None:
    installed("langchain_core", "langchain-core")
    tool = langchain.make_tool(bench.spec, caller=bench.caller)

    def ask(**args: Any) -> Any:
        asked = {"type": "tool_call", "id": "1", "name": "Fetch", "args": args}
        return asyncio.run(tool.ainvoke(asked)) if way == "ainvoke" else tool.invoke(asked)

    message = ask(url=bench.url)
    assert message.status == "success"
    assert is_echo(json.loads(message.content))
    for args, slug in ({"url": UNGRANTED}, "net_denied"), ({"uri": "x"}, "invalid_args"):
        message = ask(**args)
        assert message.status == "error"
        assert json.loads(message.content)["error"] == slug


# --- pydantic-ai ----------------------------------------------------------------------------------


def _pydantic_ai_part(bench: Bench, args: dict[str, Any]) -> Any:
    """What an agent tells the model of the one call that it asked for."""
    framework = installed("pydantic_ai", "pydantic-ai-slim")
    function = installed("pydantic_ai.models.function", "pydantic-ai-slim")
    heard: list[Any] = []

    def model(messages: Any, _: Any) -> Any:
        if len(messages) == 1:
            return framework.ModelResponse(parts=[framework.ToolCallPart("Fetch", args)])
        heard.extend(messages[-1].parts)
        return framework.ModelResponse(parts=[framework.TextPart("Done.")])

    tool = pydantic_ai.make_tool(bench.spec, caller=bench.caller)
    asyncio.run(framework.Agent(function.FunctionModel(model), tools=[tool]).run("Fetch it."))
    [part] = heard
    return part


def test_pydantic_ai(bench: Bench) -> None:
    part = _pydantic_ai_part(bench, {"url": bench.url})
    assert part.outcome == "success"
    assert is_echo(json.loads(part.content))


@pytest.mark.parametrize(
    ("args", "outcome", "slug"),
    [({"url": UNGRANTED}, "failed", "net_denied"), ({"uri": "x"}, "retried", "invalid_args")],
)
def test_pydantic_ai_refused(args: dict[str, Any], outcome: str, slug: str, bench: Bench) -> None:
    """Only wrong arguments are worth another try."""
    part = _pydantic_ai_part(bench, args)
    assert part.outcome == outcome
    assert slug in part.content


# --- OpenAI Agents --------------------------------------------------------------------------------


def _agents_output(bench: Bench, args: dict[str, Any], strict: bool) -> Any:
    """What the runner tells the model of the one call that it asked for."""
    agents = installed("agents", "openai-agents")
    responses = installed("openai.types.responses", "openai")
    heard: list[Any] = []

    async def get_response(_: Any, *__: Any, **given: Any) -> Any:
        heard.append(given["input"])
        asked = responses.ResponseFunctionToolCall(
            type="function_call", call_id="1", name="Fetch", arguments=json.dumps(args)
        )
        text = responses.ResponseOutputText(type="output_text", text="Done.", annotations=[])
        done = responses.ResponseOutputMessage(
            id="2", type="message", role="assistant", status="completed", content=[text]
        )
        output = [asked if len(heard) == 1 else done]
        return agents.ModelResponse(output=output, usage=agents.Usage(), response_id=None)

    # A class by hand: the base is known only where the framework is installed.
    methods = {"get_response": get_response, "stream_response": None}
    model = type("Scripted", (agents.Model,), methods)()
    tool = openai_agents.make_tool(bench.spec, strict=strict, caller=bench.caller)
    agent = agents.Agent(name="a", model=model, tools=[tool])
    config = agents.RunConfig(tracing_disabled=True)
    asyncio.run(agents.Runner.run(agent, "Fetch it.", run_config=config))
    return json.loads(heard[1][-1]["output"])


@pytest.mark.parametrize("strict", [False, True])
def test_openai_agents(strict: bool, bench: Bench) -> None:
    headers = [{"name": "X-Mark", "value": "1"}] if strict else {"X-Mark": "1"}
    output = _agents_output(bench, {"url": bench.url, "headers": headers}, strict)
    assert is_echo(output)
    assert "X-Mark: 1" in output["body"]
    assert _agents_output(bench, {"url": UNGRANTED}, strict)["error"] == "net_denied"
    assert _agents_output(bench, {"uri": "x"}, strict)["error"] == "invalid_args"


def test_openai_agents_under_trio(bench: Bench) -> None:
    """The tool itself; the runner of the SDK wants asyncio."""
    installed("agents", "openai-agents")
    tool = openai_agents.make_tool(bench.spec, caller=bench.caller)
    text = trio.run(tool.on_invoke_tool, None, json.dumps({"url": bench.url}))
    assert is_echo(json.loads(text))


# --- Microsoft Agent Framework --------------------------------------------------------------------


@BOTH
def test_agent_framework(run: Run, bench: Bench) -> None:
    installed("agent_framework", "agent-framework-core")
    tool = agent_framework.make_tool(bench.spec, caller=bench.caller)
    assert tool.parameters() == bench.spec.parameters
    answers: list[Any] = []

    async def main() -> None:
        for url in (bench.url, UNGRANTED):
            [content] = await tool.invoke(arguments={"url": url})
            answers.append(json.loads(content.text))

    run(main)
    assert is_echo(answers[0])
    assert answers[1]["error"] == "net_denied"


# --- smolagents -----------------------------------------------------------------------------------


def test_smolagents(bench: Bench) -> None:
    installed("smolagents", "smolagents")
    tool = smolagents.make_tool(bench.spec, caller=bench.caller)
    assert is_echo(json.loads(tool(url=bench.url)))
    assert is_echo(json.loads(tool({"url": bench.url})))
    assert set(tool.inputs) == set(bench.spec.parameters["properties"])
    assert [name for name, described in tool.inputs.items() if not described.get("nullable")] == ["url"]
    for args, slug in ({"url": UNGRANTED}, "net_denied"), ({"uri": "x"}, "invalid_args"):
        with pytest.raises(RuntimeError) as raised:
            tool(**args)
        assert json.loads(str(raised.value))["error"] == slug


def test_smolagents_in_a_worker_thread_of_trio(bench: Bench) -> None:
    installed("smolagents", "smolagents")
    tool = smolagents.make_tool(bench.spec, caller=bench.caller)
    text = trio.run(trio.to_thread.run_sync, lambda: tool(url=bench.url))
    assert is_echo(json.loads(text))


# --- All of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("adapter", "module", "package"),
    [
        (agent_framework, "agent_framework", "agent-framework-core"),
        (anthropic, "anthropic", "anthropic"),
        (langchain, "langchain_core", "langchain-core"),
        (openai_agents, "agents", "openai-agents"),
        (pydantic_ai, "pydantic_ai", "pydantic-ai-slim"),
        (smolagents, "smolagents", "smolagents"),
    ],
)
def test_the_schema_of_web_request(adapter: Any, module: str, package: str, bench: Bench) -> None:
    """Free names and a value of any kind are taken everywhere, and nobody changes the tool's own schema."""
    installed(module, package)
    spec = replace(bench.spec, name="web_request", parameters=deepcopy(WEB_REQUEST))
    tool = adapter.make_tool(spec)
    assert tool.name == "web_request"
    assert tool.description == spec.description
    assert spec.parameters == WEB_REQUEST


# --- None of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("adapter", "module", "package"),
    [
        (agent_framework, "agent_framework", "agent-framework-core"),
        (anthropic, "anthropic.lib.tools", "anthropic"),
        (langchain, "langchain_core.tools", "langchain-core"),
        (openai_agents, "agents", "openai-agents"),
        (pydantic_ai, "pydantic_ai", "pydantic-ai-slim"),
        (smolagents, "smolagents", "smolagents"),
    ],
)
def test_a_missing_framework(
    adapter: Any, module: str, package: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing the adapter is harmless; calling it says what to install."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"pip install {package}$"):
        adapter.make_tool(bench.spec)
