"""Notes that an agent wrote for its own future: one Markdown file each, found in the same session.

A note is what an agent believed, not what the project says: it is marked as such wherever it appears, and where the
two differ the project prevails. New notes are validated, so that no name, description or body can break out of its
place in the file; a file that is read back may have been written by anyone. Several processes may write at once.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Annotated, Literal, get_args
from unicodedata import combining, normalize

from onhand.corpora import files
from onhand.corpora.blocks import (
    corpus_tool,
    line_without_tags,
    render_block,
    render_hits,
    required_query,
    suggest_names,
)
from onhand.corpora.federated import Finding, Findings
from onhand.corpora.file_index import FileCorpus, FileIndex, ParsedFile, document_id
from onhand.corpora.files import Problem
from onhand.document import Contribution, Document
from onhand.embed.embedder import Embedder
from onhand.errors import InputError, NotFound, StoreError
from onhand.fsio import FileLock, describe_fault, write_atomic
from onhand.hidden_characters import describe_hidden, repair_surrogates
from onhand.markdown.frontmatter import read_front_matter
from onhand.record import Record
from onhand.text import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.tools import Tool

NoteType = Literal["fact", "preference", "decision"]
TYPES: tuple[NoteType, ...] = get_args(NoteType)
INDEX = "_index.md"  # no note has a file name that begins with an underscore
MAX_BODY_BYTES = 4096
MAX_NAME_CHARS = 100
MAX_DESCRIPTION_CHARS = 300
MAX_STEM_CHARS = 64

# Names that Windows reserves for devices, whatever follows the first dot.
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
SEPARATORS = " -_./:,;()[]{}'\"!?"  # may differ between two spellings of a name


class Note(Record):
    """A note, as an agent wrote it."""

    path: str  # the file's name in the directory of notes
    name: str
    description: str  # one line
    type: str  # one of TYPES
    created: str  # a time in UTC, such as 2026-05-04T12:00:00Z; "" when the file does not say
    updated: str
    source: str  # who wrote it
    body: str
    written_by: str = "agent"  # never the project


def make_note(name: str, description: str, body: str, type: str, source: str) -> Note:
    """Return a new note; InputError says what cannot be accepted."""
    if type not in TYPES:
        raise InputError(f"the type is one of {', '.join(TYPES)}, not {type[:100]!r}")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name = _line("name", name, MAX_NAME_CHARS)
    return Note(
        file_name(name),
        name,
        _line("description", description, MAX_DESCRIPTION_CHARS),
        type,
        now,
        now,
        _line("source", source, MAX_NAME_CHARS),
        _body(body),
    )


def file_name(name: str) -> str:
    """Return the file name of a note, safe on every system; only names that differ in spelling alone share one."""
    folded = " ".join(repair_surrogates(name).casefold().split())
    plain = "".join(letter for letter in normalize("NFKD", folded) if not combining(letter))
    stem = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    is_lossy = any(not ("a" <= letter <= "z" or "0" <= letter <= "9" or letter in SEPARATORS) for letter in plain)
    if not stem and not is_lossy:
        raise InputError("the name has neither a letter nor a digit: use at least one")
    if is_lossy or len(stem) > MAX_STEM_CHARS or stem in RESERVED:
        mark = digest(normalize("NFKC", folded).encode())[:8]
        stem = f"{stem[: MAX_STEM_CHARS - 9].rstrip('-')}-{mark}".lstrip("-")
    return f"{stem}.md"


def render_note(note: Note) -> str:
    """Return the content of a note's file."""
    fields = note._asdict()
    lines = [f"{key}: {_quote(fields[key])}" for key in ("name", "description", "type", "created", "updated", "source")]
    return "\n".join(["---", *lines, "---", "", note.body, ""])


def parse_note(path: str, text: str) -> tuple[Note | None, str | None]:
    """Return the note of a file, or None if it is not a note, and what is wrong with it."""
    page = read_front_matter(text)
    fields = {key: " ".join(value.split()) for key, value in page.data.items() if isinstance(value, str)}
    if page.problem or not fields.get("name") or not fields.get("description"):
        return (
            None,
            page.problem or "its front matter has no name or no description: write it with `onhand notes write`",
        )
    body = page.body.strip("\n").rstrip()
    note = Note(
        path,
        fields["name"][:MAX_NAME_CHARS],
        fields["description"][:MAX_DESCRIPTION_CHARS],
        fields["type"] if fields.get("type") in TYPES else TYPES[0],
        fields.get("created", "")[:MAX_NAME_CHARS],
        fields.get("updated", "")[:MAX_NAME_CHARS],
        fields.get("source", "unknown")[:MAX_NAME_CHARS],
        body,
    )
    return note, _problem(note, fields)


def note_line(note: Note) -> str:
    """Return a note on one line."""
    return line_without_tags(f"- {note.name} ({note.type}): {note.description}")


def index_page(notes: tuple[Note, ...]) -> str:
    """Return the list of all notes, for people."""
    first = "# Notes\n\nWritten by agents for themselves. This list is rewritten with every note and never read back.\n"
    return "\n".join([first, *([f"{note_line(note)} [{note.path}]" for note in notes] or ["(none)"]), ""])


def _problem(note: Note, fields: dict[str, str]) -> str | None:
    """Return what is wrong with a note that someone edited."""
    if fields.get("type", TYPES[0]) not in TYPES:
        return f"its type is not one of {', '.join(TYPES)}: it counts as a {TYPES[0]}"
    size = len(note.body.encode("utf-8", "replace"))
    if size > MAX_BODY_BYTES:
        return f"its body has {size:,} bytes, more than {MAX_BODY_BYTES:,}: shorten it"
    try:
        expected = file_name(note.name)
    except InputError as error:
        return str(error)
    return None if note.path == expected else f"its name requires the file name {expected}: rename the file"


def _line(what: str, text: str, max_chars: int) -> str:
    line = " ".join(repair_surrogates(text).split())
    if not line:
        raise InputError(f"the {what} is empty: say in one line what the note is about")
    if len(line) > max_chars:
        raise InputError(f"the {what} has {len(line):,} characters: use at most {max_chars}")
    _refuse_hidden(what, line)
    return line


def _body(text: str) -> str:
    body = repair_surrogates(text).replace("\r\n", "\n").replace("\r", "\n").strip("\n").rstrip()
    if not body:
        raise InputError("the body is empty: write what there is to know")
    size = len(body.encode())
    if size > MAX_BODY_BYTES:
        raise InputError(f"the body has {size:,} bytes, more than {MAX_BODY_BYTES:,}: shorten it, or write two notes")
    _refuse_hidden("body", body)
    return body


def _refuse_hidden(what: str, text: str) -> None:
    """Refuse characters that a reviewer cannot see."""
    if hidden := describe_hidden(text):
        raise InputError(f"the {what} cannot be kept: {hidden}")


def _quote(text: str) -> str:
    """Quote a text so that YAML reads it back; JSON's quotes are valid YAML."""
    return json.dumps(text, ensure_ascii=False)


MAX_NOTES = 5_000  # an agent that writes more has lost track
MAX_FILE_BYTES = 4 * MAX_BODY_BYTES  # a note may grow when someone edits it
PROMPT_MAX_BYTES = 4 * 1024
MAX_OUTPUT_BYTES = 16 * 1024

DESCRIPTION_HELP = "One line that says what the note is about."
BODY_HELP = f"Markdown, at most {MAX_BODY_BYTES:,} bytes."
WRITE = (
    "Write a note that later sessions can search. Good for what was hard to find out, what the user prefers, and what "
    "was decided and why. Poor for what the project's files say, for secrets, and for what is only true today. It "
    'replaces a note with the same name. Example: write_note(name="test database", description="How to reset it", '
    'body="Run make reset-db.").'
)
MARK = "written by an agent, not by the project"
WARNING = (
    "Notes that an agent wrote for itself during earlier work. They may be old or wrong: where one differs from the "
    "project, its rules or the user, those prevail."
)


class NoteHit(Record):
    """A note that matches a query, and why."""

    note: Note
    score: float
    contributions: tuple[Contribution, ...]


class WrittenNote(Record):
    """A note that was written, and the note that it replaced."""

    note: Note
    replaced: Note | None
    notes: tuple[str, ...] = ()  # about what was cut

    def to_text(self) -> str:
        """Return what a model reads."""
        before = f"; before, it said: {self.replaced.description}" if self.replaced else ""
        verb = "replaced" if self.replaced else "wrote"
        return line_without_tags(f"{verb} the {self.note.type} {self.note.name!r} in {self.note.path}{before}")


class DeletedNote(Record):
    """A note that was deleted."""

    deleted: Note
    notes: tuple[str, ...] = ()  # about what was cut

    def to_text(self) -> str:
        """Return what a model reads."""
        return line_without_tags(f"deleted the note {self.deleted.name!r}, which said: {self.deleted.description}")


class NotesResult(Record):
    """The notes that a search found, and how many were searched."""

    query: str
    hits: tuple[NoteHit, ...]
    searched: int  # notes
    reason: str | None  # why there are no hits
    notes: tuple[str, ...]  # about the search
    problems: tuple[Problem, ...]
    left_out: int = 0  # hits that did not fit into the answer

    def __iter__(self) -> Iterator[NoteHit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def to_text(self) -> str:
        """Return the notes as blocks for a model."""
        miss = f"no matching notes for: {self.query} ({self.reason})"
        return render_hits([_render_hit(hit) for hit in self.hits], self.left_out, "notes", miss)


class Notes(FileCorpus):
    """The notes in a directory, which is created with the first note.

    `cache_file` stores the index for the next process that opens the same directory. With an embedder, notes are also
    found by meaning.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        limit: int = 5,
        cache_file: str | None = None,
        embedder: Embedder | None = None,
        unavailable: str | None = None,
    ) -> None:
        self.directory = os.path.abspath(directory)
        index = FileIndex(
            _read_content,
            max_file_bytes=MAX_FILE_BYTES,
            path=cache_file,
            embedder=embedder,
            unavailable=unavailable,
        )
        super().__init__(index, limit)

    def all(self) -> tuple[Note, ...]:
        """Return every note, by file name."""
        with self._lock:
            self.refresh()
            return self._all()

    def get(self, name: str) -> Note:
        """Return the note with that name."""
        path = file_name(name)
        for note in self.all():
            if note.path == path:
                return note
        similar = suggest_names(path.removesuffix(".md"), [note.path.removesuffix(".md") for note in self._all()])
        raise NotFound(f"there is no note {name[:100]!r}: list all notes, or search for words in it{similar}")

    def write(
        self, name: str, description: str, body: str, type: str | None = None, source: str = "agent"
    ) -> WrittenNote:
        """Write a note, replacing the one with the same name; InputError says what cannot be accepted.

        Without a type, an existing note keeps its type and a new one is a fact.
        """
        draft = make_note(name, description, body, TYPES[0] if type is None else type, source)
        with self._lock, _writing(self.directory):
            before = {note.path: note for note in self.all()}
            if draft.path not in before and len(before) >= MAX_NOTES:
                raise InputError(f"there are {len(before):,} notes, the most that are allowed: delete some first")
            if draft.path not in before:
                self._refuse_to_overwrite(draft.path)
            replaced = before.get(draft.path)
            note = draft._replace(created=replaced.created, type=type or replaced.type) if replaced else draft
            self._replace(note.path, render_note(note))
            self._write_index()
        return WrittenNote(note, replaced)

    def delete(self, name: str) -> DeletedNote:
        """Delete a note and return it."""
        self.get(name)  # before a lock file is created for a missing note
        with self._lock, _writing(self.directory):
            note = self.get(name)
            try:
                os.unlink(os.path.join(self.directory, note.path))
            except FileNotFoundError:
                raise NotFound(f"the note {name[:100]!r} has already been deleted") from None
            self._write_index()
            return DeletedNote(note)

    def search(self, query: str, limit: int | None = None) -> NotesResult:
        """Return the notes that match a query best or, if there are none, the reason."""
        limit = self._accept_limit(limit, "note")
        with self._lock:
            self.refresh()
            count = sum(1 for page in self._index.pages.values() if page.documents)
            hits, notes = self._hits(query, min(limit, count or 1))
            reason = None if hits else self._why_nothing(query, count)
            return NotesResult(query, hits, count, reason, notes, self._problems)

    def prompt(self, max_bytes: int = PROMPT_MAX_BYTES) -> str:
        """Return the part of a system prompt about notes: what they are about, newest first; empty without any."""
        notes = sorted(self.all(), key=lambda note: note.updated, reverse=True)
        lines: list[str] = []
        room = max_bytes
        for note in notes:
            line = note_line(note)
            room -= len(line.encode()) + 1
            if room < 0:
                lines.append(f"- and {len(notes) - len(lines)} more: search_notes finds them")
                break
            lines.append(line)
        return render_block("agent_note", {}, "\n".join([WARNING, *lines])) if notes else ""

    def find(self, query: str, limit: int) -> Findings:
        """Return the notes for a search across all corpora."""
        result = self.search(query, limit)
        found = tuple(
            Finding(f"note {note.name}", f"{note.name}: {note.description}", note.body, score, MARK)
            for note, score, _ in result.hits
        )
        return Findings(found, result.reason, result.notes)

    def tools(self) -> list[Tool]:
        """Return `search_notes`, `write_note` and `delete_note` for a registry."""
        from onhand.tools.tool import REPLACING  # on the way to `onhand search`, only the corpora are needed

        about_limit = {"description": f"At most this many notes; {self._limit} by default.", "minimum": 1}
        changes = {
            "read_only": False,
            "reads": [],
            "writes": ["notes"],
            "hints": REPLACING,
            "max_output_bytes": MAX_OUTPUT_BYTES,
        }

        @corpus_tool(reads=["notes"], max_output_bytes=MAX_OUTPUT_BYTES, parameters={"limit": about_limit})
        def search_notes(
            query: Annotated[str, "What you want to remember, in a few words."], limit: int | None = None
        ) -> NotesResult:
            """Search the notes that agents, including you, wrote during earlier work on this project. Good for what was
            decided, discovered or asked for before. Poor for what the project itself says; use context_search for that:
            a note may be old or wrong, and where it differs from the project, its rules or the user, those prevail.
            Cheap: local, milliseconds. Returns the best notes in full, each in an <agent_note> block; a search without
            a match says so. Example: search_notes(query="flaky test database").
            """
            return self.search(required_query(query), limit)

        @corpus_tool(description=WRITE, **changes)
        def write_note(
            name: str,
            description: Annotated[str, DESCRIPTION_HELP],
            body: Annotated[str, BODY_HELP],
            type: NoteType | None = None,
        ) -> WrittenNote:
            return self.write(name, description, body, type)

        @corpus_tool(**changes)
        def delete_note(name: str) -> DeletedNote:
            """Delete a note that is wrong or no longer true. Good for notes that mislead. Poor for notes that only need
            a correction; call write_note with the same name for that. It cannot be undone. Example:
            delete_note(name="test database").
            """
            return self.delete(name)

        return [search_notes, write_note, delete_note]

    def _update(self) -> tuple[bool, list[Problem]]:
        swept, problems = files.sweep(self.directory, skips=lambda directory: True)
        changed = self._index.refresh({file.name: file for file in swept if file.name != INDEX})
        return changed, problems + self._index.problems()

    def _all(self) -> tuple[Note, ...]:
        ids = [document_id(path, 0) for path, page in sorted(self._index.pages.items()) if page.documents]
        return tuple(_note(self._index.index.get(one)) for one in ids)

    def _hits(self, query: str, limit: int) -> tuple[tuple[NoteHit, ...], tuple[str, ...]]:
        found = self._index.search(query, limit)
        index = self._index.index
        hits = (NoteHit(_note(index.get(hit.document_id)), hit.score, hit.terms) for hit in found.hits)
        return tuple(hits), found.notes

    def _why_nothing(self, query: str, count: int) -> str:
        if not count:
            unusable = f"; {len(self._problems)} files cannot be used" if self._problems else ""
            return f"there are no notes in {self.directory}{unusable}"
        return self._why_no_match(query, count, "notes")

    def _refuse_to_overwrite(self, path: str) -> None:
        """Refuse to overwrite a file that someone wrote by hand, or a damaged note."""
        place = os.path.join(self.directory, path)
        if os.path.isfile(place) and not os.path.islink(place):
            advice = "rename or repair that file, or give the note another name"
            raise InputError(f"{path} exists and is not a readable note: {advice}")

    def _replace(self, path: str, text: str) -> None:
        write_atomic(os.path.join(self.directory, path), text.encode())

    def _write_index(self) -> None:
        """Write the list of notes for people who look into the directory; it is never read back."""
        with suppress(OSError):  # it only repeats the notes, and the next note rewrites it
            self._replace(INDEX, index_page(self.all()))


@contextmanager
def _writing(directory: str) -> Iterator[None]:
    """Hold the lock for writing, which threads and processes share; a disk error becomes a StoreError."""
    try:
        with FileLock(os.path.join(directory, "lock")):
            yield
    except OSError as error:
        raise StoreError(f"cannot write in {directory}: {describe_fault(error)}") from None


def _read_content(path: str, text: str) -> ParsedFile:
    note, problem = parse_note(path, text)
    if note is None:
        return ParsedFile((), {}, problem)
    document = Document(
        document_id(path, 0),
        f"{note.name} {note.description}",
        note.body,
        note.source,
        (note.type,),
        metadata={"note": note[1:7]},
        kind="note",
        source_path=path,
    )
    return ParsedFile((document,), {}, problem)


def _note(document: Document) -> Note:
    name, description, type, created, updated, source = document.metadata["note"]
    return Note(document.source_path, name, description, type, created, updated, source, document.text)


def _render_hit(hit: NoteHit) -> str:
    note = hit.note
    attributes = {
        "name": note.name,
        "type": note.type,
        "written_by": note.source,
        "updated": note.updated,
        "score": f"{hit.score:.2f}",
    }
    return render_block("agent_note", attributes, f"{note.description}\n\n{note.body}")
