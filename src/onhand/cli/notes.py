"""Notes: what agents wrote down for their own future. List, read, search, write and delete them."""

from __future__ import annotations

import argparse

from onhand import app
from onhand.amounts import counted
from onhand.cli import terminal
from onhand.cli.parser import Parser, add_query, add_to_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.corpora.notes import Notes

MAX_SHOWN_LINES = 12  # of a note, in a terminal; a pipe gets all of it
MAX_READ_BYTES = 1024 * 1024  # from a pipe: what is longer is no note, and is refused as that
ALL_PROBLEMS = "onhand notes list --json"


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    verbs.add_parser("list", help="every note, and files that are none")
    show = verbs.add_parser("show", help="one note")
    show.add_argument("name", metavar="NAME", help="the name that the list shows")
    search = verbs.add_parser("search", help="the notes that match a query best")
    add_query(search, "notes (notes.limit)", explains=False)
    write = verbs.add_parser("write", help="keep a note; one of the same name is corrected")
    write.add_argument("name", metavar="NAME", help="a few words")
    write.add_argument("body", metavar="TEXT", nargs="?", help="the note, in Markdown; from the input if not given")
    write.add_argument("--description", metavar="LINE", required=True, help="what the note is about")
    write.add_argument("--type", metavar="TYPE", help="fact, preference or decision (what it was, or fact)")
    write.add_argument("--source", metavar="WHO", default="command line", help="who says so")
    delete = verbs.add_parser("delete", help="take a note out")
    delete.add_argument("name", metavar="NAME", help="the name that the list shows")
    add_to_all(verbs, "the directory of the project")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked; a search without a match is a success."""
    asked = app.configured(arguments.root)
    terminal.warn(asked.warnings)
    return _VERBS[arguments.verb](app.open_notes(asked), arguments)


def _list(notes: Notes, arguments: argparse.Namespace) -> int:
    found, problems = notes.all(), notes.problems()
    if arguments.json:
        from onhand.corpora.found import note_as_json

        terminal.print_json(
            {
                "notes": [note_as_json(note) for note in found],
                "problems": [problem._asdict() for problem in problems],
            }
        )
        return 0
    terminal.warn_of(problems, ALL_PROBLEMS)
    terminal.print_table([(note.name, note.type, note.updated, note.description) for note in found])
    terminal.say(f"{counted(len(found), 'note')} in {notes.directory}, written by agents")
    return 0


def _show(notes: Notes, arguments: argparse.Namespace) -> int:
    from onhand.corpora.notes import MARK
    from onhand.errors import NotFound

    try:
        note = notes.get(arguments.name)
    except NotFound as error:
        terminal.complain(f"onhand: {error}")
        return 1
    if arguments.json:
        from onhand.corpora.found import note_as_json

        terminal.print_json(note_as_json(note))
        return 0
    terminal.say(f"{note.name} ({MARK})", heading=True)
    rows = [("description", note.description), ("type", note.type), ("source", note.source)]
    terminal.print_table([*rows, ("created", note.created), ("updated", note.updated)])
    terminal.say()
    terminal.say(note.body)
    return 0


def _search(notes: Notes, arguments: argparse.Namespace) -> int:
    result = notes.search(" ".join(arguments.query), arguments.limit)
    if arguments.json:
        from onhand.corpora.found import notes_as_json

        terminal.print_json(notes_as_json(result))
        return 0
    terminal.warn_of(result.problems, ALL_PROBLEMS)
    terminal.warn(result.notes)
    for number, (note, score, _) in enumerate(result.hits, 1):
        terminal.say(f"{number}. {note.name}: {note.description}  score {score:.2f}", heading=True)
        terminal.say(f"   {note.type}, written by {note.source}, an agent's note, {note.updated}")
        terminal.print_excerpt(note.body, MAX_SHOWN_LINES)
    terminal.say(result.reason or f"{len(result.hits)} of {counted(result.searched, 'note')}")
    return 0


def _write(notes: Notes, arguments: argparse.Namespace) -> int:
    body = _typed() if arguments.body is None else arguments.body
    kept = notes.write(arguments.name, arguments.description, body, arguments.type, arguments.source)
    note, replaced = kept
    if arguments.json:
        from onhand.corpora.found import kept_as_json

        terminal.print_json(kept_as_json(kept))
    else:
        terminal.say(f"{'corrected' if replaced else 'kept'} {note.name!r} in {notes.directory}: {note.path}")
    return 0


def _typed() -> str:
    import sys

    return sys.stdin.buffer.read(MAX_READ_BYTES).decode("utf-8", "replace")


def _delete(notes: Notes, arguments: argparse.Namespace) -> int:
    from onhand.errors import NotFound

    try:
        note = notes.delete(arguments.name)
    except NotFound as error:
        terminal.complain(f"onhand: {error}")
        return 1
    if arguments.json:
        from onhand.corpora.found import note_as_json

        terminal.print_json({"deleted": note_as_json(note)})
    else:
        terminal.say(f"deleted {note.name!r}, which said: {note.description}")
    return 0


_VERBS = {"list": _list, "show": _show, "search": _search, "write": _write, "delete": _delete}
