"""Does the check find every disagreement, and does its advice repair it?"""

import re
from array import array
from collections.abc import Iterator

import pytest

from onhand.document import Document, Filter
from onhand.errors import StoreError
from onhand.store.integrity import MAX_REPORTED
from onhand.store.sqlite import SqliteStore
from onhand.store.store import Entry
from requirements import requirement
from stores import directory, small_segments

pytestmark = requirement("store.integrity-check")


def entry(number: int) -> Entry:
    document = Document(f"d{number:02}", f"title {number}", f"words of {number}", "Ann", ("tag",), "scope")
    return Entry(document, array("f", [1.0, 0.0]))


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with small_segments(tail=8, fan=4), directory() as place:
        store = SqliteStore(place / "index.db")
        for number in range(0, 30, 3):
            store.upsert([entry(number), entry(number + 1), entry(number + 2)])
        store.delete(["d05", "d06"])
        yield store
        store.close()


def damage(store: SqliteStore, statement: str) -> None:
    with store._writing() as connection:
        assert connection.execute(statement).rowcount > 0


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM postings WHERE term = 'words'", "does not match its documents"),
        ("UPDATE postings SET data = data || 'text' WHERE kind = 0", "cannot be read"),
        ("UPDATE postings SET data = CAST(data || x'01' AS BLOB) WHERE kind = 0", "cannot be read"),
        ("UPDATE postings SET data = x'' WHERE kind = 103", "cannot be read"),
        ("UPDATE postings SET size = size + 1 WHERE kind = 101", "cannot be read|does not match its documents"),
        ("UPDATE postings SET term = 'wordy' WHERE term = 'words'", "does not match its documents"),
        (
            "UPDATE postings SET data = CAST(substr(data, 1, length(data) - 1) || x'09' AS BLOB) WHERE kind = 0",
            "does not match its documents",
        ),
        ("DELETE FROM postings WHERE kind = 100", "does not match its documents"),
        ("INSERT INTO postings VALUES (999999, 999, 0, 'x', 0, x'')", "no segment"),
        ("UPDATE segments SET documents = documents + 1", "does not match its documents"),
        ("UPDATE segments SET lengths = zeroblob(length(lengths))", "does not match its documents"),
        ("UPDATE segments SET created_us = zeroblob(length(created_us))", "does not match its documents"),
        ("UPDATE segments SET deleted = x''", "does not match its documents"),
        ("UPDATE segments SET last_docnum = last_docnum + 100000", "cannot be read"),
        ("UPDATE segments SET lengths = x'01'", "cannot be read|does not match its documents"),
        ("DELETE FROM segments WHERE number = (SELECT min(number) FROM segments)", "cannot be found|no segment"),
    ],
)
def test_wrong_derived_data_is_found_and_rebuilt(store: SqliteStore, statement: str, said: str) -> None:
    before = store.keyword("words", limit=100), store.scan(Filter(("ann",), ("tag",)), limit=100)
    assert len(before[0]) == len(before[1]) == 28
    assert store.check() == []
    damage(store, statement)
    damages = store.check()
    assert damages
    assert all(said_of.advice for said_of in damages)
    assert any(re.search(said, found.what) and "--rebuild" in found.advice for found in damages)
    store.rebuild()
    assert store.check() == []
    assert (store.keyword("words", limit=100), store.scan(Filter(("ann",), ("tag",)), limit=100)) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE documents SET text = x'ff00' WHERE id = 'd11'",
        "UPDATE documents SET title = 'other' WHERE id = 'd11'",
        "UPDATE documents SET author = 'other' WHERE id = 'd11'",
        "UPDATE documents SET tags = 'no json' WHERE id = 'd11'",
        "UPDATE documents SET tags = '5' WHERE id = 'd11'",
        "UPDATE documents SET metadata = '{' WHERE id = 'd11'",
        "UPDATE documents SET created_us = 9000000000000000000 WHERE id = 'd11'",
        "UPDATE documents SET text = 5 WHERE id = 'd11'",
        "UPDATE documents SET hash = 'other' WHERE id = 'd11'",
    ],
)
def test_a_document_that_is_not_what_was_written_is_named_and_never_given_out(
    store: SqliteStore, statement: str
) -> None:
    damage(store, statement)
    with pytest.raises(StoreError):
        store.get("d11")
    assert any("'d11'" in found.what and "delete" in found.advice for found in store.check())
    assert store.delete(["d11"]) == 1
    store.upsert([entry(11)])
    assert store.get("d11") == entry(11).document
    assert store.check() == []


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM vectors WHERE docnum = 12", "lost its vector"),
        ("UPDATE vectors SET data = x'0000803f0000803f' WHERE docnum = 12", "is not what was written"),
        ("UPDATE vectors SET checksum = checksum + 1 WHERE docnum = 12", "is not what was written"),
        ("UPDATE documents SET passages = 0 WHERE docnum = 12", "has a stray vector"),
        ("INSERT INTO vectors VALUES (5000, 0, NULL, x'')", "have no document"),
    ],
)
def test_a_vector_that_is_not_what_was_written_is_found(store: SqliteStore, statement: str, said: str) -> None:
    damage(store, statement)
    assert any(said in found.what for found in store.check())


def test_of_many_damages_the_first_are_named_and_the_others_counted(store: SqliteStore) -> None:
    damage(store, "UPDATE documents SET title = 'other'")
    damages = [found.what for found in store.check() if "document" in found.what or "more" in found.what]
    assert sum("is not what was written" in what for what in damages) == MAX_REPORTED
    assert f"and {28 - MAX_REPORTED} more like it" in damages
