"""How is it wired? The only place that turns a configuration into the parts that do the work."""

import os

from onhand import __version__, config
from onhand.config import Config
from onhand.config.files import cache_directory, is_foreign
from onhand.corpora.context import Context
from onhand.corpora.kept import kept_at
from onhand.errors import ConfigError, InputError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from onhand.corpora.documents import Documents
    from onhand.corpora.skills import Skills
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
    settings = asked.context._asdict()
    return Context(asked.project, **settings, **learning(asked, "context", settings))


def open_skills(asked: Config, root: str | None = None) -> "Skills":
    """The skills that the configuration asks for; of a directory that was named, its own.

    A named directory is a project, or, when it has none of the usual places, a directory of skills or a skill.
    """
    from onhand.corpora.skill_roots import has_usual
    from onhand.corpora.skills import Skills

    settings = asked.skills._asdict()
    project, home = asked.project, os.path.expanduser("~") if settings.pop("user") else None
    if root is not None:
        project, settings["roots"] = os.path.abspath(root), ()
        if not has_usual(project):
            settings["roots"], settings["usual"] = (".",), False
    learned = learning(asked, "skills", {**settings, "project": project, "home": home})
    return Skills(project, home=home, **settings, **learned)


def learning(asked: Config, name: str, settings: "Mapping[str, object]") -> "dict[str, Any]":
    """How a corpus of files learns what is in them: where it keeps that, and what works out its meaning."""
    learning: dict[str, Any] = {"kept_at": None, "embedder": None, "unavailable": None}
    if asked.kept.between_runs:
        where = os.path.realpath(asked.project)
        learning["kept_at"] = kept_at(cache_directory(os.environ), name, __version__, where, settings)
    if asked.kept.embedder != "none":
        from onhand.embed.choose import chosen

        learning["embedder"], learning["unavailable"] = chosen(asked.kept.embedder)
    return learning


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

    registry = Registry().register(open_context(asked).tool())
    skills = open_skills(asked)
    if skills.all():  # a tool that can find nothing would only cost room
        for tool in skills.tools():
            registry.register(tool)
    path = os.path.join(asked.project, asked.documents.path)
    if os.path.isfile(path) and not _is_smuggled(asked, path):  # of which the configuration's warnings tell
        for tool in open_documents(asked, path).tools():
            registry.register(tool)
    return registry


def documents_path(asked: Config) -> str:
    """The file of the project's documents, whether it is there or not."""
    path = os.path.join(asked.project, asked.documents.path)
    if _is_smuggled(asked, path):
        raise ConfigError(f"{path} is a link out of the project: name the file itself in documents.path, or by --db")
    return path


def _is_smuggled(asked: Config, path: str) -> bool:
    """Whether a path leads out of the project that nobody allowed to: a clone may have brought a link."""
    if os.path.isabs(asked.documents.path):
        return False
    return not os.path.realpath(path).startswith(os.path.join(os.path.realpath(asked.project), ""))


def open_documents(
    asked: Config, path: str | None = None, embedder: "Embedder | str | None" = "configured"
) -> "Documents":
    """The documents of a file that is there, by default the project's; StoreError says how to make one."""
    from onhand.corpora.documents import Documents

    path = path or documents_path(asked)
    if not os.path.exists(path):
        raise StoreError(f"there are no documents at {path}: import some with `onhand docs import PATH…`")
    wanted = asked.documents.embedder if embedder == "configured" else embedder
    index = open_index(path, None if wanted == "none" else wanted)
    return Documents(index, asked.documents.max_output_bytes)


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
