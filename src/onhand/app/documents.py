"""Where are the documents? The file that the configuration names, and the index over it."""

import os

from onhand.app.project import misplaced
from onhand.config import Config
from onhand.errors import ConfigError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.corpora.corpus import Corpus
    from onhand.corpora.documents import Documents
    from onhand.embed.embedder import Embedder
    from onhand.search.index import Index


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


def open_documents(
    asked: Config, path: str | None = None, embedder: "Embedder | str | None" = "configured"
) -> "Documents":
    """The documents of a file that is there, by default the project's; StoreError says how to make one."""
    from onhand.corpora.documents import Documents

    path = path or documents_path(asked)
    if not os.path.exists(path):
        raise StoreError(f"there are no documents at {path}: import some with `onhand docs import PATH…`")
    wanted = asked.documents.embedder if embedder == "configured" else embedder
    return Documents(open_index(path, wanted), asked.documents.max_output_bytes)


def documents_path(asked: Config) -> str:
    """The file of the project's documents, whether it is there or not."""
    path = os.path.join(asked.project, asked.documents.path)
    if reason := misplaced(asked, asked.documents.path):
        raise ConfigError(f"documents.path: {path} {reason}, or by --db")
    return path


def documents_if_any(asked: Config) -> "Corpus":
    from onhand.corpora.corpus import Absent

    path = documents_path(asked)
    if not os.path.exists(path):
        return Absent(f"there are no documents at {path}: import some with `onhand docs import PATH…`")
    return open_documents(asked, path)


def documents_or_none(asked: Config) -> "Documents | None":
    path = os.path.join(asked.project, asked.documents.path)
    if not os.path.isfile(path) or misplaced(asked, asked.documents.path):
        return None
    return open_documents(asked, path)
