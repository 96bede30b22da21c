"""What is opened, what is refused, and what is left untouched?"""

import gc
import os
import random
import sqlite3
import warnings
from pathlib import Path

import pytest

from onhand.document import Document
from onhand.errors import InputError, StoreError
from onhand.store import sqlite_file
from onhand.store.sqlite import SqliteStore
from onhand.store.store import Entry
from requirements import requirement
from stores import entries, small_segments, vector


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


def filled(path: Path, count: int = 40) -> list[str]:
    """A file of documents that was closed; their texts."""
    texts = [f"words of {number} " + "and more " * (number * 13 % 200) for number in range(count)]
    store = SqliteStore(path)
    with small_segments(tail=8):
        store.upsert(entries([Document(f"d{number}", text=text) for number, text in enumerate(texts)]))
    store.close()
    return texts


@requirement("store.sqlite-by-default")
def test_a_store_is_one_file_that_is_made_with_its_directory_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "dir" / "index.db"
    texts = filled(path)
    assert [file.name for file in path.parent.iterdir()] == ["index.db"]
    store = SqliteStore(path)
    assert [store.get(f"d{number}") for number in range(40)] == [
        Document(f"d{number}", text=text) for number, text in enumerate(texts)
    ]
    assert len(store.keyword("words", limit=100)) == 40
    store.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_the_owner_can_read_the_files_of_a_store(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    umask = os.umask(0)
    try:
        store = SqliteStore(path)
        store.upsert([Entry(Document("a", text="words"), vector=vector(1))])
        store.nearest(vector(1))
        files = [file for file in tmp_path.rglob("*") if file.is_file() and file.name != "lock"]
        assert {"index.db", "index.db-wal", "index.db-shm", "current"} <= {file.name for file in files}
        assert {file.name: file.stat().st_mode & 0o777 for file in files} == dict.fromkeys(
            (f.name for f in files), 0o600
        )
        store.close()
        path.chmod(0o640)  # the user's own choice stays, for the files beside it too
        store = SqliteStore(path)
        store.upsert([Entry(Document("b", text="words"))])
        assert {(tmp_path / f"index.db{end}").stat().st_mode & 0o777 for end in ("", "-wal", "-shm")} == {0o640}
        store.close()
    finally:
        os.umask(umask)


def test_a_closed_store_says_so(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    store.close()
    for call in (store.count, lambda: store.get("a"), lambda: store.upsert([]), store.check):
        with pytest.raises(StoreError, match="Open it again"):
            call()


def test_a_dropped_store_closes_its_file_without_a_warning(path: Path) -> None:
    store = SqliteStore(path)
    store.upsert(entries([Document("a", "t", "words")]))
    assert Path(f"{path}-wal").exists()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        del store
        gc.collect()
    assert not [one for one in warned if issubclass(one.category, ResourceWarning) and "database" in str(one.message)]
    assert not Path(f"{path}-wal").exists()


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    filled(path)
    assert SqliteStore(path).count() == 40


@requirement("store.bad-disk")
@pytest.mark.parametrize("content", [b"x", b"hello\n" * 1000, b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_not_a_database_is_refused_and_not_changed(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"index\.db"):
        SqliteStore(path)
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == ["index.db"]


@requirement("store.bad-disk")
def test_a_directory_a_pipe_and_a_device_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(StoreError, match="not a file"):
            SqliteStore(odd)


@pytest.mark.parametrize("name", ["a\0b", "file.txt/index.db"])
def test_an_invalid_path_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file.txt").write_text("text")
    with pytest.raises(StoreError):
        SqliteStore(f"{tmp_path}/{name}")


@pytest.mark.parametrize("name", ["a b.db", "ä%20?#.db", "-x.db", "file:x.db", "x.db?mode=memory"])
def test_any_name_of_a_file_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    filled(tmp_path / name, 3)
    assert os.listdir(tmp_path) == [name]


@requirement("store.migrations")
def test_a_database_of_another_program_is_refused_and_left_as_it_is(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE documents (id, text)")
    connection.execute("INSERT INTO documents VALUES (1, 'mine')")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["index.db"]


@requirement("store.migrations")
@pytest.mark.parametrize(("version", "said"), [(999, "Upgrade onhand"), (-5, "damaged"), (3, "unreleased onhand")])
def test_a_file_of_another_version_is_refused_and_left_as_it_is(path: Path, version: int, said: str) -> None:
    filled(path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=said):
        SqliteStore(path)
    assert path.read_bytes() == before


@requirement("store.migrations")
def test_an_older_file_is_migrated_in_one_step_or_not_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    next_version = sqlite_file.VERSION + 1
    monkeypatch.setattr(sqlite_file, "VERSION", next_version)
    monkeypatch.setitem(sqlite_file.MIGRATIONS, next_version, ("CREATE TABLE extra (x)", "CREATE TABLE extra (x)"))
    before = path.read_bytes()
    with pytest.raises(StoreError, match="already exists"):
        SqliteStore(path)
    assert path.read_bytes() == before
    monkeypatch.setitem(sqlite_file.MIGRATIONS, next_version, ("CREATE TABLE extra (x)",))
    first, second = SqliteStore(path), SqliteStore(path)
    assert first.count() == second.count() == 40
    with first._reading() as connection:
        assert connection.execute("SELECT count(*) FROM extra").fetchone() == (0,)
        assert connection.execute("PRAGMA user_version").fetchone() == (next_version,)
    first.close()
    second.close()


@requirement("store.bad-disk")
def test_a_file_that_was_cut_off_anywhere_gives_right_texts_or_an_error(path: Path) -> None:
    texts = filled(path)
    whole = path.read_bytes()
    chance = random.Random(1)
    outcomes = set()
    for size in [0, 1, 99, 100, 512, 4095, 4096, 4097, *(chance.randrange(len(whole)) for _ in range(40))]:
        for beside in path.parent.iterdir():
            beside.unlink()
        path.write_bytes(whole[:size])
        try:
            store = SqliteStore(path)
        except StoreError:
            outcomes.add("refused")
            continue
        for number, text in enumerate(texts if size else []):
            try:
                assert store.get(f"d{number}") == Document(f"d{number}", text=text)
            except StoreError:
                outcomes.add("error")
        if not store.check():  # nothing was cut off but what nobody used
            assert len(store.keyword("words", limit=100)) == (len(texts) if size else 0)
        store.close()
    assert {"refused", "error"} & outcomes


@requirement("store.bad-disk")
@pytest.mark.parametrize("ending", ["-wal", "-shm"])
@pytest.mark.parametrize("fault", ["deleted", "garbage", "cut"])
def test_what_lies_beside_a_file_that_was_not_closed_may_be_lost_or_garbage(
    path: Path, ending: str, fault: str
) -> None:
    texts = filled(path)
    if (child := os.fork()) == 0:
        store = SqliteStore(path)
        store.upsert(entries([Document("late", text="words of late")]))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    beside = Path(f"{path}{ending}")
    if fault == "deleted":
        beside.unlink()
    else:
        data = beside.read_bytes()
        beside.write_bytes(random.Random(2).randbytes(len(data)) if fault == "garbage" else data[: len(data) // 2])
    store = SqliteStore(path)
    assert [store.get(f"d{number}") for number in range(40)] == [
        Document(f"d{number}", text=text) for number, text in enumerate(texts)
    ]
    assert store.check() == []
    if ending == "-shm":
        assert store.get("late") is not None
    store.upsert(entries([Document("later", text="words")]))
    assert store.get("later") is not None
    store.close()


@requirement("store.bad-disk")
@pytest.mark.parametrize("more", [1, 3])
def test_an_older_file_that_was_put_back_has_its_own_vectors(path: Path, more: int) -> None:
    store = SqliteStore(path)
    store.upsert([Entry(Document("old"), vector(1, 0))])
    assert len(store.nearest(vector(1, 0))) == 1
    store.close()
    older = path.read_bytes()
    store = SqliteStore(path)
    store.upsert([Entry(Document("lost"), vector(0, 1)), Entry(Document("lost too"), vector(0, 1))])
    assert store.nearest(vector(0, 1))[0].id == "lost"
    store.close()
    path.write_bytes(older)
    store = SqliteStore(path)
    assert [match.id for match in store.nearest(vector(0, 1))] == ["old"]
    store.upsert([Entry(Document(f"new{number}"), vector(0, -1)) for number in range(more)])
    found = store.nearest(vector(0, -1))
    assert [match.id for match in found] == [*(f"new{number}" for number in range(more)), "old"]
    assert found[0].score == pytest.approx(1)
    assert store.check() == []
    store.close()


def test_a_lone_surrogate_is_refused(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(InputError, match="lone surrogate"):
        store.get("\ud800")
    store.close()


@requirement("search.passages")
def test_long_documents_of_an_older_file_wait_to_be_embedded_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = {version: steps for version, steps in sqlite_file.MIGRATIONS.items() if version < 5}
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file, "MIGRATIONS", older)
        patch.setattr(sqlite_file, "VERSION", 4)
        connection, _ = sqlite_file.open_file(str(path))
    documents = [Document("long", text="word " * 400), Document("short", text="word"), Document("bare")]
    new = SqliteStore(path.with_name("new.db"))
    new.upsert([Entry(document, vector(1, 0)) for document in documents[:2]] + [Entry(documents[2])], {"a": "b"})
    new._connect().execute("ATTACH ? AS older", (str(path),))
    for table in ("facts", "segments", "postings"):
        new._connect().execute(f"INSERT INTO older.{table} SELECT * FROM {table}")
    columns = "docnum, id, title, author, tags, scope, created_us, kind, source_path, metadata, hash"
    new._connect().execute(
        f"INSERT INTO older.documents ({columns}, has_vector, text) SELECT {columns}, passages, text FROM documents"
    )
    new._connect().execute("INSERT INTO older.vectors SELECT docnum, checksum, data FROM vectors")
    token = connection.execute("SELECT value FROM facts WHERE name = 'store.vectors'").fetchone()
    connection.close()
    new.close()
    store = SqliteStore(path)
    assert (store.vectors(), store.without_vector(5)) == (1, ["bare", "long"])
    assert store.get("long") == documents[0]
    assert [match.id for match in store.nearest(vector(1, 0))] == ["short"]
    assert store._connect().execute("SELECT value FROM facts WHERE name = 'store.vectors'").fetchone() != token
    assert store.check() == []
    store.close()
