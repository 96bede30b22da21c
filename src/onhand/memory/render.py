"""How is a plan shown? As lines for a prompt, within a budget, and as the entries that ACP clients show.

Whatever a node says stays on its own line. It reads a graph and never changes it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from onhand.memory.node import Node, on_one_line
from onhand.memory.order import critical_path
from onhand.memory.relations import Relations
from onhand.tools.problems import short
from onhand.tools.tokens import estimated_tokens

INDENT = "  "
MAX_LINE_CHARS = 300  # of a node in a plan that has to fit
MIN_TOKENS = 30  # for the summary, and for saying what was left out
PRIORITIES = ("high", "medium", "low")
ACP_STATUSES = {"pending": "pending", "in_progress": "in_progress", "done": "completed", "failed": "pending"}
# What a reader needs first, when not everything fits.
_IMPORTANCE = ("failed", "in_progress", "ready", "waiting", "no work", "done")


class Step(NamedTuple):
    """A node of a plan and where it stands."""

    node: Node
    state: str  # one of _IMPORTANCE
    note: str  # what stands in brackets


def to_context(relations: Relations, ids: Iterable[str], *, show_parents: bool = False) -> str:
    """Each of these nodes and, indented, its children; an id that is not there is left out."""
    lines = []
    for id in ids:
        if node := relations.get(id):
            lines.append(_line(node, show_parents))
            lines += [INDENT + _line(child, show_parents) for child in relations.children(id)]
    return "\n".join(lines)


def plan_text(relations: Relations, max_tokens: int = 1000) -> str:
    """The whole plan in an order in which it can be done, within about so many tokens.

    When not all of it fits, what failed, is in progress or ready stays, and the rest is counted.
    """
    steps = list(_steps(relations))
    lines = [_summary(relations, steps)]
    room = max(max_tokens, MIN_TOKENS) - estimated_tokens(lines[0]) - MIN_TOKENS // 2
    shown: dict[str, str] = {}
    for step in sorted(steps, key=lambda step: _IMPORTANCE.index(step.state)):
        line = _plan_line(step)
        room -= estimated_tokens(line + "\n")
        if room < 0:
            break
        shown[step.node.id] = line
    lines += [shown[step.node.id] for step in steps if step.node.id in shown]
    left_out = Counter(step.state for step in steps if step.node.id not in shown)
    if left_out:
        counted = ", ".join(f"{left_out[state]} {_said(state)}" for state in _IMPORTANCE if left_out[state])
        lines.append(f"({left_out.total()} more left out: {counted})")
    return "\n".join(lines)


def acp_plan(relations: Relations) -> list[dict[str, str]]:
    """The steps as entries of an ACP plan: content, priority and status.

    ACP knows no failure: a failed step is pending, and its content says that it failed.
    """
    critical = {node.id for node in critical_path(relations)}
    return [
        {
            "content": on_one_line(step.node.description or step.node.id)
            + (" (failed)" if step.state == "failed" else ""),
            "priority": _priority(step.node, critical),
            "status": ACP_STATUSES[step.node.status or "pending"],
        }
        for step in _steps(relations)
        if step.state != "no work"
    ]


def _steps(relations: Relations) -> Iterator[Step]:
    nodes = {node.id: node for node in relations.all()}
    for id in relations.topological():
        node, reason = nodes[id], relations.why_not_ready(id)
        if relations.is_container(node) or node.status is None:
            yield Step(node, "no work", node.status or "")
        elif reason is None:
            yield Step(node, "ready", "ready")
        elif node.status == "pending":
            yield Step(node, "waiting", reason.text)
        else:
            yield Step(node, node.status, node.status)


def _summary(relations: Relations, steps: Iterable[Step]) -> str:
    states = Counter(step.state for step in steps)
    work = states.total() - states["no work"]
    if not work:
        return "the plan has no steps yet"
    parts = [f"{states['done']} of {work} steps done"]
    told = ("in_progress", "ready", "waiting", "failed")
    parts += [f"{states[state]} {_said(state)}" for state in told if states[state]]
    return ", ".join(parts)


def _said(state: str) -> str:
    return state.replace("_", " ")


def _plan_line(step: Step) -> str:
    node = step.node
    words = f": {node.description}" if node.description else ""
    note = f" [{short(step.note, MAX_LINE_CHARS)}]" if step.note else ""
    return short(f"- {node.edge_type} {node.id}{words}", MAX_LINE_CHARS) + note


def _line(node: Node, show_parents: bool) -> str:
    status = f" [{node.status}]" if node.status else ""
    parents = f" (parents: {', '.join(node.parents)})" if show_parents and node.parents else ""
    return f"{node.edge_type}: {on_one_line(node.description)}{status}{parents}"


def _priority(node: Node, critical: set[str]) -> str:
    asked: Any = node.context.get("priority")
    if asked in PRIORITIES:
        return str(asked)
    return "high" if node.id in critical else "medium"
