"""Whatever a text says, it is kept whole, found by its words, and cannot leave the block in which a model sees it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hostile.cases import Case, Phrases, each, not_understood, quantity, spelled
from mail import Concepts
from onhand import Document, Documents, Notes, Registry, Result, Rules, open_index
from onhand.corpora.context import Context
from onhand.errors import ToolError
from onhand.hidden_characters import is_hidden_in, repair_surrogates, sanitize
from onhand.lexical.snippet import best_window
from onhand.tools.arguments import ToolArguments
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.fitting import cap_text
from onhand.tools.search_tools import render_tool_line
from onhand.tools.tool import Tool
from requirements import requirement
from stores import lexical_index

TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
MOST_RANDOM = 200  # texts of a case that wants many; `make fuzz` makes others every time
phrases = Phrases()


@phrases.mean(r"random|hypothesis|fuzz")
def random_texts(case: Case, found: Any) -> Iterator[tuple[str, str]]:
    random = Random(case.words)
    for _ in range(min(quantity(case.words, MOST_RANDOM), MOST_RANDOM)):
        points = [
            random.choice([0x20, 0x300, 0x1F9EA, random.randrange(0x110000)]) for _ in range(random.randrange(40))
        ]
        yield "".join(map(chr, points)), chr(random.randrange(0x110000))


def texts(case: Case) -> list[tuple[str, str]]:
    """The documents of a case, each with a query."""
    sent = case.sent
    if isinstance(sent, dict):
        return [(sent["doc"], sent["query"])]
    if isinstance(sent, str):
        return [(sent, "a")]
    return list(phrases.act(case))


def called(registry: Registry, name: str, given: dict[str, Any]) -> Result:
    result = registry.call(name, given)
    assert len(result.text.encode()) <= 15_360
    assert "failed:" not in result.text
    return result


@requirement("lexical.hostile-text-is-bounded")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", each("unicode"))
def test_a_text_of_any_script_is_kept_found_and_shown(case: Case) -> None:
    assert case.expected in ("accept", "bounded", "sanitize", "flag", "reject"), "teach this runner what to expect"
    for text, query in texts(case):
        with open_index(None, Concepts()) as index:
            index.put([Document("d", text[:100], text)])
            registry = Registry(Documents(index).tools())
            found = called(registry, "keyword_search", {"query": query})
            if re.match(r"hit\b", case.detail):
                assert found.structured["hits"]
            read = called(registry, "get_document", {"document_id": "d"})
            assert read.ok
            json.loads(read.text)
        by_words = lexical_index()
        by_words.add("it", text)
        hits = bool(found.ok and found.structured["hits"])
        assert hits == bool(by_words.search(query)) or not found.ok, "two doors that do not agree"
        assert len(best_window(text, query, by_words.ranking.tokenizer, 200)) <= 200
        goes_through_arguments(text)


def goes_through_arguments(text: str) -> None:
    cap_text(text, 7).text.encode()
    try:
        assert ToolArguments(Tool("t", "d", TEXT, str)).read({"text": text}) == {"text": text}
    except ToolError as error:
        assert "lone surrogate" in str(error)


@pytest.mark.parametrize("case", each("unicode", "injection"))
def test_a_text_is_imported_whole_from_a_file_of_records(case: Case, tmp_path: Path) -> None:
    from unit.corpora.sources.conftest import imported

    made = [text for text, _ in texts(case)] if case.area == "unicode" else [spelled(case.sent)]
    for text in filter(str.strip, made):
        (tmp_path / "texts.jsonl").write_text(json.dumps({"id": "one", "text": text}), encoding="utf-8")
        assert imported(tmp_path / "texts.jsonl").only.text == repair_surrogates(text)


@requirement("mcp.descriptions-are-cleaned")
@pytest.mark.parametrize("case", each("injection"))
def test_an_injected_text_stays_in_its_block_and_on_its_line(case: Case, tmp_path: Path) -> None:
    if case.expected != "sanitize":
        not_understood(case, "what is expected of an injection")
    text = spelled(case.sent, ROOT=str(tmp_path))
    line = render_tool_line(CatalogTool("s__t", sanitize(text)))
    assert "<" not in line
    assert not is_hidden_in(line)
    goes_through_arguments(text)
    stays_in_blocks(text, tmp_path)


def stays_in_blocks(text: str, directory: Path) -> None:
    """What a page, a rule or a note says opens and closes nothing but what we open and close."""
    for name in ("AGENTS.md", ".AGENTS/page.md"):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(f"# Zebra\n\nzebra\n{text}\n", encoding="utf-8", errors="replace")
    notes = Notes(directory / "notes")
    try:
        notes.write("zebra", "zebra", f"zebra {text}")
    except ToolError as error:
        assert str(error)
    except Exception as error:
        assert "note" in str(error) or "character" in str(error), error
    registry = Registry([*Rules(directory).tools(), *notes.tools(), *Context(str(directory)).tools()])
    for name, given in (
        ("rules_for_path", {"path": "x.py"}),
        ("search_rules", {"query": "zebra"}),
        ("search_notes", {"query": "zebra"}),
        ("context_search", {"query": "zebra"}),
    ):
        shown = registry.call(name, given).text
        for ours in ("rules", "agent_note", "context"):
            assert shown.count(f"</{ours}>") == len(re.findall(rf"<{ours}[ >]", shown)), shown
        assert "</context>\nSYSTEM" not in shown
