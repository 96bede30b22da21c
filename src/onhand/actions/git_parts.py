"""Do all parts of a repository lie in the workspace? Its objects and references, with whatever they borrow.

git follows links and lists of other repositories wherever they lead, and waits at a pipe. What changes after this look
is for a sandbox. A repository may have very many objects, so a directory is read again only when it has changed; where
its links lead, and what files say, is looked at each time.
"""

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from onhand import wanted
from onhand.actions.files import contents
from onhand.actions.workspace import Place, Workspace, kind, shown
from onhand.errors import InputError, NotFound
from onhand.settled import directory_stamp

ALTERNATES = "info/alternates"  # other directories of objects


class _Entry(NamedTuple):
    name: str
    is_link: bool


def check_parts(workspace: Workspace, parts: Iterable[Place], whole: Place | None = None) -> None:
    """Refuse a repository of which anything leads out of the workspace, or is neither a file nor a directory.

    One without files has to be `whole` in its own directory: a clone may bring one that borrows from another, and the
    files of that one would not be where rules close them.
    """
    within = os.path.join(whole.path if whole else "/", "")
    waiting, seen = [part.path for part in parts], set[str]()
    while waiting:
        wanted.check()
        path = waiting.pop()
        if not path.startswith(within):
            raise InputError(f"{_named(workspace, path)} is of another repository: name a directory in that one")
        if path not in seen:
            seen.add(path)
            waiting += _further(workspace, path)


def _further(workspace: Workspace, path: str) -> Iterator[str]:
    """What git may come to from a place: directories in it, where links lead, and what it borrows."""
    for name, is_link in _noteworthy(workspace, path):
        inner = os.path.join(path, name)
        yield workspace.place(inner).path if is_link else inner
        if name == "info" and os.path.isdir(inner):
            yield from _borrowed(workspace, path)


def _noteworthy(workspace: Workspace, path: str) -> tuple[_Entry, ...]:
    """What a directory has besides files; nothing, if the place is a file itself."""
    try:
        now = directory_stamp(path)
        if now is None:
            _check_file(workspace, path)
            return ()
        return _unchanged(path, now) if now else _listed(path)
    except FileNotFoundError:  # git replaces files
        return ()
    except OSError as error:
        raise InputError(f"{_named(workspace, path)}: git cannot read it ({error.strerror})") from None


@lru_cache(4096)  # directories; a repository's objects have at most 258
def _unchanged(path: str, _: tuple[int, ...]) -> tuple[_Entry, ...]:
    """What a directory with a certain stamp has: it is looked into once."""
    return _listed(path)


def _listed(path: str) -> tuple[_Entry, ...]:
    with os.scandir(path) as entries:
        others = [entry for entry in entries if not entry.is_file(follow_symlinks=False)]
        return tuple(_Entry(entry.name, entry.is_symlink()) for entry in others)


def _check_file(workspace: Workspace, path: str) -> None:
    what = kind(os.stat(path).st_mode)
    if what != "a file":
        raise InputError(f"{_named(workspace, path)} is {what}, not a part of a repository")


def _named(workspace: Workspace, path: str) -> str:
    return shown(workspace.name(workspace.place(path)))


def _borrowed(workspace: Workspace, objects: str) -> Iterator[str]:
    """Where the objects of other repositories are: these may borrow in their turn."""
    listed = workspace.place(os.path.join(objects, ALTERNATES))
    try:
        said = contents(workspace, listed, workspace.name(listed))
    except NotFound:
        return
    for line in filter(None, said.split(b"\n")):
        if line.startswith(b'"'):  # git takes such a line for a path with escapes
            raise InputError("the repository borrows objects by a path in quotes: ask the user to write a plain one")
        if not line.startswith(b"#"):
            yield workspace.place(os.path.join(objects, os.fsdecode(line))).path
