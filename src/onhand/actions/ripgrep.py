"""Which files may have a match? ripgrep knows quickly, and only that: what it names is looked at again.

It opens paths as it finds them, where a race may lead it anywhere. Nothing that it reads is shown to anybody.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from onhand.actions import programs
from onhand.actions.files import MAX_FILE_BYTES
from onhand.actions.pattern import Pattern
from onhand.actions.tree import MAX_DEPTH, Scope
from onhand.actions.workspace import Place
from onhand.errors import InputError

MAX_NAMED_BYTES = 32 * 1024 * 1024  # of the paths that it names

# Its own settings would be those of whoever set this machine up; what is ignored is what tree.py ignores.
_OPTIONS = (
    *("--no-config", "--files-with-matches", "--null", "--no-messages", "--color=never", "--no-follow"),
    *("--text", "--encoding=none", "--no-require-git", "--no-ignore-global", "--no-ignore-exclude"),
    *("--no-ignore-parent", "--no-ignore-dot", "--glob=!.git", f"--max-depth={MAX_DEPTH}"),
    f"--max-filesize={MAX_FILE_BYTES}",
)


class Named(NamedTuple):
    """What ripgrep names."""

    places: list[Place]
    is_late: bool  # the time was too short to find all


def candidates(program: str, scope: Scope, pattern: Pattern, names: Sequence[str], timeout_s: float) -> Named | None:
    """The files of a scope that may have a match, of such names if some are given; None when ripgrep cannot tell."""
    command = [program, *_OPTIONS, *["--hidden"] * scope.hidden, *["--ignore-case"] * pattern.ignore_case]
    command += ["--fixed-strings"] * pattern.literal
    command += [f"--type-add=onhand:{name}" for name in names] + ["--type=onhand"] * bool(names)
    start = scope.start
    command += [f"--regexp={pattern.for_ripgrep}", "--", f"./{start.inner}"]
    environment = {"LC_ALL": "C.UTF-8", "PATH": os.defpath}
    ran = programs.run(command, start.root.path, environment, timeout_s, MAX_NAMED_BYTES)
    if ran.is_cut:
        raise InputError("too many files match: narrow them by path, glob or type, or send a sharper pattern")
    # 1: nothing matches. 2: a file could not be read, of which it says nothing, or the pattern is too large for it.
    if not ran.is_late and (ran.code not in (0, 1, 2) or ran.err):
        return None
    *named, _ = ran.out.split(b"\0")
    inners = [os.fsdecode(name).removeprefix("./") for name in named]
    return Named([Place(start.root, inner) for inner in inners], ran.is_late)
