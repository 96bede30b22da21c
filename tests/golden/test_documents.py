"""Does the model still read the same words about documents? They are a part of every prompt."""

import json
from collections.abc import Callable

from mail import Concepts, mails
from onhand import Documents, open_index
from requirements import requirement


@requirement("documents.descriptions", "documents.descriptions-are-true")
def test_the_document_tools_are_described_in_the_same_words(golden: Callable[[str, str], None]) -> None:
    index = open_index(None, Concepts())
    index.put(mails())
    wire = [tool.wire() for tool in Documents(index).tools()]
    for tool in wire:
        words = str(tool["description"])
        assert all(said in words for said in ("Good ", "Poor ", "Example: ", "This corpus has 31 documents"))
        assert any(cost in words for cost in ("Cheap", "cheapest", "More expensive", "most expensive", "Costs"))
    golden("document_tools.json", json.dumps(wire, indent=2, ensure_ascii=False) + "\n")


@requirement("documents.descriptions-are-true")
def test_an_empty_corpus_is_said_to_be_empty(golden: Callable[[str, str], None]) -> None:
    tools = Documents(open_index(None, None)).tools()
    golden("document_tools_empty.txt", "\n\n".join(f"{tool.name}: {tool.description}" for tool in tools) + "\n")
