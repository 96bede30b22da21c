"""Which servers does a configuration name?"""

import json
from pathlib import Path
from typing import Any

import pytest

from onhand.errors import ConfigError
from onhand.mcp.client_settings import settings_paths
from onhand.mcp.servers import (
    KEY,
    ServerConfig,
    expand_variables,
    is_onhand,
    parse_servers,
    read_servers,
    servers_to_json,
    usable_key,
    write_servers,
)
from onhand.mcp.upstream_transport import program_environment
from requirements import requirement


def one(entry: Any, name: str = "it") -> ServerConfig:
    (server,), problems, _ = parse_servers({"mcpServers": {name: entry}}, "here")
    assert problems == ()
    return server


@requirement("mcp.client-files")
@pytest.mark.parametrize(
    ("value", "key", "shown"),
    [
        ({"mcpServers": {"a": {"command": "npx", "args": ["-y", "x y"]}}}, "a", "npx -y 'x y'"),
        ({"servers": {"a": {"type": "http", "url": "https://x.org/mcp?key=1"}}}, "a", "https://x.org/mcp"),
        ({"mcp": {"servers": {"a": {"command": "b"}}}}, "a", "b"),
        ({"context_servers": {"a": {"command": {"path": "b", "args": ["c"]}}}}, "a", "b c"),
        ({"projects": {"/p": {"mcpServers": {"a": {"command": "b"}}}}}, "a", "b"),
        ({"mcpServers": {"a": {"httpUrl": "http://x.org"}}}, "a", "http://x.org"),
        ({"mcpServers": {"a": {"command": ["b", "c"]}}}, "a", "b c"),
    ],
)
def test_every_client_s_form_is_read(value: object, key: str, shown: str) -> None:
    (server,), problems, _ = parse_servers(value, "here")
    assert (server.key, server.summary, problems) == (key, shown, ())


def test_members_that_have_no_meaning_here_are_named() -> None:
    entry = {"command": "a", "type": "stdio", "description": "mine", "alwaysAllow": ["x"], "trust": True, "roots": []}
    read = parse_servers({"mcpServers": {"a": entry, "b": {"command": "b", "env": {}}}}, "here")
    assert (read.problems, read.ignored) == ((), {"a": ("alwaysAllow", "trust")})


@requirement("mcp.client-files")
def test_files_with_comments_and_in_toml_are_read(tmp_path: Path) -> None:
    jsonc = tmp_path / "mcp.json"
    jsonc.write_text('{ // mine\n "servers": { "a": {"url": "https://x.org//y"}, /* b */ "b": {"command": "c",},\n}, }')
    assert [server.summary for server in read_servers(str(jsonc)).servers] == ["https://x.org//y", "c"]
    toml = tmp_path / "config.toml"
    toml.write_text('[mcp_servers.a]\ncommand = "b"\nargs = ["c"]\n')
    assert [server.summary for server in read_servers(str(toml)).servers] == ["b c"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (5, "is not a server"),
        ({}, "needs either a command or a url"),
        ({"command": "a", "url": "http://x"}, "needs either"),
        ({"command": "a", "args": "b"}, "args must be a list of strings"),
        ({"command": "a\0b"}, "a string on one line"),
        ({"command": "a", "env": {"A": ["b"]}}, "env must be an object of strings"),
        ({"url": "--upload-pack=evil"}, "http:// or https://"),
        ({"url": "file:///etc/passwd"}, "http:// or https://"),
        ({"url": "http://x", "headers": {"A: b": "c"}}, "an invalid header name"),
        ({"url": "http://x", "headers": {"A": "b\r\nC: d"}}, "a string on one line"),
        ({"url": "http://x", "bearer_env": "not a name"}, "the name of a variable"),
        ({"url": "http://x", "oauth": {"clientId": 5}}, "client_id must be a string"),
        ({"command": "a", "timeout_s": -1}, "timeout_s must be a number above 0"),
        ({"command": "a", "cwd": "\ud800"}, "a lone surrogate"),
    ],
)
def test_an_entry_that_cannot_be_used_is_a_problem_and_the_others_are_read(entry: object, reason: str) -> None:
    (server,), (problem,), _ = parse_servers({"mcpServers": {"bad": entry, "good": {"command": "x"}}}, "here")
    assert server.key == "good"
    assert reason in problem


@pytest.mark.parametrize("content", [b"", b"[", b"[]", b"{}", b"\xff", b'{"a": ' * 100_000])
def test_a_file_without_servers_is_refused_with_its_path(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"mcp\.json"):
        read_servers(str(path))


@requirement("mcp.names-never-move")
def test_names_become_keys_that_never_meet() -> None:
    names = [
        "good",
        "My Server",
        "My-Server",
        "my server",
        "a__b",
        "a_b",
        "_a",
        "x" * 49,
        "ä",
        "",
        "a\nb",
        "a/b",
    ]
    keys = [usable_key(name) for name in names]
    assert all(KEY.fullmatch(key) for key in keys), keys
    assert len(set(keys)) == len(names)
    assert keys[0] == "good"


def test_variables_are_filled_in_only_when_a_program_starts() -> None:
    server = one({"command": "a", "env": {"TOKEN": "${MINE}", "X": "${OTHER:-plain}", "Y": "${env:MINE}"}})
    assert server.env["TOKEN"] == "${MINE}"
    given = program_environment(server, {"MINE": "s3cret", "OTHER": "", "UNLISTED": "no"})
    assert (given["TOKEN"], given["X"], given["Y"]) == ("s3cret", "plain", "s3cret")
    assert "UNLISTED" not in given
    with pytest.raises(ConfigError, match="MINE is not set"):
        program_environment(server, {})
    with pytest.raises(ConfigError, match="only variables"):
        expand_variables("${input:key}", {}, "here")


@requirement("mcp.tokens-stay")
def test_what_is_shown_of_a_server_has_no_secret() -> None:
    server = one({"url": "https://x.org/?key=s3cret", "bearer_env": "TOKEN"})
    assert "s3cret" not in server.summary
    assert server.headers == {"Authorization": "Bearer ${TOKEN}"}


@requirement("mcp.client-files")
@pytest.mark.parametrize(
    ("said", "login"),
    [
        ({}, (False, "", "")),
        ({"oauth": True}, (True, "", "")),
        ({"oauth": True, "client_id": "a", "client_secret": "${B}"}, (True, "a", "${B}")),
        ({"oauth": {"clientId": "a", "callbackPort": 8080}}, (True, "a", "")),
        ({"oauth": {"enabled": True, "clientId": "a", "clientSecret": "${B}"}}, (True, "a", "${B}")),
        ({"oauth": {"enabled": False, "clientId": "a"}}, (False, "a", "")),
        ({"auth": {"CLIENT_ID": "a", "CLIENT_SECRET": "${env:B}"}}, (True, "a", "${env:B}")),
        ({"auth": "none"}, (False, "", "")),
    ],
)
def test_who_logs_in_is_read_however_a_client_spells_it(said: dict[str, Any], login: tuple[object, ...]) -> None:
    server = one({"url": "https://x.org", **said})
    assert (server.oauth, server.client_id, server.client_secret) == login
    assert one(servers_to_json([server])["mcpServers"]["it"]) == server


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    servers = (
        one({"command": "a", "args": ["b"], "env": {"C": "d"}, "always": ["t"], "timeout_s": 5}, "one"),
        one({"type": "sse", "url": "http://x.org", "headers": {"A": "b"}, "disabled": True}, "two"),
    )
    path = str(tmp_path / "new" / "mcp.json")
    write_servers(path, servers)
    assert read_servers(path).servers == servers
    assert json.loads(Path(path).read_text()) == servers_to_json(servers)
    assert Path(path).stat().st_mode & 0o777 == 0o600


def test_an_approval_is_for_one_command() -> None:
    base = {"command": "a", "args": ["b"], "env": {"C": "d"}}
    changed = [{**base, "command": "x"}, {**base, "args": []}, {**base, "env": {"C": "e"}}, {**base, "cwd": "/"}]
    assert len({one(entry).identity for entry in [base, *changed]}) == 5
    assert one({**base, "timeout_s": 1}).identity == one(base).identity


@pytest.mark.parametrize(
    ("command", "ourselves"),
    [
        (["onhand", "serve"], True),
        (["uvx", "onhand[mcp]", "serve"], True),
        (["python", "-m", "onhand", "serve"], True),
        (["serve", "x"], False),
        (["onhand-tools", "serve"], False),
    ],
)
def test_we_do_not_stand_behind_ourselves(command: list[str], ourselves: bool) -> None:
    assert is_onhand(one({"command": command})) is ourselves


@requirement("mcp.client-files")
def test_the_files_of_the_known_clients_are_known(tmp_path: Path) -> None:
    known = settings_paths("/home/u", "/project", {})
    assert {"claude-desktop", "claude", "cursor", "vscode", "zed", "gemini", "codex"} <= known.keys()
    assert "/home/u/.claude.json" in known["claude"]
    assert "/project/.mcp.json" in known["claude"]
    assert "/project/.vscode/mcp.json" in known["vscode"]


@requirement("mcp.tool-switches")
@pytest.mark.parametrize(
    ("entry", "written"),
    [
        ({"enabled_tools": ["a", "b_*"]}, {"enabled_tools": ["a", "b_*"]}),
        ({"enabledTools": ["a"], "disabledTools": ["b"]}, {"enabled_tools": ["a"], "disabled_tools": ["b"]}),
        ({"includeTools": [], "excludeTools": ["b"]}, {"enabled_tools": [], "disabled_tools": ["b"]}),
        ({"tools": ["*"]}, {"enabled_tools": ["*"]}),
        ({"policy": "ask"}, {"policy": "ask"}),
        ({"policy": {"read": "allow", "destructive": "deny"}}, {"policy": {"read": "allow", "destructive": "deny"}}),
        (
            {"tools": {"a": {"name": "c", "description": "D.", "preset": {"x": [1]}, "hide": ["y"], "policy": "deny"}}},
            {"tools": {"a": {"name": "c", "description": "D.", "preset": {"x": [1]}, "hide": ["y"], "policy": "deny"}}},
        ),
        ({"tools": {"get_*": {"kind": "read"}}}, {"tools": {"get_*": {"kind": "read"}}}),
    ],
)
def test_settings_of_tools_are_read_in_every_spelling_and_written_in_ours(
    entry: dict[str, Any], written: dict[str, Any]
) -> None:
    server = one({"command": "c", **entry})
    as_json = servers_to_json([server])
    assert as_json["mcpServers"]["it"] == {"command": "c", **written}
    assert parse_servers(json.loads(json.dumps(as_json)), "here").servers == (server,)
    assert server.identity == one({"command": "c"}).identity


@requirement("mcp.tool-switches")
@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"enabled_tools": "a"}, "enabled_tools must be a list of names"),
        ({"excludeTools": [1]}, "excludeTools must be a list of names"),
        ({"policy": "maybe"}, "'maybe' is not one of allow, ask, deny"),
        ({"policy": {"reads": "ask"}}, "'reads' is not one of read, write, destructive"),
        ({"tools": "a"}, "tools must be an object of tools by name"),
        ({"tools": {"a": {"rename": "b"}}}, "'rename', which is not a setting of a tool: use name, description"),
        ({"tools": {"a": {"name": "b c"}}}, "'b c' is not a valid name"),
        ({"tools": {"a_*": {"name": "b"}}}, "need the name of one tool, not a pattern"),
        ({"tools": {"a": {"preset": {"x": 1}, "hide": ["x"]}}}, "'x' is both in preset and in hide"),
        ({"tools": {"a": {"kind": "safe"}}}, "'safe' is not one of read, write, destructive"),
    ],
)
def test_a_server_whose_tool_settings_cannot_be_understood_is_not_used(entry: dict[str, Any], reason: str) -> None:
    read = parse_servers({"mcpServers": {"it": {"command": "c", **entry}, "other": {"command": "d"}}}, "here")
    assert [server.key for server in read.servers] == ["other"]
    (problem,) = read.problems
    assert problem.startswith("here: server 'it'")
    assert reason in problem
