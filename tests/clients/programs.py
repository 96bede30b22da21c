"""The coding agents that we are tested with: where they come from, and how each is set up for a model on loopback."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from clients import anthropic, gemini, openai_chat, openai_responses
from clients.sent import Dialect

PROMPT = "Go."
READING = ("search_tools", "describe_tool", "call_tool")
START_S = 120  # a client begins without a server that takes longer to start, as ours may on a busy machine


class Program(NamedTuple):
    """A coding agent from npm. `configure` gets the home directory and the address of the model, writes the settings
    that a user would have, and returns environment variables."""

    name: str  # as `onhand mcp install` calls it
    title: str
    package: str
    version: str  # one that we saw work, and not of this week
    executable: str
    dialect: Dialect
    prefix: str  # of the names under which it lists our tools
    configure: Callable[[Path, str], Mapping[str, str]]
    arguments: tuple[str, ...]  # those of one conversation without a terminal, in which all our tools are allowed
    allow_reading: Callable[[Path], tuple[str, ...]]
    """Returns the arguments of a conversation in which only tools that read are allowed, for a project."""


def _configure_claude(home: Path, url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",  # telemetry, error reports, updates and surveys
        "DISABLE_AUTOUPDATER": "1",
        "MCP_CONNECT_TIMEOUT_MS": str(START_S * 1000),
    }


def _configure_codex(home: Path, url: str) -> dict[str, str]:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"""model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "Scripted"
base_url = "{url}/v1"
wire_api = "responses"
"""
    )
    return {}


def _configure_gemini(home: Path, url: str) -> dict[str, str]:
    settings = {
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    }
    _write_json(home / ".gemini" / "settings.json", settings)
    return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url}


def _configure_opencode(home: Path, url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"model": {"limit": {"context": 200_000, "output": 10_000}}},
    }
    settings = {
        "provider": {"scripted": provider},
        "model": "scripted/model",
        "autoupdate": False,
        "share": "disabled",
        "experimental": {"mcp_timeout": START_S * 1000},
    }
    _write_json(home / ".config" / "opencode" / "opencode.json", settings)
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


def _allow_opencode_to_read(project: Path) -> tuple[str, ...]:
    permission = {f"onhand_{name}": "ask" for name in ("call_tool_write", "call_tool_destructive")}
    _write_json(project / "opencode.json", {"permission": permission})
    return ("run", PROMPT)


def _write_json(file: Path, value: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=2))


PROGRAMS = (
    Program(
        "claude",
        "Claude Code",
        "@anthropic-ai/claude-code",
        "2.1.319",
        "claude",
        anthropic.DIALECT,
        "mcp__onhand__",
        _configure_claude,
        ("--print", PROMPT, "--allowedTools", "mcp__onhand"),
        lambda project: ("--print", PROMPT, "--allowedTools", *(f"mcp__onhand__{name}" for name in READING)),
    ),
    Program(
        "codex",
        "Codex",
        "@openai/codex",
        "0.166.0",
        "codex",
        openai_responses.DIALECT,
        "mcp__onhand__",
        _configure_codex,
        (
            "exec",
            "--skip-git-repo-check",
            "--config",
            f"mcp_servers.onhand.startup_timeout_sec={START_S}",
            "--config",
            'mcp_servers.onhand.default_tools_approval_mode="approve"',
            PROMPT,
        ),
        lambda project: (
            *("exec", "--skip-git-repo-check"),
            *("--config", f"mcp_servers.onhand.startup_timeout_sec={START_S}", PROMPT),
        ),
    ),
    Program(
        "gemini",
        "Gemini CLI",
        "@google/gemini-cli",
        "0.61.0",
        "gemini",
        gemini.DIALECT,
        "mcp_onhand_",
        _configure_gemini,
        ("--model", "gemini-2.5-flash", "--allowed-tools", "mcp_onhand_*", "--prompt", PROMPT),
        lambda project: (
            *("--model", "gemini-2.5-flash", "--prompt", PROMPT),
            *("--allowed-tools", ",".join(f"mcp_onhand_{name}" for name in READING)),
        ),
    ),
    Program(
        "opencode",
        "opencode",
        "opencode-ai",
        "1.18.33",
        "opencode",
        openai_chat.DIALECT,
        "onhand_",
        _configure_opencode,
        ("run", PROMPT),
        _allow_opencode_to_read,
    ),
)
