"""Decide which paths may be used, and open them.

A workspace has roots, and rules about what is closed in them. A path that a model sends is resolved first: links are
followed, and the rules are applied to the target. Then exactly that target is opened without following any link, by one
system call where the kernel has openat2, else step by step from one open directory to the next. So swapping links in
the meantime causes an error, never an escape. Mounts and hard links inside a root belong to it, and writing replaces a
hard link instead of changing the file that it shares.
"""

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import normalize

from onhand.errors import InputError, NotFound
from onhand.hidden_characters import repair_surrogates, sanitize
from onhand.path_rules import PathPatterns, PathRules
from onhand.sensitive_names import HIDDEN_FROM_TOOLS, READ_ONLY_FOR_TOOLS

if TYPE_CHECKING:
    from onhand.tools.tool import Tool

OPENAT2 = 437  # the same on every architecture
NO_MAGICLINKS, NO_SYMLINKS, BENEATH = 0x02, 0x04, 0x08  # linux/openat2.h
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
DIRECTORY_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
LIST_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)  # a directory to be listed
# O_NONBLOCK: opening a pipe must not wait for a writer. O_NOCTTY: it must not become our controlling terminal.
FILE_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def open_beneath(directory: int, inner: str, flags: int) -> int:
    """Open a path below an open directory; OSError if there is a link, `..` or an empty part anywhere in the path.

    An empty path is the directory itself.
    """
    open_path = _openat2() or open_stepwise
    return open_path(directory, inner, flags)


def open_stepwise(directory: int, inner: str, flags: int) -> int:
    """Do the same as `open_beneath` without openat2."""
    *parents, name = split_parts(inner)
    current = os.dup(directory)
    try:
        for part in parents:
            lower = os.open(part, DIRECTORY_FLAGS | NOFOLLOW, dir_fd=current)
            os.close(current)
            current = lower
        return os.open(name, flags | NOFOLLOW, dir_fd=current)
    finally:
        os.close(current)


@cache
def _openat2() -> Any:
    """Return openat2 as a function, or None where the kernel does not have it or forbids it."""
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).syscall
        call.restype = ctypes.c_long
    except (ImportError, OSError, AttributeError, TypeError):  # no such libc, as on Windows
        return None

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    def open_with_openat2(directory: int, inner: str, flags: int) -> int:
        path = os.fsencode("/".join(split_parts(inner)))
        how = How(flags | os.O_CLOEXEC, 0, BENEATH | NO_SYMLINKS | NO_MAGICLINKS)
        arguments = ctypes.c_long(directory), ctypes.c_char_p(path), ctypes.byref(how)
        number: int = call(ctypes.c_long(OPENAT2), *arguments, ctypes.c_size_t(ctypes.sizeof(how)))
        if number < 0:
            raise _os_error(ctypes.get_errno(), inner)
        return number

    return open_with_openat2 if _is_supported(open_with_openat2) else None


def _is_supported(open_path: Any) -> bool:
    """Try the call: an older kernel does not have it, and a sandbox may forbid it."""
    root = os.open("/", DIRECTORY_FLAGS)
    try:
        os.close(open_path(root, "", DIRECTORY_FLAGS))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def split_parts(inner: str) -> list[str]:
    """Split a path into names; OSError if one of them would lead up or elsewhere."""
    parts = inner.split("/") if inner else ["."]
    if "" in parts or ".." in parts or any("\0" in part for part in parts):
        raise _os_error(errno.EXDEV, inner)
    return parts


def _os_error(number: int, inner: str) -> OSError:
    return OSError(number, os.strerror(number), inner)


MAX_PATH_BYTES = 4096  # Linux accepts no longer one
MAX_LINKS = 40  # in one path, as in Linux
MAX_DISPLAY_CHARS = 200  # of a path in a message

# The entries that make a directory a repository for git, or that git obeys in one.
_REPOSITORY_ENTRIES = frozenset(
    {"head", "objects", "refs", "config", "config.worktree", "hooks", "info", "commondir", "worktrees"}
)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class WorkspaceRoot(NamedTuple):
    """A directory that tools may use."""

    path: str  # absolute, with all links followed
    alias: str  # absolute, as the user wrote it, which a model may use
    writable: bool = True
    within: str = ""  # its path in the project, if it is inside one: the rules apply to that too


class ResolvedPath(NamedTuple):
    """The target of a path, with no link in it at the time of resolving."""

    root: WorkspaceRoot
    inner: str  # below the root, with forward slashes; the root itself is empty

    @property
    def path(self) -> str:
        """The absolute path, for messages and for our own programs."""
        return os.path.join(self.root.path, *self.inner.split("/")) if self.inner else self.root.path

    def child(self, name: str) -> "ResolvedPath":
        """Return the entry of this name."""
        return ResolvedPath(self.root, f"{self.inner}/{name}" if self.inner else name)

    def parent(self) -> "ResolvedPath":
        """Return the directory that contains it."""
        return ResolvedPath(self.root, self.inner.rpartition("/")[0])


class Workspace:
    """The directories that tools may use. Relative paths are below the first, its root."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        read_only_roots: Sequence[str] = (),
        writable_roots: Sequence[str] = (),
        writable: bool = True,
        deny: Sequence[str] = (),
        protect: Sequence[str] = (),
        allow: Sequence[str] = (),
        project: str = "",
        never_written: Sequence[str] = (),
    ) -> None:
        """Add `deny` and `protect` to the built-in rules, with `allow` as exceptions; all are .gitignore patterns.

        The rules also apply to paths relative to the `project`, so that a root inside `.git` does not open it.
        `never_written` has absolute paths of directories that not even `allow` opens for writing.
        """
        if os.open not in os.supports_dir_fd:
            raise InputError(
                "this system cannot open files relative to a directory, as a workspace must: on Windows, use WSL"
            )
        self.roots = (
            _root(os.fspath(root), writable, project),
            *(_root(path, True, project) for path in writable_roots),
            *(_root(path, False, project) for path in read_only_roots),
        )
        self.root = self.roots[0].path
        closed = PathRules(tuple(deny), tuple(protect), tuple(allow)).validate()
        # Public, like `allowed`, for git, which needs them in another form.
        self.denied = (*HIDDEN_FROM_TOOLS, *closed.deny)
        self.allowed = closed.allow
        self._denied = PathPatterns(self.denied)
        self._protected = PathPatterns([*READ_ONLY_FOR_TOOLS, *closed.protect])
        self._allowed = PathPatterns(self.allowed)
        self._never_written = tuple(os.path.join(os.path.realpath(path), "") for path in never_written)

    def tools(self, *, write: bool = True) -> "list[Tool]":
        """Return the tools for files, grep and git; unless `write`, only those that change nothing."""
        from onhand.actions.file_tools import reading_tools, writing_tools
        from onhand.actions.git import git_tool
        from onhand.actions.grep import grep_tool
        from onhand.actions.tree import glob_tool

        reading = [*reading_tools(self), glob_tool(self), grep_tool(self), git_tool(self)]
        return reading + (writing_tools(self) if write else [])

    def resolve(self, path: str) -> ResolvedPath:
        """Return the target of a path; InputError if it is outside, closed or not a valid path."""
        place = self._follow_links(self._start(check_path(path)), path)
        if not os.path.isdir(place.root.path):
            raise NotFound(f"the workspace {place.root.path} no longer exists: ask the user to restore it")
        if path.rpartition("/")[2] in ("", ".", "..") and not os.path.isdir(place.path):
            raise InputError(f"{display(path)} is not a directory: end the path with a file name")
        if self.is_denied(place):
            raise InputError(
                f"{display(path)} is closed to all tools because it may contain secrets: continue without it"
            )
        return place

    def resolve_for_writing(self, path: str) -> ResolvedPath:
        """Return the target of a path that is to be written; InputError if it must not be."""
        place = self.resolve(path)
        if not self._innermost(place).writable:
            raise InputError(f"{display(path)} is in a read-only root: write below {self.root}")
        if not place.inner:
            raise InputError(f"{display(path)} is a root of the workspace: name a file in it")
        if self.is_protected(place):
            raise InputError(
                f"{display(path)} is protected because programs run or obey it without asking: ask the user to change "
                "it, or to add it to workspace.allow"
            )
        return place

    def is_denied(self, place: ResolvedPath) -> bool:
        """Return whether a path may be neither read nor written."""
        return _is_among(self._denied, place) and not _is_among(self._allowed, place)

    def denies_entry(self, place: ResolvedPath) -> bool:
        """Return whether an entry is denied in a directory that is not. This is cheap, because its own name decides."""
        for path in rule_paths(place):
            if self._denied.match(path):
                return self.is_denied(place)
        return False

    def is_protected(self, place: ResolvedPath) -> bool:
        """Return whether a path, existing or not, may be read but never written."""
        if _is_in_own_python(place) or os.path.join(place.path, "").startswith(self._never_written):
            return True
        is_obeyed = _is_among(self._protected, place) or _is_in_bare_repository(place)
        return is_obeyed and not _is_among(self._allowed, place)

    def directory(self, path: str = ".") -> str:
        """Return the absolute path of a directory in the workspace, for example to run a program in."""
        place = self.resolve(path)
        with self.open_directory(place, path):
            return place.path

    def describe_further_roots(self) -> str:
        """Describe to a model the roots after the first, which it would not find otherwise."""
        roots = [f"{root.path}{'' if root.writable else ' (read-only)'}" for root in self.roots[1:]]
        return f" Absolute paths below these are allowed too: {', '.join(roots)}." if roots else ""

    def name(self, place: ResolvedPath) -> str:
        """Return the name of a path: relative to the workspace's root if it is below it, with forward slashes."""
        return place.inner or "." if place.root.path == self.root else place.path

    def open_file(self, place: ResolvedPath, path: str | None = None) -> int:
        """Open a regular file for reading without blocking; InputError if it is anything else."""
        name = path if path is not None else self.name(place)
        with explain_os_errors(name):
            number = open_place(place, FILE_FLAGS)
            if not stat.S_ISREG(mode := os.fstat(number).st_mode):
                os.close(number)
                raise InputError(f"{display(name)} is {describe_kind(mode)}, not a regular file: name a file")
        return number

    @contextmanager
    def open_directory(self, place: ResolvedPath, path: str | None = None) -> Iterator[int]:
        """Open a directory, and close it at the end of the `with` statement."""
        with explain_os_errors(path if path is not None else self.name(place)):
            number = open_place(place, LIST_FLAGS)
        try:
            yield number
        finally:
            os.close(number)

    def _innermost(self, place: ResolvedPath) -> WorkspaceRoot:
        """Return the innermost root that contains a path: a read-only one counts inside a writable one."""
        path = os.path.join(place.path, "")
        around = [root for root in self.roots if path.startswith(os.path.join(root.path, ""))]
        return max(around, key=lambda root: (len(root.path), not root.writable))

    def _start(self, path: str) -> ResolvedPath:
        """Return the root that a path starts in, with the rest of the path unresolved."""
        if not os.path.isabs(path):
            return ResolvedPath(self.roots[0], path)
        for root in self.roots:
            for prefix in (root.path, root.alias):
                if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
                    return ResolvedPath(root, path[len(prefix) :])
        raise self._outside_error(path)

    def _follow_links(self, start: ResolvedPath, original: str) -> ResolvedPath:
        """Follow a path link by link without ever leaving the roots."""
        root, done, links = start.root, list[str](), 0
        pending = start.inner.split("/")[::-1]
        while pending:
            if links > MAX_LINKS:
                raise InputError(f"{display(original)} has more than {MAX_LINKS} links or a loop: use another path")
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    raise self._outside_error(original)
                done.pop()
                continue
            directory = ResolvedPath(root, "/".join(done))
            if not part.isascii() and not os.path.lexists(directory.child(part).path):
                part = _match_unicode_form(directory, part)
                links += 1  # listing a directory counts too, to limit the work
            target = _read_link(directory.child(part), original)
            if target is None:
                done.append(part)
                continue
            links += 1
            if os.path.isabs(target):
                root, target = self._start_of_link(target, original)
                done = []
            pending += target.split("/")[::-1]
        return ResolvedPath(root, "/".join(done))

    def _start_of_link(self, target: str, original: str) -> tuple[WorkspaceRoot, str]:
        try:
            return self._start(target)
        except InputError:
            raise self._outside_error(original) from None

    def _outside_error(self, path: str) -> InputError:
        roots = ", ".join(root.path for root in self.roots)
        return InputError(f"{display(path)} is outside of the workspace ({roots}): use a path inside it")


def _root(path: str, writable: bool, project: str) -> WorkspaceRoot:
    alias = os.path.abspath(os.path.expanduser(path))
    real = os.path.realpath(alias)
    if not os.path.isdir(real):
        raise InputError(f"{path} is not a directory: name one to work in")
    around = os.path.join(os.path.realpath(project), "") if project else real
    return WorkspaceRoot(real, alias, writable, real[len(around) :] if real.startswith(around) else "")


def check_path(path: object) -> str:
    """Return a path that can be resolved; InputError if it is malformed."""
    if not isinstance(path, str) or not path.strip():
        raise InputError("the path is empty: name a file or a directory of the workspace, such as README.md")
    if "\0" in path:
        raise InputError("the path contains a NUL character: remove it")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise InputError("the path contains half of a surrogate pair: send whole characters") from None
    if size > MAX_PATH_BYTES:
        raise InputError(f"the path has {size:,} bytes, more than the limit of {MAX_PATH_BYTES:,}: send a shorter one")
    if path == "~" or path.startswith("~/"):
        raise InputError(f"{display(path)} is outside of the workspace: ~ is not expanded; send a path inside it")
    if _SCHEME.match(path):
        raise InputError(f"{display(path)} is a URL and outside of the workspace: send a path inside it")
    if _DRIVE.match(path):
        raise InputError(f"{display(path)} is a Windows path and outside of the workspace: send a path inside it")
    return path


def _match_unicode_form(directory: ResolvedPath, name: str) -> str:
    """Return the one name in a directory that looks like this one.

    A model composes letters that may be decomposed in a file's name, and names that are not UTF-8 are displayed with
    U+FFFD.
    """
    composed = normalize("NFC", name)
    try:
        alike = [one for one in os.listdir(directory.path) if normalize("NFC", repair_surrogates(one)) == composed]
    except OSError:
        return name
    return alike[0] if len(alike) == 1 else name


def _read_link(place: ResolvedPath, original: str) -> str | None:
    """Return the target of a link, or None if it is not a link."""
    try:
        return os.readlink(place.path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            most = f"a name has at most 255 bytes, a whole path {MAX_PATH_BYTES:,}"
            raise InputError(f"{display(original)} is too long: {most}") from None
        return None  # it is not a link or does not exist; opening it will report that


def open_place(place: ResolvedPath, flags: int) -> int:
    """Open a resolved path without following links; OSError if it has one now."""
    root = os.open(place.root.path, DIRECTORY_FLAGS)
    try:
        return open_beneath(root, place.inner, flags)
    finally:
        os.close(root)


@contextmanager
def explain_os_errors(path: str) -> Iterator[None]:
    """Turn OSErrors into NotFound or InputError with advice."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"File not found: {display(path)}; use list_files or glob to see what exists") from None
    except OSError as error:
        raise InputError(f"{display(path)}: {_describe_os_error(error)}") from None


def _describe_os_error(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.EXDEV, errno.EMLINK):
        return "it was replaced by a link while it was opened; try again"
    if error.errno in (errno.ENXIO, errno.EOPNOTSUPP):
        return "a socket or a device, not a regular file: name a file"
    return (error.strerror or str(error)).lower() + _ADVICE.get(error.errno or 0, "")


_ADVICE = {
    errno.ENOTDIR: ", or a part of its path is not; list the parent with list_files",
    errno.EACCES: "; continue without it, or ask the user to allow it",
    errno.EPERM: "; continue without it, or ask the user to allow it",
    errno.ENOSPC: "; nothing was written",
    errno.EROFS: "; nothing was written: continue without it, or ask the user for a writable directory",
}


def describe_kind(mode: int) -> str:
    """Name the kind of file that a mode describes, with its article."""
    for is_one, name in _KINDS:
        if is_one(mode):
            return name
    return "something special"


_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def display(path: str) -> str:
    """Return a path for a message: short, on one line, and sanitized."""
    line = path_line(path)
    return line if len(line) <= MAX_DISPLAY_CHARS else line[: MAX_DISPLAY_CHARS - 1] + "…"


def path_line(path: str) -> str:
    """Return a path on one line without shortening it, for an answer from which it will be used."""
    return sanitize(repair_surrogates(path).replace("\n", "\\n").replace("\t", "\\t"))


def _is_among(patterns: PathPatterns, place: ResolvedPath) -> bool:
    """Return whether a path or one of its parents matches."""
    return any(patterns.cover(path) for path in rule_paths(place))


def rule_paths(place: ResolvedPath) -> tuple[str, ...]:
    """Return the paths that rules apply to: the one below the root and, if it differs, below the project."""
    within = place.root.within
    return (place.inner, f"{within}/{place.inner}".rstrip("/")) if within else (place.inner,)


def _is_in_own_python(place: ResolvedPath) -> bool:
    """Return whether a path is in the Python environment that runs us, where writing means running code."""
    prefix = os.path.realpath(sys.prefix)
    within = os.path.join(place.root.path, "")
    return prefix.startswith(within) and os.path.join(place.path, "").startswith(os.path.join(prefix, ""))


def _is_in_bare_repository(place: ResolvedPath) -> bool:
    """Return whether a path is in a directory that git takes for a repository, or would make it one.

    Any git command in such a directory runs what its configuration says.
    """
    parts = place.inner.split("/")
    for depth, name in enumerate(map(str.casefold, parts)):
        directory = ResolvedPath(place.root, "/".join(parts[:depth])).path
        if name in _REPOSITORY_ENTRIES and is_bare_repository(directory, name):
            return True
    return False


def is_bare_repository(directory: str, coming: str = "") -> bool:
    """Return whether git takes a directory for a repository, or would with an additional entry `coming`."""

    def has(name: str) -> bool:
        return name.casefold() == coming or os.path.lexists(os.path.join(directory, name))

    return has("HEAD") and (has("commondir") or (has("objects") and has("refs")))
