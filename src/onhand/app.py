"""How is it wired? The only place that turns a configuration into the parts that do the work."""

import os

from onhand import config
from onhand.config import Config
from onhand.config.files import is_foreign
from onhand.corpora.context import Context
from onhand.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.embed.embedder import Embedder
    from onhand.search.index import Index
    from onhand.tools import Registry


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


def open_context(asked: Config) -> Context:
    """The project's context as the configuration asks for it."""
    return Context(asked.project, **asked.context._asdict())


def open_index(path: str | os.PathLike[str] | None = None, embedder: "Embedder | str | None" = "auto") -> "Index":
    """The documents of a file, which is made if it is not there; without a path, an index in memory.

    `embedder` is "auto" (the best that is installed, or none), None, the name of one, or one of your own.
    """
    from onhand.embed.choose import chosen
    from onhand.search.index import Index
    from onhand.store.memory import MemoryStore
    from onhand.store.sqlite import SqliteStore

    at_hand, unavailable = chosen(embedder)
    return Index(MemoryStore() if path is None else SqliteStore(path), at_hand, unavailable)


def open_registry(asked: Config) -> "Registry":
    """Every tool that the configuration offers to a model."""
    from onhand.tools import Registry

    return Registry().register(open_context(asked).tool())


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
