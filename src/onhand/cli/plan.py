"""A plan of steps that wait for each other, in a file: what is done, what can begin, and why the rest cannot."""

from __future__ import annotations

import argparse

from onhand.cli import terminal
from onhand.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from onhand.memory.node import Node
    from onhand.memory.plan import Plan
    from onhand.memory.relations import Relations

STATUSES = ("pending", "in_progress", "done", "failed")
MAX_TOKENS = 4000  # of a shown plan, unless the command says otherwise


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    added = verbs.add_parser("add", help="add a step or, with --type plan, what holds steps together")
    added.add_argument("id", metavar="ID", help="a short name")
    added.add_argument("description", metavar="WORDS", nargs="+", help="what is to be done")
    added.add_argument("--type", metavar="TYPE", default="step", help="plan, step or a word of your own (step)")
    added.add_argument("--status", choices=STATUSES, default="pending", help="how far it is (pending)")
    updated = verbs.add_parser("update", help="say how far a step is, or change what it says or waits for")
    updated.add_argument("id", metavar="ID", help="the step")
    updated.add_argument("--status", choices=STATUSES, help="in_progress is refused when it is begun already or waits")
    updated.add_argument("--description", metavar="WORDS", help="what is to be done")
    for verb in (added, updated):
        verb.add_argument(
            "--parent", metavar="ID", action="append", help="comes before it, or contains it; may be repeated"
        )
    ready = verbs.add_parser("ready", help="the steps that can begin now")
    ready.add_argument("-k", "--limit", metavar="N", type=_count, help="at most this many")
    ready.add_argument("--why", action="store_true", help="also why each other step cannot")
    shown = verbs.add_parser("show", help="the plan in an order in which it can be done")
    shown.add_argument("ids", metavar="ID", nargs="*", help="only these, with their children")
    shown.add_argument("--parents", action="store_true", help="with the parents of each, when ids are given")
    shown.add_argument("--critical", action="store_true", help="only the longest chain of steps that are not done")
    shown.add_argument("--acp", action="store_true", help="as the entries of an ACP plan, in JSON")
    shown.add_argument("--max-tokens", metavar="N", type=_count, default=MAX_TOKENS, help=f"about ({MAX_TOKENS})")
    removed = verbs.add_parser("remove", help="take a step out")
    removed.add_argument("id", metavar="ID", help="the step")
    removed.add_argument("--descendants", action="store_true", help="and what hangs on nothing else")
    verbs.add_parser("compact", help="write the file anew, without what has been replaced")
    for verb in verbs.choices.values():
        verb.add_argument("--file", metavar="PATH", help="the plan's file (.onhand/plan.journal of the project)")
        verb.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    from onhand import app

    asked = app.configured()
    terminal.warn(asked.warnings)
    return _VERBS[arguments.verb](app.open_plan(asked, arguments.file), arguments)


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
    from onhand.memory.plan_tool import update_node

    context = {} if arguments.description is None else {"description": arguments.description}
    node = plan.change(
        lambda relations: update_node(relations, arguments.id, arguments.status, context, parents=arguments.parent)
    )
    return _print_changed(plan, arguments, node, f"{node.id} is {node.status}")


def _print_changed(plan: Plan, arguments: argparse.Namespace, node: Node, text: str) -> int:
    from onhand.memory.node import as_json

    ready = plan.look(lambda relations: relations.ready_ids())
    if arguments.json:
        terminal.print_json({"node": as_json(node), "ready": ready})
    else:
        more = f" and {len(ready) - 5} more" if len(ready) > 5 else ""
        terminal.say(f"{text}; can begin now: {', '.join(ready[:5]) or 'nothing'}{more}")
    return 0


def _ready(plan: Plan, arguments: argparse.Namespace) -> int:
    from onhand.memory.node import as_json, on_one_line

    def found(relations: Relations) -> tuple[list[Node], list[Any]]:
        return relations.ready(arguments.limit), relations.not_ready() if arguments.why else []

    nodes, reasons = plan.look(found)
    if arguments.json:
        shown: dict[str, Any] = {"ready": [as_json(node) for node in nodes]}
        if arguments.why:
            shown["not_ready"] = [reason._asdict() for reason in reasons]
        terminal.print_json(shown)
        return 0
    terminal.print_table([(node.id, on_one_line(node.description)) for node in nodes])
    if not nodes:
        terminal.say("nothing can begin now")
    for reason in reasons:
        terminal.say(f"{reason.id} {reason.text}")
    return 0


def _show(plan: Plan, arguments: argparse.Namespace) -> int:
    from onhand.errors import NotFound
    from onhand.memory.node import as_json
    from onhand.memory.order import critical_path
    from onhand.memory.render import acp_plan, plan_text, to_context

    for id in arguments.ids:
        if not plan.look(lambda relations, id=id: relations.has(id)):  # type: ignore[misc]
            raise NotFound(f"Node '{id}' does not exist")
    if arguments.acp:
        terminal.print_json(plan.look(acp_plan))
    elif arguments.json or arguments.critical:
        nodes = plan.look(critical_path if arguments.critical else _chosen(arguments.ids))
        if arguments.json:
            terminal.print_json([as_json(node) for node in nodes])
        else:
            terminal.print_table([(node.id, node.status or "", node.description) for node in nodes])
    elif arguments.ids:
        terminal.say(plan.look(lambda relations: to_context(relations, arguments.ids, show_parents=arguments.parents)))
    else:
        terminal.say(plan.look(lambda relations: plan_text(relations, arguments.max_tokens)))
    return 0


def _chosen(ids: list[str]) -> Any:
    return lambda relations: [relations.get(id) for id in ids] if ids else relations.all()


def _remove(plan: Plan, arguments: argparse.Namespace) -> int:
    removed = plan.change(lambda relations: relations.remove(arguments.id, remove_descendants=arguments.descendants))
    if arguments.json:
        terminal.print_json({"removed": removed})
    else:
        terminal.say(f"removed {', '.join(removed)}" if removed else f"there is no {arguments.id}")
    return 0 if removed else 1


def _compact(plan: Plan, arguments: argparse.Namespace) -> int:
    plan.compact()
    size = plan.look(lambda relations: relations.size)
    if arguments.json:
        terminal.print_json({"nodes": size})
    else:
        terminal.say(f"the file has each of its {size:,} nodes once")
    return 0


_VERBS = {"add": _add, "update": _update, "ready": _ready, "show": _show, "remove": _remove, "compact": _compact}


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not a whole number")
    return int(text)
