"""Is our entry written into the file of each client, and what was there kept?"""

import json
import os
import stat
import sys
import tomllib
from pathlib import Path

import pytest

from onhand.errors import InputError
from onhand.mcp import client_settings
from onhand.mcp.client_settings import CLIENTS, edited, entry_of, path_of, write
from requirements import requirement

COMMAND = ["/usr/bin/onhand"]


def said(path: Path) -> dict[str, object]:
    text = path.read_text(encoding="utf-8")
    read: dict[str, object] = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return read


@requirement("mcp.install")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("of_project", [True, False])
def test_our_entry_is_written_where_each_client_looks(client: str, of_project: bool, tmp_path: Path) -> None:
    path = path_of(client, str(tmp_path) if of_project else None, str(tmp_path / "home"), {})
    edit = edited(client, path, "onhand", entry_of(client, COMMAND))
    assert write(edit) is None  # there was nothing to keep
    servers = said(Path(path))[CLIENTS[client].key]
    assert isinstance(servers, dict)
    assert servers["onhand"]["command"] == "/usr/bin/onhand"
    assert servers["onhand"]["args"][0] == "serve"
    assert not edited(client, path, "onhand", entry_of(client, COMMAND)).changes


@requirement("mcp.install")
def test_what_a_file_said_before_is_kept_beside_it_each_time(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text('{"mcpServers": {}}', encoding="utf-8")
    path.chmod(0o640)
    first = write(edited("claude", str(path), "onhand", entry_of("claude", COMMAND)))
    second = write(edited("claude", str(path), "onhand", entry_of("claude", ["/other"])))
    assert first
    assert second
    assert first != second
    assert Path(first).read_text(encoding="utf-8") == '{"mcpServers": {}}'
    assert json.loads(Path(second).read_text(encoding="utf-8"))["mcpServers"]["onhand"]["command"] == COMMAND[0]
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_to_where_somebody_keeps_settings_stays_a_link(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.json"
    kept.write_text("{}", encoding="utf-8")
    path = tmp_path / ".mcp.json"
    path.symlink_to(kept)
    write(edited("claude", str(path), "onhand", entry_of("claude", COMMAND)))
    assert path.is_symlink()
    assert "mcpServers" in said(kept)


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"[]", b'{"mcpServers": 3}', b"not json"])
def test_a_file_that_cannot_be_edited_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"by hand|UTF-8"):
        edited("cursor", str(path), "onhand", entry_of("cursor", COMMAND))
    assert path.read_bytes() == content


def test_what_is_no_file_or_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        edited("cursor", str(tmp_path), "onhand", entry_of("cursor", COMMAND))
    monkeypatch.setattr(client_settings, "MAX_FILE_BYTES", 3)
    path = tmp_path / "mcp.json"
    path.write_text("{    }", encoding="utf-8")
    with pytest.raises(InputError, match="no file of settings"):
        edited("cursor", str(path), "onhand", entry_of("cursor", COMMAND))


def test_the_places_of_settings_follow_the_environment() -> None:
    assert path_of("codex", None, "/home/a", {"CODEX_HOME": "/c"}) == os.path.join("/c", "config.toml")
    assert path_of("gemini", None, "/home/a", {}) == os.path.join("/home/a", ".gemini/settings.json")
    if sys.platform == "linux":
        assert path_of("zed", None, "/home/a", {"XDG_CONFIG_HOME": "/x"}) == "/x/zed/settings.json"
        assert path_of("vscode", None, "/home/a", {}) == "/home/a/.config/Code/User/mcp.json"
