"""Which files have such a path? Plain functions over a workspace."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from onhand.actions.tree import Scope, Walk, expanded, matcher
from onhand.actions.workspace import Workspace, checked, shown
from onhand.errors import InputError

MAX_FILES = 1_000  # that are given at once


class Globbed(NamedTuple):
    """The files that match, in the order of their paths."""

    files: tuple[str, ...]  # as every tool of the workspace takes them
    is_cut: bool = False
    notes: tuple[str, ...] = ()


def glob(
    workspace: Workspace,
    pattern: str,
    path: str = ".",
    ignore: Sequence[str] = (),
    hidden: bool = False,
    limit: int = MAX_FILES,
) -> Globbed:
    """Files below a directory whose path from there matches: `*` within a name, `**` across directories."""
    expanded(pattern)  # says what is no pattern
    parts = checked(pattern).split("/")
    if not parts[0] or ".." in parts:
        raise InputError(f"{shown(pattern)} is no pattern below a directory: begin it with a name, and send path")
    start = workspace.place(path)
    with workspace.opened_directory(start, path):
        is_wanted, is_left_out = matcher([pattern.removeprefix("./")], anchored=True), matcher(ignore, anchored=False)
    depth = len(start.inner) + 1 if start.inner else 0
    walk = Walk(Scope.at(workspace, start, hidden or _asks_for_hidden(pattern)))
    below = ((place, place.inner[depth:]) for place in walk)
    found = (place for place, inner in below if is_wanted(inner) and not is_left_out(inner))
    files = [workspace.name(place) for place in islice(found, limit + 1)]
    notes = walk.gaps.notes()
    if not files and pattern.endswith("/"):
        notes.append(f"this names no files; to find those in a directory, send {shown(pattern)}**")
    if not files and "/" not in pattern:
        notes.append(f"this looks in one directory only; to look below it too, send **/{shown(pattern)}")
    return Globbed(tuple(files[:limit]), len(files) > limit or walk.gaps.is_cut or walk.gaps.is_late, tuple(notes))


def _asks_for_hidden(pattern: str) -> bool:
    """Whether a pattern names something hidden, such as `.github/**`."""
    return any(part.startswith(".") and part != "." for part in pattern.split("/"))
