"""Render a plan as lines for a prompt, within a budget, or as the plan entries that ACP clients show.

The text of a node always stays on its own line.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from onhand.text import one_line
from onhand.tools.arguments import shorten
from onhand.tools.loading import estimated_tokens

if TYPE_CHECKING:  # Relations renders itself with this module
    from onhand.plan.relations import Node, Relations

MAX_TOKENS = 1000
INDENT = "  "
MAX_LINE_CHARS = 300  # of a node in a plan with a budget
MIN_TOKENS = 30  # for the summary and the count of what was left out
PRIORITIES = ("high", "medium", "low")
ACP_STATUSES = {"pending": "pending", "in_progress": "in_progress", "done": "completed", "failed": "pending"}
# The states of steps, the most important ones for a reader first, in case not everything fits.
_STATES = ("failed", "in_progress", "ready", "waiting", "not a step", "done")


class PlanStep(NamedTuple):
    """A node of a plan and its state."""

    node: "Node"
    state: str  # one of _STATES
    note: str  # shown in brackets


def render_nodes(relations: "Relations", ids: Iterable[str], *, show_parents: bool = False) -> str:
    """Render each of these nodes with its children indented below it, leaving out unknown ids."""
    lines = []
    for id in ids:
        if node := relations.get(id):
            lines.append(_render_node(node, show_parents))
            lines += [INDENT + _render_node(child, show_parents) for child in relations.children(id)]
    return "\n".join(lines)


def render_plan(relations: "Relations", max_tokens: int = MAX_TOKENS) -> str:
    """Render the whole plan, in an order in which it can be done, within about `max_tokens`.

    If it does not fit, the steps that failed, are in progress or are ready take precedence, and the others are counted.
    """
    steps = list(_steps(relations))
    lines = [_summarize(steps)]
    room = max(max_tokens, MIN_TOKENS) - estimated_tokens(lines[0]) - MIN_TOKENS // 2
    fitting: dict[str, str] = {}
    for step in sorted(steps, key=lambda step: _STATES.index(step.state)):
        line = _render_step(step)
        room -= estimated_tokens(line + "\n")
        if room < 0:
            break
        fitting[step.node.id] = line
    lines += [fitting[step.node.id] for step in steps if step.node.id in fitting]
    left_out = Counter(step.state for step in steps if step.node.id not in fitting)
    if left_out:
        counts = ", ".join(f"{left_out[state]} {state.replace('_', ' ')}" for state in _STATES if left_out[state])
        lines.append(f"({left_out.total()} more left out: {counts})")
    return "\n".join(lines)


def to_acp_entries(relations: "Relations") -> list[dict[str, str]]:
    """Return the steps as entries of an ACP plan: content, priority and status.

    ACP has no status for failure, so a failed step is pending, and its content says that it failed.
    """
    critical = {node.id for node in relations.critical_path()}
    return [
        {
            "content": one_line(step.node.description or step.node.id)
            + (" (failed)" if step.state == "failed" else ""),
            "priority": _priority(step.node, critical),
            "status": ACP_STATUSES[step.node.status or "pending"],
        }
        for step in _steps(relations)
        if step.state != "not a step"
    ]


def _steps(relations: "Relations") -> Iterator[PlanStep]:
    nodes = {node.id: node for node in relations.all()}
    for id in relations.topological():
        node, reason = nodes[id], relations.why_not_ready(id)
        if relations.is_container(node) or node.status is None:
            yield PlanStep(node, "not a step", node.status or "")
        elif reason is None:
            yield PlanStep(node, "ready", "ready")
        elif node.status == "pending":
            yield PlanStep(node, "waiting", reason.text)
        else:
            yield PlanStep(node, node.status, node.status)


def _summarize(steps: Iterable[PlanStep]) -> str:
    states = Counter(step.state for step in steps)
    work = states.total() - states["not a step"]
    if not work:
        return "the plan has no steps yet"
    parts = [f"{states['done']} of {work} steps done"]
    open_states = ("in_progress", "ready", "waiting", "failed")
    parts += [f"{states[state]} {state.replace('_', ' ')}" for state in open_states if states[state]]
    return ", ".join(parts)


def _render_step(step: PlanStep) -> str:
    node = step.node
    words = f": {node.description}" if node.description else ""
    note = f" [{shorten(step.note, MAX_LINE_CHARS)}]" if step.note else ""
    return shorten(f"- {node.edge_type} {node.id}{words}", MAX_LINE_CHARS) + note


def _render_node(node: "Node", show_parents: bool) -> str:
    status = f" [{node.status}]" if node.status else ""
    parents = f" (parents: {', '.join(node.parents)})" if show_parents and node.parents else ""
    return f"{node.edge_type}: {one_line(node.description)}{status}{parents}"


def _priority(node: "Node", critical: set[str]) -> str:
    priority: Any = node.context.get("priority")
    if priority in PRIORITIES:
        return str(priority)
    return "high" if node.id in critical else "medium"
