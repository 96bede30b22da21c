"""Decide which tools of a catalog a model has loaded and which it has to find first.

`VisibilityRules` says what the host asked for, `CatalogView` is the catalog seen through these rules and a mode,
`Activations` are the tools that were found since, within a budget of tokens. A selection file keeps the ids that stay
active from one session to the next. Nothing here is safe between threads: the owner holds a lock.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from onhand.errors import StoreError
from onhand.fsio import FileLock, open_regular, write_atomic
from onhand.record import Record
from onhand.tools.catalog_tool import MCP, CatalogTool
from onhand.tools.tool import NAME

ESSENTIALS = ("read", "bash", "edit")
INTERNAL = ("resolve", "yield", "report_finding", "report_tool_issue")
FINDERS = ("search_tools", "describe_tool", "search_tool_bm25")  # nobody else's tool may have such a name


class CatalogView(Record):
    """The catalog seen through rules and a mode; everything by id, in order."""

    version: int
    tools: dict[str, CatalogTool]  # all of them, including hidden ones
    loaded: dict[str, CatalogTool]
    deferred: dict[str, CatalogTool]
    unseen: tuple[str, ...]  # ids that no search may find: loaded, hidden, or with a name that is taken or uncallable
    ids: dict[str, list[str]]  # by name


class VisibilityRules(Record):
    """The host's wishes: which tools are always loaded, and which are hidden from the model."""

    essentials: frozenset[str] = frozenset(ESSENTIALS)  # names that stay loaded; a name that no tool has does no harm
    always_tools: frozenset[str] = frozenset()  # names or ids
    always_servers: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset(INTERNAL)

    def hides(self, tool: CatalogTool) -> bool:
        """Whether a tool is for the host alone."""
        return tool.name in self.hidden and not tool.server

    def shows(self, tool: CatalogTool) -> bool:
        """Whether a model can have a tool at all, loaded or found."""
        return not self.hides(tool) and tool.name not in FINDERS and bool(NAME.fullmatch(tool.name))

    def defers(self, tool: CatalogTool, mode: str) -> bool:
        """Whether a tool waits to be found in a mode."""
        if mode == "off" or tool.server in self.always_servers or {tool.name, tool.id} & self.always_tools:
            return False
        if is_mcp(tool):  # whatever its name: a server cannot make its tool essential
            return True
        return mode == "all" and tool.name not in self.essentials

    def may_wait(self, tools: Iterable[CatalogTool]) -> list[CatalogTool]:
        """Return the tools that some mode would defer."""
        return [tool for tool in tools if self.shows(tool) and self.defers(tool, "all")]

    def view(self, version: int, tools: Iterable[CatalogTool], mode: str) -> CatalogView:
        """Return the catalog seen through these rules.

        A provider takes each name once: of two tools with the same name the later one is deferred, or left out when
        nothing is deferred, since nobody could find it.
        """
        view = CatalogView(version, {tool.id: tool for tool in tools}, {}, {}, (), {})
        names: set[str] = set(FINDERS)
        for id, tool in view.tools.items():
            if not self.shows(tool):
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
    """Whether a tool belongs to an MCP server, by its source or by its name."""
    return tool.source == "mcp" or tool.name.startswith(MCP)


def count_by_server(tools: Iterable[Mapping[str, CatalogTool]]) -> dict[str, int]:
    """Count the tools of each server in several parts of a view."""
    counts: dict[str, int] = {}
    for part in tools:
        for tool in part.values():
            if tool.server:
                counts[tool.server] = counts.get(tool.server, 0) + 1
    return dict(sorted(counts.items()))


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
    left_out: tuple[str, ...] = ()  # for which the better tools of the same activation left no room
    evicted: tuple[str, ...] = ()  # older ones that made room


class Activations:
    """Activated tools, oldest first, within a budget of schema tokens.

    Forced tools are shown whatever the budget says. Parked ones were active and wait for their server's return.
    """

    def __init__(self, max_tokens: int | None) -> None:
        self.forced: set[str] = set()
        self.parked: dict[str, str] = {}  # id → scope
        self._max_tokens = max_tokens
        self._active: dict[str, ActiveTool] = {}

    def __contains__(self, id: object) -> bool:
        return id in self._active

    def __iter__(self) -> Iterator[ActiveTool]:
        return iter(tuple(self._active.values()))

    def __len__(self) -> int:
        return len(self._active)

    def shows(self, id: str) -> bool:
        """Whether a tool is active or forced."""
        return id in self._active or id in self.forced

    def shown_ids(self) -> tuple[str, ...]:
        """Return the ids of active tools, then of forced ones."""
        return (*self._active, *self.forced)

    def add(self, wanted: Sequence[ActiveTool]) -> ActivationChange:
        """Activate tools, best first. The first one always fits; what does not fit beside it stays out."""
        already = tuple(active.id for active in wanted if active.id in self._active)
        for active in wanted:
            self._lengthen(active)
        fresh = [active for active in wanted if active.id not in self._active]
        fitting = self._fitting(fresh)
        # A single tool may be larger than the budget: only the activation of another tool may take it out again.
        evicted = self._make_room(sum(active.tokens for active in fitting), keep=already) if fitting else ()
        self._active.update((active.id, active) for active in fitting)
        left_out = tuple(active.id for active in fresh if active not in fitting)
        return ActivationChange(tuple(active.id for active in fitting), already, left_out, evicted)

    def drop(self, ids: Collection[str]) -> tuple[ActiveTool, ...]:
        """Deactivate tools; return those that were active."""
        return tuple(self._active.pop(id) for id in ids if id in self._active)

    def end_turn(self) -> tuple[ActiveTool, ...]:
        """Deactivate the tools that were activated for one turn."""
        return self.drop([active.id for active in self if active.scope == "turn"])

    def park(self, present: Collection[str]) -> None:
        """Set aside the tools that have gone with their server, to be unparked on its return."""
        gone = [active for active in self if active.id not in present]
        self.parked.update((active.id, active.scope) for active in gone)
        self.drop([active.id for active in gone])
        self.forced.intersection_update(present)

    def unpark(self, present: Collection[str]) -> dict[str, str]:
        """Take out the parked tools that are back; return their ids and scopes."""
        return {id: self.parked.pop(id) for id in [id for id in self.parked if id in present]}

    def lasting(self, *, with_turn: bool = False) -> dict[str, str]:
        """Return ids and scopes of all that outlives the turn, or of everything, with the turn's as the session's."""
        active = {tool.id: tool.scope for tool in self if with_turn or tool.scope != "turn"}
        return {**{id: scope.replace("turn", "session") for id, scope in active.items()}, **self.parked}

    def _lengthen(self, wanted: ActiveTool) -> None:
        known = self._active.get(wanted.id)
        if known and SCOPES.index(wanted.scope) > SCOPES.index(known.scope):
            self._active[wanted.id] = known._replace(scope=wanted.scope)

    def _fitting(self, fresh: Sequence[ActiveTool]) -> list[ActiveTool]:
        if self._max_tokens is None:
            return list(fresh)
        fitting: list[ActiveTool] = []
        room = self._max_tokens
        for active in fresh:
            if not fitting or active.tokens <= room:
                fitting.append(active)
                room -= active.tokens
        return fitting

    def _make_room(self, tokens: int, keep: Collection[str]) -> tuple[str, ...]:
        """Evict the oldest tools first, and those that were just asked for again last."""
        if self._max_tokens is None:
            return ()
        used = tokens + sum(active.tokens for active in self)
        evicted: list[str] = []
        for active in sorted(self, key=lambda active: active.id in keep):
            if used <= self._max_tokens:
                break
            used -= active.tokens
            evicted.append(active.id)
        self.drop(evicted)
        return tuple(evicted)


MAX_FILE_BYTES = 1024 * 1024
MAX_IDS = 10_000


def read_selection(path: str) -> tuple[str, ...]:
    """Return the ids in the order in which they were chosen; none if there is no file."""
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        why = getattr(error, "strerror", None) or error
        raise StoreError(f"{path!r} cannot be read ({why}): make it readable, or name another file") from None
    try:
        ids = json.loads(raw)["tools"] if len(raw) <= MAX_FILE_BYTES else None
    except (ValueError, TypeError, KeyError, RecursionError):
        ids = None
    if not isinstance(ids, list) or len(ids) > MAX_IDS or not all(isinstance(id, str) for id in ids):
        raise StoreError(
            f"{path} is not a list of activated tools: name another file, or delete it and activate the tools again"
        )
    return tuple(dict.fromkeys(ids))


def update_selection(path: str, add: Collection[str] = (), remove: Collection[str] = ()) -> None:
    """Add and remove ids. Two sessions that do so at the same time lose nothing."""
    try:
        with FileLock(f"{path}.lock"):
            before = read_selection(path)
            ids = tuple(dict.fromkeys(id for id in (*before, *add) if id not in remove))[-MAX_IDS:]
            if ids != before:
                write_atomic(path, (json.dumps({"tools": list(ids)}, indent=2) + "\n").encode("ascii"))
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror or 'another process keeps its lock'}): make its directory "
            "writable, or name another file"
        ) from None
