"""Read documents from files and directories, one at a time.

A file that cannot be used becomes an ImportProblem among the documents and stops nothing. The same files give the same
documents, so an interrupted import can start again and skip what is already stored.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from onhand.closed_paths import describe_sensitive
from onhand.corpora import files
from onhand.corpora.files import MARKDOWN, FoundFile, Unreadable
from onhand.corpora.sources.json_records import read_json, read_json_lines
from onhand.corpora.sources.mail import read_mail, read_mbox
from onhand.corpora.sources.page import read_page
from onhand.corpora.sources.source import HEAD_BYTES, MAX_RECORD_BYTES, ImportProblem, Item, Source, SourceReader
from onhand.corpora.sources.table import read_table
from onhand.document import Document
from onhand.errors import InputError
from onhand.hidden_characters import describe_hidden
from onhand.search.validation import validate_document

MAX_FILES = 1_000_000  # of one directory
MAX_PROBLEMS = 100  # of one file that are reported one by one; the others are counted

SUFFIXES = {
    "jsonl": (".jsonl", ".ndjson"),
    "json": (".json",),
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "markdown": MARKDOWN,
    "text": (".txt", ".text", ".rst", ".adoc", ".org"),
    "html": (".html", ".htm", ".xhtml"),
    "mbox": (".mbox", ".mbx"),
    "eml": (".eml",),
}
FORMS = ("auto", *SUFFIXES, "maildir")
DIRECTORY_FORMS = ("markdown", "text", "html", "mbox", "eml")  # what "auto" takes from a directory
_RECORDS = (*SUFFIXES["jsonl"], *SUFFIXES["csv"], *SUFFIXES["tsv"])
READERS: Mapping[str, Callable[[SourceReader], Iterator[Item]]] = {
    "jsonl": read_json_lines,
    "json": read_json,
    "csv": read_table,
    "tsv": read_table,
    "markdown": read_page,
    "text": read_page,
    "html": read_page,
    "mbox": read_mbox,
    "eml": read_mail,
    "maildir": read_mail,
}
_ARCHIVES = (".zip", ".gz", ".bz2", ".xz", ".zst", ".7z", ".tar", ".tgz", ".rar")


class Sources:
    """The documents and problems of files in order, read while iterating. `done_bytes` of `total_bytes` are done."""

    def __init__(
        self,
        sources: Sequence[Source],
        problems: Sequence[ImportProblem],
        overrides: Document,
        max_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        self.total_bytes = sum(source.file.stamp.size for source in sources)
        self.files = len(sources)
        self._sources = sources
        self._problems = problems
        self._overrides = overrides
        self._max_bytes = max_bytes
        self._finished_bytes = 0  # of the files that have been read completely
        self._current: SourceReader | None = None

    @property
    def done_bytes(self) -> int:
        """Return how many bytes have been read so far."""
        return min(self.total_bytes, self._finished_bytes + (self._current.done_bytes if self._current else 0))

    def __iter__(self) -> Iterator[Document | ImportProblem]:
        self._finished_bytes = 0
        yield from self._problems
        seen: set[int] = set()
        for source in self._sources:
            yield from _cap_problems(source, self._items(source, seen))
            self._current = None
            self._finished_bytes += source.file.stamp.size

    def _items(self, source: Source, seen: set[int]) -> Iterator[Document | ImportProblem]:
        try:
            with SourceReader(source, self._max_bytes) as reader:
                self._current = reader
                for where, item in READERS[source.form](reader):
                    if isinstance(item, str):
                        yield ImportProblem(source.path, where, item)
                    else:
                        accepted = self._accept(source, where, item, seen)
                        yield accepted
                        if isinstance(accepted, Document):
                            yield from _hidden_problems(source, where, accepted)
        except Unreadable as reason:
            yield ImportProblem(source.path, "", str(reason))
        except OSError as error:
            yield ImportProblem(source.path, "", (error.strerror or str(error)).lower())

    def _accept(self, source: Source, where: str, document: Document, seen: set[int]) -> Document | ImportProblem:
        """Return the document completed and validated, or what is wrong with it."""
        try:
            document = validate_document(self._override_fields(document))
        except InputError as error:
            return ImportProblem(source.path, where, f"{error}; left out")
        # The first document with an id counts: if the last did, every import would write both again. Only hashes are
        # remembered, because the ids of a million mails take a hundred megabytes.
        if hash(document.id) in seen:
            return ImportProblem(source.path, where, f"the id {document.id[:200]!r} was already read: left out")
        seen.add(hash(document.id))
        return document

    def _override_fields(self, document: Document) -> Document:
        new = self._overrides
        if not (new.author or new.scope or new.tags):
            return document
        tags = (*document.tags, *new.tags)
        return document._replace(author=new.author or document.author, scope=new.scope or document.scope, tags=tags)


def _hidden_problems(source: Source, where: str, document: Document) -> Iterator[ImportProblem]:
    for part, text in (("title", document.title), ("text", document.text)):
        if hidden := describe_hidden(text):
            yield ImportProblem(source.path, where, f"{part}: {hidden}")


def read_sources(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    form: str = "auto",
    author: str = "",
    scope: str = "",
    tags: Sequence[str] = (),
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Sources:
    """Return the documents in files and directories; `author` and `scope` override theirs, `tags` are added.

    `form` is one of FORMS; "auto" decides by the suffix, and from a directory takes pages and mail.
    """
    if form not in FORMS:
        raise InputError(f"unknown form {form!r}: use one of {', '.join(FORMS)}")
    if isinstance(tags, str):
        raise InputError("tags is a text: pass a list of tags")
    sources: list[Source] = []
    problems: list[ImportProblem] = []
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        _plan(os.path.abspath(os.fspath(path)), form, sources, problems)
    overrides = Document("", author=author, scope=scope, tags=tuple(tags))
    return Sources(sources, problems, overrides, max_record_bytes)


def _plan(path: str, form: str, sources: list[Source], problems: list[ImportProblem]) -> None:
    """Add the files that a path stands for to the sources, and what cannot be read to the problems."""
    try:
        target = os.path.realpath(path)
        if not describe_sensitive(path) and (reason := describe_sensitive(target)):
            raise Unreadable(f"a link to {_with_slashes(target)}, and {reason}; to import that, name it instead")
        if not os.path.isdir(path):
            file = files.find_named(path)
            folder = os.path.basename(os.path.dirname(path))
            sources.append(_source(path, file, form if form != "auto" else _form_of(path, file), folder))
        elif _is_maildir(path) and form in ("auto", "maildir"):
            _plan_maildir(path, sources, problems)
        else:
            _plan_directory(path, form, sources, problems)
    except (Unreadable, ValueError) as reason:
        problems.append(ImportProblem(_with_slashes(path), "", str(reason)))


def _plan_directory(root: str, form: str, sources: list[Source], problems: list[ImportProblem]) -> None:
    if form == "maildir":
        raise Unreadable("not a Maildir: it has no directories cur and new")
    taken = tuple(end for name in (DIRECTORY_FORMS if form == "auto" else (form,)) for end in SUFFIXES.get(name, ()))
    found, left_out = files.sweep(root, (*taken, *_RECORDS) if form == "auto" else taken, MAX_FILES)
    problems += [
        ImportProblem(_with_slashes(os.path.join(root, problem.path)), "", problem.reason) for problem in left_out
    ]
    records = [file.name for file in found if not file.name.lower().endswith(taken)]
    if records:
        others = f" and {len(records) - 1:,} others" if len(records) > 1 else ""
        reason = f"{records[0]}{others} left out: only pages and mail are read from a directory; name tables directly"
        problems.append(ImportProblem(_with_slashes(root), "", reason))
    pages = [file for file in found if file.name.lower().endswith(taken)]
    for file in pages:
        folder = os.path.basename(os.path.dirname(os.path.join(root, file.name)))
        sources.append(_source(os.path.join(root, file.name), file, _form_by_name(file.name), folder))
    if not pages and not records and not left_out:
        problems.append(
            ImportProblem(_with_slashes(root), "", f"nothing to import: no file name ends with {' '.join(taken)}")
        )


def _plan_maildir(root: str, sources: list[Source], problems: list[ImportProblem]) -> None:
    """Add the mails of a Maildir and of its folders, which are hidden directories in it."""
    with os.scandir(root) as entries:
        folders = sorted(entry.name for entry in entries if entry.name.startswith(".") and _is_maildir(entry.path))
    for folder in ("", *folders):
        for state in ("cur", "new"):
            found, left_out = files.sweep(os.path.join(root, folder, state), ("",), MAX_FILES)
            problems += [
                ImportProblem(_with_slashes(os.path.join(root, folder, state, one.path)), "", one.reason)
                for one in left_out
            ]
            for file in found:
                path = os.path.join(root, folder, state, file.name)
                sources.append(_source(path, file, "maildir", folder.lstrip(".") or os.path.basename(root)))


def _is_maildir(path: str) -> bool:
    return all(os.path.isdir(os.path.join(path, state)) for state in ("cur", "new"))


def _source(path: str, file: FoundFile, form: str, folder: str) -> Source:
    if form == "mbox":
        folder = os.path.splitext(os.path.basename(path))[0]
    return Source(_with_slashes(path), file.name, folder, form, file)


def _form_of(path: str, file: FoundFile) -> str:
    """Return the form of a file by its name or, if that says nothing, by its first bytes."""
    if path.lower().endswith(_ARCHIVES):
        raise Unreadable("an archive: unpack it first")
    return _form_by_name(path) or _form_by_content(file)


def _form_by_name(name: str) -> str:
    return next((form for form, ends in SUFFIXES.items() if name.lower().endswith(ends)), "")


def _form_by_content(file: FoundFile) -> str:
    descriptor = files.open_regular(file)
    try:
        head = os.read(descriptor, HEAD_BYTES)
    finally:
        os.close(descriptor)
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for form, signs in (("mbox", b"From "), ("jsonl", b"{"), ("json", b"["), ("html", (b"<!doctype", b"<html"))):
        if begin.lower().startswith(signs) if form == "html" else begin.startswith(signs):
            return form
    raise Unreadable(f"unknown form: name one of {', '.join(FORMS[1:])}")


def _cap_problems(source: Source, items: Iterable[Document | ImportProblem]) -> Iterator[Document | ImportProblem]:
    """Yield the items of one file, but only the first problems and then the number of the others."""
    problems = 0
    for item in items:
        problems += isinstance(item, ImportProblem)
        if not isinstance(item, ImportProblem) or problems <= MAX_PROBLEMS:
            yield item
    if problems > MAX_PROBLEMS:
        yield ImportProblem(source.path, "", f"{problems - MAX_PROBLEMS:,} more problems in this file")


def _with_slashes(path: str) -> str:
    return path.replace(os.sep, "/")
