"""TLS: contexts whose verification nothing can turn off, and the handshake with an explicit name."""

import ssl
from pathlib import Path
from typing import Final

from tidegate._policy.pin import PinnedTarget
from tidegate._wire.stream import Stream, TLSStream
from tidegate.errors import TLSError


def client_context(
    *, ca_file: str | Path | None = None, ca_data: str | bytes | None = None
) -> ssl.SSLContext:
    """A context for `open_engine(tls=...)`: the system's trust anchors, and private ones beside them.

    Not `ssl.create_default_context`, which would write session keys where SSLKEYLOGFILE says (D-17).
    SSL_CERT_FILE and SSL_CERT_DIR name the system's anchors, as OpenSSL has it.

    Args:
        ca_file: a PEM file of certificates to trust as well.
        ca_data: the same as PEM text or DER bytes.

    Raises:
        ValueError: a certificate cannot be read; or the machine has no trust anchors at all, none were
            given, and the extra `certifi` is not installed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_default_certs()
    try:
        if ca_file is not None:
            context.load_verify_locations(cafile=str(ca_file))
        if ca_data is not None:
            context.load_verify_locations(cadata=ca_data)
    except (OSError, ValueError, TypeError) as error:
        # SSLError is an OSError; the others are what text that is not ASCII gives.
        source = f"the CA file {ca_file}" if ca_file is not None else "the CA data"
        raise ValueError(f"{source} cannot be read as PEM certificates: {error}") from None
    if not _has_anchors(context):
        _add_certifi(context)
    return context


def _has_anchors(context: ssl.SSLContext) -> bool:
    if context.cert_store_stats()["x509_ca"]:
        return True
    # A directory of anchors is read when it is needed, and so does not count above.
    directory = ssl.get_default_verify_paths().capath
    return directory is not None and any(Path(directory).iterdir())


def _add_certifi(context: ssl.SSLContext) -> None:
    try:
        import certifi
    except ModuleNotFoundError:
        raise ValueError(
            "no trust anchors were found on this machine, so no certificate can be verified: install "
            "the system's CA certificates, or tidegate[certifi], or pass a CA file"
        ) from None
    context.load_verify_locations(cafile=certifi.where())


def check_context(context: ssl.SSLContext) -> None:
    """Refuse a context that does not verify certificates and names.

    Raises:
        ValueError: `verify_mode` is not CERT_REQUIRED, or `check_hostname` is off.
    """
    if context.verify_mode is not ssl.CERT_REQUIRED or not context.check_hostname:
        raise ValueError(
            "the TLS context does not verify: it needs verify_mode CERT_REQUIRED and check_hostname; "
            "to trust a private authority add it with tidegate.client_context(ca_file=...)"
        )


SESSION_AGE: Final = 3600.0
"""Seconds a session is offered for resumption: a certificate that is gone is noticed within an hour."""

_MAX_SESSIONS: Final = 256


class SessionCache:
    """TLS sessions to resume, of one context, each for the very target that it was made with.

    On resumption no certificate is looked at, so a session of one name must never serve another (pitfall 5).
    Copying a session out of OpenSSL costs a fifth of a handshake. So a session that resumes is kept as it is
    (RFC 8446 C.4 would have a new one each time, against being followed around by it; these connections have
    a host and a caller in common anyway), and a target that does not resume is left alone for an hour.
    """

    def __init__(self) -> None:
        self._sessions: dict[PinnedTarget, tuple[ssl.SSLSession | None, float]] = {}

    def get(self, target: PinnedTarget, now: float) -> ssl.SSLSession | None:
        """The session to offer to this target, if there is one that is young enough."""
        return self._sessions[target][0] if self._knows(target, now) else None

    def put(self, target: PinnedTarget, stream: Stream, now: float) -> None:
        """Learn from a new connection. Call it after its first answer: TLS 1.3 tickets come late."""
        if not isinstance(stream, TLSStream):
            return
        if stream.tls_resumed is False:
            self._remember(target, None, now)
        elif not self._knows(target, now):
            self._remember(target, stream.session, now)

    def _knows(self, target: PinnedTarget, now: float) -> bool:
        return target in self._sessions and now - self._sessions[target][1] < SESSION_AGE

    def _remember(self, target: PinnedTarget, session: ssl.SSLSession | None, now: float) -> None:
        self._sessions.pop(target, None)
        if len(self._sessions) >= _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[target] = session, now


async def start_tls(
    stream: Stream, context: ssl.SSLContext, host: str, session: ssl.SSLSession | None = None
) -> TLSStream:
    """Run TLS over a plain stream, whose socket the result takes over.

    Args:
        stream: a connected stream; closed if this fails or is cancelled.
        context: checked again here, since a context can be changed after it was handed in.
        host: the canonical host: an A-label name goes into SNI and the name check, an address literal is
            checked against the certificate's addresses and sends no SNI (RFC 6066 3).
        session: resume this one. It must come from the same host, port and address: on resumption the
            certificate's name is not looked at again.

    Raises:
        TLSError: the handshake failed; the message says why, as OpenSSL does.
    """
    try:
        check_context(context)
        tls = TLSStream(stream.detach(), context, host, session)
    except (ValueError, OSError) as error:
        stream.close()
        raise TLSError(f"TLS could not start with {host}: {error}") from None
    try:
        await tls.handshake()
        if tls.alpn_protocol not in (None, "http/1.1"):
            raise TLSError(f"{host} chose {tls.alpn_protocol} by ALPN; only http/1.1 is spoken here")
    except OSError as error:
        tls.close()
        raise TLSError(f"TLS with {host} failed: {_explain(error)}") from error
    except BaseException:
        tls.close()
        raise
    return tls


def _explain(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate was refused: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ConnectionError) or error.errno == 0:
        return "the peer closed the connection during the handshake"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "protocol error").lower().replace("_", " ")
    return error.strerror or type(error).__name__
