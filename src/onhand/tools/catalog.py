"""Which tools are there, and which fit? Every tool that may be called, kept and found through the one Index.

It knows what tools say of themselves; not how they are run, which are active, or how an answer is shown.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from heapq import nsmallest
from threading import RLock
from typing import TYPE_CHECKING

from onhand.document import Contribution
from onhand.errors import InputError, NotFound, StoreError
from onhand.lexical.scoring import largest_first
from onhand.record import Record
from onhand.search.accept import accepted_query
from onhand.search.index import MOST, Index
from onhand.search.result import Layer
from onhand.store.memory import MemoryStore
from onhand.tools.catalog_tool import CatalogTool, accepted_tool, catalog_tool, identity
from onhand.tools.findable import KIND, document_of, seed_document_of, tool_of
from onhand.tools.matching import Place, matching, names_in
from onhand.tools.names import NEAREST, Names, spelling_of
from onhand.tools.query import Query, matcher, parsed
from onhand.tools.relevance import PROFILES, tool_ranking

if TYPE_CHECKING:
    from onhand.embed.embedder import Embedder
    from onhand.store.store import Store

__all__ = ["Added", "Catalog", "CatalogTool", "Found", "ToolHit", "Unknown", "catalog_tool"]

DEFAULT_LIMIT = 8
EXCLUDED = "every tool that was named is excluded", "every tool that fits is excluded"  # why there is no hit
BATCH = 1024  # tools that are indexed together: so many that an index sorts their words at once, not after the first


class Added(Record):
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


class Unknown(Record):
    """A name that no tool has."""

    name: str
    nearest: tuple[str, ...] = ()  # ids of tools that may be meant


class Found(Record):
    """The answer to a query; `reason` says why there is no hit, `notes` what the searcher should know."""

    query: str
    form: str  # "select", "regex" or "words"
    hits: tuple[ToolHit, ...]
    total_tools: int
    unknown: tuple[Unknown, ...] = ()
    reason: str | None = None
    notes: tuple[str, ...] = ()


class Catalog:
    """The tools that can be found. Safe between threads; with a path, kept in that file."""

    def __init__(self, path: str | os.PathLike[str] | None = None, embedder: Embedder | None = None) -> None:
        self._lock = RLock()
        self._index = Index(_store(path), embedder)
        self._ids: dict[str, None] = {}
        self._names = Names()
        self._tools: dict[str, CatalogTool] = {}  # all of them; of a file, those that were read
        self._keeps = path is not None or embedder is not None
        self._seed: Index | None = None  # of the seed's ranking, made when it is first asked for
        self._seed_ids: set[str] = set()  # of the tools in it
        self._version = 0
        self._is_shared = path is not None
        self._generation = ""  # of the file, when its names were read
        if self._is_shared:
            self._refuse_documents()
        self._refresh()

    def add(self, tools: CatalogTool | Iterable[CatalogTool]) -> Added:
        """Keep a tool, or several, each in place of the one of its id; of several in one call the first is kept."""
        kept: dict[str, CatalogTool] = {}
        refused: list[tuple[str, str]] = []
        for tool in [tools] if isinstance(tools, CatalogTool) else tools:
            try:
                whole = accepted_tool(tool)
            except InputError as error:
                refused.append((str(getattr(tool, "name", ""))[:200], str(error)))
                continue
            if kept.setdefault(whole.id, whole) is not whole:
                refused.append((whole.name, f"tool {whole.name}: its server names it twice; the first is kept"))
        with self._lock:
            documents = (document_of(tool, self._keeps) for tool in kept.values())
            written = self._index.put(documents, batch=BATCH, checked=True)
            for tool_id, tool in kept.items():
                self._enter(tool_id)
                self._tools[tool_id] = tool
            self._seed = None
            self._version += 1
        return Added(written.added, written.changed, written.unchanged, tuple(refused))

    def remove(self, names: Collection[str]) -> int:
        """Take tools out, by id or by name; how many there were."""
        with self._lock:
            self._refresh()
            return self._remove(self._all_named(names))

    def clear(self, source: str | None = None, server: str | None = None) -> int:
        """Take out all tools, or those of a source, of a server, or of both; how many there were."""
        with self._lock:
            with self._index.store.moment():
                self._refresh()
                own = [id for id in self._ids if server is None or identity(id)[0] == server]
                gone = {id for id in own if source is None or self._tool(id).source == source}
            return self._remove(gone)

    def get(self, name: str) -> CatalogTool:
        """The tool of an id, or of a name that only one tool has."""
        with self._lock, self._index.store.moment():
            self._refresh()
            ids = self._named(name)
            if len(ids) > 1:
                raise InputError(f"{len(ids)} tools have the name {name[:200]!r}: say which, as {_listed(ids)}")
            if ids:
                return self._tool(ids[0])
            near = self.nearest(name)
        otherwise = "search for it by what it does" if self._ids else "the catalog is empty"
        advice = f"did you mean {_listed(near)}?" if near else otherwise
        raise NotFound(f"there is no tool {name[:200]!r}: {advice}")

    def nearest(self, name: str) -> tuple[str, ...]:
        """What may be meant by a name that no tool has: ids or names."""
        with self._lock:
            self._refresh()
            return tuple(self._names.nearest(name))

    def names(self) -> tuple[str, ...]:
        """The names of all tools, in order; a name that two servers chose comes twice."""
        return tuple(sorted(identity(tool_id)[1] for tool_id in self.ids()))

    def ids(self) -> tuple[str, ...]:
        """What tells the tools apart, in order: the name, behind its server where it has one."""
        with self._lock:
            self._refresh()
            return tuple(sorted(self._ids))

    def tools(self) -> tuple[CatalogTool, ...]:
        """Every tool, by id."""
        with self._lock, self._index.store.moment():
            return tuple(self._tool(tool_id) for tool_id in self.ids())

    def servers(self) -> dict[str, int]:
        """How many tools each server has, by its name."""
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
            return isinstance(name, str) and bool(self._named(name))

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
    ) -> Found:
        """The tools that a query asks for, best first; those of `exclude`, by id or name, do not count.

        What a query names is found whatever the limit is. With `explain` each hit says which words it was found by,
        which takes as long as finding it.
        """
        given: object = limit  # whose type nobody has checked
        if isinstance(given, bool) or not isinstance(given, int) or not 0 < given <= MOST:
            raise InputError(f"the limit is a whole number from 1 on, not {str(limit)[:100]!r}")
        if profile not in PROFILES:
            raise InputError(f"profile is {' or '.join(map(repr, PROFILES))}, not {profile!r}")
        query = accepted_query(query)
        asked = Query("seed") if profile == "seed" else parsed(query)
        with self._lock, self._index.store.moment():
            self._refresh()
            without = self._all_named(exclude)
            if asked.form == "seed":
                return self._by_seed(query, limit, without, explain)
            if asked.form == "select":
                return self._select(query, asked.names, limit, without)
            if asked.form == "regex":
                return self._matching(query, asked.pattern, limit, without)
            return self._by_words(query, asked, limit, without, explain)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._index.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _select(self, query: str, names: Sequence[str], limit: int, without: set[str]) -> Found:
        ids: dict[str, None] = {}
        unknown, notes = [], []
        for name in names:
            meant = self._named(name) or self._names.spelled(name)
            ids.update(dict.fromkeys(meant[:limit]))
            if not meant:
                unknown.append(Unknown(name[:200], tuple(self._names.nearest(name))))
            elif len(meant) > limit:
                notes.append(f"{len(meant):,} tools have the name {name[:200]!r}: name the server too, as {meant[0]!r}")
        hits = [self._hit(tool_id) for tool_id in ids if tool_id not in without]
        reason = EXCLUDED[0] if ids else "no tool has such a name"
        return self._found(query, "select", hits, reason, tuple(unknown), tuple(notes))

    def _matching(self, query: str, pattern: str, limit: int, without: set[str]) -> Found:
        matches = matcher(pattern)
        ids = [id for id in self.ids() if id not in without and (matches(identity(id)[1]) or matches(id))]
        hits = [self._hit(tool_id) for tool_id in ids[:limit]]
        notes = (f"{len(ids) - limit} more match: narrow the pattern",) if len(ids) > limit else ()
        return self._found(query, "regex", hits, None if hits else "the pattern matches no tool's name", notes=notes)

    def _by_words(self, query: str, asked: Query, limit: int, without: set[str], explain: bool) -> Found:
        is_plain = not asked.server and not asked.required
        named = names_in(asked.words) if is_plain else []
        if named and all(map(self._names.exact, named)):
            whole = self._names.spelled(asked.words)[:limit] if len(named) > 1 else []  # `get list` may mean `get_list`
            return self._select(query, [*whole, *named], limit, without)
        servers = self._servers_of(asked.server) if asked.server else []
        if asked.server and not servers:
            near = get_close_matches(asked.server, self.servers(), NEAREST)
            unknown = (Unknown(asked.server[:200], tuple(near)),)
            return self._found(query, "words", (), f"there is no server {asked.server[:200]!r}", unknown)
        allowed = None if is_plain else self._names.having(asked.required, servers) - without
        if allowed is not None and (not allowed or not asked.words):
            return self._in_order(query, allowed, limit)
        depth = limit + len(without)
        places, notes = matching(self._index, self._names, asked.words, len(self._ids), depth, allowed)
        others = [one for one in places if one.id not in without]
        kept = [one for place, one in enumerate(others) if place < limit or one.is_named]
        hits = self._hits(kept, self._index.terms(asked.words, [one.id for one in kept]) if explain else {})
        if asked.required and allowed:  # the rest only ranks: what it does not know comes behind
            behind = nsmallest(max(limit - len(hits), 0), allowed - {one.id for one in kept})
            hits = [*hits, *map(self._hit, behind)]
        reason = EXCLUDED[1] if places else self._why_nothing(asked.words, asked.server)
        return self._found(query, "words", hits, reason, notes=notes)

    def _in_order(self, query: str, ids: Collection[str], limit: int) -> Found:
        hits = [self._hit(tool_id) for tool_id in nsmallest(limit, ids)]
        more = len(ids) - len(hits)
        notes = (f"{more:,} more: say what the tool should do, too",) if more else ()
        return self._found(query, "words", hits, "no tool's name has what + asks for, or all are excluded", notes=notes)

    def _by_seed(self, query: str, limit: int, without: set[str], explain: bool) -> Found:
        index = self._seed_of(without)
        if not index.store.has_words(query):
            raise InputError("Query must contain at least one letter or number.")
        ranked = index.rank(query, max(len(self._ids), 1)).ranked
        in_order = sorted(ranked, key=lambda one: (-one.score, identity(one.id)[::-1]))
        kept = [Place(*one) for one in in_order[:limit]]
        hits = self._hits(kept, index.terms(query, [one.id for one in kept]) if explain else {})
        return self._found(query, "words", hits, "no tool has a word of the query")

    def _seed_of(self, without: set[str]) -> Index:
        """The original's index: only what can be found now is in it, so every activation changes how rare a word is."""
        if self._seed is None:
            self._seed, self._seed_ids = Index(MemoryStore(tool_ranking("seed"))), set()
        own = self._ids.keys() - without
        self._seed.delete(list(self._seed_ids - own))
        self._seed.put(seed_document_of(self._tool(tool_id)) for tool_id in sorted(own - self._seed_ids))
        self._seed_ids = own
        return self._seed

    def _why_nothing(self, words: str, server: str = "") -> str:
        if not self._index.store.has_words(words):
            return "the query has no words to look for"
        if server:
            return f"no tool of {server[:200]!r} fits: say server:{server[:200]} alone to see what it has"
        return "no tool fits: say what it should do in other words, or name its server with server:NAME"

    def _found(
        self,
        query: str,
        form: str,
        hits: Sequence[ToolHit],
        reason: str | None,
        unknown: tuple[Unknown, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> Found:
        reason = "the catalog is empty: add tools to it" if not self._ids else reason
        return Found(query, form, tuple(hits), len(self._ids), unknown, None if hits else reason, notes)

    def _hit(self, tool_id: str) -> ToolHit:
        tool = self._tool(tool_id)
        return ToolHit(tool_id, tool.name, 0.0, tool)

    def _hits(self, places: Sequence[Place], terms: Mapping[str, tuple[Contribution, ...]]) -> list[ToolHit]:
        hits = []
        for tool_id, score, layers, gained, _ in places:
            tool = self._tool(tool_id)
            found_by = largest_first([*terms[tool_id], *gained]) if tool_id in terms else gained
            hits.append(ToolHit(tool_id, tool.name, score, tool, layers, found_by))
        return hits

    def _tool(self, tool_id: str) -> CatalogTool:
        tool = self._tools.get(tool_id)
        if tool is None:
            tool = self._tools[tool_id] = tool_of(self._index.get(tool_id))
        return tool

    def _named(self, name: str) -> list[str]:
        """The tools of an id; if it is none, of a name."""
        return [name] if name in self._ids else self._names.exact(name)

    def _all_named(self, names: Collection[str]) -> set[str]:
        """The tools of some ids or names, or of one."""
        return {tool_id for name in ([names] if isinstance(names, str) else names) for tool_id in self._named(name)}

    def _servers_of(self, asked: str) -> list[str]:
        """The servers of a name, in capital or small letters."""
        servers, spelled = self.servers(), spelling_of(asked)
        return [asked] if asked in servers else [name for name in servers if spelled and spelling_of(name) == spelled]

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
        """A file of something else is left alone: `clear` would take it out. What one file has is all of one kind."""
        store = self._index.store
        with store.moment():
            kinds = [head.kind for head in store.heads(store.scan(limit=1))]
        if kinds not in ([], [KIND]):
            self.close()
            raise StoreError(f"the file has documents of the kind {kinds[0]!r}, and no tools: name another file")

    def _refresh(self) -> None:
        """See what another process has written to the file since."""
        if not self._is_shared or self._generation == (now := self._index.store.generation()):
            return
        self._generation = now
        self._ids, self._names, self._tools, self._seed = {}, Names(), {}, None
        self._version += 1
        for tool_id in self._index.store.scan(order_by="document_id", limit=MOST):
            self._enter(tool_id)


def _store(path: str | os.PathLike[str] | None) -> Store:
    if path is None:
        return MemoryStore(tool_ranking())
    from onhand.store.sqlite import SqliteStore

    return SqliteStore(path, tool_ranking())


def _listed(names: Sequence[str], most: int = 3) -> str:
    listed = " or ".join(map(repr, names[:most]))
    return listed if len(names) <= most else f"{listed} (and {len(names) - most} more)"
