"""Fixtures for every test: one certificate authority a session, the contexts that trust it, and signals."""

import signal
import ssl
from collections.abc import Callable, Iterator

import pytest
import trustme

import tidegate


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A certificate authority that only the tests know."""
    return trustme.CA()


@pytest.fixture(scope="session")
def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    """A client context that trusts it, as an operator with a private CA would make one."""
    return tidegate.client_context(ca_data=authority.cert_pem.bytes().decode())


@pytest.fixture(scope="session")
def server_tls(authority: trustme.CA) -> Callable[..., ssl.SSLContext]:
    """Makes server contexts: `server_tls("a.example")`."""

    def make(*names: str, issuer: trustme.CA | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        (issuer or authority).issue_cert(*names).configure_cert(context)
        return context

    return make


@pytest.fixture
def hang_ups() -> Iterator[None]:
    """Programs that the test starts hear SIGHUP, though `nohup`, say, keeps it from us."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
