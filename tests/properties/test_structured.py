"""Whatever is asked of our tools, whatever is in the files behind them: does every answer fit its schema and cap?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onhand.project import Project, load_config
from onhand.tools import Registry
from onhand.tools.catalog import Catalog
from onhand.tools.session import Session
from requirements import requirement
from toolset import sample
from whole_project import whole_project

pytestmark = requirement("mcp.structured")

WORDS = ["rollback", "database", "deploy", "zebra", "login", "refund", "dock", "model", "review", "\x00", "<context>"]
QUERY = st.lists(st.sampled_from(WORDS) | st.text(max_size=12), min_size=1, max_size=30).map(" ".join)
HUGE = st.sampled_from([" ".join(f"word{number}" for number in range(5000)), "zebra " * 8000, "é" * 40_000])
LIMIT = st.integers(1, 50)
NAME = st.sampled_from(["zebra", "huge", "model", "form", "odd \x00"]) | st.text(min_size=1, max_size=20)
SEARCHES = ("search_rules", "search_skills", "search_notes", "keyword_search", "fused_search")


def call(tool: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.fixed_dictionaries(arguments).map(lambda given: (tool, given))


CALLS = st.one_of(
    call("context_search", query=QUERY | HUGE, k=LIMIT),
    *(call(tool, query=QUERY | HUGE, limit=LIMIT) for tool in SEARCHES),
    call("rules_for_path", path=st.sampled_from([".", "AGENTS.md", "deep/a/b.py", "src/x"])),
    call("read_skill", name=st.sampled_from(["huge", "wash"])),
    call("read_skill_reference", skill=st.just("huge"), path=st.sampled_from(["SKILL.md", "references/0.md"])),
    call("write_note", name=NAME, description=NAME, body=st.text(min_size=1, max_size=2000)),
    call("delete_note", name=NAME),
    call("plan_add", nodes=st.lists(st.fixed_dictionaries({"id": NAME, "description": QUERY}), min_size=1, max_size=5)),
    call("plan_update", id=NAME, context=st.dictionaries(NAME, st.text(max_size=3000), max_size=5)),
    call("plan_ready", limit=LIMIT),
    call("plan_show"),
    call("plan_show", ids=st.lists(NAME, min_size=1, max_size=3)),
    call("search_tools", query=QUERY | HUGE, limit=st.integers(1, 20)),
    call("describe_tool", name=st.sampled_from(["huge_tool", "github_create_issue", "nothing"])),
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Every tool of ours over files that somebody made to be trouble."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("ONHAND_DOCUMENTS_EMBEDDER", "none")
        project = whole_project(tmp_path_factory.mktemp("hostile") / "project")
        make_trouble(project)
        registry = Project(load_config(str(project))).registry()
        for tool in Session(tools(), mode="all").tools():
            registry.register(tool)
        yield registry


def make_trouble(project: Path) -> None:
    """Long headings, control characters, names that are no text, hundreds of problems, links and files."""
    pages = project / ".AGENTS"
    for number in range(300):  # each of which is a problem to be told
        (pages / f"problem {number} {'x' * 100}.md").write_text("---\npinned: perhaps\n---\n# zebra\n\nzebra\n")
    (pages / "long.md").write_text(f"# {'zebra ' * 4000}\n\nzebra {chr(1) * 20_000}\n", encoding="utf-8")
    (pages / "words.md").write_text("# Words\n\n" + " ".join(f"word{number}" for number in range(5000)))
    with open(bytes(pages) + b"/\xff\xfe zebra.md", "wb") as odd:
        odd.write(b"# zebra \xff\n\nzebra \xff\xfe\n")
    links = "\n".join(f"- [zebra {number}](docs/{number}.md)" for number in range(200))
    (project / "AGENTS.md").write_text(f"# Rules\n\nzebra\n\n{links}\n{chr(2) * 40_000}\n")
    (project / "docs").mkdir(exist_ok=True)
    for number in range(200):
        (project / f"docs/{number}.md").write_text(f"# zebra {number}\n\n" + '"zebra"\n' * 3000)
    below = project / "deep/a"
    below.mkdir(parents=True)
    (below / "AGENTS.md").write_text('"deep"\n' * 9000)
    skill = project / ".agents/skills/huge"
    (skill / "references").mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: huge\ndescription: " + "zebra " * 8000 + "\n---\n" + "\n# Heading zebra\n\x01\x02\n" * 3000
    )
    for number in range(400):
        (skill / f"references/{number}.md").write_text("# zebra\n\n" + "\x03" * 9000 * (number == 0))
    for name in ("quagga", "okapi"):
        said = f"---\nname: {name}\ndescription: zebra\n---\n\n" + f'"zebra {name}"\n' * 1000
        (project / f".onhand/notes/{name}.md").write_text(said)


def tools() -> Catalog:
    from onhand.tools.catalog_tool import CatalogTool

    catalog = sample()
    properties = {f"argument{number}": {"type": "string", "description": "d" * 200} for number in range(500)}
    catalog.add([CatalogTool("huge_tool", "zebra " * 50_000, {"type": "object", "properties": properties})])
    return catalog


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(CALLS)
def test_every_answer_fits_its_schema_and_its_cap_and_no_error_has_one(
    registry: Registry, asked: tuple[str, dict[str, Any]]
) -> None:
    name, arguments = asked
    tool = registry.get(name)
    assert tool is not None
    assert tool.output_schema is not None
    result = registry.call(name, arguments)
    if not result.ok:
        assert result.structured is None
        return
    assert "[structured output left out" not in result.text
    jsonschema_rs.validate(tool.output_schema, result.structured)
    assert len(json.dumps(result.structured, ensure_ascii=False).encode()) <= tool.max_output_bytes


@pytest.mark.parametrize(
    ("name", "arguments", "main"),
    [
        ("context_search", {"query": "zebra", "k": 50}, "hits"),
        ("context_search", {"query": " ".join(f"word{number}" for number in range(5000))}, "hits"),
        ("search_rules", {"query": "zebra", "limit": 50}, "hits"),
        ("rules_for_path", {"path": "deep/a/b.py"}, "files"),
        ("search_skills", {"query": "zebra"}, "hits"),
        ("read_skill", {"name": "huge"}, "text"),
        ("read_skill_reference", {"skill": "huge", "path": "SKILL.md"}, "text"),
        ("search_notes", {"query": "quagga"}, "hits"),
        ("delete_note", {"name": "okapi"}, "deleted"),
        ("describe_tool", {"name": "huge_tool"}, "description"),
    ],
)
def test_a_cut_answer_still_has_what_matters_and_says_that_it_was_cut(
    registry: Registry, name: str, arguments: dict[str, Any], main: str
) -> None:
    result = registry.call(name, arguments)
    assert result.ok, result.text
    assert result.structured[main], "something is always there"
    assert any("no room" in note for note in result.structured["notes"])
