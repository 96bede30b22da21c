"""How does a model keep a plan? Four tools: their words, their schemas, their answers."""

from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NotRequired, TypedDict

from onhand.errors import InputError, NotFound
from onhand.memory.node import STATUSES, Node, as_json
from onhand.memory.plan import Plan
from onhand.memory.relations import Relations
from onhand.memory.render import plan_text, to_context
from onhand.tools import Output, Tool
from onhand.tools.fitting import fitted, json_bytes, within
from onhand.tools.problems import near, short
from onhand.tools.tool import LOCAL, REPLACING, Hints, closed_schema

Schema = dict[str, Any]

MAX_READY = 20  # steps that plan_ready names unless it is told otherwise
MAX_NODES = 500  # of one plan_add
MAX_TOKENS = 1500  # of plan_show unless it is told otherwise
MAX_OUTPUT_BYTES = 15_360
MAX_NODE_BYTES = 4096  # of one node, for programs: a context may have a hundred thousand characters

ADD = (
    "Write steps into the plan, which outlives this conversation and is shared with other agents. A step names as its "
    "parents the steps that have to be done before it, and the plan it belongs to. Good at work of several steps that "
    "depend on each other; needless for one or two. Give all steps in one call, in any order: all are added or none. "
    'Cheap. Example: plan_add(nodes=[{"id": "auth", "edge_type": "plan", "description": "Add login"}, {"id": "model", '
    '"parents": ["auth"], "description": "Create the User model"}, {"id": "form", "parents": ["auth", "model"], '
    '"description": "Build the login form"}]).'
)
UPDATE = (
    "Say how far a step is, or change what it says or waits for. Set status in_progress before you work on a step: "
    "that is refused when another agent has it or it still waits. Set done or failed when you know. What is not named "
    'stays. Answers with the steps that can begin now. Cheap. Example: plan_update(id="model", status="done").'
)
READY = (
    "List the steps that can begin now, because all that they wait for is done, and why each other open step cannot. "
    "Good at choosing what to do next; bad at an overview, for which there is plan_show. Cheap, whatever the size of "
    "the plan. Example: plan_ready(limit=5)."
)
SHOW = (
    "Show the plan in an order in which it can be done, with what each step waits for. What does not fit is counted, "
    "done steps first. With ids, show only those nodes and their children. Costs up to max_tokens of your context. "
    'Example: plan_show(ids=["auth"]).'
)

_ID: Schema = {"type": "string", "description": "Short and telling, such as user-model."}
_TEXT: Schema = {"type": "string"}
_PARENTS: Schema = {
    "type": "array",
    "items": _TEXT,
    "description": "Ids of the steps that come before it, and of the plan it belongs to.",
}
_STATUS: Schema = {"type": "string", "enum": list(STATUSES)}
_CONTEXT: Schema = {"type": "object", "description": "Whatever else is worth keeping, such as files or an estimate."}
_NODE: Schema = {
    "type": "object",
    "properties": {
        "id": _ID,
        "description": {**_TEXT, "description": "What is to be done, in a sentence."},
        "parents": _PARENTS,
        "edge_type": {**_TEXT, "description": "step by default; plan for what holds steps together."},
        "status": {**_STATUS, "description": "pending by default."},
        "context": _CONTEXT,
    },
    "required": ["id", "description"],
    "additionalProperties": False,
}


class NodeShape(TypedDict):
    """A node, as the command line prints it."""

    id: str
    parents: list[str]
    edge_type: str
    context: dict[str, Any]
    created_at_ms: int
    notes: NotRequired[list[str]]


class NodesAnswer(TypedDict):
    """Of `plan_show`."""

    nodes: list[NodeShape]
    left_out: NotRequired[int]
    notes: NotRequired[list[str]]


class AddedAnswer(NodesAnswer):
    """Of `plan_add`: also what can begin now."""

    ready: list[str]


class UpdatedAnswer(TypedDict):
    """Of `plan_update`."""

    node: NodeShape
    ready: list[str]
    notes: NotRequired[list[str]]


class ReasonShape(TypedDict):
    """Why a step cannot begin."""

    id: str
    text: str
    waits_for: list[str]


class ReadyAnswer(TypedDict):
    """Of `plan_ready`."""

    ready: list[NodeShape]
    not_ready: list[ReasonShape]
    left_out: NotRequired[int]
    notes: NotRequired[list[str]]


def tools_over(plan: Plan) -> list[Tool]:
    """The four tools over one plan."""
    return [
        _tool(
            "plan_add",
            ADD,
            {"nodes": _list_of(_NODE)},
            ["nodes"],
            lambda given: _add(plan, **given),
            AddedAnswer,
        ),
        _tool(
            "plan_update",
            UPDATE,
            {"id": _TEXT, "status": _STATUS, "description": _TEXT, "parents": _PARENTS, "context": _CONTEXT},
            ["id"],
            lambda given: _update(plan, **given),
            UpdatedAnswer,
            hints=REPLACING,
        ),
        _tool(
            "plan_ready",
            READY,
            {"limit": {"type": "integer", "minimum": 1, "description": f"At most this many; {MAX_READY} by default."}},
            [],
            lambda given: plan.look(lambda relations: _ready(relations, int(given.get("limit", MAX_READY)))),
            ReadyAnswer,
            read_only=True,
        ),
        _tool(
            "plan_show",
            SHOW,
            {
                "ids": {"type": "array", "items": _TEXT, "description": "Only these nodes, and their children."},
                "max_tokens": {"type": "integer", "minimum": 1, "description": f"{MAX_TOKENS} by default."},
            },
            [],
            lambda given: plan.look(lambda relations: _show(relations, **given)),
            NodesAnswer,
            read_only=True,
        ),
    ]


def add_nodes(relations: Relations, nodes: Sequence[Mapping[str, Any]]) -> list[Node]:
    """Add nodes that may name each other as parents, in any order; those of work are pending unless they say more."""
    new = {node["id"]: node for node in nodes}
    if len(new) < len(nodes):
        raise InputError("the same id stands twice among the nodes: give each its own")
    above = {id: [parent for parent in node.get("parents", ()) if parent in new] for id, node in new.items()}
    try:
        added = {id: _add_one(relations, new[id]) for id in TopologicalSorter(above).static_order()}
    except CycleError as error:
        id = error.args[1][0]
        raise InputError(
            f"Adding node '{id}' with parents [{', '.join(new[id]['parents'])}] would create a cycle"
        ) from None
    return [added[id] for id in new]


def _add_one(relations: Relations, node: Mapping[str, Any]) -> Node:
    context = {**node.get("context", {}), "description": node["description"], "status": node.get("status", "pending")}
    edge_type = node.get("edge_type", "step")
    return relations.add(node["id"], parents=node.get("parents", ()), edge_type=edge_type, context=context)


def update_node(
    relations: Relations,
    id: str,
    status: str | None,
    context: Mapping[str, Any],
    parents: Sequence[str] | None = None,
) -> Node:
    """Change a node; InputError when a step is to begin that another has begun, or that still waits."""
    changed = {**context, "status": status} if status else context
    node = relations.get(id) if parents is None else relations.update(id, parents=parents)
    if changed.get("status") == "in_progress" and node and not relations.is_container(node):
        reason = relations.why_not_ready(id)
        if reason and node.status is not None:
            raise InputError(f"'{id}' cannot begin: it {reason.text.removeprefix('cannot begin: ')}")
    return relations.update(id, changed)


def _add(plan: Plan, nodes: Sequence[Mapping[str, Any]]) -> Output:
    if len(nodes) > MAX_NODES:
        raise InputError(f"{len(nodes):,} nodes at once are too many: add at most {MAX_NODES} in one call")

    def work(relations: Relations) -> Output:
        added = add_nodes(relations, nodes)
        text = f"added {_listed([node.id for node in added])}{_can_begin(relations)}"
        return Output(text, _fitted({"nodes": _nodes(added), "ready": relations.ready_ids()}, "nodes", "ready"))

    return plan.change(work)


def _update(
    plan: Plan,
    id: str,
    status: str | None = None,
    description: str | None = None,
    parents: Sequence[str] | None = None,
    context: Mapping[str, Any] | None = None,
) -> Output:
    def work(relations: Relations) -> Output:
        if not relations.has(id):
            raise NotFound(f"Node '{short(id)}' does not exist{_hint(relations, id)}")
        changed = dict(context or {})
        if description is not None:
            changed["description"] = description
        node = update_node(relations, id, status, changed, parents=parents)
        text = f"{id} is {node.status if status else 'changed'}{_can_begin(relations)}"
        return Output(text, _fitted({"node": _node(node), "ready": relations.ready_ids()}, "ready"))

    return plan.change(work)


def _ready(relations: Relations, limit: int) -> Output:
    nodes = relations.ready(limit)
    more = len(relations.ready_ids()) - len(nodes)
    lines = [f"- {node.id}: {short(node.description, 300)}" for node in nodes] or ["nothing can begin now"]
    lines += [f"({more} more can begin)"] if more else []
    waiting = relations.waiting_ids()
    reasons = [reason for id in waiting[:limit] if (reason := relations.why_not_ready(id))]
    lines += [f"{reason.id} {reason.text}" for reason in reasons]
    lines += [f"({len(waiting) - limit} more wait)"] if len(waiting) > limit else []
    told = [{**reason._asdict(), "waits_for": list(reason.waits_for)} for reason in reasons]
    return Output("\n".join(lines), _fitted({"ready": _nodes(nodes), "not_ready": told}, "ready", "not_ready"))


def _show(relations: Relations, ids: Sequence[str] = (), max_tokens: int = MAX_TOKENS) -> Output:
    for id in ids:
        if not relations.has(id):
            raise NotFound(f"Node '{short(id)}' does not exist{_hint(relations, id)}")
    text = to_context(relations, ids, show_parents=True) if ids else plan_text(relations, int(max_tokens))
    nodes = [node for id in ids if (node := relations.get(id))] if ids else relations.all()
    return Output(text, _fitted({"nodes": _nodes(nodes)}, "nodes"))


def _can_begin(relations: Relations) -> str:
    ready = relations.ready_ids()
    return f"; can begin now: {_listed(ready) if ready else 'nothing'}"


def _fitted(answer: Mapping[str, Any], main: str, *others: str) -> Schema:
    return fitted(answer, MAX_OUTPUT_BYTES, main, *others)


def _nodes(nodes: Sequence[Node]) -> list[NodeShape]:
    return [_node(node) for node in nodes]


def _node(node: Node) -> NodeShape:
    """A node for programs; of a large one, what every node has, and a note of what else there is."""
    told: Any = as_json(node)
    if json_bytes(told) > MAX_NODE_BYTES:
        share = MAX_NODE_BYTES // 3
        known = {"description": within(node.description, share), "status": node.status}
        told |= {"context": known, "parents": within(told["parents"], share)}
        told["notes"] = [f"{len(node.parents):,} parents, and a context with: {short(', '.join(node.context), 300)}"]
    shape: NodeShape = told
    return shape


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - MAX_READY} more" if len(ids) > MAX_READY else ""
    return ", ".join(ids[:MAX_READY]) + more


def _hint(relations: Relations, id: str) -> str:
    nearest = near(id, (node.id for node in relations.all()))
    return f": did you mean '{nearest[0]}'?" if nearest else "; plan_show lists what there is"


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema, "minItems": 1}


def _tool(
    name: str,
    description: str,
    properties: Schema,
    required: list[str],
    handler: Callable[[dict[str, Any]], Output],
    shape: type,
    read_only: bool = False,
    hints: Hints = LOCAL,
) -> Tool:
    from onhand.tools.schema import answer_schema

    schema = closed_schema(properties, required)
    return Tool(
        name,
        description,
        schema,
        handler,
        read_only=read_only,
        max_output_bytes=MAX_OUTPUT_BYTES,
        output_schema=answer_schema(shape),
        hints=hints,
    )
