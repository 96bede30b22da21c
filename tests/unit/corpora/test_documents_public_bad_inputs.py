"""The public collection of hostile queries and texts meets the document tools and does no harm."""

import json
from typing import Any

from mail import Concepts, mails
from onhand import Document, Documents, Registry, Result, open_index
from onhand.search.validation import MAX_QUERY_CHARS
from public_cases import cases, needs_cases

pytestmark = needs_cases
TOOLS = ["keyword_search", "semantic_search", "fused_search"]
# Of another search: tools are found by forms such as `select:a`, which mean nothing to documents. A limit of 0 is the
# default here, as AIP-158 says.
NOT_FOR_DOCUMENTS = ("form ", "limit 0", "control: ")


def arguments_of(case: Any) -> dict[str, Any]:
    given = case.get("input")
    if case.get("generator_kind") == "python":
        given = eval(case["generator"], {"__builtins__": {}})  # such as "'('*5000+'a'+')'*5000"
    if isinstance(given, dict) and ("limit" in given or "filter" in given or "order_by" in given or "cursor" in given):
        return given
    return {"query": given}


def called(registry: Registry, name: str, arguments: dict[str, Any]) -> Result:
    result = registry.call(name, arguments)
    result.text.encode()
    assert len(result.text.encode()) <= 15_360
    assert "failed:" not in result.text, "an error that nobody raised on purpose"
    assert "Traceback" not in result.text
    return result


def test_every_query_is_plain_words_or_refused_as_expected() -> None:
    index = open_index(None, Concepts())
    index.put(mails())
    registry = Registry(Documents(index).tools())
    tried = 0
    for case in cases("queries"):
        if case["name"].startswith(NOT_FOR_DOCUMENTS):
            continue
        arguments = arguments_of(case)
        names = TOOLS if "query" in arguments else ["filter_documents"]
        for name in names:
            first, second = called(registry, name, arguments), called(registry, name, arguments)
            assert (first.ok, first.text) == (second.ok, second.text), case["id"]
            if case["expected"] == "literal":
                too_long = len(str(arguments.get("query"))) > MAX_QUERY_CHARS and "use at most" in first.text
                assert first.ok or too_long, (case["id"], first.text)
            if case["expected"] == "reject" and "split into two words" not in case["detail"]:
                assert not first.ok, (case["id"], first.text[:200])
        tried += 1
    assert tried > 40


def test_every_text_is_kept_found_and_shown_whole() -> None:
    for case in cases("unicode"):
        given = case.get("input")
        if case.get("generator_kind") == "python":
            given = {"doc": eval(case["generator"], {"__builtins__": {}}), "query": "a"}
        if not isinstance(given, dict):
            continue
        index = open_index(None, Concepts())
        index.put([Document("d", given["doc"][:100], given["doc"])])
        registry = Registry(Documents(index).tools())
        found = called(registry, "keyword_search", {"query": given["query"]})
        if case["detail"] == "hit" or case["detail"].startswith("hit:"):
            assert found.structured["hits"], case["id"]
        read = called(registry, "get_document", {"document_id": "d"})
        assert read.ok
        json.loads(read.text)
