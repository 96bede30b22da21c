"""How does a model keep notes? `search_notes`, `write_note` and `delete_note`: their words, schemas and answers."""

from typing import TYPE_CHECKING, Any

from onhand.corpora.blocks import Shown, blocks_within, on_one_line
from onhand.corpora.corpus_tool import corpus_tool, query_of
from onhand.corpora.found import kept_as_json, note_as_json, notes_as_json
from onhand.corpora.note import MAX_BODY_BYTES, MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS, TYPES
from onhand.corpora.shapes import DeletedNote, NotesAnswer, WrittenNote
from onhand.tools import Output, Tool
from onhand.tools.fitting import fitted
from onhand.tools.tool import REPLACING

if TYPE_CHECKING:
    from onhand.corpora.notes import NoteHit, Notes

MAX_OUTPUT_BYTES = 16 * 1024

SEARCH = (
    "Search the notes that agents, you among them, wrote in earlier work on this project. Good at what was decided, "
    "found out or asked for before. Bad at what the project itself says, for which there is context_search: a note may "
    "be old or wrong, and where it differs from the project, its rules or the user, those hold. Cheap: local, "
    "milliseconds. Returns the best notes whole, each in an <agent_note> block; a search without a match says so. "
    'Example: search_notes(query="flaky test database").'
)
WRITE = (
    "Write a note for your own future, which later sessions can search. Good for what was hard to find out, what the "
    "user prefers, and what was decided and why. Bad for what the project's files already say, for secrets, and for "
    "what is only true today. A note of the same name is corrected: search first, then keep one note up to date rather "
    f"than write a second. Costs a file; at most {MAX_BODY_BYTES:,} bytes. Example: write_note(name="
    '"test database", description="How to reset the test database", body="Run make reset-db; it takes a minute.").'
)
DELETE = (
    "Delete a note that is wrong or no longer true. Good for notes that mislead. Bad for notes that only need "
    "correction: write_note with the same name does that. It cannot be undone. Example: "
    'delete_note(name="test database").'
)


def tools_over(notes: "Notes", default_limit: int) -> list[Tool]:
    """The tools over one directory of notes."""

    def search(arguments: dict[str, Any]) -> Output:
        query = query_of(arguments)
        result = notes.search(query, int(arguments.get("limit") or default_limit))
        found = blocks_within("agent_note", [_shown(hit) for hit in result.hits], MAX_OUTPUT_BYTES, "notes")
        structured = fitted(notes_as_json(result), MAX_OUTPUT_BYTES, "hits", "query", "problems")
        return Output(found or f"no matching notes for: {query} ({result.reason})", structured)

    def write(arguments: dict[str, Any]) -> Output:
        kept = notes.write(**arguments)
        note, replaced = kept
        before = f"; before, it said: {replaced.description}" if replaced else ""
        text = f"{'corrected' if replaced else 'kept'} the {note.type} {note.name!r} in {note.path}{before}"
        return Output(on_one_line(text), fitted(kept_as_json(kept), MAX_OUTPUT_BYTES, "replaced"))

    def delete(arguments: dict[str, Any]) -> Output:
        note = notes.delete(arguments["name"])
        text = on_one_line(f"deleted the note {note.name!r}, which said: {note.description}")
        return Output(text, fitted({"deleted": note_as_json(note)}, MAX_OUTPUT_BYTES, "deleted"))

    name = {"type": "string", "description": f"A few words, at most {MAX_NAME_CHARS} characters."}
    limit = {"type": "integer", "minimum": 1, "description": f"At most this many notes; {default_limit} by default."}
    told = f"One line that says what the note is about, at most {MAX_DESCRIPTION_CHARS} characters."
    written = {
        "name": name,
        "description": {"type": "string", "description": told},
        "body": {"type": "string", "description": f"The note, in Markdown; at most {MAX_BODY_BYTES:,} bytes."},
        "type": {
            "type": "string",
            "enum": list(TYPES),
            "description": f"{TYPES[0]} by default; of a note that is corrected, what it was.",
        },
    }
    query = {"type": "string", "description": "What you want to remember, in a few words."}
    asked = {"query": query, "limit": limit}
    return [
        corpus_tool("search_notes", SEARCH, asked, ["query"], search, NotesAnswer, MAX_OUTPUT_BYTES),
        corpus_tool(
            "write_note",
            WRITE,
            written,
            ["name", "description", "body"],
            write,
            WrittenNote,
            MAX_OUTPUT_BYTES,
            read_only=False,
            hints=REPLACING,
        ),
        corpus_tool(
            "delete_note",
            DELETE,
            {"name": name},
            ["name"],
            delete,
            DeletedNote,
            MAX_OUTPUT_BYTES,
            read_only=False,
            hints=REPLACING,
        ),
    ]


def _shown(hit: "NoteHit") -> Shown:
    note = hit.note
    attributes = {
        "name": note.name,
        "type": note.type,
        "written_by": note.source,
        "updated": note.updated,
        "score": f"{hit.score:.2f}",
    }
    return Shown(attributes, f"{note.description}\n\n{note.body}")
