"""Ready work in a graph of 10,000 steps, against SQLite with recursive queries and networkx, in one run, as ratios.

    python -m benchmarks.relations [--nodes 10000] [--updates 300]

Two graphs: `layers`, where each step waits for up to three of the hundred before it, and `chain`, where each waits for
the one before. All three keep the graph in memory and give equal answers, which is checked. SQLite has indexes on both
ends of an edge; networkx has no ready set, so what is ready is worked out anew, as its users do. Our journal is
measured apart, since the others write nothing: a change that is on the disk when it returns. Median time of a call;
lower is better.
"""

import argparse
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from onhand.plan.plan import Plan
from onhand.plan.relations import Node, Relations

Edges = list[tuple[int, list[int]]]  # a node and its parents


class Graph(Protocol):
    """What all three can do."""

    def add(self, id: int, parents: list[int]) -> None: ...
    def done_then_ready(self, id: int) -> list[str]: ...
    def descendants(self, id: int) -> set[str]: ...
    def would_create_cycle(self, id: int, parent: int) -> bool: ...
    def topological(self) -> list[str]: ...


class Ours:
    """The graph of this package."""

    def __init__(self) -> None:
        self.relations = Relations()

    def add(self, id: int, parents: list[int]) -> None:
        context = {"description": f"step {id}", "status": "pending"}
        self.relations.add(str(id), parents=list(map(str, parents)), context=context)

    def done_then_ready(self, id: int) -> list[str]:
        self.relations.update(str(id), {"status": "done"})
        return self.relations.ready_ids()

    def descendants(self, id: int) -> set[str]:
        return set(self.relations.descendant_ids(str(id)))

    def would_create_cycle(self, id: int, parent: int) -> bool:
        return self.relations.would_create_cycle(str(id), [str(parent)])

    def topological(self) -> list[str]:
        return self.relations.topological()


class Sqlite:
    """Tables in memory, and recursive queries."""

    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:")
        self.database.executescript("""
            CREATE TABLE nodes (id TEXT PRIMARY KEY, place INTEGER, status TEXT, context TEXT);
            CREATE TABLE edges (parent TEXT, child TEXT, PRIMARY KEY (child, parent)) WITHOUT ROWID;
            CREATE INDEX children ON edges (parent, child);
            CREATE INDEX statuses ON nodes (status, place);
        """)

    def add(self, id: int, parents: list[int]) -> None:
        with self.database:
            self.database.execute("INSERT INTO nodes VALUES (?, ?, 'pending', ?)", (str(id), id, f"step {id}"))
            self.database.executemany("INSERT INTO edges VALUES (?, ?)", [(str(one), str(id)) for one in parents])

    def done_then_ready(self, id: int) -> list[str]:
        with self.database:
            self.database.execute("UPDATE nodes SET status = 'done' WHERE id = ?", (str(id),))
        return self._ids("""
            SELECT id FROM nodes WHERE status = 'pending' AND NOT EXISTS (
                SELECT 1 FROM edges JOIN nodes above ON above.id = edges.parent
                WHERE edges.child = nodes.id AND above.status <> 'done'
            ) ORDER BY place
        """)

    def descendants(self, id: int) -> set[str]:
        return set(
            self._ids(
                "WITH RECURSIVE below(id) AS (SELECT child FROM edges WHERE parent = ? UNION "
                "SELECT child FROM edges JOIN below ON parent = below.id) SELECT id FROM below",
                str(id),
            )
        )

    def would_create_cycle(self, id: int, parent: int) -> bool:
        return str(parent) in self.descendants(id)

    def topological(self) -> list[str]:
        return self._ids("""
            WITH RECURSIVE depth(id, level) AS (
                SELECT id, 0 FROM nodes WHERE id NOT IN (SELECT child FROM edges)
                UNION SELECT child, level + 1 FROM edges JOIN depth ON parent = depth.id
            ) SELECT id FROM depth GROUP BY id ORDER BY max(level)
        """)

    def _ids(self, query: str, *values: str) -> list[str]:
        return [row[0] for row in self.database.execute(query, values)]


class Networkx:
    """A DiGraph with statuses."""

    def __init__(self) -> None:
        import networkx

        self.nx: Any = networkx
        self.graph: Any = networkx.DiGraph()

    def add(self, id: int, parents: list[int]) -> None:
        self.graph.add_node(str(id), status="pending", description=f"step {id}")
        self.graph.add_edges_from((str(parent), str(id)) for parent in parents)

    def done_then_ready(self, id: int) -> list[str]:
        nodes, before = self.graph.nodes, self.graph.pred
        nodes[str(id)]["status"] = "done"
        return [
            name
            for name, node in nodes.items()
            if node["status"] == "pending" and all(nodes[parent]["status"] == "done" for parent in before[name])
        ]

    def descendants(self, id: int) -> set[str]:
        return set(self.nx.descendants(self.graph, str(id)))

    def would_create_cycle(self, id: int, parent: int) -> bool:
        return bool(self.nx.has_path(self.graph, str(id), str(parent)))

    def topological(self) -> list[str]:
        return list(self.nx.lexicographical_topological_sort(self.graph, key=int))


def layers(nodes: int) -> Edges:
    chance = random.Random(5)
    return [
        (id, sorted({chance.randrange(max(0, id - 100), id) for _ in range(chance.randint(1, 3))}) if id else [])
        for id in range(nodes)
    ]


def chain(nodes: int) -> Edges:
    return [(id, [id - 1] if id else []) for id in range(nodes)]


def time_calls(calls: Iterator[Callable[[], Any]]) -> tuple[float, list[Any]]:
    """The median time of a call in milliseconds, and what each gave."""
    times, given = [], []
    for call in calls:
        start = time.perf_counter()
        given.append(call())
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000, given


def measure_graph(graph: Graph, edges: Edges, updates: int, deep_order: bool) -> dict[str, tuple[float, Any]]:
    nodes = len(edges)
    results: dict[str, tuple[float, Any]] = {}
    results["add a step"] = time_calls(partial(graph.add, *edge) for edge in edges)
    results["update, then ready set"] = time_calls(partial(graph.done_then_ready, id) for id in range(updates))
    results["all descendants of the first"] = time_calls(partial(graph.descendants, 0) for _ in range(3))
    results["would it be a cycle, worst case"] = time_calls(
        partial(graph.would_create_cycle, 0, nodes - 1) for _ in range(3)
    )
    if deep_order:
        results["topological order"] = time_calls(graph.topological for _ in range(3))
    return results


def compare(name: str, edges: Edges, updates: int) -> None:
    peers: list[Graph] = [Ours(), Sqlite()]
    try:
        peers.append(Networkx())
    except ModuleNotFoundError:
        print("networkx is not installed: left out")
    print(f"\n{name}: {len(edges):,} steps")
    print(f"{'':<34}{'onhand':>12}" + "".join(f"{type(peer).__name__.lower():>13}{'ratio':>8}" for peer in peers[1:]))
    # SQLite's levels of a graph with many paths would be counted path by path; its order is shown for the chain.
    found = [
        measure_graph(peer, edges, updates, deep_order=name == "chain" or not isinstance(peer, Sqlite))
        for peer in peers
    ]
    for what, (mine, answers) in found[0].items():
        line = f"{what:<34}{mine:>9.4f} ms"
        for result in found[1:]:
            if what not in result:
                line += f"{'—':>13}{'':>8}"
                continue
            theirs, given = result[what]
            assert what == "topological order" or given == answers, what
            line += f"{theirs:>10.4f} ms{theirs / mine:>7.1f}×"
        print(line, flush=True)


def journal(nodes: int, updates: int) -> None:
    initial = [
        Node(str(id), tuple(map(str, parents)), context={"description": f"step {id}", "status": "pending"})
        for id, parents in layers(nodes)
    ]
    print(f"\njournal: {nodes:,} steps")
    with tempfile.TemporaryDirectory() as directory:
        for sync in (True, False):
            path = Path(directory) / f"plan-{sync}"
            plan = Plan(path, sync=sync)
            plan.change(
                lambda relations: [
                    relations.add(node.id, parents=node.parents, context=node.context) for node in initial
                ]
            )

            def update(id: int, plan: Plan = plan) -> Any:
                return plan.change(lambda relations: relations.update(str(id), {"status": "done"}))

            took, _ = time_calls(partial(update, id) for id in range(updates))
            print(f"  a change {'on the disk' if sync else 'given to the system'}: {took:.3f} ms")
        read, _ = time_calls((lambda: Plan(path).read(lambda relations: relations.size)) for _ in range(3))
        whole, _ = time_calls((lambda: plan.read(Relations.critical_path)) for _ in range(3))
        copies, _ = time_calls((lambda: plan.read(Relations.all)) for _ in range(3))
        print(f"  read from cold: {read:.0f} ms; critical path: {whole:.0f} ms; copies of all nodes: {copies:.0f} ms")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--updates", type=int, default=300)
    options = parser.parse_args(argv)
    compare("layers", layers(options.nodes), options.updates)
    compare("chain", chain(options.nodes), options.updates)
    journal(options.nodes, options.updates)


if __name__ == "__main__":
    main(sys.argv[1:])
