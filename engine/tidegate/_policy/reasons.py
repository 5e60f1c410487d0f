"""One value per decision: the reason in a result, the key in a log, the attribute of a metric.

Nothing here imports anything of ours, so every other module may.
"""

from enum import StrEnum


class AddressClass(StrEnum):
    """What kind of address this is, after unwrapping an embedded IPv4 (decision D-6).

    Only `GLOBAL` may be connected to without an operator's private-range rule.
    """

    GLOBAL = "global"
    IMDS = "imds"
    LOOPBACK = "loopback"
    LINK_LOCAL = "link_local"
    PRIVATE = "private"
    ULA = "ula"
    CGNAT = "cgnat"
    MULTICAST = "multicast"
    UNSPECIFIED = "unspecified"
    RESERVED = "reserved"


class Reason(StrEnum):
    """Why a fetch was refused or failed (decisions, table A2). The value is what every output shows."""

    MALFORMED_URL = "malformed_url"
    USERINFO_NOT_ALLOWED = "userinfo_not_allowed"
    INVALID_PORT = "invalid_port"

    UNSUPPORTED_SCHEME = "unsupported_scheme"
    HTTPS_REQUIRED = "https_required"

    NOT_GRANTED = "not_granted"
    NOT_IN_ALLOWLIST = "not_in_allowlist"
    LOCAL_NAME = "local_name"
    NON_CANONICAL_IP = "non_canonical_ip"
    REQUEST_NOT_ALLOWED = "request_not_allowed"
    BLOCKED_PORT = "blocked_port"

    IMDS = "imds"
    LOOPBACK = "loopback"
    LINK_LOCAL = "link_local"
    PRIVATE = "private"
    ULA = "ula"
    CGNAT = "cgnat"
    MULTICAST = "multicast"
    UNSPECIFIED = "unspecified"
    RESERVED = "reserved"
    SELF = "self"

    INVALID_FIELD = "invalid_field"
    INVALID_ARGUMENT = "invalid_argument"
    REQUEST_TOO_LARGE = "request_too_large"

    DNS_RESOLUTION_FAILED = "dns_resolution_failed"
    CONNECT_FAILED = "connect_failed"
    CONNECTION_LOST = "connection_lost"
    TLS_FAILED = "tls_failed"
    TIMEOUT = "timeout"
    PROTOCOL_ERROR = "protocol_error"
    MESSAGE_TOO_LARGE = "message_too_large"
    INCOMPLETE_CONTENT = "incomplete_content"

    BAD_REDIRECT = "bad_redirect"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    CONTENT_NOT_REPLAYABLE = "content_not_replayable"

    OVERLOADED = "overloaded"
    ENGINE_CLOSED = "engine_closed"


class Phase(StrEnum):
    """Where in the path of one fetch something happened; every error and time-out names one."""

    ADMIT = "admit"
    CHECK = "check"
    AUTHORIZE = "authorize"
    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    SEND = "send"
    HEAD = "head"
    REDIRECT = "redirect"
    CONTENT = "content"
