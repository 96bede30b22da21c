"""What depends on what? A graph of nodes with several parents each and without cycles, in memory.

What goes out are copies. Where the nodes are kept is the caller's: `on_persist` is given all of them. It knows no
file, no tool and no prompt. Not safe between threads: its owner holds a lock (memory/plan.py does).
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Reversible, Sequence, Set
from heapq import heapify, heappop, heappush
from time import time
from typing import Any

from onhand.errors import InputError, NotFound
from onhand.memory.node import Node, accepted, accepted_fields, copied
from onhand.memory.persisting import Persisting, accepted_many
from onhand.memory.readiness import CONTAINERS, Readiness, Reason

Removed = list[str]


class Relations:
    """Nodes by id. `on_persist`, plain or async, gets every node when `persist` is called or, with `auto_persist`,
    after a change. An async one is begun then where an event loop runs, and the loop tells what it raises.

    `initial_nodes` may stand in any order and are checked: InputError names the first that cannot be used. An
    `on_change` is told each change as it is made: the node that was put, or the ids that were removed. Nodes of the
    edge types `containers` hold steps together and are no steps themselves.
    """

    def __init__(
        self,
        *,
        on_persist: Callable[[list[Node]], object] | None = None,
        initial_nodes: Iterable[Node | Mapping[str, Any]] = (),
        auto_persist: bool = False,
        on_change: Callable[[Node | Removed], object] | None = None,
        containers: Set[str] = CONTAINERS,
    ) -> None:
        self._persisting = Persisting(on_persist, self.all) if on_persist is not None else None
        self._auto_persist = auto_persist
        self._on_change = on_change
        self._nodes: dict[str, Node] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._readiness = Readiness(self._nodes, self._children, containers)
        self._containers = containers
        self._hydrate(initial_nodes)

    # Change

    def add(
        self,
        id: str,
        *,
        parents: Sequence[str] = (),
        edge_type: str = "step",
        context: Mapping[str, Any] | None = None,
        created_at_ms: int | None = None,
    ) -> Node:
        """Add a node below nodes that are there."""
        now = int(time() * 1000) if created_at_ms is None else created_at_ms
        node = accepted_fields(id, parents, edge_type, {} if context is None else context, now)
        self._check_parents(node)
        if node.id in self._nodes:
            raise InputError(f"Node '{node.id}' already exists: update it, or choose another id")
        self._put(node)
        self._changed(node)
        return copied(node)

    def update(
        self, id: str, context: Mapping[str, Any] | None = None, *, parents: Sequence[str] | None = None
    ) -> Node:
        """Change some of a node's context, or what it hangs on; what is not named stays. None takes a field out."""
        before = self._known(id)
        if context is not None and not isinstance(context, Mapping):
            raise InputError(f"the context of '{id}' must be an object of what is to change, not {context!r:.60}")
        kept = {name: value for name, value in {**before.context, **(context or {})}.items() if value is not None}
        above = before.parents if parents is None else parents
        node = accepted(before._replace(context=kept, parents=above))  # type: ignore[arg-type]
        if node.parents != before.parents:
            self._check_parents(node)
        self._put(node)
        self._changed(node)
        return copied(node)

    def remove(self, id: str, *, remove_descendants: bool = False) -> Removed:
        """Take a node out, and with `remove_descendants` all that hangs on nothing else; the ids that went.

        Children that stay no longer have it as a parent. A node that is not there is no error.
        """
        if id not in self._nodes:
            return []
        removed = self._orphaned(id) if remove_descendants else [id]
        self._take_out(removed)
        self._changed(removed)
        return removed

    def clear(self) -> None:
        """Take out every node."""
        removed = list(self._nodes)
        self._take_out(removed)
        self._changed(removed)

    def apply(self, change: Node | Mapping[str, Any] | Removed) -> None:
        """Make a change that was made before: put this node, whether it is there or not, or remove these ids."""
        if isinstance(change, list):
            self._take_out([id for id in change if id in self._nodes])
            return
        node = accepted(change)
        before = self._nodes.get(node.id)
        if before is None or before.parents != node.parents:
            self._check_parents(node)
        self._put(node)

    def persist(self) -> Awaitable[None] | None:
        """Hand all nodes to `on_persist`. With an async one, where a loop runs, what is given back is to be awaited."""
        return self._persisting.hand_over() if self._persisting else None

    # Look

    def get(self, id: str) -> Node | None:
        """The node of that id."""
        node = self._nodes.get(id)
        return copied(node) if node else None

    def has(self, id: str) -> bool:
        """Whether there is a node of that id."""
        return id in self._nodes

    def all(self) -> list[Node]:
        """Every node, in the order in which they were added."""
        return [copied(node) for node in self._nodes.values()]

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    def parents(self, id: str) -> list[Node]:
        """The nodes that a node hangs on directly."""
        return self._copies(self._parents_of(id))

    def children(self, id: str) -> list[Node]:
        """The nodes that hang on a node directly."""
        return self._copies(self._children_of(id))

    def ancestors(self, id: str) -> list[Node]:
        """Every node above a node, each once, depth first."""
        return self._copies(self._walk(id, self._parents_of))

    def descendants(self, id: str) -> list[Node]:
        """Every node below a node, each once, depth first."""
        return self._copies(self._walk(id, self._children_of))

    def ancestor_ids(self, id: str) -> list[str]:
        """The ids of `ancestors`."""
        return self._walk(id, self._parents_of)

    def descendant_ids(self, id: str) -> list[str]:
        """The ids of `descendants`."""
        return self._walk(id, self._children_of)

    def roots(self) -> list[Node]:
        """The nodes that hang on nothing."""
        return [copied(node) for node in self._nodes.values() if not node.parents]

    def leaves(self) -> list[Node]:
        """The nodes that nothing hangs on."""
        return self._copies(id for id in self._nodes if not self._children[id])

    def by_edge_type(self, edge_type: str) -> list[Node]:
        """The nodes of an edge type."""
        return [copied(node) for node in self._nodes.values() if node.edge_type == edge_type]

    def by_status(self, status: str) -> list[Node]:
        """The nodes of a status."""
        return [copied(node) for node in self._nodes.values() if node.status == status]

    def would_create_cycle(self, id: str, parents: Sequence[str]) -> bool:
        """Whether a node with these parents would hang on itself."""
        reached = {id}
        waiting = [id]
        for one in waiting:
            for child in self._children.get(one, ()):
                if child not in reached:
                    reached.add(child)
                    waiting.append(child)
        return not reached.isdisjoint(parents)

    # Ready work

    def ready(self, limit: int | None = None) -> list[Node]:
        """The steps that can begin now, in the order in which they were added."""
        return self._copies(self._readiness.ids(limit))

    def ready_ids(self, limit: int | None = None) -> list[str]:
        """The ids of the steps that can begin now."""
        return self._readiness.ids(limit)

    def waiting_ids(self) -> list[str]:
        """The ids of the steps that are pending and cannot begin yet."""
        return self._readiness.waiting()

    def why_not_ready(self, id: str) -> Reason | None:
        """Why a step cannot begin; None when it can."""
        self._known(id)
        return self._readiness.reason(id)

    def not_ready(self) -> list[Reason]:
        """The reason for every node that is not ready."""
        return [reason for id in self._nodes if (reason := self._readiness.reason(id))]

    def is_container(self, node: Node) -> bool:
        """Whether a node only holds others together."""
        return node.edge_type in self._containers

    def topological(self) -> list[str]:
        """Every id, each after all that it hangs on; otherwise in the order in which they were added."""
        return _sorted({id: node.parents for id, node in self._nodes.items()}, self._children)

    # Inside

    def _hydrate(self, initial: Iterable[Node | Mapping[str, Any]]) -> None:
        nodes: dict[str, Node] = {}
        for given in accepted_many(initial, "initial_nodes"):
            node = accepted(given)
            if node.id in nodes:
                raise InputError(f"Node '{node.id}' already exists: each id may stand once among the initial nodes")
            nodes[node.id] = node
        children: dict[str, dict[str, None]] = {id: {} for id in nodes}
        for node in nodes.values():
            for parent in node.parents:
                if parent not in nodes:
                    raise NotFound(f"Parent node '{parent}' does not exist")
                children[parent][node.id] = None
        order = _sorted({id: node.parents for id, node in nodes.items()}, children)
        if len(order) < len(nodes):
            sorted_out = set(order)
            left = next(id for id in nodes if id not in sorted_out)
            raise InputError(_cycle(left, nodes[left].parents))
        self._nodes.update(nodes)
        self._children.update(children)
        self._readiness.fill(order)

    def _check_parents(self, node: Node) -> None:
        if self.would_create_cycle(node.id, node.parents):
            raise InputError(_cycle(node.id, node.parents))
        for parent in node.parents:
            if parent not in self._nodes:
                raise NotFound(f"Parent node '{parent}' does not exist")

    def _put(self, node: Node) -> None:
        before = self._nodes.get(node.id)
        for parent in before.parents if before else ():
            if parent not in node.parents:  # the others keep the order of their children
                del self._children[parent][node.id]
        self._nodes[node.id] = node
        self._children.setdefault(node.id, {})
        for parent in node.parents:
            self._children[parent][node.id] = None
        self._readiness.put(node.id)

    def _take_out(self, ids: Sequence[str]) -> None:
        gone = set(ids)
        for id in ids:
            for parent in self._nodes[id].parents:
                self._children[parent].pop(id, None)
        for id in ids:
            for child in [child for child in self._children[id] if child not in gone]:
                node = self._nodes[child]
                left = tuple(parent for parent in node.parents if parent not in gone)
                self._nodes[child] = node._replace(parents=left)
                self._readiness.put(child)
        for id in ids:
            self._readiness.remove(id)
            del self._nodes[id], self._children[id]

    def _orphaned(self, id: str) -> Removed:
        """A node and everything below it that has no parent besides."""
        gone = [id]
        left: dict[str, int] = {}
        for one in gone:
            for child in self._children[one]:
                left[child] = left.get(child, len(self._nodes[child].parents)) - 1
                if not left[child]:
                    gone.append(child)
        return gone

    def _known(self, id: str) -> Node:
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
        """Everything that can be reached, in pre-order, each once; not recursive, so as deep as it gets."""
        found = {id: None}
        waiting = [*reversed(following(id))]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found[one] = None
                waiting += reversed(following(one))
        return list(found)[1:]

    def _copies(self, ids: Iterable[str]) -> list[Node]:
        return [copied(self._nodes[id]) for id in ids]

    def _changed(self, change: Node | Removed) -> None:
        if self._on_change is not None:
            self._on_change(copied(change) if isinstance(change, Node) else change)
        if self._auto_persist:
            self.persist()


def _sorted(parents: Mapping[str, Sequence[str]], children: Mapping[str, Iterable[str]]) -> list[str]:
    """Ids after their parents, as far as there is no cycle."""
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


def _cycle(id: str, parents: Sequence[str]) -> str:
    return f"Adding node '{id}' with parents [{', '.join(parents)}] would create a cycle"
