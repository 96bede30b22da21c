"""A copy of the vectors in memory-mapped files beside the database, of which a search reads only what it needs.

The table in the database is the source of truth. The copy belongs to one generation of that table (`token`) and can be
deleted at any time. A directory contains one generation of the copy, which the file `current` names:

    current         name of the generation, token of the table, dimension
    NAME.rows       the vectors
    NAME.sums       a checksum for each vector
    NAME.docnums    the docnum of each vector; written last: a row without a docnum does not count. The vectors of one
                    document follow each other.
    NAME.codes      blocks of quantized rows (quantizer.py)
    NAME.code_sums  a checksum for each block; written last
    lock            locked by the process that writes

Files only grow, and never where a reader looks; a new generation has new files. So readers need no lock, and a writer
that is killed leaves only bytes that the next writer overwrites. If the files cannot be written (full disk, read-only
directory), new vectors stay in the memory of the process, and `note` says so.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from onhand.errors import StoreError
from onhand.fsio import FileLock
from onhand.store import nearest, quantizer
from onhand.store.store import Damage
from onhand.store.vectors import best_of_each, check_query, count_vectors

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from onhand.store.nearest import Floats, Ints
    from onhand.store.quantizer import Blocks

    Docnums = Sequence[int] | NDArray[np.int64]
    # docnum, count → the committed rows above that docnum, ascending, and before them its own if it has more than
    # `count` vectors
    RowsAfter = Callable[[int, int], Iterable[tuple[int, bytes]]]

FORMAT = 1
BATCH_BYTES = 2**24  # of rows that are written together
MIN_QUANTIZED_ROWS = 65_536  # fewer rows are compared exactly in two or three milliseconds
MIN_ROWS_PER_HIT = 256  # with fewer rows for each hit, the codes leave too many rows to compare exactly
MORE_ROWS = 4  # times as many vectors are looked for if those found so far belong to too few documents
MAX_VERIFIED = 1000  # hits whose checksums are verified before they are returned


class Part(NamedTuple):
    """Vectors that are searched together. Those in files have checksums and may be quantized."""

    rows: Floats
    docnums: Ints
    sums: NDArray[np.uint32] | None = None
    blocks: Blocks | None = None

    def upto(self, docnum: int | None) -> Part:
        """Return the vectors up to a docnum."""
        if docnum is None or not len(self.docnums) or docnum >= self.docnums[-1]:
            return self
        size = int(np.searchsorted(self.docnums, docnum, side="right"))
        blocks = None if self.blocks is None else self.blocks[: size // quantizer.BLOCK]
        return Part(self.rows[:size], self.docnums[:size], self.sums, blocks)


class Candidates(NamedTuple):
    """Vectors that may be among the nearest."""

    places: Ints
    docnums: Ints
    scores: NDArray[np.float64]


class MappedVectors:
    """Vectors in files that several threads and processes may search and extend at the same time."""

    def __init__(self, path: str | os.PathLike[str], dimension: int, token: str) -> None:
        self.note: str | None = None  # why vectors are kept in memory, if they are
        self._directory = os.fspath(path)
        self._dimension = dimension
        self._token = token
        self._turn = threading.Lock()  # only one thread at a time updates the parts
        self._damaged: set[str] = set()  # generations that must not be read again
        self._name: str | None = None
        self._parts = (self._empty_part(), self._empty_part())  # in files, in memory; replaced together
        with self._turn:
            self._refresh()

    @property
    def last_docnum(self) -> int:
        """The highest docnum in the copy, or -1."""
        return max((int(part.docnums[-1]) for part in self._parts if len(part.docnums)), default=-1)

    def __len__(self) -> int:
        """Return the number of vectors in the copy, including deleted ones."""
        return sum(len(part.docnums) for part in self._parts)

    def catch_up(self, rows_after: RowsAfter) -> None:
        """Copy the committed rows after the last vector: little-endian floats, by ascending docnum."""
        with self._turn:
            self._refresh()
            if next(iter(rows_after(*self._last_vector())), None) is None and not self._has_unquantized_rows():
                return
            if self.note is None:
                try:
                    with FileLock(os.path.join(self._directory, "lock")):
                        self._write(rows_after)
                    return
                except OSError as error:
                    reason = error.strerror or "in use by another process"
                    self.note = f"{self._directory} cannot be written ({reason}): new vectors are kept in memory"
                    self._refresh()
            self._append_in_memory(rows_after(*self._last_vector()))

    def nearest(
        self,
        query: array[float],
        *,
        allowed: Docnums | None = None,
        deleted: Docnums = (),
        limit: int = 10,
        min_score: float | None = None,
        upto: int | None = None,
    ) -> list[tuple[int, float]]:
        """Return the top-k docnums and their dot products in descending order, including all ties with the last one.

        The product of a docnum is the largest of its vectors. `allowed` and `deleted` are ascending. Docnums above
        `upto` do not count.
        """
        check_query(query, self._dimension)
        if limit <= 0:
            return []
        numbers = np.frombuffer(query, np.float32)
        permitted = None if allowed is None else np.asarray(allowed, np.int64)
        tombstones = np.asarray(deleted, np.int64)
        floor = float("-inf") if min_score is None else min_score
        parts = [part.upto(upto) for part in self._parts]
        wanted = limit
        while True:
            found = [_search_part(part, numbers, permitted, tombstones, wanted, floor) for part in parts]
            self._verify(parts[0], found[0].places[:MAX_VERIFIED])
            rows = _merge_candidates(found, wanted, floor)
            best = best_of_each(rows)
            if len(best) >= limit or len(rows) < wanted:  # enough documents, or all that there are
                return best
            wanted *= MORE_ROWS

    def check(self) -> list[Damage]:
        """Return everything that is not as it was written."""
        with self._turn:
            self._refresh()
            part, name = self._parts[0], self._name
        advice = "delete the directory of the copy, which is then made again from the database"
        return [Damage(what, advice) for what in (*_find_row_damage(part), *self._find_code_damage(part, name))]

    def discard(self) -> None:
        """Never read this generation again; the next `catch_up` makes a new one."""
        with self._turn:
            if self._name is not None:
                self._damaged.add(self._name)
            self._name, self._parts = None, (self._empty_part(), self._empty_part())

    def close(self) -> None:
        with self._turn:
            self._name, self._parts = None, (self._empty_part(), self._empty_part())

    def _find_code_damage(self, part: Part, name: str | None) -> Iterator[str]:
        if part.blocks is None or not len(part.blocks):
            return
        sums = _map_file(self._file(name, "code_sums"), np.dtype("<u4"), part.blocks.shape)
        damaged = sum(crc32(block.tobytes()) != int(total) for block, total in zip(part.blocks, sums, strict=True))
        if damaged:
            yield f"{damaged} of {len(part.blocks)} blocks of codes differ from what was written"

    def _empty_part(self) -> Part:
        return Part(np.empty((0, self._dimension), np.float32), np.empty(0, np.int64))

    def _file(self, name: str | None, kind: str) -> str:
        return os.path.join(self._directory, f"{name}.{kind}")

    def _verify(self, part: Part, places: Ints) -> None:
        """Raise StoreError if one of these vectors is not as it was written."""
        if part.sums is not None and not all(_is_intact(part, int(place)) for place in places):
            self.discard()
            raise StoreError(
                f"{self._directory} is damaged and was discarded. Search again; it is made again from the database."
            )

    def _refresh(self) -> None:
        """Map what other processes wrote, and drop files that are missing, truncated or of another table."""
        name = self._read_current()
        part = None if name is None else self._open_generation(name)
        name = None if part is None else name
        # The vectors in memory continue one generation; after another one there might be a gap.
        tail = self._parts[1] if name == self._name else self._empty_part()
        if part is not None and len(part.docnums) and len(tail.docnums):
            newer = int(np.searchsorted(tail.docnums, part.docnums[-1], side="right"))
            tail = Part(tail.rows[newer:], tail.docnums[newer:])
        self._name, self._parts = name, (part or self._empty_part(), tail)

    def _read_current(self) -> str | None:
        """Return the name of the generation in the directory, or None if it is not a usable copy of this table."""
        try:
            with open(os.path.join(self._directory, "current"), "rb") as file:
                header = json.loads(file.read(10_000))
            name = header["name"]
            is_ours = (header["format"], header["dimension"], header["token"]) == (FORMAT, self._dimension, self._token)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        is_valid = is_ours and isinstance(name, str) and name.isalnum() and name not in self._damaged
        return name if is_valid else None

    def _open_generation(self, name: str) -> Part | None:
        """Map the files of a generation; return None if they cannot be what was written."""
        known = self._parts[0] if name == self._name else self._empty_part()
        try:
            size, coded = self._read_sizes(name)
            if size < len(known.docnums):
                return None
            if known.blocks is not None and (size, coded) == (len(known.docnums), len(known.blocks)):
                return known
            docnums = _map_file(self._file(name, "docnums"), np.dtype("<i8"), (size,))
            sums = _map_file(self._file(name, "sums"), np.dtype("<u4"), (size,))
            rows = _map_file(self._file(name, "rows"), np.dtype("<f4"), (size, self._dimension))
            blocks = _map_file(self._file(name, "codes"), quantizer.block_type(self._dimension), (coded,))
        except (OSError, ValueError):  # a file is missing or shorter than it should be
            return None
        part = Part(rows, docnums, sums, blocks)
        return part if not size or _is_intact(part, size - 1) else None

    def _read_sizes(self, name: str) -> tuple[int, int]:
        """Return how many rows and how many blocks of codes were written completely."""
        size = os.path.getsize(self._file(name, "docnums")) // 8
        whole = os.path.getsize(self._file(name, "codes")) // quantizer.block_type(self._dimension).itemsize
        return size, min(os.path.getsize(self._file(name, "code_sums")) // 4, whole, size // quantizer.BLOCK)

    def _has_unquantized_rows(self) -> bool:
        part = self._parts[0]
        fits = quantizer.MIN_DIMENSION <= self._dimension <= quantizer.MAX_DIMENSION
        coded = 0 if part.blocks is None else len(part.blocks)
        return (
            self.note is None and fits and len(part.docnums) >= max(MIN_QUANTIZED_ROWS, (coded + 1) * quantizer.BLOCK)
        )

    def _last_vector(self) -> tuple[int, int]:
        """Return the highest docnum, and how many of its vectors are in the copy."""
        last = self.last_docnum
        counts = (len(part.docnums) - np.searchsorted(part.docnums, last) for part in self._parts)
        return last, int(sum(counts))

    def _write(self, rows_after: RowsAfter) -> None:
        """Bring the files up to date while the lock is held."""
        self._refresh()
        if self._name is None:
            self._begin_generation()
        for batch in self._batches(rows_after(*self._last_vector())):
            self._append(batch)
            self._refresh()
        while self._has_unquantized_rows():
            self._append_codes()
            self._refresh()

    def _batches(self, rows: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
        """Yield single vectors in batches; raise StoreError if the rows are not ascending vectors."""
        size, batch = max(1, BATCH_BYTES // (self._dimension * 4)), list[tuple[int, bytes]]()
        last, copied = self._last_vector()
        for docnum, data in rows:
            count = count_vectors(docnum, data, self._dimension)
            known = copied if docnum == last else 0
            if docnum < last or count <= known:
                raise StoreError(f"Docnum {docnum} follows docnum {last}: the table of vectors is out of order.")
            width = self._dimension * 4
            batch += [(docnum, data[place * width : (place + 1) * width]) for place in range(known, count)]
            last, copied = docnum, count
            if len(batch) >= size:
                yield batch
                batch = []
        if batch:
            yield batch

    def _begin_generation(self) -> None:
        """Start a generation without vectors, and remove the files of the previous one."""
        name = token_hex(8)
        for kind in ("rows", "sums", "docnums", "codes", "code_sums"):
            _write_at(self._file(name, kind), 0, b"")
        header = {"format": FORMAT, "dimension": self._dimension, "token": self._token, "name": name}
        _write_at(self._file(name, "new"), 0, json.dumps(header).encode(), sync=True)
        os.replace(self._file(name, "new"), os.path.join(self._directory, "current"))
        for entry in os.listdir(self._directory):
            if entry not in ("current", "lock") and not entry.startswith(f"{name}."):
                with suppress(OSError):  # Windows does not delete an open file
                    os.unlink(os.path.join(self._directory, entry))
        self._parts = (self._empty_part(), self._empty_part())
        self._refresh()

    def _append(self, batch: Sequence[tuple[int, bytes]]) -> None:
        """Write rows after the last one, and then the docnums that make them count."""
        docnums, data = self._join_rows(batch)
        size, sums = len(self._parts[0].docnums), [_checksum(docnum, row) for docnum, row in batch]
        _write_at(self._file(self._name, "rows"), size * self._dimension * 4, data, sync=True)
        _write_at(self._file(self._name, "sums"), size * 4, np.array(sums, "<u4").tobytes(), sync=True)
        _write_at(self._file(self._name, "docnums"), size * 8, docnums.astype("<i8").tobytes())

    def _append_codes(self) -> None:
        """Write one more block of codes, and then the checksum that makes it count."""
        part = self._parts[0]
        number = 0 if part.blocks is None else len(part.blocks)
        block = quantizer.encode(part.rows[number * quantizer.BLOCK : (number + 1) * quantizer.BLOCK])
        _write_at(self._file(self._name, "codes"), number * len(block), block, sync=True)
        _write_at(self._file(self._name, "code_sums"), number * 4, np.array([crc32(block)], "<u4").tobytes())

    def _join_rows(self, batch: Sequence[tuple[int, bytes]]) -> tuple[Ints, bytes]:
        """Return the docnums and the joined vectors of rows; raise StoreError if one is not finite."""
        data = b"".join(row for _, row in batch)
        is_finite = np.isfinite(np.frombuffer(data, "<f4").reshape(len(batch), self._dimension)).all(axis=1)
        if not is_finite.all():
            docnum = batch[int(np.argmin(is_finite))][0]
            raise StoreError(f"The vector of docnum {docnum} is not finite. Run `onhand docs reembed`.")
        return np.array([docnum for docnum, _ in batch], np.int64), data

    def _append_in_memory(self, rows: Iterable[tuple[int, bytes]]) -> None:
        for batch in self._batches(rows):
            docnums, data = self._join_rows(batch)
            part, tail = self._parts
            added = np.frombuffer(data, "<f4").reshape(len(batch), self._dimension)
            self._parts = (part, Part(_append_rows(tail.rows, added), _append_rows(tail.docnums, docnums)))


def _map_file(path: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a file as an array that is read on access; ValueError if the file is too short."""
    if not shape[0]:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, mode="r", shape=shape).view(np.ndarray)


def _write_at(path: str, offset: int, data: bytes, sync: bool = False) -> None:
    """Write bytes at an offset of a file; with `sync`, they are on the disk when this returns."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.seek(offset)
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def _find_row_damage(part: Part) -> Iterator[str]:
    damaged = sum(not _is_intact(part, place) for place in range(len(part.docnums)))
    if damaged:
        yield f"{damaged} of {len(part.docnums)} copied vectors differ from what was written"
    if (np.diff(part.docnums) < 0).any():
        yield "the docnums of copied vectors are out of order"


def _search_part(
    part: Part, query: Floats, permitted: Ints | None, tombstones: Ints, limit: int, floor: float
) -> Candidates:
    """Return the best of a part: exactly, or by codes if there are very many vectors and all are permitted."""
    allowed = None if permitted is None else nearest.find_places(part.docnums, permitted)
    deleted = nearest.find_places(part.docnums, tombstones)
    coded = 0 if part.blocks is None or allowed is not None else len(part.blocks) * quantizer.BLOCK
    if part.blocks is None or coded < max(MIN_QUANTIZED_ROWS, MIN_ROWS_PER_HIT * limit):
        places, _ = nearest.find_nearest(part.rows, query, allowed, deleted, limit, floor)
    else:
        border = int(np.searchsorted(deleted, coded))
        likely, scores = quantizer.find_candidates(
            part.blocks, part.rows[:coded], query, deleted[:border], limit, floor
        )
        rest, rest_scores = nearest.find_nearest(part.rows[coded:], query, None, deleted[border:] - coded, limit, floor)
        places, scores = np.concatenate([likely, rest + coded]), np.concatenate([scores, rest_scores])
        places = places[nearest.top_places(scores, limit, floor, nearest.rounding_error(query))]
    return Candidates(places, part.docnums[places], nearest.exact_products(part.rows, places, query))


def _merge_candidates(found: Sequence[Candidates], limit: int, floor: float) -> list[tuple[int, float]]:
    """Return the best of all parts, including all ties with the last one."""
    docnums = np.concatenate([some.docnums for some in found])
    scores = np.concatenate([some.scores for some in found])
    least = floor if len(scores) <= limit else max(floor, float(np.partition(scores, -limit)[-limit]))
    docnums, scores = docnums[scores >= least], scores[scores >= least]
    order = np.lexsort((docnums, -scores))
    return list(zip(docnums[order].tolist(), scores[order].tolist(), strict=True))


def _checksum(docnum: int, row: bytes) -> int:
    # Includes the docnum, so that a row in the place of another is detected.
    return crc32(row, crc32(docnum.to_bytes(8, "little", signed=True)))


def _is_intact(part: Part, place: int) -> bool:
    """Return whether a vector and its docnum are what was written."""
    if part.sums is None:
        return False
    return _checksum(int(part.docnums[place]), part.rows[place].tobytes()) == int(part.sums[place])


def _append_rows(array: NDArray[Any], added: NDArray[Any]) -> NDArray[Any]:
    """Return an array with more rows. Capacity doubles, and rows that other threads are reading stay in place."""
    size, buffer = len(array) + len(added), array.base
    if buffer is None or len(buffer) < size or buffer.ctypes.data != array.ctypes.data:
        buffer = np.empty((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
        buffer[: len(array)] = array
    buffer[len(array) : size] = added
    return buffer[:size]
