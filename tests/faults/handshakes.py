"""Faults of TLS: certificates, handshakes that stall or break, unannounced ends; in virtual time."""

import ssl
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import pytest
import trio
import trustme

import tidegate
from tests.faults.fault import BAD, HEALTHY, Answer, Failure, MemoryFault, Wire, timed_out
from tests.faults.peers import BY_LENGTH, CHUNKED, CUT, LOST, OK, TO_THE_END
from tidegate import Phase
from tidegate.testing.memory import Peer, Script
from tidegate.testing.origin import HandshakeFault, Listener, Origin

LONG_AGO: Final = datetime(2001, 1, 1, tzinfo=UTC)
FAR_AHEAD: Final = datetime(2100, 1, 1, tzinfo=UTC)

# Certificates and contexts of servers ...


def context_with(certificate: trustme.LeafCert) -> ssl.SSLContext:
    """A server context with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def good_server(authority: trustme.CA) -> ssl.SSLContext:
    """What a server should have."""
    return context_with(authority.issue_cert(BAD, HEALTHY, "127.0.0.1"))


def expired(authority: trustme.CA) -> ssl.SSLContext:
    """A certificate of the past."""
    return context_with(
        authority.issue_cert(BAD, not_before=datetime(2000, 1, 1, tzinfo=UTC), not_after=LONG_AGO)
    )


def not_yet_valid(authority: trustme.CA) -> ssl.SSLContext:
    """A certificate of the future."""
    return context_with(
        authority.issue_cert(BAD, not_before=FAR_AHEAD, not_after=FAR_AHEAD.replace(year=2101))
    )


def of_another_name(authority: trustme.CA) -> ssl.SSLContext:
    """A certificate for somebody else."""
    return context_with(authority.issue_cert("other.example"))


def of_a_wildcard_too_deep(authority: trustme.CA) -> ssl.SSLContext:
    """A star stands for one label, and not for the name itself."""
    return context_with(authority.issue_cert(f"*.{BAD}"))


def of_unknown_authority(_: trustme.CA) -> ssl.SSLContext:
    """Signed by nobody that we know."""
    return context_with(trustme.CA().issue_cert(BAD))


def self_signed(_: trustme.CA) -> ssl.SSLContext:
    """Signed by itself."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with authority.private_key_pem.tempfile() as key, authority.cert_pem.tempfile() as certificate:
        context.load_cert_chain(certificate, key)
    return context


def without_intermediate(authority: trustme.CA) -> ssl.SSLContext:
    """The chain lacks the link between the certificate and the authority."""
    leaf = authority.create_child_ca().issue_cert(BAD)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with leaf.private_key_pem.tempfile() as key, leaf.cert_chain_pems[0].tempfile() as certificate:
        context.load_cert_chain(certificate, key)
    return context


def with_change(change: Callable[[ssl.SSLContext], object]) -> Callable[[trustme.CA], ssl.SSLContext]:
    """A good server, changed."""

    def make(authority: trustme.CA) -> ssl.SSLContext:
        context = good_server(authority)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # old versions are what this is about
            change(context)
        return context

    return make


def only_old(context: ssl.SSLContext) -> None:
    """Nothing newer than TLS 1.1."""
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1


def at_most_1_2(context: ssl.SSLContext) -> None:
    """Nothing newer than TLS 1.2, whose handshake has one flight more."""
    context.maximum_version = ssl.TLSVersion.TLSv1_2


def without_a_common_cipher(context: ssl.SSLContext) -> None:
    """An RSA cipher for a key that is none."""
    at_most_1_2(context)
    context.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")


def asking_for_a_certificate(context: ssl.SSLContext) -> None:
    """A client without a certificate is turned away."""
    context.verify_mode = ssl.CERT_REQUIRED


def asking_for_a_certificate_1_2(context: ssl.SSLContext) -> None:
    """The same, told within the handshake."""
    at_most_1_2(context)
    asking_for_a_certificate(context)


def offer_http_2(context: ssl.SSLContext) -> None:
    """A client that an operator has made offer what the engine does not speak."""
    context.set_alpn_protocols(["h2", "http/1.1"])


# What is done to a handshake ...


def spoilt(**fault: Any) -> Wire:
    """See `HandshakeFault`."""

    async def wire(transport: trio.SocketStream, context: ssl.SSLContext) -> None:
        await Origin(0).serve_stream(transport, Listener(tls=context, handshake=HandshakeFault(**fault)))

    return wire


def answered_with(data: bytes) -> Wire:
    """The ClientHello is answered with these bytes."""

    async def wire(transport: trio.SocketStream, _: ssl.SSLContext) -> None:
        await transport.receive_some(65536)
        await transport.send_all(data)
        while await transport.receive_some(65536):
            pass

    return wire


def answered_for_ever_with(data: bytes) -> Wire:
    """The ClientHello is answered with these bytes again and again."""

    async def wire(transport: trio.SocketStream, _: ssl.SSLContext) -> None:
        while True:
            await transport.send_all(data)
            await trio.lowlevel.checkpoint()

    return wire


async def refused_with_an_alert(transport: trio.SocketStream, context: ssl.SSLContext) -> None:
    """OpenSSL's own answer to a ClientHello it does not like; trio's streams keep the alert to themselves."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(await transport.receive_some(65536))
    with pytest.raises(ssl.SSLError):
        server.do_handshake()
    await transport.send_all(outgoing.read())


async def closed_at_once(transport: trio.SocketStream, _: ssl.SSLContext) -> None:
    """No TLS at all."""


# What is done after a good one ...


def cut_after(data: bytes) -> Script:
    """Says this and ends without close_notify."""

    async def script(peer: Peer) -> None:
        await peer.receive_head()
        await peer.send(data)
        peer.cut()

    return script


def closed_after(data: bytes) -> Script:
    """Says this and ends as one should."""

    async def script(peer: Peer) -> None:
        await peer.receive_head()
        await peer.send(data)
        await peer.stream.aclose()

    return script


def garbled_after(data: bytes) -> Script:
    """Says this, then what is no TLS record."""

    async def script(peer: Peer) -> None:
        await peer.receive_head()
        await peer.send(data)
        assert isinstance(peer.stream, trio.SSLStream)
        await peer.stream.transport_stream.send_all(b"HTTP/1.1 500 Oh dear\r\n\r\n")
        await trio.sleep_forever()

    return script


def silent_after(data: bytes) -> Script:
    """Says this and no more."""

    async def script(peer: Peer) -> None:
        await peer.receive_head()
        await peer.send(data)
        await trio.sleep_forever()

    return script


def refused(told: str = "") -> Failure:
    """No handshake."""
    return Failure(tidegate.TLSError, Phase.TLS, told=told)


def fault(done: str, gives: Failure | Answer, **more: Any) -> MemoryFault:
    """A row."""
    return MemoryFault(done=done, gives=gives, scheme="https", **more)


CLOSED: Final = "closed the connection during the handshake"

TLS_FAULTS: Final = [
    *(
        fault(f"certificate: {name}", refused(told), server=server)
        for name, server, told in [
            ("expired", expired, "expired"),
            ("not yet valid", not_yet_valid, "not yet valid"),
            ("of another name", of_another_name, "ostname mismatch"),
            ("of a wildcard too deep", of_a_wildcard_too_deep, "ostname mismatch"),
            ("of an unknown authority", of_unknown_authority, "unable to get local issuer"),
            ("signed by itself", self_signed, "self-signed certificate"),
            ("without its intermediate", without_intermediate, "unable to get local issuer"),
        ]
    ),
    fault(
        "TLS 1.1 and nothing newer",
        refused("alert protocol version"),
        wire=refused_with_an_alert,
        server=with_change(only_old),
    ),
    fault(
        "no common cipher",
        refused("alert handshake failure"),
        wire=refused_with_an_alert,
        server=with_change(without_a_common_cipher),
    ),
    fault(
        "a client certificate is asked for, 1.2", refused(), server=with_change(asking_for_a_certificate_1_2)
    ),
    fault("a client certificate is asked for, 1.3", LOST, server=with_change(asking_for_a_certificate)),
    fault(
        "nothing but HTTP/2 by ALPN",
        refused("chose h2 by ALPN"),
        server=with_change(lambda context: context.set_alpn_protocols(["h2"])),
        client=offer_http_2,
    ),
    *(
        fault(
            f"handshake {version} {then} in flight {flight} after {after} bytes",
            timed_out(Phase.TLS) if then == "hold" else refused(CLOSED),
            wire=spoilt(flight=flight, after=after, then=then),
            server=server,
        )
        for then in ("hold", "cut")
        for version, server, flights in [("1.3", good_server, 1), ("1.2", with_change(at_most_1_2), 2)]
        for flight in range(flights)
        for after in (0, 1, 40)
    ),
    fault("handshake dripped", timed_out(Phase.TLS), wire=spoilt(after=400, interval=0.1)),
    fault("handshake never begun", timed_out(Phase.TLS), wire=answered_with(b"")),
    fault("closed before the handshake", refused(CLOSED), wire=closed_at_once),
    fault("silent after a handshake", timed_out(Phase.HEAD), wire=spoilt(flight=1)),
    fault(
        "plain HTTP on the TLS port",
        refused("wrong version number"),
        wire=answered_with(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ),
    fault("SSH on the TLS port", refused(), wire=answered_with(b"SSH-2.0-OpenSSH_9.6\r\n")),
    fault("nulls on the TLS port", refused(), wire=answered_with(bytes(64))),
    fault(
        "a fatal alert",
        refused("alert handshake failure"),
        wire=answered_with(b"\x15\x03\x03\x00\x02\x02\x28"),
    ),
    fault(
        "warning alerts without end",
        refused(),
        wire=answered_for_ever_with(b"\x15\x03\x03\x00\x02\x01\x5a" * 50),
    ),
    fault(
        "cipher changes without end", refused(), wire=answered_for_ever_with(b"\x14\x03\x03\x00\x01\x01" * 50)
    ),
    fault("closed after the handshake", LOST, script=closed_after(b"")),
    fault("cut after the handshake", LOST, script=cut_after(b"")),
    fault("cut within the head", LOST, script=cut_after(OK + b"Content-")),
    fault("cut within the content", CUT, script=cut_after(BY_LENGTH + b"12345")),
    fault("cut within a chunk", CUT, script=cut_after(CHUNKED + b"5\r\nhel")),
    fault("closed within the content", CUT, script=closed_after(BY_LENGTH + b"12345")),
    fault(
        "close_notify missing where the length tells",
        Answer(size=10),
        script=cut_after(BY_LENGTH + bytes(10)),
    ),
    fault(
        "close_notify missing where only it could tell",
        Answer(size=2, complete=False),
        script=cut_after(TO_THE_END + b"ok"),
    ),
    fault("close_notify where only it can tell", Answer(size=2), script=closed_after(TO_THE_END + b"ok")),
    fault("garbage instead of a head", LOST, script=garbled_after(b"")),
    fault("garbage instead of content", CUT, script=garbled_after(BY_LENGTH + b"12345")),
    fault("silent within the head", timed_out(Phase.HEAD), script=silent_after(OK)),
    fault("silent within the content", timed_out(Phase.CONTENT), script=silent_after(BY_LENGTH + b"12345")),
    fault(
        "an upload that is never read",
        timed_out(Phase.SEND),
        script=silent_after(b""),
        arguments={"method": "POST", "content": bytes(1 << 20)},
    ),
]
