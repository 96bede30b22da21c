"""An embedder that keeps the vectors of documents in a file, so that a start does not embed them again."""

from __future__ import annotations

import os
from array import array
from hashlib import sha256
from threading import Lock

from onhand.embed.embedder import validate_texts
from onhand.fsio import make_directories, open_regular, write_atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from onhand.embed.embedder import Embedder, Kind

MAX_KEPT = 50_000  # vectors; those that were used last are kept
MAX_FILE_BYTES = 512 * 1024 * 1024
_DIGEST_BYTES = 32


class CachedEmbedder:
    """Another embedder, with the vectors of documents from a file where it has them. Thread-safe.

    The file is only a copy: one that is missing, damaged or of another model is made again.
    """

    def __init__(self, embedder: Embedder, directory: str | None) -> None:
        """Without a directory, the vectors are kept in memory only."""
        self._embedder = embedder
        self._directory = directory
        self._lock = Lock()
        self._vectors: dict[bytes, array[float]] | None = None  # digest of a text → vector, the last used at the end
        self._has_changed = False

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def prompt_format(self) -> str:
        return self._embedder.prompt_format

    @property
    def min_score(self) -> float | None:
        return self._embedder.min_score

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[array[float]]:
        """Return one vector for each text; only documents are kept."""
        texts = validate_texts(texts, kind)
        if kind != "document":
            return self._embedder.embed(texts, kind)
        digests = [sha256(text.encode()).digest() for text in texts]
        with self._lock:
            known = self._load_vectors()
            new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known}
        made = dict(zip(new, self._embedder.embed(list(new.values()), kind), strict=True)) if new else {}
        with self._lock:
            self._has_changed = self._has_changed or bool(made)
            for digest in digests:
                known[digest] = made[digest] if digest in made else known.pop(digest)
            return [known[digest] for digest in digests]

    def save(self) -> None:
        """Write the file if there are new vectors; raise OSError if that is not possible."""
        with self._lock:
            if not self._has_changed or self._directory is None:
                return
            kept = dict(list(self._load_vectors().items())[-MAX_KEPT:])
            self._has_changed = False
        body = b"".join(digest + vector.tobytes() for digest, vector in kept.items())
        make_directories(self._directory, 0o700)
        write_atomic(self._path(self._directory), sha256(body).digest() + body)

    def _path(self, directory: str) -> str:
        model = f"{self.name}\n{self.prompt_format}\n{self.dimension}"
        return os.path.join(directory, f"{sha256(model.encode()).hexdigest()[:16]}.vectors")

    def _load_vectors(self) -> dict[bytes, array[float]]:
        if self._vectors is None:
            self._vectors = self._read()
        return self._vectors

    def _read(self) -> dict[bytes, array[float]]:
        size = 4 * self.dimension
        if self._directory is None:
            return {}
        try:
            with open_regular(self._path(self._directory)) as file:
                content = file.read(MAX_FILE_BYTES)
        except OSError:
            return {}
        body = memoryview(content)[_DIGEST_BYTES:]
        row = _DIGEST_BYTES + size
        if len(body) % row or sha256(body).digest() != content[:_DIGEST_BYTES]:
            return {}
        vectors: dict[bytes, array[float]] = {}
        for start in range(0, len(body), row):
            vector = array("f")
            vector.frombytes(body[start + _DIGEST_BYTES : start + row])
            vectors[bytes(body[start : start + _DIGEST_BYTES])] = vector
        return vectors
