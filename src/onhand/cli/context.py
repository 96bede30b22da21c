"""Show what is pinned into every prompt and what is searchable, and search it."""

from __future__ import annotations

from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.corpora.context import Context, PinnedFile
from onhand.record import to_json
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from onhand.cli.parser import Parser
    from onhand.corpora.context import ContextResult, SectionHit
    from onhand.corpora.rules import RuleHit, RulesResult

MAX_SHOWN_LINES = 12  # of a section, in a terminal; a pipe gets all of it
ALL_PROBLEMS = "onhand context show --json"
_NO_ROOM = "not even one line fits in context.manifest_max_tokens"


def add_arguments(parser: Parser) -> None:
    """Declare `show`, `manifest` and `search`."""
    from onhand.cli.parser import add_query, add_to_all

    verbs = parser.add_verbs("verb", "VERB")
    show = verbs.add_parser("show", help="show what is pinned, what is searchable, and what it costs")
    show.add_argument("--prompt", action="store_true", help="print the text for the system prompt")
    verbs.add_parser("manifest", help="print the list of searchable files as it appears in the system prompt")
    search = verbs.add_parser("search", help="find the sections that match a query best")
    add_query(search, "sections (default: context.limit)")
    add_to_all(verbs, "a project directory, or a directory of context files")


def run(arguments: argparse.Namespace) -> int:
    """Run the verb; a search without hits is a success."""
    context = open_project(arguments.root).context
    if arguments.verb == "search":
        _search(context, arguments.query, arguments.limit, arguments.explain, arguments.json)
    elif arguments.verb == "manifest":
        _manifest(context, arguments)
    else:
        _show(context, arguments)
    return 0


def search(query: list[str]) -> int:
    """Search without options; parsing a command line would cost a tenth of a search."""
    _search(open_project().context, query)
    return 0


def _search(
    context: Context, query: list[str], limit: int | None = None, explain: bool = False, as_json: bool = False
) -> None:
    result = context.search(" ".join(query), limit)
    if as_json:
        terminal.print_json(to_json(result))
        return
    print_sections(result, explain, ALL_PROBLEMS)


def _manifest(context: Context, arguments: argparse.Namespace) -> None:
    from onhand.tools.loading import estimated_tokens

    text = context.manifest()
    if arguments.json:
        terminal.print_json({"manifest": text, "tokens": estimated_tokens(text)})
    elif text:
        terminal.say(text)
    else:
        terminal.say(f"The manifest is empty: {context.why_nothing_is_searchable() or _NO_ROOM}")


def _show(context: Context, arguments: argparse.Namespace) -> None:
    from onhand.tools.loading import BYTES_PER_TOKEN, estimated_tokens

    if arguments.prompt:
        text = context.prompt()
        if arguments.json:
            terminal.print_json({"prompt": text, "tokens": estimated_tokens(text)})
        else:
            terminal.say(text)
        return
    pinned, searchable, problems = context.pinned(), context.searchable(), context.problems()
    everything = sum(file.bytes for file in pinned.files) + sum(source.bytes for source in searchable)
    tokens = {
        "pinned": estimated_tokens(pinned.text),
        "manifest": estimated_tokens(context.manifest()),
        "everything": -(-everything // BYTES_PER_TOKEN),
    }
    if arguments.json:
        terminal.print_json(
            {
                "pinned": [_pinned_as_json(file) for file in pinned.files],
                "pinned_max_bytes": pinned.max_bytes,
                "missing": list(pinned.missing),
                "searchable": to_json(searchable),
                "problems": to_json(problems),
                "tokens": tokens,
            }
        )
        return
    terminal.warn_of(problems, ALL_PROBLEMS)
    used = sum(file.shown_bytes for file in pinned.files)
    terminal.say(f"Pinned into every prompt ({used:,} of {pinned.max_bytes:,} bytes)", heading=True)
    terminal.print_table([(f"  {file.path}", f"{file.bytes:,} B", _cut_note(file)) for file in pinned.files])
    for path in pinned.missing:
        terminal.say(f"  {terminal.escape_newlines(path)}  does not exist")
    sections = sum(source.sections for source in searchable)
    terminal.say()
    found = f"{quantity(sections, 'section')} in {quantity(len(searchable), 'file')}"
    terminal.say(f"Searchable ({found})", heading=True)
    if reason := context.why_nothing_is_searchable():
        terminal.say(f"  {reason}")
    terminal.print_table(
        [(f"  {source.path}", f"{source.bytes:,} B", quantity(source.sections, "section")) for source in searchable]
    )
    terminal.say()
    terminal.say(
        f"In every prompt: about {tokens['pinned'] + tokens['manifest']:,} tokens ({tokens['pinned']:,} pinned, "
        f"{tokens['manifest']:,} manifest) instead of {tokens['everything']:,} for everything."
    )


def _pinned_as_json(file: PinnedFile) -> dict[str, Any]:
    return {"path": file.path, "bytes": file.bytes, "shown_bytes": file.shown_bytes}


def _cut_note(file: PinnedFile) -> str:
    if file.shown_bytes == file.bytes:
        return "whole"
    return f"cut: {file.bytes - file.shown_bytes:,} B over the budget" if file.shown_bytes else "left out: no room"


def print_sections(result: ContextResult | RulesResult, explain: bool, all_problems: str) -> None:
    """Print the sections that a search found, and how many were searched; `all_problems` lists every problem."""
    terminal.warn_of(result.problems, all_problems)
    terminal.warn(result.notes)
    hits: tuple[SectionHit | RuleHit, ...] = result.hits
    for number, hit in enumerate(hits, 1):
        section, linked_from = hit.section, getattr(hit, "linked_from", ())
        place = f"{terminal.escape_newlines(hit.path)}:{section.first_line}-{section.last_line}"
        linked = f"  linked from {terminal.escape_newlines(linked_from[0])}" if linked_from else ""
        heading = f"{number}. {' › '.join(section.heading_path)}  {place}  score {hit.score:.2f}{linked}"
        terminal.say(heading, heading=True)
        for contribution in hit.contributions if explain else ():
            terminal.say(f"   {contribution.score:8.4f}  {contribution.term}  in {contribution.field}")
        terminal.print_excerpt(section.text, MAX_SHOWN_LINES)
    found = f"{len(result.hits)} of {quantity(result.sections, 'section')} in {quantity(result.files, 'file')}"
    terminal.say(result.reason or found)
