"""Does the model still read the same words about tools that wait to be found? They are a part of every prompt."""

import json
from collections.abc import Callable

import pytest

from onhand.formats import anthropic, openai
from onhand.tools.registry import Registry
from onhand.tools.session import Session
from requirements import requirement
from toolset import ISSUE, PULLS, catalog, sample

Golden = Callable[[str, str], None]


@requirement("catalog.bm25-tool-description", "catalog.cache-stable")
@pytest.mark.parametrize("finder", ["search_tools", "search_tool_bm25"])
def test_the_finders_are_described_in_the_same_words(golden: Golden, finder: str) -> None:
    wires = [tool.wire() for tool in Session(sample(), mode="all", finder=finder).tools()]
    golden(f"tool_{finder}.json", json.dumps(wires, indent=2, ensure_ascii=False) + "\n")


@requirement("catalog.prompt-assembly", "catalog.cache-stable")
def test_the_tools_part_of_a_prompt_is_byte_equal(golden: Golden) -> None:
    session = Session(sample(), mode="all")
    session.activate(["mcp__github__create_issue"])
    golden("tool_section.txt", session.section().text)


@requirement("catalog.signatures", "catalog.miss-says-what-exists")
def test_answers_to_searches_read_the_same(golden: Golden) -> None:
    session = Session(sample(), mode="all")
    session.report("linear", "pending")
    registry = Registry(session.tools())
    queries = ("select:create_issue,scale_deployment", "select:create_issue", "zebra xylophone")
    answers = [registry.call("search_tools", {"query": query}).text for query in queries]
    answers.append(session.refusal("mcp__stripe__create_refund") or "")
    golden("tool_answers.txt", "\n\n---\n\n".join(answers) + "\n")


@requirement("catalog.provider-forms")
def test_each_provider_gets_its_form(golden: Golden) -> None:
    session = Session(catalog(), mode="all")
    forms = {
        "plain": session.wire(),
        "anthropic": anthropic.request_tools(session, cache=True),
        "anthropic bm25": anthropic.request_tools(session, search="bm25"),
        "anthropic answer": anthropic.reference_result("toolu_1", [ISSUE, PULLS]),
        "openai client": openai.request_tools(session),
        "openai server": openai.request_tools(session, execution="server"),
        "openai answer": openai.search_output("call_1", [ISSUE, PULLS]),
        "functions": anthropic.functions_block([ISSUE, PULLS]),
    }
    golden("tool_forms.json", json.dumps(forms, indent=1, ensure_ascii=False) + "\n")
