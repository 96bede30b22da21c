"""Keep every tool that may be called, and find the ones that a query asks for.

    select:Read,Edit      these tools, in this order
    +slack send           the name must contain "slack"; the rest ranks
    server:github issues  tools of one server; the rest ranks
    re:^get_.*issue       tools whose name the pattern matches
    anything else         words; a name as it stands is a select

The catalog knows what tools say about themselves, but not how they are run, which are active, or how a result is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from heapq import nsmallest
from threading import RLock
from typing import TYPE_CHECKING, Any

from onhand.document import Contribution
from onhand.errors import InputError, NotFound, StoreError
from onhand.lexical.scoring import largest_first
from onhand.record import Record
from onhand.search.index import MOST, Index
from onhand.search.result import Layer
from onhand.search.validation import accepted_query
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
from onhand.tools.schema import as_tool
from onhand.tools.tool import Tool

Addable = CatalogTool | Tool | Callable[..., Any]

if TYPE_CHECKING:
    from onhand.embed.embedder import Embedder
    from onhand.store.store import Store

MAX_PATTERN_CHARS = 200  # as Anthropic's tool search has it
MAX_PATTERN_BYTES = 1024 * 1024  # compiled; keeps the time to compile at some milliseconds
MAX_SELECTED = 1_000

_PREFIX = re.compile(r"(select|server|re|regex):(.*)", re.DOTALL | re.IGNORECASE)
# The validator reads patterns as JavaScript does, to which `[[:alpha:]]` is a set of odd letters.
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
    """A query, taken apart."""

    form: str  # "select", "regex" or "words"
    names: tuple[str, ...] = ()  # of select, each once
    pattern: str = ""  # of regex
    server: str = ""  # only of this one; "" for any
    required: tuple[str, ...] = ()  # each must be part of the name
    words: str = ""  # what ranks


def parse_query(query: str) -> ToolQuery:
    """Parse a query; InputError says what is wrong with it."""
    asked = query.strip()
    if not asked:
        raise InputError("the query is empty: say what the tool should do, or select:NAME")
    found = _PREFIX.fullmatch(asked)
    form = found[1].lower() if found else ""
    if found and form == "select":
        return ToolQuery("select", _split_names(found[2]))
    if found and form in ("re", "regex"):
        return ToolQuery("regex", pattern=check_pattern(found[2].strip()))
    if found and form == "server" and not found[2].strip():
        raise InputError("server: does not name a server: use server:NAME and what its tool should do")
    return _by_words(asked)


def _split_names(listed: str) -> tuple[str, ...]:
    names = dict.fromkeys(name.strip() for name in listed.split(","))
    names.pop("", None)
    if not names:
        raise InputError("select: does not name a tool: use select:NAME or select:NAME,NAME")
    if len(names) > MAX_SELECTED:
        raise InputError(f"select: names {len(names):,} tools: at most {MAX_SELECTED:,}")
    return tuple(names)


def _by_words(asked: str) -> ToolQuery:
    server = ""
    required, words = [], []
    for word in asked.split():
        if word.lower().startswith("server:") and not server and len(word) > len("server:"):
            server = word[len("server:") :]
        elif word.startswith("+") and any(map(str.isalnum, word)):
            required.append(word.strip('+"'))
        else:
            words.append(word)
    if not server and not required and not any(map(str.isalnum, asked)) and "+" in asked:
        raise InputError("+ requires a word of the tool's name: use +WORD, then what ranks")
    return ToolQuery("words", server=server, required=tuple(required), words=" ".join(words))


def check_pattern(pattern: str) -> str:
    """Return the pattern; InputError if it cannot be used."""
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

    The engine is Rust's, as our JSON Schema validator brings it: linear in the name, whatever the pattern is, where
    Python's own may take for ever. It knows no look-around and no back-references.
    """
    import jsonschema_rs

    linear = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES, dfa_size_limit=MAX_PATTERN_BYTES)
    schema = {"pattern": f"(?i){_SET.sub(_expand_classes, pattern)}"}
    try:
        validator = jsonschema_rs.validator_for(schema, pattern_options=linear, offline=True)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise InputError(f"the pattern {pattern!r} cannot be used{_where(pattern)}: no look-around, no "
                         "back-references, no huge counts") from error  # fmt: skip
    return validator.is_valid


def _expand_classes(found: re.Match[str]) -> str:
    """Replace the classes in a set of characters by ranges."""
    return "[" + _CLASS.sub(lambda one: _CLASSES[one[1]], found[0][1:])


def _where(pattern: str) -> str:
    """Return what Python's parser says about a bad pattern; nothing is matched with it."""
    from warnings import catch_warnings, simplefilter

    with catch_warnings():
        simplefilter("ignore")  # it warns of what other engines read otherwise
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            return f" ({error})"
    return ""


DEFAULT_LIMIT = 8
EXCLUDED = "every tool that was named is excluded", "every tool that fits is excluded"  # why there is no hit
BATCH = 1024  # tools that are indexed together, so that the index sorts their words once


class CatalogChange(Record):
    """What became of tools that were added."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    refused: tuple[tuple[str, str], ...] = ()  # name and reason of each that cannot be kept


class ToolHit(Record):
    """A tool that was found, and why."""

    id: str  # tells it from a tool of equal name of another server
    name: str
    score: float  # 0 where nothing was scored: the tool was named
    tool: CatalogTool
    layers: tuple[Layer, ...] = ()  # how words and meaning saw it
    terms: tuple[Contribution, ...] = ()  # asked for, and only words compared, they add up to the score


class UnknownName(Record):
    """A name that no tool has."""

    name: str
    nearest: tuple[str, ...] = ()  # ids of tools that may be meant


class ToolSearchResult(Record):
    """The answer to a query; `reason` says why there is no hit, `notes` what the searcher should know."""

    query: str
    form: str  # "select", "regex" or "words"
    hits: tuple[ToolHit, ...]
    total_tools: int
    unknown: tuple[UnknownName, ...] = ()
    reason: str | None = None
    notes: tuple[str, ...] = ()


class Catalog:
    """The tools that can be found. Safe between threads; with a path, kept in that file."""

    def __init__(self, path: str | os.PathLike[str] | None = None, embedder: Embedder | None = None) -> None:
        self._lock = RLock()
        self._index = Index(_store(path), embedder)
        self._ids: dict[str, None] = {}
        self._names = ToolNames()
        self._tools: dict[str, CatalogTool] = {}  # all of them, or those that were read from the file
        self._keeps = path is not None or embedder is not None
        self._seed: Index | None = None  # of the seed's ranking, made when it is first asked for
        self._seed_ids: set[str] = set()  # of the tools in it
        self._version = 0
        self._is_shared = path is not None
        self._generation = ""  # of the file, when its names were read
        if self._is_shared:
            self._refuse_documents()
        self._refresh()

    def add(self, tools: Addable | Iterable[Addable]) -> CatalogChange:
        """Keep one or several tools, each in place of the one with its id; of equal ids in one call the first counts.

        A Tool or a typed function counts as a tool of this process, without a server.
        """
        kept: dict[str, CatalogTool] = {}
        refused: list[tuple[str, str]] = []
        for given in [tools] if isinstance(tools, CatalogTool | Tool) or callable(tools) else tools:
            tool = given if isinstance(given, CatalogTool) else catalog_tool(as_tool(given))
            try:
                whole = validate_tool(tool)
            except InputError as error:
                refused.append((str(getattr(tool, "name", ""))[:200], str(error)))
                continue
            if kept.setdefault(whole.id, whole) is not whole:
                refused.append((whole.name, f"tool {whole.name}: its server lists it twice; the first one counts"))
        with self._lock:
            documents = (tool_document(tool, self._keeps) for tool in kept.values())
            written = self._index.put(documents, batch=BATCH, checked=True)
            for tool_id, tool in kept.items():
                self._enter(tool_id)
                self._tools[tool_id] = tool
            self._seed = None
            self._version += 1
        return CatalogChange(written.added, written.changed, written.unchanged, tuple(refused))

    def remove(self, names: Collection[str]) -> int:
        """Take tools out, by id or by name; how many there were."""
        with self._lock:
            self._refresh()
            return self._remove(self._all_ids_named(names))

    def clear(self, source: str | None = None, server: str | None = None) -> int:
        """Take out all tools, or those of a source, of a server, or of both; how many there were."""
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
        """Return the ids or names that may be meant by a name that no tool has."""
        with self._lock:
            self._refresh()
            return tuple(self._names.nearest(name))

    def names(self) -> tuple[str, ...]:
        """Return the names of all tools in order; a name that two servers chose comes twice."""
        return tuple(sorted(split_id(tool_id)[1] for tool_id in self.ids()))

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all tools in order: `name`, or `server/name` if the tool has a server."""
        with self._lock:
            self._refresh()
            return tuple(sorted(self._ids))

    def tools(self) -> tuple[CatalogTool, ...]:
        """Return every tool, ordered by id."""
        with self._lock, self._index.store.snapshot():
            return tuple(self._tool(tool_id) for tool_id in self.ids())

    def servers(self) -> dict[str, int]:
        """Count the tools of each server, by its name."""
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
        """A number that is another one after every change: who keeps something of the catalog asks it first."""
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
        """Return the tools that a query asks for, best first, without those of `exclude` (ids or names).

        Tools that the query names are found whatever the limit is. With `explain` each hit has the terms that it was
        found by, which takes as long as finding it.
        """
        given: object = limit  # it may be of any type
        if isinstance(given, bool) or not isinstance(given, int) or not 0 < given <= MOST:
            raise InputError(f"the limit is an integer from 1 on, not {str(limit)[:100]!r}")
        if profile not in PROFILES:
            raise InputError(f"profile is {' or '.join(map(repr, PROFILES))}, not {profile!r}")
        query = accepted_query(query)
        asked = ToolQuery("seed") if profile == "seed" else parse_query(query)
        with self._lock, self._index.store.snapshot():
            self._refresh()
            without = self._all_ids_named(exclude)
            if asked.form == "seed":
                return self._by_seed(query, limit, without, explain)
            if asked.form == "select":
                return self._select(query, asked.names, limit, without)
            if asked.form == "regex":
                return self._matching(query, asked.pattern, limit, without)
            return self._by_words(query, asked, limit, without, explain)

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
            meant = self._ids_named(name) or self._names.find_spelling(name)
            ids.update(dict.fromkeys(meant[:limit]))
            if not meant:
                unknown.append(UnknownName(name[:200], tuple(self._names.nearest(name))))
            elif len(meant) > limit:
                notes.append(f"{len(meant):,} tools have the name {name[:200]!r}: name the server too, as {meant[0]!r}")
        hits = [self._hit(tool_id) for tool_id in ids if tool_id not in without]
        reason = EXCLUDED[0] if ids else "no tool has such a name"
        return self._make_result(query, "select", hits, reason, tuple(unknown), tuple(notes))

    def _matching(self, query: str, pattern: str, limit: int, without: set[str]) -> ToolSearchResult:
        matches = compile_pattern(pattern)
        ids = [id for id in self.ids() if id not in without and (matches(split_id(id)[1]) or matches(id))]
        hits = [self._hit(tool_id) for tool_id in ids[:limit]]
        notes = (f"{len(ids) - limit} more match: narrow the pattern",) if len(ids) > limit else ()
        return self._make_result(
            query, "regex", hits, None if hits else "the pattern matches no tool's name", notes=notes
        )

    def _by_words(self, query: str, asked: ToolQuery, limit: int, without: set[str], explain: bool) -> ToolSearchResult:
        is_plain = not asked.server and not asked.required
        named = listed_names(asked.words) if is_plain else []
        if named and all(map(self._names.exact, named)):
            whole = (
                self._names.find_spelling(asked.words)[:limit] if len(named) > 1 else []
            )  # `get list` may mean `get_list`
            return self._select(query, [*whole, *named], limit, without)
        servers = self._servers_of(asked.server) if asked.server else []
        if asked.server and not servers:
            near = get_close_matches(asked.server, self.servers(), NEAREST)
            unknown = (UnknownName(asked.server[:200], tuple(near)),)
            return self._make_result(query, "words", (), f"there is no server {asked.server[:200]!r}", unknown)
        allowed = None if is_plain else self._names.having(asked.required, servers) - without
        if allowed is not None and (not allowed or not asked.words):
            return self._in_order(query, allowed, limit)
        depth = limit + len(without)
        places, notes = rank_tools(self._index, self._names, asked.words, len(self._ids), depth, allowed)
        others = [one for one in places if one.id not in without]
        kept = [one for place, one in enumerate(others) if place < limit or one.is_named]
        hits = self._hits(kept, self._index.terms(asked.words, [one.id for one in kept]) if explain else {})
        if asked.required and allowed:  # the rest only ranks: what it does not know comes behind
            behind = nsmallest(max(limit - len(hits), 0), allowed - {one.id for one in kept})
            hits = [*hits, *map(self._hit, behind)]
        reason = EXCLUDED[1] if places else self._why_nothing(asked.words, asked.server)
        return self._make_result(query, "words", hits, reason, notes=notes)

    def _in_order(self, query: str, ids: Collection[str], limit: int) -> ToolSearchResult:
        hits = [self._hit(tool_id) for tool_id in nsmallest(limit, ids)]
        more = len(ids) - len(hits)
        notes = (f"{more:,} more: say what the tool should do, too",) if more else ()
        return self._make_result(
            query, "words", hits, "no tool's name has what + asks for, or all are excluded", notes=notes
        )

    def _by_seed(self, query: str, limit: int, without: set[str], explain: bool) -> ToolSearchResult:
        index = self._seed_of(without)
        if not index.store.has_words(query):
            raise InputError("Query must contain at least one letter or number.")
        ranked = index.rank(query, max(len(self._ids), 1)).ranked
        in_order = sorted(ranked, key=lambda one: (-one.score, split_id(one.id)[::-1]))
        kept = [RankedTool(*one) for one in in_order[:limit]]
        hits = self._hits(kept, index.terms(query, [one.id for one in kept]) if explain else {})
        return self._make_result(query, "words", hits, "no tool has a word of the query")

    def _seed_of(self, without: set[str]) -> Index:
        """Return the original's index: it has only what can be found now, so every activation changes term weights."""
        if self._seed is None:
            self._seed, self._seed_ids = Index(MemoryStore(tool_ranking("seed"))), set()
        own = self._ids.keys() - without
        self._seed.delete(list(self._seed_ids - own))
        self._seed.put(seed_document(self._tool(tool_id)) for tool_id in sorted(own - self._seed_ids))
        self._seed_ids = own
        return self._seed

    def _why_nothing(self, words: str, server: str = "") -> str:
        if not self._index.store.has_words(words):
            return "the query has no words to look for"
        if server:
            return f"no tool of {server[:200]!r} fits: say server:{server[:200]} alone to see what it has"
        return "no tool fits: say what it should do in other words, or name its server with server:NAME"

    def _make_result(
        self,
        query: str,
        form: str,
        hits: Sequence[ToolHit],
        reason: str | None,
        unknown: tuple[UnknownName, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> ToolSearchResult:
        reason = "the catalog is empty: add tools to it" if not self._ids else reason
        return ToolSearchResult(query, form, tuple(hits), len(self._ids), unknown, None if hits else reason, notes)

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

    def _all_ids_named(self, names: Collection[str]) -> set[str]:
        """Return the ids of the tools with one of these ids or names."""
        return {tool_id for name in ([names] if isinstance(names, str) else names) for tool_id in self._ids_named(name)}

    def _servers_of(self, asked: str) -> list[str]:
        """Return the servers with this name, ignoring case."""
        servers, spelled = self.servers(), normalize_name(asked)
        return (
            [asked] if asked in servers else [name for name in servers if spelled and normalize_name(name) == spelled]
        )

    def _enter(self, tool_id: str) -> None:
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

    def _refuse_documents(self) -> None:
        """Refuse a file of other documents, which `clear` would delete. All entries of a file are of one kind."""
        store = self._index.store
        with store.snapshot():
            kinds = [head.kind for head in store.heads(store.scan(limit=1))]
        if kinds not in ([], [KIND]):
            self.close()
            raise StoreError(f"the file has documents of the kind {kinds[0]!r}, not tools: name another file")

    def _refresh(self) -> None:
        """See what another process has written to the file since."""
        if not self._is_shared or self._generation == (now := self._index.store.generation()):
            return
        self._generation = now
        self._ids, self._names, self._tools, self._seed = {}, ToolNames(), {}, None
        self._version += 1
        for tool_id in self._index.store.scan(order_by="document_id", limit=MOST):
            self._enter(tool_id)


def _store(path: str | os.PathLike[str] | None) -> Store:
    if path is None:
        return MemoryStore(tool_ranking())
    from onhand.store.sqlite import SqliteStore

    return SqliteStore(path, tool_ranking())


def _join_names(names: Sequence[str], most: int = 3) -> str:
    listed = " or ".join(map(repr, names[:most]))
    return listed if len(names) <= most else f"{listed} (and {len(names) - most} more)"
