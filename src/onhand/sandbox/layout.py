"""Resolve a policy on this disk: follow its links, find missing paths, and scan its roots for sensitive names.

It reads the disk and changes nothing; both backends build on the result. Every command waits for the scan, so a
directory is read again only when it has changed.

A sandbox cannot protect a name in every directory where it is missing: `quarantine` takes care of those.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from onhand.errors import SandboxError
from onhand.fsio import directory_stamp
from onhand.path_rules import NO_RULES, PathPatterns, PathRules, fold_path
from onhand.sandbox.policy import (
    MAY_BE_LINKS,
    PROTECTED_NAMES,
    REPOSITORIES,
    REPOSITORY_SETTINGS,
    Policy,
    inner_paths,
    is_below,
)
from onhand.sensitive_names import is_hidden_from_commands

MAX_ENTRIES = 1_000_000  # they take a second or two, and a tenth of that the next time
SKIPPED_DIRECTORIES = frozenset(
    {".git", "node_modules", ".venv", "venv", "site-packages", "__pycache__", ".tox", "target"}
)
BARE_MARK = "HEAD"  # without it, git takes no directory for a repository because of its contents
_BARE_NAMES = (BARE_MARK, "objects", "refs", "commondir")  # the last one instead of the two before it


class NamedEntry(NamedTuple):
    """A file, directory or link with a sensitive name."""

    path: str
    target: str | None = None  # of a link

    @property
    def is_link(self) -> bool:
        return self.target is not None


class SensitiveEntries(NamedTuple):
    """The entries with sensitive names in a directory or in a tree."""

    secrets: tuple[NamedEntry, ...]
    protected: tuple[NamedEntry, ...]
    repositories: tuple[NamedEntry, ...]  # below a root; marks of bare ones; what cannot be read


class TooManyFiles(SandboxError):
    """A tree has too many files to scan; `found` has what was found first, nearest to the root."""

    def __init__(self, root: str, found: SensitiveEntries) -> None:
        super().__init__(
            f"{root} has more than {MAX_ENTRIES:,} files, too many to scan for secrets: "
            "let commands work in a smaller directory (workspace.root), or remove files"
        )
        self.found = found


class _ScannedDirectory(NamedTuple):
    stamp: tuple[int, ...]
    found: SensitiveEntries
    directories: tuple[str, ...]  # to be scanned too
    size: int


def scan_names(root: str, within: str = "", closed: PathRules = NO_RULES) -> SensitiveEntries:
    """Return the entries with sensitive names below a root; `within` is its path in the project, if it is inside one.

    TooManyFiles if there are too many files to scan: secrets among the rest would be readable, and a command could
    create files to that end.
    """
    return _scanned_tree(root, within, closed).scan()


@lru_cache(8)
def _scanned_tree(root: str, within: str, closed: PathRules) -> "_ScannedTree":
    return _ScannedTree(root, within, closed)


class _ScannedTree:
    """A root with its rules, and the directories as the last scan found them."""

    def __init__(self, root: str, within: str, closed: PathRules) -> None:
        self._root = root
        self._within = within
        self._denied, self._protected, self._allowed = map(PathPatterns, closed)
        self._has_patterns = bool(closed.deny or closed.protect)
        self._known: dict[str, _ScannedDirectory] = {}

    def scan(self) -> SensitiveEntries:
        known, count = dict[str, _ScannedDirectory](), 0
        parts = [self._root_if_closed()]
        pending = [self._root]
        for path in pending:  # it grows, level by level
            now = directory_stamp(path)
            if now is None:
                continue
            directory = self._known.get(path)
            if directory is None or directory.stamp != now:
                directory = self._read(path, now)
            if directory is None:  # unreadable for us; a command could make it readable, so it is closed as a whole
                parts.append(SensitiveEntries((NamedEntry(path),), (), (NamedEntry(path),)))
                continue
            if now:
                known[path] = directory
            parts.append(directory.found)
            pending += directory.directories
            count += directory.size
            if count > MAX_ENTRIES:
                raise TooManyFiles(self._root, _join_entries(parts))
        self._known = known
        return _join_entries(parts)

    def _root_if_closed(self) -> SensitiveEntries:
        """Return the root itself if a rule of the project closes all of it."""
        root = (NamedEntry(self._root),)
        is_open = not self._within or self._allowed.cover(self._within)
        return SensitiveEntries(
            () if is_open or not self._denied.cover(self._within) else root,
            () if is_open or not self._protected.cover(self._within) else root,
            (),
        )

    def _read(self, path: str, stamp: tuple[int, ...]) -> _ScannedDirectory | None:
        entries = _read_entries(path)
        if entries is None:
            return None
        secrets, protected, repositories = list[NamedEntry](), list[NamedEntry](), list[NamedEntry]()
        directories = list[str]()
        if _are_of_repository({entry.name for entry in entries}):
            repositories.append(NamedEntry(os.path.join(path, BARE_MARK)))
        for entry in entries:
            name = fold_path(entry.name)
            is_directory = entry.is_dir(follow_symlinks=False)
            is_secret = is_hidden_from_commands(name, path, is_directory)
            is_protected = name in PROTECTED_NAMES
            if self._has_patterns:
                is_secret = is_secret or self._matches(self._denied.match, entry.path)
                is_protected = is_protected or self._matches(self._protected.match, entry.path)
            is_repository = name in REPOSITORIES and path != self._root
            if (is_secret or is_protected or is_repository) and not self._matches(self._allowed.cover, entry.path):
                found = NamedEntry(entry.path, _link_target(entry))
                secrets += [found] if is_secret else []
                protected += [found] if is_protected else []
                repositories += [found] if is_repository else []
                if is_secret:
                    continue
            if is_directory and entry.name not in SKIPPED_DIRECTORIES:
                directories.append(entry.path)
        found_here = SensitiveEntries(tuple(secrets), tuple(protected), tuple(repositories))
        return _ScannedDirectory(stamp, found_here, tuple(directories), len(entries))

    def _matches(self, match: Callable[[str], bool], path: str) -> bool:
        """Return whether patterns match a path relative to the root or to the project."""
        inner = path[len(self._root) :].strip("/")
        paths = (inner, f"{self._within}/{inner}") if self._within else (inner,)
        return any(map(match, paths))


def _join_entries(parts: list[SensitiveEntries]) -> SensitiveEntries:
    return SensitiveEntries(*(tuple(entry for part in parts for entry in part[kind]) for kind in range(3)))


def _read_entries(path: str) -> "list[os.DirEntry[str]] | None":
    """Return the entries of a directory, or None if it cannot be read."""
    try:
        return list(os.scandir(path)) if os.access(path, os.R_OK | os.X_OK) else None
    except FileNotFoundError:
        return []
    except OSError:
        return None


def _link_target(entry: "os.DirEntry[str]") -> str | None:
    try:
        return os.readlink(entry.path) if entry.is_symlink() else None
    except OSError:  # it was just replaced
        return ""


class Layout(NamedTuple):
    """The paths of a policy as they are on this disk, with all links resolved."""

    readable: tuple[str, ...]
    writable: tuple[str, ...]
    hidden: tuple[str, ...]  # existing paths that may be neither read nor written
    fixed: tuple[str, ...]  # existing read-only paths in writable directories
    missing: tuple[str, ...]  # paths in writable directories that no command may leave behind
    links: tuple[tuple[str, str], ...]  # a link on the way to a path, and its target
    names: tuple[NamedEntry, ...]  # the protected names and repositories that exist

    def limit_error(self, limit: str) -> SandboxError:
        """Return the error for a layout that exceeds a limit of the backend."""
        closed = len(self.hidden) + len(self.fixed)
        return SandboxError(
            f"nothing was started: {closed} paths here are protected or hidden, and {limit}: "
            "let commands work in a smaller directory (workspace.root), or allow some of the paths (workspace.allow)"
        )

    def holes(self, path: str) -> tuple[str, ...]:
        """Return the paths below a writable path that are not writable, whether or not they exist."""
        every = (*self.hidden, *self.fixed, *self.missing)
        return tuple(hole for hole in every if is_below(hole, path))


def resolve_layout(policy: Policy) -> Layout:
    """Resolve a policy on this disk; SandboxError names what cannot be enforced."""
    policy.validate()
    writable, read_only = _real_paths(policy.writable), _real_paths(policy.read_only)
    for path in policy.writable:
        if not os.path.exists(path):
            raise SandboxError(f"{path} is to be writable but does not exist: create it first")
    if "/" in writable:
        raise SandboxError(
            "the whole disk would be writable: work in a project's directory, or name one (workspace.root)"
        )
    paths = (*policy.readable, *policy.writable, *policy.read_only)
    for path in paths:
        _check_links(path, writable)
    readable = _real_paths(policy.readable)
    found = [scan() for scan in scan_roots(policy)]
    hidden, missing = _resolve_denied((*policy.denied, policy.quarantine), writable)
    named = [path for path in readable if any(is_below(path, root) and path != root for root in writable)]
    secrets = [path for one in found for path in _secret_paths(one, (*writable, *read_only))]
    hidden += [path for path in secrets if not (_is_in(path, named) and policy.may_read(path))]
    fixed, missing_too = _resolve_protected(
        (*policy.protected, *policy.read_only, *_repository_settings(writable)), writable
    )
    fixed += [path for one in found for path in _protected_paths(one, writable)]
    links = [NamedEntry(path, os.readlink(path)) for path in policy.protected if os.path.islink(path)]
    whole = [path for path in writable if not any(is_below(one, path) and one != path for one in writable)]
    fixed += filter(_is_on_read_only_disk, whole)
    outermost = outermost_paths(path for path in hidden if _is_in(path, (*readable, *writable, *read_only)))
    conflicting = [path for path in writable if _is_in(path, outermost)]
    if conflicting:
        raise SandboxError(f"{conflicting[0]} is to be writable but is inside a denied path: name another directory")
    return Layout(
        tuple(path for path in (*readable, *read_only) if not _is_in(path, writable)),
        writable,
        outermost,
        tuple(dict.fromkeys(fixed)),
        tuple(dict.fromkeys((*missing, *missing_too))),
        tuple(dict.fromkeys(link for path in paths for link in _links_on_the_way(path))),
        tuple(dict.fromkeys((*(entry for one in found for entry in (*one.protected, *one.repositories)), *links))),
    )


def _is_on_read_only_disk(directory: str) -> bool:
    """Return whether a directory is on a read-only disk."""
    try:
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    except OSError:  # it was just removed; using it will report that
        return False


def scan_roots(policy: Policy) -> list[Callable[[], SensitiveEntries]]:
    """Return, for each of the writable and read-only roots, a function that scans it."""
    project = [os.path.realpath(policy.project)] if policy.project else []
    roots = _real_paths((*policy.writable, *policy.read_only))
    return [partial(scan_names, root, next(inner_paths(root, project), ""), policy.closed) for root in roots]


def _real_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def _is_in(path: str, roots: Iterable[str]) -> bool:
    return any(is_below(path, root) for root in roots)


def outermost_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that are not inside another one: a hidden directory hides everything below it."""
    outermost: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not (outermost and is_below(path, outermost[-1])):
            outermost.append(path)
    return tuple(outermost)


def _check_links(path: str, writable: tuple[str, ...]) -> None:
    """Refuse a path through a link that commands can change: the next command would reach its new target."""
    for root in writable:
        inner = _inside(path, root)
        if inner is not None and os.path.exists(inner) and os.path.realpath(inner) != inner:
            real = os.path.realpath(inner)
            raise SandboxError(
                f"{path} passes through a link that commands can change: name {real} instead, if you mean that"
            )


def _resolve_denied(paths: tuple[str, ...], writable: tuple[str, ...]) -> tuple[list[str], list[str]]:
    hidden, missing = [], []
    for path in paths:
        real = os.path.realpath(path)
        if os.path.lexists(real):
            hidden.append(real)
        elif _is_in(real, writable):
            missing.append(real)
    return hidden, missing


def _resolve_protected(paths: tuple[str, ...], writable: tuple[str, ...]) -> tuple[list[str], list[str]]:
    fixed, missing = [], []
    for path in paths:
        for root in writable:
            inner = _inside(path.rstrip("/"), root)
            if inner is None:
                continue
            if inner.removeprefix(root + "/") in MAY_BE_LINKS and os.path.realpath(inner) != inner:
                fixed += _link_targets(inner, writable)
                real = os.path.realpath(inner)  # whoever creates that gives the link a content
                missing += [] if os.path.lexists(real) or not _is_in(real, writable) else [real]
                continue
            existing = _existing_part(inner, root)
            if existing == inner or not os.path.isdir(existing):  # `.git` may be a file that names another directory
                fixed.append(existing)
            else:
                missing.append(_missing_repository(inner, existing) or inner)
    return fixed, missing


def _link_targets(path: str, writable: Iterable[str]) -> list[str]:
    """Return the target of a protected link, if it is writable and is not a whole root."""
    real = os.path.realpath(path)
    return [real] if os.path.exists(real) and any(is_below(real, root) and real != root for root in writable) else []


def _inside(path: str, root: str) -> str | None:
    """Return the path below a root with the links above the root resolved, or None if it is elsewhere."""
    if is_below(path, root):  # the usual case, and every command waits for this
        return path
    above, below = path, list[str]()
    while above not in ("/", ""):
        if os.path.realpath(above) == root:
            return os.path.join(root, *reversed(below))
        above, name = os.path.split(above)
        below.append(name)
    return None


def _existing_part(path: str, root: str) -> str:
    """Return the part of a path that exists; SandboxError if it has a link, which a command could replace."""
    existing = root
    for name in path.removeprefix(root).strip("/").split("/"):
        step = os.path.join(existing, name)
        if os.path.islink(step):
            raise SandboxError(f"{step} is a link and cannot be protected from commands: replace it with its target")
        if not os.path.lexists(step):
            return existing
        existing = step
    return existing


def _missing_repository(path: str, existing: str) -> str | None:
    """Return the missing repository that a path is in, if any: its settings make sense only as a part of it."""
    name = path.removeprefix(existing).strip("/").partition("/")[0]
    return os.path.join(existing, name) if name in REPOSITORIES else None


def _repository_settings(roots: tuple[str, ...]) -> Iterator[str]:
    """Yield the settings of a root that is itself a repository, and of its other working trees."""
    bare = [root for root in roots if is_repository(root)]
    yield from (os.path.join(root, name) for root in bare for name in REPOSITORY_SETTINGS)
    for repository in (*bare, *(os.path.join(root, ".git") for root in roots)):
        try:
            entries = list(os.scandir(os.path.join(repository, "worktrees")))
        except OSError:  # it has no other working trees
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from (os.path.join(entry.path, name) for name in ("commondir", "config.worktree", "gitdir"))


def is_repository(path: str) -> bool:
    """Return whether git would take a directory for a repository because of its contents, whatever its name."""
    return _are_of_repository({name for name in _BARE_NAMES if os.path.lexists(os.path.join(path, name))})


def _are_of_repository(names: set[str]) -> bool:
    return BARE_MARK in names and ("commondir" in names or names.issuperset(_BARE_NAMES[:3]))


def _secret_paths(found: SensitiveEntries, roots: Iterable[str]) -> Iterator[str]:
    """Yield the secrets; a link's target counts only in the roots, or a link could hide the next command's shell."""
    for path, is_link in found.secrets:
        real = os.path.realpath(path) if is_link else path
        if not is_link or (os.path.isfile(real) and _is_in(real, roots)):
            yield real


def _protected_paths(found: SensitiveEntries, writable: tuple[str, ...]) -> Iterator[str]:
    """Yield the read-only paths that are in a writable root."""
    for path, is_link in found.protected:
        if _is_in(path, writable):
            yield from _link_targets(path, writable) if is_link else [path]


def _links_on_the_way(path: str) -> Iterator[tuple[str, str]]:
    """Yield the first link on the way to a path, such as /bin, because programs use the path that goes through it."""
    step = "/"
    for name in path.strip("/").split("/"):
        step = os.path.join(step, name)
        if os.path.islink(step):
            yield step, os.readlink(step)
            return
