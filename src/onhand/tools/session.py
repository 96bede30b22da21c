"""Keep track of the tools that a model has in one conversation, and of those that it has to find first.

A session writes the tools' part of each request so that it stays the same, byte for byte, as long as the set of tools
does. It combines the visible catalog, the activations, the prompt and the ledger; ranking is left to the catalog, and
running tools to the registry. `forecast` tells what a catalog would cost by opening a session and searching.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any

from onhand.errors import InputError, ToolError
from onhand.record import Record
from onhand.tools.activation import (
    ESSENTIALS,
    INTERNAL,
    SCOPES,
    ActivationChange,
    Activations,
    ActiveTool,
    CatalogView,
    DefinitionCosts,
    VisibilityRules,
    VisibleCatalog,
    check_choice,
    count_by_server,
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
    break_even,
)
from onhand.tools.prompt import (
    ToolPrompt,
    ToolSection,
    compact_json,
    render_changes,
    render_definition,
    render_index,
    render_signature,
    wire_tool,
)
from onhand.tools.search_tools import DEFAULT_LIMIT, describe_tool, render_search, search_tool_bm25, search_tools
from onhand.tools.tool import Tool

STATUSES = ("pending", "ready", "failed")
SEARCHERS = ("search_tools", "search_tool_bm25")
MAX_SCHEMA_TOKENS = 16_000  # of activated tools: 8 % of a window of 200,000
# The index may cost at most this share of the definitions that it stands for,
INDEX_SHARE = 0.08
# this share together with the tools that search it, which cost the same however few tools there are,
FOUND_SHARE = 0.1
# and this share of the window, however many tools there are.
WINDOW_SHARE = 0.02
MIN_INDEX_TOKENS = 100


class ServerState(Record):
    """A server as the session knows it."""

    name: str
    status: str
    tools: int  # that are loaded or can be found
    detail: str = ""


class SessionSearch(Record):
    """The tools that a search found and activated."""

    found: ToolSearchResult  # only tools that were not loaded, best first
    change: ActivationChange
    already: tuple[CatalogTool, ...]  # tools that match but were loaded before
    total_tools: int  # that could be found before this search


class SessionOptions(Record):
    """The options of a session."""

    mode: str = "auto"  # or off, mcp-only, all: which tools are deferred
    mcp_discovery: bool = False  # an older switch: where the mode is off or auto, it means mcp-only
    policy: LoadingPolicy = DEFAULT_POLICY  # chooses the mode if that is auto
    window_tokens: int = DEFAULT_WINDOW_TOKENS
    essentials: Iterable[str] = ESSENTIALS  # names of tools that are always loaded, unless an MCP server has them
    always_tools: Iterable[str] = ()  # names or ids
    always_servers: Iterable[str] = ()
    hidden: Iterable[str] = INTERNAL  # names of tools that only the host may call
    scope: str = "session"  # or turn, persistent: how long tools stay active
    max_schema_tokens: int | None = MAX_SCHEMA_TOKENS  # of all activated tools
    finder: str = "search_tools"  # or search_tool_bm25
    tokenizer: TokenCounter = ESTIMATE
    path: str | os.PathLike[str] | None = None  # the file of persistent activations


class Session:
    """The tools of one conversation. Thread-safe."""

    def __init__(
        self,
        catalog: Catalog | Iterable[Tool | CatalogTool | Callable[..., Any]],
        options: SessionOptions = SessionOptions(),  # noqa: B008  # immutable
        *,
        state: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        """Open a session over a catalog or a list of tools.

        `changes` replace single options, as in `Session(catalog, mode="all")`. `state` is what `state()` of an earlier
        session returned.
        """
        self._options = options = _check_options(options, changes)
        self._lock = RLock()
        rules = VisibilityRules(
            *map(_as_names, (options.essentials, options.always_tools, options.always_servers, options.hidden))
        )
        self._visible = VisibleCatalog(
            _open_catalog(catalog),
            rules,
            LoadingMode(options.mode, options.policy),
            DefinitionCosts(options.tokenizer),
            options.window_tokens,
        )
        path = None if options.path is None else os.fspath(options.path)
        self._activations = Activations(options.max_schema_tokens, path)
        self._activations.check_scope(options.scope)
        self._statuses: dict[str, tuple[str, str]] = {}  # server → status, detail
        self._view: CatalogView | None = None  # which the prompt was written for
        self._prompt = ToolPrompt()
        self._ledger = Ledger(options.tokenizer)
        if state is not None:
            self._activations.resume(_read_state(state))
            if state["mode"] is not None:
                self._visible.mode.resume(state["mode"])

    @property
    def mode(self) -> str:
        """The mode in effect. `auto` decides once; at the start of a later turn it may defer more, but never less."""
        with self._lock:
            self._sync()
            return self._visible.mode.current or "off"

    @property
    def decision(self) -> LoadingDecision:
        """The decision that led to the mode, with its reason."""
        with self._lock:
            self._sync()
            return self._visible.mode.decision

    def begin_turn(self, conversation_tokens: int = 0) -> ToolSection:
        """Deactivate tools that were active for one turn, let `auto` decide again, and count the request."""
        with self._lock:
            self._prompt.drop(self._activations.end_turn())
            self._sync()
            if self._visible.reconsider(conversation_tokens):
                self._view = self._visible.view()
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
        """Return the tools that find tools, for the registry; none if nothing is deferred."""
        if self.mode == "off":
            return ()
        if self._options.finder == "search_tool_bm25":
            return (search_tool_bm25(self),)
        return (describe_tool(self), search_tools(self))

    def deferred(self) -> tuple[CatalogTool, ...]:
        """Return the deferred tools by id, including those that have been activated since."""
        with self._lock:
            return tuple(self._sync().deferred.values())

    def active(self) -> tuple[CatalogTool, ...]:
        """Return the activated tools, oldest first."""
        with self._lock:
            view = self._sync()
            return tuple(view.tools[active.id] for active in self._activations)

    def describe(self, name: str) -> CatalogTool:
        """Return a tool that the model may have, by name or id; raise NotFound if there is none."""
        with self._lock:
            view = self._sync()
            return view.tools[self._visible.resolve(name, view)]

    def search(self, query: str, limit: int = 8, profile: str = "default", scope: str | None = None) -> SessionSearch:
        """Find tools that are not loaded, best first, and activate them."""
        with self._lock:
            view = self._sync()
            if self._visible.mode.current == "off":
                raise ToolError("all tools are loaded already: call the one that you need")
            active = [active.id for active in self._activations]
            found = self._visible.search(query, limit, [*view.unseen, *active], profile)
            already: tuple[CatalogTool, ...] = ()
            if found.form == "select" or not found.hits:
                already = self._find_loaded(query, limit, profile, view)
            view = self._sync()  # what was found may have disappeared with its server
            found = _hide_secrets(found, view, already)
            found = found._replace(hits=tuple(hit for hit in found.hits if hit.id in view.deferred))
            again = [tool.id for tool in already if tool.id in view.tools]  # these may now stay longer
            change = self._activate([*(hit.id for hit in found.hits), *again], scope, view)
            return SessionSearch(found, change, already, len(view.deferred) - len(active))

    def activate(self, names: Sequence[str], scope: str | None = None) -> ActivationChange:
        """Let the model call tools from now on, by name or id, best first; raise NotFound for one that is unknown."""
        with self._lock:
            view = self._sync()
            return self._activate([self._visible.resolve(name, view) for name in names], scope, view)

    def deactivate(self, names: Iterable[str]) -> tuple[str, ...]:
        """Deactivate tools, also in the file of persistent activations; return the ids that were active."""
        with self._lock:
            view = self._sync()
            ids = [id for name in names for id in view.ids.get(name, [name])]
            dropped = self._activations.drop(ids)
            self._prompt.drop(dropped)
            self._activations.forget(ids)
            return dropped

    def refusal(self, name: str) -> str | None:
        """Return why the model may not call a tool now, in words for the model; None if it may."""
        with self._lock:
            view = self._sync()
            ids = view.ids.get(name, [])
            if any(id in view.loaded or id in self._activations for id in ids):
                return None
            if not ids:  # a finder, or a tool that only the registry knows; a hidden one is for the host alone
                return f"unknown tool: {name}" if name in self._visible.rules.hidden else None
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
            added = next((id for id in view.ids.get(name, []) if id in self._activations), None)
            if added is None:
                return ""
            return self._note_retry(name, f"the full definition: {render_definition(view.tools[added]).rstrip()}")

    def note(self, kind: str, name: str, text: str) -> None:
        """Enter the cost of a text that stays in the conversation in the ledger."""
        with self._lock:
            self._ledger.enter(kind, name, text)

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return every entry of the ledger in order: each search result, definition and retry with its cost."""
        with self._lock:
            return tuple(self._ledger.entries)

    def balance(self) -> Balance:
        """Compare what finding tools has cost so far with loading all of them."""
        with self._lock:
            view = self._sync()
            return self._ledger.balance(self._visible.costs.total((*view.loaded.values(), *view.deferred.values())))

    def report(self, server: str, status: str, detail: str = "") -> None:
        """Record whether a server is still connecting, is connected, or cannot be reached."""
        check_choice(status, STATUSES, "status")
        with self._lock:
            self._statuses[server] = (status, detail)

    def servers(self) -> tuple[ServerState, ...]:
        """Return every server that has tools here or was reported, by name."""
        with self._lock:
            view = self._sync()
            counts = dict.fromkeys(self._statuses, 0) | count_by_server(
                (*view.loaded.values(), *view.deferred.values())
            )
            states = {name: self._statuses.get(name, ("ready", "")) for name in sorted(counts)}
            return tuple(ServerState(name, status, counts[name], detail) for name, (status, detail) in states.items())

    def state(self) -> dict[str, Any]:
        """Return the state that a later session needs to continue from here, as JSON."""
        with self._lock:
            self._sync()
            return self._make_state(self._activations.scopes())

    def child(self, **changes: Any) -> Session:
        """Return a session for a sub-agent, which starts with the same options, mode and active tools."""
        with self._lock:
            self._sync()
            inherited = {"state": self._make_state(self._activations.scopes(with_turn=True))}
            child = Session(self._visible.catalog, self._options, **inherited | changes)
            child._statuses = dict(self._statuses)
            if child._options.tokenizer == self._options.tokenizer:
                child._visible.costs = self._visible.costs.copy()
            return child

    def refresh(self) -> None:
        """Rewrite head and index with the changes since: at a compaction, when that does not cost a prompt cache."""
        with self._lock:
            self._write(self._sync())

    def _sync(self) -> CatalogView:
        """Return the current view of the catalog, with activations and prompt brought up to date with it."""
        before, view = self._view, self._visible.view()
        if view is before:
            return view
        self._view = view
        self._activations.park(view.tools)
        self._prompt.drop([id for id in self._prompt.added_ids() if id not in view.tools])
        self._prompt.renew(view.tools)
        if before is None or before.loaded != view.loaded:
            self._write(view)
        elif self._visible.mode.current != "off":
            changes = render_changes(before.deferred, view.deferred)
            if changes:
                self._prompt.note(changes)
        for id, scope in self._activations.unpark(view.tools).items():
            if id in view.deferred:
                self._add(self._split_by_free_name([id], view)[0], scope, view)
        return view

    def _write(self, view: CatalogView) -> None:
        deferred = tuple(view.deferred.values())
        finders = [tool.wire() for tool in self.tools()]
        max_tokens = self._max_index_tokens(deferred, finders)
        index = render_index(deferred, self._options.finder, max_tokens, self._options.tokenizer.tokens)
        loaded = [*finders, *map(wire_tool, view.loaded.values())]
        self._activations.drop(list(view.loaded))
        self._prompt.drop(view.loaded)
        self._prompt.begin(loaded, index)

    def _max_index_tokens(self, deferred: Iterable[CatalogTool], finders: Sequence[dict[str, Any]]) -> int:
        definitions = self._visible.costs.total(deferred)
        searching = sum(self._options.tokenizer.tokens(compact_json(wired)) for wired in finders)
        in_window = WINDOW_SHARE * self._options.window_tokens
        share = min(INDEX_SHARE * definitions, FOUND_SHARE * definitions - searching, in_window)
        return max(int(share), MIN_INDEX_TOKENS)

    def _activate(self, ids: Sequence[str], scope: str | None, view: CatalogView) -> ActivationChange:
        scope = self._options.scope if scope is None else self._activations.check_scope(scope)
        ids = tuple(dict.fromkeys(ids))
        loaded = tuple(id for id in ids if id in view.loaded)
        free, taken = self._split_by_free_name([id for id in ids if id not in loaded], view)
        change = self._add(free, scope, view)
        if scope == "persistent":
            self._activations.persist(free)
        return change._replace(already=loaded + change.already, left_out=change.left_out + taken)

    def _add(self, ids: Sequence[str], scope: str, view: CatalogView) -> ActivationChange:
        costs = self._visible.costs
        change = self._activations.add([ActiveTool(id, costs.of(view.tools[id]), scope) for id in ids])
        self._prompt.drop(change.evicted)
        for id in change.activated:
            self._ledger.enter("schema", view.tools[id].name, self._prompt.add(id, view.tools[id]))
        return change

    def _split_by_free_name(self, ids: Sequence[str], view: CatalogView) -> tuple[list[str], tuple[str, ...]]:
        """Return the ids to activate, and those whose name a loaded tool has: a provider accepts each name once."""
        names = {view.tools[id].name: id for id in (*view.loaded, *(active.id for active in self._activations))}
        free = [id for id in ids if names.setdefault(view.tools[id].name, id) == id]
        return free, tuple(id for id in ids if id not in free)

    def _find_loaded(self, query: str, limit: int, profile: str, view: CatalogView) -> tuple[CatalogTool, ...]:
        """Return the tools that match a query and are loaded already, so that there is no need to search on."""
        hidden = [id for id in view.unseen if id not in view.loaded]
        hits = self._visible.search(query, limit, hidden, profile).hits
        return tuple(hit.tool for hit in hits if hit.id in view.loaded or hit.id in self._activations)

    def _note_retry(self, name: str, text: str) -> str:
        self._ledger.enter("retry", name, text)
        return text

    def _make_state(self, scopes: Mapping[str, str]) -> dict[str, Any]:
        tools = [{"id": id, "scope": scope} for id, scope in scopes.items()]
        return {"version": 1, "mode": self._visible.mode.current, "tools": tools}


def _check_options(options: SessionOptions, changes: Mapping[str, Any]) -> SessionOptions:
    unknown = [name for name in changes if name not in SessionOptions._fields]
    if unknown or not isinstance(options, SessionOptions):
        problem = f"no option {unknown[0]!r}" if unknown else f"SessionOptions, not {type(options).__name__}"
        raise InputError(f"a session takes {problem}; the options are {', '.join(SessionOptions._fields)}")
    options = options._replace(**changes)
    check_choice(options.mode, (*MODES, "auto"), "mode")
    check_choice(options.finder, SEARCHERS, "finder")
    if options.mcp_discovery and options.mode in ("off", "auto"):
        options = options._replace(mode="mcp-only")
    return options._replace(mcp_discovery=False)


def _open_catalog(tools: Catalog | Iterable[Tool | CatalogTool | Callable[..., Any]]) -> Catalog:
    if isinstance(tools, Catalog):
        return tools
    catalog = Catalog()
    refused = catalog.add(tools).refused
    if refused:
        raise InputError(refused[0][1])
    return catalog


def _hide_secrets(found: ToolSearchResult, view: CatalogView, already: Sequence[CatalogTool]) -> ToolSearchResult:
    """Remove from a result everything about tools that only the host may call, or that nobody can call."""
    if found.reason in EXCLUDED:
        other_words = "no matching tool can be called: say in other words what it should do"
        found = found._replace(reason="the matching tools are loaded already" if already else other_words)
    if not found.unknown:
        return found
    secrets = view.secret_names()
    unknown = (
        one._replace(nearest=tuple(name for name in one.nearest if name not in secrets)) for one in found.unknown
    )
    return found._replace(unknown=tuple(unknown))


def _read_state(state: object) -> list[tuple[str, str]]:
    """Return the ids and scopes of a state; raise InputError if `state()` did not return it."""
    fields: Mapping[str, Any] = state if isinstance(state, Mapping) else {}
    rows = fields.get("tools")
    is_valid = fields.get("version") == 1 and fields.get("mode", "") in (*MODES, None) and isinstance(rows, list)
    pairs: list[tuple[Any, Any]] = [_read_pair(row) for row in rows or []] if is_valid else []
    if not is_valid or not all(isinstance(id, str) and scope in SCOPES for id, scope in pairs):
        raise InputError("the state of the session cannot be read: pass what state() returned, or none")
    return pairs


def _read_pair(row: object) -> tuple[Any, Any]:
    return (row.get("id"), row.get("scope")) if isinstance(row, Mapping) else (None, None)


def _as_names(names: Iterable[str]) -> frozenset[str]:
    """Return the names in an option, which may be a single one."""
    listed = [names] if isinstance(names, str) else list(names)
    if not all(isinstance(name, str) for name in listed):
        raise InputError("essentials, always_tools, always_servers and hidden are names: pass strings")
    return frozenset(map(str.strip, listed)) - {""}  # "" would be the server of all tools without one


FORECAST_SEARCHES = 20  # enough that the mean changes by a few per cent at most
FORECAST_QUERY_CHARS = 80


class Forecast(Record):
    """The cost of both ways of loading, in tokens of one request."""

    tools: int
    servers: int
    eager_tokens: int
    lazy_tokens: int
    search_tokens: int  # of a search result, on average
    schema_tokens: int  # of the definitions that a search loads, on average
    break_even_searches: int | None
    stable_bytes: int  # at the head of every request, the same until the catalog changes
    decision: LoadingDecision  # of the policy
    tokenizer: str
    error: str
    output_schema_tokens: int = 0  # of output schemas, which providers do not get but a host may show to its model
    of_servers: int = 0  # tools that belong to a server
    left_out: int = 0  # tools with a name that no model can call, or that one of the finders has

    @property
    def saved_tokens(self) -> int:
        """How many tokens lazy loading saves in the first request."""
        return self.eager_tokens - self.lazy_tokens

    @property
    def saved_share(self) -> float:
        """The saving as a share of eager loading, at most 1; below 0 if the index costs more than it saves."""
        return self.saved_tokens / self.eager_tokens if self.eager_tokens else 0.0


def forecast(
    catalog: Catalog,
    policy: LoadingPolicy = DEFAULT_POLICY,
    window_tokens: int = DEFAULT_WINDOW_TOKENS,
    tokenizer: TokenCounter = ESTIMATE,
    conversation_tokens: int = 0,
) -> Forecast:
    """Return what a catalog costs, loaded at once or found as needed, and what the policy would decide.

    The searches use the descriptions of tools spread evenly over the catalog, so that the results have realistic sizes
    and are the same every time.
    """
    under_policy = Session(
        catalog, policy=policy, window_tokens=window_tokens, essentials=(), hidden=(), tokenizer=tokenizer
    )
    under_policy.begin_turn(conversation_tokens)
    session = under_policy.child(mode="all", state=None)
    section = session.begin_turn()
    balance = session.balance()
    answers, schemas = _mean_search_tokens(session, tokenizer)
    return Forecast(
        len(session.deferred()),
        len(session.servers()),
        balance.eager_tokens,
        balance.first_tokens,
        round(answers),
        round(schemas),
        break_even(balance.eager_tokens, balance.first_tokens, answers + schemas),
        len(section.head.encode()),
        under_policy.decision,
        tokenizer.name,
        tokenizer.error,
        sum(tokenizer.tokens(compact_json(tool.output_schema)) for tool in session.deferred() if tool.output_schema),
        sum(server.tools for server in session.servers()),
        len(catalog) - len(session.deferred()),
    )


def _mean_search_tokens(session: Session, tokenizer: TokenCounter) -> tuple[float, float]:
    """Return the mean cost of a search result and of the definitions that it loads; each search starts afresh."""
    queries = [query for tool in session.deferred() if any(map(str.isalnum, query := _query_for(tool)))]
    sample = queries[:: max(len(queries) // FORECAST_SEARCHES, 1)][:FORECAST_SEARCHES]
    answers = 0
    for query in sample:
        answers += tokenizer.tokens(render_search(session.search(query, DEFAULT_LIMIT), session))
        session.deactivate([active.id for active in session.active()])
    return answers / max(len(sample), 1), session.balance().spent["schema"] / max(len(sample), 1)


def _query_for(tool: CatalogTool) -> str:
    words = (tool.description or tool.leaf)[: 4 * FORECAST_QUERY_CHARS].split()
    return " ".join(words)[:FORECAST_QUERY_CHARS].strip()
