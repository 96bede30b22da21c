"""Is a request in plain language answered, whatever signs it has? Nobody who writes one knows our query syntax."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onhand.cache.cache import SemanticCache
from onhand.corpora.context import Context
from onhand.document import Document
from onhand.search.index import Index
from onhand.store.memory import MemoryStore
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_tool import CatalogTool
from requirements import requirement

SIGNS = [*"+-:;,.!?()[]{}<>\"'`*/\\&|^~#@%$=…–—«»“”¿¡€", "::", "--", "++", "+-", "?!", "...", "')", "*)", "(?", "\\d+"]
# What people write and query languages take for something else.
PHRASES = [
    *("+44", "+44 20 7946 0958", "+1", "+10%", "-5", "--help", "C++", "C#", "A/B", "@ops", "#42", "$HOME", "100%", "~"),
    *("SERVER:localhost;DATABASE:prod", "server:localhost", "server:", "Server:", "http://localhost:80/?a=b&c[]=+"),
    *("re:", "Re:", "RE: your call", "regex:", "select:", "Select:", "title:", "NOT", "AND", "OR (", "NEAR(a b)", "*"),
    *("+please", "+politely", '"to all"', "'to all'", "it's", "{name}", "[x]", "%s", "\\", "a AND (b", "^go", "$"),
]
REQUEST = "send the quarterly invoice to every customer".split()
TEXTS = {
    "send_invoice": "Send an invoice to a customer.",
    "read_file": "Read a file from the disk.",
    "list_channels": "Show all channels of a workspace.",
    "resize_photo": "Make a photo smaller.",
}


@st.composite
def requests(draw: st.DrawFn) -> str:
    """A request whose words are what they are, with signs around them and other phrases between them."""
    signs = st.sampled_from(["", "", "", *SIGNS])
    words: list[str] = []
    for word in REQUEST:
        if draw(st.integers(0, 4)) == 0:
            words.append(draw(st.sampled_from(PHRASES)))
        words.append(draw(signs) + word + draw(signs))
    if draw(st.booleans()):
        words.append(draw(st.sampled_from(PHRASES)))
    return draw(st.sampled_from([" ", " ", "  ", "\n"])).join(words)


@requirement("catalog.sentences")
@given(requests())
@example("server:localhost send the invoice")
@example("+send the invoice")
@example("Re: send the invoice (now")
@example("select: the invoice, the customer")
@settings(max_examples=300, deadline=None)
def test_a_tool_is_found_by_a_request_with_any_signs(request: str) -> None:
    catalog = Catalog()
    catalog.add([CatalogTool(name, text, server=name.split("_")[1]) for name, text in TEXTS.items()])
    assert [hit.name for hit in catalog.search(request).hits][:1] == ["send_invoice"]


@requirement("catalog.sentences")
@given(requests())
@settings(max_examples=100, deadline=None)
def test_a_document_is_found_by_a_request_with_any_signs(request: str) -> None:
    index = Index(MemoryStore())
    index.put([Document(name, text=text) for name, text in TEXTS.items()])
    for search in (index.keyword, index.fused):
        assert [hit.document_id for hit in search(request).hits][:1] == ["send_invoice"]


@pytest.fixture(scope="module")
def context() -> Iterator[Context]:
    with tempfile.TemporaryDirectory() as directory:
        pages = Path(directory) / ".AGENTS"
        pages.mkdir()
        for name, text in TEXTS.items():
            (pages / f"{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
        yield Context(directory)


@requirement("catalog.sentences")
@given(request=requests())
@settings(max_examples=60, deadline=None)
def test_a_page_is_found_by_a_request_with_any_signs(context: Context, request: str) -> None:
    assert [hit.path for hit in context.search(request).hits][:1] == [".AGENTS/send_invoice.md"]


@requirement("catalog.sentences")
@given(request=requests())
@settings(max_examples=60, deadline=None)
def test_an_answer_is_found_again_by_a_request_with_any_signs(request: str) -> None:
    cache = SemanticCache()
    cache.store(request, "sent")
    assert cache.lookup(f" {request}\n").kind == "exact"
