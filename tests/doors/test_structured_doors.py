"""Is what a tool tells programs over MCP what the command line prints as JSON, and what Python says?"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from onhand.cli.main import main
from onhand.doors import mcp_surface
from onhand.hidden_characters import sanitize_json
from onhand.mcp.surface import build_server
from onhand.project import Project, load_config
from onhand.record import to_json
from rawmcp import JSON
from requirements import requirement
from whole_project import whole_project

QUERIES = ["rollback", "who leads an incident", "database", "review a migration", "nothing-like-it", "<b>&\u202e"]
ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
Question = tuple[list[str], str, dict[str, Any], Callable[[], Any]]
TIMES = {"created", "updated"}  # of a note: seconds may pass between two doors

pytestmark = [requirement("mcp.same-json"), pytest.mark.usefixtures("project")]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONHAND_DOCUMENTS_EMBEDDER", "none")
    monkeypatch.setenv("HOME", str(tmp_path))
    made = whole_project(tmp_path / "project")
    monkeypatch.chdir(made)
    return made


def questions() -> list[Question]:
    """Words for the command line, a tool with its arguments, and what Python has to say: all the same question."""
    asked = load_config()
    context, rules = Project(asked).context, Project(asked).rules
    skills, notes = Project(asked).skills, Project(asked).notes
    searches: list[tuple[str, str, str, Callable[[str], Any]]] = [
        ("context", "context_search", "k", lambda query: to_json(context.search(query, 2))),
        ("rules", "search_rules", "limit", lambda query: to_json(rules.search(query, 2))),
        ("skills", "search_skills", "limit", lambda query: to_json(skills.search(query, 2))),
        ("notes", "search_notes", "limit", lambda query: to_json(notes.search(query, 2))),
    ]

    def rules_for(path: str) -> Any:
        return to_json(rules.for_path(path))

    made: list[Question] = [
        ([noun, "search", "-k2", "--json", "--", query], tool, {"query": query, limit: 2}, partial(ask, query))
        for query in QUERIES
        for noun, tool, limit, ask in searches
    ]
    made += [
        (["rules", "for", "--json", path], "rules_for_path", {"path": path}, partial(rules_for, path))
        for path in (".", "src/new.py")
    ]
    name = next(one.name for one in skills.all() if skills.read(one.name).references)
    page = skills.read(name).references[0].path
    command = ["skills", "read", "--json", name]
    made.append((command, "read_skill", {"name": name}, lambda: to_json(skills.read(name))))
    made.append(([*command, "--reference", page], "read_skill_reference", {"skill": name, "path": page},
                 lambda: to_json(skills.reference_content(name, page))))  # fmt: skip
    return made


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(words) == 0
    return json.loads(capsys.readouterr().out)


def talk(ask: Callable[[Client], Any], mode: Any) -> Any:
    """Let a client of the SDK, which holds answers against their schemas, ask."""

    async def run() -> Any:
        surface = mcp_surface(Project(load_config()))
        with anyio.fail_after(100):
            async with Client(build_server(surface), mode=mode) as client:
                return await ask(client)

    return anyio.run(run)


async def structured(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    result = await client.call_tool(tool, arguments, meta=JSON)
    assert isinstance(result, types.CallToolResult)
    assert not result.is_error, result.content
    assert result.structured_content is not None, tool
    return result.structured_content


@ERAS
def test_python_the_command_line_and_mcp_give_the_same_json(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = questions()

    async def ask_all(client: Client) -> list[Any]:
        return [await structured(client, tool, arguments) for _, tool, arguments, _ in asked]

    hits = 0
    for (words, _, _, python), told in zip(asked, talk(ask_all, mode), strict=True):
        # MCP answers a model, and the others answer programs.
        assert told == sanitize_json(printed(words, capsys)), words
        assert told == sanitize_json(json.loads(json.dumps(python()))), words
        hits += len(told.get("hits", ()))
    assert hits > 15


@ERAS
def test_written_notes_and_steps_have_the_same_json(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    written = {"name": "door", "description": "Which door", "body": "The left one."}
    words = ["notes", "write", written["name"], "--json", "--description", written["description"]]

    async def ask_all(client: Client) -> list[Any]:
        first = await structured(client, "write_note", written)
        deleted = await structured(client, "delete_note", {"name": "door"})
        added = await structured(client, "plan_add", {"nodes": [{"id": "test", "description": "Test it"}]})
        shown = await structured(client, "plan_show", {"ids": ["test"]})
        begun = await structured(client, "plan_update", {"id": "test", "status": "in_progress"})
        ready = await structured(client, "plan_ready", {})
        return [first, deleted, added, shown, begun, ready]

    first, deleted, added, shown, begun, ready = talk(ask_all, mode)
    assert timeless(first) == timeless(printed([*words, "--source", first["note"]["source"], "The left one."], capsys))
    assert timeless(deleted) == timeless(printed(["notes", "delete", "door", "--json"], capsys))
    assert shown["nodes"] == added["nodes"]
    assert added["ready"] == ["model", "test"]
    assert begun["node"] == printed(["plan", "show", "test", "--json"], capsys)[0]
    assert begun["ready"] == ["model"]
    everything = printed(["plan", "ready", "--why", "--json"], capsys)
    assert ready["ready"] == everything["ready"]
    assert ready["not_ready"] == [reason for reason in everything["not_ready"] if reason["id"] == "form"]


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: timeless(part) for name, part in value.items() if name not in TIMES}
    return value
