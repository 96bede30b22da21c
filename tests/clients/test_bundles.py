"""Can clients install onhand from what `make bundles` generated? Each artefact goes through the tools that it is for.

ONHAND_BUNDLES names their directory, and ONHAND_CLIENTS another one that the clients are kept in; `make bundles` sets
both.
"""

import json
import os
import sys
from pathlib import Path

import jsonschema_rs
import pytest
from benchmarks.environments import python_with, run

import onhand
from clients.conversation import HOME, Conversation, Home, converse, find_time, program_path
from clients.model import DONE
from clients.programs import PROGRAMS, Program
from npm import bin_from_npm
from onhand.mcp.permissions import CALL_TOOLS
from requirements import requirement

BUNDLES = Path(os.environ.get("ONHAND_BUNDLES", "")).absolute()
MARKETPLACE, PLUGIN = BUNDLES / "marketplace", BUNDLES / "marketplace" / "onhand"
BUNDLE = BUNDLES / f"onhand-{onhand.__version__}.mcpb"
MCPB, UV, SKILLSAW = ("@anthropic-ai/mcpb", "2.1.2"), "uv==0.12.24", "skillsaw==0.22.0"
CLAUDE, CODEX, GEMINI = (
    next(program for program in PROGRAMS if program.name == name) for name in ("claude", "codex", "gemini")
)
FIXED = ("search_tools", "describe_tool", *CALL_TOOLS.values(), "read_on")

pytestmark = [
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(not (HOME and os.environ.get("ONHAND_BUNDLES")), reason="needs bundles: run `make bundles`"),
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def install_claude_plugin(program: Program, home: Home) -> None:
    home.run(program_path(program), "plugin", "marketplace", "add", MARKETPLACE)
    home.run(program_path(program), "plugin", "install", "onhand@onhand")


def install_codex_plugin(program: Program, home: Home) -> None:
    home.run(program_path(program), "plugin", "marketplace", "add", MARKETPLACE)
    home.run(program_path(program), "plugin", "add", "onhand@onhand")


def install_gemini_extension(program: Program, home: Home) -> None:
    home.run(program_path(program), "extensions", "install", PLUGIN, "--consent", given="y\n")  # trusts the directory


def lists_and_calls_our_tools(program: Program, conversation: Conversation) -> bool:
    """Whether the fixed tools were in the first request, and a search for one worked."""
    wanted = {program.prefix + name for name in FIXED}
    return wanted <= set(conversation.sent[0].names) and "time__get_current_time" in conversation.results[0]


@requirement("mcp.bundles")
@pytest.mark.parametrize("manifest", [MARKETPLACE, PLUGIN], ids=["marketplace", "plugin"])
def test_claude_finds_nothing_wrong_with_the_manifests(manifest: Path, home: Home) -> None:
    assert "Validation passed" in home.run(program_path(CLAUDE), "plugin", "validate", "--strict", manifest)


@requirement("mcp.bundles")
def test_claude_connects_to_the_server_of_the_plugin(home: Home) -> None:
    install_claude_plugin(CLAUDE, home)
    assert "plugin:onhand:onhand: onhand serve - ✔ Connected" in home.run(program_path(CLAUDE), "mcp", "list")


@requirement("mcp.bundles")
def test_the_plugin_gives_claude_our_tools_at_once_and_one_skill(home: Home) -> None:
    prefix = "mcp__plugin_onhand_onhand__"
    arguments = ("--print", "Go.", "--allowedTools", prefix + "search_tools")
    program = CLAUDE._replace(prefix=prefix, arguments=arguments)
    conversation = converse(program, [find_time], home, install_claude_plugin)
    assert DONE in conversation.output
    assert lists_and_calls_our_tools(program, conversation)
    assert "onhand:find-tools" in conversation.sent[0].rest


@requirement("mcp.bundles")
def test_codex_lists_the_plugin_and_its_server(home: Home) -> None:
    codex = program_path(CODEX)
    install_codex_plugin(CODEX, home)
    listed = [line.split() for line in home.run(codex, "plugin", "list").splitlines()]
    assert ["onhand@onhand", "installed,", "enabled", onhand.__version__, str(PLUGIN)] in listed
    assert ["onhand", "onhand", "serve"] in [line.split()[:3] for line in home.run(codex, "mcp", "list").splitlines()]


@requirement("mcp.bundles")
def test_the_plugin_gives_codex_our_tools_at_once_and_one_skill(home: Home) -> None:
    program = CODEX._replace(arguments=("exec", "--skip-git-repo-check", "Go."))  # a search needs no approval
    conversation = converse(program, [find_time], home, install_codex_plugin)
    assert DONE in conversation.output
    assert lists_and_calls_our_tools(program, conversation)
    assert "onhand:find-tools" in conversation.sent[0].rest


@requirement("mcp.bundles")
def test_gemini_finds_nothing_wrong_with_the_extension(home: Home) -> None:
    assert "successfully validated" in home.run(program_path(GEMINI), "extensions", "validate", PLUGIN)


@requirement("mcp.bundles")
def test_the_extension_gives_gemini_our_tools_and_one_skill(home: Home) -> None:
    conversation = converse(GEMINI, [find_time], home, install_gemini_extension)
    assert DONE in conversation.output
    assert lists_and_calls_our_tools(GEMINI, conversation)
    assert "find-tools: How to find and call tools" in home.run(program_path(GEMINI), "extensions", "list")


@requirement("mcp.bundles")
def test_the_bundle_is_valid_and_starts_the_server_with_what_is_in_it(home: Home, tmp_path: Path) -> None:
    mcpb = bin_from_npm(*MCPB, Path(HOME)) / "mcpb"
    unpacked = tmp_path / "unpacked"
    assert "passes" in home.run(mcpb, "validate", BUNDLES / "bundle" / "manifest.json")
    home.run(mcpb, "unpack", BUNDLE, unpacked)

    config = json.loads((unpacked / "manifest.json").read_text(encoding="utf-8"))["server"]["mcp_config"]
    filled = {"${__dirname}": str(unpacked), "${user_config.project}": str(home.project)}
    assert config["command"] == "uv"
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": SEARCH},
    ]
    given = "".join(json.dumps(message) + "\n" for message in messages)
    uv = python_with(UV, Path(HOME)).with_name("uv")
    words = [filled.get(word, word) for word in config["args"]]
    kept = Path(HOME).absolute() / "uv"
    # With the environment of this process, because uv fetches what the server needs from a package index.
    answers = run(uv, *words, given=given, HOME=home.environ["HOME"], UV_CACHE_DIR=str(kept), UV_PYTHON=sys.executable)
    assert f'"version":"{onhand.__version__}"' in answers
    assert "At most ten percent" in answers


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
SEARCH = {"name": "context_search", "arguments": {"query": "retry budget"}}


@requirement("mcp.bundles")
def test_the_entry_of_the_registry_fits_its_schema_and_its_rules(home: Home) -> None:
    python = python_with(SKILLSAW, Path(HOME))
    entry = json.loads((BUNDLES / "server.json").read_text(encoding="utf-8"))
    package = Path(home.run(python, "-c", "import skillsaw; print(skillsaw.__path__[0])").strip())
    schema = json.loads(
        (package / "schemas" / "mcp_registry" / "v2025_12_11" / "server.schema.json").read_text(encoding="utf-8")
    )
    assert entry["$schema"] == schema["$id"]
    jsonschema_rs.validate(schema, entry)
    said = home.run(python.with_name("skillsaw"), "lint", "--strict", "--no-color", BUNDLES)
    assert "mcp-registry" in said
    assert "Errors:   0" in said


@requirement("mcp.bundles")
def test_a_linter_finds_nothing_wrong_with_the_marketplace_of_codex(home: Home) -> None:
    skillsaw = python_with(SKILLSAW, Path(HOME)).with_name("skillsaw")
    said = home.run(skillsaw, "lint", "--strict", "--no-color", "--type", "codex-marketplace", MARKETPLACE)
    assert "codex-marketplace" in said
    assert "Errors:   0" in said
