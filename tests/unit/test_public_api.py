"""What a Python user tries first works, or fails at once with a message that says what to pass."""

import datetime
import inspect
import pydoc
from collections.abc import Iterator
from pathlib import Path

import pytest

import onhand
from onhand import Agent, Catalog, Document, Filter, InputError, Registry, Session, Toolbox
from onhand.agent.models.scripted import ScriptedModel
from whole_project import whole_project

MAY = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[onhand.Project]:
    monkeypatch.setenv("HOME", str(tmp_path))
    with onhand.open(whole_project(tmp_path / "project"), settings={"documents.embedder": "none"}) as project:
        yield project


@pytest.fixture
def index() -> onhand.Index:
    index = onhand.open_index(embedder=None)
    index.put(Document("a", text="an apple", author="Bob <bob@x.org>", tags=("fruit",), created_time="2024-05-01"))  # type: ignore[arg-type]
    index.put([Document("b", text="an apple tree", author="Ann")])
    return index


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@onhand.tool
def half(number: int) -> float:
    """Halve a number."""
    return number / 2


def test_every_part_that_offers_tools_has_a_tools_method(project: onhand.Project) -> None:
    parts = (
        *(project.context, project.rules, project.skills, project.notes, project.documents),
        *(project.plan, project.cache, project.workspace, project),
    )
    for part in parts:
        assert all(isinstance(tool, onhand.Tool) for tool in part.tools()), part
        assert part.tools(), part


def test_the_registry_of_a_project_has_its_tools(project: onhand.Project) -> None:
    assert [tool.name for tool in project.registry()] == [tool.name for tool in project.tools()]
    assert project.registry().call("context_search", {"query": "releases"}).ok


def test_an_agent_of_a_project_takes_a_model_or_its_name(project: onhand.Project) -> None:
    assert project.agent("openai:gpt").model.name == "gpt"
    model = ScriptedModel([])
    assert project.agent(model).model is model
    with pytest.raises(InputError, match=r"use anthropic:NAME, openai:NAME"):
        project.agent("gpt")


def test_a_plan_and_its_graph_render_themselves(project: onhand.Project) -> None:
    project.plan.change(lambda relations: relations.add("paint", context={"description": "paint it"}))
    assert "paint it" in project.plan.to_context()
    assert "paint it" in project.plan.read(lambda relations: relations.to_context())


@pytest.mark.parametrize("part", ["context", "rules", "skills", "notes"])
def test_the_result_of_a_corpus_is_iterated_hit_by_hit(project: onhand.Project, part: str) -> None:
    result = getattr(project, part).search("the", limit=2)
    assert list(result) == list(result.hits)
    assert len(result) == len(result.hits)
    assert result


@pytest.mark.parametrize("part", ["context", "rules", "skills", "notes", "documents"])
def test_a_result_without_hits_is_false(project: onhand.Project, part: str) -> None:
    search = project.documents.keyword if part == "documents" else getattr(project, part).search
    result = search("xylophone")
    assert not result
    assert result.reason


def test_the_workspace_offers_only_reading_tools_on_request(project: onhand.Project) -> None:
    reading = {tool.name for tool in project.workspace.tools(write=False)}
    assert {"read_file", "glob", "git"} <= reading
    assert {tool.name for tool in project.workspace.tools()} - reading == {"write_file", "edit_file"}


def test_the_results_of_documents_tools_and_everything_are_iterated_hit_by_hit(
    project: onhand.Project, index: onhand.Index
) -> None:
    catalog = Catalog()
    catalog.add([double])
    results = (
        *(index.keyword("apple", limit=1), index.filter(limit=1), project.documents.keyword("the", limit=1)),
        *(catalog.search("double", limit=1), project.search("the", limit=1)),
    )
    for result in results:
        hits = list(result)
        assert hits == list(result.hits)
        assert len(hits) == 1


def test_agents_sessions_catalogs_and_registries_take_tools_and_functions() -> None:
    agent = Agent("openai:gpt", [double, half])
    assert [tool.name for tool in agent.tools] == ["double", "half"]  # type: ignore[attr-defined]
    assert [tool.name for tool in Agent("openai:gpt", Registry(half)).tools] == ["half"]  # type: ignore[attr-defined]
    assert [tool.name for tool in Toolbox([double])] == ["double"]
    assert {tool["name"] for tool in Session([double, half], mode="off").wire()} >= {"double", "half"}
    assert Catalog().add([half, double]).added == 2
    assert [tool.name for tool in Registry([double, half])] == ["double", "half"]
    assert [tool.name for tool in Registry(half)] == ["half"]
    assert [tool.name for tool in Registry(double)] == ["double"]


@pytest.mark.parametrize("use", [Registry, Toolbox, Session, lambda tools: Agent("openai:gpt", tools)])
def test_what_is_not_a_tool_is_refused_with_advice(use: type) -> None:
    with pytest.raises(InputError, match="pass a Tool, or a typed function with a docstring"):
        use([{"name": "double"}])


def test_an_agent_without_a_model_says_what_to_pass() -> None:
    with pytest.raises(InputError, match="5 is not a model: pass a Model, or the name of one"):
        Agent(5, [double])  # type: ignore[arg-type]


def test_a_catalog_of_a_list_says_how_to_add_tools() -> None:
    with pytest.raises(InputError, match=r"add tools with Catalog\(\).add\(tools\)"):
        Catalog([half])  # type: ignore[arg-type]


def test_a_decorated_function_remains_callable() -> None:
    assert half(3) == 1.5
    assert half(number=3) == 1.5


def test_a_filter_takes_single_texts_and_iso_dates(index: onhand.Index) -> None:
    def ids(**filter: object) -> list[str]:
        return [hit.document_id for hit in index.keyword("apple", filter=Filter(**filter))]  # type: ignore[arg-type]

    assert ids(author="bob") == ids(author=["bob"]) == ids(tags="fruit") == ["a"]
    assert (
        ids(created_after="2024-05-01")
        == ids(created_after=datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC))
        == ["a"]
    )
    assert ids(created_before="2024-05-01") == []
    with pytest.raises(InputError, match="created_after"):
        ids(created_after="next week")


def test_an_unknown_field_of_a_filter_is_named() -> None:
    with pytest.raises(TypeError, match=r"Filter takes author, tags, .*; check authors"):
        Filter(authors="bob")  # type: ignore[call-arg]


@pytest.mark.parametrize("document", [{"id": "a"}, "text", ["text"], [{"id": "a"}]])
def test_only_documents_can_be_put_into_an_index(index: onhand.Index, document: object) -> None:
    with pytest.raises(InputError, match=r"onhand\.Document, not (dict|str)"):
        index.put(document)  # type: ignore[arg-type]


def test_a_document_with_an_unusable_date_is_refused(index: onhand.Index) -> None:
    with pytest.raises(InputError, match="created_time"):
        index.put(Document("c", created_time="next week"))  # type: ignore[arg-type]


def test_help_shows_the_fields_of_a_document() -> None:
    assert list(inspect.signature(Document).parameters) == list(Document._fields)
    page = pydoc.plain(pydoc.render_doc(Document))
    assert "Document(id: 'str', title: 'str' = ''" in page
    assert "created_time\n |      datetime | None" in page


def test_an_unknown_setting_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(onhand.ConfigError, match=r"did you mean 'context\.limit'"):
        onhand.open(tmp_path, settings={"contxt.limit": 1})
