"""What is in a file or a directory, and how is a file written? Plain functions over a workspace.

They know no tool and no model: what cannot be done is an InputError, what is not there a NotFound.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from heapq import nsmallest
from time import monotonic, sleep
from typing import NamedTuple

from onhand import wanted
from onhand.actions.workspace import Place, Workspace, kind, shown, told
from onhand.digest import digest
from onhand.encoding import GUESS, decoded, guess_of, mark_of
from onhand.errors import InputError, NotFound
from onhand.regular import read_whole
from onhand.replace import replace_file

MAX_FILE_BYTES = 32 * 1024 * 1024  # of a file that is read or written; text by hand has a hundredth of it
MAX_CONTENT_BYTES = 48 * 1024  # of what one reading gives: some 12,000 tokens
MAX_ENTRIES = 500  # of what one listing gives
PIECE_CHARS = 64 * 1024  # in which lines are counted at once
LOCK_S, POLL_S = 10.0, 0.005  # to wait for others who write in the same directory: each takes milliseconds


class Reading(NamedTuple):
    """What a file says, or the lines of it that were asked for."""

    path: str
    content: str
    start_line: int
    end_line: int  # the last line of the content; 0 in an empty file
    lines: int  # of the whole file
    size_bytes: int = 0
    encoding: str = "utf-8"
    hash: str = ""  # of the whole file; an edit can ask that it is still the same
    is_cut: bool = False  # more was asked for than may be given at once
    problem: str | None = None


class Written(NamedTuple):
    """What became of a file."""

    path: str
    bytes_written: int
    created: bool
    hash: str


class Entry(NamedTuple):
    """Something in a directory."""

    name: str
    kind: str  # file, directory, link, pipe, socket or device
    size_bytes: int | None = None
    is_closed: bool = False  # no tool reads it


class Listing(NamedTuple):
    """What is in a directory: the first entries by name."""

    path: str
    entries: tuple[Entry, ...]
    total: int


class Status(NamedTuple):
    """What is known of a path without reading what it says."""

    path: str
    exists: bool
    kind: str | None = None
    size_bytes: int | None = None
    modified: str | None = None  # in UTC
    mode: str | None = None


class Text(NamedTuple):
    """A file as text that can be written back without a change in what nobody touched."""

    text: str  # without a mark, and with bare line feeds if every line ended in CRLF
    mark: bytes
    encoding: str
    is_crlf: bool

    def encoded(self, text: str) -> bytes:
        """Another text in the same form."""
        if self.is_crlf:
            text = text.replace("\n", "\r\n")
        try:
            return self.mark + text.encode(self.encoding, _kept(self.encoding))
        except UnicodeEncodeError as error:
            letters = shown(text[error.start : error.end])
            raise InputError(
                f"the file is in {self.encoding}, which has no {letters}: do without, or write all of it anew as UTF-8"
            ) from None


def read(
    workspace: Workspace,
    path: str,
    start_line: int | None = None,
    end_line: int | None = None,
    max_bytes: int = MAX_CONTENT_BYTES,
) -> Reading:
    """The text of a file, whole or from one line to another; a range beyond its end is cut."""
    place = workspace.place(path)
    content = contents(workspace, place, path)
    text, encoding, problem = text_of(content, path)
    reading = excerpt(workspace.name(place), text, start_line, end_line, max_bytes)
    return reading._replace(size_bytes=len(content), encoding=encoding, hash=digest(content), problem=problem)


def excerpt(
    name: str, text: str, start_line: int | None = None, end_line: int | None = None, max_bytes: int = MAX_CONTENT_BYTES
) -> Reading:
    """The same of a text that somebody else has read."""
    total = text.count("\n") + (not text.endswith("\n") and text != "")
    first, last = _range(start_line, end_line, total)
    start = _start_of(text, first)
    rest = text[start : start + max_bytes + 1]  # what it has beyond that does not fit anyway
    asked = lines_of(rest)[: last - first + 1]
    given, count = _within(asked, max_bytes)
    return Reading(
        name,
        given,
        start_line=min(first, total),
        end_line=first - 1 + count,
        lines=total,
        is_cut=len(given) < sum(map(len, asked)),
    )


def _start_of(text: str, line: int) -> int:
    """Where a line begins: most of the text is only counted, since millions of lines would take a gigabyte."""
    start, missing = 0, line - 1
    while (found := text.count("\n", start, start + PIECE_CHARS)) < missing:
        start, missing = start + PIECE_CHARS, missing - found
    for _ in range(missing):
        start = text.index("\n", start) + 1
    return start


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends; only a line feed ends one, as in editors and compilers."""
    *ended, last = text.split("\n")
    return [line + "\n" for line in ended] + [last] * bool(last)


def _range(start: int | None, end: int | None, lines: int) -> tuple[int, int]:
    first = 1 if start is None else start
    last = lines if end is None else min(end, lines)
    if first < 1 or (end is not None and end < first):
        raise InputError(f"lines {start} to {end} are no range: lines are counted from 1, the first one comes first")
    if first > max(lines, 1):
        raise InputError(f"Start line {first} exceeds file length ({lines} lines)")
    return first, last


def _within(lines: list[str], max_bytes: int) -> tuple[str, int]:
    """As many whole lines as fit, and their number; of a first line that alone does not fit, its beginning."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line.encode("utf-8", "replace"))
        if size > max_bytes:
            if number:
                return "".join(lines[:number]), number
            return line.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore"), 1
    return "".join(lines), len(lines)


def contents(workspace: Workspace, place: Place, path: str) -> bytes:
    """The bytes of a file at one moment."""
    number = workspace.open_file(place, path)
    try:
        with told(path):
            size = os.fstat(number).st_size
            if size > MAX_FILE_BYTES:
                too_much = f"more than {MAX_FILE_BYTES:,}: it cannot be read here"
                raise InputError(f"{shown(path)} has {size:,} bytes, {too_much}")
            return read_whole(number, MAX_FILE_BYTES)
    finally:
        os.close(number)


def text_of(content: bytes, path: str) -> tuple[str, str, str | None]:
    """The text of a file, its encoding, and what is wrong with it although it can be used."""
    mark, encoding = mark_of(content)
    if not mark and b"\0" in content:
        raise InputError(f"{shown(path)} is a binary file of {len(content):,} bytes, not text: it cannot be shown")
    text, problem = decoded(content[len(mark) :], encoding or "utf-8")
    return text, encoding or ("utf-8" if problem is None else "unknown"), problem


def editable(content: bytes, path: str) -> Text:
    """A file's text, to be changed in places."""
    mark, encoding = mark_of(content)
    if not mark and b"\0" in content:
        raise InputError(f"{shown(path)} is a binary file of {len(content):,} bytes, not text: it cannot be edited")
    encoding = encoding or _unmarked(content)
    try:
        text = content[len(mark) :].decode(encoding, _kept(encoding))
    except UnicodeDecodeError as error:
        raise InputError(f"{shown(path)} is not {encoding.upper()} (byte {error.start}): write it anew") from None
    is_crlf = _is_crlf(text)
    return Text(text.replace("\r\n", "\n") if is_crlf else text, mark, encoding, is_crlf)


def _unmarked(content: bytes) -> str:
    """The encoding of a text without a mark: the same that a reading shows it in."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return guess_of(content)
    return "utf-8"


def _kept(encoding: str) -> str:
    """How bytes are kept that are no letters, where an encoding says so little of itself that there may be some."""
    return "surrogateescape" if encoding in ("utf-8", GUESS) else "strict"


def _is_crlf(text: str) -> bool:
    """Whether every line ends in CRLF, and no carriage return stands anywhere else."""
    return 0 < text.count("\r\n") == text.count("\n") == text.count("\r")


def write(
    workspace: Workspace,
    path: str,
    content: str,
    create_dirs: bool = False,
    expected_hash: str | None = None,
) -> Written:
    """Write a file whole or not at all. One that is there keeps its mode, its line ends and its byte order mark."""
    place = workspace.place_to_write(path)
    with target(workspace, place, path, create_dirs) as found:
        if expected_hash is not None:
            found.check(expected_hash)
        raw = _in_the_form_of(found.old, content, path)
        found.replace(raw)
    return Written(workspace.name(place), len(raw), found.old is None, digest(raw))


def _in_the_form_of(old: bytes | None, content: str, path: str) -> bytes:
    try:
        content.encode()
    except UnicodeEncodeError:
        raise InputError("the content has half of a surrogate pair: send whole characters") from None
    try:
        form = editable(old or b"", path)
    except InputError:  # binary, or damaged: it has no form to keep
        return content.encode()
    if content.startswith("\ufeff") and form.mark:
        content = content[1:]
    encoding = form.encoding if form.mark else "utf-8"  # all of it is new: nothing has to be guessed
    return form._replace(encoding=encoding, is_crlf=form.is_crlf and "\r" not in content).encoded(content)


class Target:
    """A file that is about to be replaced, in a directory that is held open."""

    def __init__(self, workspace: Workspace, directory: int, place: Place, path: str) -> None:
        self._directory = directory
        self._name = place.inner.rpartition("/")[2]
        self._path = path
        self._before = self._status()
        self.old: bytes | None = None
        if self._before is not None:
            self._check_kind(self._before)
            self.old = contents(workspace, place, path)

    def check(self, expected_hash: str) -> None:
        """Refuse to go on when the file is not the one that was read."""
        if self.old is None:
            raise NotFound(f"File not found: {shown(self._path)}; it was there when you read it")
        if digest(self.old) != expected_hash:
            raise InputError(f"{shown(self._path)} has changed since you read it: read it again, then decide anew")

    def replace(self, raw: bytes) -> None:
        """Put the new content in its place, unless somebody else was quicker."""
        if len(raw) > MAX_FILE_BYTES:
            raise InputError(f"{len(raw):,} bytes are more than a file may have here ({MAX_FILE_BYTES:,})")
        with told(self._path):
            replace_file(self._name, raw, 0o666, self._directory, self._check_same)

    def _check_same(self) -> None:
        if _stamp(self._status()) != _stamp(self._before):
            raise InputError(f"{shown(self._path)} was changed by somebody else just now: read it again")

    def _status(self) -> os.stat_result | None:
        with told(self._path):
            try:
                return os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
            except FileNotFoundError:
                return None

    def _check_kind(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{shown(self._path)} is {kind(status.st_mode)}, not a regular file: choose another name")
        if not status.st_mode & 0o222:
            raise InputError(f"{shown(self._path)} is read-only by its mode: ask the user to change that first")


def _stamp(status: os.stat_result | None) -> tuple[int, ...] | None:
    return status and (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@contextmanager
def target(workspace: Workspace, place: Place, path: str, create_dirs: bool = False) -> Iterator[Target]:
    """The file at a place, whether it is there or not, to be replaced."""
    if create_dirs:
        _make(workspace, place.above(), path)
    elif not os.path.lexists(place.above().path):
        above = shown(workspace.name(place.above()))
        raise NotFound(f"there is no directory {above}: send create_dirs=true to make it, or choose another")
    with workspace.opened_directory(place.above(), path) as directory, _alone(directory):
        yield Target(workspace, directory, place, path)


@contextmanager
def _alone(directory: int) -> Iterator[None]:
    """While nobody else writes in a directory so: of two who read, change and replace, one would undo the other's.

    Whoever keeps it longer than any write takes is not one of ours; then the look just before replacing has to do.
    """
    import fcntl

    ends_at = monotonic() + LOCK_S
    while not _locked(directory) and monotonic() < ends_at:
        wanted.check()
        sleep(POLL_S)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(directory, fcntl.LOCK_UN)


def _locked(directory: int) -> bool:
    import fcntl

    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _make(workspace: Workspace, place: Place, path: str) -> None:
    """Make a directory and those above it, each in one that is held open."""
    at = Place(place.root, "")
    for part in place.inner.split("/") if place.inner else []:
        with workspace.opened_directory(at, path) as directory, told(path), suppress(FileExistsError):
            os.mkdir(part, dir_fd=directory)
        at = at.below(part)


def list_files(workspace: Workspace, path: str = ".", limit: int = MAX_ENTRIES) -> Listing:
    """What is in a directory, by name: hidden entries too, and links as what they are."""
    place = workspace.place(path)
    total = 0

    def counted(entries: Iterator["os.DirEntry[str]"]) -> Iterator["os.DirEntry[str]"]:
        nonlocal total
        for entry in entries:
            total += 1
            yield entry

    with workspace.opened_directory(place, path) as directory, told(path), closing(os.scandir(directory)) as entries:
        first = nsmallest(limit, counted(entries), key=lambda entry: os.fsencode(entry.name))
        listed = tuple(_entry(workspace, place, entry) for entry in first)
    return Listing(workspace.name(place), listed, total)


def _entry(workspace: Workspace, place: Place, entry: "os.DirEntry[str]") -> Entry:
    is_closed = workspace.is_denied(place.below(entry.name))
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # it went away while we looked
        return Entry(entry.name, "gone", None, is_closed)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    return Entry(entry.name, _kind(status.st_mode), size, is_closed)


def stat_file(workspace: Workspace, path: str) -> Status:
    """What is known of a path; that there is nothing is an answer."""
    place = workspace.place(path)
    above, _, name = place.inner.rpartition("/")
    try:
        with workspace.opened_directory(Place(place.root, above), path) as directory, told(path):
            status = os.stat(name or ".", dir_fd=directory, follow_symlinks=False)
    except NotFound:
        return Status(workspace.name(place), False)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    kind_, mode = _kind(status.st_mode), stat.filemode(status.st_mode)
    return Status(workspace.name(place), True, kind_, size, _time(status.st_mtime), mode)


def _time(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a file system may say anything
        return None


def _kind(mode: int) -> str:
    return kind(mode).split()[-1]
