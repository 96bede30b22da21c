"""Find and read the files of a directory safely.

Nothing outside the directory is ever opened, whatever its links say, and only regular files are opened. Closed paths
are not read either, such as those whose names say that they may contain secrets. Files that cannot be used are
reported, never raised: one bad file must not hide the others.
"""

from __future__ import annotations

import os
import stat
import time

from onhand import fsio
from onhand.closed_paths import BY_NAME, ClosedPaths
from onhand.hidden_characters import describe_hidden
from onhand.record import Record
from onhand.text import byte_order_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

MARKDOWN = (".md", ".markdown")
SKIPPED_DIRECTORIES = frozenset({"node_modules", "__pycache__", "venv"})  # and every hidden one
MAX_DEPTH = 20  # directories below the root; a tree deeper than this was not written by hand
LINKED_DIRECTORY = "a link to a directory: add its target as an extra root"
MAX_FILES = 20_000  # a root with more of them is not a directory of notes
MAX_ENTRIES = 1_000_000  # of all directories below a root: listing them takes some seconds
MAX_TOTAL_BYTES = 128 * 1024 * 1024  # of all files; once it is indexed, text takes ten times as much memory


class Stamp(Record):
    """The change stamp of a file: two that are equal mean that it has not changed, if `is_settled`."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class FoundFile(Record):
    """A file below a root."""

    name: str  # relative to the root, with forward slashes
    root: str
    inner: str  # where to open it, relative to the root: for a link, its target
    stamp: Stamp


class Problem(Record):
    """A file or directory that was left out, and why."""

    path: str  # relative to the root; in the results of a corpus, written as in its hits
    reason: str


class Unreadable(Exception):  # not an OnhandError, because callers report it as a Problem
    """A file cannot be used; the message says why and what to do."""


def sweep(
    root: str,
    suffixes: tuple[str, ...] = MARKDOWN,
    max_files: int = MAX_FILES,
    names: Collection[str] = (),
    skips: Callable[[str], bool] | None = None,
    closed: ClosedPaths = BY_NAME,
) -> tuple[list[FoundFile], list[Problem]]:
    """Return the files below a root with one of these suffixes, by name, and what was left out.

    With `names`, only files with one of these names are returned; a link with such a name may lead to a file with one
    of the suffixes. `skips` decides by its path relative to the root whether a directory is passed over; by default,
    hidden and vendored ones are. A missing root counts as empty.
    """
    found: list[FoundFile] = []
    problems: list[Problem] = []

    def is_wanted(name: str) -> bool:
        return name in names if names else name.lower().endswith(suffixes)

    suffixes = (*suffixes, *map(str.lower, names))
    real = os.path.realpath(root)
    if reason := closed.why_closed(real):
        return [], [Problem("", reason)] if os.path.isdir(real) else []
    for entry in _walk(root, problems, is_wanted, skips or _is_skipped):
        if len(found) >= max_files:
            problems.append(Problem("", f"more than {max_files:,} files: the rest is left out; choose a smaller root"))
            break
        try:
            file = _resolve_entry(root, *entry, suffixes)
            _check_open(closed, real, file.inner)
            found.append(file)
        except Unreadable as error:
            problems.append(Problem(entry[0], str(error)))
    return sorted(found), sorted(problems)


def root_prefix(root: str) -> str:
    """Return the prefix of displayed paths for a root: "" for the current directory, else ending with a slash."""
    plain = os.path.normpath(root).replace(os.sep, "/")
    return "" if plain == "." else plain.rstrip("/") + "/"


def within_limits(found: Mapping[str, FoundFile], max_bytes: int) -> tuple[dict[str, FoundFile], list[Problem]]:
    """Return as many of the files as may be read together, in their order, and what was left out."""
    accepted: dict[str, FoundFile] = {}
    left_out: list[str] = []
    room = MAX_TOTAL_BYTES
    for path, file in found.items():
        size = file.stamp.size if file.stamp.size <= max_bytes else 0  # what is too large is not read
        if len(accepted) >= MAX_FILES or size > room:
            left_out.append(path)
        else:
            accepted[path] = file
            room -= size
    if not left_out:
        return accepted, []
    limits = f"{MAX_FILES:,} files or {MAX_TOTAL_BYTES:,} bytes"
    others = f", with {len(left_out) - 1:,} others" if len(left_out) > 1 else ""
    return accepted, [Problem(left_out[0], f"left out{others}: more than {limits} together; choose smaller roots")]


def read(file: FoundFile, max_bytes: int) -> tuple[str, str | None]:
    """Return the text of a file without its byte order mark, and what is wrong with it, or None.

    A text may have parts that could not be decoded, or hidden characters.
    """
    if file.stamp.size > max_bytes:
        raise Unreadable(f"{file.stamp.size:,} bytes, more than {max_bytes:,}: split it or raise max_file_bytes")
    text, problem = _decode(read_bytes(file, min(max_bytes, MAX_TOTAL_BYTES)))
    hidden = describe_hidden(text)
    return text, "; ".join(filter(None, (problem, hidden))) or None


def read_bytes(file: FoundFile, max_bytes: int) -> bytes:
    """Return the content of a file as it was at one moment; Unreadable if it has more than `max_bytes`."""
    descriptor = open_regular(file)
    try:
        return fsio.read_stable(descriptor, max_bytes)
    except OSError as error:
        raise Unreadable(_error_text(error)) from error
    finally:
        os.close(descriptor)


def open_regular(file: FoundFile) -> int:
    """Return a descriptor for reading a file; Unreadable if it is no longer a regular file inside its root."""
    # O_NONBLOCK, so that a pipe put in the file's place cannot hang us; O_NOFOLLOW, so that a link cannot lead out.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = _open_below(file.root, file.inner, flags)
    except OSError as error:
        raise Unreadable(_error_text(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable("no longer a regular file")
    return descriptor


def _open_below(root: str, inner: str, flags: int) -> int:
    """Open a file directory by directory, because any of them may have become a link out of the root since."""
    *above, name = inner.split("/")
    if not above or os.open not in os.supports_dir_fd:
        return os.open(os.path.join(root, inner), flags)
    to_directory = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
    directory = os.open(root, to_directory)
    try:
        for part in above:
            lower = os.open(part, to_directory | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = lower
        return os.open(name, flags, dir_fd=directory)
    finally:
        os.close(directory)


def is_settled(stamp: Stamp) -> bool:
    """Return whether the last change was long enough ago that the next one is certain to change the stamp."""
    return fsio.is_unchanged_since(max(stamp.modified_ns, stamp.changed_ns), time.time_ns())


def _walk(
    root: str, problems: list[Problem], is_wanted: Callable[[str], bool], skips: Callable[[str], bool]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the wanted entries below a root, with names relative to it; links to directories are not followed."""
    waiting = [("", 0)]
    room = MAX_ENTRIES
    while waiting:
        prefix, depth = waiting.pop()
        try:
            with os.scandir(os.path.join(root, prefix)) as entries:
                for entry in entries:
                    room -= 1
                    if room < 0:
                        problems.append(Problem("", f"more than {MAX_ENTRIES:,} entries: choose a smaller root"))
                        return
                    name = prefix + entry.name
                    if is_wanted(entry.name) and not _is_directory(entry):
                        yield name, entry
                    elif _is_directory(entry) and not skips(name):
                        if entry.is_symlink():
                            problems.append(Problem(name, LINKED_DIRECTORY))
                        elif depth >= MAX_DEPTH:
                            problems.append(Problem(name, f"deeper than {MAX_DEPTH} directories"))
                        else:
                            waiting.append((name + "/", depth + 1))
        except FileNotFoundError:
            continue  # a missing root is an empty one, and a directory may have been deleted during the walk
        except OSError as error:
            problems.append(Problem(prefix.rstrip("/"), _error_text(error)))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links, or a link to where we may not look
        return False


def _is_skipped(directory: str) -> bool:
    name = directory.rpartition("/")[2]
    return name.startswith(".") or name in SKIPPED_DIRECTORIES


def _resolve_entry(root: str, name: str, entry: os.DirEntry[str], suffixes: tuple[str, ...]) -> FoundFile:
    try:
        is_link = entry.is_symlink()
    except OSError as error:
        raise Unreadable(_error_text(error)) from error
    if not is_link:
        return find_unlinked(root, name)
    root, inner = _resolve_link(root, os.path.join(root, name), suffixes)
    return find_unlinked(root, inner, name)


def find_named(path: str) -> FoundFile:
    """Return the file that a user named by its path, which may be a link to anywhere."""
    target = _resolve_path(path)
    return find_unlinked(os.path.dirname(target), os.path.basename(target), os.path.basename(path))


def find_inside(
    directory: str, path: str, suffixes: tuple[str, ...] = ("",), closed: ClosedPaths = BY_NAME
) -> FoundFile:
    """Return the file at a path inside a directory.

    Neither the path nor a link may lead out of the directory, to a closed path or to a file without one of the
    suffixes.
    """
    plain = os.path.normpath(path).replace(os.sep, "/")
    if os.path.isabs(plain) or plain.split("/")[0] == "..":  # before a look, so that nothing outside is revealed
        raise Unreadable("it leads out of there")
    target = _resolve_path(os.path.join(directory, path))
    directory = os.path.realpath(directory)
    if not is_inside(target, directory):
        raise Unreadable("it leads out of there")
    _check_suffix(target, suffixes)
    inner = os.path.relpath(target, directory).replace(os.sep, "/")
    _check_open(closed, directory, inner)
    return find_unlinked(directory, inner, path)


def _check_open(closed: ClosedPaths, root: str, inner: str) -> None:
    if reason := closed.why_closed(root, inner):
        raise Unreadable(reason)


def find_unlinked(root: str, inner: str, name: str | None = None) -> FoundFile:
    """Return the file at a path below a root, if it is a regular file and not a link; by default, the path names it."""
    try:
        status = os.stat(os.path.join(root, inner), follow_symlinks=False)
    except OSError as error:
        raise Unreadable(_error_text(error)) from error
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable("not a regular file")
    stamp = Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return FoundFile(inner if name is None else name, root, inner, stamp)


def _resolve_path(path: str) -> str:
    try:
        return os.path.realpath(path, strict=True)
    except ValueError:  # such as a path with a null byte
        raise Unreadable("no file has such a path") from None
    except OSError as error:
        raise Unreadable(_error_text(error)) from error


def _resolve_link(root: str, link: str, suffixes: tuple[str, ...]) -> tuple[str, str]:
    """Return the resolved root and, relative to it, the target of a link, which must be inside the root."""
    target = _resolve_path(link)
    if not is_inside(target, root):
        raise Unreadable("a link out of the root: put the file itself here, or add its directory as an extra root")
    _check_suffix(target, suffixes)
    root = os.path.realpath(root)
    return root, os.path.relpath(target, root).replace(os.sep, "/")


def _check_suffix(target: str, suffixes: tuple[str, ...]) -> None:
    """Refuse the target of a link called AGENTS.md that is not such a file, for example a file of passwords."""
    if not target.lower().endswith(suffixes):
        form = "Markdown" if MARKDOWN[0] in suffixes else "of these forms"
        raise Unreadable(f"a link to something that is not {form}")


def is_inside(path: str, directory: str) -> bool:
    """Return whether a path is a directory or inside it, once all links are resolved."""
    directory = os.path.realpath(directory)
    try:
        return os.path.commonpath([directory, os.path.realpath(path)]) == directory
    except ValueError:  # another drive
        return False


def _decode(content: bytes) -> tuple[str, str | None]:
    mark, encoding = byte_order_mark(content)
    encoding = encoding or "utf-8"
    if encoding == "utf-8" and b"\0" in content:
        raise Unreadable("a binary file, not Markdown")
    text = content[len(mark) :]
    try:
        return text.decode(encoding), None
    except UnicodeDecodeError as error:
        place = f"byte {error.start + len(mark)}"
        problem = f"not {encoding.upper()} ({place}): save it as UTF-8 to be found whole"
        return text.decode(encoding, "replace"), problem


def _error_text(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
