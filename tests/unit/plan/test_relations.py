"""The graph: nodes with several parents, invalid input, traversal, readiness and persistence."""

import asyncio
from typing import Any

import pytest

from onhand.errors import InputError, NotFound
from onhand.plan.relations import MAX_CONTEXT_CHARS, Node, Relations
from requirements import requirement


def work(description: str = "", status: str = "pending", **more: Any) -> dict[str, Any]:
    return {"description": description, "status": status, **more}


def diamond() -> Relations:
    """a above b and c, both above d."""
    relations = Relations()
    relations.add("a", context=work("first"))
    relations.add("b", parents=["a"], context=work("left"))
    relations.add("c", parents=["a"], context=work("right"))
    relations.add("d", parents=["b", "c"], context=work("last"))
    return relations


def ids(nodes: list[Node]) -> list[str]:
    return [node.id for node in nodes]


@requirement("relations.dag")
def test_a_node_is_added_read_updated_and_removed() -> None:
    relations = Relations()
    added = relations.add("a", edge_type="file", context={"description": "a file", "size": 3}, created_at_ms=1000)
    assert added == Node("a", (), "file", {"description": "a file", "size": 3}, 1000)
    assert relations.get("a") == added
    assert (relations.has("a"), relations.size) == (True, 1)

    updated = relations.update("a", {"size": 4, "status": "pending"})
    assert updated.context == {"description": "a file", "size": 4, "status": "pending"}
    assert updated.created_at_ms == 1000
    assert relations.update("a", {"size": None}).context == {"description": "a file", "status": "pending"}

    assert relations.remove("a") == ["a"]
    assert relations.remove("a") == []
    assert (relations.get("a"), relations.has("a"), relations.size, relations.all()) == (None, False, 0, [])


@requirement("relations.dag")
def test_nodes_are_copied_in_and_out() -> None:
    relations = Relations()
    given: dict[str, Any] = {"description": "x", "files": ["one"], "deep": {"list": [1]}}
    relations.add("a", context=given)
    relations.add("b", parents=["a"], context={})
    given["files"] = "changed"
    given["deep"]["list"].append(2)
    views = (
        [relations.get("a")],
        relations.all(),
        relations.parents("b"),
        relations.ancestors("b"),
        relations.roots(),
        relations.by_edge_type("step"),
    )
    for nodes in views:
        context: Any = nodes[0].context if nodes[0] else {}
        context["files"].append("more")
        context["deep"]["list"].append("more")
        context["status"] = "done"
    kept = relations.get("a")
    assert kept is not None
    assert kept.context == {"description": "x", "files": ["one"], "deep": {"list": [1]}}
    assert relations.by_status("done") == []


@requirement("relations.no-cycles")
@pytest.mark.parametrize(
    ("id", "parents", "kind", "text"),
    [
        ("x", ["x"], InputError, "Adding node 'x' with parents [x] would create a cycle"),
        ("x", ["b", "x"], InputError, "Adding node 'x' with parents [b, x] would create a cycle"),
        ("a", ["d"], InputError, "Adding node 'a' with parents [d] would create a cycle"),
        ("x", ["nobody"], NotFound, "Parent node 'nobody' does not exist"),
        ("d", ["a"], InputError, "Node 'd' already exists: update it, or choose another id"),
    ],
)
def test_a_cycle_an_unknown_parent_and_a_duplicate_id_are_refused(
    id: str, parents: list[str], kind: type[Exception], text: str
) -> None:
    relations = diamond()
    before = relations.all()
    with pytest.raises(kind) as raised:
        relations.add(id, parents=parents)
    assert str(raised.value) == text
    assert relations.all() == before


@requirement("relations.no-cycles")
def test_new_parents_are_checked_like_those_of_a_new_node() -> None:
    relations = diamond()
    with pytest.raises(InputError, match=r"^Adding node 'a' with parents \[d\] would create a cycle$"):
        relations.update("a", parents=["d"])
    with pytest.raises(NotFound, match=r"^Node 'x' does not exist$"):
        relations.update("x", {"status": "done"})
    relations.update("d", parents=["a"])
    assert ids(relations.parents("d")) == ["a"]
    assert ids(relations.children("b")) == []
    assert relations.would_create_cycle("a", ["b"])
    assert relations.would_create_cycle("a", ["a"])
    assert not relations.would_create_cycle("d", ["b", "c"])
    assert not relations.would_create_cycle("new", ["b", "c"])


@requirement("relations.traversal")
def test_relatives_are_found_in_every_direction_each_once() -> None:
    relations = diamond()
    assert ids(relations.parents("d")) == ["b", "c"]
    assert ids(relations.children("a")) == ["b", "c"]
    assert ids(relations.ancestors("d")) == ["b", "a", "c"]
    assert ids(relations.descendants("a")) == ["b", "d", "c"]
    assert ids(relations.roots()) == ["a"]
    assert ids(relations.leaves()) == ["d"]
    for look in (relations.parents, relations.children, relations.ancestors, relations.descendants):
        assert look("nobody") == []


def test_children_stay_in_the_order_in_which_they_were_added() -> None:
    relations = diamond()
    relations.update("b", {"status": "done"})
    relations.update("b", parents=["a"])
    assert ids(relations.children("a")) == ["b", "c"]


@requirement("relations.by-type-and-status")
def test_nodes_are_found_by_edge_type_and_by_status() -> None:
    relations = diamond()
    relations.add("f", edge_type="file", context={"description": "no work"})
    relations.update("a", {"status": "done"})
    assert ids(relations.by_edge_type("file")) == ["f"]
    assert ids(relations.by_edge_type("step")) == ["a", "b", "c", "d"]
    assert ids(relations.by_status("done")) == ["a"]
    assert ids(relations.by_status("pending")) == ["b", "c", "d"]
    assert relations.by_status("failed") == relations.by_edge_type("agent") == []


@requirement("relations.dag")
def test_children_of_a_removed_node_stay_without_it() -> None:
    relations = diamond()
    assert relations.remove("b") == ["b"]
    assert ids(relations.parents("d")) == ["c"]
    assert relations.remove("a") == ["a"]
    assert ids(relations.roots()) == ["c"]


@requirement("relations.dag")
def test_descendants_are_removed_only_without_other_parents() -> None:
    relations = diamond()
    relations.add("e", parents=["d"])
    relations.add("other")
    relations.add("shared", parents=["b", "other"])
    assert relations.remove("b", remove_descendants=True) == ["b"]
    assert ids(relations.parents("d")) == ["c"]
    assert ids(relations.parents("shared")) == ["other"]
    assert sorted(relations.remove("a", remove_descendants=True)) == ["a", "c", "d", "e"]
    assert ids(relations.all()) == ["other", "shared"]


def test_clear_removes_every_node() -> None:
    relations = diamond()
    relations.clear()
    assert (relations.size, relations.ready_ids(), relations.topological()) == (0, [], [])
    relations.add("a")


@requirement("relations.persistence")
def test_nodes_are_persisted_on_request_and_automatically() -> None:
    handed: list[list[str]] = []
    relations = Relations(on_persist=lambda nodes: handed.append(ids(nodes)))
    relations.add("a")
    assert handed == []
    relations.persist()
    assert handed == [["a"]]

    handed.clear()
    relations = Relations(on_persist=lambda nodes: handed.append(ids(nodes)), auto_persist=True)
    relations.add("a")
    relations.add("b")
    relations.update("a", {"status": "done"})
    relations.remove("a")
    relations.clear()
    assert handed == [["a"], ["a", "b"], ["a", "b"], ["b"], []]
    Relations(auto_persist=True).add("a")  # nobody to hand it to


@requirement("relations.persistence")
def test_async_persistence_works_with_and_without_an_event_loop() -> None:
    handed: list[list[str]] = []

    async def keep(nodes: list[Node]) -> None:
        await asyncio.sleep(0)
        handed.append([node.id for node in nodes])

    relations = Relations(on_persist=keep)
    relations.add("a")
    assert relations.persist() is None
    assert handed == [["a"]]

    async def in_a_loop() -> None:
        relations.add("b")
        pending = relations.persist()
        assert pending is not None
        await pending

    asyncio.run(in_a_loop())
    assert handed == [["a"], ["a", "b"]]


@requirement("relations.persistence", "project.pluggable-storage")
def test_persisted_nodes_restore_the_graph_in_any_order() -> None:
    relations = diamond()
    relations.update("a", {"status": "done"})
    again = Relations(initial_nodes=relations.all())
    assert again.all() == relations.all()
    assert again.ready_ids() == relations.ready_ids() == ["b", "c"]
    backwards = Relations(initial_nodes=relations.all()[::-1])
    assert sorted(backwards.all()) == sorted(relations.all())
    assert sorted(backwards.ready_ids()) == ["b", "c"]
    from_json = Relations(initial_nodes=[node._asdict() for node in relations.all()])
    assert from_json.all() == relations.all()


@requirement("relations.persistence", "relations.no-cycles")
@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([Node("a", ("b",)), Node("b", ("a",))], "Adding node 'a' with parents [b] would create a cycle"),
        ([Node("a", ("a",))], "Adding node 'a' with parents [a] would create a cycle"),
        ([Node("a", ("b",))], "Parent node 'b' does not exist"),
        ([Node("a"), Node("a")], "Node 'a' already exists: ids of initial nodes must be unique"),
        ([{"id": "a", "edgeType": "plan"}], "unknown field 'edgeType'"),
        ([{"parents": []}], "a node must be an object with an id"),
        (["a"], "a node must be an object with an id"),
        ([Node("a", context={"status": "finished"})], "the status must be one of pending, in_progress, done, failed"),
        ([Node("a", context=[])], "context must be an object"),  # type: ignore[arg-type]
        ([Node("a", context={"description": 5})], "the description must be text"),
        ([Node("a", context={"x": float("nan")})], "nan is not a JSON number"),
        ([Node("a", context={"x": object()})], "a object is not a JSON value"),
        ([Node("a", context={"x": "\ud800"})], "lone surrogate"),
        ([Node("a", context={"x": "y" * (MAX_CONTEXT_CHARS + 1)})], "put long texts in a file"),
        ([Node("")], "an id must be 1 to 200 printable characters"),
        ([Node("a\nb")], "an id must be 1 to 200 printable characters"),
        ([Node("a" * 201)], "an id must be 1 to 200 printable characters"),
        ([Node("\x1b[2J")], "an id must be 1 to 200 printable characters"),
        ([Node("a", edge_type="")], "an edge type must be"),
        ([Node("a", parents="bc")], "parents must be a list"),  # type: ignore[arg-type]
        ([Node("a", parents=(1,))], "a parent's id must be"),  # type: ignore[arg-type]
        ([Node("a", created_at_ms=float("inf"))], "created_at_ms must be milliseconds"),  # type: ignore[arg-type]
        ([Node("a", created_at_ms="now")], "created_at_ms must be milliseconds"),  # type: ignore[arg-type]
        (None, "initial_nodes must be a list of items that on_persist received"),
        ("abc", "initial_nodes must be a list of items that on_persist received"),
        ({"id": "a"}, "initial_nodes must be a list of items that on_persist received"),
    ],
)
def test_initial_nodes_are_checked(nodes: Any, text: str) -> None:
    with pytest.raises(InputError) as raised:
        Relations(initial_nodes=nodes)
    assert text in str(raised.value)


def test_a_too_deeply_nested_context_is_rejected() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"deep": deep}
    with pytest.raises(InputError, match="nested more than 64 levels"):
        Relations().add("a", context=deep)


def test_a_refused_update_changes_nothing() -> None:
    relations = diamond()
    before = relations.all()
    for context in ({"status": "finished"}, {"description": 5}, [("status", "done")]):
        with pytest.raises(InputError):
            relations.update("a", context)  # type: ignore[arg-type]
    assert relations.all() == before
    assert relations.ready_ids() == ["a"]


@requirement("relations.ready")
def test_steps_become_ready_when_their_parents_are_done() -> None:
    relations = diamond()
    assert relations.ready_ids() == ["a"]
    relations.update("a", {"status": "in_progress"})
    assert relations.ready_ids() == []
    relations.update("a", {"status": "done"})
    assert ids(relations.ready()) == ["b", "c"]
    relations.update("c", {"status": "done"})
    assert relations.ready_ids() == ["b"]
    relations.update("b", {"status": "done"})
    assert relations.ready_ids() == ["d"]
    relations.update("a", {"status": "pending"})  # was not done after all; what was done below stays done
    assert relations.ready_ids() == ["a", "d"]
    relations.update("c", {"status": "pending"})
    assert relations.ready_ids() == ["a"]
    relations.remove("a")
    assert relations.ready_ids() == ["c"]
    assert relations.ready_ids(0) == []


@requirement("relations.ready")
def test_every_step_that_is_not_ready_has_its_reason() -> None:
    relations = diamond()
    relations.add("p", edge_type="plan", context=work("a plan", "in_progress"))
    relations.add("f", edge_type="file")
    relations.update("a", {"status": "done"})
    relations.update("b", {"status": "in_progress"})
    assert [(reason.id, reason.text, reason.waits_for) for reason in relations.not_ready()] == [
        ("a", "is done", ()),
        ("b", "is in progress", ()),
        ("d", "waits for b, c", ("b", "c")),
        ("p", "is a plan, which is done when its steps are", ()),
        ("f", "has no status, so it is not a step", ()),
    ]
    assert relations.why_not_ready("c") is None
    relations.update("b", {"status": "failed"})
    reason = relations.why_not_ready("d")
    assert reason is not None
    assert reason.text == "cannot begin: b failed"
    with pytest.raises(NotFound, match="Node 'x' does not exist"):
        relations.why_not_ready("x")
    wide = Relations(initial_nodes=[Node(str(number), context=work()) for number in range(9)])
    wide.add("end", parents=[str(number) for number in range(9)], context=work())
    waits = wide.why_not_ready("end")
    assert waits is not None
    assert waits.text == "waits for 0, 1, 2, 3, 4 and 4 more"


@requirement("relations.ready")
def test_a_plan_blocks_its_steps_only_while_it_is_blocked() -> None:
    relations = Relations()
    relations.add("before", context=work())
    relations.add("plan", parents=["before"], edge_type="plan", context=work("later", "pending"))
    relations.add("inner", parents=["plan"], edge_type="plan", context=work())
    relations.add("step", parents=["inner"], context=work())
    assert relations.ready_ids() == ["before"]
    reason = relations.why_not_ready("step")
    assert reason is not None
    assert reason.text == "waits for inner"
    relations.update("before", {"status": "done"})
    assert relations.ready_ids() == ["step"]
    relations.update("plan", {"status": "failed"})
    assert relations.ready_ids() == []
    relations.update("plan", {"status": "in_progress"})
    assert relations.ready_ids() == ["step"]
    relations.add("note", context={"description": "no work"})
    relations.update("step", parents=["inner", "note"])
    assert relations.ready_ids() == ["step"]


def test_the_edge_types_of_containers_can_be_configured() -> None:
    relations = Relations(containers={"epic"})
    relations.add("e", edge_type="epic", context=work())
    relations.add("p", edge_type="plan", parents=["e"], context=work())
    assert relations.ready_ids() == ["p"]


@requirement("relations.order")
def test_nodes_come_after_their_parents_and_the_critical_path_is_the_longest_chain() -> None:
    relations = diamond()
    relations.add("long", parents=["a"], context=work(estimate=5))
    assert relations.topological() == ["a", "b", "c", "d", "long"]
    assert ids(relations.critical_path()) == ["a", "long"]
    relations.update("long", {"estimate": "five"})
    assert ids(relations.critical_path()) == ["a", "b", "d"]
    relations.update("a", {"status": "done"})
    assert ids(relations.critical_path()) == ["b", "d"]
    relations.update("long", {"estimate": 10**400})
    assert ids(relations.critical_path()) == ["b", "d"]
    assert Relations().critical_path() == []


@requirement("relations.deep")
def test_a_chain_of_ten_thousand_is_walked_updated_and_removed_without_recursion() -> None:
    size = 10_000
    nodes = [Node(str(number), (str(number - 1),) if number else (), context=work()) for number in range(size)]
    relations = Relations(initial_nodes=nodes)
    assert len(relations.descendants("0")) == len(relations.ancestors(str(size - 1))) == size - 1
    assert relations.would_create_cycle("0", [str(size - 1)])
    assert len(relations.critical_path()) == size
    for number in range(100):
        relations.update(str(number), {"status": "done"})
        assert relations.ready_ids() == [str(number + 1)]
    assert len(relations.remove("0", remove_descendants=True)) == size


@requirement("relations.deep")
def test_the_work_of_a_change_does_not_grow_with_the_chain() -> None:
    """Counted in calls, which no machine makes faster or slower."""
    import sys

    def calls(size: int) -> int:
        relations = Relations()
        count = 0

        def counted(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(counted)
        try:
            relations.add("0", context=work())
            for number in range(1, size):
                relations.add(str(number), parents=[str(number - 1)], context=work())
            for number in range(size):
                relations.update(str(number), {"status": "done"})
                relations.ready_ids()
            relations.descendants("0")
        finally:
            sys.setprofile(None)
        return count

    assert calls(2000) < calls(1000) * 2.1
