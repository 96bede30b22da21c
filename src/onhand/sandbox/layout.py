"""Where on this disk does a policy apply? Its paths with links followed, and what in them is missing or secret.

It looks at the disk and changes nothing. Both backends build their walls from what it finds.
"""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from onhand.errors import SandboxError
from onhand.sandbox.names import Entry, Found, look
from onhand.sandbox.policy import MAY_BE_LINKS, OF_REPOSITORY, Policy, inner_paths, is_below

# Not where TMPDIR says: one who looked elsewhere would take what stands in for another command's files for files, and
# the walls that are put around those fall when the other has ended.
REGISTERS = "/tmp"  # noqa: S108
# To their programs an empty directory would be a broken repository, and a socket is none at all.
_BARE = ("/.hg", "/.jj")


class Missing(NamedTuple):
    """What must not come into being."""

    path: str
    is_directory: bool


class Layout(NamedTuple):
    """The policy's paths as they are on this disk; none of them leads over a link."""

    readable: tuple[str, ...]
    writable: tuple[str, ...]
    hidden: tuple[str, ...]  # there, and neither to be read nor written
    fixed: tuple[str, ...]  # there, in what is writable, and only to be read
    missing: tuple[Missing, ...]  # in what is writable, and not to be made
    links: tuple[tuple[str, str], ...]  # a link on the way to a path, and where it leads
    names: tuple[Entry, ...]  # what programs obey unseen, as it was found

    def refused(self, limit: str) -> SandboxError:
        """What is to be said of a layout that passes a limit of the backend."""
        closed = len(self.hidden) + len(self.fixed)
        return SandboxError(
            f"nothing was started: {closed} paths here are protected or hidden, and {limit}: "
            "let commands work in a smaller directory (workspace.root), or open some of them (workspace.allow)"
        )

    def holes(self, path: str) -> tuple[str, ...]:
        """What is below a writable path and not writable."""
        every = (*self.hidden, *self.fixed, *(missing.path for missing in self.missing))
        return tuple(hole for hole in every if is_below(hole, path))


def lay_out(policy: Policy) -> Layout:
    """Look at the disk once; SandboxError names what cannot be kept as the policy says."""
    policy.checked()
    writable, read_only = _real(policy.writable), _real(policy.read_only)
    for path in policy.writable:
        if not os.path.exists(path):
            raise SandboxError(f"{path} is to be writable and is not there: make it first")
    if "/" in writable:
        raise SandboxError(
            "the whole disk is to be writable: go to a project's directory, or name one (workspace.root)"
        )
    given = (*policy.readable, *policy.writable, *policy.read_only)
    for path in given:
        _check_links(path, writable)
    readable = _real(policy.readable)
    found = look_at(policy)
    hidden, missing = _denied((*policy.denied, directory_of_registers()), writable)
    opened = [path for path in readable if any(is_below(path, root) and path != root for root in writable)]
    secrets = [path for one in found for path in _secrets(one, (*writable, *read_only))]
    hidden += [path for path in secrets if not (_is_in(path, opened) and policy.may_read(path))]
    fixed, missing_too = _protected((*policy.protected, *policy.read_only, *_of_repositories(writable)), writable)
    fixed += [path for one in found for path in _names(one, writable)]
    whole = [path for path in writable if not any(is_below(one, path) and one != path for one in writable)]
    fixed += filter(_is_stuck, whole)
    kept = _outermost(path for path in hidden if _is_in(path, (*readable, *writable, *read_only)))
    beyond = [path for path in writable if _is_in(path, kept)]
    if beyond:
        raise SandboxError(f"{beyond[0]} is to be writable and is inside of what is denied: name another directory")
    return Layout(
        tuple(path for path in (*readable, *read_only) if not _is_in(path, writable)),
        writable,
        kept,
        tuple(dict.fromkeys(fixed)),
        tuple(one for one in dict.fromkeys((*missing, *missing_too)) if not _is_stuck(os.path.dirname(one.path))),
        tuple(dict.fromkeys(link for path in given for link in _links(path))),
        tuple(entry for one in found for entry in (*one.protected, *one.repositories)),
    )


def _is_stuck(directory: str) -> bool:
    """Whether nothing can be made in a directory, nor stand in for what is missing: its disk is read-only."""
    try:
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    except OSError:  # it went away while we looked; whoever uses it will be told
        return False


def look_at(policy: Policy) -> list[Found]:
    """What is closed by its name in each of the directories that are worked in."""
    project = [os.path.realpath(policy.project)] if policy.project else []
    roots = _real((*policy.writable, *policy.read_only))
    return [look(root, next(inner_paths(root, project), ""), policy.closed) for root in roots]


def directory_of_registers() -> str:
    """Where it is written down what stands in for missing files: whoever may write there could have others removed."""
    return os.path.join(REGISTERS, f"onhand-placeholders-{os.getuid()}")


def _real(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def _is_in(path: str, roots: Iterable[str]) -> bool:
    return any(is_below(path, root) for root in roots)


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Paths without those inside of another: in a directory that is hidden nothing is left to hide."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not (kept and is_below(path, kept[-1])):
            kept.append(path)
    return tuple(kept)


def _check_links(path: str, writable: tuple[str, ...]) -> None:
    """Refuse what is named by a link that commands could turn: the next one would reach whatever it leads to then."""
    for root in writable:
        named = _inside(path, root)
        if named is not None and os.path.exists(named) and os.path.realpath(named) != named:
            real = os.path.realpath(named)
            raise SandboxError(
                f"{path} leads over a link that commands can change: name {real} instead, if you mean it"
            )


def _denied(paths: tuple[str, ...], writable: tuple[str, ...]) -> tuple[list[str], list[Missing]]:
    hidden, missing = [], []
    for path in paths:
        real = os.path.realpath(path)
        if os.path.lexists(real):
            hidden.append(real)
        elif _is_in(real, writable):
            missing.append(_first_missing(real, path.endswith("/")))
    return hidden, missing


def _protected(paths: tuple[str, ...], writable: tuple[str, ...]) -> tuple[list[str], list[Missing]]:
    fixed, missing = [], []
    for path in paths:
        for root in writable:
            named = _inside(path.rstrip("/"), root)
            if named is None:
                continue
            if named.removeprefix(root + "/") in MAY_BE_LINKS and os.path.realpath(named) != named:
                fixed += _linked(named, writable)
                continue
            there = _as_far_as_there(named, root)
            if there == named or not os.path.isdir(there):  # `.git` may be a file that names another directory
                fixed.append(there)
            else:
                missing.append(_first_missing(named, path.endswith("/")))
    return fixed, missing


def _linked(path: str, writable: Iterable[str]) -> list[str]:
    """What a protected link leads to, if that could be written and is not everything."""
    real = os.path.realpath(path)
    return [real] if os.path.exists(real) and any(is_below(real, root) and real != root for root in writable) else []


def _inside(path: str, root: str) -> str | None:
    """The path below a root without links in the part above it; None when it is elsewhere."""
    if is_below(path, root):  # most are, and every command waits for this
        return path
    above, below = path, list[str]()
    while above not in ("/", ""):
        if os.path.realpath(above) == root:
            return os.path.join(root, *reversed(below))
        above, name = os.path.split(above)
        below.append(name)
    return None


def _as_far_as_there(path: str, root: str) -> str:
    """The part of a path that is there; a link on it could be replaced, so it cannot be protected."""
    there = root
    for name in path.removeprefix(root).strip("/").split("/"):
        step = os.path.join(there, name)
        if os.path.islink(step):
            raise SandboxError(f"{step} is a link and cannot be protected from a command: put what it leads to there")
        if not os.path.lexists(step):
            return there
        there = step
    return there


def _first_missing(path: str, is_directory: bool) -> Missing:
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        path, is_directory = above, True
        above = os.path.dirname(path)
    return Missing(path, is_directory and not path.endswith(_BARE))


def _of_repositories(roots: tuple[str, ...]) -> Iterator[str]:
    """What git obeys in a root that is itself a repository, and what tells other working trees where theirs is."""
    themselves = [root for root in roots if _is_repository(root)]
    yield from (os.path.join(root, name) for root in themselves for name in OF_REPOSITORY)
    for repository in (*themselves, *(os.path.join(root, ".git") for root in roots)):
        try:
            entries = list(os.scandir(os.path.join(repository, "worktrees")))
        except OSError:  # there are none
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from (os.path.join(entry.path, name) for name in ("commondir", "config.worktree", "gitdir"))


def _is_repository(path: str) -> bool:
    """Whether git would take a directory for a repository's own, by what is in it; its name may be any."""
    kept = ("objects", "refs")
    is_whole = all(os.path.isdir(os.path.join(path, name)) for name in kept)
    return os.path.lexists(os.path.join(path, "HEAD")) and (is_whole or os.path.exists(os.path.join(path, "commondir")))


def _secrets(found: Found, roots: Iterable[str]) -> Iterator[str]:
    """Where secrets are. A link's file counts in the roots alone: or one could close the next command's own shell."""
    for path, is_link in found.secrets:
        real = os.path.realpath(path) if is_link else path
        if not is_link or (os.path.isfile(real) and _is_in(real, roots)):
            yield real


def _names(found: Found, writable: tuple[str, ...]) -> Iterator[str]:
    """Where that is which is only to be read, as far as it could be written."""
    for path, is_link in found.protected:
        if _is_in(path, writable):
            yield from _linked(path, writable) if is_link else [path]


def _links(path: str) -> Iterator[tuple[str, str]]:
    """The first link on the way to a path, such as /bin: programs name what is behind it by it."""
    step = "/"
    for name in path.strip("/").split("/"):
        step = os.path.join(step, name)
        if os.path.islink(step):
            yield step, os.readlink(step)
            return
