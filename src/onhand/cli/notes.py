"""List, read, search, write and delete the notes that agents keep for later."""

from __future__ import annotations

import argparse

from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, add_query, add_to_all
from onhand.record import to_json
from onhand.text import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.corpora.notes import Notes

MAX_SHOWN_LINES = 12  # of a note, in a terminal; a pipe gets all of it
MAX_READ_BYTES = 1024 * 1024  # from a pipe; longer input is refused as too long for a note
ALL_PROBLEMS = "onhand notes list --json"


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    verbs.add_parser("list", help="list every note, and every file that is not a valid note")
    show = verbs.add_parser("show", help="show one note")
    show.add_argument("name", metavar="NAME", help="a name from the list")
    search = verbs.add_parser("search", help="find the notes that match a query best")
    add_query(search, "notes (default: notes.limit)", explains=False)
    write = verbs.add_parser("write", help="write a note, replacing the one with the same name")
    write.add_argument("name", metavar="NAME", help="a name of a few words")
    write.add_argument("body", metavar="TEXT", nargs="?", help="the Markdown text (default: read standard input)")
    write.add_argument("--description", metavar="LINE", required=True, help="what the note is about, in one line")
    write.add_argument("--type", metavar="TYPE", help="fact, preference or decision (default: fact)")
    write.add_argument("--source", metavar="WHO", default="command line", help="who wrote it (default: command line)")
    delete = verbs.add_parser("delete", help="delete a note")
    delete.add_argument("name", metavar="NAME", help="a name from the list")
    add_to_all(verbs, "the project directory")


def run(arguments: argparse.Namespace) -> int:
    """Run the verb; a search without hits is a success."""
    return _VERBS[arguments.verb](open_project(arguments.root).notes, arguments)


def _list(notes: Notes, arguments: argparse.Namespace) -> int:
    found, problems = notes.all(), notes.problems()
    if arguments.json:
        terminal.print_json({"notes": to_json(found), "problems": to_json(problems)})
        return 0
    terminal.warn_of(problems, ALL_PROBLEMS)
    terminal.print_table([(note.name, note.type, note.updated, note.description) for note in found])
    terminal.say(f"{quantity(len(found), 'note')} in {notes.directory}, written by agents")
    return 0


def _show(notes: Notes, arguments: argparse.Namespace) -> int:
    from onhand.corpora.notes import MARK

    note = notes.get(arguments.name)
    if arguments.json:
        terminal.print_json(to_json(note))
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
        terminal.print_json(to_json(result))
        return 0
    terminal.warn_of(result.problems, ALL_PROBLEMS)
    terminal.warn(result.notes)
    for number, (note, score, _) in enumerate(result.hits, 1):
        terminal.say(f"{number}. {note.name}: {note.description}  score {score:.2f}", heading=True)
        terminal.say(f"   {note.type}, written by {note.source}, an agent's note, {note.updated}")
        terminal.print_excerpt(note.body, MAX_SHOWN_LINES)
    terminal.say(result.reason or f"{len(result.hits)} of {quantity(result.searched, 'note')}")
    return 0


def _write(notes: Notes, arguments: argparse.Namespace) -> int:
    body = _read_input() if arguments.body is None else arguments.body
    written = notes.write(arguments.name, arguments.description, body, arguments.type, arguments.source)
    note, replaced = written.note, written.replaced
    if arguments.json:
        terminal.print_json(to_json(written))
    else:
        terminal.say(f"{'replaced' if replaced else 'wrote'} {note.name!r} in {notes.directory}: {note.path}")
    return 0


def _read_input() -> str:
    import sys

    return sys.stdin.buffer.read(MAX_READ_BYTES).decode("utf-8", "replace")


def _delete(notes: Notes, arguments: argparse.Namespace) -> int:
    answer = notes.delete(arguments.name)
    if arguments.json:
        terminal.print_json(to_json(answer))
    else:
        terminal.say(f"deleted {answer.deleted.name!r}: {answer.deleted.description}")
    return 0


_VERBS = {"list": _list, "show": _show, "search": _search, "write": _write, "delete": _delete}
