"""Which tools does a model have right now, and which wait to be found?

A session looks at a catalog through rules and a mode, keeps what was activated, and writes the tools' part of each
request so that it stays equal, byte for byte, for as long as the set does. It does not rank (the catalog does) and
runs nothing (the registry does).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any

from onhand.errors import InputError, NotFound, StoreError, ToolError
from onhand.record import Record
from onhand.tools import prompt, selection
from onhand.tools.activation import SCOPES, Activations, Active, Change
from onhand.tools.budget import DEFAULT_WINDOW_TOKENS, DEFINITIONS, Decision, Load, Policy
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.ledger import Balance, Entry, Ledger
from onhand.tools.tokens import ESTIMATE, Tokenizer
from onhand.tools.tool import NAME
from onhand.tools.visibility import ESSENTIALS, INTERNAL, MODES, Rules, View, by_server, is_mcp

if TYPE_CHECKING:
    from onhand.tools.catalog import Catalog, Found
    from onhand.tools.tool import Tool

STATUSES = ("pending", "ready", "failed")
MAX_SCHEMA_TOKENS = 16_000  # of activated tools: 8 % of a window of 200,000
INDEX_SHARE = 0.08  # of the definitions that it stands for,
FOUND_SHARE = 0.1  # and together with the tools that search it, which cost the same however few tools there are
WINDOW_SHARE = 0.02  # of the window, however many tools there are
MIN_INDEX_TOKENS = 100


class Server(Record):
    """A server as the session knows it; `tools` counts what is loaded or can be found."""

    name: str
    status: str
    tools: int
    detail: str = ""


class Search(Record):
    """What a search found and activated."""

    found: Found  # fresh tools only, best first
    change: Change
    already: tuple[CatalogTool, ...]  # asked for, and loaded before
    total_tools: int  # that could be found before this search


class Session:
    """The tools of one conversation. Safe between threads."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        mode: str = "auto",
        mcp_discovery: bool = False,
        policy: Policy = DEFINITIONS,
        window_tokens: int = DEFAULT_WINDOW_TOKENS,
        essentials: Iterable[str] = ESSENTIALS,
        always_tools: Iterable[str] = (),
        always_servers: Iterable[str] = (),
        hidden: Iterable[str] = INTERNAL,
        scope: str = "session",
        max_schema_tokens: int | None = MAX_SCHEMA_TOKENS,
        finder: str = "search_tools",
        tokenizer: Tokenizer = ESTIMATE,
        path: str | os.PathLike[str] | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """`path` is where persistent activations are kept; `state` is what `state()` of an earlier session gave.

        `mcp_discovery` is an older switch: where the mode does not say what to defer, it means mcp-only.
        """
        _check(mode, (*MODES, "auto"), "mode")
        mode = "mcp-only" if mcp_discovery and mode in ("off", "auto") else mode
        _check(finder, ("search_tools", "search_tool_bm25"), "finder")
        self._lock = RLock()
        self._catalog = catalog
        self._rules = Rules(*map(_named, (essentials, always_tools, always_servers, hidden)))
        self._is_auto = mode == "auto"
        self._policy = policy
        self._window_tokens = window_tokens
        self._max_schema_tokens = max_schema_tokens
        self._finder = finder
        self._tokenizer = tokenizer
        self._path = None if path is None else os.fspath(path)
        self._scope = self._checked_scope(scope)
        self._mode: str | None = None if self._is_auto else mode
        self._decision = Decision(mode != "off", f"mode={mode}", f"the mode is {mode}")
        self._activations = Activations(max_schema_tokens)
        self._forced: set[str] = set()
        self._waiting: dict[str, str] = {}  # id → scope of what was active and is not in the catalog now
        self._statuses: dict[str, tuple[str, str]] = {}
        self._costs: dict[str, tuple[CatalogTool, int]] = {}
        self._loads: tuple[Load, ...] = ()  # of all that may be deferred, and of that without MCP tools
        self._view: View | None = None
        self._prompt = prompt.Prompt()
        self._ledger = Ledger(tokenizer)
        for id in selection.read(self._path) if self._path else ():
            self._waiting[id] = "persistent"
        if state is not None:
            self._restore(state)

    @property
    def mode(self) -> str:
        """The mode in effect. `auto` is decided once; later it may defer more, at the start of a turn, never less."""
        with self._lock:
            self._sync()
            return self._mode or "off"

    @property
    def decision(self) -> Decision:
        """Why the mode is what it is."""
        with self._lock:
            self._sync()
            return self._decision

    def begin_turn(self, conversation_tokens: int = 0) -> prompt.Section:
        """What was active for one turn goes, `auto` looks at the load again, and the ledger gets an entry."""
        with self._lock:
            self._forget(active.id for active in self._activations.end_turn())
            self._decide_again(self._sync(), conversation_tokens)
            section = self._prompt.section()
            self._ledger.turn(section.text)
            return section

    def section(self) -> prompt.Section:
        """The tools' part of a request as text."""
        with self._lock:
            self._sync()
            return self._prompt.section()

    def wire(self, activated: bool = True) -> list[dict[str, Any]]:
        """What the model may call, in the order of the section: what always is, then what was activated."""
        with self._lock:
            self._sync()
            return self._prompt.wire(activated)

    def tools(self) -> tuple[Tool, ...]:
        """The tools that find tools, for the registry; none when nothing is deferred."""
        from onhand.tools.search_tool_bm25 import search_tool_bm25
        from onhand.tools.search_tools import describe_tool, search_tools

        if self.mode == "off":
            return ()
        if self._finder == "search_tool_bm25":
            return (search_tool_bm25(self),)
        return (describe_tool(self), search_tools(self))

    def deferred(self) -> tuple[CatalogTool, ...]:
        """The tools that wait to be found, by id; those that were activated since are among them."""
        with self._lock:
            return tuple(self._sync().deferred.values())

    def active(self) -> tuple[CatalogTool, ...]:
        """The activated tools, oldest first."""
        with self._lock:
            view = self._sync()
            return tuple(view.tools[active.id] for active in self._activations)

    def uncallable(self) -> tuple[CatalogTool, ...]:
        """Tools that are left out because no registry takes their name, or a loaded tool has it: they need another."""
        with self._lock:
            view = self._sync()
            taken = {tool.name for tool in view.loaded.values()}
            out = [view.tools[id] for id in view.unseen if id not in view.loaded]
            shown = [tool for tool in out if not self._rules.hides(tool)]
            return tuple(tool for tool in shown if tool.name in taken or not NAME.fullmatch(tool.name))

    def describe(self, name: str) -> CatalogTool:
        """A tool that the model may have, by name or id; NotFound if there is none."""
        with self._lock:
            view = self._sync()
            return view.tools[self._id(name, view)]

    def search(self, query: str, limit: int = 8, profile: str = "default", scope: str | None = None) -> Search:
        """Find tools that are not loaded, best first, and activate them."""
        with self._lock:
            view = self._sync()
            if self._mode == "off":
                raise ToolError("all tools are loaded already: call the one that you need")
            there = self._there(view)
            found = self._found(query, limit, [*view.unseen, *there], profile, view)
            already: tuple[CatalogTool, ...] = ()
            if found.form == "select" or not found.hits:
                already = self._asked_again(query, limit, profile, view)
            view = self._sync()  # what was found may have gone with its server since
            found = _without_secrets(found, view, already)
            found = found._replace(hits=tuple(hit for hit in found.hits if hit.id in view.deferred))
            again = [tool.id for tool in already if tool.id in view.tools]  # these may now stay longer
            change = self._activated([*(hit.id for hit in found.hits), *again], scope, view)
            return Search(found, change, already, len(view.deferred) - len(there))

    def activate(self, names: Sequence[str], scope: str | None = None) -> Change:
        """Let the model call tools from now on, by name or id, best first; NotFound says which there is not."""
        with self._lock:
            view = self._sync()
            return self._activated([self._id(name, view) for name in names], scope, view)

    def deactivate(self, names: Iterable[str]) -> tuple[str, ...]:
        """Take activated tools back, also from what is kept for good; the ids that were active."""
        with self._lock:
            view = self._sync()
            ids = [id for name in names for id in view.ids.get(name, [name])]
            dropped = tuple(active.id for active in self._activations.drop(ids))
            self._forget(dropped)
            for id in ids:
                self._waiting.pop(id, None)
            if self._path:
                selection.change(self._path, remove=ids)
            return dropped

    def force(self, name: str) -> None:
        """Keep a tool loaded whatever rules and budget say, such as one that a request's tool_choice names."""
        with self._lock:
            view = self._sync()
            id = self._id(name, view, hidden=True)
            if id not in view.loaded and not self._is_added(id):
                self._show(id, view)
            self._forced.add(id)

    def release(self, name: str) -> None:
        """Let a forced tool go again."""
        with self._lock:
            id = self._id(name, self._sync(), hidden=True)
            self._forced.discard(id)
            if id not in self._activations:
                self._forget([id])

    def refusal(self, name: str) -> str | None:
        """Why the model may not call a tool now, for the model to read; None if it may."""
        with self._lock:
            view = self._sync()
            ids = view.ids.get(name, [])
            if any(id in view.loaded or self._is_added(id) for id in ids or [name]):
                return None
            if not ids:  # a finder, or no tool of the catalog: the registry knows. What is hidden is the host's.
                return f"unknown tool: {name}" if name in self._rules.hidden else None
            asked = f"select:{name}" if self._finder == "search_tools" else name
            return self._note_retry(
                name,
                f'{name} is not loaded: call {self._finder}(query="{asked}") first, then {name} again, as '
                f"{prompt.called_as(view.deferred[ids[0]])}",
            )

    def manual(self, name: str) -> str:
        """The whole definition of a tool whose arguments were wrong; nothing if the head of the prompt has it."""
        with self._lock:
            view = self._sync()
            added = next((id for id in view.ids.get(name, []) if self._is_added(id)), None)
            if added is None:
                return ""
            return self._note_retry(name, f"the whole definition: {prompt.line(view.tools[added]).rstrip()}")

    def note(self, kind: str, name: str, text: str) -> None:
        """Enter into the ledger what an answer put into the conversation."""
        with self._lock:
            self._ledger.enter(kind, name, text)

    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the ledger: each answer, definition and retry with what it cost, in order."""
        with self._lock:
            return tuple(self._ledger.entries)

    def balance(self) -> Balance:
        """What finding tools has cost so far, against loading all of them."""
        with self._lock:
            view = self._sync()
            eager = sum(self._cost(tool) for part in (view.loaded, view.deferred) for tool in part.values())
            return self._ledger.balance(eager)

    def report(self, server: str, status: str, detail: str = "") -> None:
        """Tell the session about a server: it is still connecting, connected, or cannot be reached."""
        _check(status, STATUSES, "status")
        with self._lock:
            self._statuses[server] = (status, detail)

    def servers(self) -> tuple[Server, ...]:
        """Every server that has tools here or was reported, by name."""
        with self._lock:
            view = self._sync()
            counts = {**dict.fromkeys(self._statuses, 0), **by_server([view.loaded, view.deferred])}
            told = {name: self._statuses.get(name, ("ready", "")) for name in sorted(counts)}
            return tuple(Server(name, status, counts[name], detail) for name, (status, detail) in told.items())

    def state(self) -> dict[str, Any]:
        """What a later session needs to go on from here, as JSON."""
        with self._lock:
            self._sync()
            active = {active.id: active.scope for active in self._activations if active.scope != "turn"}
            return self._state({**active, **self._waiting})

    def child(self, **changed: Any) -> Session:
        """A session for a sub-agent: the same rules, mode and active tools, and from then on its own."""
        with self._lock:
            self._sync()
            lasting = {active.id: active.scope.replace("turn", "session") for active in self._activations}
            settings = {
                **self._rules._asdict(),
                "mode": "auto" if self._is_auto else self._mode,
                "policy": self._policy,
                "window_tokens": self._window_tokens,
                "scope": self._scope,
                "max_schema_tokens": self._max_schema_tokens,
                "finder": self._finder,
                "tokenizer": self._tokenizer,
                "path": self._path,
                "state": self._state({**lasting, **self._waiting}),
            }
            child = Session(self._catalog, **{**settings, **changed})
            child._statuses, child._costs = dict(self._statuses), dict(self._costs)
            for id in sorted(self._forced):
                child.force(id)
            return child

    def refresh(self) -> None:
        """Write head and index anew, with what came and went since: at a compaction, when no cache is lost by it."""
        with self._lock:
            self._write(self._sync())

    def _sync(self) -> View:
        """The catalog as it is now. While it does not change, this costs one comparison."""
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
        if self._is_auto:
            may_wait = self._rules.may_wait(tools)
            self._loads = self._load(may_wait), self._load([tool for tool in may_wait if not is_mcp(tool)])
        if self._mode is None:
            self._mode, self._decision = self._decided(0)
        self._view = view = self._rules.view(version, tools, self._mode)
        self._park(view)
        if before is None or before.loaded != view.loaded:
            self._write(view)
        elif self._mode != "off":
            changes = prompt.delta(before.deferred, view.deferred)
            if changes:
                self._prompt.note(changes)
        self._revive(view)
        return view

    def _decided(self, conversation_tokens: int) -> tuple[str, Decision]:
        """The mode that the policy asks for: as little deferred as keeps the rest within its limit."""
        all_of_it, without_mcp = (
            self._policy.decide(load._replace(conversation_tokens=conversation_tokens)) for load in self._loads
        )
        if not all_of_it.lazy:
            return "off", all_of_it
        return ("all" if without_mcp.lazy else "mcp-only"), all_of_it

    def _decide_again(self, view: View, conversation_tokens: int) -> None:
        if not self._is_auto or self._mode == MODES[-1]:
            return
        mode, decision = self._decided(conversation_tokens)
        if mode == self._mode:
            self._decision = decision
        elif MODES.index(mode) > MODES.index(self._mode or "off"):
            self._mode, self._decision = mode, decision
            self._view = self._rules.view(view.version, view.tools.values(), mode)
            self._write(self._view)

    def _load(self, tools: Sequence[CatalogTool]) -> Load:
        return Load(sum(map(self._cost, tools)), len(tools), window_tokens=self._window_tokens)

    def _write(self, view: View) -> None:
        deferred = tuple(view.deferred.values())
        finders = [tool.wire() for tool in self.tools()]
        index = prompt.index(deferred, self._finder, self._index_tokens(deferred, finders), self._tokenizer.tokens)
        loaded = [*finders, *map(prompt.wire, view.loaded.values())]
        self._activations.drop(list(view.loaded))
        self._prompt.drop(view.loaded)
        self._prompt.begin(loaded, index)

    def _index_tokens(self, deferred: Iterable[CatalogTool], finders: Sequence[dict[str, Any]]) -> int:
        """The most that the index may cost."""
        definitions = sum(map(self._cost, deferred))
        searching = sum(self._tokenizer.tokens(prompt.compact(wired)) for wired in finders)
        shares = INDEX_SHARE * definitions, FOUND_SHARE * definitions - searching, WINDOW_SHARE * self._window_tokens
        return max(int(min(shares)), MIN_INDEX_TOKENS)

    def _park(self, view: View) -> None:
        """Tools that went with their server wait for its return; those that changed are shown as they are now."""
        gone = [active for active in self._activations if active.id not in view.tools]
        self._waiting.update((active.id, active.scope) for active in gone)
        self._activations.drop([active.id for active in gone])
        self._forced &= view.tools.keys()
        self._prompt.drop([id for id in self._prompt.added() if id not in view.tools])
        self._prompt.renew(view.tools)

    def _revive(self, view: View) -> None:
        back = {id: scope for id, scope in self._waiting.items() if id in view.tools}
        for id, scope in back.items():
            del self._waiting[id]
            if id in view.deferred:
                self._take_in(self._by_free_name([id], view)[0], scope, view)

    def _activated(self, ids: Sequence[str], scope: str | None, view: View) -> Change:
        scope = self._scope if scope is None else self._checked_scope(scope)
        ids = tuple(dict.fromkeys(ids))
        loaded = tuple(id for id in ids if id in view.loaded or id in self._forced)
        free, taken = self._by_free_name([id for id in ids if id not in loaded], view)
        change = self._take_in(free, scope, view)
        if scope == "persistent" and self._path:
            selection.change(self._path, add=[id for id in free if id in self._activations])
        return change._replace(already=loaded + change.already, left_out=change.left_out + taken)

    def _take_in(self, ids: Sequence[str], scope: str, view: View) -> Change:
        change = self._activations.add([Active(id, self._cost(view.tools[id]), scope) for id in ids])
        self._forget(change.evicted)
        for id in change.activated:
            self._show(id, view)
        return change

    def _show(self, id: str, view: View) -> None:
        self._ledger.enter("schema", view.tools[id].name, self._prompt.add(id, view.tools[id]))

    def _forget(self, ids: Iterable[str]) -> None:
        self._prompt.drop([id for id in ids if id not in self._forced])

    def _note_retry(self, name: str, text: str) -> str:
        self._ledger.enter("retry", name, text)
        return text

    def _cost(self, tool: CatalogTool) -> int:
        known = self._costs.get(tool.id)
        if known is None or known[0] is not tool:
            known = self._costs[tool.id] = (tool, self._tokenizer.tokens(prompt.definition(tool)))
        return known[1]

    def _is_added(self, id: str) -> bool:
        return id in self._activations or id in self._forced

    def _there(self, view: View) -> set[str]:
        """Of what can be found, that which is there already."""
        return {id for id in (*(active.id for active in self._activations), *self._forced) if id in view.deferred}

    def _id(self, name: str, view: View, hidden: bool = False) -> str:
        """The tool that a name means."""
        ids = [name] if name in view.tools else view.ids.get(name) or self._by_own_name(name)
        if len(ids) > 1:
            raise InputError(f"{len(ids)} tools have the name {name[:200]!r}: say which, such as {ids[0]!r}")
        tool = view.tools.get(ids[0]) if ids else None
        if tool is None or (tool.id not in view.ids.get(tool.name, ()) and not (hidden and self._rules.hides(tool))):
            secrets = _secrets(view)
            near = [repr(one) for one in self._catalog.nearest(name) if one not in secrets]
            advice = f"did you mean {' or '.join(near)}?" if near else "search for it by what it does"
            raise NotFound(f"there is no tool {name[:200]!r}: {advice}")
        return tool.id

    def _by_own_name(self, name: str) -> list[str]:
        """The tool that its server calls so, if there is one."""
        try:
            return [self._catalog.get(name).id]
        except NotFound:
            return []

    def _by_free_name(self, ids: Sequence[str], view: View) -> tuple[list[str], tuple[str, ...]]:
        """Ids to activate, and those whose name another loaded tool has: a provider takes each name once."""
        names = {view.tools[id].name: id for id in (*view.loaded, *self._there(view))}
        free = [id for id in ids if names.setdefault(view.tools[id].name, id) == id]
        return free, tuple(id for id in ids if id not in free)

    def _found(self, query: str, limit: int, exclude: list[str], profile: str, view: View) -> Found:
        """Ask the catalog; when its file cannot be read, an index made anew of what was last seen."""
        from onhand.tools.catalog import Catalog

        try:
            return self._catalog.search(query, limit, exclude, profile)
        except StoreError as error:
            rebuilt = Catalog()
            rebuilt.add(view.tools.values())
            found = rebuilt.search(query, limit, exclude, profile)
            return found._replace(
                notes=(*found.notes, f"the catalog cannot be read, so this is of what was last seen: {error}")
            )

    def _asked_again(self, query: str, limit: int, profile: str, view: View) -> tuple[CatalogTool, ...]:
        """Of what a query asks for, that which is loaded already: then there is no need to search on."""
        hidden = [id for id in view.unseen if id not in view.loaded]
        hits = self._found(query, limit, hidden, profile, view).hits
        return tuple(hit.tool for hit in hits if hit.id in view.loaded or self._is_added(hit.id))

    def _checked_scope(self, scope: str) -> str:
        _check(scope, SCOPES, "scope")
        if scope == "persistent" and self._path is None:
            raise InputError("what is activated for good needs a file: give the session a path")
        return scope

    def _state(self, scopes: Mapping[str, str]) -> dict[str, Any]:
        tools = [{"id": id, "scope": scope} for id, scope in scopes.items()]
        return {"version": 1, "mode": self._mode, "tools": tools}

    def _restore(self, state: Mapping[str, Any]) -> None:
        for id, scope in _restored(state):
            self._waiting.setdefault(id, "session" if scope == "persistent" and self._path is None else scope)
        if state["mode"] is not None and self._is_auto:
            self._mode = state["mode"]
            self._decision = Decision(self._mode != "off", "resumed", f"the session began in mode {self._mode}")


def _without_secrets(found: Found, view: View, already: Sequence[CatalogTool]) -> Found:
    """An answer that tells nothing of tools that are for the host alone, or that nobody can call."""
    from onhand.tools.catalog import EXCLUDED

    if found.reason in EXCLUDED:
        fruitless = "no tool that can be called is meant: say what it should do in other words"
        found = found._replace(reason="what is meant is loaded already" if already else fruitless)
    if not found.unknown:
        return found
    secrets = _secrets(view)
    unknown = (
        one._replace(nearest=tuple(name for name in one.nearest if name not in secrets)) for one in found.unknown
    )
    return found._replace(unknown=tuple(unknown))


def _secrets(view: View) -> set[str]:
    """Ids and names that no answer may suggest."""
    return {name for id in view.unseen if id not in view.loaded for name in (id, view.tools[id].name)}


def _restored(state: object) -> list[tuple[str, str]]:
    given: Mapping[str, Any] = state if isinstance(state, Mapping) else {}
    rows = given.get("tools")
    well = given.get("version") == 1 and given.get("mode", "") in (*MODES, None) and isinstance(rows, list)
    pairs: list[tuple[Any, Any]] = [_pair(row) for row in rows or []] if well else []
    if not well or not all(isinstance(id, str) and scope in SCOPES for id, scope in pairs):
        raise InputError("the state of the session cannot be read: pass what state() gave, or begin without")
    return pairs


def _pair(row: object) -> tuple[Any, Any]:
    return (row.get("id"), row.get("scope")) if isinstance(row, Mapping) else (None, None)


def _named(given: Iterable[str]) -> frozenset[str]:
    """Names that a host gave; one may stand by itself."""
    names = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(name, str) for name in names):
        raise InputError("essentials, always_tools, always_servers and hidden are names: pass texts")
    return frozenset(map(str.strip, names)) - {""}  # which is the server of all tools that have none


def _check(value: str, known: Sequence[str], what: str) -> None:
    if value not in known:
        raise InputError(f"{what} is {', '.join(known[:-1])} or {known[-1]}, not {str(value)[:60]!r}")
