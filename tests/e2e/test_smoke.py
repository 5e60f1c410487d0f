"""The network itself: what is there is there, and a step on forbidden ground is seen. No engine yet.

Every later claim that nothing was sent rests on the positive controls here.
"""

import http.client
import json
import os
import select
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import world
from tests.e2e.network import ROOT, Network, RunFailedError
from tests.e2e.nginx import FILES
from tests.support.data import corpus
from tests.support.isolation import NotIsolatedError, namespaces, require_isolation, require_separate

pytestmark = pytest.mark.e2e


# --- what runs inside ---------------------------------------------------------------------------------------


def resolve(name: str) -> list[str]:
    answers = socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)
    return sorted({str(answer[4][0]) for answer in answers})


def get(urls: list[str]) -> list[dict[str, Any]]:
    """Requests by the standard library, which trusts what SSL_CERT_FILE says."""
    return [_get(*url.split("/", 3)) for url in urls]


def _get(scheme: str, _: str, host: str, target: str) -> dict[str, object]:
    connect = http.client.HTTPSConnection if scheme == "https:" else http.client.HTTPConnection
    client = connect(host, timeout=10)
    try:
        client.request("GET", f"/{target}")
        response = client.getresponse()
        content = response.read()
    except OSError as error:
        return {"error": type(error).__name__}
    finally:
        client.close()
    return {"status": response.status, "size": len(content), "fields": dict(response.getheaders())}


def touch(addresses: list[list[Any]]) -> list[str]:
    """One TCP connection to each (address, port); what came of it."""
    return [_touch(address, port) for address, port in addresses]


def _touch(address: str, port: int) -> str:
    try:
        with socket.create_connection((address, port), timeout=5) as client:
            client.sendall(b"hello")
            return client.recv(1000).decode()
    except OSError as error:
        return type(error).__name__


def knock(address: str) -> bool:
    """Whether anything comes back within a moment of a connection attempt."""
    with socket.socket() as client:
        client.setblocking(False)
        client.connect_ex((address, 443))
        return bool(select.select([client], [client], [client], 0.2)[1])


def upload(size: int) -> int:
    client = http.client.HTTPSConnection("www.example.com", timeout=10)
    client.request("POST", "/refuses-uploads", body=bytes(size))
    with client.getresponse() as response:
        return response.status


def send_datagrams(addresses: list[str]) -> None:
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"hello", (address, 53))


def knock_on_a_neighbour(address: str) -> None:
    with socket.socket(socket.AF_INET6) as client:
        client.setblocking(False)
        client.connect_ex((address, 80, 0, socket.if_nametoindex(world.AGENT_INTERFACE)))


def connect_datagram_only(address: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.connect((address, 53))


def interfaces_and_files(_: object) -> dict[str, Any]:
    files = {name: Path("/etc", name).read_text() for name in ("resolv.conf", "hosts", "nsswitch.conf")}
    return {"interfaces": [name for _, name in socket.if_nameindex()], "files": files, "pid": os.getpid()}


def fail(text: str) -> None:
    print("printed before it failed")
    raise LookupError(text)


async def answer_in_trio(number: int) -> int:
    print("what is printed is not the result")
    return number + 1


# --- the harness refuses to touch the machine's own network -------------------------------------------------


def test_it_refuses_the_namespaces_of_the_session() -> None:
    with pytest.raises(NotIsolatedError, match="belongs to the machine itself"):
        require_isolation(namespaces(), ())


@pytest.mark.parametrize("outside", [[], ["net:[1]"], ["mnt:[1]", "mnt:[2]"], ["net:[1]", "net:[2]"]])
def test_it_must_be_told_what_to_stay_out_of(outside: list[str]) -> None:
    with pytest.raises(NotIsolatedError, match="one of each"):
        require_separate(namespaces(), outside)


def test_one_shared_namespace_is_one_too_many() -> None:
    net, mnt = namespaces()
    for outside in ([net, "mnt:[1]"], ["net:[1]", mnt]):
        with pytest.raises(NotIsolatedError):
            require_separate([net, mnt], outside)
    require_separate([net, mnt], ["net:[1]", "mnt:[1]"])


def test_it_refuses_an_interface_that_it_has_not_made() -> None:
    """Told of other namespaces, it still sees that this one has a way out (or may pass, if there is none)."""
    strange = {name for _, name in socket.if_nameindex()} - {"lo"}
    if not strange:
        pytest.skip("this machine has no interface but loopback")
    with pytest.raises(NotIsolatedError, match="has not made the interface"):
        require_isolation(["net:[1]", "mnt:[1]"], ())


@pytest.mark.parametrize("module", ["tests.e2e.internet", "tests.e2e.call"])
def test_its_programs_refuse_to_run_outside(module: str, tmp_path: Path) -> None:
    outside = namespaces()
    arguments = [str(tmp_path), *outside] if module.endswith("internet") else ["tests.e2e.test_smoke:resolve"]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | {"TIDEGATE_E2E_OUTSIDE": json.dumps(outside)},
        input='"www.example.com"',
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "NotIsolatedError: refusing to run" in done.stderr
    assert (done.stdout, list(tmp_path.iterdir())) == ("", [])


def test_the_list_of_forbidden_addresses_agrees_with_the_corpus() -> None:
    """D-6; written down twice on purpose, so that the engine's own table is not its own witness."""
    dialled = [
        row for row in corpus("addresses") if "%" not in row["ip"] and not row["ip"].startswith("::ffff:")
    ]
    wrong = [row["ip"] for row in dialled if world.is_forbidden(row["ip"]) is (row["expect"] == "public")]
    assert wrong == []


def test_every_sentinel_stands_on_forbidden_ground() -> None:
    assert [
        one for one in world.AGENT_SENTINELS + world.INTERNET_SENTINELS if not world.is_forbidden(one)
    ] == []


# --- what is there ------------------------------------------------------------------------------------------


def test_the_agent_has_one_link_and_its_own_files(network: Network) -> None:
    seen = network.run(interfaces_and_files)
    assert sorted(seen["interfaces"]) == [world.AGENT_INTERFACE, "lo"]
    assert seen["files"] == {
        "resolv.conf": world.RESOLV_CONF,
        "hosts": world.HOSTS,
        "nsswitch.conf": world.NSSWITCH_CONF,
    }
    assert Path("/etc/hosts").read_text() != world.HOSTS, "the machine's own file was mounted over"


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("www.example.com", sorted(world.WEB)),
        ("alias.example.com", sorted(world.WEB)),
        ("v6.example.com", [world.WEB[1]]),
        ("hosts-file.example.com", ["10.20.30.40"]),
    ],
)
def test_names_are_resolved_by_the_system(network: Network, name: str, addresses: list[str]) -> None:
    assert network.run(resolve, name) == addresses
    assert network.queries()[name, "A"] == (0 if name == "hosts-file.example.com" else 1)


def test_a_zone_can_be_changed_for_one_test(network: Network) -> None:
    network.set_zone({"new.example.com": [{"A": ["93.184.216.1"]}, {"A": ["93.184.216.2"]}]})
    assert network.run(resolve, "new.example.com") == ["93.184.216.1"]
    assert network.run(resolve, "new.example.com") == ["93.184.216.2"]
    assert network.queries()["new.example.com", "AAAA"] == 2
    network.clear()
    with pytest.raises(RunFailedError, match="gaierror"):
        network.run(resolve, "new.example.com")


def test_nginx_answers(network: Network) -> None:
    hosts = ["www.example.com", "v4.example.com", "v6.example.com", world.WEB[0], f"[{world.WEB[1]}]"]
    for seen in network.run(get, [f"{scheme}://{host}/" for scheme in ("http", "https") for host in hosts]):
        assert (seen["status"], seen["fields"]["Content-Type"]) == (200, "text/html")
        assert seen["fields"]["Server"].startswith("nginx")


def test_nginx_has_files_of_known_sizes_and_redirects(network: Network) -> None:
    files = network.run(get, [f"http://www.example.com/{name}" for name in FILES])
    assert [one["size"] for one in files] == [len(content) for content in FILES.values()]
    redirects = {
        "to-https": "https://www.example.com/",
        "to-other-origin": "https://other.example.org/data.json",
        "to-metadata": "http://169.254.169.254/latest/meta-data/",
        "to-private-name": "http://private.example.com/",
        "to-itself": "http://www.example.com/to-itself",
    }
    seen = network.run(get, [f"http://www.example.com/{name}" for name in redirects])
    assert [one["fields"]["Location"] for one in seen] == list(redirects.values())


def test_nginx_refuses_uploads(network: Network) -> None:
    assert network.run(upload, 1_000_000) == 413


def test_nginx_shows_bad_certificates(network: Network) -> None:
    bad = [world.EXPIRED, world.WRONG_NAME, world.UNTRUSTED]
    seen = network.run(get, [f"https://{host}/" for host in bad])
    assert seen == [{"error": "SSLCertVerificationError"}] * len(bad)


def test_the_hostile_origin_answers_and_remembers(network: Network) -> None:
    targets = [f"/content?size=70000&n={number}" for number in range(4)]
    origins = ["http://hostile.example.com", "https://hostile.example.com", f"http://{world.HOSTILE[0]}"]
    origins.append(f"https://[{world.HOSTILE[1]}]")
    seen = network.run(get, [origin + target for origin, target in zip(origins, targets, strict=True)])
    assert [(one["status"], one["size"]) for one in seen] == [(200, 70_000)] * 4
    requests = network.requests()
    assert [request["target"] for request in requests] == targets
    names = [(request["tls"] or {}).get("server_name") for request in requests]
    assert names == [None, "hostile.example.com", None, None]
    assert network.open_connections() == 0


def test_the_authority_is_handed_out(network: Network) -> None:
    context = ssl.create_default_context(cafile=network.authority)
    assert len(context.get_ca_certs()) == 1


def test_nobody_else_is_there(network: Network) -> None:
    addresses = [world.CLOSED, "8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"]
    assert network.run(touch, [[address, 443] for address in addresses]) == ["ConnectionRefusedError"] * 5


def test_a_black_hole_says_nothing(network: Network) -> None:
    assert not network.run(knock, world.BLACK_HOLE)
    assert network.run(knock, world.CLOSED)
    assert network.traffic().packets["tcp", world.BLACK_HOLE, 443] == 1


# --- positive controls: the witnesses are awake -------------------------------------------------------------


def _sentinels() -> list[str]:
    zone = {"fe80::1": f"fe80::1%{world.AGENT_INTERFACE}", "fe80::2": f"fe80::2%{world.AGENT_INTERFACE}"}
    return [zone.get(one, one) for one in dict.fromkeys(world.AGENT_SENTINELS + world.INTERNET_SENTINELS)]


def test_every_sentinel_answers_and_is_counted(network: Network) -> None:
    places = [(address, port) for address in _sentinels() for port in world.SENTINEL_PORTS]
    answers = network.run(touch, places)
    silent = [place for place, answer in zip(places, answers, strict=True) if "forbidden" not in answer]
    assert silent == []
    traffic = network.traffic()
    for place, port in places:
        address = place.partition("%")[0]
        assert traffic.connections[address, port] == 1
        assert traffic.packets["tcp", address, port] == 1
        assert traffic.received[address] == 5 * len(world.SENTINEL_PORTS)
    assert set(traffic.forbidden()) == {*world.AGENT_SENTINELS, *world.INTERNET_SENTINELS}
    network.clear()
    assert network.traffic().forbidden() == {}


def test_connections_are_counted_where_nobody_listens(network: Network) -> None:
    addresses = ["10.99.99.99", "127.9.9.9", "172.20.0.1", "fd12::1", "192.0.2.77"]
    network.run(touch, [[address, 4444] for address in addresses])
    assert network.traffic().packets == {("tcp", address, 4444): 1 for address in addresses}
    assert network.traffic().forbidden() == dict.fromkeys(addresses, 1)
    network.clear()


def test_the_unspecified_address_is_counted_as_loopback(network: Network) -> None:
    """Connecting to it is connecting to oneself."""
    network.run(touch, [["0.0.0.0", 4444]])
    assert network.traffic().forbidden() == {"127.0.0.1": 1}
    network.clear()


def test_datagrams_are_counted(network: Network) -> None:
    addresses = ["169.254.169.254", "127.0.0.1", "10.20.30.40", "::1", "fd00:ec2::254"]
    network.run(send_datagrams, addresses)
    assert network.traffic().packets == {("udp", address, 53): 1 for address in addresses}
    assert network.traffic().forbidden() == dict.fromkeys(addresses, 1)
    network.clear()


def test_a_neighbour_that_does_not_exist_is_counted(network: Network) -> None:
    network.run(knock_on_a_neighbour, "fe80::99")
    assert set(network.traffic().forbidden()) == {"fe80::99"}
    network.clear()


def test_a_connected_datagram_socket_sends_nothing(network: Network) -> None:
    """As the system's resolver makes them, to sort addresses; it must not count as a step."""
    network.run(connect_datagram_only, "10.20.30.40")
    assert network.traffic().forbidden() == {}


def test_the_own_address_is_watched_but_not_forbidden(network: Network) -> None:
    """D-7: it takes a connection to find out that a peer is oneself; not one byte may follow."""
    assert "forbidden" in network.run(touch, [[world.AGENT_LINK[0], 80]])[0]
    traffic = network.traffic()
    assert traffic.connections[world.AGENT_LINK[0], 80] == 1
    assert (traffic.received, traffic.forbidden()) == ({world.AGENT_LINK[0]: 5}, {})


def test_public_traffic_is_counted_and_not_forbidden(network: Network) -> None:
    network.run(get, ["https://v4.example.com/"])
    traffic = network.traffic()
    assert traffic.packets == {("tcp", world.WEB[0], 443): 1, ("udp", world.NAMESERVER, 53): 2}
    assert traffic.forbidden() == {}


# --- how tests use it ---------------------------------------------------------------------------------------


def test_an_async_function_is_run_by_trio(network: Network) -> None:
    assert network.run(answer_in_trio, 1) == 2
    assert network.run("tests.e2e.test_smoke:answer_in_trio", 2) == 3


def test_what_a_function_raises_comes_back(network: Network) -> None:
    with pytest.raises(RunFailedError, match=r"(?s)printed before it failed.*LookupError: no such luck"):
        network.run(fail, "no such luck")


def test_a_program_is_run_with_its_input_and_environment(network: Network) -> None:
    done = network.command(
        ["sh", "-c", 'cat; echo "$COLOUR" >&2; exit 7'], stdin="in", environment={"COLOUR": "blue"}
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "in", "blue\n")


def test_what_does_not_end_is_killed(network: Network) -> None:
    with pytest.raises(RunFailedError, match=r"did not end within 0\.2 seconds"):
        network.command(["sleep", "600"], timeout=0.2)


def test_an_order_that_fails_leaves_the_network_usable(network: Network) -> None:
    with pytest.raises(RunFailedError, match=r"'x\.example'"):
        network.set_zone({"x.example": 5})
    assert network.run(answer_in_trio, 1) == 2
