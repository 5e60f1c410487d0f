"""The tools as tools of agent frameworks, one short module each.

    tidegate_tools.adapters.openai           schemas for the APIs of OpenAI (strict too), and the call behind
    tidegate_tools.adapters.anthropic        for the tool runner of the Anthropic SDK
    tidegate_tools.adapters.langchain        LangChain and LangGraph
    tidegate_tools.adapters.pydantic_ai      pydantic-ai
    tidegate_tools.adapters.openai_agents    the OpenAI Agents SDK
    tidegate_tools.adapters.agent_framework  Microsoft Agent Framework
    tidegate_tools.adapters.smolagents       smolagents

A framework is imported when its adapter is called, never before, and none is a dependency of ours. Each
adapter takes a `ToolSpec` and a `ToolContext`; with a kernel in it, that kernel's grants hold.

A model sees JSON: the value, or why there is none and how to allow it. Where a framework has an error signal
of its own, a failure is that.
"""
