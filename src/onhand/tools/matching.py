"""Which tools fit these words? One ranking out of words, meaning, the parts of a query and the names that it has.

It ranks ids; what the tools are, the catalog knows.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, pairwise

from onhand.document import Contribution
from onhand.record import Record
from onhand.search.index import Index, Rank
from onhand.search.result import Layer
from onhand.tools.intents import PART_SHARE, gains_of, parts_of
from onhand.tools.names import Names
from onhand.tools.relevance import fits

DEPTH = 50  # of the ranking of a query
PART_DEPTH = 20  # of that of a part of it
MAX_NAMED = 50  # names in one query
SHOWN_CHARS = 80  # of a part or a name, in an explanation
NAMED_SHARE = 1.1  # of the best score, that a named tool gains: it comes first even if no word of it was found

_QUOTES = "\"'`“”‘’«».,;:!?()"
_BETWEEN = frozenset(["and", "or", "&", "+", "then", "und"])


class Place(Record):
    """A tool's place among those that fit."""

    id: str
    score: float  # BM25 and what it gained; where meaning was compared, from 0 to 1
    layers: tuple[Layer, ...] = ()
    gained: tuple[Contribution, ...] = ()  # by being named, or by fitting a part of the query
    is_named: bool = False  # the best of those that a name in the query means


class Matching(Record):
    """The tools that fit, best first."""

    places: tuple[Place, ...]
    notes: tuple[str, ...] = ()


def matching(
    index: Index, names: Names, words: str, tools: int, depth: int, among: Collection[str] | None = None
) -> Matching:
    """Rank the tools of an index, or some of them; those that the words name come first."""
    ranked, notes = index.rank(words, max(depth, DEPTH), among)
    whole = ranked if among is None else index.rank(words, DEPTH).ranked  # so that no tool comes and goes by narrowing
    if not fits(index, words, whole, tools):
        ranked = ()
    meant = _meant(names, words, is_known=bool(ranked))
    if among is not None:
        meant = [own for group in meant if (own := [tool_id for tool_id in group if tool_id in among])]
    is_fused = any(layer.name == "semantic" for one in ranked[:1] for layer in one.layers)
    scores = {one.id: one.score for one in ranked}
    gained = _by_parts(index, words, ranked, among)
    _add_up(scores, gained, 1 + PART_SHARE if is_fused and gained else 1.0)
    if meant:
        best = 1.0 if is_fused else max(scores.values(), default=1.0)
        by_name = Contribution(words[:SHOWN_CHARS], "name", NAMED_SHARE * best)
        named = dict.fromkeys(chain.from_iterable(meant), by_name)
        _add_up(scores, named, 1 + NAMED_SHARE if is_fused else 1.0)
    else:
        named = {}
    layers = {one.id: one.layers for one in ranked}

    def order(tool_id: str) -> tuple[float, str]:
        return -scores[tool_id], tool_id

    firsts = {min(group, key=order) for group in meant}
    places = [
        Place(
            tool_id,
            scores[tool_id],
            layers.get(tool_id, ()),
            tuple(more[tool_id] for more in (gained, named) if tool_id in more),
            tool_id in firsts,
        )
        for place, tool_id in enumerate(sorted(scores, key=order))
        if place < depth or tool_id in firsts
    ]
    return Matching(tuple(places), notes if index.embedder else ())


def names_in(words: str) -> list[str]:
    """The words of a query that is nothing but a list of names."""
    listed = [word.strip(_QUOTES) for word in words.replace(",", " ").split()]
    named = [word for word in listed if word and word not in _BETWEEN]
    return named if len(named) <= MAX_NAMED else []


def _meant(names: Names, words: str, is_known: bool) -> list[list[str]]:
    """The tools of each name that a query has, in whatever spelling: of the whole query, or of an identifier in it."""
    whole = names.spelled(words)
    if whole:
        return [whole]  # `v2 get` is `v2_get`, even where there is a `v2`
    is_word = words.isalpha() and (words.isupper() or not any(map(str.isupper, words[1:])))
    if not (is_word and is_known):  # a word that tools use is no misspelling
        whole = names.misspelt(words)
    listed = [word.strip(_QUOTES) for word in words.split()] if " " in words else []
    written = list(dict.fromkeys(word for word in listed if not word.isalpha() or _is_identifier(word)))[:MAX_NAMED]
    within = [names.exact(word) or _resembling(names, word) for word in written]
    return [group for group in [whole, *within] if group]


def _resembling(names: Names, word: str) -> list[str]:
    """The tools that a word of a sentence means; one with a hyphen or a full stop may be any word, and no name."""
    return (names.spelled(word) or names.misspelt(word)) if _is_identifier(word) else []


def _is_identifier(word: str) -> bool:
    """Whether a word is written as only code is: `create_issue`, `createIssue`."""
    return "_" in word.strip("_") or any(left.islower() and right.isupper() for left, right in pairwise(word))


def _by_parts(
    index: Index, words: str, ranked: tuple[Rank, ...], among: Collection[str] | None
) -> dict[str, Contribution]:
    """What tools gain by fitting a part of a query that asks for several things."""
    parts = parts_of(words) if ranked else []
    if not parts:
        return {}
    gains = gains_of(ranked[0].score, {part: index.rank(part, PART_DEPTH, among).ranked for part in parts})
    return {tool_id: Contribution(part[:SHOWN_CHARS], "part", gain) for tool_id, (part, gain) in gains.items()}


def _add_up(scores: dict[str, float], gained: dict[str, Contribution], most: float) -> None:
    """Add what was gained to scores, and divide by the most that there can be where they must not exceed 1."""
    for tool_id, gain in gained.items():
        scores[tool_id] = scores.get(tool_id, 0.0) + gain.score
    if most != 1.0:
        for tool_id in scores:
            scores[tool_id] /= most
