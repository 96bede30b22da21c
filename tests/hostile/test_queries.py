"""Whatever is asked for, a search answers, or refuses in words, and alike each time."""

import re
from typing import Any

import pytest

from hostile.cases import Case, each
from mail import Concepts, mails
from onhand import Document, Documents, Registry, Result, open_index
from onhand.errors import InputError
from onhand.lexical.snippet import best_window
from onhand.lexical.tokenizer import IdentifierTokenizer, PlainTokenizer
from onhand.search.validation import MAX_QUERY_CHARS
from onhand.tools.catalog import Catalog
from requirements import requirement
from stores import ALL, lexical_index
from toolset import BUILTINS, ISSUE, MESSAGE

FORM = re.compile(r"^(select:|\+|regex:|re:|server:)")  # of a search for tools; to documents they are words
TOOLS = ("keyword_search", "semantic_search", "fused_search")
OPTIONS = {"query", "limit", "filter", "order_by", "cursor", "page_token", "min_score"}


def arguments(case: Case) -> dict[str, Any]:
    """What a tool is called with; an object that is no set of options is itself the query."""
    sent = case.sent
    if isinstance(sent, dict) and set(sent) <= OPTIONS and set(sent) != {"query"}:
        return sent
    return {"query": sent}


def is_words(case: Case) -> bool:
    """Whether it is a text that every search takes for words."""
    text = case.sent
    return isinstance(text, str) and len(text) <= MAX_QUERY_CHARS and any(map(str.isalnum, text))


def called(registry: Registry, name: str, given: dict[str, Any]) -> Result:
    result = registry.call(name, given)
    result.text.encode()
    assert len(result.text.encode()) <= 15_360
    assert "failed:" not in result.text, "an error that nobody raised on purpose"
    assert "Traceback" not in result.text
    return result


@requirement("documents.bad-input")
@pytest.mark.parametrize("case", each("queries"))
def test_a_query_for_documents_is_plain_words_or_refused(case: Case) -> None:
    asked = arguments(case)
    planted = Document("planted", text=case.sent) if is_words(case) else Document("planted", text="planted beta")
    with open_index(None, Concepts()) as index:
        index.put([*mails(), planted])
        registry = Registry(Documents(index).tools())
        for name in TOOLS if "query" in asked else ("filter_documents",):
            first, second = called(registry, name, asked), called(registry, name, asked)
            assert (first.ok, first.text) == (second.ok, second.text)
            if case.expected in ("literal", "accept") and len(str(asked.get("query"))) <= MAX_QUERY_CHARS:
                assert first.ok or not is_words(case), first.text
            if case.expected == "reject":
                is_rejected(case, asked, first, registry, name)
        if case.expected == "accept" and is_words(case) and not FORM.match(case.sent):
            found = called(registry, "keyword_search", asked).structured["hits"]
            assert "planted" in [hit["document_id"] for hit in found]


def ids(answer: Result) -> list[str]:
    return [hit["document_id"] for hit in answer.structured["hits"]]


def is_rejected(case: Case, asked: dict[str, Any], answer: Result, registry: Registry, name: str) -> None:
    text = asked.get("query")
    if "\0" in str(text) and is_words(case):  # refused, or two words: never cut at the NUL
        assert not answer.ok or ids(answer) == ids(called(registry, name, {"query": str(text).replace("\0", " ")}))
    elif asked.get("limit") == 0 and isinstance(asked["limit"], int):  # means the usual one, as AIP-158 says
        assert answer.ok
    elif isinstance(text, str) and set(asked) == {"query"} and text.strip().isprintable() and text.strip():
        assert not answer.ok or answer.structured["hits"] == [] or FORM.match(text)  # it has no word to look for
    else:
        assert not answer.ok, answer.text[:200]


@requirement("catalog.query-keywords")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", each("queries", only=lambda case: {"query", "limit"} >= set(arguments(case))))
def test_a_query_for_tools_is_answered_or_refused_with_a_reason(case: Case) -> None:
    catalog = Catalog()
    catalog.add([ISSUE, MESSAGE, *BUILTINS])
    asked = arguments(case)
    query, limit = asked.get("query"), asked.get("limit", 8)
    if isinstance(query, str):
        query = re.sub(r"^regex:", "re:", query)  # which is how this is said here
    hits = outcome(catalog, query, limit)
    if is_words(case) and case.expected in ("literal", "accept"):
        assert hits is not None
    if case.expected == "reject" and not is_words(case):
        assert not hits
    if isinstance(query, str) and len(query) < 1000:
        for form in ("+{}", "server:{}", "select:{}", "re:{}"):
            outcome(catalog, form.format(query), 8)
    assert [hit.name for hit in catalog.search("read").hits][:1] == ["read"]


def outcome(catalog: Catalog, query: Any, limit: Any) -> list[str] | None:
    """The tools that were found; nothing where the query was refused."""
    try:
        found = catalog.search(query, limit=limit)
    except InputError as error:
        assert str(error)
        return None
    assert found.hits or found.reason
    return [hit.name for hit in found.hits]


@requirement("lexical.hostile-text-is-bounded")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", each("queries", only=lambda case: isinstance(case.sent, str)))
def test_a_text_finds_itself_if_it_has_a_word(case: Case) -> None:
    query = case.sent[:MAX_QUERY_CHARS]
    for tokenizer in (PlainTokenizer(), IdentifierTokenizer(), IdentifierTokenizer(stems=True)):
        index = lexical_index(tokenizer)
        index.add("it", query)
        index.add("other", "alpha")
        hits = index.search(query, ALL)
        assert hits == index.search(query, ALL)
        assert bool(hits) == bool(tokenizer.query_terms(query))
        assert len(best_window(query, query, tokenizer, 100)) <= 100
