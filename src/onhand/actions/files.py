"""Read, write, list and describe files in a workspace.

These are plain functions, which `file_tools` turns into tools. They raise NotFound for a path that does not exist and
InputError for everything else that cannot be done.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from heapq import nsmallest
from time import monotonic, sleep
from typing import NamedTuple

from onhand import cancellation
from onhand.actions.workspace import ResolvedPath, Workspace, describe_kind, display, explain_os_errors, path_line
from onhand.errors import InputError, NotFound
from onhand.fsio import read_stable, sync_directory, try_lock, write_atomic
from onhand.hidden_characters import find_hidden, find_markers, mark_hidden
from onhand.text import FALLBACK_ENCODING, byte_order_mark, decode_leniently, digest, guess_encoding

MAX_FILE_BYTES = 32 * 1024 * 1024  # of a file that is read or written; hand-written text has a hundredth of that
MAX_CONTENT_BYTES = 48 * 1024  # in one answer: some 12,000 tokens
MAX_ENTRIES = 500  # in one listing
PIECE_CHARS = 64 * 1024  # to count line feeds in at once
LOCK_S, POLL_S = 10.0, 0.005  # the wait for other writers in the same directory, each of which takes milliseconds


class FileContent(NamedTuple):
    """The text of a file, or of the lines that were requested."""

    path: str
    content: str
    start_line: int
    end_line: int  # the last line of the content; 0 in an empty file
    lines: int  # of the whole file
    size_bytes: int = 0
    encoding: str = "utf-8"
    hash: str | None = None  # of the whole file; pass it to an edit to make sure that the file has not changed
    is_cut: bool = False  # more was requested than fits
    notes: tuple[str, ...] = ()
    exists: bool = True
    success: bool = True

    def to_text(self) -> str:
        """Return the content exactly as it is and, on lines of their own, the notes."""
        text = self.content or "(the file is empty)"
        return "\n".join([text.removesuffix("\n"), *(f"[{note}]" for note in self.notes)]) if self.notes else text


class WrittenFile(NamedTuple):
    """A file that was written."""

    path: str
    bytes_written: int
    created: bool
    hash: str
    exists: bool = True
    success: bool = True

    def to_text(self) -> str:
        """Return one sentence."""
        return f"{'created' if self.created else 'wrote'} {display(self.path)}: {self.bytes_written:,} bytes"


class DirectoryEntry(NamedTuple):
    """An entry of a directory."""

    name: str
    kind: str  # file, directory, link, pipe, socket or device
    size_bytes: int | None = None
    is_closed: bool = False  # no tool reads it

    def to_text(self) -> str:
        """Return one line."""
        mark = {"directory": "/", "file": ""}.get(self.kind, f"  ({self.kind})")
        size = f"  {self.size_bytes:,} bytes" if self.size_bytes is not None else ""
        return f"{path_line(self.name)}{mark}{size}{'  (closed)' if self.is_closed else ''}"


class DirectoryListing(NamedTuple):
    """The first entries of a directory, by name."""

    path: str
    entries: tuple[DirectoryEntry, ...]
    total: int
    left_out: int = 0
    exists: bool = True
    success: bool = True

    def to_text(self) -> str:
        """Return a line for each entry."""
        lines = [entry.to_text() for entry in self.entries] or ["(the directory is empty)"]
        more = [f"[{self.left_out:,} more entries; narrow them with glob]"] if self.left_out else []
        return "\n".join([*lines, *more])


class FileStatus(NamedTuple):
    """What is known about a path without reading its content."""

    path: str
    exists: bool
    kind: str | None = None
    size_bytes: int | None = None
    modified: str | None = None  # in UTC
    mode: str | None = None
    success: bool = True

    def to_text(self) -> str:
        """Return one sentence."""
        if not self.exists:
            return f"{display(self.path)} does not exist"
        size = f", {self.size_bytes:,} bytes" if self.size_bytes is not None else ""
        return f"{display(self.path)}: {self.kind}{size}, modified {self.modified}, {self.mode}"


class EditableText(NamedTuple):
    """The text of a file in a form that can be written back without changing the parts that were not edited."""

    text: str  # without byte order mark, and with bare line feeds if every line ended in CRLF
    mark: bytes
    encoding: str
    is_crlf: bool

    def encode(self, text: str) -> bytes:
        """Encode another text in the same form."""
        if self.is_crlf:
            text = text.replace("\n", "\r\n")
        try:
            return self.mark + text.encode(self.encoding, _error_handler(self.encoding))
        except UnicodeEncodeError as error:
            letters = display(text[error.start : error.end])
            raise InputError(
                f"the file is in {self.encoding}, which cannot encode {letters}: leave them out, or rewrite the whole "
                "file as UTF-8"
            ) from None


def read_file(
    workspace: Workspace,
    path: str,
    start_line: int | None = None,
    end_line: int | None = None,
    max_bytes: int = MAX_CONTENT_BYTES,
) -> FileContent:
    """Return the text of a file, whole or a range of lines; the part of a range beyond the end is ignored."""
    place = workspace.resolve(path)
    content = read_bytes(workspace, place, path)
    text, encoding, problem = decode_text(content, path)
    reading = select_lines(workspace.name(place), text, start_line, end_line, max_bytes)
    notes = (problem, *reading.notes) if problem else reading.notes
    return reading._replace(size_bytes=len(content), encoding=encoding, hash=digest(content), notes=notes)


def select_lines(
    name: str, text: str, start_line: int | None = None, end_line: int | None = None, max_bytes: int = MAX_CONTENT_BYTES
) -> FileContent:
    """Return a range of lines of a text that the caller has read, as far as it fits in `max_bytes`."""
    total = text.count("\n") + (not text.endswith("\n") and text != "")
    first, last = _check_range(start_line, end_line, total)
    start = _start_of(text, first)
    rest = text[start : start + max_bytes + 1]  # more than that does not fit anyway
    requested = split_lines(mark_hidden(rest))[: last - first + 1]
    content, count = _fit_lines(requested, max_bytes)
    is_cut = len(content) < sum(map(len, requested))
    part = FileContent(name, content, min(first, total), first - 1 + count, total, is_cut=is_cut)
    return part._replace(notes=(*_describe_part(part), *_describe_markers(text, start, content)))


def _describe_markers(text: str, start: int, content: str) -> tuple[str, ...]:
    """Say that the content has markers of hidden characters, if it differs from the text that starts there."""
    if text.startswith(content, start):
        return ()
    return ("[U+…] stands for hidden characters; edit_file keeps those whose markers stay in new_string",)


def _describe_part(part: FileContent) -> tuple[str, ...]:
    """Say which part of a file this is, and where to continue."""
    lines = f"lines {part.start_line} to {part.end_line} of {part.lines}"
    if not part.is_cut:
        return () if (part.start_line, part.end_line) == (min(1, part.lines), part.lines) else (lines,)
    if part.content.endswith("\n"):
        return (f"{lines}; continue with start_line={part.end_line + 1}",)
    return (f"only the beginning of line {part.start_line} of {part.lines}, which is long: use grep in it",)


def _start_of(text: str, line: int) -> int:
    """Return where a line starts. Counting line feeds instead of splitting saves a gigabyte with millions of lines."""
    start, missing = 0, line - 1
    while (found := text.count("\n", start, start + PIECE_CHARS)) < missing:
        start, missing = start + PIECE_CHARS, missing - found
    for _ in range(missing):
        start = text.index("\n", start) + 1
    return start


def split_lines(text: str) -> list[str]:
    """Split a text into lines with their ends; only a line feed ends a line, as in editors and compilers."""
    *ended, last = text.split("\n")
    return [line + "\n" for line in ended] + [last] * bool(last)


def _check_range(start: int | None, end: int | None, lines: int) -> tuple[int, int]:
    first = 1 if start is None else start
    last = lines if end is None else min(end, lines)
    if first < 1 or (end is not None and end < first):
        raise InputError(
            f"lines {start} to {end} are not a range: lines count from 1, and end_line must not be less than start_line"
        )
    if first > max(lines, 1):
        raise InputError(f"Start line {first} exceeds file length ({lines} lines)")
    return first, last


def _fit_lines(lines: list[str], max_bytes: int) -> tuple[str, int]:
    """Return as many whole lines as fit and their number; if not even one fits, the beginning of the first."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line.encode("utf-8", "replace"))
        if size > max_bytes:
            if number:
                return "".join(lines[:number]), number
            return line.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore"), 1
    return "".join(lines), len(lines)


def read_bytes(workspace: Workspace, place: ResolvedPath, path: str) -> bytes:
    """Return the content of a file as it was at one moment."""
    number = workspace.open_file(place, path)
    try:
        with explain_os_errors(path):
            size = os.fstat(number).st_size
            if size > MAX_FILE_BYTES:
                limit = f"more than the {MAX_FILE_BYTES:,} that can be read"
                raise InputError(f"{display(path)} has {size:,} bytes, {limit}: continue without it")
            return read_stable(number, MAX_FILE_BYTES)
    finally:
        os.close(number)


def decode_text(content: bytes, path: str) -> tuple[str, str, str | None]:
    """Return the text of a file, its encoding and, if it could not be decoded exactly, what is wrong with it."""
    mark, encoding = byte_order_mark(content)
    if not mark and b"\0" in content:
        raise InputError(f"{display(path)} is a binary file of {len(content):,} bytes, not text: it cannot be read")
    text, problem = decode_leniently(content[len(mark) :], encoding or "utf-8")
    return text, encoding or ("utf-8" if problem is None else "unknown"), problem


def decode_editable(content: bytes, path: str) -> EditableText:
    """Decode a file for editing."""
    mark, encoding = byte_order_mark(content)
    if not mark and b"\0" in content:
        raise InputError(f"{display(path)} is a binary file of {len(content):,} bytes, not text: it cannot be edited")
    encoding = encoding or _detect_encoding(content)
    try:
        text = content[len(mark) :].decode(encoding, _error_handler(encoding))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{display(path)} is not {encoding.upper()} (byte {error.start}): rewrite the whole file with write_file"
        ) from None
    is_crlf = _is_crlf(text)
    return EditableText(text.replace("\r\n", "\n") if is_crlf else text, mark, encoding, is_crlf)


def _detect_encoding(content: bytes) -> str:
    """Return the encoding in which `read_file` shows a text without byte order mark."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return guess_encoding(content)
    return "utf-8"


def _error_handler(encoding: str) -> str:
    """Return how to preserve undecodable bytes, in the encodings that we only guess."""
    return "surrogateescape" if encoding in ("utf-8", FALLBACK_ENCODING) else "strict"


def _is_crlf(text: str) -> bool:
    """Return whether every line ends in CRLF and there is no other carriage return."""
    return 0 < text.count("\r\n") == text.count("\n") == text.count("\r")


def write_file(
    workspace: Workspace,
    path: str,
    content: str,
    create_dirs: bool = False,
    expected_hash: str | None = None,
) -> WrittenFile:
    """Write a whole file or nothing. An existing file keeps its mode, line ends and byte order mark."""
    place = workspace.resolve_for_writing(path)
    with open_target(workspace, place, path, create_dirs) as target:
        if expected_hash is not None:
            target.check(expected_hash)
        if target.old is not None:
            _refuse_markers(target.old, content)
        raw = _encode_like(target.old, content, path)
        target.replace(raw)
    return WrittenFile(workspace.name(place), len(raw), target.old is None, digest(raw))


def check_characters(text: str, name: str) -> None:
    """Raise InputError if a text contains a lone surrogate, which cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} contains half of a surrogate pair: send whole characters") from None


def _refuse_markers(old: bytes, content: str) -> None:
    """Refuse a content copied from read_file in which markers stand for hidden characters, which would be lost."""
    text = old.decode("utf-8", "replace")
    added = Counter(find_markers(content)) - Counter(find_markers(text))
    marker = next((run.marker for run in find_hidden(text) if run.marker in added), None) if added else None
    if marker:
        raise InputError(
            f"the content has {marker}, which stands for hidden characters of the file and would replace them: use "
            "edit_file, which keeps them, or leave it out to remove them"
        )


def _encode_like(old: bytes | None, content: str, path: str) -> bytes:
    """Encode a new content like the old one."""
    check_characters(content, "the content")
    try:
        form = decode_editable(old or b"", path)
    except InputError:  # the old content is binary or damaged, so there is nothing to preserve
        return content.encode()
    if content.startswith("\ufeff") and form.mark:
        content = content[1:]
    encoding = form.encoding if form.mark else "utf-8"  # everything is new, so nothing has to be guessed
    return form._replace(encoding=encoding, is_crlf=form.is_crlf and "\r" not in content).encode(content)


class WriteTarget:
    """A file that is about to be replaced, in a directory that is kept open."""

    def __init__(self, workspace: Workspace, directory: int, place: ResolvedPath, path: str) -> None:
        self._directory = directory
        self._name = place.inner.rpartition("/")[2]
        self._path = path
        self._before = self._status()
        self.old: bytes | None = None
        if self._before is not None:
            self._check_kind(self._before)
            self.old = read_bytes(workspace, place, path)

    def check(self, expected_hash: str) -> None:
        """Raise InputError if the file is no longer the one that was read, and NotFound if it no longer exists."""
        if self.old is None:
            raise NotFound(f"File not found: {display(self._path)}; it has been removed since you read it")
        if digest(self.old) != expected_hash:
            raise InputError(f"{display(self._path)} has changed since you read it: read it again before you change it")

    def replace(self, raw: bytes) -> None:
        """Replace the content, unless somebody else has changed the file in the meantime."""
        if len(raw) > MAX_FILE_BYTES:
            raise InputError(f"the file would have {len(raw):,} bytes, more than {MAX_FILE_BYTES:,}: write less")
        with explain_os_errors(self._path):
            write_atomic(self._name, raw, 0o666, self._directory, self._check_same)

    def _check_same(self) -> None:
        if _identity(self._status()) != _identity(self._before):
            raise InputError(f"{display(self._path)} was changed by somebody else just now: read it again")

    def _status(self) -> os.stat_result | None:
        with explain_os_errors(self._path):
            try:
                return os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
            except FileNotFoundError:
                return None

    def _check_kind(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise InputError(
                f"{display(self._path)} is {describe_kind(status.st_mode)}, not a regular file: choose another name"
            )
        if not status.st_mode & 0o222:
            raise InputError(f"{display(self._path)} is read-only by its mode: ask the user to make it writable")


def _identity(status: os.stat_result | None) -> tuple[int, ...] | None:
    return status and (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@contextmanager
def open_target(
    workspace: Workspace, place: ResolvedPath, path: str, create_dirs: bool = False
) -> Iterator[WriteTarget]:
    """Prepare to replace or create a file, and keep other writers out of its directory meanwhile."""
    if create_dirs:
        _create_directories(workspace, place.parent(), path)
    elif not os.path.lexists(place.parent().path):
        above = display(workspace.name(place.parent()))
        raise NotFound(f"the directory {above} does not exist: send create_dirs=true to create it, or choose another")
    with workspace.open_directory(place.parent(), path) as directory:
        _lock_directory(directory)
        yield WriteTarget(workspace, directory, place, path)


def _lock_directory(directory: int) -> None:
    """Lock out other writers of ours until the directory is closed: of two that read, edit and replace, one would win.

    A lock that is held for longer than any write takes belongs to another program; then only the check just before the
    replacement protects the file.
    """
    ends_at = monotonic() + LOCK_S
    with suppress(OSError):  # the file system has no locks
        while not try_lock(directory) and monotonic() < ends_at:
            cancellation.check()
            sleep(POLL_S)


def _create_directories(workspace: Workspace, place: ResolvedPath, path: str) -> None:
    """Create a directory and its missing parents, each in a parent that is kept open."""
    at = ResolvedPath(place.root, "")
    for part in place.inner.split("/") if place.inner else []:
        with workspace.open_directory(at, path) as directory, explain_os_errors(path), suppress(FileExistsError):
            os.mkdir(part, dir_fd=directory)
            sync_directory(directory)
        at = at.child(part)


def list_files(workspace: Workspace, path: str = ".", limit: int = MAX_ENTRIES) -> DirectoryListing:
    """List a directory by name, with hidden entries and with links as links."""
    place = workspace.resolve(path)
    total = 0

    def count(entries: Iterator["os.DirEntry[str]"]) -> Iterator["os.DirEntry[str]"]:
        nonlocal total
        for entry in entries:
            total += 1
            yield entry

    with (
        workspace.open_directory(place, path) as directory,
        explain_os_errors(path),
        closing(os.scandir(directory)) as entries,
    ):
        first = nsmallest(limit, count(entries), key=lambda entry: os.fsencode(entry.name))
        listed = tuple(_describe_entry(workspace, place, entry) for entry in first)
    return DirectoryListing(workspace.name(place), listed, total, total - len(listed))


def _describe_entry(workspace: Workspace, place: ResolvedPath, entry: "os.DirEntry[str]") -> DirectoryEntry:
    is_closed = workspace.is_denied(place.child(entry.name))
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # it has just been removed
        return DirectoryEntry(entry.name, "gone", None, is_closed)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    return DirectoryEntry(entry.name, _short_kind(status.st_mode), size, is_closed)


def stat_file(workspace: Workspace, path: str) -> FileStatus:
    """Describe a path without reading it; a path that does not exist is not an error."""
    place = workspace.resolve(path)
    above, _, name = place.inner.rpartition("/")
    try:
        with workspace.open_directory(ResolvedPath(place.root, above), path) as directory, explain_os_errors(path):
            status = os.stat(name or ".", dir_fd=directory, follow_symlinks=False)
    except NotFound:
        return FileStatus(workspace.name(place), False)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    kind, mode = _short_kind(status.st_mode), stat.filemode(status.st_mode)
    return FileStatus(workspace.name(place), True, kind, size, _format_time(status.st_mtime), mode)


def _format_time(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a file system may report anything
        return None


def _short_kind(mode: int) -> str:
    return describe_kind(mode).split()[-1]
