"""TLS: the name in SNI and in the check, what is refused, and that nothing turns verification off."""

import datetime
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

import tidegate
from tests.support.engines import engine_with
from tidegate.testing.memory import MemoryConnector, Peer

Contexts = Callable[..., ssl.SSLContext]
YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


async def ok(peer: Peer) -> None:
    while await peer.receive_request() is not None:
        await peer.respond(b"ok")


async def refusal(nursery: trio.Nursery, url: str, server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    reached: list[Any] = []

    async def script(peer: Peer) -> None:
        reached.append(await peer.receive_request())

    async with engine_with(nursery, script, server_tls=server, tls=client) as (engine, _):
        with pytest.raises(tidegate.TLSError) as caught:
            await engine.fetch(url)
    assert (caught.value.reason, caught.value.phase) == (tidegate.Reason.TLS_FAILED, tidegate.Phase.TLS)
    assert [request for request in reached if request is not None] == []
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "names", "word"),
    [
        ("https://a.example/", ["b.example"], "not valid for"),
        ("https://a.example/", ["*.a.example"], "not valid for"),
        ("https://x.y.example/", ["*.example"], "not valid for"),
        ("https://93.184.216.34/", ["a.example"], "not valid for"),
        ("https://93.184.216.34/", ["93.184.216.35"], "not valid for"),
        ("https://a.example/", ["93.184.216.34"], "not valid for"),
        ("https://[2606:2800:220:1::1]/", ["2606:2800:220:1::2"], "not valid for"),
    ],
)
async def test_wrong_name(
    url: str,
    names: list[str],
    word: str,
    nursery: trio.Nursery,
    server_tls: Contexts,
    client_tls: ssl.SSLContext,
) -> None:
    """F-29, W-122, tls-001, tls-004: the certificate must name the host, not the address that is dialled."""
    assert word in await refusal(nursery, url, server_tls(*names), client_tls)


async def test_expired(nursery: trio.Nursery, authority: trustme.CA, client_tls: ssl.SSLContext) -> None:
    """F-29, tls-002."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("a.example", not_after=YESTERDAY).configure_cert(server)
    assert "expired" in await refusal(nursery, "https://a.example/", server, client_tls)


async def test_unknown_authority(
    nursery: trio.Nursery, server_tls: Contexts, client_tls: ssl.SSLContext
) -> None:
    """F-29, tls-003."""
    server = server_tls("a.example", issuer=trustme.CA())
    assert "refused" in await refusal(nursery, "https://a.example/", server, client_tls)


async def test_default_context_does_not_trust_a_private_authority(
    nursery: trio.Nursery, server_tls: Contexts
) -> None:
    server = server_tls("a.example")
    assert "refused" in await refusal(nursery, "https://a.example/", server, tidegate.client_context())


async def test_peer_that_speaks_no_tls(nursery: trio.Nursery, client_tls: ssl.SSLContext) -> None:
    class Plain(MemoryConnector):
        async def _play_over(self, target: Any, transport: trio.SocketStream) -> None:
            await transport.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await trio.sleep(1)

    async with engine_with(nursery, ok, connector=Plain(nursery, ok), tls=client_tls) as (engine, _):
        with pytest.raises(tidegate.TLSError, match=r"a\.example"):
            await engine.fetch("https://a.example/")
        nursery.cancel_scope.cancel()


async def test_peer_that_hangs_up_in_the_handshake(nursery: trio.Nursery, client_tls: ssl.SSLContext) -> None:
    class Rude(MemoryConnector):
        async def _play_over(self, target: Any, transport: trio.SocketStream) -> None:
            await transport.receive_some(10_000)

    async with engine_with(nursery, ok, connector=Rude(nursery, ok), tls=client_tls) as (engine, _):
        with pytest.raises(tidegate.TLSError, match="closed the connection during the handshake"):
            await engine.fetch("https://a.example/")


@pytest.mark.parametrize(
    ("url", "names", "sni"),
    [
        ("https://a.example/", ["a.example"], "a.example"),
        ("https://A.EXAMPLE./", ["a.example"], "a.example"),
        ("https://straße.example/", ["xn--strae-oqa.example"], "xn--strae-oqa.example"),
        ("https://x.y.example/", ["*.y.example"], "x.y.example"),
        ("https://93.184.216.34/", ["93.184.216.34"], None),
        ("https://[2606:2800:220:1::1]/", ["2606:2800:220:1::1"], None),
    ],
)
async def test_right_name(
    url: str, names: list[str], sni: str | None, nursery: trio.Nursery, server_tls: Contexts, client_tls: Any
) -> None:
    """W-122, tls-005, tls-010, tls-011: SNI is the A-label without a final dot; none for an address."""
    seen: list[str | None] = []
    server = server_tls(*names)
    server.sni_callback = lambda _, name, __: seen.append(name)
    async with engine_with(nursery, ok, server_tls=server, tls=client_tls) as (engine, _):
        assert (await engine.fetch(url)).content == b"ok"
    assert [sni] == seen


async def test_http2_is_not_negotiated(
    nursery: trio.Nursery, server_tls: Contexts, client_tls: ssl.SSLContext
) -> None:
    """F-102, tls-009: a server that would rather speak h2 is not let."""
    server = server_tls("a.example")
    server.set_alpn_protocols(["h2", "http/1.1"])
    async with engine_with(nursery, ok, server_tls=server, tls=client_tls) as (engine, _):
        assert (await engine.fetch("https://a.example/")).content == b"ok"


async def test_a_context_that_offers_h2_is_not_believed(
    nursery: trio.Nursery, server_tls: Contexts, authority: trustme.CA
) -> None:
    server = server_tls("a.example")
    server.set_alpn_protocols(["h2"])
    client = tidegate.client_context(ca_data=authority.cert_pem.bytes().decode())
    client.set_alpn_protocols(["h2"])
    assert "only http/1.1" in await refusal(nursery, "https://a.example/", server, client)


def unverified(**settings: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name, value in settings.items():
        setattr(context, name, value)
    return context


@pytest.mark.parametrize(
    "settings",
    [
        {"check_hostname": False},
        {"check_hostname": False, "verify_mode": ssl.CERT_OPTIONAL},
        {"check_hostname": False, "verify_mode": ssl.CERT_NONE},
    ],
)
async def test_a_context_that_does_not_verify_is_refused(settings: dict[str, Any]) -> None:
    """F-30, AMB-25: there is no way to hand one in."""
    with pytest.raises(ValueError, match="does not verify"):
        async with tidegate.open_engine(tls=unverified(**settings)):
            pass


async def test_a_context_that_stops_verifying_later_is_refused_then(
    nursery: trio.Nursery, server_tls: Contexts, authority: trustme.CA
) -> None:
    """F-30: changing the context after it was handed in does not help either."""
    client = tidegate.client_context(ca_data=authority.cert_pem.bytes().decode())
    async with engine_with(nursery, ok, server_tls=server_tls("b.example"), tls=client) as (engine, _):
        client.check_hostname = False
        with pytest.raises(tidegate.TLSError, match="does not verify"):
            await engine.fetch("https://a.example/")
        nursery.cancel_scope.cancel()


async def test_environment_cannot_reach_tls(
    nursery: trio.Nursery,
    server_tls: Contexts,
    authority: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """environment-005, environment-006, D-17: SSLKEYLOGFILE is not honoured; SSL_CERT_FILE adds anchors."""
    keys = tmp_path / "keys"
    anchors = tmp_path / "anchors.pem"
    anchors.write_bytes(authority.cert_pem.bytes())
    monkeypatch.setenv("SSLKEYLOGFILE", str(keys))
    monkeypatch.setenv("SSL_CERT_FILE", str(anchors))
    client = tidegate.client_context()
    async with engine_with(nursery, ok, server_tls=server_tls("a.example"), tls=client) as (engine, _):
        assert (await engine.fetch("https://a.example/")).content == b"ok"
    assert not keys.exists()


@pytest.mark.parametrize(
    "text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"]
)
def test_a_ca_file_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"ca\.pem cannot be read as PEM"):
        tidegate.client_context(ca_file=path)
    with pytest.raises(ValueError, match=r"missing\.pem cannot be read"):
        tidegate.client_context(ca_file=tmp_path / "missing.pem")


def test_bad_ca_data() -> None:
    with pytest.raises(ValueError, match="the CA data cannot be read"):
        tidegate.client_context(ca_data="ä")


def test_old_protocols_are_off() -> None:
    assert ssl.TLSVersion.TLSv1_2 == tidegate.client_context().minimum_version


def test_no_trust_anchors_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-25: certifi if it is there, else an error that says what to do."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert tidegate.client_context().cert_store_stats()["x509_ca"] > 0  # certifi's
    monkeypatch.setitem(__import__("sys").modules, "certifi", None)
    with pytest.raises(ValueError, match=r"no trust anchors .* tidegate\[certifi\]"):
        tidegate.client_context()


async def one_each(peer: Peer) -> None:
    await peer.receive_request()
    await peer.respond(b"ok", fields=[("Connection", "close")])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_sessions_are_resumed_for_the_same_target(
    version: ssl.TLSVersion, nursery: trio.Nursery, server_tls: Contexts, client_tls: ssl.SSLContext
) -> None:
    server = server_tls("a.example", "b.example")
    server.maximum_version = version
    async with engine_with(nursery, one_each, server_tls=server, tls=client_tls) as (engine, _):
        resumed = [
            (await engine.fetch(url)).hops[0].tls_resumed
            for url in (
                "https://a.example/",
                "https://a.example/",
                "https://a.example./",
                "https://b.example/",
                "https://a.example:8443/",
                "https://b.example/",
            )
        ]
    assert resumed == [False, True, True, False, False, True]


async def test_a_session_never_serves_another_name(
    nursery: trio.Nursery, server_tls: Contexts, client_tls: ssl.SSLContext
) -> None:
    """Pitfall 5: a resumed session skips the name check, so the other name must get a full handshake."""
    server = server_tls("a.example")
    async with engine_with(nursery, one_each, server_tls=server, tls=client_tls) as (engine, _):
        await engine.fetch("https://a.example/")
        with pytest.raises(tidegate.TLSError, match="not valid for"):
            await engine.fetch("https://b.example/")


async def test_sessions_grow_old(
    nursery: trio.Nursery, server_tls: Contexts, client_tls: ssl.SSLContext, autojump_clock: Any
) -> None:
    server = server_tls("a.example")
    async with engine_with(nursery, one_each, server_tls=server, tls=client_tls) as (engine, _):
        for wait, resumed in [(0, False), (0, True), (3601, False)]:
            await trio.sleep(wait)
            assert resumed is (await engine.fetch("https://a.example/")).hops[0].tls_resumed


async def test_sessions_are_bounded(
    nursery: trio.Nursery, server_tls: Contexts, client_tls: ssl.SSLContext
) -> None:
    server = server_tls("*.a.example")
    async with engine_with(nursery, one_each, server_tls=server, tls=client_tls) as (engine, _):
        for number in range(257):
            await engine.fetch(f"https://h{number}.a.example/")
        assert (await engine.fetch("https://h256.a.example/")).hops[0].tls_resumed
        assert not (await engine.fetch("https://h0.a.example/")).hops[0].tls_resumed


async def test_a_target_that_does_not_resume_is_left_alone(
    nursery: trio.Nursery, server_tls: Contexts, client_tls: ssl.SSLContext, autojump_clock: Any
) -> None:
    """Offering and copying a session costs as much as a third of a handshake."""
    server = server_tls("a.example")
    server.options |= ssl.OP_NO_TICKET
    server.num_tickets = 0
    async with engine_with(nursery, one_each, server_tls=server, tls=client_tls) as (engine, _):
        offered = []
        for _ in range(3):
            await engine.fetch("https://a.example/")
            offered.append(server.session_stats()["hits"] + server.session_stats()["misses"])
        assert offered[1] == offered[2]
        await trio.sleep(3601)
        assert not (await engine.fetch("https://a.example/")).hops[0].tls_resumed


async def test_fetches_at_once_do_not_spoil_the_session(
    nursery: trio.Nursery, server_tls: Contexts, client_tls: ssl.SSLContext
) -> None:
    server = server_tls("a.example")
    async with engine_with(nursery, one_each, server_tls=server, tls=client_tls) as (engine, _):
        async with trio.open_nursery() as fetches:
            for _ in range(3):
                fetches.start_soon(engine.fetch, "https://a.example/")
        assert (await engine.fetch("https://a.example/")).hops[0].tls_resumed
