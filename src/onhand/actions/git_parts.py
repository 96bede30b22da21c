"""Do all parts of a repository lie in the workspace? Its objects and references, with whatever they borrow.

git follows links and lists of other repositories wherever they lead, and waits at a pipe. What changes after this look
is for a sandbox.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from onhand import wanted
from onhand.actions.files import contents
from onhand.actions.workspace import Place, Workspace, kind, shown
from onhand.errors import InputError, NotFound

ALTERNATES = "info/alternates"  # other directories of objects


def check_parts(workspace: Workspace, parts: Iterable[Place]) -> None:
    """Refuse a repository of which anything leads out of the workspace, or is neither a file nor a directory."""
    waiting, seen = [part.path for part in parts], set[str]()
    while waiting:
        wanted.check()
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += _further(workspace, path)


def _further(workspace: Workspace, path: str) -> Iterator[str]:
    """What git may come to from a place: directories in it, where links lead, and what it borrows."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):  # most are
                    continue
                yield workspace.place(entry.path).path if entry.is_symlink() else entry.path
                if entry.name == "info" and entry.is_dir():
                    yield from _borrowed(workspace, path)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        with suppress(FileNotFoundError):  # git replaces files
            _check_file(workspace, path)
    except OSError as error:
        raise InputError(f"{_named(workspace, path)}: git cannot read it ({error.strerror})") from None


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
