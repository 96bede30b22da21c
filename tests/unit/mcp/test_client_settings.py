"""The entry of onhand in the settings files of clients."""

import json
import os
import stat
import sys
import tomllib
from pathlib import Path

import pytest

from onhand.errors import InputError
from onhand.mcp import client_settings
from onhand.mcp.client_settings import CLIENTS, edit_settings, make_entry, settings_path, write_settings
from requirements import requirement

COMMAND = ["/usr/bin/onhand"]


def said(path: Path) -> dict[str, object]:
    text = path.read_text(encoding="utf-8")
    read: dict[str, object] = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return read


@requirement("mcp.install")
@pytest.mark.parametrize(
    ("client", "of_project"),
    [(client, of_project) for client in CLIENTS for of_project in (False, True)[: 2 if CLIENTS[client].project else 1]],
)
def test_the_entry_is_written_to_the_settings_of_each_client(client: str, of_project: bool, tmp_path: Path) -> None:
    path = settings_path(client, str(tmp_path) if of_project else None, str(tmp_path / "home"), {})
    edit = edit_settings(client, path, "onhand", make_entry(client, COMMAND))
    assert write_settings(edit) is None  # there was nothing to keep
    servers = said(Path(path))[CLIENTS[client].key]
    assert isinstance(servers, dict)
    entry = servers["onhand"]
    words = entry["command"] if client == "opencode" else [entry["command"], *entry["args"]]
    assert words[:2] == ["/usr/bin/onhand", "serve"]
    assert not edit_settings(client, path, "onhand", make_entry(client, COMMAND)).changes


@requirement("mcp.install")
def test_every_change_leaves_a_backup_next_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text('{"mcpServers": {}}', encoding="utf-8")
    path.chmod(0o640)
    first = write_settings(edit_settings("claude", str(path), "onhand", make_entry("claude", COMMAND)))
    second = write_settings(edit_settings("claude", str(path), "onhand", make_entry("claude", ["/other"])))
    assert first
    assert second
    assert first != second
    assert Path(first).read_text(encoding="utf-8") == '{"mcpServers": {}}'
    assert json.loads(Path(second).read_text(encoding="utf-8"))["mcpServers"]["onhand"]["command"] == COMMAND[0]
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


@requirement("mcp.install")
@pytest.mark.parametrize("before", [None, '{"mcpServers": {}}'])
def test_what_a_client_writes_meanwhile_is_not_lost(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / ".claude.json"
    if before is not None:
        path.write_text(before, encoding="utf-8")
    edit = edit_settings("claude", str(path), "onhand", make_entry("claude", COMMAND))
    path.write_text('{"history": ["new"]}', encoding="utf-8")
    with pytest.raises(InputError, match=r"another program has just changed .* try again"):
        write_settings(edit)
    assert said(path) == {"history": ["new"]}
    write_settings(edit_settings("claude", str(path), "onhand", make_entry("claude", COMMAND)))
    assert said(path).keys() == {"history", "mcpServers"}


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_symbolic_link_to_settings_stays_a_link(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.json"
    kept.write_text("{}", encoding="utf-8")
    path = tmp_path / ".mcp.json"
    path.symlink_to(kept)
    write_settings(edit_settings("claude", str(path), "onhand", make_entry("claude", COMMAND)))
    assert path.is_symlink()
    assert "mcpServers" in said(kept)


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"[]", b'{"mcpServers": 3}', b"not json"])
def test_settings_that_cannot_be_edited_are_not_changed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"by hand|UTF-8"):
        edit_settings("cursor", str(path), "onhand", make_entry("cursor", COMMAND))
    assert path.read_bytes() == content


def test_a_directory_or_a_very_long_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        edit_settings("cursor", str(tmp_path), "onhand", make_entry("cursor", COMMAND))
    monkeypatch.setattr(client_settings, "MAX_FILE_BYTES", 3)
    path = tmp_path / "mcp.json"
    path.write_text("{    }", encoding="utf-8")
    with pytest.raises(InputError, match="too long for a settings file"):
        edit_settings("cursor", str(path), "onhand", make_entry("cursor", COMMAND))


def test_settings_paths_follow_the_environment() -> None:
    assert settings_path("codex", None, "/home/a", {"CODEX_HOME": "/c"}) == os.path.join("/c", "config.toml")
    assert settings_path("gemini", None, "/home/a", {}) == os.path.join("/home/a", ".gemini/settings.json")
    if sys.platform == "linux":
        assert settings_path("zed", None, "/home/a", {"XDG_CONFIG_HOME": "/x"}) == "/x/zed/settings.json"
        assert settings_path("vscode", None, "/home/a", {}) == "/home/a/.config/Code/User/mcp.json"
