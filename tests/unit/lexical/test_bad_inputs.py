"""Do the public lists of odd queries and texts pass? Read from $ONHAND_DATA, where they are."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from onhand.lexical.bm25 import LexicalIndex
from onhand.lexical.snippet import best_window
from onhand.lexical.tokenize import IdentifierTokenizer, PlainTokenizer
from onhand.lexical.tokenizer import Tokenizer

DATA = os.environ.get("ONHAND_DATA", "")

pytestmark = [
    pytest.mark.skipif(not DATA, reason="set ONHAND_DATA to the directory with bad_inputs.jsonl"),
    pytest.mark.timeout(60),
]

# Cases whose detail is a choice: what we chose.
NOT_FOUND = {
    "stroke letter ascii": "a stroke is no accent",
    "turkish dotless": "dotless i is another letter",
    "homoglyph cyrillic": "a look-alike is another letter",
    "digit scripts": "digits of another script are other digits",
    "reversed pair": "the text has no letter at all",
}


def cases(area: str) -> list[Any]:
    if not DATA:
        return []
    lines = (Path(DATA) / "bad_inputs.jsonl").read_text(encoding="utf-8").splitlines()
    # What is only described or has to be generated is not run from a file: test_hostile.py has its like.
    found = [case for case in map(json.loads, lines) if case["area"] == area and "input" in case]
    return [pytest.param(case, id=f"{case['id']} {case['name']}") for case in found]


def tokenizers() -> list[Tokenizer]:
    return [PlainTokenizer(), IdentifierTokenizer(), IdentifierTokenizer(stems=True)]


@pytest.mark.parametrize("case", cases("queries"))
def test_a_query_is_plain_text_and_gives_the_same_hits_again(case: dict[str, Any]) -> None:
    query = case["input"]
    if not isinstance(query, str):
        pytest.skip("concerns the arguments of a tool, not the words of a query")
    for tokenizer in tokenizers():
        index = LexicalIndex(tokenizer)
        index.add("it", query)
        index.add("other", "alpha")
        hits = index.search(query, None)
        assert hits == index.search(query, None)
        assert bool(hits) == bool(tokenizer.query_terms(query))
        assert len(best_window(query, query, tokenizer, 100)) <= 100


@pytest.mark.parametrize("case", cases("unicode"))
def test_a_text_is_found_or_left_out_as_we_say(case: dict[str, Any]) -> None:
    text, query = case["input"]["doc"], case["input"]["query"]
    index = LexicalIndex()
    index.add("it", text)
    assert bool(index.search(query)) == (case["name"] not in NOT_FOUND)
    assert len(best_window(text, query, index.tokenizer, 200)) <= 200
