"""One use of each public signature. Never run, only type-checked under mypy strict (see test_typing.py).

A change that makes this file fail breaks the code of somebody who uses the package.
"""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import assert_never, assert_type

import tidegate

# The seams, each as somebody else would write it --------------------------------------------------------


class Names:
    """A resolver."""

    async def resolve(self, host: str) -> list[IPv4Address]:
        return [IPv4Address("93.184.216.34")]


class Vault:
    """A source of credentials."""

    async def fields_for(self, url: tidegate.URL) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {url.host}"}


class Log:
    """An observer that knows every event there is."""

    def on_event(self, event: tidegate.Event) -> None:
        match event:
            case tidegate.FetchStarted():
                print(event.fetch, event.time, event.key)
            case tidegate.HopStarted():
                print(event.fetch, event.time, event.hop, event.method, event.url)
            case tidegate.PhaseStarted():
                print(event.fetch, event.time, event.hop, event.phase)
            case tidegate.PhaseFinished():
                print(event.fetch, event.time, event.hop, event.phase, event.duration)
            case tidegate.PhaseFailed():
                assert_type(event.error, tidegate.FetchError | None)
            case tidegate.DenialReported():
                assert_type(event.refusal, tidegate.Denied)
            case tidegate.RequestRepeated():
                assert_type(event.error, tidegate.ConnectionLost)
            case tidegate.HopFinished():
                assert_type(event.outcome, tidegate.Hop)
                assert_type(event.wire_bytes, int)
                assert_type(event.seconds, Mapping[tidegate.Phase, float])
            case tidegate.HopFailed():
                assert_type(event.error, tidegate.FetchError | None)
                print(event.peer, event.reused, event.tls_version, event.status, event.http_version)
                print(event.wire_bytes, event.seconds)
            case tidegate.FetchFinished():
                print(event.duration, event.status, event.content_bytes, event.truncated)
            case tidegate.FetchFailed():
                assert_type(event.error, tidegate.FetchError | None)
            case _:
                assert_never(event)


async def granted(host: str) -> bool:
    return host.endswith(".example")


def seams() -> None:
    resolvers: list[tidegate.Resolver] = [
        Names(),
        tidegate.SystemResolver(),
        tidegate.SystemResolver(max_threads=4, max_wait=1.0, max_threads_per_key=2),
        tidegate.DnsResolver(["192.0.2.1", "[2001:db8::1]:53"], timeout=2.0),
        tidegate.StaticResolver({"a.example": ["93.184.216.34"]}),
        tidegate.StaticResolver({}, fallback=Names()),
    ]
    connector: tidegate.Connector = tidegate.TCPConnector()
    source: tidegate.CredentialSource = Vault()
    observer: tidegate.Observer = Log()
    authorize: tidegate.Authorize = granted
    print(resolvers, connector, source, observer, authorize)


async def connected(connector: tidegate.Connector, targets: Sequence[tidegate.PinnedTarget]) -> None:
    _, stream = await connector.connect(targets)
    assert_type(stream, tidegate.Stream).close()


def statistics(resolver: tidegate.SystemResolver) -> None:
    now = assert_type(resolver.statistics(), tidegate.ResolverStatistics)
    print(now.threads + now.max_threads + now.waiting)


async def pinned(connector: tidegate.Connector, targets: Sequence[tidegate.PinnedTarget]) -> None:
    target, _ = await connector.connect(targets)
    assert_type(target, tidegate.PinnedTarget)
    assert_type(target.address, IPv4Address | IPv6Address)
    print(target.scheme, target.host, target.port, target.self_allowed)


# Values ------------------------------------------------------------------------------------------------


def policies() -> tidegate.Policy:
    return tidegate.Policy(
        hosts=["a.example", "*.corp.example"],
        require_https=True,
        ports={443, 8443},
        private_ranges=[
            tidegate.PrivateRange("10.20.0.0/16", hosts=["*.corp.example"]),
            tidegate.PrivateRange("198.18.0.0/15", "*"),
        ],
        request_rules=(tidegate.RequestRule("a.example", methods=["GET"], paths=["/v1/*"]),),
        redirect_fields=["X-Trace-Id"],
        keep_credentials_within_origin=True,
        report_only=True,
    )


def limits() -> tidegate.Limits:
    given = tidegate.Limits(
        timeout=30,
        max_content=1 << 20,
        max_encoded_content=None,
        max_request_content=0,
        max_redirects=5,
        max_head=65536,
        max_fields=100,
        max_interim=0,
        max_trailers=0,
        max_chunk_overhead=16384,
        max_codings=1,
        max_coding_members=1,
    )
    assert_type(given.encoded_content, int)
    return given


def urls() -> None:
    url = assert_type(tidegate.parse_url("https://a.example/x?y"), tidegate.URL)
    assert_type(url.scheme + url.host + url.path + url.authority + url.target + url.without_query, str)
    assert_type(url.port, int)
    assert_type(url.query, str | None)
    assert_type(url.address, IPv4Address | IPv6Address | None)
    assert_type(url.origin, tuple[str, str, int])


def addresses() -> None:
    kind = assert_type(tidegate.classify_address("93.184.216.34"), tidegate.AddressClass)
    tidegate.classify_address(IPv6Address("::1"))
    print(kind is tidegate.AddressClass.GLOBAL)


def contexts() -> None:
    assert_type(tidegate.client_context(), ssl.SSLContext)
    tidegate.client_context(ca_file="ca.pem", ca_data=b"")
    tidegate.client_context(ca_file=Path("ca.pem"), ca_data="")


# The engine --------------------------------------------------------------------------------------------


async def opening() -> None:
    async with tidegate.open_engine() as engine:
        assert_type(engine, tidegate.Engine)
    async with tidegate.open_engine(
        policies(),
        resolver=Names(),
        connector=tidegate.TCPConnector(),
        observer=Log(),
        credentials=Vault(),
        tls=tidegate.client_context(),
        max_concurrency=10,
        max_concurrency_per_key=None,
        max_concurrency_per_host=None,
        max_idle=0,
    ) as engine:
        await fetching(engine)
        await streaming(engine)
        await checking(engine)


async def fetching(engine: tidegate.Engine) -> None:
    response = assert_type(await engine.fetch("https://a.example/"), tidegate.Response)
    await engine.fetch(
        "https://a.example/",
        method="POST",
        headers=[("Accept", "*/*")],
        content=b"data",
        limits=limits(),
        authorize=granted,
        key=("agent", 7),
    )
    assert_type(response.status, int)
    assert_type(response.reason_phrase, str)
    assert_type(response.http_version, str)
    assert_type(response.url, tidegate.URL)
    assert_type(response.headers, tidegate.Headers)
    assert_type(response.content, bytes)
    assert_type(response.trailers, tidegate.Headers)
    assert_type(response.truncated, bool)
    assert_type(response.complete, bool)
    assert_type(response.codings, tuple[str, ...])
    assert_type(response.oddities, tuple[str, ...])
    assert_type(response.wire_bytes, int)
    assert_type(response.hops, tuple[tidegate.Hop, ...])
    assert_type(response.duration, float)
    assert_type(response.timings, tidegate.Timings)


async def pieces() -> AsyncIterator[bytes]:
    yield b"piece"


async def streaming(engine: tidegate.Engine) -> None:
    opened = engine.stream(
        "https://a.example/",
        method="PUT",
        headers={"Accept": "*/*"},
        content=pieces(),
        limits=limits(),
        authorize=granted,
        key=None,
    )
    async with opened as response:
        assert_type(response, tidegate.ResponseStream)
        async for piece in response:
            assert_type(piece, bytes)
    assert_type(response.status, int)
    assert_type(response.reason_phrase, str)
    assert_type(response.http_version, str)
    assert_type(response.url, tidegate.URL)
    assert_type(response.headers, tidegate.Headers)
    assert_type(response.trailers, tidegate.Headers)
    assert_type(response.truncated, bool)
    assert_type(response.complete, bool)
    assert_type(response.codings, tuple[str, ...])
    assert_type(response.announced, int | None)
    assert_type(response.fail(tidegate.BadRedirect("why")), tidegate.FetchError)
    assert_type(response.hops, tuple[tidegate.Hop, ...])


async def checking(engine: tidegate.Engine) -> None:
    verdict = await engine.check("https://a.example/", method="HEAD", authorize=granted)
    await engine.check("https://a.example/", limits=tidegate.Limits(timeout=5), key="agent")
    assert_type(verdict, tidegate.Verdict)
    assert_type(verdict.allowed, bool)
    assert_type(verdict.reason, tidegate.Reason | None)
    assert_type(verdict.url, tidegate.URL | None)
    assert_type(verdict.checks, tuple[tidegate.Check, ...])
    assert_type(verdict.addresses, tuple[IPv4Address | IPv6Address, ...])
    for check in verdict.checks:
        assert_type(check.passed, bool | None)
        assert_type(check.reason, tidegate.Reason | None)
        assert_type(check.setting, str | None)
        print(check.name, check.detail)


def fields(headers: tidegate.Headers) -> None:
    assert_type(headers["content-type"], str)
    assert_type(headers.get("content-type"), str | None)
    assert_type(headers.get_all("set-cookie"), tuple[str, ...])
    assert_type(headers.without(["set-cookie"]), tidegate.Headers)
    assert_type(headers.raw, tuple[tuple[bytes, bytes], ...])
    as_mapping: Mapping[str, str] = headers
    print(as_mapping)


def hops(hop: tidegate.Hop) -> None:
    print(hop.url, hop.method, hop.status, hop.http_version, hop.peer, hop.reused)
    assert_type(hop.tls_version, str | None)
    assert_type(hop.tls_resumed, bool)
    timings = assert_type(hop.timings, tidegate.Timings)
    assert_type(timings.total, float)
    for seconds in (
        timings.resolve,
        timings.connect,
        timings.tls,
        timings.send,
        timings.head,
        timings.content,
    ):
        assert_type(seconds, float | None)


# Errors ------------------------------------------------------------------------------------------------


async def failing(engine: tidegate.Engine) -> str:
    try:
        await engine.fetch("https://a.example/")
    except (tidegate.InvalidURL, tidegate.InvalidField, tidegate.InvalidArgument):
        return "an InvalidRequest"
    except (
        tidegate.SchemeDenied,
        tidegate.HostDenied,
        tidegate.PortDenied,
        tidegate.AddressDenied,
    ) as denied:
        assert_type(denied.reason, tidegate.Reason)
    except tidegate.IncompleteContent as error:
        assert_type(error.received, int)
        assert_type(error.expected, int | None)
    except (
        tidegate.ResolutionError,
        tidegate.ConnectError,
        tidegate.TLSError,
        tidegate.ConnectionLost,
    ):
        return "a TransportError"
    except tidegate.MessageTooLarge:
        return "a RemoteProtocolError"
    except (tidegate.BadRedirect, tidegate.TooManyRedirects):
        return "a RedirectError"
    except (tidegate.DeadlineExceeded, tidegate.Overloaded, tidegate.EngineClosed):
        return "none of these families"
    except tidegate.FetchError as error:
        assert_type(error.reason, tidegate.Reason)
        assert_type(error.phase, tidegate.Phase | None)
        assert_type(error.url, str | None)
        assert_type(error.hop, int | None)
        assert_type(error.message, str)
    return tidegate.__version__


FAMILIES: tuple[type[tidegate.FetchError], ...] = (
    tidegate.InvalidRequest,
    tidegate.Denied,
    tidegate.TransportError,
    tidegate.RemoteProtocolError,
    tidegate.RedirectError,
)
