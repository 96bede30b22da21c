"""What is to be done first, and what keeps a plan from being done sooner?"""

from typing import Any

from onhand.memory.node import Node
from onhand.memory.relations import Relations

MAX_ESTIMATE = 1e9  # beyond it, a number says nothing about a step


def critical_path(relations: Relations) -> list[Node]:
    """The longest chain of steps that are not done, each waiting for the one before.

    A step counts as its context's `estimate` says, whatever that is measured in, or 1.
    """
    nodes = {node.id: node for node in relations.all()}
    cost: dict[str, float] = {}
    before: dict[str, str | None] = {}
    for id in relations.topological():
        node = nodes[id]
        above = max(node.parents, key=lambda parent: cost[parent], default=None)
        before[id] = above
        cost[id] = (cost[above] if above is not None else 0.0) + _own_cost(relations, node)
    end = max(cost, key=lambda id: cost[id], default=None)
    path: list[Node] = []
    while end is not None and cost[end]:
        if _own_cost(relations, nodes[end]):
            path.append(nodes[end])
        end = before[end]
    return path[::-1]


def _own_cost(relations: Relations, node: Node) -> float:
    if relations.is_container(node) or node.status in (None, "done"):
        return 0.0
    estimate: Any = node.context.get("estimate")
    is_number = isinstance(estimate, int | float) and not isinstance(estimate, bool)
    return float(estimate) if is_number and 0 < estimate < MAX_ESTIMATE else 1.0
