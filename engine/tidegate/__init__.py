"""tidegate: outbound HTTP that an agent can be trusted with."""

import importlib as _importlib
import logging as _logging
import typing as _typing

from tidegate._engine.credentials import CredentialSource as CredentialSource
from tidegate._engine.engine import Engine as Engine
from tidegate._engine.engine import open_engine as open_engine
from tidegate._engine.hop import Authorize as Authorize
from tidegate._engine.stream import ResponseStream as ResponseStream
from tidegate._policy.address import classify_address as classify_address
from tidegate._policy.fields import Headers as Headers
from tidegate._policy.limits import Limits as Limits
from tidegate._policy.messages import Hop as Hop
from tidegate._policy.messages import Response as Response
from tidegate._policy.messages import Timings as Timings
from tidegate._policy.pin import PinnedTarget as PinnedTarget
from tidegate._policy.policy import Policy as Policy
from tidegate._policy.policy import PrivateRange as PrivateRange
from tidegate._policy.policy import RequestRule as RequestRule
from tidegate._policy.reasons import AddressClass as AddressClass
from tidegate._policy.reasons import Phase as Phase
from tidegate._policy.reasons import Reason as Reason
from tidegate._policy.url import URL as URL
from tidegate._policy.url import parse_url as parse_url
from tidegate._version import __version__ as __version__
from tidegate._wire.connect import Connector as Connector
from tidegate._wire.connect import TCPConnector as TCPConnector
from tidegate._wire.resolve import DnsResolver as DnsResolver
from tidegate._wire.resolve import Resolver as Resolver
from tidegate._wire.resolve import ResolverStatistics as ResolverStatistics
from tidegate._wire.resolve import StaticResolver as StaticResolver
from tidegate._wire.resolve import SystemResolver as SystemResolver
from tidegate._wire.stream import Stream as Stream
from tidegate._wire.tls import client_context as client_context
from tidegate.errors import AddressDenied as AddressDenied
from tidegate.errors import BadRedirect as BadRedirect
from tidegate.errors import ConnectError as ConnectError
from tidegate.errors import ConnectionLost as ConnectionLost
from tidegate.errors import DeadlineExceeded as DeadlineExceeded
from tidegate.errors import Denied as Denied
from tidegate.errors import EngineClosed as EngineClosed
from tidegate.errors import FetchError as FetchError
from tidegate.errors import HostDenied as HostDenied
from tidegate.errors import IncompleteContent as IncompleteContent
from tidegate.errors import InvalidArgument as InvalidArgument
from tidegate.errors import InvalidField as InvalidField
from tidegate.errors import InvalidRequest as InvalidRequest
from tidegate.errors import InvalidURL as InvalidURL
from tidegate.errors import MessageTooLarge as MessageTooLarge
from tidegate.errors import Overloaded as Overloaded
from tidegate.errors import PortDenied as PortDenied
from tidegate.errors import RedirectError as RedirectError
from tidegate.errors import RemoteProtocolError as RemoteProtocolError
from tidegate.errors import ResolutionError as ResolutionError
from tidegate.errors import SchemeDenied as SchemeDenied
from tidegate.errors import TLSError as TLSError
from tidegate.errors import TooManyRedirects as TooManyRedirects
from tidegate.errors import TransportError as TransportError

if _typing.TYPE_CHECKING:
    from tidegate._engine.verdict import Check as Check
    from tidegate._engine.verdict import Verdict as Verdict
    from tidegate._policy.events import DenialReported as DenialReported
    from tidegate._policy.events import Event as Event
    from tidegate._policy.events import FetchFailed as FetchFailed
    from tidegate._policy.events import FetchFinished as FetchFinished
    from tidegate._policy.events import FetchStarted as FetchStarted
    from tidegate._policy.events import HopFailed as HopFailed
    from tidegate._policy.events import HopFinished as HopFinished
    from tidegate._policy.events import HopStarted as HopStarted
    from tidegate._policy.events import Observer as Observer
    from tidegate._policy.events import PhaseFailed as PhaseFailed
    from tidegate._policy.events import PhaseFinished as PhaseFinished
    from tidegate._policy.events import PhaseStarted as PhaseStarted
    from tidegate._policy.events import RequestRepeated as RequestRepeated

# Quiet until the program that uses us sets logging up.
_logging.getLogger("tidegate").addHandler(_logging.NullHandler())

# Values for observers and for `Engine.check` alone, a sixth of the import: loaded when they are asked for.
_LATE: _typing.Final = {
    "Check": "tidegate._engine.verdict",
    "DenialReported": "tidegate._policy.events",
    "Event": "tidegate._policy.events",
    "FetchFailed": "tidegate._policy.events",
    "FetchFinished": "tidegate._policy.events",
    "FetchStarted": "tidegate._policy.events",
    "HopFailed": "tidegate._policy.events",
    "HopFinished": "tidegate._policy.events",
    "HopStarted": "tidegate._policy.events",
    "Observer": "tidegate._policy.events",
    "PhaseFailed": "tidegate._policy.events",
    "PhaseFinished": "tidegate._policy.events",
    "PhaseStarted": "tidegate._policy.events",
    "RequestRepeated": "tidegate._policy.events",
    "Verdict": "tidegate._engine.verdict",
}


def __getattr__(name: str) -> _typing.Any:
    if name not in _LATE:
        raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
    value = globals()[name] = getattr(_importlib.import_module(_LATE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
