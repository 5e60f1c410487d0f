"""`tidegate fetch` against a live origin: what is sent, what is printed, and what a refusal says."""

import base64
import json
import shutil
import subprocess

import pytest

from tests.tools.cli.conftest import Command, Origin
from tidegate.testing.origin import content_of


def sent(outcome) -> dict:
    """What the origin's `/echo` saw."""
    return json.loads(outcome.out)


def field(echo: dict, name: str) -> list[str]:
    return [value for key, value in echo["headers"] if key.lower() == name.lower()]


# What is sent ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "method", "content", "content_type"),
    [
        ([], "GET", b"", []),
        (["-X", "DELETE"], "DELETE", b"", []),
        (["-d", "a=1"], "POST", b"a=1", ["application/x-www-form-urlencoded"]),
        (["-d", "a=1", "-d", "b=2"], "POST", b"a=1&b=2", ["application/x-www-form-urlencoded"]),
        (["-d", "a=1", "-X", "PUT", "-H", "content-type: text/plain"], "PUT", b"a=1", ["text/plain"]),
        (["-d", ""], "POST", b"", ["application/x-www-form-urlencoded"]),
        (["-d", "@body.bin"], "POST", b"\x00\r\n\xff", ["application/x-www-form-urlencoded"]),
        (["--json-body", '{"a": [1]}'], "POST", b'{"a": [1]}', ["application/json"]),
        (["--json-body", "@body.json"], "POST", b"[]\n", ["application/json"]),
    ],
)
def test_method_and_content(
    options, method, content, content_type, command: Command, origin: Origin, in_directory
):
    (in_directory / "body.bin").write_bytes(b"\x00\r\n\xff")
    (in_directory / "body.json").write_bytes(b"[]\n")
    echo = sent(command("fetch", f"{origin.plain}/echo", *options))
    assert echo["method"] == method
    assert base64.b64decode(echo["content_base64"]) == content
    assert field(echo, "content-type") == content_type


def test_fields_are_sent_as_given(command: Command, origin: Origin):
    echo = sent(
        command(
            "fetch", f"{origin.plain}/echo", "-H", "X-One:1", "-H", "Accept:  text/html ", "-H", "X-None:"
        )
    )
    assert field(echo, "x-one") == ["1"]
    assert field(echo, "accept") == ["text/html"]
    assert field(echo, "x-none") == [""]


def test_credentials_stay_within_their_origin(command: Command, origin: Origin):
    """D-22: the person at the shell gave them for that origin, and for no other."""
    secret = ("-H", "Authorization: Bearer s3cret")
    within = sent(command("fetch", "-L", f"{origin.plain}/redirect?to=/echo", *secret))
    assert field(within, "authorization") == ["Bearer s3cret"]
    elsewhere = f"{origin.plain}/redirect?to={origin.tls}/echo"
    assert field(sent(command("fetch", "-L", elsewhere, "--ca", origin.ca, *secret)), "authorization") == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["-H", "Authorization Bearer s3cret"], "with a colon"),
        (["-H", "X-Twice: 1", "-H", "x-twice: 2"], "given twice"),
        (["-d", "@no-such-file"], "cannot be read: No such file"),
        (["-d", "@."], "cannot be read: Is a directory"),
        (["-d", "x", "--json-body", "{}"], "exclude each other"),
        (["--json-body", "{'a': 1}"], "--json-body: not JSON"),
        (["--json-body", "NaN"], "--json-body: not strict JSON"),
        (["--json-body", "@latin.json"], "--json-body: not UTF-8"),
        (["-X", "get"], "method must be one of GET, HEAD"),
        (["-X", ""], "method must be one of GET, HEAD"),
        (["-o", "x" * 300], "File name too long"),
        (["-H", ""], "with a colon"),
        (["-H", ": x"], "is not a token"),
        (["-o", "x", "-O"], "-o and -O exclude each other"),
        (["-o", "."], "is a directory"),
        (["-o", ""], "is a directory"),
        (["-o", "no/such/directory"], "there is no directory"),
        (["--continue"], "--continue needs -o FILE"),
        (["--continue", "-O"], "--continue needs -o FILE"),
        (["--continue", "-o", "-"], "--continue needs -o FILE"),
        (["--max-bytes", "1.5M"], "is no size"),
        (["--max-bytes", "-1"], "is no size"),
        (["--max-bytes", "2000G"], "is no size"),
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "3601"], "--timeout"),
        (["--timeout", "nan"], "timeout must be a number of seconds"),
        (["--timeout", "soon"], "--timeout"),
        (["--max-redirects", "21"], "--max-redirects"),
        (["--no-such-option"], "No such option"),
        (["http://second.example/"], "unexpected extra argument"),
        (["--allow-private", "10.0.0.0/8"], "is not CIDR=HOST"),
        (["--allow-private", "10.0.0.1/8=a.example"], "is no CIDR block"),
        (["--allow-private", "10.0.0.0/8=*"], "name the hosts instead"),
        (["--allow-private", "169.254.0.0/16=a.example"], "can not be admitted by any rule"),
        (["--resolve", "a.example"], "is not HOST=ADDRESS"),
        (["--resolve", "a.example=b.example"], "--resolve: 'b.example'"),
        (["--nameserver", "nope"], "--nameserver: nameserver 'nope'"),
        (["--resolve", "127.1=127.0.0.1"], "is no host name"),
        (["--nameserver", "dns.example"], "is no address"),
        (["--ca", "no-such-file"], "no-such-file cannot be read"),
        (["--ca", ""], "cannot be read"),
        (["--ca", "latin.json"], "cannot be read as PEM"),
        (["--policy", "no-such-file"], "no-such-file: cannot be read: No such file"),
        (["--policy", "latin.json"], "is not UTF-8"),
    ],
)
def test_wrong_options_are_one_sentence(options, problem, command: Command, origin: Origin, in_directory):
    """Nothing is sent, the exit code is 2, and the secret in a field that lacks its colon is not repeated."""
    (in_directory / "latin.json").write_bytes(b'"\xe9"')
    ended = command("fetch", f"{origin.plain}/echo", *options)
    assert (ended.code, ended.out) == (2, b"")
    assert problem in ended.err
    assert ended.err.count("\n") == 1
    assert "s3cret" not in ended.err
    assert command("fetch", f"{origin.plain}/echo", "--json", *options).json["error"]["reason"] in (
        "usage",
        "invalid_field",
        "invalid_argument",
    )


def test_an_address_of_the_operator_goes_through_the_floor(bare: Command):
    """--resolve is no way around: what it names is checked like any other answer."""
    ended = bare(
        "fetch", "http://a.example/", "--resolve", "a.example=8.8.8.8", "--resolve", "a.example=10.0.0.1"
    )
    assert ended.code == 10
    assert "(private)" in ended.err
    assert "10.0.0.1" not in ended.err


# What is printed ------------------------------------------------------------------------------------------


def test_content_is_printed_as_it_came(command: Command, origin: Origin):
    assert command("fetch", f"{origin.plain}/content?size=100000").out == content_of(100_000)


def test_content_codings_are_undone_unless_the_caller_asked_for_them(command: Command, origin: Origin):
    """D-3."""
    assert command("fetch", f"{origin.plain}/bomb?size=1000").out == bytes(1000)
    asked = command("fetch", f"{origin.plain}/bomb?size=1000", "-H", "Accept-Encoding: gzip")
    assert asked.out.startswith(b"\x1f\x8b")


def test_the_head_is_printed_with_include_and_for_head_requests(command: Command, origin: Origin):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
    assert command("fetch", f"{origin.plain}/content?size=4", "-i").out == head + b"0123"
    assert command("fetch", f"{origin.plain}/content?size=4", "-X", "HEAD").out == head


def test_a_cut_is_told_and_quiet_is_quiet(command: Command, origin: Origin):
    """D-4: not an error; but nobody should take the half for the whole."""
    url = f"{origin.plain}/content?size=100"
    told = command("fetch", url, "--max-bytes", "10")
    assert (told.code, told.out) == (0, b"0123456789")
    assert told.err == "tidegate: the content is cut after 10 bytes (--max-bytes)\n"
    assert command("fetch", url, "--max-bytes", "10", "-q").err == ""
    assert command("fetch", url, "--max-bytes", "100").err == ""


def test_content_that_nothing_proves_whole_is_told(command: Command, origin: Origin):
    """D-5: TLS that ends without close_notify and no length."""
    url = f"{origin.tls}/content?framing=eof&then=cut&size=5"
    told = command("fetch", url, "--ca", origin.ca)
    assert (told.code, told.out) == (0, b"01234")
    assert "nothing proves that the content is whole" in told.err
    assert command("fetch", url, "--ca", origin.ca, "--fail-on-truncate").code == 15


def test_errors_are_told_in_quiet_too(command: Command, origin: Origin):
    assert command("fetch", f"{origin.plain}/nothing", "-q").err == "tidegate: HTTP 404 Not Found\n"


def test_a_redirect_that_is_not_followed_says_where_it_leads(command: Command, origin: Origin):
    ended = command("fetch", f"{origin.plain}/redirect?to=/echo")
    assert ended.err == f"tidegate: HTTP 302 Found to {origin.plain}/echo; -L follows it\n"
    asked = command("fetch", f"{origin.plain}/redirect?to=/echo", "--max-redirects", "0")
    assert (asked.code, asked.err) == (3, f"tidegate: HTTP 302 Found to {origin.plain}/echo\n")
    assert command("fetch", f"{origin.plain}/redirect?to=/echo", "--max-redirects", "1").code == 0


@pytest.mark.parametrize(
    ("status", "location", "told"),
    [
        ("302 Found", "http://x.example/p?code=SECRETCODE", "to http://x.example/p; -L follows it"),
        ("302 Found", "http://u:PASSW@x.example/p?code=SECRETCODE", "; where it leads nothing can follow: "),
        ("302 Found", "mailto:SECRETCODE", "; where it leads nothing can follow: "),
        ("302 Found", "/%C3%A9?code=SECRETCODE", "/%C3%A9; -L follows it"),
        ("302 Found", "", "302 Found\n"),
        ("304 Not Modified", "/p?code=SECRETCODE", "304 Not Modified\n"),
        ("302 Trouv%C3%A9", "", "HTTP 302 Trouv\u00e9\n"),
    ],
)
def test_where_a_redirect_leads_is_told_without_secrets(status, location, told, command, origin):
    """A code of OAuth stands in the query; and -L is named only where it would help."""
    head = f"HTTP/1.1 {status}%0D%0ALocation: {location.replace('%', '%25').replace('?', '%3F')}%0D%0A"
    if "%C3" in location:
        head = head.replace("%25C3%25A9", "%C3%A9")
    url = f"{origin.plain}/raw?bytes={head}Content-Length: 0%0D%0A%0D%0A".replace(" ", "%20")
    ended = command("fetch", url)
    assert ended.code == 3
    assert told in ended.err
    assert ("-L" in ended.err) == ("-L" in told)
    assert "SECRETCODE" not in ended.err
    assert "PASSW" not in ended.err


def test_the_json_object(command: Command, origin: Origin):
    url = f"{origin.tls}/content?size=5&field=Content-Type:text/plain&field=X-A:1&field=X-A:2"
    told = command("fetch", url, "--json", "--ca", origin.ca).json
    (hop,) = told.pop("hops")
    assert told.pop("duration") > 0
    assert told.pop("url").startswith(f"{origin.tls}/content")
    headers = [["Content-Length", "5"], ["Content-Type", "text/plain"], ["X-A", "1"], ["X-A", "2"]]
    assert told == {
        "ok": True,
        "exit_code": 0,
        "status": 200,
        "reason_phrase": "OK",
        "http_version": "1.1",
        "headers": headers,
        "trailers": [],
        "content": "01234",
        "content_base64": None,
        "content_bytes": 5,
        "wire_bytes": 5,
        "truncated": False,
        "complete": True,
        "codings": [],
        "file": None,
    }
    assert (hop["method"], hop["status"], hop["peer"], hop["tls_version"]) == (
        "GET",
        200,
        "127.0.0.1",
        "TLSv1.3",
    )
    assert all(seconds >= 0 for seconds in hop["timings"].values())


@pytest.mark.parametrize(
    ("media_type", "content", "text"),
    [
        ("text/plain", "%e4%b8%ad", "中"),
        ("text/plain;charset=windows-1252", "%e9", "é"),
        ("image/png", "%89PNG", None),
        ("application/octet-stream", "abc", None),
    ],
)
def test_json_holds_text_in_its_charset_and_everything_else_in_base64(
    media_type, content, text, command, origin
):
    head = f"HTTP/1.1 200 OK%0D%0AContent-Type: {media_type}%0D%0A%0D%0A".replace(" ", "%20")
    told = command("fetch", f"{origin.plain}/raw?bytes={head}{content}", "--json").json
    assert told["content"] == text
    assert (told["content_base64"] is None) == (text is not None)


def test_json_keeps_four_mebibytes_and_says_so(command: Command, origin: Origin):
    """D-25; content that goes to a pipe is not kept, so there it is not cut."""
    url = f"{origin.plain}/content?size=5000000"
    told = command("fetch", url, "--json").json
    assert (told["content_bytes"], told["truncated"], told["complete"]) == (4 << 20, True, False)
    assert len(command("fetch", url).out) == 5_000_000


def test_json_cuts_text_between_characters(command: Command, origin: Origin):
    head = "HTTP/1.1 200 OK%0D%0AContent-Length: 6%0D%0A%0D%0A".replace(" ", "%20")
    url = f"{origin.plain}/raw?bytes={head}%e4%b8%ad%e4%b8%ad"
    assert command("fetch", url, "--json", "--max-bytes", "5").json["content"] == "中"


# What a refusal says --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            "http://169.254.169.254/latest/?secret=1",
            "denied by the check of addresses at hop 0 (imds): 169.254.169.254 is a cloud metadata or"
            " platform address; nothing can allow it",
        ),
        (
            "ftp://a.example/",
            "denied by the check of url at hop 0 (unsupported_scheme): The scheme of the URL is neither"
            " https nor http; no setting can allow it",
        ),
        (
            "http://10.1.2.3/",
            "to allow it: --allow-private 10.1.2.3=10.1.2.3, or private_ranges in the policy file",
        ),
        ("http://[::1]/", "to allow it: --allow-private ::1=::1, or private_ranges in the policy file"),
        (
            "http://localhost/",
            "to allow it: --allow-private CIDR=localhost, or private_ranges in the policy file",
        ),
        ("http://a.example:22/", "to allow it: ports in the policy file, or hosts there if it has no ports"),
    ],
)
def test_a_refusal_names_the_check_and_the_way_out(url, sentence, bare: Command):
    ended = bare("fetch", url)
    assert ended.code == 10
    assert sentence in ended.err
    assert "secret" not in ended.err


LITERALS = [
    ("10.1.2.3", True),
    ("100.64.0.1", True),
    ("127.0.0.1", True),
    ("240.0.0.1", True),
    ("255.255.255.255", False),
    ("169.254.169.254", False),
    ("224.0.0.1", False),
    ("[::1]", True),
    ("[fc00::1]", True),
    ("[::ffff:10.1.2.3]", True),
    ("[::ffff:169.254.169.254]", False),
    ("[64:ff9b::a9fe:a9fe]", False),
]


@pytest.mark.parametrize(("host", "can"), LITERALS)
def test_what_the_way_out_names_is_the_way_out(host, can, bare: Command):
    """The option that a refusal suggests lets that very address pass; where none would, none is named."""
    url = f"http://{host}:8080/"
    ended = bare("check", url)
    assert ended.code == 10
    _, suggests, suggestion = ended.out.decode().partition("to allow it: ")
    assert bool(suggests) == can
    if can:
        option, value = suggestion.split(",")[0].split(" ")
        assert bare("check", url, option, value).code == 0
    else:
        assert "can allow it" in ended.out.decode()


def test_a_refusal_at_a_later_hop_says_where(command: Command, origin: Origin):
    ended = command("fetch", "-L", f"{origin.plain}/redirect?to=http://10.0.0.1/x?y", "--json")
    assert "at hop 1, http://10.0.0.1/x (private)" in ended.err
    error = ended.json["error"]
    assert (error["hop"], error["url"], error["phase"], error["check"]) == (
        1,
        "http://10.0.0.1/x",
        "check",
        "addresses",
    )
    assert [hop["status"] for hop in ended.json["hops"]] == [302]


@pytest.mark.parametrize(
    ("location", "reason", "code"),
    [
        ("ftp://a.example/", "unsupported_scheme", 10),
        ("http://user:secret@a.example/", "userinfo_not_allowed", 16),
        ("http://a.example:99999/", "invalid_port", 16),
        ("http://2130706433/", "non_canonical_ip", 10),
    ],
)
def test_a_redirect_to_what_is_no_url_is_the_peers_mistake(
    location: str, reason: str, code: int, command: Command, origin: Origin
):
    """Neither is it told as if the user's own URL were wrong, nor is the answer that led there left out."""
    url = f"{origin.plain}/redirect?to={location}"
    ended = command("fetch", "-L", url, "--json")
    assert ended.code == code
    assert f"redirect 1, by {origin.plain}/redirect, is refused ({reason}):" in ended.err
    assert "secret" not in ended.err
    assert (ended.json["error"]["phase"], ended.json["error"]["hop"]) == ("redirect", 0)
    assert [hop["status"] for hop in ended.json["hops"]] == [302]


def test_the_last_of_too_many_redirects_was_answered(command: Command, origin: Origin):
    ended = command("fetch", "--max-redirects", "2", f"{origin.plain}/endless-redirects", "--json")
    assert ended.json["error"]["reason"] == "too_many_redirects"
    assert len(ended.json["hops"]) == 3


# -v and --timings -----------------------------------------------------------------------------------------


def test_verbose_tells_each_step_of_each_hop(command: Command, origin: Origin):
    url = f"{origin.plain}/redirect?to={origin.tls}/content"
    told = command("fetch", "-L", "-v", url, "--ca", origin.ca).err
    for expected in (
        "* hop 0: GET http://origin.example",
        "origin.example has the address 127.0.0.1",
        "* hop 0: 302 from 127.0.0.1, no TLS, new connection",
        "* hop 1: GET https://origin.example",
        "*   tls ",
        "connected to 127.0.0.1 port ",
        "* hop 1: 200 from 127.0.0.1, TLSv1.3, new connection, 1000 content bytes",
    ):
        assert expected in told
    assert all(line.startswith("* ") for line in told.splitlines())


def test_verbose_names_the_phase_that_failed(command: Command, origin: Origin):
    told = command("fetch", "-v", f"{origin.plain}/hold", "--timeout", "0.2").err
    assert "FAILED: timeout" in told
    assert "*   head " in told


def test_timings_are_shown_of_a_failure_too(command: Command, origin: Origin):
    whole = command("fetch", "--timings", f"{origin.plain}/content").err
    assert "-> 200" in whole
    assert "total " in whole
    broken = command("fetch", "--timings", f"{origin.plain}/hold", "--timeout", "0.2").err
    assert "xxx" in broken


# As good as curl ------------------------------------------------------------------------------------------

PATHS = [
    *(
        f"/content?size={size}&framing={framing}"
        for size in (0, 1, 65536, 300_000)
        for framing in ("length", "chunked", "eof")
    ),
    *(f"/content?status={status}&size=3" for status in (201, 203, 226, 404, 410, 500, 599)),
    "/content?status=204",
    "/content?status=304",
    "/bomb?size=100000&coding=gzip",
    "/bomb?size=100000&coding=deflate",
    "/redirect?to=/content",
    "/redirect?to=//{host}/content?size=9",
    "/redirect?to=content%20with/../content?a=%20b",
    "/drip-content?size=5&interval=0.01",
    "/drip-interim?count=3&interval=0.01",
    "/half-close",
    "/content/%7Euser/a%20b?q=%20&size=12",
    "/content;p=1?size=7#fragment",
]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("path", PATHS)
def test_the_same_bytes_as_curl(path, command: Command, origin: Origin):
    host = origin.plain.removeprefix("http://")
    url = origin.plain + path.format(host=host)
    pinned = f"{host}:127.0.0.1"
    curl = subprocess.run(
        ["curl", "-q", "-sS", "-L", "--compressed", "--noproxy", "*", "--resolve", pinned, url],
        capture_output=True,
    )
    ended = command("fetch", "-L", url)
    assert curl.returncode == 0, curl.stderr
    assert ended.out == curl.stdout
