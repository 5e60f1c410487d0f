"""The tool `Fetch`: one HTTP request for an agent, every hop of it granted, checked and pinned.

    register_fetch_tool(registry)                         # our registry; call it with `dispatch`
    register_fetch_tool(registry, kernel=their_kernel)    # a synchronous kernel with classes of its own

The names and bounds are those of the Fetch tool design note; where it leaves a gap, the decisions AMB-1 to
AMB-35 and table A2 hold. It is never part of a built-in set (F-1).
"""

from tidegate_tools.fetch.foreign import ForeignKernel as ForeignKernel
from tidegate_tools.fetch.foreign import make_foreign_fetch_tool as make_foreign_fetch_tool
from tidegate_tools.fetch.tool import make_fetch_tool as make_fetch_tool
from tidegate_tools.fetch.tool import register_fetch_tool as register_fetch_tool
