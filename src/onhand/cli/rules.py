"""Rules: what AGENTS.md files ask for everywhere, in one place, or about one topic."""

from __future__ import annotations

import argparse

from onhand import app
from onhand.amounts import counted
from onhand.cli import terminal
from onhand.cli.parser import Parser, add_query, add_to_all
from onhand.cli.sections import explained, print_section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.corpora.rules import Rules

ALL_PROBLEMS = "onhand rules check"


def add_arguments(parser: Parser) -> None:
    """Declare `show`, `for`, `search` and `check`."""
    verbs = parser.add_verbs("verb", "VERB")
    show = verbs.add_parser("show", help="which files have rules, what they link to, and what they cost")
    show.add_argument("--prompt", action="store_true", help="print the text that belongs into the system prompt")
    for_path = verbs.add_parser("for", help="the rules for one file or directory, which need not exist yet")
    for_path.add_argument("path", metavar="PATH", help="relative to the working directory, or to --root")
    search = verbs.add_parser("search", help="the sections of rules, and of what they link to, that match a query best")
    add_query(search, "sections (rules.limit)")
    verbs.add_parser("check", help="links that lead nowhere or out, files that cannot be used; exits 1 if any")
    add_to_all(verbs, "the directory of the project (the repository's)")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked; a search without a match is a success."""
    asked = app.configured(arguments.root)
    terminal.warn(asked.warnings)
    rules = app.open_rules(asked, arguments.root)
    return _VERBS[arguments.verb](rules, arguments)


def _show(rules: Rules, arguments: argparse.Namespace) -> int:
    from onhand.tools.tokens import estimated_tokens

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
                "references": [reference._asdict() for reference in references],
                "problems": [problem._asdict() for problem in problems],
                "tokens": estimated_tokens(prompt),
            }
        )
        return 0
    terminal.warn_of(problems, ALL_PROBLEMS)
    terminal.say(f"Rule files ({len(paths)})", heading=True)
    terminal.print_table([(f"  {path}", "in every prompt" if "/" not in path else "by place") for path in paths])
    if not paths:
        terminal.say(f"  none in {rules.project}: write an AGENTS.md")
    linked = sorted({reference.path for reference in references if not reference.problem})
    broken = sum(1 for reference in references if reference.problem)
    terminal.say()
    terminal.say(f"Linked from them ({len(linked)}, and {broken} that cannot be followed)", heading=True)
    terminal.print_table([(f"  {path}",) for path in linked])
    terminal.say()
    terminal.say(f"In every prompt: about {estimated_tokens(prompt):,} tokens.")
    return 0


def _for(rules: Rules, arguments: argparse.Namespace) -> int:
    import os

    path = arguments.path if arguments.root else os.path.join(os.getcwd(), arguments.path)
    found = rules.for_path(path)
    if arguments.json:
        from onhand.corpora.found import path_rules_as_json

        terminal.print_json(path_rules_as_json(found))
        return 0
    terminal.warn_of(found.problems, ALL_PROBLEMS)
    for file in found.files:
        if file.shown_bytes:
            terminal.say(terminal.one_line(file.path), heading=True)
            terminal.say(file.text)
            terminal.say()
    terminal.warn(found.notes)
    rules_found = counted(sum(1 for file in found.files if file.shown_bytes), "rule file")
    terminal.say(f"{rules_found} for {terminal.one_line(found.path)}, the nearest last")
    return 0


def _search(rules: Rules, arguments: argparse.Namespace) -> int:
    result = rules.search(" ".join(arguments.query), arguments.limit)
    if arguments.json:
        from onhand.corpora.found import rules_as_json

        answer = rules_as_json(result)
        terminal.print_json(explained(answer, result.hits) if arguments.explain else answer)
        return 0
    terminal.warn_of(result.problems, ALL_PROBLEMS)
    terminal.warn(result.notes)
    for number, hit in enumerate(result.hits, 1):
        linked = f"  linked from {terminal.one_line(hit.linked_from[0])}" if hit.linked_from else ""
        print_section(number, hit, arguments.explain, linked)
    found = f"{len(result.hits)} of {counted(result.sections, 'section')} in {counted(result.files, 'file')}"
    terminal.say(result.reason or found)
    return 0


def _check(rules: Rules, arguments: argparse.Namespace) -> int:
    problems, checked = rules.check(), len(rules.references())
    if arguments.json:
        terminal.print_json({"links": checked, "problems": [problem._asdict() for problem in problems]})
    else:
        for problem in problems:
            terminal.say(f"{terminal.one_line(problem.path)}: {terminal.one_line(problem.reason)}")
        terminal.say(f"{counted(len(problems), 'problem')}; {counted(checked, 'link')} looked at")
    return 1 if problems else 0


_VERBS = {"show": _show, "for": _for, "search": _search, "check": _check}
