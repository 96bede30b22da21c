"""How is it wired? The only place that turns a configuration into the parts that do the work."""

import os

from onhand import __version__, config
from onhand.config import Config
from onhand.config.files import cache_directory, is_foreign
from onhand.corpora.context import Context
from onhand.corpora.kept import kept_at
from onhand.errors import ConfigError, EmbedderError, InputError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from onhand.corpora.corpus import Corpus
    from onhand.corpora.documents import Documents
    from onhand.corpora.everything import Everything, EverythingResult
    from onhand.corpora.notes import Notes
    from onhand.corpora.rules import Rules
    from onhand.corpora.skills import Skills
    from onhand.embed.embedder import Embedder
    from onhand.grpc.server import Server
    from onhand.memory.plan import Plan
    from onhand.search.index import Index
    from onhand.tools import Registry
    from onhand.tools.catalog import Catalog

PLAN_PATH = ".onhand/plan.journal"  # in the project
MAX_PEM_BYTES = 1024 * 1024


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
    return Context(asked.project, **settings, **_learning(asked, "context", settings))


def open_rules(asked: Config, root: str | None = None) -> "Rules":
    """The rules of the repository that the project is in, or of the directory that was named."""
    from onhand.corpora.rules import Rules

    settings = asked.rules._asdict()
    project = os.path.abspath(root) if root else _repository(asked.project)
    return Rules(project, **settings, **_learning(asked, "rules", {**settings, "root": project}))


def open_notes(asked: Config) -> "Notes":
    """The notes that agents wrote about the project."""
    from onhand.corpora.notes import Notes

    path = os.path.join(asked.project, asked.notes.path)
    if _is_smuggled(asked, asked.notes.path):
        raise ConfigError(f"{path} is a link out of the project: name the directory itself in notes.path")
    return Notes(path, limit=asked.notes.limit, **_learning(asked, "notes", {"path": path}))


def open_everything(asked: Config) -> "Everything":
    """One search across all that the configuration offers, those with more authority first."""
    from onhand.corpora.everything import Everything

    return Everything(
        {
            "rules": lambda: open_rules(asked),
            "context": lambda: open_context(asked),
            "skills": lambda: open_skills(asked),
            "documents": lambda: _documents_if_any(asked),
            "notes": lambda: open_notes(asked),
        }
    )


def search_everything(
    query: str, *, root: str | None = None, kinds: "Sequence[str]" = (), limit: int = 10
) -> "EverythingResult":
    """What the working directory's project, or the one that was named, has about a query, whatever it is kept in."""
    return open_everything(configured(root)).search(query, kinds, limit)


def _documents_if_any(asked: Config) -> "Corpus":
    from onhand.corpora.corpus import Absent

    path = documents_path(asked)
    if not os.path.exists(path):
        return Absent(f"there are no documents at {path}: import some with `onhand docs import PATH…`")
    return open_documents(asked, path)


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
    learned = _learning(asked, "skills", {**settings, "project": project, "home": home})
    return Skills(project, home=home, **settings, **learned)


def _learning(asked: Config, name: str, settings: "Mapping[str, object]") -> "dict[str, Any]":
    """How a corpus of files learns what is in them: where it keeps that, and what works out its meaning."""
    how: dict[str, Any] = {"kept_at": None, "embedder": None, "unavailable": None}
    if asked.kept.between_runs:
        where = os.path.realpath(asked.project)
        how["kept_at"] = kept_at(cache_directory(os.environ), name, __version__, where, settings)
    if asked.kept.embedder != "none":
        from onhand.embed.choose import chosen

        how["embedder"], how["unavailable"] = chosen(asked.kept.embedder)
    return how


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


def open_catalog(
    files: "Sequence[str]", embedder: "Embedder | str | None" = None, path: str | os.PathLike[str] | None = None
) -> "tuple[Catalog, list[str]]":
    """The tools that some files describe, and what in these is no tool.

    Of several files, each is a server to those of its tools that name none: no tool takes the place of another file's.
    """
    from onhand.embed.choose import chosen
    from onhand.tools.catalog import Catalog
    from onhand.tools.catalog_files import read_catalog

    read = {file: read_catalog(file) for file in files}
    at_hand, unavailable = chosen(None if embedder == "none" else embedder)
    if embedder not in (None, "none", "auto") and at_hand is None:
        raise EmbedderError(unavailable or "there is no such embedder")
    catalog = Catalog(path, at_hand)
    problems = []
    stems = [os.path.splitext(os.path.basename(file))[0] for file in read]
    for (file, (tools, unread)), stem in zip(read.items(), stems, strict=True):
        server = "" if len(read) == 1 else stem if stems.count(stem) == 1 else os.path.splitext(file)[0]
        added = catalog.add([tool if tool.server else tool._replace(server=server) for tool in tools])
        problems += [*unread, *(f"{file}: {reason}" for _, reason in added.refused)]
    return catalog, problems


def open_registry(asked: Config) -> "Registry":
    """Every tool that the configuration offers to a model."""
    from onhand.tools import Registry

    tools = [open_context(asked).tool(), *open_rules(asked).tools()]
    skills = open_skills(asked)
    if skills.all():  # tools that can find nothing would only cost room
        tools += skills.tools()
    if not _is_smuggled(asked, asked.notes.path):  # of which the configuration's warnings tell
        tools += open_notes(asked).tools()
    path = os.path.join(asked.project, asked.documents.path)
    if os.path.isfile(path) and not _is_smuggled(asked, asked.documents.path):
        tools += open_documents(asked, path).tools()
    plan = os.path.join(asked.project, PLAN_PATH)
    if os.path.isfile(plan) and not _is_smuggled(asked, PLAN_PATH):  # four more tools in a prompt: on request only
        from onhand.memory.plan_tool import tools_over

        tools += tools_over(open_plan(asked))
    return Registry(tools)


def documents_path(asked: Config) -> str:
    """The file of the project's documents, whether it is there or not."""
    path = os.path.join(asked.project, asked.documents.path)
    if _is_smuggled(asked, asked.documents.path):
        raise ConfigError(f"{path} is a link out of the project: name the file itself in documents.path, or by --db")
    return path


def _is_smuggled(asked: Config, path: str) -> bool:
    """Whether a configured path leads out of the project that nobody allowed to: a clone may have brought a link."""
    if os.path.isabs(path):
        return False
    real = os.path.realpath(os.path.join(asked.project, path))
    return not real.startswith(os.path.join(os.path.realpath(asked.project), ""))


def open_plan(asked: Config, path: str | None = None) -> "Plan":
    """The plan of a file, by default the project's; it is made with the first change."""
    from onhand.memory.plan import Plan

    if path is None:
        path = os.path.join(asked.project, PLAN_PATH)
        if _is_smuggled(asked, PLAN_PATH):
            raise ConfigError(f"{path} is a link out of the project: name the file itself by --file")
    return Plan(path)


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


def open_grpc(asked: Config, path: str | None = None) -> "Server":
    """The search service over the documents of a file, by default the project's, as the configuration asks for it.

    What writes has a connection of its own, so that searches do not wait for it.
    """
    from onhand.grpc import Server, Settings

    path = path or documents_path(asked)
    ours = asked.grpc
    writer = open_index(path, _embedder_of(asked)) if ours.writes else None
    settings = Settings(
        token=_token(ours.token_env),
        certificate=_pem(asked, "tls_cert"),
        private_key=_pem(asked, "tls_key"),
        client_ca=_pem(asked, "client_ca"),
        max_in_flight=ours.max_in_flight,
        max_message_bytes=ours.max_message_bytes,
        log_queries=ours.log_queries,
    )
    telemetry = None
    if ours.metrics:
        from onhand.grpc.telemetry import OpenTelemetry

        telemetry = OpenTelemetry()
    return Server(open_documents(asked, path), writer, settings, telemetry)


def _token(name: str) -> str:
    token = os.environ.get(name, "") if name else ""
    if name and not token:
        raise ConfigError(f"grpc.token_env names ${name}, which is not set: set it to the token that calls carry")
    return token


def _pem(asked: Config, name: str) -> bytes:
    """What is in a file that an option of gRPC names; nothing if it names none."""
    named: str = getattr(asked.grpc, name)
    if not named:
        return b""
    path = os.path.join(asked.project, named)
    try:
        with open(path, "rb") as file:
            return file.read(MAX_PEM_BYTES)
    except OSError as error:
        raise ConfigError(f"grpc.{name}: {path} cannot be read: {error.strerror or error}") from None


def _embedder_of(asked: Config) -> str | None:
    return None if asked.documents.embedder == "none" else asked.documents.embedder


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


def _repository(start: str) -> str:
    """The nearest directory upwards that is a repository's; else `start`: above it anybody may have put files."""
    directory, above = start, os.path.dirname(start)
    while not os.path.lexists(os.path.join(directory, ".git")):
        if above == directory:
            return start
        directory, above = above, os.path.dirname(above)
    return start if is_foreign(os.path.join(directory, ".git"), start) else directory
