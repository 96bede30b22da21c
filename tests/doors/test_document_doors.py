"""Does the same question give the same documents, in the same order, with the same scores, through every door?"""

import json
from pathlib import Path
from typing import Any

import pytest

from mail import Concepts, mails
from onhand import Filter
from onhand.cli.main import main
from onhand.embed import choose
from onhand.project import Project, load_config, open_index
from onhand.search.result import SearchResult
from onhand.search.validation import parse_time
from requirements import requirement

QUERIES = ["dock sensors", "Q3 forecast", "money back", "office", "DOCK-1007", "who is on call", "nothing like it"]
FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"author": ["sarah"], "tags": ["email"]}, ["--author", "sarah", "--tag", "email"]),
    (
        {"author": ["bob", "sarah"], "scope": ["inbox"], "created_after": "2026-01-10", "created_before": "2026-06-29"},
        ["--author=bob", "--author=sarah", "--scope=inbox", "--after=2026-01-10", "--before=2026-06-29"],
    ),
]
Found = list[tuple[str, float]]

pytestmark = requirement("documents.cli", "documents.python-api", "documents.four-layers-as-tools")


def from_python(result: SearchResult) -> Found:
    return [(hit.document_id, round(hit.score, 6)) for hit in result.hits]


def from_json(answer: Any) -> Found:
    return [(hit["document_id"], hit["score"]) for hit in answer["hits"]]


@pytest.mark.parametrize("with_embedder", [True, False], ids=["with an embedder", "without"])
def test_python_the_command_line_and_the_tools_agree(
    with_embedder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    at_hand = Concepts() if with_embedder else None
    chosen = (at_hand, None if at_hand else "there is none")
    monkeypatch.setattr(choose, "choose_embedder", lambda wanted, *_: (None, None) if wanted is None else chosen)
    (tmp_path / ".onhand").mkdir()
    index = open_index(tmp_path / ".onhand/documents.db")
    index.put(mails())
    registry = Project(load_config()).registry()
    assert "get_document" in registry

    def through_doors(verb: str, tool: str, words: list[str], arguments: dict[str, Any]) -> tuple[Any, Any]:
        assert main(["docs", verb, "--json", "--limit=7", *words]) == 0
        called = registry.call(tool, {**arguments, "limit": 7})
        return json.loads(capsys.readouterr().out), called.structured

    hits = 0
    for asked, flags in FILTERS:
        values: dict[str, Any] = {
            name: parse_time(value) if name.startswith("created") else tuple(value) for name, value in asked.items()
        }
        filter = Filter(**values)
        printed, told = through_doors("filter", "filter_documents", flags, {"filter": asked})
        assert printed == told
        assert from_json(told) == from_python(index.filter(filter, 7))
        for query in QUERIES:
            for verb in ("keyword", "semantic", "fused") if with_embedder else ("keyword", "fused"):
                arguments = {"query": query, "filter": asked}
                printed, told = through_doors(verb, f"{verb}_search", [*flags, "--", query], arguments)
                assert printed == told
                assert from_json(told) == from_python(getattr(index, verb)(query, filter, 7))
                hits += len(told["hits"])
    assert hits > 100
