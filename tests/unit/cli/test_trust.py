"""Does a person see what is asked for before it is allowed, and can it be undone?"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import onhand
from onhand import config
from requirements import requirement

from .conftest import Run


@requirement("trust.said-once")
def test_trust_shows_what_is_asked_for_and_allows_it(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '../shared'\nextra_roots = ['docs', '/etc']\n")
    assert config.load().context.root == ".AGENTS"
    done = run("trust", "--yes")
    assert done.code == 0
    assert done.out.splitlines() == [
        f"{project} asks for:",
        f"  context.root = '../shared', which leads out of {project} ({project}/onhand.toml:2)",
        f"  context.extra_roots = '/etc', which leads out of {project} ({project}/onhand.toml:3)",
        f"{project} is now trusted as it is. Later changes take effect when you trust them.",
        f"To undo: onhand trust --remove {project}",
    ]
    assert config.load().context.extra_roots == ("docs", "/etc")
    assert run("trust", "--list").out == f"{project.resolve()}\n"


@requirement("trust.said-once")
def test_trust_can_be_taken_back(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\n")
    run("trust", "--yes")
    done = run("trust", "--remove", ".")
    assert (done.code, done.out) == (0, f"{project.resolve()} is no longer trusted\n")
    assert config.load().context.root == ".AGENTS"
    again = run("trust", "--remove", ".")
    assert again.code == 1
    assert "was not trusted" in again.err


def test_a_file_that_asks_for_nothing_can_be_trusted_so_that_what_it_forbids_stays(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[workspace]\ndeny = ['customers.db']\n")
    done = run("trust", "--yes")
    assert done.out.startswith(f"{project} asks for nothing that needs trust.\n{project} is now trusted")
    (project / "onhand.toml").write_text("")
    assert config.load().workspace.deny == ("customers.db",)


def test_a_directory_without_settings_is_not_recorded(run: Run, project: Path) -> None:
    assert run("trust", "--yes").out == f"{project} has no settings; nothing was recorded\n"
    assert run("trust", "--list").out == ""


def test_without_a_directory_the_project_of_the_working_directory_is_meant(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\n")
    below = project / "below"
    below.mkdir()
    named = run("trust", "below")
    assert named.code == 2
    assert f"the nearest one is in {project}: trust that" in named.err
    assert run("trust", "--list").out == ""
    monkeypatch.chdir(below)
    assert run("trust", "--yes").code == 0
    assert run("trust", "--list").out == f"{project.resolve()}\n"


def test_a_setting_of_the_environment_does_not_hide_what_the_file_asks_for(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\n")
    monkeypatch.setenv("ONHAND_CONTEXT_ROOT", "mine")
    assert "context.root = '/etc'" in run("trust", "--yes").out


def test_a_broken_file_is_not_trusted(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\nlimit = 'x'\n")
    assert run("trust", "--yes").code == 2
    assert run("trust", "--list").out == ""


def test_a_damaged_record_is_reported_and_replaced_by_trusting_again(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\n")
    run("trust", "--yes")
    (record,) = (project.parent / ".local" / "state" / "onhand" / "trusted").iterdir()
    record.write_text("{")
    done = run("trust", "--list")
    assert done.code == 2
    assert "repair or delete it" in done.err
    assert run("trust", "--remove", ".").code == 0
    assert run("trust", "--yes").code == 0


def test_every_form_of_trust_prints_json(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[context]\nroot = '/etc'\n")
    granted = json.loads(run("trust", "--yes", "--json").out)
    assert granted["trusted"] is True
    assert [setting["key"] for setting in granted["settings"]] == ["context.root"]
    assert json.loads(run("trust", "--list", "--json").out) == {"trusted": [str(project.resolve())]}
    assert json.loads(run("trust", "--remove", ".", "--json").out) == {"removed": [str(project.resolve())]}
    again = run("trust", "--remove", ".", "--json")
    assert (again.code, json.loads(again.out)) == (1, {"removed": []})


@requirement("trust.of-content", "trust.said-once")
def test_a_change_is_shown_line_by_line_before_it_is_trusted(run: Run, project: Path) -> None:
    settings = project / "pyproject.toml"
    settings.write_text("[tool.onhand.shell]\nenabled = true\n[tool.onhand.context]\nlimit = 4\n")
    run("trust", "--yes")
    assert run("trust", "--yes").out == f"{project} is trusted, and nothing has changed since\n"
    settings.write_text('[tool.onhand.shell]\nenabled = true\n[tool.onhand.sandbox]\nbackend = "none"\n')
    shown = [
        f"Since you trusted {project}, this has changed:",
        "pyproject.toml:",
        "  - context.limit = 4",
        '  + sandbox.backend = "none"  (decides how far commands are confined)',
    ]
    assert run("trust", "--show").out.splitlines() == shown
    assert config.load().sandbox.backend == "auto"
    assert json.loads(run("trust", "--show", "--json").out)["trusted"] is False
    assert run("trust", "--yes").out.splitlines()[: len(shown)] == shown
    assert config.load().sandbox.backend == "none"


@requirement("trust.of-content")
def test_at_a_terminal_trust_asks_first(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "onhand.toml").write_text("[shell]\nenabled = true\n")
    main, side = os.openpty()
    with open(side, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        for answer, code, is_trusted in (("\n", 1, False), ("no\n", 1, False), ("y\n", 0, True)):
            os.write(main, answer.encode())
            done = run("trust")
            assert (done.code, config.load().shell.enabled) == (code, is_trusted)
            assert "Trust this? [y/N]" in done.err
        (project / "onhand.toml").write_text("[shell]\nenabled = false\n")
        assert run("trust", "--yes").code == 0
    os.close(main)


@requirement("trust.of-content")
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_without_a_terminal_nothing_is_trusted_unasked(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    (project / "onhand.toml").write_text("[shell]\nenabled = true\n")
    with open(os.devnull, encoding="utf-8") as nothing:
        for stdin in (nothing, None):
            monkeypatch.setattr(sys, "stdin", stdin)
            done = run("trust", *words)
            assert (done.code, config.load().shell.enabled) == (1, False)
            assert "shell.enabled" in done.out
    assert words or "add --yes" in done.err
    assert run("trust", "--yes", *words).code == 0
    assert config.load().shell.enabled


def test_values_are_shown_as_they_are_written(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text(
        "[shell]\nenabled = true\n[sandbox]\nmemory_mb = 9000\ndomains = ['a.example']\n"
    )
    asked_for = run("trust", "--show").out
    for line in ("shell.enabled = true,", "sandbox.memory_mb = 9000,", "sandbox.domains = 'a.example',"):
        assert line in asked_for
    assert json.loads(run("trust", "--show", "--json").out)["settings"][0]["value"] is True
    assert "shell.enabled (true) is ignored" in run("context", "show").err


@requirement("trust.of-content")
def test_a_deleted_file_can_be_accepted_too(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[shell]\nenabled = true\n")
    run("trust", "--yes")
    (project / "onhand.toml").unlink()
    assert config.load().shell.enabled
    done = run("trust", "--yes")
    assert "  - shell.enabled = true" in done.out
    assert done.out.endswith("is no longer trusted, because it has no settings any more\n")
    assert not config.load().shell.enabled
    assert run("trust", "--list").out == ""


@requirement("trust.of-content")
def test_a_deleted_file_below_another_project_is_not_taken_for_that_ones(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = project / "inner"
    inner.mkdir()
    for directory in (project, inner):
        (directory / "onhand.toml").write_text("[shell]\nenabled = true\n")
    run("trust", "--yes", "inner")
    (inner / "onhand.toml").unlink()
    monkeypatch.chdir(inner)
    done = run("trust", "--yes")
    assert (done.code, f"run: onhand trust --remove {inner}" in done.err) == (2, True)


@requirement("trust.of-content")
def test_what_the_user_writes_with_a_command_stays_trusted(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[shell]\nenabled = true\n[mcp]\nfiles = ['.mcp.json']\n")
    (project / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "a"}}}')
    run("trust", "--yes")
    assert run("mcp", "install", "claude", "--project").code == 0
    assert "onhand" in run("mcp", "list").out
    assert run("trust", "--yes").out.endswith("nothing has changed since\n")
    assert run("init", "--force").code == 0
    assert run("trust", "--yes").out.endswith("nothing has changed since\n")


@requirement("trust.of-content")
def test_a_command_of_the_user_does_not_trust_what_others_changed(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[mcp]\nfiles = ['.mcp.json']\n")
    (project / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "a"}}}')
    run("trust", "--yes")
    (project / ".mcp.json").write_text('{"mcpServers": {"evil": {"command": "evil"}}}')
    assert run("mcp", "install", "claude", "--project").code == 0
    listed = run("mcp", "list")
    assert "evil" not in listed.out and "has changed since you trusted" in listed.err


SERVER = '{"mcpServers": {"good": {"command": "good"}}}'
EVIL = '{"mcpServers": {"good": {"command": "good"}, "evil": {"command": "sh"}}}'


def _replace(path: Path) -> None:
    path.write_text(EVIL)


def _change_command(path: Path) -> None:
    path.write_text(SERVER.replace('"command": "good"', '"command": "evil"'))


def _change_variables(path: Path) -> None:
    path.write_text(SERVER.replace('"good"}', '"good", "env": {"LD_PRELOAD": "evil.so"}}'))


def _break(path: Path) -> None:
    path.write_text(EVIL[:-1])


def _replace_by_link(path: Path) -> None:
    other = path.with_name("evil.json")
    other.write_text(EVIL)
    path.unlink()
    path.symlink_to(other)


@requirement("trust.of-content")
@pytest.mark.parametrize(
    "attack", [_replace, _change_command, _change_variables, _break, _replace_by_link, Path.unlink]
)
@pytest.mark.parametrize("name", [".mcp.json", "tools/servers.json", "../outside.json", "by the user"])
def test_servers_stay_as_they_were_trusted_until_they_are_trusted_again(
    run: Run, project: Path, name: str, attack: Callable[[Path], None]
) -> None:
    settings = project / "onhand.toml"
    if name == "by the user":  # for every project
        name = "servers.json"
        settings = project.parent / ".config" / "onhand" / "config.toml"
        settings.parent.mkdir(parents=True)
    settings.write_text(f"[mcp]\nfiles = ['{name}']\n")
    path = project / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(SERVER)
    assert "good" not in run("mcp", "list").out
    assert "good.command" in run("trust", "--yes").out
    listed = run("mcp", "list")
    assert ("good" in listed.out, listed.err) == (True, "")
    attack(path)
    listed = run("mcp", "list")
    assert ("good" in listed.out, "evil" in listed.out) == (True, False)
    assert f"run: onhand trust {project}" in listed.err
    with onhand.open(project) as opened:
        (server,) = opened.server_list.servers
        assert (server.command, dict(server.env)) == ("good", {})
    path.unlink(missing_ok=True)
    path.write_text(EVIL)
    assert "+ evil.command" in run("trust", "--yes").out
    assert "evil" in run("mcp", "list").out


@requirement("trust.of-content")
def test_a_server_file_that_appears_after_trust_starts_nothing(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[mcp]\nfiles = ['a.json', 'b.json']\n")
    (project / "a.json").write_text(SERVER)
    assert "b.json cannot be read" in run("trust", "--yes").err
    (project / "b.json").write_text(EVIL)
    listed = run("mcp", "list")
    assert "evil" not in listed.out
    assert f"b.json is ignored because you have not trusted it; to do so, run: onhand trust {project}" in listed.err


@requirement("trust.own-words-need-none")
def test_servers_that_the_environment_or_the_users_own_file_outside_of_projects_names_need_no_trust(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "mine.json").write_text(SERVER)
    monkeypatch.setenv("ONHAND_MCP_FILES", "mine.json")
    assert "good" in run("mcp", "list").out
    monkeypatch.delenv("ONHAND_MCP_FILES")
    settings = project.parent / ".config" / "onhand" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[mcp]\nfiles = ['~/mine.json']\n")
    (project / "mine.json").rename(project.parent / "mine.json")
    assert "good" in run("mcp", "list").out


@requirement("trust.not-what-everyone-can-write")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_nothing_that_everyone_can_change_is_trusted(run: Run, project: Path) -> None:
    settings, servers = project / "onhand.toml", project / ".mcp.json"
    settings.write_text("[mcp]\nfiles = ['.mcp.json']\n")
    servers.write_text(SERVER)
    for path in (settings, servers):
        path.chmod(0o666)
        done = run("trust", "--yes")
        assert (done.code, f"run: chmod o-w {path}" in done.err) == (2, True)
        path.chmod(0o644)
    assert run("trust", "--yes").code == 0
    own = project.parent / ".config" / "onhand" / "mcp.json"
    own.parent.mkdir(parents=True)
    own.write_text(EVIL.replace("good", "mine"))
    assert "mine" in run("mcp", "list").out
    own.chmod(0o666)
    listed = run("mcp", "list")
    assert ("mine" in listed.out, "good" in listed.out) == (False, True)
    assert f"{own} is not trusted because everyone can change it; to fix that, run: chmod o-w {own}" in listed.err


@requirement("config.secrets-are-never-shown")
def test_a_secret_in_a_server_file_is_not_printed(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[mcp]\nfiles = ['.mcp.json']\n")
    server = {
        "url": "https://example.com/mcp",
        "headers": {"Authorization": "Bearer s3cret", "X-Key": "${KEY}"},
        "env": {"A_TOKEN": "s3cret", "LD_PRELOAD": "evil.so"},
    }
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"a": server}}))
    shown = run("trust", "--show").out + run("trust", "--show", "--json").out
    assert "s3cret" not in shown
    assert all(visible in shown for visible in ("evil.so", "${KEY}", "a.env.A_TOKEN = …"))


@requirement("config.secrets-are-never-shown")
def test_a_secret_that_has_changed_is_reported_but_not_printed(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[mcp]\nfiles = ['.mcp.json']\n")
    for header, token in (("one", "three"), ("two", "four")):
        server = {"command": "server", "env": {"A_TOKEN": token}}
        remote = {"url": "https://example.com/mcp", "headers": {"Authorization": header}}
        (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"a": server, "b": remote}}))
        shown = run("trust", "--yes").out
    assert shown.splitlines()[:6] == [
        f"Since you trusted {project}, this has changed:",
        ".mcp.json:",
        "  - a.env.A_TOKEN = …",
        "  - b.headers.Authorization = …",
        "  + a.env.A_TOKEN = …",
        "  + b.headers.Authorization = …",
    ]


def test_what_stops_confining_commands_is_called_that(run: Run, project: Path) -> None:
    (project / "onhand.toml").write_text("[sandbox]\nbackend = 'none'\n")
    assert "sandbox.backend = 'none', which decides how far commands are confined" in run("trust", "--show").out
