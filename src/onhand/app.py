"""How is it wired? The only place that turns a configuration into the parts that do the work."""

import os

from onhand import config
from onhand.config import Config
from onhand.corpora.context import Context
from onhand.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.tools import Registry


def configured(root: str | None = None) -> Config:
    """The configuration of the working directory's project, or of the directory that was named.

    A named directory is a project, or, when it has no context directory of its own, a directory of context files.
    """
    if root is not None and not os.path.isdir(root):
        raise InputError(f"{root} is not a directory: name a project, or a directory of context files")
    loaded = config.load(root)
    if os.path.isdir(os.path.join(loaded.project, loaded.context.root)):
        return loaded
    if root is not None:
        return config.load(root, root=".")
    return loaded if loaded.project_file else config.load(_project_above(loaded.project, loaded.context.root))


def open_context(asked: Config) -> Context:
    """The project's context as the configuration asks for it."""
    return Context(
        asked.project,
        root=asked.context.root,
        extra_roots=asked.context.extra_roots,
        pinned=asked.context.pinned,
        pinned_max_bytes=asked.context.pinned_max_bytes,
        manifest_max_tokens=asked.context.manifest_max_tokens,
        max_file_bytes=asked.context.max_file_bytes,
        limit=asked.context.limit,
        ranking=asked.context.ranking,
    )


def open_registry(asked: Config) -> "Registry":
    """Every tool that the configuration offers to a model."""
    from onhand.tools import Registry

    return Registry().register(open_context(asked).tool())


def _project_above(start: str, root: str) -> str:
    """The nearest directory upwards that has `root`, no further than the repository's; else `start`."""
    directory = start
    while not os.path.lexists(os.path.join(directory, ".git")):
        parent = os.path.dirname(directory)
        if parent == directory:
            break
        directory = parent
        if os.path.isdir(os.path.join(directory, root)):
            return directory
    return start
