"""Which project is asked about, and may a path of it be used? It opens nothing that is in one."""

import os

from onhand import config
from onhand.config import Config
from onhand.config.files import is_foreign
from onhand.errors import InputError


def configured(root: str | None = None) -> Config:
    """The configuration of the working directory's project, or of the directory that was named.

    A named directory is a project, or, when it has no context directory of its own, a directory of context files.
    """
    if root is not None and not os.path.isdir(root):
        raise InputError(f"{root} is not a directory: name a project, or a directory of context files")
    loaded = config.load(root)
    if root is None:
        if loaded.project_file or os.path.isdir(os.path.join(loaded.project, loaded.context.root)):
            return loaded
        return config.load(_project_above(loaded.project, loaded.context.root))
    has_own = os.path.isdir(os.path.join(root, loaded.context.root))
    if has_own and os.path.samefile(root, loaded.project):
        return loaded
    # The settings may be those of a project above; the context is that of the directory that was named.
    return config.load(root, flags={"context.root": loaded.context.root if has_own else "."})


def _project_above(start: str, root: str) -> str:
    """The nearest directory upwards that has `root`, inside the repository of `start`; else `start`.

    Outside of a repository nothing above is looked for: anybody may have put it there. So may they have the repository.
    """
    found = None
    directory, above = start, os.path.dirname(start)
    while True:
        has_root = found is None and os.path.isdir(os.path.join(directory, root))
        if has_root and not is_foreign(os.path.join(directory, root), start):
            found = directory
        if os.path.lexists(os.path.join(directory, ".git")):
            return start if found is None or is_foreign(os.path.join(directory, ".git"), start) else found
        if above == directory:
            return start
        directory, above = above, os.path.dirname(above)


def repository(start: str) -> str:
    """The nearest directory upwards that is a repository's; else `start`: above it anybody may have put files."""
    directory, above = start, os.path.dirname(start)
    while not os.path.lexists(os.path.join(directory, ".git")):
        if above == directory:
            return start
        directory, above = above, os.path.dirname(above)
    return start if is_foreign(os.path.join(directory, ".git"), start) else directory


def is_smuggled(asked: Config, path: str) -> bool:
    """Whether a configured path leads out of the project that nobody allowed to: a clone may have brought a link."""
    if os.path.isabs(path):
        return False
    real = os.path.realpath(os.path.join(asked.project, path))
    return not real.startswith(os.path.join(os.path.realpath(asked.project), ""))
