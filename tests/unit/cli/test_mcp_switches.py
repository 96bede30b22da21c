"""Tools and servers are switched from the command line, and the rest of the file stays as it is."""

import json
import sys
from pathlib import Path

import pytest

from onhand.project import servers_file
from requirements import requirement
from unit.cli.conftest import Run

UPSTREAMS = str(Path(__file__).parents[2] / "upstreams.py")
TEXT = """{
  // my servers
  "mcpServers": {
    "git": {
      "command": %s,  // Python
      "args": [%s, "many", "4"],
      "note": "kept"
    }
  }
}
"""


@pytest.fixture
def servers(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with comments and one server with four tools, whose list is known."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.parent / "cache"))
    path = Path(servers_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEXT % (json.dumps(sys.executable), json.dumps(UPSTREAMS)))
    assert run("mcp", "test").out == "git: 4 tools\n"
    return path


def added_to(path: Path) -> list[str]:
    before = (TEXT % (json.dumps(sys.executable), json.dumps(UPSTREAMS))).splitlines()
    return [line.strip() for line in path.read_text().splitlines() if line not in before]


@requirement("mcp.tool-switches", "mcp.cli")
def test_a_tool_is_disabled_and_enabled_in_one_line_of_the_file(run: Run, servers: Path) -> None:
    before = servers.read_text()
    assert run("mcp", "disable", "git", "create_issue_0", "git__list_issue_1").code == 0
    assert added_to(servers) == ['"note": "kept",', '"disabled_tools": ["create_issue_0", "list_issue_1"]']
    assert "create_issue_0 is disabled" in run("mcp", "call", "git__create_issue_0").err
    assert "nothing to change" in run("mcp", "disable", "git", "list_issue_1").out
    assert run("mcp", "enable", "git", "create_issue_0").code == 0
    assert added_to(servers) == ['"note": "kept",', '"disabled_tools": ["list_issue_1"]']
    assert run("mcp", "call", "git__create_issue_0").code == 0
    assert run("mcp", "enable", "git", "list_issue_1").code == 0
    assert servers.read_text() == before


@requirement("mcp.tool-switches", "mcp.cli")
def test_the_list_of_enabled_tools_is_kept_where_there_is_one(run: Run, servers: Path) -> None:
    servers.write_text(servers.read_text().replace('"note": "kept"', '"includeTools": ["create_*", "list_issue_1"]'))
    assert run("mcp", "disable", "git", "list_issue_1").code == 0
    assert '"includeTools": ["create_*"]' in servers.read_text()
    assert run("mcp", "enable", "git", "delete_issue_2").code == 0
    assert '"includeTools": ["create_*", "delete_issue_2"]' in servers.read_text()
    assert run("mcp", "disable", "git", "create_issue_0").code == 0
    assert '"disabled_tools": ["create_issue_0"]' in servers.read_text()
    assert json.loads(run("mcp", "disable", "git", "create_issue_0", "--json").out) == {
        "name": "git",
        "file": str(servers),
        "changed": False,
    }


@requirement("mcp.tool-switches", "mcp.cli")
def test_a_server_is_disabled_and_enabled(run: Run, servers: Path) -> None:
    assert run("mcp", "disable", "git").code == 0
    assert '"disabled": true' in servers.read_text()
    assert "disabled" in run("mcp", "list").out
    assert run("mcp", "enable", "git").code == 0
    assert "disabled" not in run("mcp", "list").out


@requirement("mcp.permissions", "mcp.cli")
def test_policies_are_shown_and_set(run: Run, servers: Path) -> None:
    assert run("mcp", "policy", "git", "ask", "--kind", "write", "--kind", "destructive").code == 0
    assert added_to(servers)[-1] == '"policy": {"write": "ask", "destructive": "ask"}'
    assert run("mcp", "policy", "git", "deny", "--tool", "list_issue_1").code == 0
    assert run("mcp", "policy", "git", "ask", "--tool", "delete_issue_2").code == 0
    assert run("mcp", "policy", "git", "allow", "--tool", "list_issue_1").code == 0
    assert json.loads(run("mcp", "policy", "git", "--json").out) == {
        "name": "git",
        "policies": {"read": "allow", "write": "ask", "destructive": "ask"},
        "tools": {"list_issue_1": "allow", "delete_issue_2": "ask"},
    }
    assert "write tools" in run("mcp", "policy", "git").out
    assert run("mcp", "policy", "git", "deny").code == 0
    assert '"policy": "deny"' in servers.read_text()
    assert "// my servers" in servers.read_text()


@requirement("mcp.cli")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("disable", "nosuch", "x"), "has no server 'nosuch'"),
        (("disable", "git", "create_isue_0"), "git has no tool 'create_isue_0': did you mean 'create_issue_0'?"),
        (("enable", "git", "zzz*"), "git has no tool 'zzz*': `onhand mcp list --tools` lists its 4 tools"),
        (("enable", "git", "create_issue_0"), "stays disabled by the pattern 'create_*' of disabled_tools"),
    ],
)
def test_a_switch_that_cannot_be_flipped_changes_nothing(
    words: tuple[str, ...], error: str, run: Run, servers: Path
) -> None:
    servers.write_text(servers.read_text().replace('"note": "kept"', '"disabled_tools": ["create_*"]'))
    before = servers.read_text()
    done = run("mcp", *words)
    assert done.code != 0
    assert error in done.err
    assert servers.read_text() == before


@requirement("mcp.profiles", "mcp.install")
def test_a_client_is_installed_for_a_profile_that_exists(run: Run, project: Path) -> None:
    (Path(servers_file()).parent).mkdir(parents=True, exist_ok=True)
    Path(servers_file()).with_name("config.toml").write_text("[profiles.review]\ncorpora = []\n")
    for client in ("claude", "opencode"):
        assert '"--profile",' in run("mcp", "install", client, "--print", "--profile", "review").out
    assert "these exist: review" in run("mcp", "install", "claude", "--print", "--profile", "nosuch").err
