"""Agent tools on top of the tidegate engine: `Fetch`, `web_request`, and the ways in.

    tidegate_tools.registry     ToolSpec, ToolResult, ToolRegistry, the error classes
    tidegate_tools.dispatch     dispatch: a tool called by name, with its checks and its audit event
    tidegate_tools.grants       Grants, GrantStore
    tidegate_tools.fetch        the tool `Fetch`
    tidegate_tools.web_request  the tool `web_request`, its configuration, merge and secrets
    tidegate_tools.pages        page text: HTML to markdown, paging, robots.txt
    tidegate_tools.telemetry    spans, counters and audit lines of tool calls
    tidegate_tools.audit        what an audit log needs as a host list, and a report page of it
    tidegate_tools.adapters     the tools as tools of agent frameworks
    tidegate_tools.mcp          an MCP server
    tidegate_tools.cli          the command `tidegate`

Nothing is imported here, so that nobody pays for what they do not use.
"""
