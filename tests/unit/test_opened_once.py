"""How often does one process open the parts of a project?"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onhand
from onhand.agent.models.scripted import ScriptedModel
from onhand.cli.main import main
from onhand.corpora.context import Context
from onhand.corpora.notes import Notes
from onhand.corpora.rules import Rules
from onhand.corpora.skills import Skills
from onhand.doors import editor_agent, mcp_surface
from onhand.store.sqlite import SqliteStore
from onhand.tools.registry import Registry
from requirements import requirement
from whole_project import whole_project

PARTS = (Context, Rules, Skills, Notes, SqliteStore, Registry)
ONCE = {part.__name__: 1 for part in PARTS}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Counter[str]]:
    """Counts what is opened in a project that has everything, which is the working directory."""
    monkeypatch.chdir(whole_project(tmp_path / "project"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ONHAND_DOCUMENTS_EMBEDDER", "none")
    counter: Counter[str] = Counter()
    for part in PARTS:
        _count(monkeypatch, part, counter)
    yield counter


def _count(monkeypatch: pytest.MonkeyPatch, part: type, counter: Counter[str]) -> None:
    begin: Any = part.__init__  # type: ignore[misc]

    def counting(self: Any, *values: Any, **named: Any) -> None:
        counter[part.__name__] += 1
        begin(self, *values, **named)

    monkeypatch.setattr(part, "__init__", counting)


@requirement("project.opened-once")
def test_an_agent_opens_each_part_once(opened: Counter[str], tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    calls = [{"name": name, "arguments": {"query": "dock"}} for name in ("context_search", "search_rules")]
    script.write_text(json.dumps([{"calls": calls}, "done"]), encoding="utf-8")
    assert main(["agent", "--model", f"scripted:{script}", "What does the dock do?"]) == 0
    assert opened == ONCE


@requirement("project.opened-once")
def test_a_server_opens_each_part_once(opened: Counter[str]) -> None:
    surface: Any = mcp_surface(onhand.open())
    assert surface.resources.all()
    assert surface.resources.complete("name", "")
    assert opened == ONCE


@requirement("project.opened-once")
def test_a_session_of_an_editor_opens_each_part_once(opened: Counter[str], tmp_path: Path) -> None:
    from acp import schema

    script = tmp_path / "script.json"
    script.write_text(json.dumps(["done"]), encoding="utf-8")

    async def talk() -> None:
        agent = editor_agent({"model": f"scripted:{script}"})
        agent.on_connect(_Editor())  # type: ignore[arg-type]  # of which little is needed
        await agent.initialize(1)
        session = await agent.new_session(str(Path.cwd()))
        await agent.prompt(session.session_id, [schema.TextContentBlock(type="text", text="go")])
        await agent.close()

    asyncio.run(talk())
    assert opened == ONCE


class _Editor:
    """An editor that listens and says nothing."""

    async def session_update(self, **_: Any) -> None:
        pass


@requirement("project.opened-once")
def test_parts_are_opened_lazily_and_are_the_same_each_time(opened: Counter[str]) -> None:
    with onhand.open() as project:
        assert not opened
        assert project.context is project.context
        assert project.search("dock").hits
        project.tools()
        project.registry().call("context_search", {"query": "dock"})
        project.agent(ScriptedModel([]))
    assert opened == {**ONCE, "Registry": 2}  # an agent has its own, to which tools can be added


@requirement("project.opened-once")
def test_documents_that_are_imported_later_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONHAND_DOCUMENTS_EMBEDDER", "none")
    with onhand.open(tmp_path) as project:
        assert not project.search("zebra").hits
        project.index.put([onhand.Document("a", "Zebra", "about it")])
        assert [hit.finding.place for hit in project.search("zebra").hits] == ["a"]
        assert project.documents.keyword("zebra").hits
