"""What does the repository say? git's own reading commands, on arguments that only read, through a door of our own.

git opens the files of a working tree by their paths: against somebody who swaps links there meanwhile, use a sandbox.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from onhand.actions import programs
from onhand.actions.git_arguments import OF_COMMIT, Arguments, arguments_of
from onhand.actions.git_door import Door, check_index, door
from onhand.actions.workspace import Place, Workspace, shown
from onhand.errors import InputError

MAX_BYTES = 48 * 1024  # of what one command says

# Whatever drivers a repository's attributes name: the door has none of them, and these would not call one.
_FORCED = {
    **dict.fromkeys(
        ("log", "show", "diff"), ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty")
    ),
    "status": ("--ignore-submodules=dirty",),
    "branch": ("--no-color",),
}
_LOOKS_AT_FILES = frozenset({"diff", "status", "blame", "ls-files"})  # of the working tree, by what the index names
# Stands before what a merge did to a file, with the new name alone: what was closed under the old one would be told.
_MERGE = b"diff --c"


class Said(NamedTuple):
    """What git said."""

    text: str
    is_cut: bool


def git(workspace: Workspace, args: Sequence[str], path: str = ".") -> Said:
    """Run a reading command of git on the repository that a directory is in."""
    asked = arguments_of(list(args), lambda word: _is_path(workspace, path, word))
    program = programs.found("git", workspace)
    if program is None:
        raise InputError("git is not installed: do without it")
    with door(workspace, program, path) as opened:
        _check_trees(workspace, opened, asked)
        _check_guesses(opened, asked)
        if asked.command in _LOOKS_AT_FILES:
            check_index(opened)
        command = ["--no-pager", asked.command, *_FORCED.get(asked.command, ()), *asked.options]
        command += ["--list"] * (asked.command == "branch" and "--show-current" not in asked.options)
        operands = [*_revisions(opened, asked), *_paths(workspace, opened, path, asked)]
        ran = opened.ask([*command, *operands], MAX_BYTES)
        if asked.command == "show" and _MERGE in ran.out:
            ran = opened.ask([*command, "--no-renames", *operands], MAX_BYTES)
    if ran.is_cut:
        whole_lines = ran.out[: ran.out.rfind(b"\n") + 1].decode("utf-8", "replace")
        return Said(whole_lines or ran.out.decode("utf-8", "ignore"), True)
    if ran.code:
        if ran.err.startswith("usage: "):  # a screen full of options that are not ours
            raise InputError(f"git {asked.command} does not take these words together: send fewer of them")
        complaint = ran.err.replace(OF_COMMIT, "").replace(opened.environment["GIT_DIR"], ".git")
        reason = shown(complaint.removeprefix("fatal: ")) or f"git exited {ran.code}"
        raise InputError(f"git {asked.command}: {reason}{_next(reason, asked)}")
    return Said(ran.out.decode("utf-8", "replace"), False)


def _next(reason: str, asked: Arguments) -> str:
    """What to do about a complaint of git."""
    if "unable to read" in reason or "bad object" in reason:
        return "; the repository lacks it, as a partial clone does: ask the user to fetch it"
    if asked.in_trees:
        return "; paths in a revision begin at the repository's top"
    return "; branch -a names branches, and paths come after --" if "bad revision" in reason else ""


def _revisions(opened: Door, asked: Arguments) -> list[str]:
    """The revisions; to show an annotated tag of a commit with its message, its own hash."""
    names = {word: word.removesuffix(OF_COMMIT) for word in asked.revisions if asked.command == "show"}
    tags = {word: _hash(opened, f"{name}^{{tag}}") for word, name in names.items() if not set("~^:{") & set(name)}
    return [tag if (tag := tags.get(word)) and _hash(opened, tag + OF_COMMIT) else word for word in asked.revisions]


def _hash(opened: Door, revision: str) -> str:
    """What a revision stands for, if there is such a thing."""
    said = opened.ask(["rev-parse", "--verify", "--quiet", revision])
    return "" if said.code else said.out.decode("ascii").strip()


def _place(workspace: Workspace, path: str, word: str) -> Place:
    """Where a path leads that was given from a directory; to git, a link at its end is a thing by itself."""
    given = word if os.path.isabs(word) else os.path.join(path, word)
    led = workspace.place(given)  # also for a link: one that leads out is nothing to ask about
    above, name = os.path.split(given)
    itself = workspace.place(above or ".").below(name)
    if not os.path.islink(itself.path):
        return led
    if workspace.is_denied(itself):
        raise _closed(word)
    return itself


def _closed(path: str) -> InputError:
    return InputError(f"{shown(path)} is closed: it may hold secrets, and no tool shows it; do without it")


def _is_path(workspace: Workspace, path: str, word: str) -> bool:
    try:
        return os.path.lexists(_place(workspace, path, word).path)
    except InputError:
        return False


def _paths(workspace: Workspace, opened: Door, path: str, asked: Arguments) -> list[str]:
    """The paths from the repository's top, after what says that no option follows."""
    places = [_place(workspace, path, word) for word in asked.paths]
    top = os.path.join(opened.top.path, "")
    outside = next((place for place in places if not os.path.join(place.path, "").startswith(top)), None)
    if outside:
        raise InputError(f"{shown(workspace.name(outside))} is not in this repository: name a path that is")
    if asked.command == "branch":
        return []
    return ["--", *(os.path.relpath(place.path, opened.top.path) for place in places)]


def _check_trees(workspace: Workspace, opened: Door, asked: Arguments) -> None:
    """What is closed in the workspace is closed in its past too."""
    for path in asked.in_trees:
        parts = path.split("/")
        if path.startswith("/") or ".." in parts:
            raise InputError(f"{shown(path)} is no path within a revision: begin it at the repository's top")
        plain = "/".join(part for part in parts if part not in ("", "."))  # git leaves those out behind a first ./
        if plain and workspace.is_denied(opened.top.below(plain)):
            raise _closed(path)
    if asked.command == "diff" and asked.in_trees and not all(_is_file(opened, word) for word in asked.revisions):
        raise InputError(
            "git diff compares files of revisions, such as v1:a.md v2:a.md: for directories, name the "
            "revisions, then -- and the directories"
        )


def _is_file(opened: Door, revision: str) -> bool:
    """Whether a revision names a file, and no directory: below that, paths would not say what is closed."""
    return opened.ask(["cat-file", "-t", revision]).out.strip() != b"tree"


def _check_guesses(opened: Door, asked: Arguments) -> None:
    """A word that may be a path or a revision is not guessed between."""
    for word in asked.guessed:
        if _hash(opened, f"{word}{OF_COMMIT}"):
            raise InputError(f"{shown(word)} is a revision and a path: put -- before the paths, or behind revisions")
