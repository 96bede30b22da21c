"""How are tools ranked, and when does none fit? The settings under which the Index ranks tools.

The numbers were read off five public sets of tools with judged queries (benchmarks/tool_search.py);
docs/adr/0014-tool-ranking.md says which were varied, and how far.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import log

from onhand.errors import InputError
from onhand.lexical.ranking import Ranking
from onhand.lexical.scoring import BM25_PLUS, Formula
from onhand.lexical.tokenize import FUNCTION_WORDS, IdentifierTokenizer
from onhand.search.index import Index, Rank
from onhand.tools.findable import MAX_REPEATS, fields_of, words_of_names, words_of_text

PROFILES = ("default", "seed")

# How a person asks for something, which says nothing of what is asked for: words of courtesy and wishing, words that
# stand for any thing or any number of them, and what an apostrophe leaves of a verb. Verbs that name what a tool does
# (find, show, list) are none of them.
ASKING_WORDS = frozenset(
    "able already always another anybody anyone anything aren assist assistance could couldn d didn doesn don else "
    "ever every everybody everyone everything get give going got hadn hasn haven hello help hey hi interested isn know "
    "let like ll looking lot lots m many maybe much need needs never nobody nothing one ones perhaps please quite re "
    "really s shouldn somebody someone something still t tell thank thanks ve want wants wasn weren wondering wouldn "
    "yet".split()
)

# A match is none that has less than this part of what the query tells, where a word tells the more, the fewer tools
# have it, and one that none has tells most;
LEAST_SHARE = 0.2
# unless it has a word that tells this much of what a word of only one tool does,
TELLING = 0.34
# or, with an embedder, this much of the cosine below which neighbours mean little. All are as high as they can be
# without hiding right answers of the set with the shortest descriptions.
NEARNESS = 0.73
# A small catalog does not know which words are rare: all of three tools may have the one that is asked for. So a word
# tells there what it would if so many other tools had it not: as many as the smallest set has that the above are of.
FEW_TOOLS = 199


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
    tokenizer = IdentifierTokenizer(stems=True, repeats=MAX_REPEATS, stop_words=FUNCTION_WORDS | ASKING_WORDS)
    fields = {"names": 1.0, "description": 1.0, "arguments": 0.5}
    return Ranking(
        "tools-4",  # another number with every change to `findable`, so that files are indexed anew
        tokenizer,
        fields,
        Formula(k1=1.5, b=0.5),
        per_field_length=True,
        alone={"names": 0.5},
        fields_of=fields_of,
        reading={"names": words_of_names, "description": words_of_text, "arguments": words_of_text},
    )


def fits(index: Index, query: str, ranked: Sequence[Rank], tools: int) -> bool:
    """Whether the best of a ranking have enough to do with the query to be shown."""
    if not ranked or all(word.lower() in FUNCTION_WORDS for word in query.split()):
        return False
    is_fused = any(layer.name == "semantic" for layer in ranked[0].layers)
    best = max(ranked, key=lambda rank: _score(rank, "keyword")) if is_fused else ranked[0]
    share, most = shared(index, query, best.id, tools)
    if share >= LEAST_SHARE:
        return True
    least_cosine = index.embedder.min_score if index.embedder else None
    if is_fused and least_cosine is not None:
        return max(_score(rank, "semantic") for rank in ranked) >= NEARNESS * least_cosine
    return most >= TELLING * log(max(tools, FEW_TOOLS) + 2)


def shared(index: Index, query: str, tool_id: str, tools: int) -> tuple[float, float]:
    """The part of what a query tells that a tool has, and how much the most telling word of it tells."""
    rarer = log(max(FEW_TOOLS + 1, tools + 1) / (tools + 1))
    tells = [(much + rarer, is_there) for much, is_there in index.telling(query, tool_id).values()]
    had = [much for much, is_there in tells if is_there]
    return sum(had) / (sum(much for much, _ in tells) or 1.0), max(had, default=0.0)


def _score(rank: Rank, layer: str) -> float:
    return next((one.score for one in rank.layers if one.name == layer), -1.0)
