"""Manage a plan of steps that depend on each other: see what is done, what can begin, and why the rest cannot."""

from __future__ import annotations

import argparse

from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, add_to_all, whole_number
from onhand.errors import NotFound
from onhand.text import one_line, quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from onhand.plan.plan import Plan
    from onhand.plan.relations import Node, Relations

STATUSES = ("pending", "in_progress", "done", "failed")
MAX_TOKENS = 4000


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    add = verbs.add_parser("add", help="add a step or, with --type plan, a group of steps")
    add.add_argument("id", metavar="ID", help="a short name")
    add.add_argument("description", metavar="WORDS", nargs="+", help="what to do")
    add.add_argument("--type", metavar="TYPE", default="step", help="plan, step or your own type (default: step)")
    add.add_argument("--status", choices=STATUSES, default="pending", help="the status (default: pending)")
    update = verbs.add_parser("update", help="change the status, description or parents of a step")
    update.add_argument("id", metavar="ID", help="the step")
    update.add_argument("--status", choices=STATUSES, help="the new status; a step must be ready to be in_progress")
    update.add_argument("--description", metavar="WORDS", help="what to do")
    for verb in (add, update):
        verb.add_argument(
            "--parent", metavar="ID", action="append", help="a step before it or a group around it (repeatable)"
        )
    ready = verbs.add_parser("ready", help="list the steps that can begin now")
    ready.add_argument("-k", "--limit", metavar="N", type=whole_number(), help="list at most N steps")
    ready.add_argument("--why", action="store_true", help="also show why the other steps cannot begin")
    show = verbs.add_parser("show", help="show the steps in an order in which they can be done")
    show.add_argument("ids", metavar="ID", nargs="*", help="show only these and their children")
    show.add_argument("--parents", action="store_true", help="also show the parents of the given ids")
    show.add_argument("--critical", action="store_true", help="show only the longest chain of unfinished steps")
    show.add_argument("--acp", action="store_true", help="print the entries of an ACP plan as JSON")
    show.add_argument(
        "--max-tokens",
        metavar="N",
        type=whole_number(),
        default=MAX_TOKENS,
        help=f"print about N tokens at most (default: {MAX_TOKENS})",
    )
    remove = verbs.add_parser("remove", help="remove a step")
    remove.add_argument("id", metavar="ID", help="the step")
    remove.add_argument("--descendants", action="store_true", help="also remove steps that depend only on it")
    verbs.add_parser("compact", help="rewrite the file without outdated entries")
    for verb in verbs.choices.values():
        verb.add_argument("--file", metavar="PATH", help="the file of the plan (default: .onhand/plan.journal)")
    add_to_all(verbs)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    from onhand.plan.plan import Plan

    project = open_project()
    return _VERBS[arguments.verb](Plan(arguments.file) if arguments.file else project.plan, arguments)


def _add(plan: Plan, arguments: argparse.Namespace) -> int:
    node = plan.change(
        lambda relations: relations.add(
            arguments.id,
            parents=arguments.parent or (),
            edge_type=arguments.type,
            context={"description": " ".join(arguments.description), "status": arguments.status},
        )
    )
    return _print_changed(plan, arguments, node, f"added {node.id}")


def _update(plan: Plan, arguments: argparse.Namespace) -> int:
    from onhand.plan.tools import update_node

    context = {} if arguments.description is None else {"description": arguments.description}
    node = plan.change(
        lambda relations: update_node(relations, arguments.id, arguments.status, context, parents=arguments.parent)
    )
    return _print_changed(plan, arguments, node, f"{node.id} is {node.status}")


def _print_changed(plan: Plan, arguments: argparse.Namespace, node: Node, text: str) -> int:
    ready = plan.read(lambda relations: relations.ready_ids())
    if arguments.json:
        terminal.print_json({"node": node.to_json(), "ready": ready})
    else:
        more = f" and {len(ready) - 5} more" if len(ready) > 5 else ""
        terminal.say(f"{text}; ready: {', '.join(ready[:5]) or 'nothing'}{more}")
    return 0


def _ready(plan: Plan, arguments: argparse.Namespace) -> int:
    def read_ready(relations: Relations) -> tuple[list[Node], list[Any]]:
        return relations.ready(arguments.limit), relations.not_ready() if arguments.why else []

    nodes, reasons = plan.read(read_ready)
    if arguments.json:
        answer: dict[str, Any] = {"ready": [node.to_json() for node in nodes]}
        if arguments.why:
            answer["not_ready"] = [reason._asdict() for reason in reasons]
        terminal.print_json(answer)
        return 0
    terminal.print_table([(node.id, one_line(node.description)) for node in nodes])
    if not nodes:
        terminal.say("No step can begin now.")
    for reason in reasons:
        terminal.say(f"{reason.id} {reason.text}")
    return 0


def _show(plan: Plan, arguments: argparse.Namespace) -> int:
    from onhand.plan.render import to_acp_entries

    for id in arguments.ids:
        if not plan.read(lambda relations, id=id: relations.has(id)):  # type: ignore[misc]
            raise NotFound(f"Node '{id}' does not exist")
    if arguments.acp:
        terminal.print_json(plan.read(to_acp_entries))
    elif arguments.json or arguments.critical:
        nodes = plan.read(lambda graph: graph.critical_path() if arguments.critical else _select(graph, arguments.ids))
        if arguments.json:
            terminal.print_json([node.to_json() for node in nodes])
        else:
            terminal.print_table([(node.id, node.status or "", node.description) for node in nodes])
    else:
        terminal.say(
            plan.to_context(arguments.ids or None, show_parents=arguments.parents, max_tokens=arguments.max_tokens)
        )
    return 0


def _select(graph: Relations, ids: list[str]) -> list[Node]:
    return [node for id in ids if (node := graph.get(id))] if ids else graph.all()


def _remove(plan: Plan, arguments: argparse.Namespace) -> int:
    removed = plan.change(lambda relations: relations.remove(arguments.id, remove_descendants=arguments.descendants))
    if arguments.json:
        terminal.print_json({"removed": removed})
    else:
        terminal.say(f"removed {', '.join(removed)}" if removed else f"step {arguments.id!r} does not exist")
    return 0 if removed else 1


def _compact(plan: Plan, arguments: argparse.Namespace) -> int:
    plan.compact()
    size = plan.read(lambda relations: relations.size)
    if arguments.json:
        terminal.print_json({"nodes": size})
    else:
        terminal.say(f"compacted the file to {quantity(size, 'node')}")
    return 0


_VERBS = {"add": _add, "update": _update, "ready": _ready, "show": _show, "remove": _remove, "compact": _compact}
