"""The graph agrees with a plain model of its rules, and with its journal, after any changes."""

from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from onhand.errors import InputError
from onhand.plan.plan import Plan, PlanJournal
from onhand.plan.relations import CONTAINERS, STATUSES, Node, Relations
from requirements import requirement

IDS = st.sampled_from("abcdefgh")
PARENTS = st.lists(IDS, max_size=3)
STATUS = st.sampled_from([None, *STATUSES])
CHANGES = st.one_of(
    st.tuples(st.just("add"), IDS, PARENTS, st.sampled_from(["step", "plan"]), STATUS),
    st.tuples(st.just("update"), IDS, st.none() | PARENTS, STATUS),
    st.tuples(st.just("remove"), IDS, st.booleans()),
)


def make(relations: Relations, change: tuple[Any, ...]) -> None:
    try:
        match change:
            case ("add", id, parents, edge_type, status):
                context = {"status": status} if status else {}
                relations.add(id, parents=parents, edge_type=edge_type, context=context)
            case ("update", id, parents, status):
                relations.update(id, {"status": status}, parents=parents)
            case ("remove", id, descendants):
                relations.remove(id, remove_descendants=descendants)
    except InputError:
        pass


def above(nodes: dict[str, Node], id: str) -> set[str]:
    """Everything that a node hangs on; fails on a cycle."""
    found: set[str] = set()
    for parent in nodes[id].parents:
        found |= {parent} | above(nodes, parent)
    assert id not in found
    return found


def holds(nodes: dict[str, Node], id: str) -> bool:
    """The rules of readiness, as they are written down."""
    node = nodes[id]
    if node.edge_type in CONTAINERS:
        return node.status == "failed" or any(holds(nodes, parent) for parent in node.parents)
    return node.status is not None and node.status != "done"


def check(relations: Relations) -> None:
    nodes = {node.id: node for node in relations.all()}
    for id, node in nodes.items():
        assert set(node.parents) <= nodes.keys()
        assert {one.id for one in relations.ancestors(id)} == above(nodes, id)
        assert {one.id for one in relations.children(id)} == {other for other in nodes if id in nodes[other].parents}
        assert {one.id for one in relations.descendants(id)} == {other for other in nodes if id in above(nodes, other)}
        is_work = node.edge_type not in CONTAINERS and node.status == "pending"
        ready = is_work and not any(holds(nodes, parent) for parent in node.parents)
        assert (relations.why_not_ready(id) is None) == ready == (id in relations.ready_ids())
        assert (id in relations.waiting_ids()) == (is_work and not ready)
    order = relations.topological()
    assert sorted(order) == sorted(nodes)
    assert all(order.index(parent) < order.index(id) for id in order for parent in nodes[id].parents)


@requirement("relations.ready", "relations.traversal")
@given(st.lists(CHANGES, max_size=30))
def test_every_answer_is_what_the_rules_say_after_any_changes(changes: list[tuple[Any, ...]]) -> None:
    relations = Relations()
    for change in changes:
        make(relations, change)
        check(relations)
    check(Relations(initial_nodes=relations.all()))


@requirement("relations.journal")
@settings(max_examples=50)
@given(st.lists(st.lists(CHANGES, max_size=5), max_size=8), st.integers(0, 1))
def test_the_journal_gives_the_same_graph_again(
    tmp_path_factory: Any, batches: list[list[tuple[Any, ...]]], compact: int
) -> None:
    path: Path = tmp_path_factory.mktemp("plan") / "plan"
    plan = Plan(path, sync=False)
    follower = Plan(path, sync=False)

    def work(batch: list[tuple[Any, ...]], relations: Relations) -> None:
        for change in batch:
            make(relations, change)

    for number, batch in enumerate(batches):
        plan.change(partial(work, batch))
        if compact and number % 2:
            plan.compact()
        assert sorted(follower.read(lambda relations: relations.all())) == sorted(
            plan.read(lambda relations: relations.all())
        )
    again = Plan(path, sync=False)
    assert sorted(again.read(lambda relations: relations.ready_ids())) == sorted(
        plan.read(lambda relations: relations.ready_ids())
    )
    again.read(check)


@requirement("relations.journal")
@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_as_a_journal_are_read_or_refused_and_never_crash(tmp_path_factory: Any, data: bytes) -> None:
    from onhand.errors import StoreError

    path: Path = tmp_path_factory.mktemp("plan") / "plan"
    journal = PlanJournal(path, sync=False)
    journal.compact([[{"put": {"id": "a"}}]])
    path.write_bytes(path.read_bytes() + data)
    try:
        assert Plan(path).read(lambda relations: relations.has("a"))
    except StoreError:
        assert b"\n" in data
