"""The public face of `tidegate`: which names there are, what they say of themselves, and what they cost."""

import ast
import inspect
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final, get_args

import pytest

import tidegate
from tests.support.data import ROOT
from tidegate import FetchError, Reason, errors

INIT: Final = ROOT / "engine" / "tidegate" / "__init__.py"

# Adding a name is a decision, so it is written down twice.
PUBLIC: Final = [
    "AddressClass",
    "AddressDenied",
    "Authorize",
    "BadRedirect",
    "Check",
    "ConnectError",
    "ConnectionLost",
    "Connector",
    "CredentialSource",
    "DeadlineExceeded",
    "DenialReported",
    "Denied",
    "DnsResolver",
    "Engine",
    "EngineClosed",
    "Event",
    "FetchError",
    "FetchFailed",
    "FetchFinished",
    "FetchStarted",
    "Headers",
    "Hop",
    "HopFailed",
    "HopFinished",
    "HopStarted",
    "HostDenied",
    "IncompleteContent",
    "InvalidArgument",
    "InvalidField",
    "InvalidRequest",
    "InvalidURL",
    "Limits",
    "MessageTooLarge",
    "Observer",
    "Overloaded",
    "Phase",
    "PhaseFailed",
    "PhaseFinished",
    "PhaseStarted",
    "PinnedTarget",
    "Policy",
    "PortDenied",
    "PrivateRange",
    "Reason",
    "RedirectError",
    "RemoteProtocolError",
    "RequestRepeated",
    "RequestRule",
    "ResolutionError",
    "Resolver",
    "ResolverStatistics",
    "Response",
    "ResponseStream",
    "SchemeDenied",
    "StaticResolver",
    "Stream",
    "SystemResolver",
    "TCPConnector",
    "TLSError",
    "Timings",
    "TooManyRedirects",
    "TransportError",
    "URL",
    "Verdict",
    "__version__",
    "classify_address",
    "client_context",
    "open_engine",
    "parse_url",
]

ALIASES: Final = {"Authorize", "Event"}


# The names ---------------------------------------------------------------------------------------------


def test_the_names_are_those_of_the_list() -> None:
    assert sorted(PUBLIC) == PUBLIC
    exported = {
        name
        for name in dir(tidegate)
        if name == "__version__"
        or not (name.startswith("_") or isinstance(getattr(tidegate, name), ModuleType))
    }
    assert exported == set(PUBLIC)


def test_each_is_re_exported_as_itself() -> None:
    """`from m import X as X`, one a line and sorted: what a strict type checker takes for public.

    Those that are loaded late stand in a block of their own, which only a type checker reads.
    """
    body = ast.parse(INIT.read_text(encoding="utf-8")).body
    late = next(statement.body for statement in body if isinstance(statement, ast.If))
    early = [statement for statement in body if isinstance(statement, ast.ImportFrom)]
    names = [lines_of(early), lines_of(late)]
    assert names == [sorted(block) for block in names]
    assert sum(map(len, names)) == len(PUBLIC)


def lines_of(imports: Iterable[ast.stmt]) -> list[str]:
    lines = []
    for statement in imports:
        assert isinstance(statement, ast.ImportFrom)
        assert statement.level == 0
        [alias] = statement.names
        assert alias.asname == alias.name
        lines.append(f"from {statement.module} import {alias.name}")
    return lines


def test_what_is_loaded_late_is_loaded_when_asked_for() -> None:
    loaded = modules_after("import tidegate")
    assert not {"tidegate._policy.events", "tidegate._engine.verdict"} & loaded
    assert "tidegate._policy.events" in modules_after("import tidegate; tidegate.FetchStarted")
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = tidegate.Nothing


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "__version__" and name not in ALIASES])
def test_each_says_what_it_is(name: str) -> None:
    """In a docstring of its own: none inherited, none made up by `dataclass`."""
    value = getattr(tidegate, name)
    docstring = value.__doc__
    assert docstring
    assert not docstring.startswith(f"{name}(")
    if isinstance(value, type):
        assert all(docstring != base.__doc__ for base in value.__mro__[1:])


@pytest.mark.parametrize("name", [name for name in PUBLIC if isinstance(getattr(tidegate, name, None), type)])
def test_each_public_method_and_property_does_too(name: str) -> None:
    kind = getattr(tidegate, name)
    silent = [
        member
        for member, value in vars(kind).items()
        if not member.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod))
        and not value.__doc__
    ]
    assert silent == []


def test_every_event_is_public() -> None:
    """An observer must be able to name whatever it is told."""
    assert {kind.__name__ for kind in get_args(tidegate.Event)} <= set(PUBLIC)


def test_the_version_is_that_of_the_project() -> None:
    assert f'version = "{tidegate.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


# What importing costs ----------------------------------------------------------------------------------


def modules_after(statement: str) -> set[str]:
    """The modules that a fresh interpreter holds after a statement and did not hold before it."""
    program = f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_tidegate_imports_no_extra_and_no_other_event_loop() -> None:
    """Every extra is imported where it is used, with one clear error that names it."""
    loaded = modules_after("import tidegate")
    assert {"tidegate", "trio", "h11", "idna"} <= loaded
    roots = {name.partition(".")[0] for name in loaded}
    assert roots & {
        "dns", "brotli", "backports", "zstandard", "opentelemetry", "click", "rich", "ruamel", "pydantic",
        "publicsuffixlist", "certifi", "truststore", "trustme", "cryptography", "azure", "mcp", "asyncio",
        "anyio", "tidegate_tools", "tests",
    } == set()  # fmt: skip
    assert not any(name.startswith("tidegate.testing") for name in loaded)


def test_that_test_would_see_them() -> None:
    assert "asyncio" in modules_after("import asyncio")


# Errors ------------------------------------------------------------------------------------------------

ERRORS: Final = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, FetchError)
]


def test_every_error_is_public() -> None:
    assert {kind.__name__ for kind in ERRORS} == {
        name
        for name in PUBLIC
        if isinstance(kind := getattr(tidegate, name, None), type) and issubclass(kind, FetchError)
    }


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_pickles_under_its_public_name(kind: type[FetchError]) -> None:
    """Through a process pool, say; every fact arrives."""
    error = kind("No.", reason=Reason.SELF, phase=tidegate.Phase.CONNECT, url="https://a.example/", hop=1)
    assert getattr(tidegate, kind.__name__) is kind
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (vars(copy), str(copy)) == (vars(error), str(error))


# One reason, everywhere: table A2 of the decisions.
TABLE_A2: Final = {
    "malformed_url": "InvalidURL",
    "userinfo_not_allowed": "InvalidURL",
    "invalid_port": "InvalidURL",
    "unsupported_scheme": "SchemeDenied",
    "https_required": "SchemeDenied",
    "not_granted": "HostDenied",
    "not_in_allowlist": "HostDenied",
    "local_name": "HostDenied",
    "non_canonical_ip": "HostDenied",
    "request_not_allowed": "HostDenied",
    "blocked_port": "PortDenied",
    "imds": "AddressDenied",
    "loopback": "AddressDenied",
    "link_local": "AddressDenied",
    "private": "AddressDenied",
    "ula": "AddressDenied",
    "cgnat": "AddressDenied",
    "multicast": "AddressDenied",
    "unspecified": "AddressDenied",
    "reserved": "AddressDenied",
    "self": "AddressDenied",
    "invalid_field": "InvalidField",
    "invalid_argument": "InvalidArgument",
    "request_too_large": "InvalidArgument",
    "dns_resolution_failed": "ResolutionError",
    "connect_failed": "ConnectError",
    "connection_lost": "ConnectionLost",
    "tls_failed": "TLSError",
    "timeout": "DeadlineExceeded",
    "protocol_error": "RemoteProtocolError",
    "message_too_large": "MessageTooLarge",
    "incomplete_content": "IncompleteContent",
    "bad_redirect": "BadRedirect",
    "too_many_redirects": "TooManyRedirects",
    "content_not_replayable": "BadRedirect",
    "overloaded": "Overloaded",
    "engine_closed": "EngineClosed",
}


def test_every_reason_has_one_exception() -> None:
    """Table A2: as long as the enum, and every class in it is one that is raised, no family."""
    assert list(TABLE_A2) == [reason.value for reason in Reason]
    leaves = {kind.__name__ for kind in ERRORS if kind.default_reason or not kind.__subclasses__()}
    assert set(TABLE_A2.values()) == leaves


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_a_default_is_a_row_of_the_table(kind: type[FetchError]) -> None:
    if kind.default_reason is not None:
        assert TABLE_A2[kind.default_reason] == kind.__name__


def raised(source: Path) -> Iterator[tuple[str, str, str]]:
    """Every error that a file makes, as its line, its class and its reason."""
    kinds = {kind.__name__: kind for kind in ERRORS}
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name not in kinds:
            continue
        given = next((keyword.value for keyword in node.keywords if keyword.arg == "reason"), None)
        reason = kinds[name].default_reason if given is None else reason_in(given)
        yield f"{source.name}:{node.lineno}", name, str(reason)


def reason_in(value: ast.expr) -> str:
    """`Reason.X` as its value; anything that is not told apart here as its source."""
    if isinstance(value, ast.Attribute) and ast.unparse(value.value).endswith("Reason"):
        return Reason[value.attr].value
    return ast.unparse(value)


def all_raised() -> list[tuple[str, str, str]]:
    return [
        row
        for root in ("engine", "tools")
        for file in sorted((ROOT / root).rglob("*.py"))
        for row in raised(file)
    ]


# The reason of a refused address is its class (`AddressClass`), all of which the table has.
COMPUTED: Final = ("AddressDenied", "Reason(kind.value)")


def test_what_is_raised_is_as_the_table_says() -> None:
    """Read from the source: each `raise` pairs a class with a reason that is its own."""
    wrong = [row for row in all_raised() if row[1:] != COMPUTED and TABLE_A2.get(row[2]) != row[1]]
    assert wrong == []


def test_every_reason_is_raised_somewhere() -> None:
    """One that never is would be a promise in the documentation and nothing else."""
    seen = {reason for _, _, reason in all_raised()} | {kind.value for kind in tidegate.AddressClass}
    assert set(TABLE_A2) - seen == set()
