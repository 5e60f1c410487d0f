"""Names of the OpenTelemetry semantic conventions (1.44), and our own.

Written down here rather than imported: the package of the conventions has no stable version, and its modules
move. HTTP is stable; what is marked so below is under development.
"""

from typing import Final

SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"

# Attributes.
ERROR_TYPE: Final = "error.type"
HTTP_REQUEST_METHOD: Final = "http.request.method"
HTTP_REQUEST_RESEND_COUNT: Final = "http.request.resend_count"
HTTP_RESPONSE_STATUS_CODE: Final = "http.response.status_code"
NETWORK_PEER_ADDRESS: Final = "network.peer.address"
NETWORK_PEER_PORT: Final = "network.peer.port"
NETWORK_PROTOCOL_VERSION: Final = "network.protocol.version"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
URL_FULL: Final = "url.full"
URL_SCHEME: Final = "url.scheme"
HTTP_RESPONSE_BODY_SIZE: Final = "http.response.body.size"  # development

# Tools, all of it under development.
GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_TYPE: Final = "gen_ai.tool.type"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
EXECUTE_TOOL: Final = "execute_tool"

# Metrics.
CLIENT_REQUEST_DURATION: Final = "http.client.request.duration"
CLIENT_RESPONSE_BODY_SIZE: Final = "http.client.response.body.size"  # development
GEN_AI_EXECUTE_TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
CLIENT_ACTIVE_REQUESTS: Final = "http.client.active_requests"  # development

DURATION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""What the conventions advise for `http.client.request.duration`, in seconds."""

# Our own.
DENIED: Final = "tidegate.denied"
REPORTED: Final = "tidegate.would_deny"
TOOL_CALLS: Final = "tidegate.tool.calls"
OTHER: Final = "_other"
"""Stands for names that somebody else chose, of which there is no end."""

REASON: Final = "tidegate.reason"
OUTCOME: Final = "tidegate.outcome"
