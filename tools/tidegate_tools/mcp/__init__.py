"""The MCP server (extra `mcp`): the tool and prompt `fetch`, and `Fetch` and `web_request` where opted in.

    async with open_page_tool(policy, resolver=..., tls=...) as page_tool:
        await serve_stdio(make_server([page_tool.served], prompts=page_tool))

It is the low-level server of the official SDK under trio. What that leaves to its user is done here: a
standard input that can be cancelled, lines of bounded length, checked arguments, and no text of an exception
in an answer.
"""

from tidegate_tools.mcp.http import serve_http as serve_http
from tidegate_tools.mcp.page_tool import PageOptions as PageOptions
from tidegate_tools.mcp.page_tool import PageTool as PageTool
from tidegate_tools.mcp.page_tool import open_page_tool as open_page_tool
from tidegate_tools.mcp.results import ServedTool as ServedTool
from tidegate_tools.mcp.results import serve_tool as serve_tool
from tidegate_tools.mcp.server import make_server as make_server
from tidegate_tools.mcp.stdio import serve_stdio as serve_stdio
