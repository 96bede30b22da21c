"""Generates what clients install onhand from, in dist/bundles: `make bundles` does it and validates the result.

Everything is derived from pyproject.toml, from the entries that `onhand mcp install` writes, and from one skill.
"""

import json
import shutil
import subprocess
import sys
import tomllib
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import onhand
from onhand.mcp.client_settings import make_entry

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "dist" / "bundles"
SKILL = Path(__file__).parent / "find-tools" / "SKILL.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME, DESCRIPTION, LICENSE = PROJECT["name"], PROJECT["description"], PROJECT["license"]
VERSION = onhand.__version__
AUTHOR = {"name": "The onhand authors"}
WHEEL = f"{NAME}-{VERSION}-py3-none-any.whl"

# The registry gives a name to whoever owns the account in it, and looks for it in the README of the package.
REGISTRY_NAME = "io.github.onhand/onhand"
REGISTRY_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

# What starts the server where onhand is installed, with what Claude Code and Codex need to list its tools at once.
SERVER = {"command": NAME, "args": ["serve"], "alwaysLoad": True, "required": True}
ABOUT = {"name": NAME, "version": VERSION, "description": DESCRIPTION}

PLUGIN = f"marketplace/{NAME}"
BUNDLE = "bundle"  # the directory that is packed into the .mcpb file

BUNDLE_PROJECT = f"""[project]
name = "{NAME}-bundle"
version = "{VERSION}"
requires-python = "{PROJECT["requires-python"]}"
dependencies = ["{NAME}[mcp]"]

[tool.uv.sources]
{NAME} = {{ path = "{WHEEL}" }}
"""
BUNDLE_SERVER = """import sys

from onhand.cli.main import script

sys.argv[1:1] = ["serve"]
script()
"""


def files() -> dict[str, str]:
    """Every text file by its path below the target."""
    return {
        "marketplace/.claude-plugin/marketplace.json": _json(claude_marketplace()),
        "marketplace/.agents/plugins/marketplace.json": _json(codex_marketplace()),
        f"{PLUGIN}/.claude-plugin/plugin.json": _json(claude_plugin()),
        f"{PLUGIN}/.codex-plugin/plugin.json": _json(codex_plugin()),
        f"{PLUGIN}/gemini-extension.json": _json(gemini_extension()),
        f"{PLUGIN}/.mcp.json": _json({"mcpServers": {NAME: SERVER}}),
        f"{PLUGIN}/skills/{SKILL.parent.name}/SKILL.md": SKILL.read_text(encoding="utf-8"),
        f"{BUNDLE}/manifest.json": _json(bundle_manifest()),
        f"{BUNDLE}/pyproject.toml": BUNDLE_PROJECT,
        f"{BUNDLE}/server.py": BUNDLE_SERVER,
        "server.json": _json(registry_entry()),
        "links.json": _json(install_links()),
    }


def claude_marketplace() -> dict[str, Any]:
    """The marketplace of Claude Code, with one plugin."""
    plugin = {**ABOUT, "source": f"./{NAME}"}
    return {"name": NAME, "description": DESCRIPTION, "owner": AUTHOR, "plugins": [plugin]}


def codex_marketplace() -> dict[str, Any]:
    """The marketplace of Codex, with the same plugin."""
    plugin = {
        "name": NAME,
        "source": {"source": "local", "path": f"./{NAME}"},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Productivity",
    }
    return {"name": NAME, "interface": {"displayName": NAME}, "plugins": [plugin]}


def claude_plugin() -> dict[str, Any]:
    """The manifest of the plugin for Claude Code, which finds the server and the skill where they are."""
    return {**ABOUT, "author": AUTHOR, "license": LICENSE, "keywords": PROJECT["keywords"]}


def codex_plugin() -> dict[str, Any]:
    """The manifest of the plugin for Codex."""
    shown = {
        "displayName": NAME,
        "shortDescription": "Find tools and project knowledge when a task needs them",
        "longDescription": DESCRIPTION,
        "developerName": AUTHOR["name"],
        "category": "Productivity",
        "capabilities": ["Read", "Write"],
    }
    return {**claude_plugin(), "skills": "./skills/", "mcpServers": "./.mcp.json", "interface": shown}


def gemini_extension() -> dict[str, Any]:
    """The manifest of the extension for Gemini CLI, which finds the skill where it is."""
    return {**ABOUT, "mcpServers": {NAME: {"command": SERVER["command"], "args": SERVER["args"]}}}


def bundle_manifest() -> dict[str, Any]:
    """The manifest of the bundle for Claude Desktop, which has uv and asks for the directory of the project."""
    project = {
        "type": "directory",
        "title": "Project",
        "description": "The directory whose context, rules, skills and notes are searched.",
        "required": True,
    }
    arguments = ["run", "--directory", "${__dirname}", "server.py", "--root", "${user_config.project}"]
    return {
        "manifest_version": "0.4",
        "display_name": NAME,
        **ABOUT,
        "author": AUTHOR,
        "license": LICENSE,
        "keywords": PROJECT["keywords"],
        "server": {"type": "uv", "entry_point": "server.py", "mcp_config": {"command": "uv", "args": arguments}},
        "user_config": {"project": project},
        "compatibility": {"runtimes": {"python": PROJECT["requires-python"]}},
        "tools_generated": True,
        "prompts_generated": True,
    }


def registry_entry() -> dict[str, Any]:
    """The entry of the MCP registry, for the package of this version."""
    package = {
        "registryType": "pypi",
        "identifier": NAME,
        "version": VERSION,
        "runtimeHint": "uvx",
        "runtimeArguments": [{"type": "named", "name": "--with", "value": f"{NAME}[mcp]=={VERSION}"}],
        "packageArguments": [{"type": "positional", "value": "serve"}],
        "transport": {"type": "stdio"},
    }
    return {"$schema": REGISTRY_SCHEMA, **ABOUT, "name": REGISTRY_NAME, "title": NAME, "packages": [package]}


def install_links() -> dict[str, str]:
    """The links that let an editor add onhand to its settings, by the editor's name."""
    vscode = {"name": NAME, **make_entry("vscode", [NAME])}
    cursor = make_entry("cursor", [NAME])
    config = b64encode(_compact(cursor).encode()).decode()
    query = urlencode({"name": NAME, "config": config}, quote_via=quote, safe="")
    return {
        "vscode": f"vscode:mcp/install?{quote(_compact(vscode), safe='')}",
        "cursor": f"cursor://anysphere.cursor-deeplink/mcp/install?{query}",
    }


def write(target: Path) -> None:
    """Write everything into an empty directory, with the wheel, and pack the bundle."""
    shutil.rmtree(target, ignore_errors=True)
    for name, text in files().items():
        file = target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    words = ["-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([sys.executable, *words, str(target / BUNDLE), str(ROOT)], check=True)
    with ZipFile(target / f"{NAME}-{VERSION}.mcpb", "w", ZIP_DEFLATED) as packed:
        for file in sorted((target / BUNDLE).iterdir()):
            packed.writestr(ZipInfo(file.name), file.read_bytes(), ZIP_DEFLATED)  # with the same time in every build


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    write(TARGET)
    for file in sorted(path for path in TARGET.rglob("*") if path.is_file()):
        print(file.relative_to(ROOT))
