"""Which project is asked about, and may a path of it be used? It opens nothing that is in one."""

import os

from onhand import config
from onhand.config import Config
from onhand.config.files import is_foreign
from onhand.errors import InputError

OF_REPOSITORIES = (".git", ".hg", ".svn", ".jj")  # where programs write who run what they find there


def configured(root: str | None = None) -> Config:
    """The configuration of the working directory's project, or of the directory that was named.

    A named directory is a project, or, when it has no context directory of its own, a directory of context files.
    """
    loaded = _loaded(root)
    written = {"notes.path": loaded.notes.path, "documents.path": loaded.documents.path}
    reasons = {key: misplaced(loaded, path) for key, path in written.items()}
    warnings = tuple(f"{key} is not used: {written[key]} {reason}" for key, reason in reasons.items() if reason)
    return loaded._replace(warnings=(*loaded.warnings, *warnings)) if warnings else loaded


def _loaded(root: str | None) -> Config:
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


def misplaced(asked: Config, path: str) -> str:
    """Why nothing of ours is kept at a configured path, and what to name; nothing if it may be.

    It may have come with a clone, and so may a link on the way that leads out of the project.
    """
    project = os.path.realpath(asked.project)
    real = os.path.realpath(os.path.join(project, path))
    is_inside = real.startswith(os.path.join(project, ""))
    parts = (real[len(project) :] if is_inside else real).casefold().split(os.sep)
    if any(name in parts for name in OF_REPOSITORIES):
        return "is in the directory of a repository: name a place outside of it"
    if real == project:
        return "is the project itself: name a place in it"
    return "" if is_inside or os.path.isabs(path) else "is a link out of the project: name what it leads to"
