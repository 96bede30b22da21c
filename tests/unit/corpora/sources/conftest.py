"""Files to import, and what comes out of them."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from onhand.corpora.sources import read_sources
from onhand.corpora.sources.source import ImportProblem
from onhand.document import Document


class Imported(NamedTuple):
    documents: list[Document]
    problems: list[ImportProblem]

    @property
    def reasons(self) -> list[tuple[str, str]]:
        return [(problem.where, problem.reason) for problem in self.problems]

    @property
    def only(self) -> Document:
        (document,) = self.documents
        return document


class Files:
    """A directory to write files into and to import from."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def of(self, name: str, content: str | bytes, **options: Any) -> Imported:
        """What is read from one file."""
        return imported(self.write(name, content), **options)


def imported(*paths: Path, **options: Any) -> Imported:
    items = list(read_sources(paths, **options))
    documents = [item for item in items if isinstance(item, Document)]
    return Imported(documents, [item for item in items if isinstance(item, ImportProblem)])


@pytest.fixture
def files(tmp_path: Path) -> Files:
    directory = tmp_path / "files"
    directory.mkdir()
    return Files(directory)
