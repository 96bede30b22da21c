"""Do all parts of a repository lie in the workspace? Its objects and references, with whatever they borrow.

git follows links and lists of other repositories wherever they lead, and waits at a pipe. What changes after this look
is for a sandbox.
"""

import os
from collections.abc import Iterable, Iterator

from onhand import wanted
from onhand.actions.files import contents
from onhand.actions.workspace import Place, Workspace, kind, shown
from onhand.errors import InputError, NotFound

ALTERNATES = "info/alternates"  # other directories of objects


def check_parts(workspace: Workspace, parts: Iterable[Place]) -> None:
    """Refuse a repository of which anything leads out of the workspace, or is neither a file nor a directory."""
    waiting, seen = list(parts), set[Place]()
    while waiting:
        wanted.check()
        place = waiting.pop()
        if place not in seen:
            seen.add(place)
            waiting += _further(workspace, place)


def _further(workspace: Workspace, place: Place) -> Iterator[Place]:
    """What git may come to from a place: directories in it, where links lead, and what it borrows."""
    try:
        if not os.path.isdir(place.path):
            _check_file(workspace, place)
            return
        with os.scandir(place.path) as entries:
            for entry in entries:
                if entry.is_symlink():
                    yield workspace.place(entry.path)
                elif not entry.is_file():
                    yield place.below(entry.name)
                if entry.name == "info" and entry.is_dir():
                    yield from _borrowed(workspace, place)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{shown(workspace.name(place))}: git cannot read it ({error.strerror})") from None


def _check_file(workspace: Workspace, place: Place) -> None:
    mode = os.stat(place.path).st_mode
    if kind(mode) != "a file":
        raise InputError(f"{shown(workspace.name(place))} is {kind(mode)}, not a part of a repository")


def _borrowed(workspace: Workspace, objects: Place) -> Iterator[Place]:
    """Where the objects of other repositories are: these may borrow in their turn."""
    listed = workspace.place(objects.below(ALTERNATES).path)
    try:
        said = contents(workspace, listed, workspace.name(listed))
    except NotFound:
        return
    for line in filter(None, said.split(b"\n")):
        if line.startswith(b'"'):  # git takes such a line for a path with escapes
            raise InputError("the repository borrows objects by a path in quotes: ask the user to write a plain one")
        if not line.startswith(b"#"):
            yield workspace.place(os.path.join(objects.path, os.fsdecode(line)))
