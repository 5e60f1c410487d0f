"""`tidegate fetch` beside curl: the same bytes of nginx and httpbin, and an exit code that fits the status.

Both reach the servers on loopback: curl as it is, tidegate by `--resolve` and `--allow-private`, through the
floor. Both send the same fields, for httpbin echoes them.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tidegate._wire.decode import accept_encoding
from tidegate_tools.cli import main

pytestmark = pytest.mark.slow

NAME = "origin.example"
FIELDS = ("User-Agent: beside-curl", "Accept: */*")


def give_up(what: str) -> None:
    """Skip, but fail in continuous integration, where everything has to be there."""
    sentence = f"the comparison with curl needs {what}"
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(sentence)


# The servers ----------------------------------------------------------------------------------------------

FILES = {
    "index.html": b"<!doctype html><title>hello</title><p>hello from nginx\n",
    "empty": b"",
    "text.txt": b"the quick brown fox jumps over the lazy dog\n" * 5000,
    "big.bin": bytes(range(256)) * (20 << 12),
    "a b+c.txt": b"a blank and a plus\n",
    "中文.txt": "中文\n".encode(),
    "directory/index.html": b"a directory\n",
}

CONFIGURATION = """
error_log error.log;
pid nginx.pid;
{user}
worker_processes 1;
events {{ }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    types {{ text/html html; text/plain txt; }}
    default_type application/octet-stream;
    gzip on;
    gzip_types text/plain;
    if_modified_since before;
    server {{
        listen 127.0.0.1:{port};
        root html;
        location = /no-content {{ return 204; }}
        location = /broken {{ return 500; }}
        location = /busy {{ return 503 "busy\\n"; }}
        location = /moved {{ return 301 /text.txt; }}
        location = /round {{ return 302 /round; }}
        location = /elsewhere {{ return 307 http://{name}:{port}/empty; }}
        location = /created {{ return 201 "made\\n"; }}
    }}
}}
"""


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an nginx on loopback."""
    if shutil.which("nginx") is None:
        give_up("nginx")
    folder = tmp_path_factory.mktemp("nginx")
    for name, content in FILES.items():
        path = folder / "html" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with _running_nginx(folder) as port:
        yield port


@contextmanager
def _running_nginx(folder: Path) -> Iterator[int]:
    command = ["nginx", "-p", f"{folder}/", "-c", "nginx.conf", "-e", "error.log"]
    # It takes no port 0, so somebody else may be faster than it; not three times, though.
    for _ in range(3):
        port = _free_port()
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(CONFIGURATION.format(port=port, name=NAME, user=user))
        started = subprocess.run(command, capture_output=True, text=True)
        if started.returncode == 0:  # it listens, for it binds before it goes to the background
            break
    assert started.returncode == 0, started.stderr
    try:
        yield port
    finally:
        subprocess.run([*command, "-s", "stop"], check=True, capture_output=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


HTTPBIN = """
import sys, threading
from httpbin import app
from werkzeug.serving import WSGIRequestHandler, make_server

WSGIRequestHandler.protocol_version = "HTTP/1.1"
server = make_server("127.0.0.1", 0, app, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.port, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def httpbin() -> Iterator[int]:
    """The port of an httpbin on loopback. It goes when its standard input does."""
    if find_spec("httpbin") is None:
        give_up("httpbin (pip install httpbin)")
    with subprocess.Popen(
        [sys.executable, "-c", HTTPBIN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.stdin.close()
        process.wait(10)


# The two programs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program printed, and the status that it met."""

    content: bytes
    status: int


Tidegate = Callable[[str, tuple[str, ...]], tuple[bytes, int]]


@pytest.fixture
def tidegate(capsysbinary: pytest.CaptureFixture[bytes]) -> Tidegate:
    """Runs `tidegate fetch`; returns what it printed, and the exit code."""

    def run(url: str, options: tuple[str, ...]) -> tuple[bytes, int]:
        operator = ("--resolve", f"{NAME}=127.0.0.1", "--allow-private", f"127.0.0.0/8={NAME}")
        code = main(["fetch", url, *_fields(options), *options, *operator])
        return capsysbinary.readouterr().out, code

    return run


def curl(url: str, options: tuple[str, ...], port: int) -> Answer:
    """Runs curl, with its words for the options."""
    words = {"--json-body": "--json", "--max-redirects": "--max-redirs"}
    given = " ".join(options)
    translated = [words.get(option, option) for option in options]
    if translated[:2] == ["-X", "HEAD"]:
        translated[:2] = ["-I"]
    command = ["curl", "-q", "-sS", "--noproxy", "*", "--resolve", f"{NAME}:{port}:127.0.0.1"]
    command += ["-w", "%{stderr}%{http_code}"]
    # Before the others, as ours: `/stream` echoes fields in their order.
    if "Range:" in given:  # of encoded bytes, so we ask for none
        command += ["-H", "Accept-Encoding: identity"]
    elif "Accept-Encoding:" not in given:
        command += ["--compressed", "-H", f"Accept-Encoding: {accept_encoding()}"]
    ended = subprocess.run([*command, *_fields(options), *translated, url], capture_output=True)
    assert ended.returncode == 0, ended.stderr
    return Answer(ended.stdout, int(ended.stderr))


def _fields(options: tuple[str, ...]) -> list[str]:
    given = " ".join(options)
    fields = [field for field in FIELDS if field.partition(" ")[0] not in given]
    return [word for field in fields for word in ("-H", field)]


def without_date(content: bytes) -> bytes:
    """The seconds may differ."""
    return re.sub(rb"(?m)^Date: .*\r\n", b"", content)


EXIT_CODES = {2: 0, 3: 3, 4: 4, 5: 5}


def compare(tidegate: Tidegate, port: int, path: str, options: tuple[str, ...]) -> Answer:
    url = f"http://{NAME}:{port}{path.format(host=f'{NAME}:{port}')}"
    expected = curl(url, options, port)
    content, code = tidegate(url, options)
    if "-i" in options or "HEAD" in options:
        content, expected = without_date(content), Answer(without_date(expected.content), expected.status)
    assert content == expected.content
    assert code == EXIT_CODES[expected.status // 100]
    return expected


# The URLs -------------------------------------------------------------------------------------------------

NGINX = [
    ("/", 200, ()),
    ("/index.html?a=b&c", 200, ()),
    ("/empty", 200, ()),
    ("/text.txt", 200, ()),  # gzip, chunked
    ("/text.txt", 200, ("-H", "Accept-Encoding: identity")),
    ("/text.txt", 200, ("-i", "-H", "Accept-Encoding: identity")),
    ("/big.bin", 200, ()),
    ("/big.bin", 200, ("-X", "HEAD")),
    ("/big.bin", 206, ("-H", "Range: bytes=0-0")),
    ("/big.bin", 206, ("-H", "Range: bytes=1000000-")),
    ("/big.bin", 206, ("-H", "Range: bytes=-70000")),
    ("/big.bin", 416, ("-H", "Range: bytes=99999999-")),
    ("/a%20b+c.txt", 200, ()),
    ("/%E4%B8%AD%E6%96%87.txt", 200, ()),
    ("/中文.txt", 200, ()),
    ("/x/../y/./../text.txt", 200, ()),
    ("/directory", 301, ()),
    ("/directory", 200, ("-L",)),
    ("/moved", 301, ()),
    ("/moved", 200, ("-L",)),
    ("/moved", 200, ("-L", "--max-redirects", "1")),
    ("/elsewhere", 200, ("-L",)),
    ("/no-content", 204, ()),
    ("/no-content", 204, ("-i",)),
    ("/text.txt", 304, ("-H", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT")),
    ("/created", 201, ("-d", "a=1")),
    ("/text.txt", 405, ("-d", "a=1")),
    ("/missing", 404, ()),
    ("/missing", 404, ("-X", "HEAD", "-H", "Accept-Encoding: identity")),
    ("/broken", 500, ()),
    ("/busy", 503, ()),
]

SECRET = "Authorization: Basic dXNlcjpwYXNz"

HTTPBIN_URLS = [
    ("/gzip", 200, ()),
    ("/deflate", 200, ()),
    ("/brotli", 200, ()),
    ("/bytes/0", 200, ()),
    ("/bytes/100000?seed=3", 200, ()),
    ("/stream-bytes/100000?seed=7", 200, ()),
    ("/stream-bytes/500?seed=7&chunk_size=1", 200, ()),
    ("/stream/5", 200, ()),
    ("/drip?numbytes=10&duration=0.05", 200, ()),
    ("/range/4096", 200, ()),
    ("/range/4096", 206, ("-H", "Range: bytes=100-199")),
    ("/range/4096", 416, ("-H", "Range: bytes=5000-")),
    ("/redirect/3", 200, ("-L",)),
    ("/relative-redirect/2", 302, ()),
    ("/absolute-redirect/2", 200, ("-L",)),
    ("/redirect-to?url=/get&status_code=303", 200, ("-L", "-d", "a=1")),
    ("/redirect-to?url=/get&status_code=301", 200, ("-L", "-d", "a=1")),
    ("/redirect-to?url=/get&status_code=302", 200, ("-L", "-d", "a=1")),
    ("/redirect-to?url=/post&status_code=307", 200, ("-L", "-d", "a=1")),
    ("/redirect-to?url=/post&status_code=308", 200, ("-L", "-d", "a=1")),
    ("/redirect-to?url=http://{host}/headers", 200, ("-L", "-H", SECRET)),
    ("/post", 200, ("-d", "a=1", "-d", "b=%20&c")),
    ("/post", 200, ("-d", "")),
    ("/post", 200, ("-d", "é=中", "-H", "Content-Type: text/plain; charset=utf-8")),
    ("/post", 200, ("--json-body", '{"a": [1, "é", null]}')),
    ("/put", 200, ("-X", "PUT", "-d", "a=1")),
    ("/patch", 200, ("-X", "PATCH", "--json-body", "[]")),
    ("/delete", 200, ("-X", "DELETE")),
    ("/get", 200, ("-X", "HEAD")),
    ("/get", 405, ("-d", "a=1")),
    ("/headers", 200, ("-H", "X-One: 1", "-H", "x-two:  two  words", "-H", "Accept: text/html")),
    ("/cookies", 200, ("-H", "Cookie: a=1; b=2")),
    ("/response-headers?X-A=1&X-A=2", 200, ("-i",)),
    ("/basic-auth/user/pass", 200, ("-H", SECRET)),
    ("/basic-auth/user/other", 401, ("-H", SECRET)),
    ("/bearer", 200, ("-H", "Authorization: Bearer abc")),
    ("/bearer", 401, ()),
    ("/anything/%E4%B8%AD%20a?q=%C3%A9&q=2", 200, ()),
    ("/anything/中", 200, ()),  # in a query curl leaves such a character bare, which no URL may hold
    ("/anything/a%2Fb;p=1/~'()*!", 200, ()),
    ("/encoding/utf8", 200, ()),
    ("/image/png", 200, ()),
    ("/etag/one", 304, ("-H", 'If-None-Match: "one"')),
    ("/etag/one", 412, ("-H", 'If-Match: "two"')),
    ("/status/204", 204, ()),
    ("/status/304", 304, ()),
    ("/status/404", 404, ()),
    ("/status/418", 418, ()),
    ("/status/500", 500, ()),
    ("/no/such/path", 404, ()),
]


def names(table: list[tuple[str, int, tuple[str, ...]]]) -> list[str]:
    return [ascii(" ".join((*options, path))) for path, _, options in table]


@pytest.fixture(autouse=True)
def _curl() -> None:
    if shutil.which("curl") is None:
        give_up("curl")


@pytest.mark.parametrize(("path", "status", "options"), NGINX, ids=names(NGINX))
def test_the_same_bytes_of_nginx(
    path: str, status: int, options: tuple[str, ...], nginx: int, tidegate: Tidegate
) -> None:
    """D-3: content, decoded; with -i and HEAD the head. The status shows that the row means what it says."""
    assert compare(tidegate, nginx, path, options).status == status


@pytest.mark.parametrize(("path", "status", "options"), HTTPBIN_URLS, ids=names(HTTPBIN_URLS))
def test_the_same_bytes_of_httpbin(
    path: str, status: int, options: tuple[str, ...], httpbin: int, tidegate: Tidegate
) -> None:
    """The same; what httpbin echoes shows besides that both have sent the same."""
    assert compare(tidegate, httpbin, path, options).status == status


def test_content_is_what_the_server_has(nginx: int, tidegate: Tidegate) -> None:
    """Two programs could be wrong together."""
    for name in ("empty", "text.txt", "big.bin"):
        content, code = tidegate(f"http://{NAME}:{nginx}/{name}", ())
        assert (content == FILES[name], code) == (True, 0)


def test_both_give_up_on_a_circle(nginx: int, tidegate: Tidegate) -> None:
    """An exit code of 47 there is our 16: a redirect that is not followed any further."""
    url = f"http://{NAME}:{nginx}/round"
    command = ["curl", "-q", "-sS", "-L", "--max-redirs", "10", "--noproxy", "*"]
    ended = subprocess.run([*command, "--resolve", f"{NAME}:{nginx}:127.0.0.1", url], capture_output=True)
    assert ended.returncode == 47
    assert tidegate(url, ("-L",)) == (b"", 16)
