"""How are tools ranked? The settings under which the Index ranks them."""

from __future__ import annotations

from functools import cache

from onhand.errors import InputError
from onhand.lexical.bm25 import BM25_PLUS
from onhand.lexical.ranking import Ranking
from onhand.lexical.tokenize import FUNCTION_WORDS, IdentifierTokenizer

PROFILES = ("default", "seed")


@cache
def tool_ranking(profile: str = "default") -> Ranking:
    """The ranking of a profile: "default", or "seed", the weights and the formula that tool search began with."""
    if profile == "seed":
        split_only = IdentifierTokenizer(joined=False, bigrams=False)
        fields = {"name": 6.0, "label": 4.0, "leaf": 4.0, "server": 2.0, "summary": 2.0, "schema_keys": 1.0}
        return Ranking("tools-seed-1", split_only, fields, BM25_PLUS, count_repeats=True)
    if profile != "default":
        raise InputError(f"profile is {' or '.join(map(repr, PROFILES))}, not {profile!r}")
    tokenizer = IdentifierTokenizer(stems=True, stop_words=FUNCTION_WORDS)
    fields = {"title": 1.0, "text": 1.0, "label": 1.0, "server": 1.0, "hints": 1.0, "arguments": 0.5, "values": 0.5}
    return Ranking("tools-1", tokenizer, fields, per_field_length=True, alone={"title": 0.75})
