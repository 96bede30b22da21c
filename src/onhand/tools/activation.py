"""Decide which tools of a catalog are loaded for a model and which it has to find first.

`VisibilityRules` are the wishes of the host. `VisibleCatalog` shows the catalog through these rules and a loading mode,
as a `CatalogView`. `Activations` are the tools that were found since, within a budget of tokens; a selection file keeps
those that stay active from one session to the next. Nothing here is thread-safe: the session holds a lock.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence

from onhand.errors import InputError, NotFound, StoreError
from onhand.fsio import FileLock, describe_fault, open_regular, write_atomic
from onhand.record import Record
from onhand.tools.catalog import Catalog, ToolSearchResult
from onhand.tools.catalog_tool import MCP, CatalogTool
from onhand.tools.loading import LoadingMode, TokenCounter, ToolLoad
from onhand.tools.prompt import definition_json
from onhand.tools.tool import NAME

ESSENTIALS = ("read", "bash", "edit")
INTERNAL = ("resolve", "yield", "report_finding", "report_tool_issue")
FINDERS = ("search_tools", "describe_tool", "search_tool_bm25")  # no tool of the catalog may have one of these names


class CatalogView(Record):
    """The catalog as seen through rules and a mode. All mappings are keyed and ordered by id, except `ids`."""

    version: int
    tools: dict[str, CatalogTool]  # all tools, including hidden ones
    loaded: dict[str, CatalogTool]
    deferred: dict[str, CatalogTool]
    unseen: tuple[str, ...]  # ids that no search may find: loaded, hidden, or with a name that is taken or uncallable
    ids: dict[str, list[str]]  # name → ids of the loaded and deferred tools with that name

    def secret_names(self) -> set[str]:
        """Return the ids and names that no answer may suggest."""
        return {name for id in self.unseen if id not in self.loaded for name in (id, self.tools[id].name)}


class VisibilityRules(Record):
    """Which tools the host wants to be always loaded, and which ones it hides from the model."""

    essentials: frozenset[str] = frozenset(ESSENTIALS)  # names of tools that stay loaded; unknown names are ignored
    always_tools: frozenset[str] = frozenset()  # names or ids
    always_servers: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset(INTERNAL)

    def hides(self, tool: CatalogTool) -> bool:
        """Return whether only the host may call a tool."""
        return tool.name in self.hidden and not tool.server

    def allows(self, tool: CatalogTool) -> bool:
        """Return whether a model can have a tool at all, loaded or found."""
        return not self.hides(tool) and tool.name not in FINDERS and bool(NAME.fullmatch(tool.name))

    def defers(self, tool: CatalogTool, mode: str) -> bool:
        """Return whether a tool has to be found first in a mode."""
        if mode == "off" or tool.server in self.always_servers or {tool.name, tool.id} & self.always_tools:
            return False
        if is_mcp(tool):  # whatever its name is: a server cannot make its tool essential
            return True
        return mode == "all" and tool.name not in self.essentials

    def deferrable(self, tools: Iterable[CatalogTool]) -> list[CatalogTool]:
        """Return the tools that some mode would defer."""
        return [tool for tool in tools if self.allows(tool) and self.defers(tool, "all")]

    def view(self, version: int, tools: Iterable[CatalogTool], mode: str) -> CatalogView:
        """Return the catalog as seen through these rules.

        A provider accepts each name once. Of two tools with the same name, the later one is deferred, or left out if
        the mode defers nothing, since it could not be found.
        """
        view = CatalogView(version, {tool.id: tool for tool in tools}, {}, {}, (), {})
        names: set[str] = set(FINDERS)
        for id, tool in view.tools.items():
            if not self.allows(tool):
                continue
            if self.defers(tool, mode) or (tool.name in names and mode != "off"):
                view.deferred[id] = tool
            elif tool.name not in names:
                view.loaded[id] = tool
                names.add(tool.name)
            else:
                continue
            view.ids.setdefault(tool.name, []).append(id)
        return view._replace(unseen=tuple(id for id in view.tools if id not in view.deferred))


def is_mcp(tool: CatalogTool) -> bool:
    """Return whether a tool belongs to an MCP server, judged by its source or its name."""
    return tool.source == "mcp" or tool.name.startswith(MCP)


def count_by_server(tools: Iterable[CatalogTool]) -> dict[str, int]:
    """Count the tools of each server, in order of the server's name."""
    counts: dict[str, int] = {}
    for tool in tools:
        if tool.server:
            counts[tool.server] = counts.get(tool.server, 0) + 1
    return dict(sorted(counts.items()))


class DefinitionCosts:
    """The tokens that the definition of each tool costs, counted once per tool."""

    def __init__(self, tokenizer: TokenCounter) -> None:
        self.tokenizer = tokenizer
        self._costs: dict[str, tuple[CatalogTool, int]] = {}

    def of(self, tool: CatalogTool) -> int:
        """Return the cost of one definition."""
        counted = self._costs.get(tool.id)
        if counted is None or counted[0] is not tool:
            counted = self._costs[tool.id] = (tool, self.tokenizer.tokens(definition_json(tool)))
        return counted[1]

    def total(self, tools: Iterable[CatalogTool]) -> int:
        """Return the cost of several definitions."""
        return sum(map(self.of, tools))

    def retain(self, ids: Collection[str]) -> None:
        """Forget the costs of all other tools."""
        self._costs = {id: counted for id, counted in self._costs.items() if id in ids}

    def copy(self) -> DefinitionCosts:
        """Return costs that another session can go on with."""
        copied = DefinitionCosts(self.tokenizer)
        copied._costs = dict(self._costs)
        return copied


class VisibleCatalog:
    """A catalog as seen by one session: through its rules, and in a mode that depends on what the tools cost."""

    def __init__(
        self, catalog: Catalog, rules: VisibilityRules, mode: LoadingMode, costs: DefinitionCosts, window_tokens: int
    ) -> None:
        self.catalog = catalog
        self.rules = rules
        self.mode = mode
        self.costs = costs
        self._window_tokens = window_tokens
        self._view: CatalogView | None = None

    def view(self) -> CatalogView:
        """Return the current view. As long as the catalog does not change, this costs one comparison.

        If the file of the catalog cannot be read, the last view stays; a search then says so.
        """
        before = self._view
        try:
            version = self.catalog.version
            if before is not None and before.version == version:
                return before
            tools = self.catalog.tools()
        except StoreError:
            if before is None:
                raise
            return before
        if self.mode.is_auto:
            deferrable = self.rules.deferrable(tools)
            self.mode.measure(self._load(deferrable), self._load([tool for tool in deferrable if not is_mcp(tool)]))
        self._view = self.rules.view(version, tools, self.mode.current or "off")
        self.costs.retain(self._view.tools)
        return self._view

    def reconsider(self, conversation_tokens: int) -> bool:
        """Let the mode decide again at the start of a turn; return whether more tools are deferred from now on."""
        view = self.view()
        if not self.mode.reconsider(conversation_tokens):
            return False
        self._view = self.rules.view(view.version, view.tools.values(), self.mode.current or "off")
        return True

    def resolve(self, name: str, view: CatalogView) -> str:
        """Return the id of the loaded or deferred tool that a name or id means; raise NotFound if there is none."""
        ids = [name] if name in view.tools else view.ids.get(name) or self._ids_by_own_name(name)
        if len(ids) > 1:
            raise InputError(f"{len(ids)} tools have the name {name[:200]!r}: say which one, such as {ids[0]!r}")
        tool = view.tools.get(ids[0]) if ids else None
        if tool is None or tool.id not in view.ids.get(tool.name, ()):
            secrets = view.secret_names()
            near = [repr(one) for one in self.catalog.nearest(name) if one not in secrets]
            advice = f"did you mean {' or '.join(near)}?" if near else "search for it by what it does"
            raise NotFound(f"there is no tool {name[:200]!r}: {advice}")
        return tool.id

    def search(self, query: str, limit: int, exclude: Collection[str], profile: str) -> ToolSearchResult:
        """Search the catalog or, if its file cannot be read, a new index of the last view."""
        try:
            return self.catalog.search(query, limit, exclude, profile)
        except StoreError as error:
            rebuilt = Catalog()
            rebuilt.add(self.view().tools.values())
            found = rebuilt.search(query, limit, exclude, profile)
            note = f"the catalog cannot be read, so only the tools that were last seen were searched: {error}"
            return found._replace(notes=(*found.notes, note))

    def _ids_by_own_name(self, name: str) -> list[str]:
        """Return the id of the tool that its server calls by this name, if there is one."""
        try:
            return [self.catalog.get(name).id]
        except NotFound:
            return []

    def _load(self, tools: Sequence[CatalogTool]) -> ToolLoad:
        return ToolLoad(self.costs.total(tools), len(tools), window_tokens=self._window_tokens)


SCOPES = ("turn", "session", "persistent")  # each lasts longer than the one before it


class ActiveTool(Record):
    """A tool that was activated."""

    id: str
    tokens: int  # of its definition
    scope: str = "session"


class ActivationChange(Record):
    """The effect of an activation, by id."""

    activated: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # tools for which better ones in the same activation left no room
    evicted: tuple[str, ...] = ()  # older tools that made room


class Activations:
    """The activated tools, oldest first, within a budget of schema tokens.

    Parked tools were active when their server went away, and become active again when it returns. With a path,
    persistent activations are kept in that file.
    """

    def __init__(self, max_tokens: int | None, path: str | None = None) -> None:
        self._max_tokens = max_tokens
        self._path = path
        self._active: dict[str, ActiveTool] = {}
        self._parked: dict[str, str] = dict.fromkeys(read_selection(path) if path else (), "persistent")  # id → scope

    def __contains__(self, id: object) -> bool:
        return id in self._active

    def __iter__(self) -> Iterator[ActiveTool]:
        return iter(tuple(self._active.values()))

    def __len__(self) -> int:
        return len(self._active)

    def check_scope(self, scope: str) -> str:
        """Return the scope; raise InputError if there is no such scope or no file for it."""
        check_choice(scope, SCOPES, "scope")
        if scope == "persistent" and self._path is None:
            raise InputError("persistent activations need a file: open the session with a path")
        return scope

    def add(self, requested: Sequence[ActiveTool]) -> ActivationChange:
        """Activate tools, best first. The first one always fits; others are left out if there is no room for them."""
        already = tuple(active.id for active in requested if active.id in self._active)
        for active in requested:
            self._extend_scope(active)
        new = [active for active in requested if active.id not in self._active]
        fitting = self._select_fitting(new)
        # A single tool may be larger than the budget. Only the activation of another tool may evict it.
        evicted = self._make_room(sum(active.tokens for active in fitting), keep=already) if fitting else ()
        self._active.update((active.id, active) for active in fitting)
        left_out = tuple(active.id for active in new if active not in fitting)
        return ActivationChange(tuple(active.id for active in fitting), already, left_out, evicted)

    def drop(self, ids: Collection[str]) -> tuple[str, ...]:
        """Deactivate tools; return the ids of those that were active."""
        return tuple(self._active.pop(id).id for id in ids if id in self._active)

    def end_turn(self) -> tuple[str, ...]:
        """Deactivate the tools that were activated for one turn, and return their ids."""
        return self.drop([active.id for active in self if active.scope == "turn"])

    def persist(self, ids: Iterable[str]) -> None:
        """Write those of the ids that are active to the file."""
        if self._path:
            update_selection(self._path, add=[id for id in ids if id in self._active])

    def forget(self, ids: Collection[str]) -> None:
        """Do not activate tools again when they return, or in a later session."""
        for id in ids:
            self._parked.pop(id, None)
        if self._path:
            update_selection(self._path, remove=ids)

    def park(self, present: Collection[str]) -> None:
        """Set aside the active tools that are no longer present."""
        gone = [active for active in self if active.id not in present]
        self._parked.update((active.id, active.scope) for active in gone)
        self.drop([active.id for active in gone])

    def unpark(self, present: Collection[str]) -> dict[str, str]:
        """Remove the tools that are present again from the parked ones, and return their ids and scopes."""
        return {id: self._parked.pop(id) for id in [id for id in self._parked if id in present]}

    def resume(self, scopes: Iterable[tuple[str, str]]) -> None:
        """Activate the tools of an earlier session as soon as they are present."""
        for id, scope in scopes:
            self._parked.setdefault(id, "session" if scope == "persistent" and self._path is None else scope)

    def scopes(self, *, with_turn: bool = False) -> dict[str, str]:
        """Return ids and scopes of the tools that outlast the turn, or of all, the turn's own with scope "session"."""
        active = {tool.id: tool.scope for tool in self if with_turn or tool.scope != "turn"}
        return {**{id: scope.replace("turn", "session") for id, scope in active.items()}, **self._parked}

    def _extend_scope(self, requested: ActiveTool) -> None:
        active = self._active.get(requested.id)
        if active and SCOPES.index(requested.scope) > SCOPES.index(active.scope):
            self._active[requested.id] = active._replace(scope=requested.scope)

    def _select_fitting(self, new: Sequence[ActiveTool]) -> list[ActiveTool]:
        if self._max_tokens is None:
            return list(new)
        fitting: list[ActiveTool] = []
        room = self._max_tokens
        for active in new:
            if not fitting or active.tokens <= room:
                fitting.append(active)
                room -= active.tokens
        return fitting

    def _make_room(self, tokens: int, keep: Collection[str]) -> tuple[str, ...]:
        """Evict the oldest tools first, and those that were just requested again last."""
        if self._max_tokens is None:
            return ()
        used = tokens + sum(active.tokens for active in self)
        evicted: list[str] = []
        for active in sorted(self, key=lambda active: active.id in keep):
            if used <= self._max_tokens:
                break
            used -= active.tokens
            evicted.append(active.id)
        return self.drop(evicted)


def check_choice(value: str, choices: Sequence[str], what: str) -> None:
    """Raise InputError if the value is not one of the choices."""
    if value not in choices:
        raise InputError(f"{what} must be {', '.join(choices[:-1])} or {choices[-1]}, not {str(value)[:60]!r}")


MAX_FILE_BYTES = 1024 * 1024
MAX_IDS = 10_000


def read_selection(path: str) -> tuple[str, ...]:
    """Return the ids in a selection file in the order in which they were activated; none if there is no file."""
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        why = getattr(error, "strerror", None) or error
        raise StoreError(f"{path!r} cannot be read ({why}): make it readable, or use another file") from None
    try:
        ids = json.loads(raw)["tools"] if len(raw) <= MAX_FILE_BYTES else None
    except (ValueError, TypeError, KeyError, RecursionError):
        ids = None
    if not isinstance(ids, list) or len(ids) > MAX_IDS or not all(isinstance(id, str) for id in ids):
        raise StoreError(
            f"{path} is not a list of activated tools: use another file, or delete it and activate the tools again"
        )
    return tuple(dict.fromkeys(ids))


def update_selection(path: str, add: Collection[str] = (), remove: Collection[str] = ()) -> None:
    """Add ids to a selection file and remove others. Sessions that do so at the same time lose nothing."""
    try:
        with FileLock(f"{path}.lock"):
            before = read_selection(path)
            ids = tuple(dict.fromkeys(id for id in (*before, *add) if id not in remove))[-MAX_IDS:]
            if ids != before:
                write_atomic(path, (json.dumps({"tools": list(ids)}, indent=2) + "\n").encode("ascii"))
    except OSError as error:
        raise StoreError(f"{path} cannot be written, so use another file: {describe_fault(error)}") from None
