"""Read documents from files and directories, one after the other, as soon as each is read.

A file that cannot be used becomes an ImportProblem among the documents and stops nothing. The same files give the same
documents, so an interrupted import can start again and skip what is already stored.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from onhand.corpora import files
from onhand.corpora.files import MARKDOWN, FoundFile, Unreadable
from onhand.corpora.sources.json_records import read_json, read_json_lines
from onhand.corpora.sources.mail import read_mail, read_mbox
from onhand.corpora.sources.page import read_page
from onhand.corpora.sources.source import LOOKED_AT_BYTES, MAX_RECORD_BYTES, ImportProblem, Item, Source, SourceReader
from onhand.corpora.sources.table import read_table
from onhand.document import Document
from onhand.errors import InputError
from onhand.search.validation import validate_document

MAX_FILES = 1_000_000  # of one directory
MAX_PROBLEMS = 100  # of one file that are told one by one: a million bad lines are one piece of news

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
OF_A_DIRECTORY = ("markdown", "text", "html", "mbox", "eml")  # without being asked for by name
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
    """The documents and problems of files, in order. `done_bytes` of `total_bytes` have been read."""

    def __init__(
        self,
        sources: Sequence[Source],
        problems: Sequence[ImportProblem],
        given: Document,
        max_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        self.total_bytes = sum(source.file.stamp.size for source in sources)
        self.files = len(sources)
        self._sources = sources
        self._problems = problems
        self._given = given
        self._max_bytes = max_bytes
        self._before = 0  # bytes of the files that are done
        self._current: SourceReader | None = None

    @property
    def done_bytes(self) -> int:
        """How far reading is."""
        return min(self.total_bytes, self._before + (self._current.done_bytes if self._current else 0))

    def __iter__(self) -> Iterator[Document | ImportProblem]:
        self._before = 0
        yield from self._problems
        seen: set[int] = set()
        for source in self._sources:
            yield from _cap_problems(source, self._items(source, seen))
            self._current = None
            self._before += source.file.stamp.size

    def _items(self, source: Source, seen: set[int]) -> Iterator[Document | ImportProblem]:
        try:
            with SourceReader(source, self._max_bytes) as opened:
                self._current = opened
                for where, item in READERS[source.form](opened):
                    if isinstance(item, str):
                        yield ImportProblem(source.path, where, item)
                    else:
                        yield self._kept(source, where, item, seen)
        except Unreadable as reason:
            yield ImportProblem(source.path, "", str(reason))
        except OSError as error:
            yield ImportProblem(source.path, "", (error.strerror or str(error)).lower())

    def _kept(self, source: Source, where: str, document: Document, seen: set[int]) -> Document | ImportProblem:
        try:
            whole = validate_document(self._with_given(document))
        except InputError as error:
            return ImportProblem(source.path, where, f"{error}; left out")
        # The first of an id stays: if the later won, each import would write both again. The hash, because ids of a
        # million mails take a hundred megabytes.
        if hash(whole.id) in seen:
            return ImportProblem(source.path, where, f"the id {whole.id[:200]!r} was already read: left out")
        seen.add(hash(whole.id))
        return whole

    def _with_given(self, document: Document) -> Document:
        given = self._given
        if not (given.author or given.scope or given.tags):
            return document
        tags = (*document.tags, *given.tags)
        return document._replace(author=given.author or document.author, scope=given.scope or document.scope, tags=tags)


def read_sources(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    form: str = "auto",
    author: str = "",
    scope: str = "",
    tags: Sequence[str] = (),
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Sources:
    """What is in files and directories, as documents; author and scope hold for all of them, tags are added.

    `form` is one of FORMS; "auto" goes by the ends of names, and of a directory takes pages and mail.
    """
    if form not in FORMS:
        raise InputError(f"the form is one of {', '.join(FORMS)}, not {form!r}")
    if isinstance(tags, str):
        raise InputError("tags are a list of texts: put the one tag into a list")
    sources: list[Source] = []
    problems: list[ImportProblem] = []
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        _plan(os.path.abspath(os.fspath(path)), form, sources, problems)
    given = Document("", author=author, scope=scope, tags=tuple(tags))
    return Sources(sources, problems, given, max_record_bytes)


def _plan(path: str, form: str, sources: list[Source], problems: list[ImportProblem]) -> None:
    """Find the files that a path stands for."""
    try:
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
        raise Unreadable("no Maildir: there are no directories cur and new in it")
    taken = tuple(end for name in (OF_A_DIRECTORY if form == "auto" else (form,)) for end in SUFFIXES.get(name, ()))
    found, left_out = files.sweep(root, (*taken, *_RECORDS) if form == "auto" else taken, MAX_FILES)
    problems += [
        ImportProblem(_with_slashes(os.path.join(root, problem.path)), "", problem.reason) for problem in left_out
    ]
    records = [file.name for file in found if not file.name.lower().endswith(taken)]
    if records:
        others = f" and {len(records) - 1:,} others" if len(records) > 1 else ""
        reason = f"{records[0]}{others} left out: of a directory, pages and mail are taken; name tables themselves"
        problems.append(ImportProblem(_with_slashes(root), "", reason))
    pages = [file for file in found if file.name.lower().endswith(taken)]
    for file in pages:
        folder = os.path.basename(os.path.dirname(os.path.join(root, file.name)))
        sources.append(_source(os.path.join(root, file.name), file, _form_by_name(file.name), folder))
    if not pages and not records and not left_out:
        problems.append(
            ImportProblem(_with_slashes(root), "", f"nothing to import: no file ends with {' '.join(taken)}")
        )


def _plan_maildir(root: str, sources: list[Source], problems: list[ImportProblem]) -> None:
    """Mails of a Maildir and of its folders, which are hidden directories in it."""
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
    """The form of a file by its name, or by how it begins."""
    if path.lower().endswith(_ARCHIVES):
        raise Unreadable("an archive: unpack it first")
    return _form_by_name(path) or _form_by_content(file)


def _form_by_name(name: str) -> str:
    return next((form for form, ends in SUFFIXES.items() if name.lower().endswith(ends)), "")


def _form_by_content(file: FoundFile) -> str:
    descriptor = files.open_regular(file)
    try:
        head = os.read(descriptor, LOOKED_AT_BYTES)
    finally:
        os.close(descriptor)
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for form, signs in (("mbox", b"From "), ("jsonl", b"{"), ("json", b"["), ("html", (b"<!doctype", b"<html"))):
        if begin.lower().startswith(signs) if form == "html" else begin.startswith(signs):
            return form
    raise Unreadable(f"nobody knows its form: give it as one of {', '.join(FORMS[1:])}")


def _cap_problems(source: Source, items: Iterable[Document | ImportProblem]) -> Iterator[Document | ImportProblem]:
    """The items of one file; of many problems the first ones and how many more there are."""
    problems = 0
    for item in items:
        problems += isinstance(item, ImportProblem)
        if not isinstance(item, ImportProblem) or problems <= MAX_PROBLEMS:
            yield item
    if problems > MAX_PROBLEMS:
        yield ImportProblem(source.path, "", f"{problems - MAX_PROBLEMS:,} more problems in this file")


def _with_slashes(path: str) -> str:
    return path.replace(os.sep, "/")
