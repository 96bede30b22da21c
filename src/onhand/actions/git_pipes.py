"""At which pipe does git wait? It opens some files of a working tree whatever they are, and nobody writes into a pipe
that was planted under such a name.

All of a tree is too much to look through before each command, so this is for while git is silent, in short steps that
leave it the time that it may need itself. It opens nothing.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic

from onhand.actions.workspace import Place, Workspace, shown
from onhand.errors import InputError

OBEYED = frozenset({".gitattributes", ".gitignore", ".mailmap"})
PATIENCE = 4  # steps without a look: git has mostly ended by then, or only reads a large tree
STEP_S = 0.02  # a fifth of the silence that a step comes after


def search(workspace: Workspace, top: Place) -> Iterator[None]:
    """Look through a tree, some directories at each step; InputError names a pipe that git would open."""
    for _ in range(PATIENCE):
        yield
    waiting, ends_at = deque([(top, False)]), monotonic() + STEP_S
    while waiting:
        place, is_repository = waiting.popleft()
        with suppress(OSError), os.scandir(place.path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((place.below(entry.name), is_repository or entry.name == ".git"))
                elif (is_repository or entry.name in OBEYED) and _is_pipe(workspace, entry):
                    leads = "leads to" if entry.is_symlink() else "is"
                    name = shown(workspace.name(place.below(entry.name)))
                    raise InputError(f"{name} {leads} a pipe, at which git waits for ever: ask the user to remove it")
        if monotonic() > ends_at:
            yield
            ends_at = monotonic() + STEP_S


def _is_pipe(workspace: Workspace, entry: "os.DirEntry[str]") -> bool:
    """Whether an entry is a pipe, or a link to one in the workspace."""
    if entry.is_file(follow_symlinks=False):
        return False
    with suppress(InputError, OSError):
        path = workspace.place(entry.path).path if entry.is_symlink() else entry.path
        return stat.S_ISFIFO(os.lstat(path).st_mode)
    return False
