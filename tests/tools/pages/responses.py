"""Responses for converters: values, made without a network."""

import tidegate

URL = "https://site.example/dir/page"


def response(
    content: bytes | str,
    content_type: str | None = "text/html; charset=utf-8",
    *,
    truncated: bool = False,
    url: str = URL,
) -> tidegate.Response:
    """A response with this content."""
    fields = [(b"Content-Type", content_type.encode())] if content_type is not None else []
    return tidegate.Response(
        status=200,
        reason_phrase="OK",
        http_version="1.1",
        url=tidegate.parse_url(url),
        headers=tidegate.Headers(fields),
        content=content.encode() if isinstance(content, str) else content,
        trailers=tidegate.Headers([]),
        truncated=truncated,
        complete=not truncated,
        codings=(),
        oddities=(),
        wire_bytes=len(content),
        hops=(),
        duration=0.1,
    )


ARTICLE = (
    "<html><head><title>T</title>{base}</head><body><nav><a href='/other'>elsewhere</a></nav>"
    "<main><h1>Tides</h1>"
    "<p>Some <a href='moon?a=1'>link</a> in a text about <b>tides</b>. {more}</p></main>"
    "<footer>imprint</footer></body></html>"
)


def article(more: str = "Water rises and falls. " * 30, base: str = "") -> str:
    """A page with a main part, links, and what is around such a part."""
    return ARTICLE.format(more=more, base=base)
