"""Who was reached, who was refused and why, for operators: audit lines, counters, logging, OpenTelemetry.

Everything here is an observer of the engine, or makes one. Nothing is imported unless it is asked for, and
OpenTelemetry, which needs the extra `otel`, only with `tidegate.telemetry.otel`.

None of it ever shows a query, a field, content, a cookie or a credential: the events do not hold them, and
URLs are cut (W-22, W-F3). Paths are shown by OpenTelemetry alone, where the spec lists them (W-F2).
"""

from tidegate.telemetry.audit import AuditLog as AuditLog
from tidegate.telemetry.audit import RememberingResolver as RememberingResolver
from tidegate.telemetry.counters import Count as Count
from tidegate.telemetry.counters import Counters as Counters
from tidegate.telemetry.hops import HopObserver as HopObserver
from tidegate.telemetry.hops import Observers as Observers
from tidegate.telemetry.logs import logging_observer as logging_observer
from tidegate.telemetry.outcomes import Outcome as Outcome
from tidegate.telemetry.outcomes import outcome_of as outcome_of
from tidegate.telemetry.records import Decision as Decision
from tidegate.telemetry.records import HopRecord as HopRecord
from tidegate.telemetry.records import ToolCall as ToolCall
from tidegate.telemetry.records import current_tool_call as current_tool_call
from tidegate.telemetry.records import within_tool_call as within_tool_call
