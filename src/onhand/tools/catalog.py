"""Store the tools that may be called, and search them.

    select:Read,Edit      these tools, in this order
    +slack send           tools whose name contains "slack", ranked by the other words
    server:github issues  tools of one server, ranked by the other words
    re:^get_.*issue       tools whose name matches the pattern
    anything else         tools ranked by these words; exact names select tools

`+WORD` and `server:NAME` may also stand at the end. Requests are written by people, so these are operators only if the
catalog has what they name. Otherwise they are words, as in "SERVER:localhost;DATABASE:prod" and "call +44 20 …".

The catalog has the descriptions of tools. It does not run tools, and does not know which ones are active.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from heapq import nsmallest
from threading import RLock
from typing import TYPE_CHECKING, Any

from onhand.document import Contribution
from onhand.errors import InputError, NotFound, OnhandError, StoreError
from onhand.lexical.scoring import largest_first
from onhand.record import Record
from onhand.search.index import MOST, Index, embed_documents, fingerprint
from onhand.search.result import Layer
from onhand.search.validation import validate_query
from onhand.store.memory import MemoryStore
from onhand.tools.catalog_tool import (
    NEAREST,
    CatalogTool,
    ToolNames,
    catalog_tool,
    normalize_name,
    split_id,
    validate_tool,
)
from onhand.tools.ranking import (
    KIND,
    PROFILES,
    RankedTool,
    document_tool,
    listed_names,
    rank_tools,
    seed_document,
    tool_document,
    tool_ranking,
)
from onhand.tools.schema import as_tool, each_tool
from onhand.tools.tool import Tool

Addable = CatalogTool | Tool | Callable[..., Any]

if TYPE_CHECKING:
    from onhand.embed.embedder import Embedder
    from onhand.store.store import Store

MAX_PATTERN_CHARS = 200  # the limit of Anthropic's tool search
MAX_PATTERN_BYTES = 1024 * 1024  # of the compiled pattern, which limits compilation to some milliseconds
MAX_SELECTED = 1_000

AS_WORDS = "the whole query was taken as words"  # in a note about an operator that is none
_PREFIX = re.compile(r"(select|server|re|regex):(.*)", re.DOTALL | re.IGNORECASE)
# The validator reads patterns as JavaScript does, in which `[[:alpha:]]` is a set of other characters.
_SET = re.compile(r"\[(?:[^\[\]\\]|\\.|\[:[a-z]+:\])*\]")
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9a-fA-F",
    "word": r"\w",
    "space": r"\s",
    "blank": r" \t",
    "punct": r"!-\/:-@\[-`{-~",
}
_CLASS = re.compile(rf"\[:({'|'.join(_CLASSES)}):\]")


class ToolQuery(Record):
    """A parsed query. What the catalog does not have is not an operator, and the query is plain words."""

    form: str  # "select", "regex" or "words"
    names: tuple[str, ...] = ()  # to select, without duplicates
    pattern: str = ""  # of a regex query
    server: str = ""  # the only server to search; "" for all
    required: tuple[str, ...] = ()  # words that the name must contain
    words: str = ""  # to rank by
    is_sentence: bool = False  # whether a select or regex query may also be a sentence, such as "Re: the invoice"
    notes: tuple[str, ...] = ()


def parse_query(query: str) -> ToolQuery:
    """Parse a query; raise InputError if it is not valid."""
    stripped = query.strip()
    if not stripped:
        raise InputError("the query is empty: say what the tool should do, or use select:NAME")
    found = _PREFIX.fullmatch(stripped)
    form = found[1].lower() if found else ""
    if found and form == "select":
        names = _split_names(found[2])
        return ToolQuery("select", names, is_sentence=any(len(name.split()) > 1 for name in names))
    if found and form in ("re", "regex"):
        return _parse_pattern(stripped, found[2])
    if found and form == "server" and not found[2].strip():
        raise InputError("server: does not name a server: use server:NAME, then say what the tool should do")
    return _parse_words(stripped)


def _split_names(listed: str) -> tuple[str, ...]:
    names = dict.fromkeys(name.strip() for name in listed.split(","))
    names.pop("", None)
    if not names:
        raise InputError("select: does not name a tool: use select:NAME or select:NAME,NAME")
    if len(names) > MAX_SELECTED:
        raise InputError(f"select: names {len(names):,} tools: at most {MAX_SELECTED:,}")
    return tuple(names)


def _parse_pattern(query: str, written: str) -> ToolQuery:
    pattern = written.strip()
    is_sentence = bool(pattern) and any(map(str.isspace, written))
    try:
        return ToolQuery("regex", pattern=check_pattern(pattern), is_sentence=is_sentence)
    except InputError as error:
        if not is_sentence:
            raise
        return ToolQuery("words", words=query, notes=(f"{AS_WORDS}: {error}",))


def _parse_words(query: str) -> ToolQuery:
    words = query.split()
    first, last = 0, len(words)
    while first < last and _is_operator(words[first]):
        first += 1
    while first < last and _is_operator(words[last - 1]):
        last -= 1
    server, required, plain = "", [], words[first:last]
    for word in words[:first] + words[last:]:
        if word.startswith("+"):
            required.append(word.strip('+"'))
        elif server:
            plain.append(word)
        else:
            server = word[len("server:") :]
    if not any(map(str.isalnum, query)) and "+" in query and not server:
        raise InputError("+ needs a word of the tool's name: use +WORD, then the words to rank by")
    return ToolQuery("words", server=server, required=tuple(required), words=" ".join(plain))


def _is_operator(word: str) -> bool:
    """Return whether a word may narrow a search. No name is meant by the number after a plus."""
    if word.startswith("+"):
        return any(map(str.isalpha, word))
    return word.lower().startswith("server:") and len(word) > len("server:")


def check_pattern(pattern: str) -> str:
    """Return the pattern; raise InputError if it cannot be used."""
    if not pattern:
        raise InputError("re: has no pattern: use re:PATTERN, such as re:^get_.*issue")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise InputError(f"the pattern has {len(pattern):,} characters: at most {MAX_PATTERN_CHARS}")
    if not pattern.isprintable():
        raise InputError("the pattern has unprintable characters: remove them")
    compile_pattern(pattern)
    return pattern


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a name matches the pattern, ignoring case.

    The engine is that of the JSON Schema validator, which takes linear time for any pattern, whereas that of Python may
    take forever. It supports neither look-around nor back-references.
    """
    import jsonschema_rs

    linear = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES, dfa_size_limit=MAX_PATTERN_BYTES)
    schema = {"pattern": f"(?i){_SET.sub(_expand_classes, pattern)}"}
    try:
        validator = jsonschema_rs.validator_for(schema, pattern_options=linear, offline=True)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise InputError(f"the pattern {pattern!r} cannot be used{_explain_bad_pattern(pattern)}: use one without "
                         "look-around, back-references and huge counts") from error  # fmt: skip
    return validator.is_valid


def _expand_classes(found: re.Match[str]) -> str:
    """Replace the POSIX classes in a character set by ranges."""
    return "[" + _CLASS.sub(lambda one: _CLASSES[one[1]], found[0][1:])


def _explain_bad_pattern(pattern: str) -> str:
    """Return what Python's parser says about a bad pattern, without matching anything."""
    from warnings import catch_warnings, simplefilter

    with catch_warnings():
        simplefilter("ignore")  # warnings about what other engines read differently
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            return f" ({error})"
    return ""


DEFAULT_LIMIT = 8
# Reasons for a result without hits.
EXCLUDED = ("every tool that was named is excluded", "every tool that fits is excluded")
WEAK = "these matches are weak, since they have few of the query's words: if none fits, use other words"
LOADING = "the model that compares meaning is still loading; search again in a few seconds"
EMBED_BATCH = 32  # tools that are embedded together: some hundredths of a second
BATCH = 1024  # tools that are indexed together, so that their terms are sorted once


class CatalogChange(Record):
    """The effect of adding tools."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    refused: tuple[tuple[str, str], ...] = ()  # name of each rejected tool, and the reason


class ToolHit(Record):
    """A tool that was found, and why."""

    id: str  # unique, unlike the name
    name: str
    score: float  # 0 if the tool was named and nothing was scored
    tool: CatalogTool
    layers: tuple[Layer, ...] = ()  # how the keyword and semantic layers ranked it
    terms: tuple[Contribution, ...] = ()  # only with `explain`; they add up to the score unless meaning was compared


class UnknownName(Record):
    """A name that no tool has."""

    name: str
    nearest: tuple[str, ...] = ()  # ids of tools with similar names


class ToolSearchResult(Record):
    """The result of a search; `reason` says why there are no hits."""

    query: str
    form: str  # "select", "regex" or "words"
    hits: tuple[ToolHit, ...]
    total_tools: int
    unknown: tuple[UnknownName, ...] = ()
    reason: str | None = None
    notes: tuple[str, ...] = ()
    server: str = ""  # the only one that was searched, if the query names one
    weak: bool = False  # whether even the best hit has little in common with the query

    def __iter__(self) -> Iterator[ToolHit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)


class QueryScope(Record):
    """What a query asks for when its operators have been applied."""

    words: str  # to rank by
    server: str = ""  # the only one to search; "" for all
    ids: set[str] | None = None  # of the tools to search; None for all
    unknown: tuple[UnknownName, ...] = ()
    miss: str = ""  # why nothing was found, if so
    notes: tuple[str, ...] = ()


class Catalog:
    """The tools that can be found, in memory or in a file. Thread-safe."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        embedder: Embedder | None = None,
        embeds_later: bool = False,
    ) -> None:
        """With `embeds_later`, tools are added by their words, and meaning is compared after `embed_tools`."""
        self._lock = RLock()
        self._index = Index(_open_store(path), None if embeds_later else embedder, max_passages=1)
        self._later = embedder if embeds_later else None
        self._not_embedded = LOADING if self._later else ""  # why meaning is not compared yet
        self._ids: dict[str, None] = {}
        self._names = ToolNames()
        self._tools: dict[str, CatalogTool] = {}  # all tools, or those that have been read from the file
        self._stores_tools = path is not None or embedder is not None
        self._seed: Index | None = None  # of the seed profile, built on first use
        self._seed_ids: set[str] = set()  # of the tools in the seed index
        self._version = 0
        self._is_shared = path is not None
        self._generation = ""  # of the file when its names were last read
        if self._is_shared:
            self._check_kind()
        self._refresh()

    def add(self, tools: Addable | Iterable[Addable]) -> CatalogChange:
        """Add one or several tools. Each replaces the one with the same id; of equal ids in one call the first counts.

        A Tool or a typed function becomes a tool without a server.
        """
        valid: dict[str, CatalogTool] = {}
        refused: list[tuple[str, str]] = []
        for entry in [tools] if isinstance(tools, CatalogTool) else each_tool(tools):
            tool = entry if isinstance(entry, CatalogTool) else catalog_tool(as_tool(entry))
            try:
                whole = validate_tool(tool)
            except InputError as error:
                refused.append((str(getattr(tool, "name", ""))[:200], str(error)))
                continue
            if valid.setdefault(whole.id, whole) is not whole:
                refused.append(
                    (whole.name, f"tool {whole.name}: its server lists it twice; only the first one is used")
                )
        with self._lock:
            documents = (tool_document(tool, self._stores_tools) for tool in valid.values())
            if self._later and valid:
                self._index.embedder, self._not_embedded = None, LOADING
            written = self._index.put(documents, batch=BATCH, checked=True)
            for tool_id, tool in valid.items():
                self._add_id(tool_id)
                self._tools[tool_id] = tool
            self._seed = None
            self._version += 1
        return CatalogChange(written.added, written.changed, written.unchanged, tuple(refused))

    def remove(self, names: Collection[str]) -> int:
        """Remove tools by id or by name; return how many were removed."""
        with self._lock:
            self._refresh()
            return self._remove(self._all_ids_named(names))

    def clear(self, source: str | None = None, server: str | None = None) -> int:
        """Remove all tools, or those of a source, a server, or both; return how many were removed."""
        with self._lock:
            with self._index.store.snapshot():
                self._refresh()
                own = [id for id in self._ids if server is None or split_id(id)[0] == server]
                gone = {id for id in own if source is None or self._tool(id).source == source}
            return self._remove(gone)

    def get(self, name: str) -> CatalogTool:
        """Return the tool with this id, or with this name if only one tool has it."""
        with self._lock, self._index.store.snapshot():
            self._refresh()
            ids = self._ids_named(name)
            if len(ids) > 1:
                raise InputError(f"{len(ids)} tools have the name {name[:200]!r}: say which, as {_join_names(ids)}")
            if ids:
                return self._tool(ids[0])
            near = self.nearest(name)
        otherwise = "search for it by what it does" if self._ids else "the catalog is empty"
        advice = f"did you mean {_join_names(near)}?" if near else otherwise
        raise NotFound(f"there is no tool {name[:200]!r}: {advice}")

    def nearest(self, name: str) -> tuple[str, ...]:
        """Return the ids or names that are most similar to an unknown name."""
        with self._lock:
            self._refresh()
            return tuple(self._names.nearest(name))

    def names(self) -> tuple[str, ...]:
        """Return the sorted names of all tools; a name that two servers chose is there twice."""
        return tuple(sorted(split_id(tool_id)[1] for tool_id in self.ids()))

    def ids(self) -> tuple[str, ...]:
        """Return the sorted ids of all tools: `name`, or `server/name` if the tool has a server."""
        with self._lock:
            self._refresh()
            return tuple(sorted(self._ids))

    def tools(self) -> tuple[CatalogTool, ...]:
        """Return every tool, ordered by id."""
        with self._lock, self._index.store.snapshot():
            return tuple(self._tool(tool_id) for tool_id in self.ids())

    def servers(self) -> dict[str, int]:
        """Count the tools of each server."""
        with self._lock:
            self._refresh()
            return self._names.servers()

    def __len__(self) -> int:
        with self._lock:
            self._refresh()
            return len(self._ids)

    def __contains__(self, name: object) -> bool:
        with self._lock:
            self._refresh()
            return isinstance(name, str) and bool(self._ids_named(name))

    @property
    def version(self) -> int:
        """A number that changes whenever the catalog does, for callers that cache something."""
        with self._lock:
            self._refresh()
            return self._version

    def search(
        self,
        query: str,
        limit: int = DEFAULT_LIMIT,
        exclude: Collection[str] = (),
        profile: str = "default",
        explain: bool = False,
    ) -> ToolSearchResult:
        """Return the tools that match a query, best first, without those in `exclude` (ids or names).

        Tools that the query names are found whatever the limit is. With `explain`, each hit has the terms that it was
        found by, which doubles the time.
        """
        number: object = limit  # callers may pass any type
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= MOST:
            raise InputError(f"the limit must be a positive integer, not {str(limit)[:100]!r}")
        if profile not in PROFILES:
            raise InputError(f"profile must be {' or '.join(map(repr, PROFILES))}, not {profile!r}")
        query = validate_query(query)
        parts = ToolQuery("seed") if profile == "seed" else parse_query(query)
        with self._lock, self._index.store.snapshot():
            self._refresh()
            without = self._all_ids_named(exclude)
            if parts.form == "seed":
                return self._search_seed(query, limit, without, explain)
            if parts.form == "select" and (not parts.is_sentence or any(map(self._ids_meant, parts.names))):
                return self._select(query, parts.names, limit, without)
            if parts.form == "regex":
                ids = self._ids_matching(parts.pattern)
                if ids or not parts.is_sentence:
                    return self._list_matches(query, ids, limit, without)
            if parts.form != "words":
                parts = ToolQuery("words", words=query.strip())
            return self._search_words(query, parts, limit, without, explain)

    def embed_tools(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Embed the tools that have no vector yet, so that searches compare meaning from now on.

        It may take seconds and is meant for a thread: meanwhile searches go on by words alone, and say so.
        """
        if self._later is None or self._index.embedder is not None:
            return
        try:
            self._later.embed(["tools"], "query")  # loads the model
            while goes_on() and self._embed_some(self._later):
                pass
        except OnhandError as error:
            self._not_embedded = str(error).rstrip(".")
            raise

    def _embed_some(self, embedder: Embedder) -> bool:
        """Embed some tools; return whether there may be more. Searches wait only while vectors are stored."""
        with self._lock:
            store = self._index.store
            ids = store.without_vector(EMBED_BATCH)
            if not ids:
                self._index.embedder, self._not_embedded = embedder, ""
                return False
            documents = [self._index.get(tool_id) for tool_id in ids]
        entries = embed_documents(embedder, documents)
        with self._lock:
            store.upsert(entries, fingerprint(embedder), only_unchanged=True)
        return True

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._index.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _select(self, query: str, names: Sequence[str], limit: int, without: set[str]) -> ToolSearchResult:
        ids: dict[str, None] = {}
        unknown, notes = [], []
        for name in names:
            meant = self._ids_meant(name)
            ids.update(dict.fromkeys(meant[:limit]))
            if not meant:
                unknown.append(UnknownName(name[:200], tuple(self._names.nearest(name))))
            elif len(meant) > limit:
                notes.append(f"{len(meant):,} tools have the name {name[:200]!r}: name the server too, as {meant[0]!r}")
        hits = [self._hit(tool_id) for tool_id in ids if tool_id not in without]
        reason = EXCLUDED[0] if ids else "no tool has such a name"
        return self._make_result(query, "select", hits, reason, tuple(unknown), tuple(notes))

    def _ids_matching(self, pattern: str) -> list[str]:
        matches = compile_pattern(pattern)
        return [id for id in self.ids() if matches(split_id(id)[1]) or matches(id)]

    def _list_matches(self, query: str, matching: Sequence[str], limit: int, without: set[str]) -> ToolSearchResult:
        ids = [id for id in matching if id not in without]
        hits = [self._hit(tool_id) for tool_id in ids[:limit]]
        notes = (f"{len(ids) - limit} more match: narrow the pattern",) if len(ids) > limit else ()
        return self._make_result(query, "regex", hits, "the pattern matches no tool's name", notes=notes)

    def _search_words(
        self, query: str, parts: ToolQuery, limit: int, without: set[str], explain: bool
    ) -> ToolSearchResult:
        words, server, ids, unknown, miss, own_notes = self._apply_operators(parts, query.strip())
        named = listed_names(words) if ids is None else []
        if named and all(map(self._names.exact, named)):
            # `get list` may stand for `get_list`.
            whole = self._names.find_spelling(words)[:limit] if len(named) > 1 else []
            return self._select(query, [*whole, *named], limit, without)
        allowed = None if ids is None else ids - without
        if allowed is not None and (not allowed or not words):
            return self._list_by_id(query, allowed, limit, server)
        depth = limit + len(without)
        places, notes, weak = rank_tools(self._index, self._names, words, len(self._ids), depth, allowed)
        others = [one for one in places if one.id not in without]
        kept = [one for place, one in enumerate(others) if place < limit or one.is_named]
        hits = self._hits(kept, self._index.terms(words, [one.id for one in kept]) if explain else {})
        if parts.required and allowed:  # the other words only rank: tools without them come last
            unranked = nsmallest(max(limit - len(hits), 0), allowed - {one.id for one in kept})
            hits = [*hits, *map(self._hit, unranked)]
        reason = EXCLUDED[1] if places else miss or self._explain_miss(words, server)
        notes += own_notes
        notes += (f"only words were compared: {self._not_embedded}",) if self._not_embedded else ()
        weak = weak and bool(hits)
        notes += (WEAK,) if weak else ()
        return self._make_result(query, "words", hits, reason, unknown, notes, server)._replace(weak=weak)

    def _apply_operators(self, parts: ToolQuery, query: str) -> QueryScope:
        """Return what to search for, and among which tools; if an operator names nothing, the whole query is words."""
        if not parts.server and not parts.required:
            return QueryScope(parts.words, notes=parts.notes)
        servers = self._find_servers(parts.server) if parts.server else []
        if parts.server and not servers:
            near = get_close_matches(parts.server, self.servers(), NEAREST)
            unknown = (UnknownName(parts.server[:200], tuple(near)),)
            return QueryScope(query, unknown=unknown, miss=f"there is no server {parts.server[:200]!r}")
        ids = self._names.having(parts.required, servers)
        if not ids:
            miss = f"no tool's name contains {_join_names(parts.required, between=' and ')}"
            return QueryScope(query, miss=miss, notes=(f"{miss}: {AS_WORDS}",))
        return QueryScope(parts.words, parts.server, ids)

    def _list_by_id(self, query: str, ids: Collection[str], limit: int, server: str) -> ToolSearchResult:
        hits = [self._hit(tool_id) for tool_id in nsmallest(limit, ids)]
        more = len(ids) - len(hits)
        notes = (f"{more:,} more: also say what the tool should do",) if more else ()
        return self._make_result(
            query,
            "words",
            hits,
            EXCLUDED[1],
            notes=notes,
            server=server,
        )

    def _search_seed(self, query: str, limit: int, without: set[str], explain: bool) -> ToolSearchResult:
        index = self._seed_index(without)
        if not index.store.has_words(query):
            raise InputError("Query must contain at least one letter or number.")
        ranked = index.rank(query, max(len(self._ids), 1)).ranked
        in_order = sorted(ranked, key=lambda one: (-one.score, split_id(one.id)[::-1]))
        kept = [RankedTool(*one) for one in in_order[:limit]]
        hits = self._hits(kept, index.terms(query, [one.id for one in kept]) if explain else {})
        return self._make_result(query, "words", hits, "no tool has a word of the query")

    def _seed_index(self, without: set[str]) -> Index:
        """Return the index of the seed profile, with only the tools that can be found now.

        As in the original, every activation therefore changes the term weights.
        """
        if self._seed is None:
            self._seed, self._seed_ids = Index(MemoryStore(tool_ranking("seed"))), set()
        own = self._ids.keys() - without
        self._seed.delete(list(self._seed_ids - own))
        self._seed.put(seed_document(self._tool(tool_id)) for tool_id in sorted(own - self._seed_ids))
        self._seed_ids = own
        return self._seed

    def _explain_miss(self, words: str, server: str = "") -> str:
        if not self._index.store.has_words(words):
            return "the query has no words to look for"
        if server:
            return f"no tool of {server[:200]!r} matches; search for server:{server[:200]} alone to see its tools"
        return "no tool matches; describe the task in other words, or search one server with server:NAME"

    def _make_result(
        self,
        query: str,
        form: str,
        hits: Sequence[ToolHit],
        reason: str | None,
        unknown: tuple[UnknownName, ...] = (),
        notes: tuple[str, ...] = (),
        server: str = "",
    ) -> ToolSearchResult:
        reason = "the catalog is empty: add tools" if not self._ids else reason
        return ToolSearchResult(
            query, form, tuple(hits), len(self._ids), unknown, None if hits else reason, notes, server
        )

    def _hit(self, tool_id: str) -> ToolHit:
        tool = self._tool(tool_id)
        return ToolHit(tool_id, tool.name, 0.0, tool)

    def _hits(self, places: Sequence[RankedTool], terms: Mapping[str, tuple[Contribution, ...]]) -> list[ToolHit]:
        hits = []
        for tool_id, score, layers, gained, _ in places:
            tool = self._tool(tool_id)
            found_by = largest_first([*terms[tool_id], *gained]) if tool_id in terms else gained
            hits.append(ToolHit(tool_id, tool.name, score, tool, layers, found_by))
        return hits

    def _tool(self, tool_id: str) -> CatalogTool:
        tool = self._tools.get(tool_id)
        if tool is None:
            tool = self._tools[tool_id] = document_tool(self._index.get(tool_id))
        return tool

    def _ids_named(self, name: str) -> list[str]:
        """Return the ids of the tools with this id or, if there are none, with this name."""
        return [name] if name in self._ids else self._names.exact(name)

    def _ids_meant(self, name: str) -> list[str]:
        """Return the ids of the tools with this id or name, or with this name in another spelling."""
        return self._ids_named(name) or self._names.find_spelling(name)

    def _all_ids_named(self, names: Collection[str]) -> set[str]:
        """Return the ids of the tools with one of these ids or names."""
        return {tool_id for name in ([names] if isinstance(names, str) else names) for tool_id in self._ids_named(name)}

    def _find_servers(self, name: str) -> list[str]:
        """Return the servers with this name, ignoring case."""
        servers, normalized = self.servers(), normalize_name(name)
        return (
            [name] if name in servers else [one for one in servers if normalized and normalize_name(one) == normalized]
        )

    def _add_id(self, tool_id: str) -> None:
        if tool_id not in self._ids:
            self._ids[tool_id] = None
            self._names.add(tool_id)

    def _remove(self, ids: Collection[str]) -> int:
        self._index.delete(list(ids))
        for tool_id in ids:
            del self._ids[tool_id]
            self._names.remove(tool_id)
            self._tools.pop(tool_id, None)
        self._seed = None
        self._version += 1
        return len(ids)

    def _check_kind(self) -> None:
        """Raise StoreError if the file has other documents than tools. All documents of a file are of one kind."""
        store = self._index.store
        with store.snapshot():
            kinds = [head.kind for head in store.heads(store.scan(limit=1))]
        if kinds not in ([], [KIND]):
            self.close()
            raise StoreError(f"the file has documents of the kind {kinds[0]!r}, not tools: use another file")

    def _refresh(self) -> None:
        """Read the names again if another process has changed the file."""
        if not self._is_shared or self._generation == (now := self._index.store.generation()):
            return
        self._generation = now
        self._ids, self._names, self._tools, self._seed = {}, ToolNames(), {}, None
        self._version += 1
        for tool_id in self._index.store.scan(order_by="document_id", limit=MOST):
            self._add_id(tool_id)


def _open_store(path: str | os.PathLike[str] | None) -> Store:
    if path is None:
        return MemoryStore(tool_ranking())
    if not isinstance(path, str | os.PathLike):
        raise InputError(
            f"Catalog takes the path of a file, not {type(path).__name__}: add tools with Catalog().add(tools)"
        )
    from onhand.store.sqlite import SqliteStore

    return SqliteStore(path, tool_ranking())


def _join_names(names: Sequence[str], max_names: int = 3, between: str = " or ") -> str:
    listed = between.join(repr(name[:200]) for name in names[:max_names])
    return listed if len(names) <= max_names else f"{listed} (and {len(names) - max_names} more)"
