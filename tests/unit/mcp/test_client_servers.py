"""What other clients say about their servers, and whose those are."""

import json
from pathlib import Path
from typing import Any

import pytest

from onhand.errors import ConfigError
from onhand.mcp.client_servers import (
    ClientServer,
    find_servers,
    identify_file,
    is_same_program,
    known_files,
    resolve_inputs,
)
from onhand.mcp.servers import servers_to_json
from requirements import requirement

PROGRAM = {"command": "git-server"}


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def find(home: Path, path: Path, project: Path | None = None) -> list[ClientServer]:
    found, problems = find_servers(identify_file(str(path), str(home), str(project or home), {}), str(home))
    assert not problems
    return found


def written(one: ClientServer) -> dict[str, Any]:
    (entry,) = servers_to_json([one.server._replace(project="")])["mcpServers"].values()
    return {name: value for name, value in entry.items() if name not in ("command", "args")}


@requirement("mcp.client-files", "mcp.tool-switches")
@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        (
            ".codex/config.toml",
            '[mcp_servers.git]\ncommand = "git-server"\nenabled_tools = ["git_log"]\ndisabled_tools = ["git_reset"]\n'
            'tool_timeout_sec = 9\nenv_vars = ["HOME"]\n[mcp_servers.git.tools.git_log]\napproval_mode = "approve"\n',
            {
                "env": {"HOME": "${HOME}"},
                "timeout_s": 9,
                "enabled_tools": ["git_log"],
                "disabled_tools": ["git_reset"],
                "tools": {"git_log": {"policy": "allow"}},
            },
        ),
        (
            ".gemini/settings.json",
            {"mcpServers": {"git": {**PROGRAM, "includeTools": ["a"], "excludeTools": ["b"], "timeout": 5000}}},
            {"timeout_s": 5, "enabled_tools": ["a"], "disabled_tools": ["b"]},
        ),
        (
            ".gemini/settings.json",
            {"mcpServers": {"git": {**PROGRAM, "trust": True}}, "mcp": {"excluded": ["git"]}},
            {"disabled": True, "policy": "allow"},
        ),
        (
            ".qwen/settings.json",
            {"mcpServers": {"git": PROGRAM}, "mcp": {"allowed": ["other"]}},
            {"disabled": True},
        ),
        (
            ".qwen/settings.json",
            {"mcpServers": {"git": PROGRAM}, "permissions": {"deny": ["mcp__git__reset"]}},
            {"disabled_tools": ["reset"]},
        ),
        (
            ".copilot/mcp-config.json",
            {"mcpServers": {"git": {**PROGRAM, "type": "local", "tools": ["get_*"]}}},
            {"enabled_tools": ["get_*"]},
        ),
        (
            ".config/opencode/opencode.json",
            {
                "mcp": {"git": {"type": "local", "command": ["git-server"], "environment": {"A": "{env:B}"}}},
                "tools": {"git_reset": False},
                "permission": {"git_push_*": "ask"},
            },
            {"env": {"A": "${B}"}, "disabled_tools": ["reset"], "tools": {"push_*": {"policy": "ask"}}},
        ),
        (
            ".config/opencode/opencode.json",
            {"mcp": {"git": {"type": "local", "command": ["git-server"]}}, "tools": {"gi*": False, "git_log": True}},
            {"enabled_tools": ["log"]},
        ),
        (
            ".config/opencode/opencode.json",
            {"mcp": {"git": {"type": "local", "command": ["git-server"]}}, "tools": {"git_log": True, "git_*": False}},
            {"disabled": True},
        ),
        (
            ".codeium/windsurf/mcp_config.json",
            {"mcpServers": {"git": {**PROGRAM, "disabledTools": ["a"], "alwaysAllow": ["b"]}}},
            {"disabled_tools": ["a"], "tools": {"b": {"policy": "allow"}}},
        ),
    ],
)
def test_the_switches_of_a_client_are_carried_over(
    path: str, content: object, expected: dict[str, Any], tmp_path: Path
) -> None:
    (one,) = find(tmp_path, write(tmp_path / path, content))
    assert written(one) == expected
    assert one.left_out == ()


@requirement("mcp.client-files", "mcp.tool-switches")
def test_the_permissions_of_claude_code_are_carried_over_from_its_other_file(tmp_path: Path) -> None:
    rules = {
        "deny": ["mcp__git__reset", "Bash(rm:*)", "mcp__off"],
        "ask": ["mcp__git__push_*"],
        "allow": ["mcp__git__log", "mcp__git__reset"],
    }
    write(tmp_path / ".claude/settings.json", {"permissions": rules})
    servers = {"git": PROGRAM, "off": {"command": "x"}, "git_2": {"command": "y"}}
    git, off, other = find(tmp_path, write(tmp_path / ".claude.json", {"mcpServers": servers}))
    by_name = {"log": {"policy": "allow"}, "push_*": {"policy": "ask"}}
    assert written(git) == {"disabled_tools": ["reset"], "tools": by_name}
    assert written(off) == {"disabled": True}
    assert written(other) == {}


@requirement("mcp.client-files")
def test_what_has_no_meaning_here_is_named(tmp_path: Path) -> None:
    content = {
        "mcpServers": {"git": {**PROGRAM, "envFile": ".env", "dev": {"watch": "x"}, "timeout": 5}},
        "projects": {"/app": {"disabledMcpServers": ["git"]}},
        "agent": {"plan": {"tools": {"git_*": False}}},
    }
    (one,) = find(tmp_path, write(tmp_path / "some.json", content))
    assert one.left_out == ("envFile", "dev", "timeout", "disabled in /app", "the tools of agent plan")


@requirement("mcp.imports-are-safe")
def test_a_file_of_a_project_belongs_to_it_wherever_it_is_named_from(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    for path in (".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", "opencode.json", ".codex/config.toml"):
        assert identify_file(str(clone / path), str(tmp_path), str(tmp_path), {}).project == str(clone)
    for path in (".cursor/mcp.json", ".codex/config.toml", ".claude.json"):
        assert identify_file(str(tmp_path / path), str(tmp_path), str(tmp_path), {}).project == ""
    assert identify_file(str(clone / "servers.json"), str(tmp_path), str(clone), {}).project == ""
    known = {file.path: file.project for file in known_files(str(tmp_path), str(clone), {})}
    assert known[str(clone / ".mcp.json")] == str(clone)
    assert known[str(tmp_path / ".gemini/settings.json")] == ""


@requirement("mcp.imports-are-safe")
def test_the_file_of_a_project_restricts_but_permits_nothing(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    permissive = {
        **PROGRAM,
        "policy": {"read": "allow", "write": "ask"},
        "tools": {"reset": {"kind": "read", "policy": "allow"}, "push": {"policy": "deny"}},
        "trust": True,
        "autoApprove": ["log"],
        "disabled_tools": ["drop"],
        "cwd": "${workspaceFolder}/tools",
    }
    rules = {"allow": ["mcp__git__reset"], "deny": ["mcp__git__clean"]}
    write(clone / ".claude/settings.json", {"permissions": rules, "disabledMcpjsonServers": ["quiet"]})
    path = write(clone / ".mcp.json", {"mcpServers": {"git": permissive, "quiet": {"command": "x"}}})
    git, quiet = find(tmp_path, path, clone)
    assert git.server.project == str(clone)
    assert written(git) == {
        "cwd": f"{clone}/tools",
        "disabled_tools": ["drop", "clean"],
        "policy": {"write": "ask"},
        "tools": {"reset": {}, "push": {"policy": "deny"}},
    }
    assert "permission to call its tools without asking" in git.left_out
    assert "permission to call log without asking" in git.left_out
    assert written(quiet) == {"disabled": True}


@requirement("mcp.imports-are-safe")
def test_the_section_of_a_project_in_the_users_file_is_for_that_project(tmp_path: Path) -> None:
    section = {"mcpServers": {"git": PROGRAM}}
    content = {"mcpServers": {"git": {"command": "mine"}}, "projects": {"/one": section, "/two": section}}
    found = find(tmp_path, write(tmp_path / ".claude.json", content))
    assert [(one.server.key, one.server.project) for one in found] == [("git", ""), ("git", "/one"), ("git", "/two")]
    assert not any(one.is_foreign for one in found)
    assert found[1].entry.place == ("projects", "/one", "mcpServers", "git")


@requirement("mcp.client-files")
def test_inputs_of_vs_code_are_found_and_filled_in(tmp_path: Path) -> None:
    entry = {"command": "x", "args": ["${input:site}"], "env": {"KEY": "a-${input:key}", "OTHER": "${input:unknown}"}}
    asked = [
        {"type": "promptString", "id": "key", "description": "The key", "password": True},
        {"type": "promptString", "id": "site", "default": "eu"},
        {"type": "promptString", "id": "unused"},
    ]
    path = write(tmp_path / ".config/Code/User/mcp.json", {"inputs": asked, "servers": {"t": entry}})
    (one,) = find(tmp_path, path)
    assert [(needed.id, needed.is_secret, needed.default) for needed in one.inputs] == [
        ("site", False, "eu"),
        ("key", True, ""),
        ("unknown", True, ""),
    ]
    filled = resolve_inputs(one.server, {"site": "us", "key": "${secret:t-key}", "unknown": "${U}"})
    assert (filled.args, dict(filled.env)) == (("us",), {"KEY": "a-${secret:t-key}", "OTHER": "${U}"})
    assert is_same_program(one.server, filled)
    assert not is_same_program(one.server, filled._replace(command="y"))


@pytest.mark.parametrize("content", ["[]", "3", "{"])
def test_a_file_that_is_not_an_object_is_an_error(content: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        find(tmp_path, write(tmp_path / "x.json", content))
