"""Show, search and check the rules in AGENTS.md files."""

from __future__ import annotations

import argparse

from onhand.cli import terminal
from onhand.cli.context import print_sections
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, add_query, add_to_all
from onhand.record import to_json
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.corpora.rules import Rules

ALL_PROBLEMS = "onhand rules check"


def add_arguments(parser: Parser) -> None:
    """Declare `show`, `for`, `search` and `check`."""
    verbs = parser.add_verbs("verb", "VERB")
    show = verbs.add_parser("show", help="show the rule files, the files they link to, and what they cost")
    show.add_argument("--prompt", action="store_true", help="print the text for the system prompt")
    for_path = verbs.add_parser("for", help="show the rules for a file or directory, even one that does not exist yet")
    for_path.add_argument("path", metavar="PATH", help="a path relative to the working directory or to --root")
    search = verbs.add_parser("search", help="search the rules and the files they link to")
    add_query(search, "sections (default: rules.limit)")
    verbs.add_parser("check", help="report broken links and unusable files; exits with 1 if there are any")
    add_to_all(verbs, "the directory with the rules (default: the repository)")


def run(arguments: argparse.Namespace) -> int:
    """Run the verb; a search without hits is a success."""
    project = open_project(arguments.root)
    rules = project.rules_of(arguments.root) if arguments.root else project.rules
    return _VERBS[arguments.verb](rules, arguments)


def _show(rules: Rules, arguments: argparse.Namespace) -> int:
    from onhand.tools.loading import estimated_tokens

    prompt = rules.prompt()
    if arguments.prompt:
        if arguments.json:
            terminal.print_json({"prompt": prompt, "tokens": estimated_tokens(prompt)})
        else:
            terminal.say(prompt)
        return 0
    paths, references, problems = rules.paths(), rules.references(), rules.problems()
    if arguments.json:
        terminal.print_json(
            {
                "files": list(paths),
                "references": to_json(references),
                "problems": to_json(problems),
                "tokens": estimated_tokens(prompt),
            }
        )
        return 0
    terminal.warn_of(problems, ALL_PROBLEMS)
    terminal.say(f"Rule files ({len(paths)})", heading=True)
    terminal.print_table(
        [(f"  {path}", "in every prompt" if "/" not in path else "for its directory") for path in paths]
    )
    if not paths:
        terminal.say(f"  none in {rules.project}: create an AGENTS.md")
    linked = sorted({reference.path for reference in references if not reference.problem})
    broken = sum(1 for reference in references if reference.problem)
    terminal.say()
    terminal.say(f"Linked files ({len(linked)}, and {broken} broken links)", heading=True)
    terminal.print_table([(f"  {path}",) for path in linked])
    terminal.say()
    terminal.say(f"In every prompt: about {estimated_tokens(prompt):,} tokens.")
    return 0


def _for(rules: Rules, arguments: argparse.Namespace) -> int:
    import os

    path = arguments.path if arguments.root else os.path.join(os.getcwd(), arguments.path)
    found = rules.for_path(path)
    if arguments.json:
        terminal.print_json(to_json(found))
        return 0
    terminal.warn_of(found.problems, ALL_PROBLEMS)
    for file in found.files:
        if file.shown_bytes:
            terminal.say(terminal.escape_newlines(file.path), heading=True)
            terminal.say(file.text)
            terminal.say()
    terminal.warn(found.notes)
    rules_found = quantity(sum(1 for file in found.files if file.shown_bytes), "rule file")
    terminal.say(f"{rules_found} for {terminal.escape_newlines(found.path)}, nearest last")
    return 0


def _search(rules: Rules, arguments: argparse.Namespace) -> int:
    result = rules.search(" ".join(arguments.query), arguments.limit)
    if arguments.json:
        terminal.print_json(to_json(result))
        return 0
    print_sections(result, arguments.explain, ALL_PROBLEMS)
    return 0


def _check(rules: Rules, arguments: argparse.Namespace) -> int:
    problems, checked = rules.check(), len(rules.references())
    if arguments.json:
        terminal.print_json({"links": checked, "problems": to_json(problems)})
    else:
        for problem in problems:
            terminal.say(f"{terminal.escape_newlines(problem.path)}: {terminal.escape_newlines(problem.reason)}")
        terminal.say(f"{quantity(len(problems), 'problem')}; {quantity(checked, 'link')} checked")
    return 1 if problems else 0


_VERBS = {"show": _show, "for": _for, "search": _search, "check": _check}
