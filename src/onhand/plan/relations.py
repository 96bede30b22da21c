"""An in-memory directed acyclic graph of nodes: what depends on what, and which steps can begin.

A step is a node with a status. It is ready if it is pending and none of its parents blocks it:

- a parent with a status blocks its children until it is done;
- a parent that is a container (a plan) blocks them while it is blocked itself, or if it has failed;
- a parent without a status does not block.

Everything that is returned is a copy. Storing nodes is up to the caller, who gets all of them through `on_persist`. Not
thread-safe: the owner holds a lock, as `Plan` does.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping, Reversible, Sequence, Set
from heapq import heapify, heappop, heappush
from math import isfinite
from time import time
from typing import Any, NamedTuple

from onhand.errors import InputError, NotFound
from onhand.persistence import Persister, require_iterable
from onhand.plan import render
from onhand.tools.tool import copy_json

STATUSES = ("pending", "in_progress", "done", "failed")
MAX_NAME_CHARS = 200  # of an id or an edge type
MAX_PARENTS = 10_000
MAX_CONTEXT_CHARS = 100_000  # of a node's context as JSON, approximately
MAX_TIME_MS = 2**53  # the largest integer that every JSON parser preserves

CONTAINERS = frozenset(("plan",))  # edge types of nodes that group steps and are not steps themselves
MAX_NAMED_IDS = 5  # in a reason
MAX_ESTIMATE = 1e9  # of a step; larger numbers are ignored

NodeIds = list[str]


class Node(NamedTuple):
    """A task or a container of tasks, and the nodes that it depends on."""

    id: str
    parents: tuple[str, ...] = ()
    edge_type: str = "step"
    context: Mapping[str, Any] = {}  # a description, for a step its status, and anything else
    created_at_ms: int = 0  # since 1970

    @property
    def description(self) -> str:
        """The description in the context, or ""."""
        return str(self.context.get("description", ""))

    @property
    def status(self) -> str | None:
        """One of STATUSES, or None for a node that is not a step."""
        return self.context.get("status")

    def copy(self) -> "Node":
        """Return the node with a copy of its context, which the caller may change."""
        id, parents, edge_type, context, created_at_ms = self  # `_replace` takes three times as long
        return Node(id, parents, edge_type, _copy_json(context), created_at_ms)

    def to_json(self) -> dict[str, Any]:
        """Return the node as a JSON object."""
        return {**self.copy()._asdict(), "parents": list(self.parents)}


def validate_node(node: Node | Mapping[str, Any]) -> Node:
    """Return a valid copy of a node. Raise InputError with the reason if it is invalid."""
    return _validate_fields(*(node if isinstance(node, Node) else _fields(node)))


def _validate_fields(id: object, parents: object, edge_type: object, context: object, time: object) -> Node:
    if not isinstance(parents, (tuple, list)) and (isinstance(parents, str) or not isinstance(parents, Sequence)):
        raise InputError(f"node {id!r:.80}: parents must be a list of ids, not {parents!r:.60}")
    if len(parents) > MAX_PARENTS:
        raise InputError(f"node {id!r:.80}: parents must be a list of at most {MAX_PARENTS:,} ids")
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not isfinite(time) or abs(time) > MAX_TIME_MS:
        raise InputError(f"node {id!r:.80}: created_at_ms must be milliseconds since 1970, not {time!r:.60}")
    return Node(
        _validate_name(id, "an id"),
        tuple(dict.fromkeys([_validate_name(parent, "a parent's id") for parent in parents])) if parents else (),
        _validate_name(edge_type, "an edge type"),
        _validate_context(context, id),
        int(time),
    )


def _validate_name(name: object, what: str) -> str:
    if isinstance(name, str) and len(name) <= MAX_NAME_CHARS and name.isprintable() and name.strip():
        return name
    raise InputError(f"{what} must be 1 to {MAX_NAME_CHARS} printable characters, not {name!r:.60}")


def _validate_context(context: object, id: object) -> dict[str, Any]:
    if not isinstance(context, Mapping):
        raise InputError(f"node {id!r:.80}: context must be an object with a description, not {context!r:.60}")
    try:
        copy: dict[str, Any] = copy_json(context, "context")
    except InputError as error:
        raise InputError(f"node {id!r:.80}: {error}") from None
    if not isinstance(copy.get("description", ""), str):
        raise InputError(f"node {id!r:.80}: the description must be text")
    if copy.get("status") is None:
        copy.pop("status", None)
    elif copy["status"] not in STATUSES:
        raise InputError(
            f"node {id!r:.80}: the status must be one of {', '.join(STATUSES)}, not {copy['status']!r:.60}"
        )
    if _count_chars(copy) > MAX_CONTEXT_CHARS:
        raise InputError(
            f"node {id!r:.80}: its context has more than {MAX_CONTEXT_CHARS:,} characters: "
            "put long texts in a file, and name that file here"
        )
    return copy


def _fields(node: object) -> tuple[Any, ...]:
    if not isinstance(node, Mapping) or "id" not in node:
        raise InputError(f"a node must be an object with an id, parents, an edge_type and a context, not {node!r:.60}")
    if unknown := [name for name in node if name not in Node._fields]:
        raise InputError(f"node {node['id']!r:.80}: unknown field {unknown[0]!r:.60}; use {', '.join(Node._fields)}")
    return tuple(node.get(name, Node._field_defaults.get(name)) for name in Node._fields)


def _count_chars(value: Any) -> int:
    """Return about how long a value is as JSON. Encoding it instead would make adding a node a third slower."""
    if type(value) is str:
        return len(value)
    chars = 8
    if type(value) is dict:
        for key, item in value.items():
            chars += len(key) + 4 + (len(item) if type(item) is str else _count_chars(item))
    elif type(value) is list:
        for item in value:
            chars += 2 + _count_chars(item)
    return chars


def _copy_json(value: Any) -> Any:
    """Return a copy of validated JSON; `copy_json` would validate it again."""
    if type(value) is dict:
        return {key: _copy_json(item) if type(item) in (dict, list) else item for key, item in value.items()}
    return [_copy_json(item) if type(item) in (dict, list) else item for item in value]


class Reason(NamedTuple):
    """Why a node is not ready, and which nodes it is waiting for."""

    id: str
    text: str
    waits_for: tuple[str, ...] = ()


class Readiness:
    """The ready steps of a graph. A change takes time proportional to the number of the node's children.

    This class reads the nodes and children of the graph and never changes them.
    """

    def __init__(
        self, nodes: Mapping[str, Node], children: Mapping[str, Mapping[str, None]], containers: Set[str]
    ) -> None:
        self._nodes = nodes
        self._children = children
        self._containers = containers
        self._blocker_count: dict[str, int] = {}  # id → how many parents block it
        self._blocks: dict[str, bool] = {}  # id → whether it blocks its children
        self._places: dict[str, int] = {}  # id → position in the order of addition
        self._next_place = 0
        self._ready_places: list[int] = []  # parallel to _ready_ids, both sorted
        self._ready_ids: list[str] = []

    def ids(self, limit: int | None = None) -> list[str]:
        """Return the ids of the ready steps in the order of addition."""
        return self._ready_ids[:limit]

    def waiting_ids(self) -> list[str]:
        """Return the ids of the pending steps that are blocked."""
        blocked = (node for id, node in self._nodes.items() if self._blocker_count[id] and node.status == "pending")
        return [node.id for node in blocked if node.edge_type not in self._containers]

    def __len__(self) -> int:
        return len(self._ready_ids)

    def __contains__(self, id: str) -> bool:
        place = self._places.get(id)
        if place is None:
            return False
        at = bisect_left(self._ready_places, place)
        return at < len(self._ready_places) and self._ready_places[at] == place

    def fill(self, order: Iterable[str]) -> None:
        """Add all nodes at once. In `order`, every id comes after those of its parents."""
        self._places.update((id, place) for place, id in enumerate(self._nodes))
        self._next_place = len(self._places)
        for id in order:
            self.put(id)

    def put(self, id: str) -> None:
        """Update a node after it was added, or after its parents or context changed."""
        if id not in self._places:
            self._places[id] = self._next_place
            self._next_place += 1
        self._blocker_count[id] = sum(self._blocks[parent] for parent in self._nodes[id].parents)
        self._propagate(id)

    def remove(self, id: str) -> None:
        """Forget a node that was removed; `put` its children first."""
        self._set_ready(id, False)
        for table in (self._blocker_count, self._blocks, self._places):
            table.pop(id, None)

    def reason(self, id: str) -> Reason | None:
        """Return why a node is not ready, or None if it is."""
        node = self._nodes[id]
        if id in self:
            return None
        if node.edge_type in self._containers:
            return Reason(id, f"is a {node.edge_type}, which is done when its steps are")
        if node.status is None:
            return Reason(id, "has no status, so it is not a step")
        if node.status != "pending":
            return Reason(id, {"in_progress": "is in progress", "done": "is done", "failed": "has failed"}[node.status])
        return self._waiting_reason(node)

    def _waiting_reason(self, node: Node) -> Reason:
        blockers = tuple(parent for parent in node.parents if self._blocks[parent])
        failed = [id for id in blockers if self._nodes[id].status == "failed"]
        if failed:
            return Reason(node.id, f"cannot begin: {join_ids(failed)} failed", blockers)
        return Reason(node.id, f"waits for {join_ids(blockers)}", blockers)

    def _propagate(self, id: str) -> None:
        """Update a node and, if it now blocks its children or no longer does, its descendants."""
        pending = [id]
        while pending:
            id = pending.pop()
            ready, blocks = self._evaluate(id)
            self._set_ready(id, ready)
            before = self._blocks.get(id)
            self._blocks[id] = blocks
            if before is None or before == blocks:
                continue
            for child in self._children[id]:
                self._blocker_count[child] += 1 if blocks else -1
                pending.append(child)

    def _evaluate(self, id: str) -> tuple[bool, bool]:
        """Return whether a node is ready, and whether it blocks its children."""
        node, is_blocked = self._nodes[id], self._blocker_count[id] > 0
        status = node.status
        if node.edge_type in self._containers:
            return False, is_blocked or status == "failed"
        return status == "pending" and not is_blocked, status is not None and status != "done"

    def _set_ready(self, id: str, ready: bool) -> None:
        place = self._places[id]
        at = bisect_left(self._ready_places, place)
        is_there = at < len(self._ready_places) and self._ready_places[at] == place
        if ready and not is_there:
            self._ready_places.insert(at, place)
            self._ready_ids.insert(at, id)
        elif is_there and not ready:
            del self._ready_places[at], self._ready_ids[at]


def join_ids(ids: Sequence[str], limit: int = MAX_NAMED_IDS) -> str:
    """Return the first ids, and how many more there are."""
    more = f" and {len(ids) - limit} more" if len(ids) > limit else ""
    return ", ".join(ids[:limit]) + more


class Relations:
    """Nodes by id, with their relations.

    `on_persist`, plain or async, is called with all nodes by `persist` and, with `auto_persist`, after each change; in
    a running event loop, an async one is started as a task. `initial_nodes` may be in any order and are validated.
    `on_change` is called with each change: the node that was put, or the ids that were removed. Nodes whose edge type
    is in `containers` group steps and are not steps themselves.
    """

    def __init__(
        self,
        *,
        on_persist: Callable[[list[Node]], object] | None = None,
        initial_nodes: Iterable[Node | Mapping[str, Any]] = (),
        auto_persist: bool = False,
        on_change: Callable[[Node | NodeIds], object] | None = None,
        containers: Set[str] = CONTAINERS,
    ) -> None:
        self._persister = Persister(on_persist, self.all, automatic=auto_persist)
        self._on_change = on_change
        self._nodes: dict[str, Node] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._readiness = Readiness(self._nodes, self._children, containers)
        self._containers = containers
        self._add_initial(initial_nodes)

    # Changes

    def add(
        self,
        id: str,
        *,
        parents: Sequence[str] = (),
        edge_type: str = "step",
        context: Mapping[str, Any] | None = None,
        created_at_ms: int | None = None,
    ) -> Node:
        """Add a node below existing nodes."""
        now = int(time() * 1000) if created_at_ms is None else created_at_ms
        node = _validate_fields(id, parents, edge_type, {} if context is None else context, now)
        self._check_parents(node)
        if node.id in self._nodes:
            raise InputError(f"Node '{node.id}' already exists: update it, or choose another id")
        self._put(node)
        self._notify(node)
        return node.copy()

    def update(
        self, id: str, context: Mapping[str, Any] | None = None, *, parents: Sequence[str] | None = None
    ) -> Node:
        """Change fields of a node's context, or its parents. The value None removes a field from the context."""
        before = self._require(id)
        if context is not None and not isinstance(context, Mapping):
            raise InputError(f"the context of '{id}' must be an object with the fields to change, not {context!r:.60}")
        merged = {name: value for name, value in {**before.context, **(context or {})}.items() if value is not None}
        new_parents = before.parents if parents is None else parents
        node = validate_node(before._replace(context=merged, parents=new_parents))  # type: ignore[arg-type]
        if node.parents != before.parents:
            self._check_parents(node)
        self._put(node)
        self._notify(node)
        return node.copy()

    def remove(self, id: str, *, remove_descendants: bool = False) -> NodeIds:
        """Remove a node and, with `remove_descendants`, all descendants that depend on nothing else.

        Return the removed ids, or none if the node does not exist. Remaining children lose it as a parent.
        """
        if id not in self._nodes:
            return []
        removed = self._orphan_ids(id) if remove_descendants else [id]
        self._discard(removed)
        self._notify(removed)
        return removed

    def clear(self) -> None:
        """Remove every node."""
        removed = list(self._nodes)
        self._discard(removed)
        self._notify(removed)

    def apply(self, change: Node | Mapping[str, Any] | NodeIds) -> None:
        """Apply a change that was passed to `on_change`: put this node, whether it exists or not, or remove ids."""
        if isinstance(change, list):
            self._discard([id for id in change if id in self._nodes])
            return
        node = validate_node(change)
        before = self._nodes.get(node.id)
        if before is None or before.parents != node.parents:
            self._check_parents(node)
        self._put(node)

    def persist(self) -> Awaitable[None] | None:
        """Pass all nodes to `on_persist`. If it is async and an event loop is running, await what this returns."""
        return self._persister.persist()

    # Queries

    def get(self, id: str) -> Node | None:
        """Return the node with this id, or None."""
        node = self._nodes.get(id)
        return node.copy() if node else None

    def has(self, id: str) -> bool:
        """Return whether there is a node with this id."""
        return id in self._nodes

    def all(self) -> list[Node]:
        """Return every node in the order of addition."""
        return [node.copy() for node in self._nodes.values()]

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self._nodes)

    def parents(self, id: str) -> list[Node]:
        """Return the nodes that a node depends on directly."""
        return self._copies(self._parents_of(id))

    def children(self, id: str) -> list[Node]:
        """Return the nodes that depend on a node directly."""
        return self._copies(self._children_of(id))

    def ancestors(self, id: str) -> list[Node]:
        """Return all ancestors of a node, each once, depth first."""
        return self._copies(self._walk(id, self._parents_of))

    def descendants(self, id: str) -> list[Node]:
        """Return all descendants of a node, each once, depth first."""
        return self._copies(self._walk(id, self._children_of))

    def descendant_ids(self, id: str) -> list[str]:
        """Return the ids of all descendants of a node, each once, depth first."""
        return self._walk(id, self._children_of)

    def roots(self) -> list[Node]:
        """Return the nodes without parents."""
        return [node.copy() for node in self._nodes.values() if not node.parents]

    def leaves(self) -> list[Node]:
        """Return the nodes without children."""
        return self._copies(id for id in self._nodes if not self._children[id])

    def by_edge_type(self, edge_type: str) -> list[Node]:
        """Return the nodes with this edge type."""
        return [node.copy() for node in self._nodes.values() if node.edge_type == edge_type]

    def by_status(self, status: str) -> list[Node]:
        """Return the nodes with this status."""
        return [node.copy() for node in self._nodes.values() if node.status == status]

    def would_create_cycle(self, id: str, parents: Sequence[str]) -> bool:
        """Return whether a node with these parents would depend on itself."""
        reached = {id}
        waiting = [id]
        for one in waiting:
            for child in self._children.get(one, ()):
                if child not in reached:
                    reached.add(child)
                    waiting.append(child)
        return not reached.isdisjoint(parents)

    # Readiness and order

    def ready(self, limit: int | None = None) -> list[Node]:
        """Return the steps that can begin now, in the order of addition."""
        return self._copies(self._readiness.ids(limit))

    def ready_ids(self, limit: int | None = None) -> list[str]:
        """Return the ids of the steps that can begin now."""
        return self._readiness.ids(limit)

    def waiting_ids(self) -> list[str]:
        """Return the ids of the pending steps that cannot begin yet."""
        return self._readiness.waiting_ids()

    def why_not_ready(self, id: str) -> Reason | None:
        """Return why a step cannot begin, or None if it can."""
        self._require(id)
        return self._readiness.reason(id)

    def not_ready(self) -> list[Reason]:
        """Return the reason for every node that is not ready."""
        return [reason for id in self._nodes if (reason := self._readiness.reason(id))]

    def is_container(self, node: Node) -> bool:
        """Return whether a node only groups other nodes."""
        return node.edge_type in self._containers

    def topological(self) -> list[str]:
        """Return all ids, each after those it depends on, and otherwise in the order of addition."""
        return _sort_topologically({id: node.parents for id, node in self._nodes.items()}, self._children)

    def critical_path(self) -> list[Node]:
        """Return the longest chain of steps that are not done, each of which waits for the one before.

        The length of a step is the `estimate` in its context, in any unit, or 1.
        """
        costs: dict[str, float] = {}
        predecessors: dict[str, str | None] = {}
        for id in self.topological():
            node = self._nodes[id]
            predecessors[id] = before = max(node.parents, key=lambda parent: costs[parent], default=None)
            costs[id] = (costs[before] if before is not None else 0.0) + self._cost(node)
        end = max(costs, key=lambda id: costs[id], default=None)
        path: list[Node] = []
        while end is not None and costs[end]:
            if self._cost(self._nodes[end]):
                path.append(self._nodes[end].copy())
            end = predecessors[end]
        return path[::-1]

    def to_context(
        self,
        ids: Iterable[str] | None = None,
        *,
        show_parents: bool = False,
        max_tokens: int = render.MAX_TOKENS,
    ) -> str:
        """Return text for a prompt: these nodes, each with its children, or the whole plan within `max_tokens`."""
        if ids is None:
            return render.render_plan(self, max_tokens)
        return render.render_nodes(self, ids, show_parents=show_parents)

    def _cost(self, node: Node) -> float:
        if self.is_container(node) or node.status in (None, "done"):
            return 0.0
        estimate: Any = node.context.get("estimate")
        is_number = isinstance(estimate, int | float) and not isinstance(estimate, bool)
        return float(estimate) if is_number and 0 < estimate < MAX_ESTIMATE else 1.0

    def _add_initial(self, initial: Iterable[Node | Mapping[str, Any]]) -> None:
        nodes: dict[str, Node] = {}
        for value in require_iterable(initial, "initial_nodes"):
            node = validate_node(value)
            if node.id in nodes:
                raise InputError(f"Node '{node.id}' already exists: ids of initial nodes must be unique")
            nodes[node.id] = node
        children: dict[str, dict[str, None]] = {id: {} for id in nodes}
        for node in nodes.values():
            for parent in node.parents:
                if parent not in nodes:
                    raise NotFound(f"Parent node '{parent}' does not exist")
                children[parent][node.id] = None
        order = _sort_topologically({id: node.parents for id, node in nodes.items()}, children)
        if len(order) < len(nodes):
            sorted_ids = set(order)
            on_cycle = next(id for id in nodes if id not in sorted_ids)
            raise InputError(cycle_message(on_cycle, nodes[on_cycle].parents))
        self._nodes.update(nodes)
        self._children.update(children)
        self._readiness.fill(order)

    def _check_parents(self, node: Node) -> None:
        if self.would_create_cycle(node.id, node.parents):
            raise InputError(cycle_message(node.id, node.parents))
        for parent in node.parents:
            if parent not in self._nodes:
                raise NotFound(f"Parent node '{parent}' does not exist")

    def _put(self, node: Node) -> None:
        before = self._nodes.get(node.id)
        for parent in before.parents if before else ():
            if parent not in node.parents:  # the other parents keep the order of their children
                del self._children[parent][node.id]
        self._nodes[node.id] = node
        self._children.setdefault(node.id, {})
        for parent in node.parents:
            self._children[parent][node.id] = None
        self._readiness.put(node.id)

    def _discard(self, ids: Sequence[str]) -> None:
        removed = set(ids)
        for id in ids:
            for parent in self._nodes[id].parents:
                self._children[parent].pop(id, None)
        for id in ids:
            for child in [child for child in self._children[id] if child not in removed]:
                node = self._nodes[child]
                left = tuple(parent for parent in node.parents if parent not in removed)
                self._nodes[child] = node._replace(parents=left)
                self._readiness.put(child)
        for id in ids:
            self._readiness.remove(id)
            del self._nodes[id], self._children[id]

    def _orphan_ids(self, id: str) -> NodeIds:
        """Return the id of a node and of all descendants that have no other parents."""
        orphans = [id]
        parents_left: dict[str, int] = {}
        for orphan in orphans:
            for child in self._children[orphan]:
                parents_left[child] = parents_left.get(child, len(self._nodes[child].parents)) - 1
                if not parents_left[child]:
                    orphans.append(child)
        return orphans

    def _require(self, id: str) -> Node:
        node = self._nodes.get(id)
        if node is None:
            raise NotFound(f"Node '{id}' does not exist")
        return node

    def _parents_of(self, id: str) -> Reversible[str]:
        node = self._nodes.get(id)
        return node.parents if node else ()

    def _children_of(self, id: str) -> Reversible[str]:
        return self._children.get(id, ())

    def _walk(self, id: str, following: Callable[[str], Reversible[str]]) -> list[str]:
        """Return every reachable id once, in pre-order, without recursion, so that a graph may be deep."""
        found = {id: None}
        waiting = [*reversed(following(id))]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found[one] = None
                waiting += reversed(following(one))
        return list(found)[1:]

    def _copies(self, ids: Iterable[str]) -> list[Node]:
        return [self._nodes[id].copy() for id in ids]

    def _notify(self, change: Node | NodeIds) -> None:
        if self._on_change is not None:
            self._on_change(change.copy() if isinstance(change, Node) else change)
        if self._persister.is_automatic:
            self.persist()


def _sort_topologically(parents: Mapping[str, Sequence[str]], children: Mapping[str, Iterable[str]]) -> list[str]:
    """Return ids after those of their parents, without the ids on or below a cycle."""
    places = {id: place for place, id in enumerate(parents)}
    ids = list(parents)
    waiting = {id: len(above) for id, above in parents.items()}
    free = [places[id] for id, count in waiting.items() if not count]
    heapify(free)
    order = []
    while free:
        id = ids[heappop(free)]
        order.append(id)
        for child in children[id]:
            waiting[child] -= 1
            if not waiting[child]:
                heappush(free, places[child])
    return order


def cycle_message(id: str, parents: Sequence[str]) -> str:
    """Return why a node cannot have these parents."""
    return f"Adding node '{id}' with parents [{', '.join(parents)}] would create a cycle"
