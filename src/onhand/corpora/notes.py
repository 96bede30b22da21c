"""What did the agent write down for its own future? One Markdown file per note, found in the same session.

A note is what an agent believed, not what the project says: it is marked as such wherever it is shown, and where the
two differ the project holds. The directory is looked at before every answer. Safe to share between threads, and several
processes may write at once.
"""

import os
from _thread import RLock  # threading's own, without the cost of importing threading
from contextlib import contextmanager, suppress

from onhand.corpora import files
from onhand.corpora.files import Problem
from onhand.corpora.mirror import Content, Mirror, document_id
from onhand.corpora.note import INDEX, MAX_BODY_BYTES, TYPES, Note, accepted, file_name, index_page, page_of, parsed
from onhand.document import Contribution, Document
from onhand.errors import InputError, NotFound, StoreError
from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from onhand.corpora.corpus import Findings
    from onhand.embed.embedder import Embedder
    from onhand.tools import Tool

MAX_NOTES = 5_000  # an agent that writes more has lost count
MAX_FILE_BYTES = 4 * MAX_BODY_BYTES  # a note that somebody edited may have grown
PROMPT_MAX_BYTES = 4 * 1024

MARK = "written by an agent, not by the project"
WARNING = (
    "Notes that an agent wrote for itself in earlier work. They may be old or wrong: where one differs from what the "
    "project, its rules or the user say, those hold."
)


class NoteHit(Record):
    """A note that was found, and why."""

    note: Note
    score: float
    contributions: tuple[Contribution, ...]


class Kept(Record):
    """A note that was written, and the one that it took the place of."""

    note: Note
    replaced: Note | None


class NotesResult(Record):
    """What was found, in how many, and when nothing was, why."""

    query: str
    hits: tuple[NoteHit, ...]
    searched: int  # notes
    reason: str | None
    notes: tuple[str, ...]  # what the searcher should know
    problems: tuple[Problem, ...]


class Notes:
    """The notes of a directory, which is made when the first is written.

    `kept_at` is a file for what was learned of them, for those who open the same directory. With an embedder, notes are
    found by what they mean as well.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        limit: int = 5,
        kept_at: str | None = None,
        embedder: "Embedder | None" = None,
        unavailable: str | None = None,
    ) -> None:
        self.directory = os.path.abspath(directory)
        self._limit = limit
        self._mirror = Mirror(
            _content,
            max_file_bytes=MAX_FILE_BYTES,
            path=kept_at,
            embedder=embedder,
            unavailable=unavailable,
        )
        self._problems: tuple[Problem, ...] = ()
        self._lock = RLock()

    def refresh(self) -> bool:
        """See what changed on disk since the last look; whether anything did. Every answer does this first."""
        with self._lock:
            swept, problems = files.sweep(self.directory, skips=lambda directory: True)
            found = {file.name: file for file in swept if file.name != INDEX}
            changed = self._mirror.refresh(found)
            self._problems = tuple(sorted(problems + self._mirror.problems()))
            return changed

    def all(self) -> tuple[Note, ...]:
        """Every note, by the name of its file."""
        with self._lock:
            self.refresh()
            return self._all()

    def get(self, name: str) -> Note:
        """The note of that name."""
        path = file_name(name)
        for note in self.all():
            if note.path == path:
                return note
        raise NotFound(f"there is no note {name[:100]!r}: list them, or search for words of it{self._nearest(path)}")

    def write(self, name: str, description: str, body: str, type: str | None = None, source: str = "agent") -> Kept:
        """Keep a note, in place of the one of the same name if there is one; InputError says what cannot be kept.

        Without a type it is what it was, or a fact.
        """
        draft = accepted(name, description, body, TYPES[0] if type is None else type, source)
        with self._lock, _writing(self.directory):
            before = {note.path: note for note in self.all()}
            if draft.path not in before and len(before) >= MAX_NOTES:
                raise InputError(f"there are {len(before):,} notes, as many as can be kept: delete some first")
            if draft.path not in before:
                self._refuse_to_lose(draft.path)
            replaced = before.get(draft.path)
            note = draft._replace(created=replaced.created, type=type or replaced.type) if replaced else draft
            self._replace(note.path, page_of(note))
            self._write_index()
        return Kept(note, replaced)

    def delete(self, name: str) -> Note:
        """Take a note out; what it said."""
        self.get(name)  # before anything is made to lock what is not there
        with self._lock, _writing(self.directory):
            note = self.get(name)
            try:
                os.unlink(os.path.join(self.directory, note.path))
            except FileNotFoundError:
                raise NotFound(f"the note {name[:100]!r} is gone already") from None
            self._write_index()
            return note

    def search(self, query: str, limit: int | None = None) -> NotesResult:
        """The notes that match a query best; when there are none, the reason."""
        limit = self._limit if limit is None else limit
        if limit < 1:
            raise InputError(f"the limit is {limit}: ask for at least one note")
        with self._lock:
            self.refresh()
            count = sum(1 for page in self._mirror.pages.values() if page.documents)
            hits, notes = self._hits(query, min(limit, count or 1))
            reason = None if hits else self._why_nothing(query, count)
            return NotesResult(query, hits, count, reason, notes, self._problems)

    def problems(self) -> tuple[Problem, ...]:
        """What was left out or is not as it should be, and why."""
        with self._lock:
            self.refresh()
            return self._problems

    def prompt(self, max_bytes: int = PROMPT_MAX_BYTES) -> str:
        """What belongs into a system prompt: that there are notes, and what about, newest first; empty without any."""
        from onhand.corpora.blocks import block
        from onhand.corpora.note import line_of

        notes = sorted(self.all(), key=lambda note: note.updated, reverse=True)
        lines: list[str] = []
        room = max_bytes
        for note in notes:
            line = line_of(note)
            room -= len(line.encode()) + 1
            if room < 0:
                lines.append(f"- and {len(notes) - len(lines)} more: search_notes finds them")
                break
            lines.append(line)
        return block("agent_note", {}, "\n".join([WARNING, *lines])) if notes else ""

    def find(self, query: str, limit: int) -> "Findings":
        """What one search across everything asks."""
        from onhand.corpora.corpus import Finding, Findings

        result = self.search(query, limit)
        found = tuple(
            Finding(f"note {note.name}", f"{note.name}: {note.description}", note.body, score, MARK)
            for note, score, _ in result.hits
        )
        return Findings(found, result.reason, result.notes)

    def tools(self) -> "list[Tool]":
        """`search_notes`, `write_note` and `delete_note`, for a registry."""
        from onhand.corpora.notes_tool import tools_over

        return tools_over(self, self._limit)

    def _all(self) -> tuple[Note, ...]:
        ids = [document_id(path, 0) for path, page in sorted(self._mirror.pages.items()) if page.documents]
        return tuple(_note(self._mirror.index.get(one)) for one in ids)

    def _hits(self, query: str, limit: int) -> tuple[tuple[NoteHit, ...], tuple[str, ...]]:
        found = self._mirror.search(query, limit)
        index = self._mirror.index
        hits = (NoteHit(_note(index.get(hit.document_id)), hit.score, hit.terms) for hit in found.hits)
        return tuple(hits), found.notes

    def _why_nothing(self, query: str, count: int) -> str:
        if not count:
            unusable = f"; {len(self._problems)} files cannot be used" if self._problems else ""
            return f"there are no notes in {self.directory}{unusable}"
        if not self._mirror.index.store.has_words(query):
            return "the query has no words to look for"
        return f"none of {count} notes has a word of the query: try other words for the same thing"

    def _nearest(self, path: str) -> str:
        from onhand.tools.problems import near

        nearest = near(path.removesuffix(".md"), [note.path.removesuffix(".md") for note in self._all()])
        return f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""

    def _refuse_to_lose(self, path: str) -> None:
        """Somebody may have written a file of that name by hand, or damaged a note: it is not ours to write over."""
        place = os.path.join(self.directory, path)
        if os.path.isfile(place) and not os.path.islink(place):
            advice = "rename or repair that file, or give the note another name"
            raise InputError(f"{path} is there, and is no note that can be read: {advice}")

    def _replace(self, path: str, text: str) -> None:
        from onhand.replace import replace_file

        replace_file(os.path.join(self.directory, path), text.encode())

    def _write_index(self) -> None:
        """Write the list of notes for whoever looks into the directory; nobody here reads it."""
        with suppress(OSError):  # it says nothing that the notes do not, and the next note makes it anew
            self._replace(INDEX, index_page(self.all()))


@contextmanager
def _writing(directory: str) -> "Iterator[None]":
    """One writer at a time, in this process or another; whatever the disk refuses is a StoreError."""
    from onhand.store.files import locked

    try:
        with locked(directory):
            yield
    except OSError as error:
        reason = error.strerror or "another process does not let go of it"
        raise StoreError(f"nothing can be written in {directory} ({reason}): make room, or make it writable") from None


def _content(path: str, text: str) -> Content:
    note, problem = parsed(path, text)
    if note is None:
        return Content((), {}, problem)
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
    return Content((document,), {}, problem)


def _note(document: Document) -> Note:
    name, description, type, created, updated, source = document.metadata["note"]
    return Note(document.source_path, name, description, type, created, updated, source, document.text)
