"""What operators are told of tool calls: spans, counters, an audit line each. Never an argument or a result.

    telemetry = ToolTelemetry(audit=log)                          # a tidegate.telemetry.AuditLog, or None
    registry.register(telemetry.observed(spec))                   # a span a call; its fetches belong to it
    await dispatch(message, registry, pid=pid, audit=telemetry.record)
    create_web_request_tools(config, record=record_web_request)   # counters and attributes of `web_request`

Without OpenTelemetry, or without a provider in it, all of this can stay in place and emits nothing (W-11,
AMB-51). The extra `otel` brings the API; what is exported, and where to, is up to the program's own SDK.
"""

from tidegate_tools.telemetry.calls import ToolTelemetry as ToolTelemetry
from tidegate_tools.telemetry.web_request import FaultDomain as FaultDomain
from tidegate_tools.telemetry.web_request import record_web_request as record_web_request
