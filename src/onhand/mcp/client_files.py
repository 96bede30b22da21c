"""Where do other MCP clients keep their servers? The files of each, of this user and of a project.

Nothing here reads them: `servers` does, in every form.
"""

import os
import sys
from collections.abc import Mapping


def places(home: str, project: str, environ: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Client → its files, whether they are there or not, the user's first."""
    in_home = {
        "claude-desktop": [os.path.join(_settings(home, environ), "Claude", "claude_desktop_config.json")],
        "claude-code": [os.path.join(home, ".claude.json")],
        "cursor": [os.path.join(home, ".cursor", "mcp.json")],
        "vscode": [os.path.join(_settings(home, environ), "Code", "User", "mcp.json")],
        "windsurf": [os.path.join(home, ".codeium", "windsurf", "mcp_config.json")],
        "gemini": [os.path.join(home, ".gemini", "settings.json")],
        "zed": [os.path.join(home, ".config", "zed", "settings.json")],
        "codex": [os.path.join(home, ".codex", "config.toml")],
    }
    in_project = {
        "claude-code": ".mcp.json",
        "cursor": os.path.join(".cursor", "mcp.json"),
        "vscode": os.path.join(".vscode", "mcp.json"),
        "gemini": os.path.join(".gemini", "settings.json"),
    }
    for client, name in in_project.items():
        in_home[client].append(os.path.join(project, name))
    return {client: tuple(files) for client, files in in_home.items()}


def _settings(home: str, environ: Mapping[str, str]) -> str:
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support")
    if sys.platform == "win32":
        return environ.get("APPDATA") or os.path.join(home, "AppData", "Roaming")
    return environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
