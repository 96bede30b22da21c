"""How are tools ranked, and when does none fit? The settings under which the Index ranks tools.

Every number was read off five public sets of tools with judged queries (benchmarks/tool_search.py): for each, half and
twice as much rank the sets alike or worse. docs/adr/0014-tool-ranking.md has the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import log

from onhand.errors import InputError
from onhand.lexical.bm25 import BM25_PLUS, Formula, query_weights
from onhand.lexical.ranking import Ranking
from onhand.lexical.tokenize import FUNCTION_WORDS, IdentifierTokenizer
from onhand.search.index import Rank

PROFILES = ("default", "seed")

# How a person asks for something, which says nothing of what is asked for. Verbs that name what a tool does (find,
# show, list) are none of them.
ASKING_WORDS = frozenset(
    "able assist assistance could didn doesn don get give going got hello help hey hi interested know let like ll "
    "looking need needs please re tell thank thanks ve want wants wondering".split()
)

# Words that only one tool has count one each: a best match with less than this, and with less than that part of what
# the query could have, matched by accident.
LEAST_EVIDENCE = 0.6
LEAST_PART = 0.2
# With an embedder a match is none that is neither near in meaning nor has this much evidence.
STRONG_EVIDENCE = 2.0
NEARNESS = 0.85  # of the cosine below which the embedder's neighbours mean little


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
    tokenizer = IdentifierTokenizer(stems=True, stop_words=FUNCTION_WORDS | ASKING_WORDS)
    fields = {"names": 1.0, "description": 1.0, "arguments": 0.5}
    return Ranking("tools-1", tokenizer, fields, Formula(k1=1.5, b=0.5), per_field_length=True, alone={"names": 0.5})


def fits(query: str, ranked: Sequence[Rank], tools: int, least_cosine: float | None) -> bool:
    """Whether the best of a ranking have enough to do with the query to be shown.

    `least_cosine` is the embedder's own, None where there is none or nobody measured it.
    """
    evidence = _best(ranked, "keyword") / log(tools + 2)
    if any(layer.name == "semantic" for rank in ranked[:1] for layer in rank.layers):
        is_near = least_cosine is None or _best(ranked, "semantic") >= NEARNESS * least_cosine
        return is_near or evidence >= STRONG_EVIDENCE
    asked = sum(query_weights(tool_ranking().tokenizer, query).values())
    return evidence >= LEAST_EVIDENCE or evidence >= LEAST_PART * asked > 0


def _best(ranked: Sequence[Rank], name: str) -> float:
    return max((layer.score for rank in ranked for layer in rank.layers if layer.name == name), default=0.0)
