"""Servers move from the settings of other clients to the user's own list, and only those that may."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from requirements import requirement
from unit.cli.conftest import Done, Run

UPSTREAMS = str(Path(__file__).parents[2] / "upstreams.py")
ECHO = {"command": sys.executable, "args": [UPSTREAMS, "plain"]}


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def servers(run: Run) -> dict[str, Any]:
    return {one["name"]: one["project"] for one in json.loads(run("mcp", "list", "--json").out)["servers"]}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a person types at the terminal; questions are answered in this order."""
    given: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt="": given.pop(0))
    monkeypatch.setattr("getpass.getpass", lambda prompt="": given.pop(0))
    return given


@requirement("mcp.imports-are-safe")
def test_servers_of_a_clone_are_skipped_unless_someone_consents(run: Run, project: Path) -> None:
    write(project / ".mcp.json", {"mcpServers": {"helpful": {"command": "evil"}}})
    write(project.parent / ".cursor/mcp.json", {"mcpServers": {"mine": ECHO}})
    done = run("mcp", "import")
    assert f"skipped helpful of {project}; to use them only there, run: onhand mcp import --yes" in done.err
    assert servers(run) == {"mine": None}
    skipped = json.loads(run("mcp", "import", ".mcp.json", "--json").out)["skipped"]
    assert [(one["name"], one["came_with_project"]) for one in skipped] == [("helpful", True)]
    assert servers(run) == {"mine": None}
    done = run("mcp", "import", "--yes")
    assert "came with the project, in " in done.out
    assert servers(run) == {"mine": None, "helpful": str(project)}


@requirement("mcp.imports-are-safe")
def test_a_server_of_a_project_is_used_only_there(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = project.parent / "other"
    other.mkdir()
    sections = {str(project): {"mcpServers": {"here": ECHO}}, str(other): {"mcpServers": {"there": ECHO, "here": ECHO}}}
    write(project.parent / ".claude.json", {"projects": sections})
    assert f"skipped there, here of {other}" in run("mcp", "import").err
    assert servers(run) == {"here": str(project)}
    run("mcp", "import", "--yes")
    assert servers(run) == {"here": str(project)}
    assert run("mcp", "test").out == "here: 1 tool\n"
    assert "there is no server 'there'" in run("mcp", "test", "there").err
    monkeypatch.chdir(other)
    assert servers(run) == {"there": str(other), "here-other": str(other)}
    assert run("mcp", "list").out.endswith(f"Only in other projects: here ({project})\n")
    assert run("mcp", "call", "here-other__echo", '{"text": "hi"}').out == "hi\n"
    assert run("mcp", "call", "here__echo", '{"text": "hi"}').code == 1


@requirement("mcp.imports-are-safe")
def test_at_a_terminal_the_servers_of_a_project_are_shown_and_asked_for(
    run: Run, project: Path, answers: list[str]
) -> None:
    entry = {"command": "evil", "args": ["--now"], "env": {"TOKEN": "abc"}}
    write(project / ".mcp.json", {"mcpServers": {"helpful": entry}})
    answers += ["n", "y"]
    refused = run("mcp", "import")
    assert f"These servers belong to {project} and would be used only there:" in refused.out
    assert "  helpful: evil --now\n" in refused.out
    assert "with TOKEN" in refused.out
    assert "abc" not in refused.out
    assert servers(run) == {}
    run("mcp", "import")
    assert servers(run) == {"helpful": str(project)}
    run("mcp", "import")  # which has nothing to ask
    assert answers == []


@requirement("mcp.client-files")
def test_inputs_are_asked_for_and_secrets_are_stored_apart(run: Run, project: Path, answers: list[str]) -> None:
    asked = [{"id": "key", "type": "promptString", "password": True}, {"id": "site", "type": "promptString"}]
    shell = ["-c", 'printf "%s %s %s" "$KEY" "$SITE" "$OTHER" >' + str(project / "said") + "; exit 1"]
    entry = {
        "command": "sh",
        "args": shell,
        "env": {"KEY": "${input:key}", "SITE": "${input:site}", "OTHER": "${input:x}"},
    }
    path = write(project / "vscode.json", {"inputs": asked, "servers": {"t": entry}})
    answers += ["s3cret", "eu", "$HOME"]
    done = run("mcp", "import", str(path))
    assert "s3cret" not in done.out + done.err
    config = project.parent / ".config/onhand"
    (listed,) = json.loads((config / "mcp.json").read_text())["mcpServers"].values()
    assert listed["env"] == {"KEY": "${secret:t-key}", "SITE": "eu", "OTHER": "${HOME}"}
    assert (config / "secrets.json").stat().st_mode & 0o777 == 0o600
    run("mcp", "test")
    assert (project / "said").read_text() == f"s3cret eu {project.parent}"
    assert json.loads(run("mcp", "import", str(path), "--json").out)["added"] == []  # it is there already
    (config / "secrets.json").unlink()
    assert "the secret:t-key is not stored. Remove the server and import it again" in run("mcp", "test").out


@requirement("mcp.client-files")
def test_without_a_terminal_a_variable_or_the_default_stands_for_an_input(run: Run, project: Path) -> None:
    asked = [{"id": "api-key", "password": True, "description": "The key"}, {"id": "site", "default": "eu"}]
    entry = {"command": "x", "args": ["${input:site}"], "env": {"KEY": "${input:api-key}"}}
    done = run("mcp", "import", str(write(project / "v.json", {"inputs": asked, "servers": {"t": entry}})))
    assert "t needs The key: set the variable API_KEY before onhand starts" in done.err
    (listed,) = json.loads((project.parent / ".config/onhand/mcp.json").read_text())["mcpServers"].values()
    assert listed == {"command": "x", "args": ["eu"], "env": {"KEY": "${API_KEY}"}}


MOVABLE = """{
  // my servers
  "mcpServers": {
    "a": {"command": "a"},
    "onhand": {"command": "onhand", "args": ["serve"]}, // us
    "b": {"command": "b"},
    "bad": {}
  },
  "theme": "dark"
}
"""


@requirement("mcp.uninstall", "mcp.client-files")
def test_a_move_removes_what_was_taken_and_nothing_else(run: Run, project: Path) -> None:
    run("mcp", "add", "b", "--", "another")
    path = write(project.parent / ".gemini/settings.json", MOVABLE)
    done = run("mcp", "import", "--move")
    assert "skipped b, because another server has that name" in done.err
    assert path.read_text() == MOVABLE.replace('    "a": {"command": "a"},\n', "")
    assert f"removed a from {path}; a backup is in {path}.before-onhand\n" in done.out
    assert Path(f"{path}.before-onhand").read_text() == MOVABLE
    assert json.loads(run("mcp", "import", "--move", "--json").out)["moved"] == []


@requirement("mcp.uninstall", "mcp.imports-are-safe")
def test_a_move_changes_the_file_of_a_project_only_if_it_is_named(run: Run, project: Path) -> None:
    content = {"mcpServers": {"helpful": ECHO}}
    path = write(project / ".mcp.json", content)
    assert "was not changed, because others may share it" in run("mcp", "import", "--yes", "--move").err
    assert json.loads(path.read_text()) == content
    moved = json.loads(run("mcp", "import", "--move", "--json", ".mcp.json").out)["moved"]
    assert [one["removed"] for one in moved] == [["helpful"]]
    assert json.loads(path.read_text()) == {}


@requirement("mcp.uninstall")
def test_ones_own_list_is_not_imported_from(run: Run, project: Path) -> None:
    run("mcp", "add", "a", "--", "a")
    done = run("mcp", "import", "--move", str(project.parent / ".config/onhand/mcp.json"))
    assert (done.code, "is your own list of servers" in done.err) == (2, True)
    assert servers(run) == {"a": None}


@requirement("mcp.client-files")
def test_an_import_that_adds_nothing_says_why(run: Run, project: Path) -> None:
    write(project / "none.json", {"theme": "dark"})
    write(project / "us.json", {"mcpServers": {"onhand": {"command": "onhand", "args": ["serve"]}}})
    assert "none.json contains no servers in a known form" in run("mcp", "import", "none.json").err
    assert "us.json contains only onhand itself" in run("mcp", "import", "us.json").err


@requirement("mcp.client-files")
def test_the_result_says_what_was_and_what_was_not_carried_over(run: Run, project: Path) -> None:
    entry = {"command": "git-server", "includeTools": ["log"], "excludeTools": ["reset"], "envFile": ".env"}
    write(project.parent / ".gemini/settings.json", {"mcpServers": {"git": entry}})
    done = run("mcp", "import")
    assert "  tools: only log; not reset\n  not carried over: envFile\n" in done.out


def install_and_uninstall(run: Run, client: str, *flags: str) -> Done:
    assert run("mcp", "install", client, *flags).code == 0
    return run("mcp", "uninstall", client, *flags)


@requirement("mcp.uninstall")
@pytest.mark.parametrize(
    ("client", "path", "before"),
    [
        ("claude", ".claude.json", '{"theme": "dark", "mcpServers": {"a": {"command": "a"}}}'),
        ("codex", ".codex/config.toml", '# mine\nmodel = "x"\n\n[mcp_servers.a]\ncommand = "a"\n'),
        (
            "opencode",
            ".config/opencode/opencode.jsonc",
            '{\n  // mine\n  "mcp": {\n    "a": {"command": ["a"]}\n  }\n}',
        ),
    ],
)
def test_uninstall_takes_out_what_install_put_in(run: Run, project: Path, client: str, path: str, before: str) -> None:
    file = write(project.parent / path, before)
    done = install_and_uninstall(run, client)
    assert (done.code, done.err) == (0, "")
    assert "".join(file.read_text().split()) == "".join(before.split())
    assert run("mcp", "uninstall", client).code == 1


@requirement("mcp.install", "mcp.uninstall")
@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
@pytest.mark.parametrize("link", [".cursor", ".cursor/mcp.json"])
def test_the_settings_of_a_project_are_not_written_outside_of_it(run: Run, project: Path, link: str) -> None:
    own = write(
        project.parent / ".cursor" / "mcp.json", {"mcpServers": {"onhand": {"command": "onhand", "args": ["serve"]}}}
    )
    before = own.read_text()
    (project / link).parent.mkdir(exist_ok=True)
    (project / link).symlink_to(project.parent / link)
    for verb in ("install", "uninstall"):
        done = run("mcp", verb, "cursor", "--project")
        assert (done.code, "leads out of the project" in done.err) == (2, True)
    assert own.read_text() == before
    assert run("mcp", "uninstall", "cursor").code == 0


@requirement("mcp.uninstall")
def test_uninstall_removes_only_what_starts_onhand(run: Run, project: Path) -> None:
    write(project.parent / ".claude.json", {"mcpServers": {"onhand": {"command": "other"}}})
    done = run("mcp", "uninstall", "claude")
    assert (done.code, "does not start onhand, so it was not removed" in done.err) == (2, True)
    assert "has no entry 'onhand'" in run("mcp", "uninstall", "cursor", "--project").err
    assert "has no settings of a project" in run("mcp", "install", "windsurf", "--project").err


@requirement("mcp.client-files")
def test_tokens_move_out_of_the_list_into_a_file_of_secrets_and_go_with_their_server(run: Run, project: Path) -> None:
    printing = ["-c", 'printf "%s" "$API_TOKEN$MODE" >' + str(project / "said") + "; exit 1"]
    local = {"command": "sh", "args": printing, "env": {"API_TOKEN": "t0ken", "MODE": "fast"}}
    remote = {"url": "https://x.org/mcp", "headers": {"Authorization": "Bearer b3arer", "X-Org": "acme"}}
    path = write(project / "client.json", {"mcpServers": {"local": local, "remote": remote}})
    said = run("mcp", "import", str(path)).out
    run("mcp", "add", "more", "--env", "API_KEY=k3y", "--env", "LATER=${LATER}", "--", "more")
    config = project.parent / ".config/onhand"
    listed = json.loads((config / "mcp.json").read_text())["mcpServers"]
    assert listed["local"]["env"] == {"API_TOKEN": "${secret:local-API_TOKEN}", "MODE": "fast"}
    assert listed["remote"]["headers"] == {"Authorization": "${secret:remote-Authorization}", "X-Org": "acme"}
    assert listed["more"]["env"] == {"API_KEY": "${secret:more-API_KEY}", "LATER": "${LATER}"}
    assert f"API_TOKEN: now in {config / 'secrets.json'}, which only you can read" in said
    assert json.loads(run("mcp", "import", str(path), "--json").out)["added"] == []
    run("mcp", "test", "local")
    assert (project / "said").read_text() == "t0kenfast"
    run("mcp", "remove", "local")
    kept = {"remote-Authorization": "Bearer b3arer", "more-API_KEY": "k3y"}
    assert json.loads((config / "secrets.json").read_text()) == kept
