"""Which files have such a path? Plain functions over a workspace."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from onhand.actions.tree import Scope, Walk, expanded, matcher
from onhand.actions.workspace import Place, Workspace, checked, shown
from onhand.errors import InputError
from onhand.gitignore import blocks_of, verdict

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
    alternatives = expanded(pattern.removeprefix("./"))
    parts = checked(pattern).split("/")
    if not parts[0] or ".." in parts:
        raise InputError(f"{shown(pattern)} is no pattern below a directory: begin it with a name, and send path")
    start = workspace.place(path)
    with workspace.opened_directory(start, path):
        naming = alternatives if hidden else [one for one in alternatives if _is_hidden(one)]
        matches, matches_hidden = matcher(alternatives, anchored=True), matcher(naming, anchored=True)
        left_out = _ignored(ignore)
    depth = len(start.inner) + 1 if start.inner else 0
    scope = Scope.at(workspace, start, bool(naming))
    walk = Walk(scope, leaves_out=lambda place, is_directory: left_out(place.inner[depth:], is_directory))
    below = ((place, place.inner[depth:]) for place in walk)
    found = (place for place, inner in below if (matches_hidden if _is_hidden(inner) else matches)(inner))
    files = [workspace.name(place) for place in islice(found, limit + 1)]
    notes = walk.gaps.notes() + ([] if files else _hints(workspace, pattern, start))
    return Globbed(tuple(files[:limit]), len(files) > limit or walk.gaps.is_cut or walk.gaps.is_late, tuple(notes))


def _is_hidden(path: str) -> bool:
    """Whether a path goes through something hidden, or a pattern names it, such as `.github/**`."""
    return path.startswith(".") or "/." in path


def _ignored(lines: Sequence[str]) -> Callable[[str, bool], bool]:
    """Whether the lines of a .gitignore file leave out a path, for whoever has come there through what they do not."""
    blocks = blocks_of([f"\\{one}" if one.startswith("#") else one for line in lines for one in expanded(line)])
    return lambda inner, is_directory: bool(verdict(blocks, inner, is_directory))


def _hints(workspace: Workspace, pattern: str, start: Place) -> list[str]:
    """Why a pattern may have found nothing."""
    with suppress(InputError):  # it leads out, or to what is closed
        named = workspace.place(os.path.join(start.path, pattern)).path
        if os.path.isdir(named):
            return [f"this names no files; to find those in a directory, send {shown(pattern.rstrip('/'))}/**"]
        if os.path.isfile(named):
            return [f"{shown(pattern)} is a file, but left out, or the pattern means others: read_file takes it so"]
    if pattern.endswith("/"):
        return [f"this names no files; to find those in a directory, send {shown(pattern)}**"]
    if "/" not in pattern and pattern != "**":
        return [f"this looks in one directory only; to look below it too, send **/{shown(pattern)}"]
    return []
