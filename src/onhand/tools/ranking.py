"""Rank tools for a query: by words, by meaning, by the parts of the query and by the names that it contains.

A tool is a document in the Index. An attacker may have written its schema, so each part is read once, with limits on
parts and characters. The constants were tuned on public tool sets with judged queries
(benchmarks/tool_search.py); docs/adr/0014-tool-ranking.md says which ones were varied, and how far. "Convert the file
to PDF. Then mail it to Ann" needs two tools, and the words for one hide those for the other. Therefore each sentence is
also ranked by itself, and the best tools for it gain. Only ids are ranked here; the catalog has the tools.
"""

from __future__ import annotations

import re
from collections import _count_elements  # type: ignore[attr-defined]  # what Counter counts with
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, islice, pairwise
from math import ceil, log
from typing import Any

from onhand.document import Contribution, Document
from onhand.errors import InputError
from onhand.lexical.scoring import BM25, BM25_PLUS, Ranking
from onhand.lexical.tokenizer import FUNCTION_WORDS, IdentifierTokenizer, Memo, parts_of, stem, units_of
from onhand.record import Record
from onhand.search.index import Index, Rank
from onhand.search.result import Layer
from onhand.tools.catalog_tool import CatalogTool, ToolNames, leaf_of, normalize_name, validate_tool

KIND = "tool"
_PARTS = IdentifierTokenizer(joined=False, bigrams=False)
_WORDS = IdentifierTokenizer(bigrams=False)
_SPACED = bytes(code if chr(code).isalnum() else 0x20 for code in range(128)) + b" " * 128
_STOP_WORD, _TOO_LONG = "", " "  # values that are not keys of words
_FILLER = "a"  # a function word, which no query looks for
# Of each field: longer than all real ones in public tool sets, so that a stuffed field does not cost time.
MAX_FIELD_CHARS = 8_000
MAX_PARTS = 1_000  # of a schema
MAX_ENUM_VALUES = 100  # of an argument
# Of one word in one field. Two occurrences mean a little more than one, but counting all of them does not rank real
# tools better. In a name, which has no sentences, repetition means nothing.
MAX_REPEATS = 2
# The minimum share of distinct words among the content words of a text. A text with fewer is not prose but a list of
# keywords, in which each word counts once, in whatever form.
MIN_DIFFERENT = 0.6
# The parts of an identifier that counts as one word. A longer one counts as several words, so that each part counts
# less.
MAX_WORD_PARTS = 3
# The distinct parts of all names of a tool. Nine in ten public tools have at most this many. Names with more are read
# as a text, whose length is the number of parts and pairs of parts.
MAX_NAME_PARTS = 5
MAX_EMBEDDED_CHARS = 2_000  # for the embedder: small models read no further

_CHILDREN = frozenset(["items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "then", "else"])
_NAMED = frozenset(["properties", "patternProperties", "$defs", "definitions"])
_WALKED = _CHILDREN | _NAMED


def tool_document(tool: CatalogTool, whole: bool = True) -> Document:
    """Return the document of a tool.

    If not `whole`, it has only the words to find the tool by. That is enough without an embedder, if the catalog has
    the tool itself.
    """
    if not whole:
        found_by = {"fields": _fields(tool)}
        row = tool.id, "", "", "", (), tool.server, None, found_by, KIND, ""
        return tuple.__new__(Document, row)  # faster than the constructor; there may be thousands
    return Document(
        tool.id,
        text=_embedder_text(tool),
        scope=tool.server,
        kind=KIND,
        tags=(tool.source,),
        metadata={"tool": tool._asdict()},
    )


def document_fields(metadata: Mapping[str, Any]) -> Any:
    """Return the fields of a document.

    They are computed from the tool if the document has it, so that fields written by an older version are not used.
    """
    if "tool" not in metadata:
        return metadata.get("fields")
    try:
        return _fields(validate_tool(_stored_tool(metadata)))
    except (InputError, TypeError, ValueError, KeyError):  # the file contains something that onhand did not write
        return {}


def _fields(tool: CatalogTool) -> dict[str, str]:
    """Return names, description and arguments of a tool."""
    name, _, schema, _, server, label, _, _, _, _ = tool
    leaf = leaf_of(name, server)
    names = f"{leaf} {server}"
    if label != name and normalize_name(label) not in (normalize_name(leaf), normalize_name(server + leaf)):
        names = f"{names} {label[:MAX_FIELD_CHARS]}"
    return {
        "names": names[:MAX_FIELD_CHARS],
        "description": _description(tool)[:MAX_FIELD_CHARS],
        "arguments": " ".join(_words_of_schema(schema))[:MAX_FIELD_CHARS],
    }


def _embedder_text(tool: CatalogTool) -> str:
    """Return the text for the embedder, in words instead of identifiers."""
    arguments, descriptions, values = _words_of_schema(tool.input_schema)
    about_tool = f"{split_words(tool.leaf)}: {_description(tool)[:MAX_EMBEDDED_CHARS]}"
    return f"{about_tool}\n{split_words(arguments)}. {descriptions} {values}"[:MAX_EMBEDDED_CHARS]


def _description(tool: CatalogTool) -> str:
    """Return description, summary and hints; the summary only if the description does not start with it."""
    _, description, _, _, _, _, summary, hints, _, _ = tool
    texts = [description, *hints] if description.startswith(summary) else [description, summary, *hints]
    return " ".join(texts)


def split_words(name: str) -> str:
    """Split a name into words: `createIssue` and `create_issue` become `create issue`."""
    return " ".join(_PARTS.terms(name))


def words_of_names(text: str) -> list[str]:
    """Return the words of names, with each part once; if there are too many parts, with all their forms."""
    if _is_simple(text):
        return _WORDS.words(text)
    written: list[str] = []
    seen: set[str] = set()
    for word in _WORDS.words(text):
        parts = parts_of(word)
        if len(parts) <= MAX_WORD_PARTS and seen.isdisjoint(parts) and len(set(parts)) == len(parts):
            written.append(word)
        else:
            written += _identifiers([part for part in dict.fromkeys(parts) if part not in seen])
        seen.update(parts)
    if len(seen) > MAX_NAME_PARTS:
        written = list(chain.from_iterable(map(_WORDS.forms, written)))
    return written if text.isascii() else _units(written)


def _is_simple(text: str) -> bool:
    """Return whether names need no rewriting: lower case, few parts, no part twice."""
    if not (text.islower() and text.isascii()):
        return False
    parts = text.encode().translate(_SPACED).split()
    return len(parts) == len(set(parts)) <= MAX_NAME_PARTS and all(
        word.count("_") + word.count("-") < MAX_WORD_PARTS for word in text.split()
    )


def _identifiers(parts: Sequence[str]) -> list[str]:
    """Join parts into identifiers of nearly equal size that are short enough to count as one word."""
    size = ceil(len(parts) / (ceil(len(parts) / MAX_WORD_PARTS) or 1)) or 1
    return ["_".join(parts[start : start + size]) for start in range(0, len(parts), size)]


def words_of_text(text: str) -> list[str]:
    """Return the words of a text, with repetitions limited and long identifiers split into parts.

    In a list of keywords, what is repeated too often becomes `_FILLER`, so that the list is as long as it was written.
    """
    words = _WORDS.words(text)
    times = _times(words)
    if _TOO_LONG in times:
        words = [part for word in words for part in _spread(word)]
        times = _times(words)
    telling = len(words) - times.pop(_STOP_WORD, 0)
    if len(times) < MIN_DIFFERENT * telling:
        once: dict[str, str] = {}
        for word in words:
            once.setdefault(_KEYS[word] or word, word)
        words = [*once.values(), *[_FILLER] * sum(max(count - MAX_REPEATS, 0) for count in times.values())]
    elif telling - len(times) >= MAX_REPEATS and max(times.values()) > MAX_REPEATS:
        words = _firsts(words)
    return words if text.isascii() else _units(words)


def _times(words: Iterable[str]) -> dict[str, int]:
    """Count the keys of the words."""
    times: dict[str, int] = {}  # not a Counter: creating one takes as long as counting a short text
    _count_elements(times, map(_KEYS.__getitem__, words))
    return times


def _units(words: Iterable[str]) -> list[str]:
    """Replace words in scripts without spaces by pairs of characters."""
    return list(chain.from_iterable(map(units_of, words)))


def _firsts(words: Sequence[str]) -> list[str]:
    """Return the words without those that occurred MAX_REPEATS times before."""
    times: dict[str, int] = {}
    kept = []
    for word in words:
        own = word if word.islower() else word.lower()  # most words are, and checking is cheaper than a new string
        before = times.get(own, 0)
        if before < MAX_REPEATS:
            times[own] = before + 1
            kept.append(word)
    return kept


def _key_of(word: str) -> str:
    """Return the key shared by all forms of a word, and by all spellings and orders of the parts of an identifier."""
    own = word.lower()
    if own[1:] != word[1:] or not own.isalpha():  # a quick check, since most words have one part
        parts = parts_of(word)
        if len(parts) > MAX_WORD_PARTS:
            return _TOO_LONG
        if len(parts) > 1:
            return " ".join(sorted({_KEYS[part] or part for part in parts}))
    return _STOP_WORD if own in FUNCTION_WORDS else stem(own)


def _spread(word: str) -> Sequence[str]:
    """Return the word, or the parts of an identifier that is too long to count as one word."""
    return parts_of(word) if _KEYS[word] == _TOO_LONG else (word,)


def document_tool(document: Document) -> CatalogTool:
    """Return the tool that a document was made from."""
    return _stored_tool(document.metadata)


def _stored_tool(metadata: Mapping[str, Any]) -> CatalogTool:
    fields: dict[str, Any] = dict(metadata["tool"])
    return CatalogTool(**{**fields, "hints": tuple(fields["hints"])})


def _words_of_schema(schema: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the names, descriptions and possible values of the arguments.

    References are not followed, because their targets under `$defs` are visited anyway.
    """
    names: list[str] = []
    descriptions: list[str] = []
    values: list[str] = []
    parts = _parts_of(schema)
    for name, part in islice(parts, MAX_PARTS):
        if not _WALKED.isdisjoint(part):
            parts += _parts_of(part)
        if name:
            names.append(name)
        if isinstance(title := part.get("title"), str):
            descriptions.append(title)
        if isinstance(description := part.get("description"), str):
            descriptions.append(description)
        if "enum" in part or "const" in part:
            listed = part.get("enum")
            options = listed[:MAX_ENUM_VALUES] if isinstance(listed, list) else []
            values += [value for value in [*options, part.get("const")] if isinstance(value, str)]
    return _join_unique(names), _join_unique(descriptions), _join_unique(values)


def _parts_of(part: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the subschemas of a schema, each with the name of its argument or an empty text."""
    found: list[tuple[str, Any]] = []
    for key, value in part.items():
        if key in _NAMED and isinstance(value, dict):
            found += islice(value.items(), MAX_PARTS)
        elif key in _CHILDREN:
            found += [("", child) for child in (value[:MAX_PARTS] if isinstance(value, list) else [value])]
    return [child for child in found if isinstance(child[1], dict)]


def _join_unique(texts: list[str]) -> str:
    return " ".join(filter(None, dict.fromkeys(texts)))[:MAX_FIELD_CHARS] if texts else ""


def seed_document(tool: CatalogTool) -> Document:
    """Return the document for the seed ranking: names, label, server, summary and argument names."""
    properties = tool.input_schema.get("properties")
    fields = {
        "name": tool.name,
        "label": tool.label,
        "leaf": tool.leaf if tool.server else "",
        "server": tool.server,
        "summary": tool.summary,
        "schema_keys": " ".join(sorted(properties)) if isinstance(properties, Mapping) else "",
    }
    return Document(tool.id, metadata={"fields": fields}, kind=KIND)


_KEYS = Memo(_key_of)

PROFILES = ("default", "seed")

# Words of a request that say nothing about what is requested: courtesy, wishes, pronouns, quantities, and the parts of
# verbs around an apostrophe. Verbs that may name what a tool does (find, show, list) are not among them.
ASKING_WORDS = frozenset(
    "able already always another anybody anyone anything aren assist assistance could couldn d didn doesn don else "
    "ever every everybody everyone everything get give going got hadn hasn haven hello help hey hi interested isn know "
    "let like ll looking lot lots m many maybe much need needs never nobody nothing one ones perhaps please quite re "
    "really s shouldn somebody someone something still t tell thank thanks ve want wants wasn weren wondering wouldn "
    "yet".split()
)

# By words alone, matches are weak if the best one has less than this share of the query's term weights (idf). That is
# so for every third request that is meant for other tools, and for one in twenty that are meant for these.
STRONG_SHARE = 0.06
# With an embedder, the evidence is that share plus COSINE_EVIDENCE for a cosine as large as the least that the embedder
# declares as related. Matches are weak, and are not returned, if the evidence is less than MIN_EVIDENCE plus
# EVIDENCE_PER_LOG for each natural logarithm of the number of tools: the best of more tools is better by chance.
COSINE_EVIDENCE = 0.4
MIN_EVIDENCE = 0.17
EVIDENCE_PER_LOG = 0.04
# A small catalog does not show which words are rare: all of three tools may have the word that matters. Weights are
# therefore computed as if there were at least this many tools, the size of the smallest set used for tuning.
FEW_TOOLS = 199


@cache
def tool_ranking(profile: str = "default") -> Ranking:
    """Return the ranking of a profile: "default", or "seed", the weights and the formula of the original."""
    if profile == "seed":
        split_only = IdentifierTokenizer(joined=False, bigrams=False)
        seed_fields = {"name": 6.0, "label": 4.0, "leaf": 4.0, "server": 2.0, "summary": 2.0, "schema_keys": 1.0}
        return Ranking("tools-seed-1", split_only, seed_fields, BM25_PLUS, count_repeats=True)
    if profile != "default":
        raise InputError(f"profile must be {' or '.join(map(repr, PROFILES))}, not {profile!r}")
    # The descriptions of arguments count half, since they are similar in all tools of a server.
    tokenizer = IdentifierTokenizer(stems=True, repeats=MAX_REPEATS, stop_words=FUNCTION_WORDS | ASKING_WORDS)
    fields = {"names": 1.0, "description": 1.0, "arguments": 0.5}
    return Ranking(
        "tools-5",  # increase it with every change to the fields, so that files are re-indexed
        tokenizer,
        fields,
        BM25,
        per_field_length=True,
        alone={"names": 0.5},
        fields_of=document_fields,
        reading={"names": words_of_names, "description": words_of_text, "arguments": words_of_text},
    )


def is_weak(index: Index, query: str, ranked: Sequence[Rank], tools: int, least_cosine: float | None) -> bool:
    """Return whether even the best tools of a ranking have little in common with the query.

    `least_cosine` is the least that the embedder declares as related; None if only words can be judged.
    """
    share = term_share(index, query, max(ranked, key=_keyword_score).id, tools)
    if least_cosine is None:
        return share < STRONG_SHARE
    cosine = max(_score(rank, "semantic") for rank in ranked)
    evidence = share + COSINE_EVIDENCE * cosine / least_cosine
    return evidence < MIN_EVIDENCE + EVIDENCE_PER_LOG * log(max(tools, 1))


def term_share(index: Index, query: str, tool_id: str, tools: int) -> float:
    """Return the share of the query's term weights that a tool matches."""
    added = log(max(FEW_TOOLS + 1, tools + 1) / (tools + 1))
    weights = [(weight + added, matches) for weight, matches in index.term_weights(query, tool_id).values()]
    return sum(weight for weight, matches in weights if matches) / (sum(weight for weight, _ in weights) or 1.0)


def _keyword_score(rank: Rank) -> float:
    return _score(rank, "keyword")


def _score(rank: Rank, layer: str) -> float:
    return next((one.score for one in rank.layers if one.name == layer), -1.0)


MAX_INTENTS = 8  # a longer text is not a list of requests, and each part costs a search
MIN_WORDS = 3  # content words of a part: "Thank you!" requests nothing
# The gain of the best tool for a part, as a share of the best score for the whole. 0.3 to 1 perform alike.
PART_SHARE = 0.6

# Sentences end with a punctuation mark and a space. Within a sentence, these words begin another request. A plain "and"
# does not, because it joins things as often as requests.
_CONJUNCTIONS = "and then|then|and also|also|after that|afterwards|finally|next"
_BOUNDARY = re.compile(rf"(?<=[.!?;]) |(?<=[。！？；])|,? (?:{_CONJUNCTIONS}) ", re.IGNORECASE)
_EMPTY_WORDS = FUNCTION_WORDS | ASKING_WORDS


def split_intents(query: str) -> list[str]:
    """Split a query into the parts that each request something; empty if there is only one request."""
    # The pattern would be slow on runs of spaces.
    lines = (" ".join(line.split()) for line in query.splitlines())
    parts = [part.strip() for line in lines for part in _BOUNDARY.split(line) if _is_request(part)]
    return parts[:MAX_INTENTS] if len(parts) > 1 else []


def intent_gains(best: float, parts: Mapping[str, Sequence[Rank]]) -> dict[str, tuple[str, float]]:
    """Return the part of the query for which each tool gains most, and its gain.

    The gain is PART_SHARE of `best`, the best score for the whole query, in proportion to the score for that part.
    """
    gains: dict[str, tuple[str, float]] = {}
    for part, ranked in parts.items():
        for rank in ranked:
            gain = PART_SHARE * best * rank.score / ranked[0].score
            if gain > gains.get(rank.id, ("", 0.0))[1]:
                gains[rank.id] = part, gain
    return gains


def _is_request(part: str) -> bool:
    words = [word.strip(".,;:!?\"'()").lower() for word in part.split()]
    return sum(1 for word in words if word and word not in _EMPTY_WORDS) >= MIN_WORDS


DEPTH = 50  # of the ranking for a query
PART_DEPTH = 20  # of the ranking for a part of it
MAX_NAMED = 50  # names in one query
SHOWN_CHARS = 80  # of a part or a name, in an explanation
NAMED_SHARE = 1.1  # of the best score, gained by a named tool, so that it comes first even if no word of it was found

_QUOTES = "\"'`“”‘’«».,;:!?()"
_BETWEEN = frozenset(["and", "or", "&", "+", "then", "und"])


class RankedTool(Record):
    """A ranked tool."""

    id: str
    score: float  # BM25 plus gains; from 0 to 1 if meaning was compared
    layers: tuple[Layer, ...] = ()
    gained: tuple[Contribution, ...] = ()  # by being named, or by fitting a part of the query
    is_named: bool = False  # whether it is the best match for a name in the query


class ToolRanking(Record):
    """The relevant tools, best first."""

    places: tuple[RankedTool, ...]
    notes: tuple[str, ...] = ()
    weak: bool = False  # whether even the best of them has little in common with the query


def rank_tools(
    index: Index, names: ToolNames, words: str, tools: int, depth: int, among: Collection[str] | None = None
) -> ToolRanking:
    """Rank the tools of an index, or some of them; tools that the words name come first."""
    ranked, notes = index.rank(words, max(depth, DEPTH), among)
    whole = ranked if among is None else index.rank(words, DEPTH).ranked  # so that relevance does not depend on `among`
    is_fused = any(layer.name == "semantic" for one in whole[:1] for layer in one.layers)
    least_cosine = index.embedder.min_score if index.embedder and is_fused else None
    has_content = any(word.lower() not in FUNCTION_WORDS for word in words.split())
    weak = bool(whole) and is_weak(index, words, whole, tools, least_cosine)
    if not has_content or (weak and least_cosine is not None):
        ranked = ()
    meant = _find_named(names, words, is_known=bool(ranked))
    if among is not None:
        meant = [own for group in meant if (own := [tool_id for tool_id in group if tool_id in among])]
    scores = {one.id: one.score for one in ranked}
    gained = _part_gains(index, words, ranked, among)
    _add_gains(scores, gained, 1 + PART_SHARE if is_fused and gained else 1.0)
    if meant:
        best = max(scores.values(), default=1.0)
        by_name = Contribution(words[:SHOWN_CHARS], "name", NAMED_SHARE * best)
        named = dict.fromkeys(chain.from_iterable(meant), by_name)
        _add_gains(scores, named, 1 + NAMED_SHARE if is_fused else 1.0)
    else:
        named = {}
    layers = {one.id: one.layers for one in ranked}

    def order(tool_id: str) -> tuple[float, str]:
        return -scores[tool_id], tool_id

    firsts = {min(group, key=order) for group in meant}
    places = [
        RankedTool(
            tool_id,
            scores[tool_id],
            layers.get(tool_id, ()),
            tuple(more[tool_id] for more in (gained, named) if tool_id in more),
            tool_id in firsts,
        )
        for place, tool_id in enumerate(sorted(scores, key=order))
        if place < depth or tool_id in firsts
    ]
    return ToolRanking(tuple(places), notes if index.embedder else (), weak and bool(ranked) and not meant)


def listed_names(words: str) -> list[str]:
    """Return the words of a query if it may be a list of names; empty if it has too many."""
    listed = [word.strip(_QUOTES) for word in words.replace(",", " ").split()]
    named = [word for word in listed if word and word not in _BETWEEN]
    return named if len(named) <= MAX_NAMED else []


def _find_named(names: ToolNames, words: str, is_known: bool) -> list[list[str]]:
    """Return the tools for each name in a query: the whole query in any spelling, or an identifier in it."""
    whole = names.find_spelling(words)
    if whole:
        return [whole]  # `v2 get` is `v2_get`, even if there is a `v2`
    is_word = words.isalpha() and (words.isupper() or not any(map(str.isupper, words[1:])))
    if not (is_word and is_known):  # a word that occurs in tools is not a misspelling
        whole = names.find_misspelling(words)
    listed = [word.strip(_QUOTES) for word in words.split()] if " " in words else []
    written = list(dict.fromkeys(word for word in listed if not word.isalpha() or _is_identifier(word)))[:MAX_NAMED]
    within = [names.exact(word) or _find_similar(names, word) for word in written]
    return [group for group in [whole, *within] if group]


def _find_similar(names: ToolNames, word: str) -> list[str]:
    """Return the tools with a name similar to a word in a sentence, if the word is an identifier."""
    return (names.find_spelling(word) or names.find_misspelling(word)) if _is_identifier(word) else []


def _is_identifier(word: str) -> bool:
    """Return whether a word is written as only code is, such as `create_issue` or `createIssue`."""
    return "_" in word.strip("_") or any(left.islower() and right.isupper() for left, right in pairwise(word))


def _part_gains(
    index: Index, words: str, ranked: tuple[Rank, ...], among: Collection[str] | None
) -> dict[str, Contribution]:
    """Return the gains of tools that match a part of a query with several requests."""
    parts = split_intents(words) if ranked else []
    if not parts:
        return {}
    gains = intent_gains(ranked[0].score, {part: index.rank(part, PART_DEPTH, among).ranked for part in parts})
    return {tool_id: Contribution(part[:SHOWN_CHARS], "part", gain) for tool_id, (part, gain) in gains.items()}


def _add_gains(scores: dict[str, float], gained: dict[str, Contribution], most: float) -> None:
    """Add gains to scores, and divide by the maximum if scores must not exceed 1."""
    for tool_id, gain in gained.items():
        scores[tool_id] = scores.get(tool_id, 0.0) + gain.score
    if most != 1.0:
        for tool_id in scores:
            scores[tool_id] /= most
