"""A real web server for the tests' internet: its configuration, its files, its certificates."""

import datetime
import subprocess
from pathlib import Path

import trustme

from tests.e2e import world

# Bodies whose size tests count on.
FILES = {
    "index.html": b"<!doctype html><title>hello</title><p>hello from nginx\n",
    "text.txt": b"the quick brown fox jumps over the lazy dog\n" * 1500,
    "data.json": b'{"hello": "from nginx"}\n',
    "big.bin": bytes(5 << 20),
}

_CONFIGURATION = """
error_log error.log;
pid nginx.pid;
user root;
worker_processes 1;
events {{ worker_connections 4096; }}
http {{
    access_log access.log;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    types {{ text/html html; text/plain txt; application/json json; }}
    default_type application/octet-stream;
    gzip on;
    gzip_types text/plain application/json;
    {servers}
}}
"""

_SERVER = """
    server {{
        {listen}
        server_name {names};
        ssl_certificate {certificate};
        ssl_certificate_key {certificate};
        root html;
        location /to-https {{ return 301 https://www.example.com/; }}
        location /to-other-origin {{ return 302 https://other.example.org/data.json; }}
        location /to-metadata {{ return 302 http://169.254.169.254/latest/meta-data/; }}
        location /to-private-name {{ return 302 http://private.example.com/; }}
        location /to-itself {{ return 302 /to-itself; }}
        location /refuses-uploads {{ client_max_body_size 1k; }}
    }}
"""


def start_nginx(folder: Path, authority: trustme.CA) -> None:
    """Start nginx in this namespace; when this returns it listens. It goes when the namespace goes.

    Raises:
        RuntimeError: it did not start.
    """
    _write_files(folder)
    (folder / "nginx.conf").write_text(_configuration(folder, authority))
    command = ["nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
    started = subprocess.run(command, capture_output=True, text=True, check=False)
    if started.returncode:
        raise RuntimeError(f"nginx did not start: {started.stderr}")


def _write_files(folder: Path) -> None:
    (folder / "html").mkdir(parents=True)
    for name, content in FILES.items():
        (folder / "html" / name).write_bytes(content)


def _configuration(folder: Path, authority: trustme.CA) -> str:
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    certificates = {
        "_": authority.issue_cert(*world.CERTIFIED_NAMES),
        world.EXPIRED: authority.issue_cert(world.EXPIRED, not_after=yesterday),
        world.WRONG_NAME: authority.issue_cert("elsewhere.example.net"),
        world.UNTRUSTED: trustme.CA().issue_cert(world.UNTRUSTED),
    }
    servers = []
    for names, certificate in certificates.items():
        path = folder / f"{names}.pem"
        certificate.private_key_and_cert_chain_pem.write_to_path(str(path))
        servers.append(_server(names, path))
    return _CONFIGURATION.format(servers="".join(servers))


def _server(names: str, certificate: Path) -> str:
    default = " default_server" if names == "_" else ""
    hosts = (world.WEB[0], f"[{world.WEB[1]}]")
    listen = [f"listen {host}:80{default}; listen {host}:443 ssl{default};" for host in hosts]
    return _SERVER.format(listen=" ".join(listen), names=names, certificate=certificate)
