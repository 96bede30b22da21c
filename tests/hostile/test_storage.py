"""Whatever becomes of a file of documents, answers are right or errors in words, and what was acknowledged is kept."""

import os
import re
import shutil
import sqlite3
import sys
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from benchmarks import kills, writers

import disk
import power
from e2e import test_durability as of_durability
from e2e import test_storage_faults as of_faults
from e2e.test_power import recorded
from faults import run_python
from hostile.cases import Case, Phrases, each, not_understood, quantity
from onhand import Document, open_index
from onhand.errors import OnhandError
from requirements import requirement

MOST_TRIALS = 25
phrases = Phrases()


@requirement("store.bad-disk")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", each("storage"))
def test_a_store_survives_or_says_what_is_wrong(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if case.expected != "survive":
        not_understood(case, "what is expected of a store")
    phrases.act(case, tmp_path, monkeypatch)


def document(number: int) -> Document:
    return Document(
        f"d{number}", f"Title {number}", f"written by {number} " + "words that fill pages " * (number * 7 % 90)
    )


def filled(path: Path, many: int = 60) -> Path:
    with open_index(path, None) as index:
        for start in range(0, many, 10):
            index.put([document(number) for number in range(start, start + 10)])
    return path


def is_right_or_told(path: Path, many: int = 60) -> None:
    """Every text that is given out is the one that was written; what is missing is said or found by the check."""
    try:
        with open_index(path, None) as index:
            found = {hit.document_id for hit in index.keyword("written", limit=50).hits}
            for number in range(many):
                try:
                    assert index.get(f"d{number}").text == document(number).text
                except OnhandError as error:
                    assert str(error)
            assert len(found) == min(many, 50) or index.check()
            index.put([document(many)])
            assert index.get(f"d{many}").text == document(many).text
    except OnhandError as error:
        assert str(error)


def damaged(directory: Path, damage: Callable[[Path], object], trials: int = 1) -> None:
    """Do it to a copy, so many times."""
    for path in copies(filled(directory / "whole.db"), directory, trials):
        damage(path)
        is_right_or_told(path)


def copies(whole: Path, directory: Path, many: int) -> Iterator[Path]:
    """Copies of a store and of the files beside it."""
    for number in range(many):
        place = directory / f"damaged{number}"
        place.mkdir()
        for suffix in ("", "-wal", "-shm"):
            if Path(f"{whole}{suffix}").exists():
                shutil.copy(f"{whole}{suffix}", place / f"documents.db{suffix}")
        yield place / "documents.db"


def damaged_beside(directory: Path, suffix: str, damage: Callable[[Path], object], trials: int = 1) -> None:
    """Do it to the file beside a store that is in use; a log that is lost may take the newest documents with it."""
    whole = filled(directory / "whole.db", 30)
    with open_index(whole, None) as index:
        index.put([document(number) for number in range(30, 60)])
        made = list(copies(whole, directory, trials))
    for path in made:
        assert Path(f"{path}-{suffix}").exists() or suffix == "journal"
        damage(Path(f"{path}-{suffix}"))
        is_consistent_or_told(path)


def is_consistent_or_told(path: Path, many: int = 60) -> None:
    """What can be found can be read, and is what was written; no other document is there."""
    try:
        with open_index(path, None) as index:
            assert index.check() == []
            hits = index.keyword("written", limit=100).hits
            assert len(hits) in (0, 30, 60)
            for hit in hits:
                number = int(hit.document_id[1:])
                assert number < many
                assert index.get(hit.document_id).text == document(number).text
    except OnhandError as error:
        assert str(error)


@phrases.mean(
    r"SIGKILL|signal=KILL|kill|VACUUM|checkpoint|tmp \+ rename|power|crash|\b(?:torn|dropped|reordered)\b|sectors?\b"
)
def killed(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    """The power fails at any moment, which is a kill after which not even what was written is certain."""
    kind = "cache" if re.search(r"cache|rename", case.words) else "documents"
    outcome = kills.run(2, len(case.words), directory)
    assert (outcome.lost, outcome.torn, outcome.damaged) == (0, 0, 0)
    random, log = Random(case.words), recorded(kind, directory)
    for mode in disk.MODES:
        for cut, left, acked in disk.states(log, random.sample(range(1, len(log)), 5), mode, random):
            left.write_to(directory / f"{mode}{cut}")
            assert power.lost(kind, directory / f"{mode}{cut}", len(acked)) == []


FAULTY = {"fsync": "fsync", "read": "read", "write": "write", "shm": "create", "rename": "rename", "open": "create"}
WORDED = {r"quota": "EDQUOT", r"stale": "ESTALE", r"read.?only file ?system": "EROFS", r"disk full|no space": "ENOSPC"}


@phrases.mean(r"short write|partial write|half .*written|returns half|EINTR|interrupted|signals|ulimit|file size limit")
def calls_are_cut_short(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    """A write that the system ends early: by a signal again and again, and by the limit on the size of a file."""
    code = """
        import signal, sys
        from resource import RLIMIT_FSIZE, setrlimit
        from hostile.test_storage import document
        from onhand import open_index
        from onhand.errors import StoreError
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        setrlimit(RLIMIT_FSIZE, (1_000_000, 1_000_000))
        with open_index(sys.argv[1], None) as index:
            for number in range(10_000):
                try:
                    index.put([document(number)])
                except StoreError as error:
                    print("refused", error)
                    break
                print(number)
        signal.setitimer(signal.ITIMER_REAL, 0)
        """
    path = directory / "documents.db"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    *acknowledged, refused = run_python(code, str(path), environ=environ).splitlines()
    assert "refused" in refused
    with open_index(path, None) as index:
        assert index.check() == []
        for number in map(int, acknowledged):
            assert index.get(f"d{number}").text == document(number).text


@phrases.mean(r"ENOLCK|no locks|cannot lock")
def no_locks(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    of_faults.test_an_index_on_a_failing_disk_says_what_is_wrong_when_it_is_opened(directory, "fcntl/flock", "ENOLCK")


@phrases.mean(r"lock(?:ed)? (?:is )?(?:held|by)|SIGSTOP|stopped process|SQLITE_BUSY|busy")
def another_has_the_lock(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    """Readers do not wait for a writer that never ends."""
    path = filled(directory / "documents.db")
    holder = sqlite3.connect(path)
    holder.execute("BEGIN IMMEDIATE")
    try:
        with open_index(path, None) as index:
            assert index.get("d1").text == document(1).text
            assert len(index.keyword("written", limit=50).hits) == 50
    finally:
        holder.rollback()
        holder.close()
    is_right_or_told(path)


@phrases.mean(r"\b(EIO|ENOSPC|EDQUOT|EROFS|ENOMEM|EFBIG|ESTALE|EACCES|EPERM)\b|strace$|before open|" + "|".join(WORDED))
def the_disk_fails(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    """From some call on the disk fails: the writer is told, and what it was told before is kept."""
    error = found[1] or next((name for words, name in WORDED.items() if re.search(words, case.words)), "ENOSPC")
    verb = next((verb for word, verb in FAULTY.items() if word in case.words.lower()), "write")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(power.__file__).parent), *sys.path])}
    for first in (1, 2, 5, 20):
        command = [sys.executable, str(Path(power.__file__)), "documents", "10"]
        recorded_now = disk.record(command, {verb: (first, error)}, env=environ)
        if recorded_now is None:
            pytest.skip("this machine has no /dev/fuse, or does not let us mount it")
        log, done = recorded_now
        acked = [operation for operation in log if operation.verb == "ack"]
        assert done.returncode == 0 or "StoreError" in done.stderr or "OSError" in done.stderr, done.stderr
        for mode in disk.MODES:
            for _, left, said in disk.states(log, [len(log)], mode, Random(first)):
                left.write_to(directory / f"{first}{mode}")
                assert power.lost("documents", directory / f"{first}{mode}", len(said)) == []
        assert len(acked) <= 10


@phrases.mean(r"malloc|libc/mm|memory fails|OOM")
def no_memory(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    """A call that cannot get memory leaves nothing of it behind."""
    of_durability.test_a_call_that_fails_halfway_leaves_nothing_and_the_store_goes_on(directory)


@phrases.mean(
    r"(?=.*(?:flip|bit|garbage|checksum|corrupt|cut|truncat|half|random)).*(?<!\w)-?(wal|shm|journal)\b(?! of)"
)
def a_file_beside_is_damaged(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    """A log that was cut or changed: what is left of it counts up to the damage, and nothing else."""
    random, is_cut = Random(case.words), re.search(r"cut|truncat|half", case.words)

    def change(path: Path) -> None:
        content = bytearray(path.read_bytes() if path.exists() else bytes(512))
        at = random.randrange(len(content))
        if is_cut:
            content = content[:at]
        else:
            content[at] ^= 1 << random.randrange(8)
        path.write_bytes(content)

    damaged_beside(directory, found[1].lower(), change, MOST_TRIALS)


@phrases.mean(r"(\d+) random bits?|bit ?flip|flipp|bit rot|garbage|zero(?:ed)? page|random bytes")
def flipped(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    random, of_a_page = Random(case.words), "page" in found[0]

    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        at = random.randrange(len(content))
        if of_a_page:
            content[at // 4096 * 4096 : at // 4096 * 4096 + 4096] = bytes(4096)
        else:
            content[at] ^= 1 << random.randrange(8)
        path.write_bytes(content)

    trials = re.search(r"([\d,]+) trials", case.words)
    damaged(directory, flip, min(quantity(trials[1]) if trials else MOST_TRIALS, MOST_TRIALS))


@phrases.mean(r"cut at|truncat|shorten|half the file")
def truncated(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    sizes = iter(Random(case.words).sample(range(1, 400), MOST_TRIALS))

    def cut(path: Path) -> None:
        pages = path.stat().st_size // 4096  # a file without any is a new one
        os.truncate(path, max(1, pages * next(sizes) // 400) * 4096)

    damaged(directory, cut, MOST_TRIALS)


@phrases.mean(r"(?:rm|delet\w*|remov\w*|miss\w*) \S*-(shm|wal|journal)")
def a_file_beside_is_gone(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    damaged_beside(directory, found[1].lower(), lambda path: path.unlink(missing_ok=True))


@phrases.mean(r"(wal|shm|journal) of another|swapped -(wal|shm|journal)|garbage in -(wal|shm)")
def a_file_of_another(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    other = directory / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("PRAGMA journal_mode=wal")
    connection.execute("CREATE TABLE theirs (a)")
    connection.executemany("INSERT INTO theirs VALUES (?)", [(text,) for text in ["x" * 5000] * 20])
    connection.commit()
    suffix = next(filter(None, found.groups()))
    damaged(directory, lambda path: shutil.copy(f"{other}-{suffix}", f"{path}-{suffix}"))
    connection.close()


@phrases.mean(r"long reader|reader blocks|WAL grows")
def a_long_reader(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    of_durability.test_a_reader_stays_in_its_moment_while_a_writer_commits(directory)


@phrases.mean(r"([\d,]+) writers|DEFERRED|processes|concurrent")
def many_writers(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    outcome = writers.run(directory / "shared.db", writers=4, writes=8, readers=2)
    assert (outcome.writes, outcome.lost, outcome.errors, outcome.torn, outcome.damages) == (32, 0, [], 0, 0)


@phrases.mean(r"fork|child|parent")
def forked(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    of_durability.test_parent_and_child_go_on_with_an_open_store_after_a_fork(directory)


@phrases.mean(r"threads?")
def threads(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    of_durability.test_one_store_serves_many_threads(directory)


class Of:
    """An embedder of so many dimensions."""

    prompt_format, min_score = "plain", None

    def __init__(self, name: str, dimension: int) -> None:
        self.name, self.dimension = name, dimension

    def embed(self, texts: Any, kind: str = "document") -> Any:
        return [array("f", [1.0] + [0.0] * (self.dimension - 1)) for _ in texts]


@phrases.mean(r"(\d+) ?-> ?(\d+)|half A half B|mixed models|dim\w* change|other model")
def other_vectors(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    """Vectors of one embedder are never compared with those of another."""
    before, after = (int(found[1]), int(found[2])) if found[1] else (64, 64)
    path = directory / "documents.db"
    with open_index(path, Of("before", before)) as index:
        index.put([document(1)])
    with open_index(path, Of("after", after)) as index:
        try:
            index.put([document(2)])
            hits = index.semantic("words").hits
            assert "d1" not in [hit.document_id for hit in hits]
        except OnhandError as error:
            assert str(error)
        assert index.keyword("written").hits


TABLES = ("documents", "facts", "postings", "segments", "vectors")


@phrases.mean(r"\bNaN\b|zero vector|vector of zeros|\binf\b")
def a_vector_that_is_none(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    """A stored vector that is no direction is an error, or is found by nothing."""
    path = directory / "documents.db"
    with open_index(path, Of("before", 4)) as index:
        index.put([document(1), document(2)])
    connection = sqlite3.connect(path)
    number = 0.0 if "zero" in case.words else float("inf" if "inf" in case.words else "nan")
    data = array("f", [number] * 4).tobytes()
    connection.execute("UPDATE vectors SET data = ? WHERE docnum = (SELECT min(docnum) FROM vectors)", (data,))
    connection.commit()
    connection.close()
    for beside in directory.glob("documents.db?*"):
        beside.unlink()  # a copy of the vectors
    try:
        with open_index(path, Of("before", 4)) as index:
            scores = [hit.score for hit in index.semantic("words").hits]
            assert all(0 <= score <= 1.001 for score in scores)
    except OnhandError as error:
        assert str(error)


@phrases.mean(
    r"row .*not in|row without|out of sync|duplicat\w* (?:row|id)|(?:two|same) rows?\b|row duplicated|forced|orphan"
)
def derived_data_is_wrong(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    """A row that is missing on one side of the file is an error, or is found by the check."""
    tables = iter(TABLES)

    def lose_a_row(path: Path) -> None:
        connection = sqlite3.connect(path)
        table = next(tables)
        key = connection.execute(f"PRAGMA table_info({table})").fetchone()[1]
        connection.execute(f"DELETE FROM {table} WHERE {key} = (SELECT min({key}) FROM {table})")
        connection.commit()
        connection.close()

    damaged(directory, lose_a_row, len(TABLES) - 1)


@phrases.mean(r"(?:user_version|version) (\d+)|future|older version")
def another_version(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    number = found[1] or "999"

    def set_version(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {number}")
        connection.commit()
        connection.close()

    damaged(directory, set_version)


@phrases.mean(r"faketime|clock|time")
def another_time(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    def move(path: Path) -> None:
        os.utime(path, (0, 0))

    damaged(directory, move)
    import time

    monkeypatch.setattr(time, "time", lambda: 10.0)
    is_right_or_told(filled(directory / "later.db"))


@phrases.mean(r"read-?only|chmod|permission|another user")
def closed(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    damaged(directory, lambda path: path.chmod(0o400))


@phrases.mean(r"page.?size")
def another_page_size(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    def change(path: Path) -> None:
        connection = sqlite3.connect(path)
        for statement in ("PRAGMA journal_mode = delete", "PRAGMA page_size = 8192", "VACUUM"):
            connection.execute(statement)
        connection.close()

    damaged(directory, change)


@phrases.mean(r"is a directory|mkdir \S+\.db|directory in the way|fifo|device")
def no_file(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    path = directory / "documents.db"
    os.mkfifo(path) if "fifo" in case.words else path.mkdir()
    with pytest.raises(OnhandError):
        open_index(path, None)


@phrases.mean(r"symlink|ln -s|hard ?link|\bln\b")
def linked(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    (directory / "link.db").symlink_to(filled(directory / "elsewhere.db"))
    is_right_or_told(directory / "link.db")


@phrases.mean(r"^0 bytes|\b0 bytes|empty (?:db|database|file)")
def an_empty_file(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    """It is a new store."""
    path = directory / "documents.db"
    path.write_bytes(b"")
    with open_index(path, None) as index:
        assert index.keyword("written").hits == ()
        index.put([document(1)])
    is_right_or_told(path, 1)


@phrases.mean(r"foreign|not a database|another program|text file")
def no_store(case: Case, found: Any, directory: Path, monkeypatch: Any) -> None:
    damaged(directory, lambda path: path.write_bytes(b"a text, and no database\n" * 300))
