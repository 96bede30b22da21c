"""How are tools ranked, and when does none fit? The settings under which the Index ranks tools.

The numbers were read off five public sets of tools with judged queries (benchmarks/tool_search.py);
docs/adr/0014-tool-ranking.md says which were varied, and how far.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import log

from onhand.errors import InputError
from onhand.lexical.bm25 import BM25_PLUS, Formula, query_weights
from onhand.lexical.ranking import Ranking
from onhand.lexical.tokenize import FUNCTION_WORDS, IdentifierTokenizer
from onhand.search.index import Index, Rank

PROFILES = ("default", "seed")

# How a person asks for something, which says nothing of what is asked for. Verbs that name what a tool does (find,
# show, list) are none of them.
ASKING_WORDS = frozenset(
    "able assist assistance could didn doesn don get give going got hello help hey hi interested know let like ll "
    "looking need needs please re tell thank thanks ve want wants wondering".split()
)

# Both floors are as high as they can be without hiding right answers of the set with the shortest descriptions.
# In words that only one tool has: a best match with less, and with less than that part of the query's words, matched
# by accident.
LEAST_EVIDENCE = 0.6
LEAST_PART = 0.5
# With an embedder a match is none that is neither near in meaning nor has this much evidence.
STRONG_EVIDENCE = 2.0
NEARNESS = 0.7  # of the cosine below which the embedder's neighbours mean little


@cache
def tool_ranking(profile: str = "default") -> Ranking:
    """The ranking of a profile: "default", or "seed", the weights and the formula that tool search began with."""
    if profile == "seed":
        split_only = IdentifierTokenizer(joined=False, bigrams=False)
        seed_fields = {"name": 6.0, "label": 4.0, "leaf": 4.0, "server": 2.0, "summary": 2.0, "schema_keys": 1.0}
        return Ranking("tools-seed-1", split_only, seed_fields, BM25_PLUS, count_repeats=True)
    if profile != "default":
        raise InputError(f"profile is {' or '.join(map(repr, PROFILES))}, not {profile!r}")
    # Long descriptions are held against a tool only by half: one with many arguments has to say more. What is said of
    # arguments counts half, as it is more of the same in every tool of a server.
    tokenizer = IdentifierTokenizer(stems=True, once=True, stop_words=FUNCTION_WORDS | ASKING_WORDS)
    fields = {"names": 1.0, "description": 1.0, "arguments": 0.5}
    return Ranking("tools-2", tokenizer, fields, Formula(k1=1.5, b=0.5), per_field_length=True, alone={"names": 0.5})


def fits(index: Index, query: str, ranked: Sequence[Rank], tools: int) -> bool:
    """Whether the best of a ranking have enough to do with the query to be shown."""
    if not ranked or all(word.lower() in FUNCTION_WORDS for word in query.split()):
        return False
    evidence = _best(ranked, "keyword") / log(tools + 2)
    least_cosine = index.embedder.min_score if index.embedder else None
    if least_cosine is not None and any(layer.name == "semantic" for layer in ranked[0].layers):
        return evidence >= STRONG_EVIDENCE or _best(ranked, "semantic") >= NEARNESS * least_cosine
    return evidence >= LEAST_EVIDENCE or _part_found(index, query, ranked[0].id) >= LEAST_PART


def _best(ranked: Sequence[Rank], name: str) -> float:
    return max((layer.score for rank in ranked for layer in rank.layers if layer.name == name), default=0.0)


def _part_found(index: Index, query: str, tool_id: str) -> float:
    """How much of a query's words a tool has, from 0 to 1."""
    weights = query_weights(tool_ranking().tokenizer, query)
    found = {term for term, _, _ in index.terms(query, [tool_id]).get(tool_id, ())}
    return sum(weight for term, weight in weights.items() if term in found) / (sum(weights.values()) or 1.0)
