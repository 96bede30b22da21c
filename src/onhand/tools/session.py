"""Keep track of the tools that a model has loaded in one conversation, and of those that it has to find first.

A session looks at a catalog through rules and a mode, keeps what was activated, and writes the tools' part of each
request so that it stays the same, byte for byte, for as long as the set of tools does. It does not rank (the catalog
does) and does not run anything (the registry does).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any

from onhand.errors import InputError, NotFound, StoreError, ToolError
from onhand.record import Record
from onhand.tools.activation import (
    ESSENTIALS,
    INTERNAL,
    SCOPES,
    ActivationChange,
    Activations,
    ActiveTool,
    CatalogView,
    VisibilityRules,
    count_by_server,
    is_mcp,
    read_selection,
    update_selection,
)
from onhand.tools.catalog import EXCLUDED, Catalog, ToolSearchResult
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.loading import (
    DEFAULT_POLICY,
    DEFAULT_WINDOW_TOKENS,
    ESTIMATE,
    MODES,
    Balance,
    Ledger,
    LedgerEntry,
    LoadingDecision,
    LoadingMode,
    LoadingPolicy,
    TokenCounter,
    ToolLoad,
)
from onhand.tools.prompt import (
    ToolPrompt,
    ToolSection,
    compact_json,
    definition_json,
    render_changes,
    render_definition,
    render_index,
    render_signature,
    wire_tool,
)
from onhand.tools.search_tool_bm25 import search_tool_bm25
from onhand.tools.search_tools import describe_tool, search_tools
from onhand.tools.tool import NAME, Tool

STATUSES = ("pending", "ready", "failed")
SEARCHERS = ("search_tools", "search_tool_bm25")
MAX_SCHEMA_TOKENS = 16_000  # of activated tools: 8 % of a window of 200,000
INDEX_SHARE = 0.08  # of the definitions that the index stands for,
FOUND_SHARE = 0.1  # and together with the tools that search it, which cost the same however few tools there are
WINDOW_SHARE = 0.02  # of the window, however many tools there are
MIN_INDEX_TOKENS = 100


class ServerState(Record):
    """A server as the session knows it; `tools` counts those that are loaded or can be found."""

    name: str
    status: str
    tools: int
    detail: str = ""


class SessionSearch(Record):
    """The tools that a search found and activated."""

    found: ToolSearchResult  # only tools that were not loaded, best first
    change: ActivationChange
    already: tuple[CatalogTool, ...]  # asked for, but loaded before
    total_tools: int  # that could be found before this search


class SessionOptions(Record):
    """How a session behaves."""

    mode: str = "auto"  # or off, mcp-only, all: which tools are deferred
    mcp_discovery: bool = False  # an older switch: where the mode does not defer anything, it means mcp-only
    policy: LoadingPolicy = DEFAULT_POLICY  # decides the mode where that is auto
    window_tokens: int = DEFAULT_WINDOW_TOKENS
    essentials: Iterable[str] = ESSENTIALS  # names of tools that are always loaded, unless they are an MCP server's
    always_tools: Iterable[str] = ()  # names or ids
    always_servers: Iterable[str] = ()
    hidden: Iterable[str] = INTERNAL  # names of tools that only the host may call
    scope: str = "session"  # or turn, persistent: how long tools stay active
    max_schema_tokens: int | None = MAX_SCHEMA_TOKENS  # of all activated tools
    finder: str = "search_tools"  # or search_tool_bm25
    tokenizer: TokenCounter = ESTIMATE
    path: str | os.PathLike[str] | None = None  # of the file that keeps persistent activations


class Session:
    """The tools of one conversation. Safe between threads."""

    def __init__(
        self,
        catalog: Catalog | Iterable[Tool | CatalogTool | Callable[..., Any]],
        options: SessionOptions = SessionOptions(),  # noqa: B008  # immutable
        *,
        state: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        """Open a session over a catalog, or over a list of tools.

        `changes` replace single options, as in `Session(catalog, mode="all")`. `state` is what an earlier session's
        `state()` returned.
        """
        self._options = options = _check_options(options, changes)
        self._lock = RLock()
        self._catalog = _open_catalog(catalog)
        self._rules = VisibilityRules(
            *map(_as_names, (options.essentials, options.always_tools, options.always_servers, options.hidden))
        )
        self._path = None if options.path is None else os.fspath(options.path)
        self._check_scope(options.scope)
        self._mode = LoadingMode(options.mode, options.policy)
        self._activations = Activations(options.max_schema_tokens)
        self._statuses: dict[str, tuple[str, str]] = {}
        self._costs: dict[str, tuple[CatalogTool, int]] = {}
        self._view: CatalogView | None = None
        self._prompt = ToolPrompt()
        self._ledger = Ledger(options.tokenizer)
        for id in read_selection(self._path) if self._path else ():
            self._activations.parked[id] = "persistent"
        if state is not None:
            self._restore(state)

    @property
    def mode(self) -> str:
        """The mode in effect. `auto` is decided once; later it may defer more, at the start of a turn, never less."""
        with self._lock:
            self._sync()
            return self._mode.current or "off"

    @property
    def decision(self) -> LoadingDecision:
        """Why the mode is what it is."""
        with self._lock:
            self._sync()
            return self._mode.decision

    def begin_turn(self, conversation_tokens: int = 0) -> ToolSection:
        """Deactivate what was active for one turn, let `auto` decide again, and enter the request into the ledger."""
        with self._lock:
            self._hide(active.id for active in self._activations.end_turn())
            view = self._sync()
            if self._mode.reconsider(conversation_tokens):
                self._view = self._rules.view(view.version, view.tools.values(), self._mode.current or "off")
                self._write(self._view)
            section = self._prompt.section()
            self._ledger.turn(section.text)
            return section

    def section(self) -> ToolSection:
        """Return the tools' part of a request as text."""
        with self._lock:
            self._sync()
            return self._prompt.section()

    def wire(self, activated: bool = True) -> list[dict[str, Any]]:
        """Return the tools that the model may call, as in the section: those always loaded, then the activated ones."""
        with self._lock:
            self._sync()
            return self._prompt.wire(activated)

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools that find tools, for the registry; none when nothing is deferred."""
        if self.mode == "off":
            return ()
        if self._options.finder == "search_tool_bm25":
            return (search_tool_bm25(self),)
        return (describe_tool(self), search_tools(self))

    def deferred(self) -> tuple[CatalogTool, ...]:
        """Return the deferred tools by id, including those that were activated since."""
        with self._lock:
            return tuple(self._sync().deferred.values())

    def active(self) -> tuple[CatalogTool, ...]:
        """Return the activated tools, oldest first."""
        with self._lock:
            view = self._sync()
            return tuple(view.tools[active.id] for active in self._activations)

    def uncallable(self) -> tuple[CatalogTool, ...]:
        """Return the tools that are left out because of their name: no registry takes it, or a loaded tool has it."""
        with self._lock:
            view = self._sync()
            taken = {tool.name for tool in view.loaded.values()}
            out = [view.tools[id] for id in view.unseen if id not in view.loaded]
            shown = [tool for tool in out if not self._rules.hides(tool)]
            return tuple(tool for tool in shown if tool.name in taken or not NAME.fullmatch(tool.name))

    def describe(self, name: str) -> CatalogTool:
        """Return a tool that the model may have, by name or id; NotFound if there is none."""
        with self._lock:
            view = self._sync()
            return view.tools[self._id_of(name, view)]

    def search(self, query: str, limit: int = 8, profile: str = "default", scope: str | None = None) -> SessionSearch:
        """Find tools that are not loaded, best first, and activate them."""
        with self._lock:
            view = self._sync()
            if self._mode.current == "off":
                raise ToolError("all tools are loaded already: call the one that you need")
            there = self._shown_deferred(view)
            found = self._search_catalog(query, limit, [*view.unseen, *there], profile, view)
            already: tuple[CatalogTool, ...] = ()
            if found.form == "select" or not found.hits:
                already = self._find_loaded(query, limit, profile, view)
            view = self._sync()  # what was found may have gone with its server since
            found = _hide_secrets(found, view, already)
            found = found._replace(hits=tuple(hit for hit in found.hits if hit.id in view.deferred))
            again = [tool.id for tool in already if tool.id in view.tools]  # these may now stay longer
            change = self._activate([*(hit.id for hit in found.hits), *again], scope, view)
            return SessionSearch(found, change, already, len(view.deferred) - len(there))

    def activate(self, names: Sequence[str], scope: str | None = None) -> ActivationChange:
        """Let the model call tools from now on, by name or id, best first; NotFound names one that does not exist."""
        with self._lock:
            view = self._sync()
            return self._activate([self._id_of(name, view) for name in names], scope, view)

    def deactivate(self, names: Iterable[str]) -> tuple[str, ...]:
        """Deactivate tools, also in the file of persistent activations; return the ids that were active."""
        with self._lock:
            view = self._sync()
            ids = [id for name in names for id in view.ids.get(name, [name])]
            dropped = tuple(active.id for active in self._activations.drop(ids))
            self._hide(dropped)
            for id in ids:
                self._activations.parked.pop(id, None)
            if self._path:
                update_selection(self._path, remove=ids)
            return dropped

    def force(self, name: str) -> None:
        """Keep a tool loaded whatever rules and budget say, such as one that a request's tool_choice names."""
        with self._lock:
            view = self._sync()
            id = self._id_of(name, view, hidden=True)
            if id not in view.loaded and not self._activations.shows(id):
                self._show(id, view)
            self._activations.forced.add(id)

    def release(self, name: str) -> None:
        """Undo `force`."""
        with self._lock:
            id = self._id_of(name, self._sync(), hidden=True)
            self._activations.forced.discard(id)
            if id not in self._activations:
                self._hide([id])

    def refusal(self, name: str) -> str | None:
        """Why the model may not call a tool now, for the model to read; None if it may."""
        with self._lock:
            view = self._sync()
            ids = view.ids.get(name, [])
            if any(id in view.loaded or self._activations.shows(id) for id in ids or [name]):
                return None
            if not ids:  # a finder, or no tool of the catalog: the registry knows. What is hidden is the host's.
                return f"unknown tool: {name}" if name in self._rules.hidden else None
            finder = self._options.finder
            query = f"select:{name}" if finder == "search_tools" else name
            return self._note_retry(
                name,
                f'{name} is not loaded: call {finder}(query="{query}") first, then {name} again, as '
                f"{render_signature(view.deferred[ids[0]])}",
            )

    def manual(self, name: str) -> str:
        """Return the full definition of a tool whose arguments were wrong; nothing if the head of the prompt has it."""
        with self._lock:
            view = self._sync()
            added = next((id for id in view.ids.get(name, []) if self._activations.shows(id)), None)
            if added is None:
                return ""
            return self._note_retry(name, f"the full definition: {render_definition(view.tools[added]).rstrip()}")

    def note(self, kind: str, name: str, text: str) -> None:
        """Enter the cost of an answer, which stays in the conversation, into the ledger."""
        with self._lock:
            self._ledger.enter(kind, name, text)

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return every entry of the ledger: each answer, definition and retry with its cost, in order."""
        with self._lock:
            return tuple(self._ledger.entries)

    def balance(self) -> Balance:
        """Compare what finding tools has cost so far with loading all of them."""
        with self._lock:
            view = self._sync()
            eager = sum(self._cost(tool) for part in (view.loaded, view.deferred) for tool in part.values())
            return self._ledger.balance(eager)

    def report(self, server: str, status: str, detail: str = "") -> None:
        """Tell the session whether a server is still connecting, is connected, or cannot be reached."""
        _check_choice(status, STATUSES, "status")
        with self._lock:
            self._statuses[server] = (status, detail)

    def servers(self) -> tuple[ServerState, ...]:
        """Return every server that has tools here or was reported, by name."""
        with self._lock:
            view = self._sync()
            counts = {**dict.fromkeys(self._statuses, 0), **count_by_server([view.loaded, view.deferred])}
            states = {name: self._statuses.get(name, ("ready", "")) for name in sorted(counts)}
            return tuple(ServerState(name, status, counts[name], detail) for name, (status, detail) in states.items())

    def state(self) -> dict[str, Any]:
        """Return what a later session needs to continue from here, as JSON."""
        with self._lock:
            self._sync()
            return self._describe_state(self._activations.lasting())

    def child(self, **changes: Any) -> Session:
        """Return a session for a sub-agent: it starts with the same options, mode and active tools."""
        with self._lock:
            self._sync()
            given = {"state": self._describe_state(self._activations.lasting(with_turn=True)), **changes}
            child = Session(self._catalog, self._options, **given)
            child._statuses, child._costs = dict(self._statuses), dict(self._costs)
            for id in sorted(self._activations.forced):
                child.force(id)
            return child

    def refresh(self) -> None:
        """Write head and index again, with the changes since: at a compaction, when no prompt cache is lost by it."""
        with self._lock:
            self._write(self._sync())

    def _sync(self) -> CatalogView:
        """Return the catalog as it is now. While it does not change, this costs one comparison."""
        before = self._view
        try:
            version = self._catalog.version
            if before is not None and before.version == version:
                return before
            tools = self._catalog.tools()
        except StoreError:
            if before is None:
                raise
            return before  # what was last seen; a search says so
        self._costs = {tool.id: self._costs[tool.id] for tool in tools if tool.id in self._costs}
        if self._mode.is_auto:
            may_wait = self._rules.may_wait(tools)
            self._mode.measure(self._load(may_wait), self._load([tool for tool in may_wait if not is_mcp(tool)]))
        self._view = view = self._rules.view(version, tools, self._mode.current or "off")
        self._activations.park(view.tools)
        self._prompt.drop([id for id in self._prompt.added_ids() if id not in view.tools])
        self._prompt.renew(view.tools)
        if before is None or before.loaded != view.loaded:
            self._write(view)
        elif self._mode.current != "off":
            changes = render_changes(before.deferred, view.deferred)
            if changes:
                self._prompt.note(changes)
        for id, scope in self._activations.unpark(view.tools).items():
            if id in view.deferred:
                self._add(self._split_by_free_name([id], view)[0], scope, view)
        return view

    def _load(self, tools: Sequence[CatalogTool]) -> ToolLoad:
        return ToolLoad(sum(map(self._cost, tools)), len(tools), window_tokens=self._options.window_tokens)

    def _write(self, view: CatalogView) -> None:
        deferred = tuple(view.deferred.values())
        finders = [tool.wire() for tool in self.tools()]
        max_tokens = self._index_tokens(deferred, finders)
        index = render_index(deferred, self._options.finder, max_tokens, self._options.tokenizer.tokens)
        loaded = [*finders, *map(wire_tool, view.loaded.values())]
        self._activations.drop(list(view.loaded))
        self._prompt.drop(view.loaded)
        self._prompt.begin(loaded, index)

    def _index_tokens(self, deferred: Iterable[CatalogTool], finders: Sequence[dict[str, Any]]) -> int:
        """Return the most that the index may cost."""
        definitions = sum(map(self._cost, deferred))
        searching = sum(self._options.tokenizer.tokens(compact_json(wired)) for wired in finders)
        in_window = WINDOW_SHARE * self._options.window_tokens
        return max(int(min(INDEX_SHARE * definitions, FOUND_SHARE * definitions - searching, in_window)),
                   MIN_INDEX_TOKENS)  # fmt: skip

    def _activate(self, ids: Sequence[str], scope: str | None, view: CatalogView) -> ActivationChange:
        scope = self._options.scope if scope is None else self._check_scope(scope)
        ids = tuple(dict.fromkeys(ids))
        loaded = tuple(id for id in ids if id in view.loaded or id in self._activations.forced)
        free, taken = self._split_by_free_name([id for id in ids if id not in loaded], view)
        change = self._add(free, scope, view)
        if scope == "persistent" and self._path:
            update_selection(self._path, add=[id for id in free if id in self._activations])
        return change._replace(already=loaded + change.already, left_out=change.left_out + taken)

    def _add(self, ids: Sequence[str], scope: str, view: CatalogView) -> ActivationChange:
        change = self._activations.add([ActiveTool(id, self._cost(view.tools[id]), scope) for id in ids])
        self._hide(change.evicted)
        for id in change.activated:
            self._show(id, view)
        return change

    def _show(self, id: str, view: CatalogView) -> None:
        self._ledger.enter("schema", view.tools[id].name, self._prompt.add(id, view.tools[id]))

    def _hide(self, ids: Iterable[str]) -> None:
        self._prompt.drop([id for id in ids if id not in self._activations.forced])

    def _note_retry(self, name: str, text: str) -> str:
        self._ledger.enter("retry", name, text)
        return text

    def _cost(self, tool: CatalogTool) -> int:
        known = self._costs.get(tool.id)
        if known is None or known[0] is not tool:
            known = self._costs[tool.id] = (tool, self._options.tokenizer.tokens(definition_json(tool)))
        return known[1]

    def _shown_deferred(self, view: CatalogView) -> set[str]:
        """Return the ids of deferred tools that the model has already."""
        return {id for id in self._activations.shown_ids() if id in view.deferred}

    def _id_of(self, name: str, view: CatalogView, hidden: bool = False) -> str:
        """Return the id of the tool that a name means."""
        ids = [name] if name in view.tools else view.ids.get(name) or self._ids_by_own_name(name)
        if len(ids) > 1:
            raise InputError(f"{len(ids)} tools have the name {name[:200]!r}: say which, such as {ids[0]!r}")
        tool = view.tools.get(ids[0]) if ids else None
        if tool is None or (tool.id not in view.ids.get(tool.name, ()) and not (hidden and self._rules.hides(tool))):
            secrets = _secret_names(view)
            near = [repr(one) for one in self._catalog.nearest(name) if one not in secrets]
            advice = f"did you mean {' or '.join(near)}?" if near else "search for it by what it does"
            raise NotFound(f"there is no tool {name[:200]!r}: {advice}")
        return tool.id

    def _ids_by_own_name(self, name: str) -> list[str]:
        """Return the id of the tool that its server calls by this name, if there is one."""
        try:
            return [self._catalog.get(name).id]
        except NotFound:
            return []

    def _split_by_free_name(self, ids: Sequence[str], view: CatalogView) -> tuple[list[str], tuple[str, ...]]:
        """Return the ids to activate, and those whose name a loaded tool has: a provider takes each name once."""
        names = {view.tools[id].name: id for id in (*view.loaded, *self._shown_deferred(view))}
        free = [id for id in ids if names.setdefault(view.tools[id].name, id) == id]
        return free, tuple(id for id in ids if id not in free)

    def _search_catalog(
        self, query: str, limit: int, exclude: list[str], profile: str, view: CatalogView
    ) -> ToolSearchResult:
        """Search the catalog or, when its file cannot be read, a new index of what was last seen."""
        try:
            return self._catalog.search(query, limit, exclude, profile)
        except StoreError as error:
            rebuilt = Catalog()
            rebuilt.add(view.tools.values())
            found = rebuilt.search(query, limit, exclude, profile)
            note = f"the catalog cannot be read, so this searched the tools that were last seen: {error}"
            return found._replace(notes=(*found.notes, note))

    def _find_loaded(self, query: str, limit: int, profile: str, view: CatalogView) -> tuple[CatalogTool, ...]:
        """Return the tools that a query asks for and that are loaded already: then there is no need to search on."""
        hidden = [id for id in view.unseen if id not in view.loaded]
        hits = self._search_catalog(query, limit, hidden, profile, view).hits
        return tuple(hit.tool for hit in hits if hit.id in view.loaded or self._activations.shows(hit.id))

    def _check_scope(self, scope: str) -> str:
        _check_choice(scope, SCOPES, "scope")
        if scope == "persistent" and self._path is None:
            raise InputError("persistent activations need a file: give the session a path")
        return scope

    def _describe_state(self, scopes: Mapping[str, str]) -> dict[str, Any]:
        tools = [{"id": id, "scope": scope} for id, scope in scopes.items()]
        return {"version": 1, "mode": self._mode.current, "tools": tools}

    def _restore(self, state: Mapping[str, Any]) -> None:
        for id, scope in _read_state(state):
            kept = "session" if scope == "persistent" and self._path is None else scope
            self._activations.parked.setdefault(id, kept)
        if state["mode"] is not None:
            self._mode.resume(state["mode"])


def _check_options(options: SessionOptions, changes: Mapping[str, Any]) -> SessionOptions:
    unknown = [name for name in changes if name not in SessionOptions._fields]
    if unknown or not isinstance(options, SessionOptions):
        given = f"no option {unknown[0]!r}" if unknown else f"options of {type(options).__name__}"
        raise InputError(f"a session takes {given}; the options are {', '.join(SessionOptions._fields)}")
    options = options._replace(**changes)
    _check_choice(options.mode, (*MODES, "auto"), "mode")
    _check_choice(options.finder, SEARCHERS, "finder")
    if options.mcp_discovery and options.mode in ("off", "auto"):
        options = options._replace(mode="mcp-only")
    return options._replace(mcp_discovery=False)


def _open_catalog(given: Catalog | Iterable[Tool | CatalogTool | Callable[..., Any]]) -> Catalog:
    if isinstance(given, Catalog):
        return given
    catalog = Catalog()
    refused = catalog.add(given).refused
    if refused:
        raise InputError(refused[0][1])
    return catalog


def _hide_secrets(found: ToolSearchResult, view: CatalogView, already: Sequence[CatalogTool]) -> ToolSearchResult:
    """Remove from a result what it says about tools that only the host may call, or that nobody can call."""
    if found.reason in EXCLUDED:
        other_words = "no tool that can be called is meant: say what it should do in other words"
        found = found._replace(reason="what is meant is loaded already" if already else other_words)
    if not found.unknown:
        return found
    secrets = _secret_names(view)
    unknown = (
        one._replace(nearest=tuple(name for name in one.nearest if name not in secrets)) for one in found.unknown
    )
    return found._replace(unknown=tuple(unknown))


def _secret_names(view: CatalogView) -> set[str]:
    """Return the ids and names that no answer may suggest."""
    return {name for id in view.unseen if id not in view.loaded for name in (id, view.tools[id].name)}


def _read_state(state: object) -> list[tuple[str, str]]:
    given: Mapping[str, Any] = state if isinstance(state, Mapping) else {}
    rows = given.get("tools")
    is_valid = given.get("version") == 1 and given.get("mode", "") in (*MODES, None) and isinstance(rows, list)
    pairs: list[tuple[Any, Any]] = [_read_pair(row) for row in rows or []] if is_valid else []
    if not is_valid or not all(isinstance(id, str) and scope in SCOPES for id, scope in pairs):
        raise InputError("the state of the session cannot be read: pass what state() returned, or start without")
    return pairs


def _read_pair(row: object) -> tuple[Any, Any]:
    return (row.get("id"), row.get("scope")) if isinstance(row, Mapping) else (None, None)


def _as_names(given: Iterable[str]) -> frozenset[str]:
    """Return the names that a host gave; a single one may be passed by itself."""
    names = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(name, str) for name in names):
        raise InputError("essentials, always_tools, always_servers and hidden are names: pass strings")
    return frozenset(map(str.strip, names)) - {""}  # which is the server of all tools that have none


def _check_choice(value: str, known: Sequence[str], what: str) -> None:
    if value not in known:
        raise InputError(f"{what} is {', '.join(known[:-1])} or {known[-1]}, not {str(value)[:60]!r}")
