"""Which steps can begin? Kept up to date with every change, at the cost of the changed node's children.

A step is work with a status. It can begin when it is pending and nothing above it holds it back:

- a parent that is work holds its children back until it is done;
- a parent that contains (a plan) holds them back while it is held back itself, or when it has failed;
- a parent without a status is no work and holds nothing back.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from onhand.memory.node import Node

CONTAINERS = frozenset(("plan",))  # edge types of nodes that hold steps together and are no step themselves
MAX_NAMED = 5  # of the nodes that a reason names


class Reason(NamedTuple):
    """Why a step is not ready, and which nodes it hangs on."""

    id: str
    text: str
    waits_for: tuple[str, ...] = ()


class Readiness:
    """The ready steps of a graph, whose nodes and children it looks at and never changes."""

    def __init__(
        self, nodes: Mapping[str, Node], children: Mapping[str, Mapping[str, None]], containers: Set[str]
    ) -> None:
        self._nodes = nodes
        self._children = children
        self._containers = containers
        self._held_by: dict[str, int] = {}  # id → how many parents hold it back
        self._holds: dict[str, bool] = {}  # id → whether it holds its children back
        self._places: dict[str, int] = {}  # id → its place among all that were ever added
        self._next_place = 0
        self._ready_places: list[int] = []  # both in the order of places
        self._ready_ids: list[str] = []

    def ids(self, limit: int | None = None) -> list[str]:
        """The ids of the ready steps, in the order in which they were added."""
        return self._ready_ids[:limit]

    def waiting(self) -> list[str]:
        """The ids of pending steps that are held back, in the order of their nodes."""
        held = (node for id, node in self._nodes.items() if self._held_by[id] and node.status == "pending")
        return [node.id for node in held if node.edge_type not in self._containers]

    def __len__(self) -> int:
        return len(self._ready_ids)

    def __contains__(self, id: str) -> bool:
        place = self._places.get(id)
        if place is None:
            return False
        at = bisect_left(self._ready_places, place)
        return at < len(self._ready_places) and self._ready_places[at] == place

    def fill(self, order: Iterable[str]) -> None:
        """Take in all nodes at once; `order` has each after its parents."""
        self._places.update((id, place) for place, id in enumerate(self._nodes))
        self._next_place = len(self._places)
        for id in order:
            self.put(id)

    def put(self, id: str) -> None:
        """A node was added, or its parents or context have changed."""
        if id not in self._places:
            self._places[id] = self._next_place
            self._next_place += 1
        self._held_by[id] = sum(self._holds[parent] for parent in self._nodes[id].parents)
        self._settle([id])

    def remove(self, id: str) -> None:
        """A node is gone; its children have been put anew."""
        self._set_ready(id, False)
        for table in (self._held_by, self._holds, self._places):
            table.pop(id, None)

    def reason(self, id: str) -> Reason | None:
        """Why a node is not ready; None when it is."""
        node = self._nodes[id]
        if id in self:
            return None
        if node.edge_type in self._containers:
            return Reason(id, f"is a {node.edge_type}, which is done step by step")
        if node.status is None:
            return Reason(id, "has no status, so it is no work")
        if node.status != "pending":
            return Reason(id, {"in_progress": "is in progress", "done": "is done", "failed": "has failed"}[node.status])
        return self._waiting(node)

    def _waiting(self, node: Node) -> Reason:
        holding = [self._nodes[parent] for parent in node.parents if self._holds[parent]]
        ids = tuple(parent.id for parent in holding)
        failed = [parent.id for parent in holding if parent.status == "failed"]
        if failed:
            return Reason(node.id, f"cannot begin: {_named(failed)} failed", ids)
        return Reason(node.id, f"waits for {_named(ids)}", ids)

    def _settle(self, ids: Iterable[str]) -> None:
        """Work out what nodes mean for themselves and, where that has changed, for their children."""
        waiting = list(ids)
        while waiting:
            id = waiting.pop()
            ready, holds = self._meaning(id)
            self._set_ready(id, ready)
            before = self._holds.get(id)
            self._holds[id] = holds
            if before is None or before == holds:
                continue
            for child in self._children[id]:
                self._held_by[child] += 1 if holds else -1
                waiting.append(child)

    def _meaning(self, id: str) -> tuple[bool, bool]:
        """Whether a node is ready, and whether it holds its children back."""
        node, is_held = self._nodes[id], self._held_by[id] > 0
        status = node.status
        if node.edge_type in self._containers:
            return False, is_held or status == "failed"
        return status == "pending" and not is_held, status is not None and status != "done"

    def _set_ready(self, id: str, ready: bool) -> None:
        place = self._places[id]
        at = bisect_left(self._ready_places, place)
        is_there = at < len(self._ready_places) and self._ready_places[at] == place
        if ready and not is_there:
            self._ready_places.insert(at, place)
            self._ready_ids.insert(at, id)
        elif is_there and not ready:
            del self._ready_places[at], self._ready_ids[at]


def _named(ids: Iterable[str]) -> str:
    names = list(ids)
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
