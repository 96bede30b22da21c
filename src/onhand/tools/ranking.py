"""Rank tools for a query: by words, by meaning, by the parts of the query and by the names that it contains.

A tool is a document of the Index; a schema is read as if an attacker had written it, each part once, with limits on
parts and characters. The constants were tuned on five public tool sets with judged queries
(benchmarks/tool_search.py); docs/adr/0014-tool-ranking.md says which were varied and how far. "Convert the file to PDF.
Then mail it to Ann" needs two tools, and the words of one hide those of the other: so each sentence is ranked by
itself too, and the best tools for one of them rise. Only ids are ranked here; the catalog knows the tools.
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
from onhand.lexical.scoring import BM25_PLUS, Formula, Ranking
from onhand.lexical.tokenizer import FUNCTION_WORDS, IdentifierTokenizer, Memo, parts_of, stem, units_of
from onhand.record import Record
from onhand.search.index import Index, Rank
from onhand.search.result import Layer
from onhand.tools.catalog_tool import CatalogTool, ToolNames, leaf_of, normalize_name, validate_tool

KIND = "tool"
_PARTS = IdentifierTokenizer(joined=False, bigrams=False)
_WORDS = IdentifierTokenizer(bigrams=False)
_SPACED = bytes(code if chr(code).isalnum() else 0x20 for code in range(128)) + b" " * 128
_STOP_WORD, _TOO_LONG = "", " "  # no keys of words
# Of each field: the longest honest ones of public tool sets end before, and what a stuffed one adds behind costs time.
MAX_FIELD_CHARS = 8_000
MAX_PARTS = 1_000  # of a schema
MAX_ENUM_VALUES = 100  # of an argument
# Of one word in one field. Said twice it tells a little more than once; counting all of them ranks honest tools no
# better. In a name, which has no sentences, a word tells nothing more by being there again.
MAX_REPEATS = 2
# The least share of different words among the content words of a text. With fewer it is not prose but a list of
# keywords, where each word counts once, in whatever form.
MIN_DIFFERENT = 0.6
# Parts of an identifier that counts as one word; one that has more is as long as several, so that what each of them
# counts is the less.
MAX_WORD_PARTS = 3
# Different parts of all names of a tool. Nine in ten of public tools have no more. Names with more are a text, which
# is as long as there are parts and pairs of them.
MAX_NAME_PARTS = 5
MAX_MEANT_CHARS = 2_000  # of what the embedder reads: small models read no further

_CHILDREN = frozenset(["items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "then", "else"])
_NAMED = frozenset(["properties", "patternProperties", "$defs", "definitions"])
_WALKED = _CHILDREN | _NAMED


def tool_document(tool: CatalogTool, whole: bool = True) -> Document:
    """Return the document of a tool; if not `whole`, only with the words that it is found by, which is enough where
    meaning is never compared and the catalog has the tool itself."""
    if not whole:
        found_by = {"fields": _fields(tool)}
        row = tool.id, "", "", "", (), tool.server, None, found_by, KIND, ""
        return tuple.__new__(Document, row)  # there may be thousands
    return Document(
        tool.id,
        text=_embedder_text(tool),
        scope=tool.server,
        kind=KIND,
        tags=(tool.source,),
        metadata={"tool": tool._asdict()},
    )


def document_fields(metadata: Mapping[str, Any]) -> Any:
    """Return the fields of a document; computed from the tool where the document has it, so that a file never has
    fields that an older version wrote."""
    if "tool" not in metadata:
        return metadata.get("fields")
    try:
        return _fields(validate_tool(_stored_tool(metadata)))
    except (InputError, TypeError, ValueError, KeyError):  # the file has something that onhand did not write
        return {}


def _fields(tool: CatalogTool) -> dict[str, str]:
    """Names, description and arguments."""
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
    """Return the text for the embedder: a sentence, as a person would put it."""
    arguments, said, values = _words_of_schema(tool.input_schema)
    meant = (
        f"{split_words(tool.leaf)}: {_description(tool)[:MAX_MEANT_CHARS]}\n{split_words(arguments)}. {said} {values}"
    )
    return meant[:MAX_MEANT_CHARS]


def _description(tool: CatalogTool) -> str:
    """Return description, summary and hints; the summary only if the description does not start with it."""
    _, description, _, _, _, _, summary, hints, _, _ = tool
    texts = [description, *hints] if description.startswith(summary) else [description, summary, *hints]
    return " ".join(texts)


def split_words(name: str) -> str:
    """Split a name into words: `createIssue` and `create_issue` become `create issue`."""
    return " ".join(_PARTS.terms(name))


def words_of_names(text: str) -> list[str]:
    """Return the names with each part once; if there are too many parts, as a text of all their forms."""
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
    """Whether names are like most: lower case, few parts, no part twice."""
    if not (text.islower() and text.isascii()):
        return False
    parts = text.encode().translate(_SPACED).split()
    return len(parts) == len(set(parts)) <= MAX_NAME_PARTS and all(
        word.count("_") + word.count("-") < MAX_WORD_PARTS for word in text.split()
    )


def _identifiers(parts: Sequence[str]) -> list[str]:
    """Join parts into identifiers of nearly equal size, each short enough to be one word."""
    size = ceil(len(parts) / (ceil(len(parts) / MAX_WORD_PARTS) or 1)) or 1
    return ["_".join(parts[start : start + size]) for start in range(0, len(parts), size)]


def words_of_text(text: str) -> list[str]:
    """Return the words of a text, with repetitions limited and long identifiers split into parts."""
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
        words = list(once.values())
    elif telling - len(times) >= MAX_REPEATS and max(times.values()) > MAX_REPEATS:
        words = _firsts(words)
    return words if text.isascii() else _units(words)


def _times(words: Iterable[str]) -> dict[str, int]:
    """Count the keys of the words."""
    times: dict[str, int] = {}  # no Counter: to make one takes as long as to count a short text
    _count_elements(times, map(_KEYS.__getitem__, words))
    return times


def _units(words: Iterable[str]) -> list[str]:
    """Replace words of a script without spaces by pairs of characters; leave others unchanged."""
    return list(chain.from_iterable(map(units_of, words)))


def _firsts(words: Sequence[str]) -> list[str]:
    """Drop the words that occurred MAX_REPEATS times before."""
    times: dict[str, int] = {}
    kept = []
    for word in words:
        own = word if word.islower() else word.lower()  # most are: a new one costs more than to look
        before = times.get(own, 0)
        if before < MAX_REPEATS:
            times[own] = before + 1
            kept.append(word)
    return kept


def _key_of(word: str) -> str:
    """Return the key that all forms of a word share, and all spellings and orders of an identifier's parts."""
    own = word.lower()
    if own[1:] != word[1:] or not own.isalpha():  # most are of one part, quickly known
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
    """Return the tool that a document was made of."""
    return _stored_tool(document.metadata)


def _stored_tool(metadata: Mapping[str, Any]) -> CatalogTool:
    kept: dict[str, Any] = dict(metadata["tool"])
    return CatalogTool(**{**kept, "hints": tuple(kept["hints"])})


def _words_of_schema(schema: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the names, descriptions and possible values of the arguments.

    References need not be followed: their targets are under `$defs`, which is walked too.
    """
    names: list[str] = []
    said: list[str] = []
    values: list[str] = []
    parts = _parts_of(schema)
    for name, part in islice(parts, MAX_PARTS):
        if not _WALKED.isdisjoint(part):
            parts += _parts_of(part)
        if name:
            names.append(name)
        if isinstance(title := part.get("title"), str):
            said.append(title)
        if isinstance(description := part.get("description"), str):
            said.append(description)
        if "enum" in part or "const" in part:
            listed = part.get("enum")
            given = listed[:MAX_ENUM_VALUES] if isinstance(listed, list) else []
            values += [value for value in [*given, part.get("const")] if isinstance(value, str)]
    return _join_unique(names), _join_unique(said), _join_unique(values)


def _parts_of(part: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the subschemas of a schema, each with the name of its argument or ""."""
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

# Words with which people ask for something, and which say nothing about it: courtesy, wishes, pronouns and quantities,
# and what an apostrophe leaves of a verb. Verbs that name what a tool does (find, show, list) are not among them.
ASKING_WORDS = frozenset(
    "able already always another anybody anyone anything aren assist assistance could couldn d didn doesn don else "
    "ever every everybody everyone everything get give going got hadn hasn haven hello help hey hi interested isn know "
    "let like ll looking lot lots m many maybe much need needs never nobody nothing one ones perhaps please quite re "
    "really s shouldn somebody someone something still t tell thank thanks ve want wants wasn weren wondering wouldn "
    "yet".split()
)

# A tool is relevant if it matches at least this share of the query's term weights (idf),
MIN_SHARE = 0.2
# or a term with at least this share of the weight of a term that only one tool has,
MIN_TERM_SHARE = 0.34
# or, with an embedder, this share of its minimum cosine. All three are as high as possible without hiding right
# answers in the tool set with the shortest descriptions.
MIN_COSINE_SHARE = 0.73
# A small catalog does not show which words are rare: all of three tools may have the word that matters. So weights are
# computed as if there were this many further tools without it, as in the smallest set that the above were tuned on.
FEW_TOOLS = 199


@cache
def tool_ranking(profile: str = "default") -> Ranking:
    """Return the ranking of a profile: "default", or "seed", the weights and the formula of the original."""
    if profile == "seed":
        split_only = IdentifierTokenizer(joined=False, bigrams=False)
        seed_fields = {"name": 6.0, "label": 4.0, "leaf": 4.0, "server": 2.0, "summary": 2.0, "schema_keys": 1.0}
        return Ranking("tools-seed-1", split_only, seed_fields, BM25_PLUS, count_repeats=True)
    if profile != "default":
        raise InputError(f"profile is {' or '.join(map(repr, PROFILES))}, not {profile!r}")
    # Length is normalised by half only: a tool with many arguments has to say more. The descriptions of arguments count
    # half, as they are much the same in every tool of a server.
    tokenizer = IdentifierTokenizer(stems=True, repeats=MAX_REPEATS, stop_words=FUNCTION_WORDS | ASKING_WORDS)
    fields = {"names": 1.0, "description": 1.0, "arguments": 0.5}
    return Ranking(
        "tools-4",  # increase it with every change to the fields, so that files are re-indexed
        tokenizer,
        fields,
        Formula(k1=1.5, b=0.5),
        per_field_length=True,
        alone={"names": 0.5},
        fields_of=document_fields,
        reading={"names": words_of_names, "description": words_of_text, "arguments": words_of_text},
    )


def is_relevant(index: Index, query: str, ranked: Sequence[Rank], tools: int) -> bool:
    """Whether the best tools of a ranking are relevant enough to be shown."""
    if not ranked or all(word.lower() in FUNCTION_WORDS for word in query.split()):
        return False
    is_fused = any(layer.name == "semantic" for layer in ranked[0].layers)
    best = max(ranked, key=lambda rank: _score(rank, "keyword")) if is_fused else ranked[0]
    share, most = shared_weight(index, query, best.id, tools)
    if share >= MIN_SHARE:
        return True
    least_cosine = index.embedder.min_score if index.embedder else None
    if is_fused and least_cosine is not None:
        return max(_score(rank, "semantic") for rank in ranked) >= MIN_COSINE_SHARE * least_cosine
    return most >= MIN_TERM_SHARE * log(max(tools, FEW_TOOLS) + 2)


def shared_weight(index: Index, query: str, tool_id: str, tools: int) -> tuple[float, float]:
    """Return the share of the query's term weights that a tool matches, and the largest weight among them."""
    rarer = log(max(FEW_TOOLS + 1, tools + 1) / (tools + 1))
    tells = [(much + rarer, is_there) for much, is_there in index.term_weights(query, tool_id).values()]
    had = [much for much, is_there in tells if is_there]
    return sum(had) / (sum(much for much, _ in tells) or 1.0), max(had, default=0.0)


def _score(rank: Rank, layer: str) -> float:
    return next((one.score for one in rank.layers if one.name == layer), -1.0)


MAX_INTENTS = 8  # a longer text is no list of wishes, and each part costs a search
MIN_WORDS = 3  # that tell something: "Thank you!" asks for nothing
# What the best for a part gains, of what the best for the whole has. 0.3 to 1 do alike.
PART_SHARE = 0.6

# Sentences end with a sign and a space; within one, these words begin another wish. A plain "and" does not: it stands
# between things as often as between wishes.
_BEGINNINGS = "and then|then|and also|also|after that|afterwards|finally|next"
_BORDER = re.compile(rf"(?<=[.!?;]) |(?<=[。！？；])|,? (?:{_BEGINNINGS}) ", re.IGNORECASE)
_SMALL = FUNCTION_WORDS | ASKING_WORDS


def split_intents(query: str) -> list[str]:
    """Split a query into the parts that each ask for something; none if it asks for only one thing."""
    lines = (" ".join(line.split()) for line in query.splitlines())  # so that the pattern has no run of spaces to try
    parts = [part.strip() for line in lines for part in _BORDER.split(line) if _tells(part)]
    return parts[:MAX_INTENTS] if len(parts) > 1 else []


def intent_gains(best: float, parts: Mapping[str, Sequence[Rank]]) -> dict[str, tuple[str, float]]:
    """Return the gain of each tool and the part of the query that it is for: PART_SHARE of `best`, the best score of
    the whole query, in proportion to the tool's score within that part."""
    gains: dict[str, tuple[str, float]] = {}
    for part, ranked in parts.items():
        for rank in ranked:
            gain = PART_SHARE * best * rank.score / ranked[0].score
            if gain > gains.get(rank.id, ("", 0.0))[1]:
                gains[rank.id] = part, gain
    return gains


def _tells(part: str) -> bool:
    words = [word.strip(".,;:!?\"'()").lower() for word in part.split()]
    return sum(1 for word in words if word and word not in _SMALL) >= MIN_WORDS


DEPTH = 50  # of the ranking of a query
PART_DEPTH = 20  # of that of a part of it
MAX_NAMED = 50  # names in one query
SHOWN_CHARS = 80  # of a part or a name, in an explanation
NAMED_SHARE = 1.1  # of the best score, that a named tool gains: it comes first even if no word of it was found

_QUOTES = "\"'`“”‘’«».,;:!?()"
_BETWEEN = frozenset(["and", "or", "&", "+", "then", "und"])


class RankedTool(Record):
    """A ranked tool."""

    id: str
    score: float  # BM25 and what it gained; where meaning was compared, from 0 to 1
    layers: tuple[Layer, ...] = ()
    gained: tuple[Contribution, ...] = ()  # by being named, or by fitting a part of the query
    is_named: bool = False  # the best of the tools that a name in the query means


class ToolRanking(Record):
    """The tools that fit, best first."""

    places: tuple[RankedTool, ...]
    notes: tuple[str, ...] = ()


def rank_tools(
    index: Index, names: ToolNames, words: str, tools: int, depth: int, among: Collection[str] | None = None
) -> ToolRanking:
    """Rank the tools of an index, or some of them; tools that the words name come first."""
    ranked, notes = index.rank(words, max(depth, DEPTH), among)
    whole = ranked if among is None else index.rank(words, DEPTH).ranked  # so that no tool comes and goes by narrowing
    if not is_relevant(index, words, whole, tools):
        ranked = ()
    meant = _find_named(names, words, is_known=bool(ranked))
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
    return ToolRanking(tuple(places), notes if index.embedder else ())


def listed_names(words: str) -> list[str]:
    """Return the words of a query that may be a list of names."""
    listed = [word.strip(_QUOTES) for word in words.replace(",", " ").split()]
    named = [word for word in listed if word and word not in _BETWEEN]
    return named if len(named) <= MAX_NAMED else []


def _find_named(names: ToolNames, words: str, is_known: bool) -> list[list[str]]:
    """Return the tools of each name in a query, in any spelling: the whole query, or an identifier in it."""
    whole = names.find_spelling(words)
    if whole:
        return [whole]  # `v2 get` is `v2_get`, even where there is a `v2`
    is_word = words.isalpha() and (words.isupper() or not any(map(str.isupper, words[1:])))
    if not (is_word and is_known):  # a word that tools use is no misspelling
        whole = names.find_misspelling(words)
    listed = [word.strip(_QUOTES) for word in words.split()] if " " in words else []
    written = list(dict.fromkeys(word for word in listed if not word.isalpha() or _is_identifier(word)))[:MAX_NAMED]
    within = [names.exact(word) or _resembling(names, word) for word in written]
    return [group for group in [whole, *within] if group]


def _resembling(names: ToolNames, word: str) -> list[str]:
    """Return the tools that a word of a sentence means; with a hyphen or a full stop it may not be a name."""
    return (names.find_spelling(word) or names.find_misspelling(word)) if _is_identifier(word) else []


def _is_identifier(word: str) -> bool:
    """Whether a word is written as only code is: `create_issue`, `createIssue`."""
    return "_" in word.strip("_") or any(left.islower() and right.isupper() for left, right in pairwise(word))


def _by_parts(
    index: Index, words: str, ranked: tuple[Rank, ...], among: Collection[str] | None
) -> dict[str, Contribution]:
    """Return what tools gain by matching a part of a query that asks for several things."""
    parts = split_intents(words) if ranked else []
    if not parts:
        return {}
    gains = intent_gains(ranked[0].score, {part: index.rank(part, PART_DEPTH, among).ranked for part in parts})
    return {tool_id: Contribution(part[:SHOWN_CHARS], "part", gain) for tool_id, (part, gain) in gains.items()}


def _add_up(scores: dict[str, float], gained: dict[str, Contribution], most: float) -> None:
    """Add gains to scores, and divide by the possible maximum where scores must not exceed 1."""
    for tool_id, gain in gained.items():
        scores[tool_id] = scores.get(tool_id, 0.0) + gain.score
    if most != 1.0:
        for tool_id in scores:
            scores[tool_id] /= most
