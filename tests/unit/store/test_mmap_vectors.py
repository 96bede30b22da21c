"""Do the files beside a database stay right, whoever writes, dies, deletes or spoils them?"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onhand.errors import StoreError
from onhand.store.mmap_vectors import MappedVectors
from requirements import requirement

DIMENSION = 16
ROW = DIMENSION * 4


def row(docnum: int) -> array[float]:
    """A vector that follows from its docnum, so that every process knows the whole table."""
    chance = random.Random(docnum)
    numbers = [chance.gauss(0, 1) for _ in range(DIMENSION)]
    length = sum(number * number for number in numbers) ** 0.5
    return array("f", [number / length for number in numbers])


def upto(size: int) -> Callable[[int, int], Iterator[tuple[int, bytes]]]:
    return lambda last, _copied: ((docnum, row(docnum).tobytes()) for docnum in range(last + 1, size))


def opened(path: Path, token: str = "t") -> MappedVectors:
    return MappedVectors(path, DIMENSION, token)


def filled(path: Path, size: int = 100) -> MappedVectors:
    vectors = opened(path)
    vectors.catch_up(upto(size))
    return vectors


def file_of(path: Path, kind: str) -> Path:
    (found,) = path.glob(f"*.{kind}")
    return found


def right(vectors: MappedVectors, size: int) -> bool:
    """Whether each of some vectors is the nearest to itself."""
    probes = range(0, size, max(1, size // 20))
    return len(vectors) == size and all(vectors.nearest(row(docnum), limit=1)[0][0] == docnum for docnum in probes)


@requirement("search.vectors-on-disk")
def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    filled(tmp_path / "v").close()
    again = opened(tmp_path / "v")
    assert right(again, 100)
    assert again.check() == []
    again.catch_up(upto(130))
    assert right(again, 130)


@requirement("search.vectors-on-disk")
def test_opening_reads_next_to_nothing(tmp_path: Path) -> None:
    dimension, size = 256, 40_000
    one = array("f", [1.0] + [0.0] * (dimension - 1)).tobytes()
    vectors = MappedVectors(tmp_path / "v", dimension, "t")
    vectors.catch_up(lambda last, _copied: ((docnum, one) for docnum in range(last + 1, size)))
    vectors.close()
    script = (
        "import sys, resource\n"
        "from onhand.store.mmap_vectors import MappedVectors\n"
        "faults = lambda: (lambda u: u.ru_minflt + u.ru_majflt)(resource.getrusage(resource.RUSAGE_SELF))\n"
        "before = faults()\n"
        "vectors = MappedVectors(sys.argv[1], 256, 't')\n"
        "print(len(vectors), faults() - before)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "v")], capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(answer[0]) == size
    assert int(answer[1]) < 1000  # pages; the file has ten thousand


def test_one_process_sees_what_another_added(tmp_path: Path) -> None:
    one, other = filled(tmp_path / "v"), opened(tmp_path / "v")
    one.catch_up(upto(150))
    other.catch_up(upto(150))
    assert right(other, 150)
    assert one.nearest(row(149), limit=1) == other.nearest(row(149), limit=1)


@pytest.mark.parametrize("token", ["another", ""])
def test_a_copy_of_another_table_is_not_searched_but_made_again(tmp_path: Path, token: str) -> None:
    filled(tmp_path / "v")
    other = opened(tmp_path / "v", token)
    assert len(other) == 0
    other.catch_up(upto(20))
    assert right(other, 20)
    assert len(list((tmp_path / "v").glob("*.rows"))) == 1


def test_a_copy_of_another_dimension_is_replaced(tmp_path: Path) -> None:
    filled(tmp_path / "v")
    narrow = MappedVectors(tmp_path / "v", 2, "t")
    narrow.catch_up(lambda last, _copied: [(1, array("f", [1.0, 0.0]).tobytes())])
    assert narrow.nearest(array("f", [1.0, 0.0])) == [(1, 1.0)]


def test_a_reader_of_an_older_generation_is_not_disturbed(tmp_path: Path) -> None:
    older = filled(tmp_path / "v")
    opened(tmp_path / "v", "newer").catch_up(upto(10))
    assert right(older, 100)


def delete_everything(path: Path) -> None:
    shutil.rmtree(path)


def delete_one(kind: str) -> Callable[[Path], None]:
    return lambda path: file_of(path, kind).unlink()


def cut(kind: str, size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(file_of(path, kind), size)


def spoil_current(path: Path) -> None:
    (path / "current").write_bytes(b'{"format": 1, "name": ')


def wrong_current(path: Path) -> None:
    (path / "current").write_text('["../../elsewhere"]', encoding="ascii")


def last_row_flipped(path: Path) -> None:
    file = file_of(path, "rows")
    data = bytearray(file.read_bytes())
    data[-5] ^= 64
    file.write_bytes(data)


@requirement("search.vectors-on-disk")
@pytest.mark.parametrize(
    "spoil",
    [
        delete_everything,
        *(delete_one(kind) for kind in ("rows", "sums", "docnums", "codes", "code_sums")),
        *(cut(kind, size) for kind in ("rows", "sums", "docnums") for size in (0, 1, 17)),
        cut("rows", 99 * ROW),
        cut("docnums", 50 * 8),
        cut("docnums", 50 * 8 + 3),
        spoil_current,
        wrong_current,
        last_row_flipped,
    ],
)
def test_missing_truncated_or_damaged_files_are_replaced(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    filled(tmp_path / "v").close()
    spoil(tmp_path / "v")
    vectors = opened(tmp_path / "v")
    vectors.catch_up(upto(100))
    assert right(vectors, 100)
    assert vectors.check() == []
    assert vectors.note is None


def test_deleting_the_files_under_an_open_copy_does_no_harm(tmp_path: Path) -> None:
    vectors = filled(tmp_path / "v")
    shutil.rmtree(tmp_path / "v")
    assert right(vectors, 100)
    vectors.catch_up(upto(120))
    assert right(vectors, 120)
    assert right(opened(tmp_path / "v"), 120)


@pytest.mark.parametrize("kind", ["rows", "sums", "docnums"])
def test_a_full_check_finds_any_flipped_bit(tmp_path: Path, kind: str) -> None:
    filled(tmp_path / "v").close()
    file = file_of(tmp_path / "v", kind)
    whole = file.read_bytes()
    chance = random.Random(3)
    for _ in range(50):
        data = bytearray(whole)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
        vectors = opened(tmp_path / "v")
        assert vectors.check() or len(vectors) == 0  # what is wrong at the end is noticed at once


def test_a_damaged_vector_is_never_returned(tmp_path: Path) -> None:
    filled(tmp_path / "v").close()
    file = file_of(tmp_path / "v", "rows")
    data = bytearray(file.read_bytes())
    data[40 * ROW : 41 * ROW] = row(7).tobytes()
    file.write_bytes(data)
    vectors = opened(tmp_path / "v")
    with pytest.raises(StoreError, match="Search again"):
        vectors.nearest(row(7))
    vectors.catch_up(upto(100))
    assert right(vectors, 100)
    assert right(opened(tmp_path / "v"), 100)


def test_bytes_that_a_killed_writer_left_behind_are_overwritten(tmp_path: Path) -> None:
    filled(tmp_path / "v").close()
    for kind, torn in (("rows", b"\1" * 1000), ("sums", b"\2" * 99), ("docnums", b"\3" * 5), ("codes", b"\4" * 77)):
        with file_of(tmp_path / "v", kind).open("ab") as file:
            file.write(torn)
    vectors = opened(tmp_path / "v")
    assert right(vectors, 100)
    vectors.catch_up(upto(300))
    assert right(vectors, 300)
    assert right(opened(tmp_path / "v"), 300)
    assert vectors.check() == []


def keep_writing(path: str, size: int, step: int) -> None:
    vectors = opened(Path(path))
    for end in range(step, size + step, step):
        vectors.catch_up(upto(min(end, size)))
        assert vectors.nearest(row(0), limit=1)[0][0] == 0


def test_many_processes_write_and_read_at_once(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=keep_writing, args=(str(tmp_path / "v"), 400, step)) for step in (1, 3, 7, 50)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(100)
    assert [writer.exitcode for writer in writers] == [0] * len(writers)
    vectors = opened(tmp_path / "v")
    assert right(vectors, 400)
    assert vectors.check() == []


KILLED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from onhand.store import mmap_vectors
from test_mmap_vectors import filled

written, stop = 0, int(sys.argv[2])
real = os.open

def dies(*arguments, **options):
    global written
    written += 1
    if written == stop:
        os.kill(os.getpid(), 9)
    return real(*arguments, **options)

mmap_vectors.BATCH_BYTES = 20 * 64
os.open = dies
filled(Path(sys.argv[1]), 100)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
@pytest.mark.parametrize("stop", range(1, 23, 3))
def test_a_writer_killed_before_any_of_its_writes_leaves_files_that_are_right(tmp_path: Path, stop: int) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "v"), str(stop), str(Path(__file__).parent)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    vectors = opened(tmp_path / "v")
    assert vectors.check() == []
    vectors.catch_up(upto(100))
    assert right(vectors, 100)
    assert vectors.check() == []


def test_where_nothing_can_be_written_vectors_are_kept_in_memory_and_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "v").write_text("not a directory", encoding="ascii")
    vectors = opened(tmp_path / "v")
    vectors.catch_up(upto(100))
    assert right(vectors, 100)
    assert "kept in memory" in str(vectors.note)
    for size in range(100, 160, 7):
        vectors.catch_up(upto(size))
        assert right(vectors, size)


def full_disk(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Let every write to files of a kind fail as on a full disk, from now on."""
    real = os.open

    def refuse(path: str, *arguments: int) -> int:
        if str(path).endswith(f".{kind}"):
            raise OSError(28, "No space left on device")
        return real(path, *arguments)

    monkeypatch.setattr("os.open", refuse)


@pytest.mark.parametrize("kind", ["rows", "sums", "docnums"])
def test_on_a_full_disk_files_and_memory_are_searched_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    vectors = filled(tmp_path / "v")
    with monkeypatch.context() as patch:
        full_disk(patch, kind)
        vectors.catch_up(upto(150))
    assert "No space left" in str(vectors.note)
    assert right(vectors, 150)
    assert vectors.nearest(row(3), allowed=[3, 120, 149], limit=3)[0][0] == 3
    assert right(opened(tmp_path / "v"), 100)
    other = opened(tmp_path / "v")
    other.catch_up(upto(140))
    vectors.catch_up(upto(155))
    assert right(vectors, 155)
    assert vectors.check() == []


def test_what_memory_holds_is_forgotten_when_another_generation_comes_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = filled(tmp_path / "v")
    with monkeypatch.context() as patch:
        full_disk(patch, "rows")
        vectors.catch_up(upto(150))
    shutil.rmtree(tmp_path / "v")
    filled(tmp_path / "v", 60)
    vectors.catch_up(upto(150))
    assert right(vectors, 150)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user who may not write everywhere")
def test_a_read_only_directory_is_searched(tmp_path: Path) -> None:
    filled(tmp_path / "v").close()
    for file in (tmp_path / "v").iterdir():
        file.chmod(0o400)
    (tmp_path / "v").chmod(0o500)
    vectors = opened(tmp_path / "v")
    vectors.catch_up(upto(100))
    assert vectors.note is None
    vectors.catch_up(upto(130))
    assert right(vectors, 130)
    assert "kept in memory" in str(vectors.note)


def several(size: int) -> Callable[[int, int], Iterator[tuple[int, bytes]]]:
    """Rows of three vectors each, as the database would give them."""

    def rows_after(last: int, copied: int) -> Iterator[tuple[int, bytes]]:
        for docnum in range(last if last >= 0 and copied < 3 else last + 1, size):
            yield docnum, b"".join(row(3 * docnum + number).tobytes() for number in range(3))

    return rows_after


@requirement("search.vectors-on-disk", "search.passages")
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_document_that_was_copied_in_part_is_completed(tmp_path: Path, lost: int) -> None:
    vectors = opened(tmp_path / "v")
    vectors.catch_up(several(20))
    assert len(vectors) == 60
    vectors.close()
    docnums = file_of(tmp_path / "v", "docnums")
    os.truncate(docnums, docnums.stat().st_size - 8 * lost)  # as if the writer had been killed there
    again = opened(tmp_path / "v")
    assert len(again) == 60 - lost
    again.catch_up(several(25))
    assert (len(again), again.check()) == (75, [])
    for number in range(75):
        assert again.nearest(row(number), limit=1)[0][0] == number // 3
