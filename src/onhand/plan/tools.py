"""The four tools with which a model maintains a plan."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from onhand.errors import InputError, NotFound
from onhand.plan.relations import Node, Reason, Relations, cycle_message, join_ids
from onhand.tools import Output, Tool, tool
from onhand.tools.arguments import close_names, shorten
from onhand.tools.tool import LOCAL, REPLACING

if TYPE_CHECKING:  # Plan offers these tools
    from onhand.plan.plan import Plan

MAX_READY = 20  # steps that plan_ready lists by default
MAX_NODES = 500  # of one plan_add
MAX_TOKENS = 1500  # of plan_show by default
MAX_OUTPUT_BYTES = 15_360

Status = Literal["pending", "in_progress", "done", "failed"]
Parents = Annotated[list[str], "Ids of the steps that must be done before it, and of the plan it belongs to."]


class NewNode(NamedTuple):
    """A node to add."""

    id: Annotated[str, "A short, descriptive name such as user-model."]
    description: Annotated[str, "What is to be done, in one sentence."]
    parents: Parents = []  # noqa: RUF012  # of a record
    edge_type: Annotated[str, "Use plan for a node that groups steps."] = "step"
    status: Status = "pending"
    context: Annotated[dict[str, Any], "Anything else worth keeping, such as files or an estimate."] = {}  # noqa: RUF012


class NodesAdded(NamedTuple):
    """The added nodes, and the steps that can begin now."""

    nodes: tuple[Node, ...]
    ready: tuple[str, ...]
    notes: tuple[str, ...] = ()
    left_out: int = 0

    def to_text(self) -> str:
        more = f" and {self.left_out} more" if self.left_out else ""
        return f"added {join_ids([node.id for node in self.nodes], MAX_READY)}{more}{_render_ready(self.ready)}"


class NodeUpdated(NamedTuple):
    """The changed node, and the steps that can begin now."""

    node: Node
    ready: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def to_text(self) -> str:
        return f"updated {self.node.id} [{self.node.status or 'no status'}]{_render_ready(self.ready)}"


class ReadySteps(NamedTuple):
    """The steps that can begin now, and why other pending steps cannot."""

    ready: tuple[Node, ...]
    not_ready: tuple[Reason, ...]
    more_ready: int  # beyond the limit
    more_waiting: int
    notes: tuple[str, ...] = ()
    left_out: int = 0

    def to_text(self) -> str:
        lines = [f"- {node.id}: {shorten(node.description, 300)}" for node in self.ready] or ["nothing can begin now"]
        more = self.more_ready + self.left_out
        lines += [f"({more} more can begin)"] if more else []
        lines += [f"{reason.id} {reason.text}" for reason in self.not_ready]
        lines += [f"({self.more_waiting} more are waiting)"] if self.more_waiting else []
        return "\n".join(lines)


class PlanNodes(NamedTuple):
    """Nodes of the plan."""

    nodes: tuple[Node, ...]
    notes: tuple[str, ...] = ()
    left_out: int = 0


def plan_tools(plan: "Plan") -> list[Tool]:
    """Return the four tools of a plan."""

    @tool(writes=["plan"], hints=LOCAL, max_output_bytes=MAX_OUTPUT_BYTES)
    def plan_add(nodes: Annotated[list[NewNode], {"minItems": 1}]) -> NodesAdded:
        """Add steps to the plan, which outlives this conversation and is shared with other agents. The parents of a
        step are the steps that must be done before it, and the plan it belongs to. Good for work with several steps
        that depend on each other; unnecessary for one or two. Pass all steps in one call, in any order; either all are
        added or none. Cheap. Example: plan_add(nodes=[{"id": "auth", "edge_type": "plan", "description": "Add login"},
        {"id": "model", "parents": ["auth"], "description": "Create the User model"}, {"id": "form", "parents":
        ["auth", "model"], "description": "Build the login form"}]).
        """
        if len(nodes) > MAX_NODES:
            raise InputError(f"{len(nodes):,} nodes are too many for one call: add at most {MAX_NODES} at a time")

        def work(relations: Relations) -> NodesAdded:
            return NodesAdded(tuple(add_nodes(relations, nodes)), tuple(relations.ready_ids()))

        return plan.change(work)

    @tool(writes=["plan"], hints=REPLACING, max_output_bytes=MAX_OUTPUT_BYTES)
    def plan_update(
        id: str,
        status: Status | None = None,
        description: str | None = None,
        parents: Parents | None = None,
        context: Annotated[dict[str, Any] | None, "Fields to change, such as files or an estimate."] = None,
    ) -> NodeUpdated:
        """Report the progress of a step, or change its description or what it waits for. Set the status to in_progress
        before you start a step; this is refused if another agent has started it or if it still waits for other steps.
        Set it to done or failed as soon as you know. Whatever you omit stays unchanged. Returns the steps that can
        begin now. Cheap. Example: plan_update(id="model", status="done").
        """

        def work(relations: Relations) -> NodeUpdated:
            _require_nodes(relations, [id])
            changes = {**(context or {}), **({} if description is None else {"description": description})}
            node = update_node(relations, id, status, changes, parents=parents)
            return NodeUpdated(node, tuple(relations.ready_ids()))

        return plan.change(work)

    @tool(read_only=True, reads=["plan"], hints=LOCAL, max_output_bytes=MAX_OUTPUT_BYTES)
    def plan_ready(limit: Annotated[int, "At most this many.", {"minimum": 1}] = MAX_READY) -> ReadySteps:
        """List the steps that can begin now because everything they wait for is done, and why the other pending steps
        cannot. Good for choosing what to do next; for an overview use plan_show. Cheap, whatever the size of the plan.
        Example: plan_ready(limit=5).
        """

        def work(relations: Relations) -> ReadySteps:
            nodes, waiting = relations.ready(limit), relations.waiting_ids()
            reasons = tuple(reason for id in waiting[:limit] if (reason := relations.why_not_ready(id)))
            more_ready = len(relations.ready_ids()) - len(nodes)
            return ReadySteps(tuple(nodes), reasons, more_ready, max(0, len(waiting) - limit))

        return plan.read(work)

    @tool(read_only=True, reads=["plan"], hints=LOCAL, max_output_bytes=MAX_OUTPUT_BYTES)
    def plan_show(
        ids: Annotated[list[str] | None, "Only these nodes, and their children."] = None,
        max_tokens: Annotated[int, {"minimum": 1}] = MAX_TOKENS,
    ) -> Output[PlanNodes]:
        """Show the plan in an order in which it can be done, with what each step waits for. Steps that do not fit are
        only counted, starting with those that are done. With ids, show only those nodes and their children. Costs up to
        max_tokens of your context. Example: plan_show(ids=["auth"]).
        """

        def work(relations: Relations) -> Output[PlanNodes]:
            _require_nodes(relations, ids or [])
            text = relations.to_context(ids or None, show_parents=True, max_tokens=max_tokens)
            nodes = [node for id in ids if (node := relations.get(id))] if ids else relations.all()
            return Output(text, PlanNodes(tuple(nodes)))

        return plan.read(work)

    return [plan_add, plan_update, plan_ready, plan_show]


def add_nodes(relations: Relations, nodes: Sequence[NewNode]) -> list[Node]:
    """Add nodes that may name each other as parents, in any order."""
    new = {node.id: node for node in nodes}
    if len(new) < len(nodes):
        raise InputError("two nodes have the same id: give each its own")
    new_parents = {id: [parent for parent in node.parents if parent in new] for id, node in new.items()}
    try:
        added = {id: _add_node(relations, new[id]) for id in TopologicalSorter(new_parents).static_order()}
    except CycleError as error:
        id = error.args[1][0]
        raise InputError(cycle_message(id, new[id].parents)) from None
    return [added[id] for id in new]


def _add_node(relations: Relations, node: NewNode) -> Node:
    context = {**node.context, "description": node.description, "status": node.status}
    return relations.add(node.id, parents=node.parents, edge_type=node.edge_type, context=context)


def update_node(
    relations: Relations,
    id: str,
    status: str | None,
    context: Mapping[str, Any],
    parents: Sequence[str] | None = None,
) -> Node:
    """Change a node. Raise InputError if a step should begin that has already begun or is still waiting."""
    changes = {**context, "status": status} if status else context
    node = relations.get(id) if parents is None else relations.update(id, parents=parents)
    if changes.get("status") == "in_progress" and node and not relations.is_container(node):
        reason = relations.why_not_ready(id)
        if reason and node.status is not None:
            raise InputError(f"'{id}' cannot begin: it {reason.text.removeprefix('cannot begin: ')}")
    return relations.update(id, changes)


def _require_nodes(relations: Relations, ids: Sequence[str]) -> None:
    for id in ids:
        if not relations.has(id):
            raise NotFound(f"Node '{shorten(id)}' does not exist{_hint(relations, id)}")


def _render_ready(ready: Sequence[str]) -> str:
    return f"; ready: {join_ids(ready, MAX_READY) if ready else 'nothing'}"


def _hint(relations: Relations, id: str) -> str:
    nearest = close_names(id, (node.id for node in relations.all()))
    return f": did you mean '{nearest[0]}'?" if nearest else "; plan_show lists the existing nodes"
