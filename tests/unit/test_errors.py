"""Table A2, D-13, D-14: one tree of errors, each with a reason, a phase and one plain sentence."""

import copy
import pickle
from typing import Any

import pytest

import tidegate
from tidegate import errors
from tidegate._policy.reasons import AddressClass, Phase, Reason
from tidegate.errors import AddressDenied, Denied, FetchError, IncompleteContent, InvalidURL

TREE: dict[str, str] = {
    "InvalidRequest": "FetchError",
    "InvalidURL": "InvalidRequest",
    "InvalidField": "InvalidRequest",
    "InvalidArgument": "InvalidRequest",
    "Denied": "FetchError",
    "SchemeDenied": "Denied",
    "HostDenied": "Denied",
    "PortDenied": "Denied",
    "AddressDenied": "Denied",
    "TransportError": "FetchError",
    "ResolutionError": "TransportError",
    "ConnectError": "TransportError",
    "TLSError": "TransportError",
    "ConnectionLost": "TransportError",
    "IncompleteContent": "TransportError",
    "RemoteProtocolError": "FetchError",
    "MessageTooLarge": "RemoteProtocolError",
    "RedirectError": "FetchError",
    "BadRedirect": "RedirectError",
    "TooManyRedirects": "RedirectError",
    "DeadlineExceeded": "FetchError",
    "Overloaded": "FetchError",
    "EngineClosed": "FetchError",
}

DEFAULTS: dict[str, Reason] = {
    "InvalidURL": Reason.MALFORMED_URL,
    "InvalidField": Reason.INVALID_FIELD,
    "InvalidArgument": Reason.INVALID_ARGUMENT,
    "SchemeDenied": Reason.UNSUPPORTED_SCHEME,
    "PortDenied": Reason.BLOCKED_PORT,
    "ResolutionError": Reason.DNS_RESOLUTION_FAILED,
    "ConnectError": Reason.CONNECT_FAILED,
    "TLSError": Reason.TLS_FAILED,
    "ConnectionLost": Reason.CONNECTION_LOST,
    "IncompleteContent": Reason.INCOMPLETE_CONTENT,
    "RemoteProtocolError": Reason.PROTOCOL_ERROR,
    "MessageTooLarge": Reason.MESSAGE_TOO_LARGE,
    "BadRedirect": Reason.BAD_REDIRECT,
    "TooManyRedirects": Reason.TOO_MANY_REDIRECTS,
    "DeadlineExceeded": Reason.TIMEOUT,
    "Overloaded": Reason.OVERLOADED,
    "EngineClosed": Reason.ENGINE_CLOSED,
}


def kind_of(name: str) -> type[FetchError]:
    kind: type[FetchError] = getattr(errors, name)
    assert issubclass(kind, FetchError)
    return kind


def test_the_tree() -> None:
    found = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    ours = {name for name, value in found.items() if issubclass(value, FetchError)}
    assert ours == {"FetchError", *TREE}
    for name, parent in TREE.items():
        assert kind_of(name).__bases__ == (kind_of(parent),)
    assert FetchError.__bases__ == (Exception,)


@pytest.mark.parametrize("name", list(DEFAULTS))
def test_an_error_that_can_mean_one_thing_says_it_by_itself(name: str) -> None:
    assert kind_of(name)("A sentence.").reason is DEFAULTS[name]


@pytest.mark.parametrize("name", ["FetchError", *(name for name in TREE if name not in DEFAULTS)])
def test_an_error_that_can_mean_several_must_be_told(name: str) -> None:
    """An error without a reason would be shown as nothing."""
    with pytest.raises(TypeError, match=f"^{name} needs a reason$"):
        kind_of(name)("A sentence.")
    assert kind_of(name)("A sentence.", reason=Reason.TIMEOUT).reason is Reason.TIMEOUT


def test_an_error_holds_its_facts() -> None:
    error = AddressDenied(
        "It is private.", reason=Reason.PRIVATE, phase=Phase.RESOLVE, url="https://a.example/", hop=2
    )
    assert (error.reason, error.phase, error.url, error.hop) == (
        Reason.PRIVATE,
        Phase.RESOLVE,
        "https://a.example/",
        2,
    )
    assert error.message == str(error) == "It is private."
    assert error.args == ("It is private.",)
    assert repr(error) == "<AddressDenied private: It is private.>"


def test_facts_are_given_by_name() -> None:
    arguments: list[Any] = ["It is private.", Reason.PRIVATE]
    with pytest.raises(TypeError):
        AddressDenied(*arguments)


def test_where_it_happened_is_filled_in_once() -> None:
    """The deepest layer knows best: what it said stays, hop 0 included."""
    error = InvalidURL("No.")
    assert (error.phase, error.url, error.hop) == (None, None, None)
    assert error.located(phase=Phase.CHECK, url="https://a.example/", hop=0) is error
    assert error.located(phase=Phase.CONTENT, url="https://b.example/", hop=3) is error
    assert (error.phase, error.url, error.hop) == (Phase.CHECK, "https://a.example/", 0)


def test_a_place_may_stay_unknown() -> None:
    error = InvalidURL("No.").located(phase=Phase.CHECK, url=None, hop=0)
    assert error.url is None
    assert error.located(phase=Phase.HEAD, url="https://a.example/", hop=1).url == "https://a.example/"


def test_incomplete_content_tells_how_much_came() -> None:
    """D-5."""
    error = IncompleteContent("Short.", received=3, expected=10, phase=Phase.CONTENT, url="u", hop=0)
    assert (error.received, error.expected) == (3, 10)
    assert (error.phase, error.url, error.hop) == (Phase.CONTENT, "u", 0)
    bare = IncompleteContent("Short.")
    assert (bare.received, bare.expected, bare.reason) == (0, None, Reason.INCOMPLETE_CONTENT)
    assert IncompleteContent("Short.", reason=Reason.CONNECTION_LOST).reason is Reason.CONNECTION_LOST


@pytest.mark.parametrize("name", ["FetchError", *TREE])
@pytest.mark.parametrize("copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_errors_survive_a_round_trip(name: str, copied: Any) -> None:
    """Through a process pool or a queue, with every fact."""
    error = kind_of(name)(
        "A sentence.", reason=Reason.IMDS, phase=Phase.CONNECT, url="https://a.example/x", hop=1
    )
    if isinstance(error, IncompleteContent):
        error.received, error.expected = 5, 9
    error.add_note("a note")
    other = copied(error)
    assert type(other) is type(error)
    assert vars(other) == vars(error)
    assert (str(other), repr(other), other.args) == (str(error), repr(error), error.args)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol_will_do(protocol: int) -> None:
    error = IncompleteContent("Short.", received=3, expected=10)
    assert vars(pickle.loads(pickle.dumps(error, protocol))) == vars(error)


def test_one_except_clause_catches_all() -> None:
    """And never a bare exception of Python's: a fetch error is no OSError, ValueError or TimeoutError."""
    for name in TREE:
        assert issubclass(kind_of(name), tidegate.FetchError)
        assert not issubclass(kind_of(name), OSError | ValueError | TimeoutError)


def test_every_class_but_global_is_a_reason() -> None:
    """One enum value per decision: the class of an address is the reason of its refusal."""
    assert {kind.value for kind in AddressClass} - {"global"} <= {reason.value for reason in Reason}


def test_enums_are_their_values() -> None:
    """The value is what results, logs, spans and metrics show."""
    for member in (*Reason, *Phase, *AddressClass):
        assert str(member) == member.value == member.name.lower()


def test_a_family_cannot_be_mistaken_for_another() -> None:
    assert not issubclass(Denied, errors.InvalidRequest)
    assert not issubclass(errors.ResolutionError, Denied)  # a DNS failure is never a block
