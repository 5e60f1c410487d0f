"""Loading: what cannot be read, environment substitution, front matter, and keys of the host."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_tools.web_request.document import MAX_BYTES, MAX_VALUES, Document, front_matter, parse_yaml
from tidegate_tools.web_request.explain import shown
from tidegate_tools.web_request.files import GlobalConfig
from tidegate_tools.web_request.loading import _validated, load_agent, load_global_config
from tidegate_tools.web_request.merge import BUILT_IN
from tidegate_tools.web_request.mistakes import ConfigError, Mistake, dotted
from tidegate_tools.web_request.project import load_project
from tidegate_tools.web_request.substitution import substitute, substitute_text
from tidegate_tools.web_request.suffixes import public_suffix_kind

# Environment substitution ---------------------------------------------------------------------------------

ENVIRONMENT = {"HOST": "api.example.com", "A": "$HOST", "EMPTY": "", "_x1": "under"}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$HOST", "api.example.com"),
        ("%HOST%", "api.example.com"),
        ("https://$HOST/x", "https://api.example.com/x"),
        ("$HOST$HOST", "api.example.comapi.example.com"),
        ("%HOST%%HOST%", "api.example.comapi.example.com"),
        ("$HOSTS", "$HOSTS"),
        ("$UNSET %UNSET%", "$UNSET %UNSET%"),
        ("$$HOST", "$HOST"),
        ("%%HOST%%", "%HOST%"),
        ("$$$HOST", "$$HOST"),
        ("$A", "$HOST"),
        ("$EMPTY.", "."),
        ("$_x1", "under"),
        ("$1 100% %20%41 ${HOST} $ %", "$1 100% %20%41 ${HOST} $ %"),
        ("$host", "$host"),
        ("", ""),
    ],
)
def test_substitution(text: str, result: str) -> None:
    """W-D2, section C: once, texts only; escapes; what is not set stays; values are not searched again."""
    assert substitute_text(text, ENVIRONMENT) == result


def test_substitution_reaches_texts_only() -> None:
    """Section C: keys, numbers, booleans and nothing stay as they are."""
    value = {"$HOST": ["$HOST", 1, True, None, {"deep": "%HOST%"}]}
    assert substitute(value, ENVIRONMENT) == {
        "$HOST": ["api.example.com", 1, True, None, {"deep": "api.example.com"}]
    }


def test_secret_references_pass_untouched() -> None:
    """W-150, W-D5: `{env: NAME}` stays a reference; only vaults and identities are places for variables."""
    headers = {
        "A": {"env": "HOST"},
        "B": {"env": "$HOST"},
        "C": "$HOST",
        "D": {"file": "$HOST"},
        "E": {"unknown": "$HOST"},
        "F": {"key_vault": {"vault": "$HOST", "name": "%HOST%"}},
        "G": {"managed_identity": {"resource": "$HOST"}},
    }
    replaced = substitute({"auth": [{"host": "$HOST", "headers": headers}]}, ENVIRONMENT)
    assert replaced["auth"][0] == {
        "host": "api.example.com",
        "headers": {
            **headers,
            "F": {"key_vault": {"vault": "api.example.com", "name": "api.example.com"}},
            "G": {"managed_identity": {"resource": "api.example.com"}},
        },
    }


def test_the_environment_of_the_process_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-D2."""
    monkeypatch.setenv("TIDEGATE_TEST_HOST", "api.example.com")
    loaded = load_global_config(
        _write(tmp_path, "system_tools: {web_request: {allowed_hosts: [$TIDEGATE_TEST_HOST]}}")
    )
    assert not isinstance(loaded.value.web_request, bool | None)
    assert loaded.value.web_request.allowed_hosts == ("api.example.com",)


# Files that cannot be read --------------------------------------------------------------------------------


def _write(folder: Path, content: str | bytes, name: str = "agents.config.yaml") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def _mistakes(path: Path) -> tuple[Mistake, ...]:
    with pytest.raises(ConfigError) as caught:
        load_global_config(path, environment={})
    return caught.value.mistakes


@pytest.mark.parametrize(
    ("content", "problem", "line"),
    [
        (b"a: \xff\n", "is not UTF-8 text", 1),
        (b"a: 1\nb: \xe9\n", "is not UTF-8 text", 2),
        (b"\xff\xfea\x00", "is not UTF-8 text", 1),
        (b"x" * (MAX_BYTES + 1), f"has more than {MAX_BYTES} bytes", None),
        (b"a: \x01\n", "holds a character that YAML does not allow", None),
        (b"model: a\nb: [1, 2\n", "is no YAML", 3),
        (b"system_tools:\n\tweb_request: false\n", "is no YAML", 2),
        (b"a: 1\n---\nb: 2\n", "is no YAML", 2),
        (b"%YAML 1.1\n---\nsystem_tools: {web_request: no}\n", "has a %YAML directive", None),
        (b"- a\n", "is no mapping of keys to values", 1),
        (b"just a text\n", "is no mapping of keys to values", 1),
        (b"[" * 500, "is nested too deeply", None),
        (b"tools: 2001-99-99\n", "cannot be read as the number or date", 1),
        (b"tools: " + b"9" * 5000 + b"\n", "cannot be read as the number or date", 1),
        (b"=: 1\n", "has a key that is no text", 1),
        (b"? [a]\n: 1\n", "has a key that is no text", 1),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, content: bytes, problem: str, line: int | None) -> None:
    """D-19: a file that is no configuration is refused, with the line where there is one."""
    path = _write(tmp_path, content)
    mistake = _mistakes(path)[0]
    assert mistake.problem.startswith(problem)
    assert (mistake.file, mistake.line) == (str(path), line)


def test_a_missing_file(tmp_path: Path) -> None:
    """A file that is named has to be there; a folder is no file."""
    assert _mistakes(tmp_path / "nope.yaml")[0].problem == NOT_THERE
    assert _mistakes(tmp_path)[0].problem == "is no regular file"


NOT_THERE = "cannot be read: No such file or directory"


@pytest.mark.parametrize("name", ["nope.yaml", "agents.config.yaml", "folder", "folder/agents.config.yaml"])
def test_a_project_that_is_named_has_to_be_there(name: str, tmp_path: Path) -> None:
    """What is not mounted is no configuration that leaves everything open; nor is a link to nowhere."""
    assert _project_mistakes(tmp_path / name) == [(Path(name).name, NOT_THERE)]
    (tmp_path / "link").symlink_to(tmp_path / name)
    assert _project_mistakes(tmp_path / "link") == [("link", NOT_THERE)]


def test_an_empty_path_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a variable that is not set: the current folder may have no configuration at all."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="the path of the configuration is empty"):
        load_project("")
    assert not load_project(".", environment={}).agents


def _project_mistakes(path: Path) -> list[tuple[str, str]]:
    """The files, from the folder of the project, and what is wrong with each."""
    with pytest.raises(ConfigError) as caught:
        load_project(path, environment={})
    root = path if path.is_dir() else path.parent
    return [(mistake.file.removeprefix(f"{root}/"), mistake.problem) for mistake in caught.value.mistakes]


@pytest.mark.parametrize("name", ["agents.config.yaml", "main.agent.md", "agents", "Agents"])
@pytest.mark.parametrize(
    ("target", "problem"),
    [("nowhere", NOT_THERE), (None, "cannot be read: Too many levels of symbolic links")],
)
def test_a_link_that_leads_nowhere_is_there(
    target: str | None, problem: str, name: str, tmp_path: Path
) -> None:
    """A mount that is missing must not drop the list, the switch and the ceiling in silence."""
    (tmp_path / name).symlink_to(target or tmp_path / name)
    assert _project_mistakes(tmp_path) == [(name, problem)]


def test_links_that_lead_somewhere_are_followed(tmp_path: Path) -> None:
    """As container platforms mount configurations."""
    data, folder = tmp_path / "data", tmp_path / "folder"
    data.mkdir()
    folder.mkdir()
    _write(data, "tools: false", "config")
    _write(data, "", "main.agent.md")
    (folder / "agents.config.yaml").symlink_to(data / "config")
    (folder / "agents").symlink_to(data)
    project = load_project(folder, environment={})
    assert project.global_config.value.tools_disabled
    assert list(project.agents) == ["main"]


@pytest.mark.parametrize(
    "name", ["Agents.config.yaml", "AGENTS.CONFIG.YAML", "agents.config.YAML", "Agents.Config.yml"]
)
def test_a_configuration_in_other_letters_is_not_overlooked(name: str, tmp_path: Path) -> None:
    """Agents are found in any letter case, so nobody would expect this."""
    _write(tmp_path, "tools: false", name)
    assert _project_mistakes(tmp_path) == [(name, "is read by nobody under this name")]
    assert load_project(tmp_path / name, environment={}).global_config.value.tools_disabled


@pytest.mark.parametrize("name", ["agents.config.yaml", "main.agent.md", "agents/main.agent.md"])
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_what_is_no_regular_file_is_not_waited_for(kind: str, name: str, tmp_path: Path) -> None:
    """A pipe without a writer, and a device without an end."""
    (tmp_path / "agents").mkdir()
    if kind == "fifo":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    assert _project_mistakes(tmp_path) == [(name, "is no regular file")]


def test_an_agent_is_no_project(tmp_path: Path) -> None:
    assert _project_mistakes(_write(tmp_path, "---\n---\n", "crm.agent.md")) == [
        ("crm.agent.md", "is a single agent; name the folder")
    ]


UNPRIVILEGED = """
import os, sys
from tidegate_tools.cli import main
from tidegate_tools.web_request.mistakes import ConfigError
from tidegate_tools.web_request.project import load_project
def commands(path):
    tool = ["tool", "web_request", "{}", "--config"]
    return [int(main([*command, path])) for command in (["config", "check"], tool)]
for path in ("nowhere", sys.argv[-1]):  # imports what is needed: the interpreter may not be for everybody
    commands(path)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for path in sys.argv[1:]:
    try:
        load_project(path)
    except ConfigError as error:
        print(*(mistake.problem for mistake in error.mistakes))
    print(commands(path))
"""


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
def test_a_folder_that_may_not_be_read(mode: int) -> None:
    """Not listed, or not entered: who may not see whether there is a configuration stops."""
    with tempfile.TemporaryDirectory() as name:
        outer, folder = Path(name), Path(name) / "folder"
        outer.chmod(0o755)
        folder.mkdir()
        _write(folder, "tools: false")
        config = _write(outer, "system_tools: {web_request: {ca_file: folder/ca.pem}}", "other.yaml")
        folder.chmod(mode)
        try:
            done = subprocess.run(
                [sys.executable, "-c", UNPRIVILEGED, folder, folder / "below", config],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            folder.chmod(0o755)
    denied = "cannot be read: Permission denied"
    below, ca_file = (NOT_THERE, "there is no such file") if mode == 0o111 else (denied, denied)
    assert done.stdout.splitlines() == [denied, "[2, 2]", below, "[2, 2]", ca_file, "[2, 2]"], done.stderr


@pytest.mark.parametrize(
    "content", ["", "\n", "# nothing\n", "---\n", "{}", "\ufeffmodel: gpt-4o\n", "model: a\r\n"]
)
def test_files_without_our_block(tmp_path: Path, content: str) -> None:
    """W-7, W-73: on, with defaults; a byte order mark and Windows line ends are no matter."""
    assert load_global_config(_write(tmp_path, content), environment={}).value == GlobalConfig()


def test_aliases_are_followed_within_bounds(tmp_path: Path) -> None:
    """Aliases are fine; a few lines of them must not become billions of values."""
    loaded = load_global_config(
        _write(
            tmp_path,
            "system_tools:\n  web_request:\n    auth:\n"
            "      - {host: a.example, headers: &h {X-Key: {env: A}}}\n"
            "      - {host: b.example, headers: *h}\n",
        ),
        environment={},
    )
    assert not isinstance(loaded.value.web_request, bool | None)
    assert [len(profile.headers) for profile in loaded.value.web_request.auth or ()] == [1, 1]
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    bomb = parse_yaml(f"a0: &a0 [x]\n{levels}", "bomb.yaml")
    assert [mistake.problem for mistake in bomb.mistakes] == [f"has more than {MAX_VALUES} values"]


def test_an_anchor_may_be_used_anew() -> None:
    """YAML 1.2 7.1: the last one counts; a warning of the parser's would go nowhere that anybody looks."""
    assert parse_yaml("a: &x 1\nb: &x 2\nc: *x\n", "f").data == {"a": 1, "b": 2, "c": 2}


def test_deep_chains_of_aliases_end() -> None:
    """Each text nests little; together they nest beyond what the interpreter can follow."""
    deep = "[" * 100, "]" * 100
    chain = "".join(f"a{n}: &a{n} {deep[0]}{f'*a{n - 1}' if n else 'x'}{deep[1]}\n" for n in range(20))
    assert [mistake.problem for mistake in parse_yaml(chain, "chain.yaml").mistakes] == [
        "is nested too deeply"
    ]


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Whatever the text, there is a document and a list of mistakes, never another exception."""
    assert isinstance(parse_yaml(text, "any.yaml"), Document)


_KEYS = st.sampled_from([
    "auth", "headers", "env", "allowed_hosts", "private_ranges", "hosts", "cidr", "request_rules", "paths",
])  # fmt: skip
_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(_VALUES)
def test_no_values_break_the_explanation(value: object) -> None:
    """Whatever stands where, the answer is a configuration or a list of mistakes that prints."""
    document = Document("any.yaml", {"system_tools": {"web_request": value}})
    try:
        _validated(GlobalConfig, document, {}, ())
    except ConfigError as error:
        lines = str(error).splitlines()[1:]
    else:
        lines = []
    assert all(line.startswith("  any.yaml: system_tools.web_request") for line in lines)


# Lines ----------------------------------------------------------------------------------------------------


def test_lines_of_keys_and_items() -> None:
    """D-19: a mistake names the line of its key, or of its item in a list."""
    document = parse_yaml("a:\n  b:\n    - 1\n    - 2\n  c: {d: 1,\n    e: 2}\n", "f", first_line=10)
    lines = {dotted(path): line for path, line in document.lines.items()}
    assert lines == {"a": 10, "a.b": 11, "a.b[0]": 12, "a.b[1]": 13, "a.c": 14, "a.c.d": 14, "a.c.e": 15}
    assert document.line(("a", "c", "missing", 3)) == 14
    assert document.line(("missing",)) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("---\na: 1\n---\nbody", ("a: 1", 2)),
        ("\n\n---\na: 1\n---\n", ("a: 1", 4)),
        ("---  \r\na: 1\r\n---\r\nbody", ("a: 1\r", 2)),
        ("---\n---\n", ("", 2)),
        ("# Title\n---\na: 1\n---\n", ("", 1)),
        ("", ("", 1)),
        ("---\na: 1\n", None),
        ("---", None),
        ("----\na\n----\n", ("", 1)),
    ],
)
def test_front_matter(text: str, found: tuple[str, int] | None) -> None:
    """W-148: between the first two lines of ---; an unfinished one is not taken for a missing one."""
    assert front_matter(text) == found


# Mistakes in what the environment gave ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("ca_file: $SECRET/x.pem", "there is no such file"),
        ("ca_file: $EMPTY", "is no path"),
        (
            "nameservers: [$SECRET]",
            "is no IP address, such as 192.0.2.53; a name or a port has no place here",
        ),
        ("request_rules: [{host: a.example, paths: [$SECRET]}]", "can never match: a path starts with /, "),
        ("private_ranges: [{cidr: $WIDE, hosts: [a.example]}]", "covers loopback without spelling it out; "),
    ],
)
def test_what_the_environment_gave_is_explained(setting: str, problem: str, tmp_path: Path) -> None:
    """D-19: what is wrong is said as for a text in the file; what the variable holds is not."""
    path = _write(tmp_path, f"system_tools: {{web_request: {{{setting}}}}}")
    environment = {"SECRET": "do-not-tell", "EMPTY": "", "WIDE": "64.0.0.0/2"}
    with pytest.raises(ConfigError) as caught:
        load_global_config(path, environment=environment)
    [mistake] = caught.value.mistakes
    assert mistake.problem.startswith(problem)
    assert mistake.problem.endswith(", after environment substitution")
    assert not any(value in str(mistake) for value in environment.values() if value)


def test_a_ca_file_that_is_not_there(tmp_path: Path) -> None:
    """The sentence is the same as without a variable; one that is not set is named."""
    path = _write(tmp_path, "system_tools: {web_request: {ca_file: $UNSET_NAME/x.pem}}")
    assert [mistake.problem for mistake in _mistakes(path)] == ["there is no such file (not set: UNSET_NAME)"]
    path = _write(tmp_path, "system_tools: {web_request: {ca_file: x.pem}}")
    assert [mistake.problem for mistake in _mistakes(path)] == ["there is no such file"]


# Keys of the host, and where things are looked for --------------------------------------------------------


def test_a_host_may_name_more_keys(tmp_path: Path) -> None:
    """D-19: strict by default, since a misspelt switch would leave the tool on; a host declares its own."""
    _write(tmp_path, "workflows: {a: $UNSET}\nsystem_tools: {browser: !any 1, web_request: false}\n")
    _write(tmp_path, "---\nworkflows: true\nsystem_tools: {browser: false}\n---\n", "main.agent.md")
    with pytest.raises(ConfigError) as caught:
        load_project(tmp_path, environment={})
    assert [mistake.key for mistake in caught.value.mistakes] == [
        "workflows",
        "system_tools.browser",
        "workflows",
        "system_tools.browser",
    ]
    project = load_project(tmp_path, environment={}, host_keys=["workflows", "browser"])
    assert not project.agents["main"].web_request_enabled


def test_a_project_may_be_named_by_its_file(tmp_path: Path) -> None:
    """`--config FILE`: whatever its name, agents are looked for beside it."""
    path = _write(tmp_path, "system_tools: {web_request: {timeout_seconds: 5}}", "other.yaml")
    _write(tmp_path, "You answer.", "Main.Agent.md")
    (tmp_path / "Agents").mkdir()
    _write(tmp_path / "Agents", "You ask.", "second.agent.md")
    agents = load_project(path, environment={}).agents
    assert sorted(agents) == ["Main", "second"]
    assert agents["second"].decided_by["timeout_seconds"] == f"{path}:1"
    assert agents["second"].decided_by["allowed_hosts"] == BUILT_IN


def test_an_empty_folder_has_no_agents(tmp_path: Path) -> None:
    """Nothing there, nothing wrong."""
    project = load_project(tmp_path, environment={})
    assert (dict(project.agents), project.warnings) == ({}, ())
    assert project.global_config.value == GlobalConfig()


def test_relative_paths_count_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret's path means the same wherever the program was started, and in each file its own folder."""
    agents = tmp_path / "agents"
    agents.mkdir()
    text = "system_tools: {web_request: {auth: [{host: a.example, headers: {X-Key: {file: key}}}]}}"
    _write(tmp_path, text)
    _write(agents, f"---\n{text}\n---\n", "main.agent.md")
    monkeypatch.chdir(tmp_path)
    for base, folder in ((Path(), tmp_path), (Path("agents"), agents)):
        loaded = load_agent(base / "main.agent.md") if base.name else load_global_config("agents.config.yaml")
        assert not isinstance(loaded.value.web_request, bool | None)
        (profile,) = loaded.value.web_request.auth or ()
        assert str(profile.headers["X-Key"]) == f"{{file: {folder / 'key'}}}"


def test_an_unreadable_file(tmp_path: Path) -> None:
    """Rights that are missing are a mistake like others (root reads everything, so a device stands in)."""
    if not os.path.exists("/proc/self/mem"):  # noqa: PTH110  # a file whose reading fails
        pytest.skip("no /proc here")
    path = tmp_path / "agents.config.yaml"
    path.symlink_to("/proc/self/mem")
    assert _mistakes(path)[0].problem.startswith("cannot be read: ")


def test_one_mistake_is_told_once(tmp_path: Path) -> None:
    """D-19: `*.com` is refused by the host list and by the public suffix list; one of them is enough."""
    hosts = '["*.com", "*.a..b", "*.co.uk"]'
    path = _write(tmp_path, f"system_tools: {{web_request: {{allowed_hosts: {hosts}}}}}")
    assert [mistake.key[-16:] for mistake in _mistakes(path)] == [f"allowed_hosts[{n}]" for n in range(3)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nothing"), (True, "true"), (5, "5"), (1.5, "1.5"), (float("inf"), ".inf"),
        (float("nan"), ".nan"),
        (10**400, "a very large number"), ("a\nb", '"a\\nb"'), ("\x1b[2J", '"\\u001b[2J"'),
        ("a" * 100, f'"{"a" * 80}..."'), ([1, 2], "a list of 2"), ({}, "a mapping with no keys"),
        ({"a": 1, "b": 2}, "a mapping with a, b"),
    ],
)  # fmt: skip
def test_what_was_found_is_shown_short(value: object, text: str) -> None:
    """D-19: on one line, and nothing that a terminal would obey."""
    assert shown(value) == text


@pytest.mark.parametrize(("value", "text"), [("sk", "a text, not shown"), (1, "a number, not shown")])
def test_what_stands_for_a_secret_is_not_shown(value: object, text: str) -> None:
    """W-150: it may be the secret itself."""
    assert shown(value, ("auth", 0, "headers", "X-Key")) == text


# Public suffixes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "kind"),
    [
        ("com", "icann"), ("co.uk", "icann"), ("xn--55qx5d.cn", "icann"), ("anything.ck", "icann"),
        ("www.ck", None), ("example.com", None), ("example.co.uk", None), ("github.io", "private"),
        ("a.github.io", None), ("azurewebsites.net", "private"), ("internal", None), ("corp.internal", None),
    ],
)  # fmt: skip
def test_public_suffixes(domain: str, kind: str | None) -> None:
    """D-15."""
    assert public_suffix_kind(domain) == kind
