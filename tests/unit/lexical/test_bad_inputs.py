"""Do the public lists of odd queries and texts pass? Read from $ONHAND_DATA, where they are."""

from typing import Any

import pytest

from onhand.lexical.snippet import best_window
from onhand.lexical.tokenizer import IdentifierTokenizer, PlainTokenizer, Tokenizer
from public_cases import cases, each, needs_cases
from stores import ALL, lexical_index

pytestmark = [
    needs_cases,
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


def given(area: str) -> list[Any]:
    """What is only described or has to be generated is not run from a file: test_hostile.py has its like."""
    return each(case for case in cases(area) if "input" in case)


def tokenizers() -> list[Tokenizer]:
    return [PlainTokenizer(), IdentifierTokenizer(), IdentifierTokenizer(stems=True)]


@pytest.mark.parametrize("case", given("queries"))
def test_a_query_is_plain_text_and_gives_the_same_hits_again(case: dict[str, Any]) -> None:
    query = case["input"]
    if not isinstance(query, str):
        pytest.skip("concerns the arguments of a tool, not the words of a query")
    for tokenizer in tokenizers():
        index = lexical_index(tokenizer)
        index.add("it", query)
        index.add("other", "alpha")
        hits = index.search(query, ALL)
        assert hits == index.search(query, ALL)
        assert bool(hits) == bool(tokenizer.query_terms(query))
        assert len(best_window(query, query, tokenizer, 100)) <= 100


@pytest.mark.parametrize("case", given("unicode"))
def test_a_text_is_found_or_left_out_as_we_say(case: dict[str, Any]) -> None:
    text, query = case["input"]["doc"], case["input"]["query"]
    index = lexical_index()
    index.add("it", text)
    assert bool(index.search(query)) == (case["name"] not in NOT_FOUND)
    assert len(best_window(text, query, index.ranking.tokenizer, 200)) <= 200
