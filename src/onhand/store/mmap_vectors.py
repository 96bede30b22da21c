"""Vectors in files beside the database, mapped into memory and read only where a search needs them.

A directory holds one generation of them, named by the file `current`:

    current         which generation this is, of which table (token), of which dimension
    NAME.rows       the vectors, one after the other
    NAME.sums       a checksum for each
    NAME.docnums      the docnum of each; written last: what has no docnum here does not count
    NAME.codes      blocks of coded rows (codes.py)
    NAME.code_sums  a checksum for each block, written last
    lock            held by whoever writes

Files only grow, and never at a place that a reader looks at; a new generation has new files. So readers need no lock,
and a writer that is killed leaves nothing behind but bytes that the next one overwrites. What cannot be written, on a
full disk or in a directory that is read-only, is kept in memory for as long as the process lives, and `note` says so.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from onhand.errors import StoreError
from onhand.fsio import FileLock
from onhand.store import nearest, quantizer
from onhand.store.files import mapped, write_at
from onhand.store.store import Damage
from onhand.store.vectors import bad_query, checked_row, not_finite

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from onhand.store.nearest import Floats, Ints
    from onhand.store.quantizer import Blocks
    from onhand.store.vectors import Docnums, RowsAbove

FORMAT = 1
BATCH_BYTES = 2**24  # of rows that are written together
CODED_FROM = 65_536  # rows; fewer are compared exactly in two or three milliseconds
WORTH_CODES = 256  # times as many rows as hits: with more hits the codes leave too much to compare
VERIFIED = 1000  # hits whose checksums are compared before they are given out


class Part(NamedTuple):
    """Some vectors that are searched together; those in files have checksums and may be coded."""

    rows: Floats
    docnums: Ints
    sums: NDArray[np.uint32] | None = None
    blocks: Blocks | None = None

    def upto(self, docnum: int | None) -> Part:
        """The vectors up to a docnum."""
        if docnum is None or not len(self.docnums) or docnum >= self.docnums[-1]:
            return self
        size = int(np.searchsorted(self.docnums, docnum, side="right"))
        blocks = None if self.blocks is None else self.blocks[: size // quantizer.BLOCK]
        return Part(self.rows[:size], self.docnums[:size], self.sums, blocks)


class Found(NamedTuple):
    """Vectors that may be among the nearest."""

    places: Ints
    docnums: Ints
    scores: NDArray[np.float64]


class MappedVectors:
    """Vectors in files that several processes may search and add to at once."""

    def __init__(self, path: str | os.PathLike[str], dimension: int, token: str) -> None:
        self.note: str | None = None
        self._directory = os.fspath(path)
        self._dimension = dimension
        self._token = token
        self._turn = threading.Lock()  # one thread at a time brings the parts up to date
        self._damaged: set[str] = set()  # generations that are not to be read again
        self._name: str | None = None
        self._parts = (self._nothing(), self._nothing())  # in files, in memory; replaced together
        with self._turn:
            self._refresh()

    @property
    def last_docnum(self) -> int:
        return max((int(part.docnums[-1]) for part in self._parts if len(part.docnums)), default=-1)

    def __len__(self) -> int:
        return sum(len(part.docnums) for part in self._parts)

    def catch_up(self, rows_above: RowsAbove) -> None:
        with self._turn:
            self._refresh()
            if next(iter(rows_above(self.last_docnum)), None) is None and not self._uncoded():
                return
            if self.note is None:
                try:
                    with FileLock(os.path.join(self._directory, "lock")):
                        self._write(rows_above)
                    return
                except OSError as error:
                    reason = error.strerror or "in use by another process"
                    self.note = f"{self._directory} cannot be written ({reason}): new vectors are kept in memory"
                    self._refresh()
            self._remember(rows_above(self.last_docnum))

    def nearest(
        self,
        query: array[float] | bytes,
        *,
        allowed: Docnums | None = None,
        deleted: Docnums = (),
        limit: int = 10,
        min_score: float | None = None,
        upto: int | None = None,
    ) -> list[tuple[int, float]]:
        wanted = self._query(query)
        if limit <= 0:
            return []
        among = None if allowed is None else np.asarray(allowed, np.int64)
        gone = np.asarray(deleted, np.int64)
        floor = float("-inf") if min_score is None else min_score
        parts = [part.upto(upto) for part in self._parts]
        found = [_search(part, wanted, among, gone, limit, floor) for part in parts]
        self._verify(parts[0], found[0].places[:VERIFIED])
        return _merged(found, limit, floor)

    def check(self) -> list[Damage]:
        with self._turn:
            self._refresh()
            part, name = self._parts[0], self._name
        advice = "discard the copy: it is made anew from the database"
        return [Damage(what, advice) for what in (*_row_damage(part), *self._code_damage(part, name))]

    def discard(self) -> None:
        with self._turn:
            self._give_up()

    def close(self) -> None:
        with self._turn:
            self._name, self._parts = None, (self._nothing(), self._nothing())

    def _code_damage(self, part: Part, name: str | None) -> Iterator[str]:
        if part.blocks is None or not len(part.blocks):
            return
        sums = mapped(self._file(name, "code_sums"), np.dtype("<u4"), part.blocks.shape)
        spoiled = sum(crc32(block.tobytes()) != int(total) for block, total in zip(part.blocks, sums, strict=True))
        if spoiled:
            yield f"{spoiled} of {len(part.blocks)} blocks of codes differ from what was written"

    def _query(self, query: array[float] | bytes) -> Floats:
        numbers = np.frombuffer(query, "<f4" if isinstance(query, bytes) else np.float32).astype(np.float32)
        if len(numbers) != self._dimension or not np.isfinite(numbers).all():
            raise bad_query(len(numbers), self._dimension)
        return numbers

    def _nothing(self) -> Part:
        return Part(np.empty((0, self._dimension), np.float32), np.empty(0, np.int64))

    def _file(self, name: str | None, kind: str) -> str:
        return os.path.join(self._directory, f"{name}.{kind}")

    def _verify(self, part: Part, places: Ints) -> None:
        """Refuse to answer with a vector that is not as it was written."""
        if part.sums is not None and not all(_intact(part, int(place)) for place in places):
            self.discard()
            raise StoreError(f"{self._directory} was damaged and is given up: search again, it is made anew")

    def _give_up(self) -> None:
        """Never read this generation again."""
        if self._name is not None:
            self._damaged.add(self._name)
        self._name, self._parts = None, (self._nothing(), self._nothing())

    def _refresh(self) -> None:
        """See what other processes wrote, and notice when files are gone, cut off or of another table."""
        name = self._current()
        part = None if name is None else self._opened(name)
        name = None if part is None else name
        # What memory holds continues one generation: behind another one there might be a gap.
        tail = self._parts[1] if name == self._name else self._nothing()
        if part is not None and len(part.docnums) and len(tail.docnums):
            newer = int(np.searchsorted(tail.docnums, part.docnums[-1], side="right"))
            tail = Part(tail.rows[newer:], tail.docnums[newer:])
        self._name, self._parts = name, (part or self._nothing(), tail)

    def _current(self) -> str | None:
        """The name of the generation in the directory; None when it is not one of ours."""
        import json

        try:
            with open(os.path.join(self._directory, "current"), "rb") as file:
                stated = json.loads(file.read(10_000))
            name = stated["name"]
            ours = (stated["format"], stated["dimension"], stated["token"]) == (FORMAT, self._dimension, self._token)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        valid = ours and isinstance(name, str) and name.isalnum() and name not in self._damaged
        return name if valid else None

    def _opened(self, name: str) -> Part | None:
        """The files of a generation, mapped; None when they cannot be what was written."""
        known = self._parts[0] if name == self._name else self._nothing()
        try:
            size, coded = self._sizes(name)
            if size < len(known.docnums):
                return None
            if known.blocks is not None and (size, coded) == (len(known.docnums), len(known.blocks)):
                return known
            docnums = mapped(self._file(name, "docnums"), np.dtype("<i8"), (size,))
            sums = mapped(self._file(name, "sums"), np.dtype("<u4"), (size,))
            rows = mapped(self._file(name, "rows"), np.dtype("<f4"), (size, self._dimension))
            blocks = mapped(self._file(name, "codes"), quantizer.block_type(self._dimension), (coded,))
        except (OSError, ValueError):  # gone or cut off: there is less to map than there has to be
            return None
        part = Part(rows, docnums, sums, blocks)
        return part if not size or _intact(part, size - 1) else None

    def _sizes(self, name: str) -> tuple[int, int]:
        """How many rows and how many blocks of codes were written to the end."""
        size = os.path.getsize(self._file(name, "docnums")) // 8
        whole = os.path.getsize(self._file(name, "codes")) // quantizer.block_type(self._dimension).itemsize
        return size, min(os.path.getsize(self._file(name, "code_sums")) // 4, whole, size // quantizer.BLOCK)

    def _uncoded(self) -> bool:
        """Whether there are rows to be coded."""
        part = self._parts[0]
        fits = quantizer.MIN_DIMENSION <= self._dimension <= quantizer.MAX_DIMENSION
        coded = 0 if part.blocks is None else len(part.blocks)
        return self.note is None and fits and len(part.docnums) >= max(CODED_FROM, (coded + 1) * quantizer.BLOCK)

    def _write(self, rows_above: RowsAbove) -> None:
        """Bring the files up to date; the lock is held."""
        self._refresh()
        if self._name is None:
            self._begin()
        rows = iter(rows_above(self.last_docnum))
        while batch := list(islice(rows, self._batch())):
            self._append(batch)
            self._refresh()
        while self._uncoded():
            self._encode()
            self._refresh()

    def _batch(self) -> int:
        """How many rows are taken over at once."""
        return max(1, BATCH_BYTES // (self._dimension * 4))

    def _begin(self) -> None:
        """Start a generation of no vectors, and remove the files of the one before."""
        import json
        from secrets import token_hex

        name = token_hex(8)
        for kind in ("rows", "sums", "docnums", "codes", "code_sums"):
            write_at(self._file(name, kind), 0, b"")
        stated = {"format": FORMAT, "dimension": self._dimension, "token": self._token, "name": name}
        write_at(self._file(name, "new"), 0, json.dumps(stated).encode(), sync=True)
        os.replace(self._file(name, "new"), os.path.join(self._directory, "current"))
        for entry in os.listdir(self._directory):
            if entry not in ("current", "lock") and not entry.startswith(f"{name}."):
                with suppress(OSError):  # Windows keeps a file that somebody has open
                    os.unlink(os.path.join(self._directory, entry))
        self._parts = (self._nothing(), self._nothing())
        self._refresh()

    def _append(self, batch: Sequence[tuple[int, bytes]]) -> None:
        """Write rows behind the last one, and then that they are there."""
        docnums, data = self._checked(batch)
        size, sums = len(self._parts[0].docnums), [_sum(docnum, row) for docnum, row in batch]
        write_at(self._file(self._name, "rows"), size * self._dimension * 4, data, sync=True)
        write_at(self._file(self._name, "sums"), size * 4, np.array(sums, "<u4").tobytes(), sync=True)
        write_at(self._file(self._name, "docnums"), size * 8, docnums.astype("<i8").tobytes())

    def _encode(self) -> None:
        """Write one more block of codes, and then that it is there."""
        part = self._parts[0]
        number = 0 if part.blocks is None else len(part.blocks)
        block = quantizer.encode(part.rows[number * quantizer.BLOCK : (number + 1) * quantizer.BLOCK])
        write_at(self._file(self._name, "codes"), number * len(block), block, sync=True)
        write_at(self._file(self._name, "code_sums"), number * 4, np.array([crc32(block)], "<u4").tobytes())

    def _checked(self, batch: Sequence[tuple[int, bytes]]) -> tuple[Ints, bytes]:
        """The docnums and the joined vectors of rows, if they are what they should be."""
        last = self.last_docnum
        for docnum, row in batch:
            checked_row(docnum, row, self._dimension, last)
            last = docnum
        data = b"".join(row for _, row in batch)
        whole = np.isfinite(np.frombuffer(data, "<f4").reshape(len(batch), self._dimension)).all(axis=1)
        if not whole.all():
            raise not_finite(batch[int(np.argmin(whole))][0])
        return np.array([docnum for docnum, _ in batch], np.int64), data

    def _remember(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Keep rows in memory, behind those that are there."""
        rows = iter(rows)
        while batch := list(islice(rows, self._batch())):
            docnums, data = self._checked(batch)
            part, tail = self._parts
            added = np.frombuffer(data, "<f4").reshape(len(batch), self._dimension)
            self._parts = (part, Part(_grown(tail.rows, added), _grown(tail.docnums, docnums)))


def _row_damage(part: Part) -> Iterator[str]:
    bad = sum(not _intact(part, place) for place in range(len(part.docnums)))
    if bad:
        yield f"{bad} of {len(part.docnums)} copied vectors differ from what was written"
    if (np.diff(part.docnums) <= 0).any():
        yield "the docnums of copied vectors are out of order"


def _search(part: Part, query: Floats, among: Ints | None, gone: Ints, limit: int, floor: float) -> Found:
    """The best of a part: exactly, or by codes where there are very many and every one is allowed."""
    allowed = None if among is None else nearest.places_of(part.docnums, among)
    deleted = nearest.places_of(part.docnums, gone)
    coded = 0 if part.blocks is None or allowed is not None else len(part.blocks) * quantizer.BLOCK
    if part.blocks is None or coded < max(CODED_FROM, WORTH_CODES * limit):
        places, _ = nearest.chosen(part.rows, query, allowed, deleted, limit, floor)
    else:
        border = int(np.searchsorted(deleted, coded))
        likely, scores = quantizer.candidates(part.blocks, part.rows[:coded], query, deleted[:border], limit, floor)
        rest, others = nearest.chosen(part.rows[coded:], query, None, deleted[border:] - coded, limit, floor)
        places, scores = np.concatenate([likely, rest + coded]), np.concatenate([scores, others])
        places = places[nearest.best(scores, limit, floor, nearest.slack(query))]
    return Found(places, part.docnums[places], nearest.precise(part.rows, places, query))


def _merged(found: Sequence[Found], limit: int, floor: float) -> list[tuple[int, float]]:
    """The best of all parts, with every one that ties with the last."""
    docnums = np.concatenate([some.docnums for some in found])
    scores = np.concatenate([some.scores for some in found])
    least = floor if len(scores) <= limit else max(floor, float(np.partition(scores, -limit)[-limit]))
    docnums, scores = docnums[scores >= least], scores[scores >= least]
    order = np.lexsort((docnums, -scores))
    return list(zip(docnums[order].tolist(), scores[order].tolist(), strict=True))


def _sum(docnum: int, row: bytes) -> int:
    return crc32(row, crc32(docnum.to_bytes(8, "little", signed=True)))  # so a row in another's place is noticed


def _intact(part: Part, place: int) -> bool:
    """Whether a vector and its docnum are what was written."""
    return part.sums is not None and _sum(int(part.docnums[place]), part.rows[place].tobytes()) == int(part.sums[place])


def _grown(array: NDArray[Any], added: NDArray[Any]) -> NDArray[Any]:
    """An array with more behind it; memory is taken in doubles, and what others look at stays where it is."""
    size, room = len(array) + len(added), array.base
    if room is None or len(room) < size or room.ctypes.data != array.ctypes.data:
        room = np.empty((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
        room[: len(array)] = array
    room[len(array) : size] = added
    return room[:size]
