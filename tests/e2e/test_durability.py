"""Is what was acknowledged still there after kills, among many writers, threads, forks and interrupts?"""

import os
import random
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from types import FrameType

import pytest
from benchmarks import flips, kills, writers

from onhand.document import Document
from onhand.errors import StoreError
from onhand.lexical.scoring import get_ranking
from onhand.store.sqlite import SqliteStore
from onhand.store.store import Entry
from requirements import requirement
from stores import directory, entries, small_segments

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills and forks are of POSIX")


def put(store: SqliteStore, *names: str) -> None:
    store.upsert(entries([Document(name, text=f"words of {name}") for name in names]))


def ids(store: SqliteStore) -> list[str]:
    return sorted(match.id for match in store.keyword("words", limit=100_000))


@requirement("store.acknowledged-is-kept")
def test_kills_at_any_moment_lose_no_acknowledged_write_and_leave_no_half_call(tmp_path: Path) -> None:
    outcome = kills.run(40, 11, tmp_path)
    assert outcome == kills.Outcome(40, outcome.acknowledged)
    assert outcome.acknowledged > 20  # whoever waited for a word got one


@requirement("store.many-processes")
def test_many_writers_queue_while_others_read_and_none_fails(tmp_path: Path) -> None:
    outcome = writers.run(tmp_path / "shared.db", writers=8, writes=25, readers=4)
    assert (outcome.writes, outcome.lost, outcome.errors, outcome.torn, outcome.damages) == (200, 0, [], 0, 0)
    assert outcome.reads > 0


@requirement("store.many-processes")
def test_many_processes_make_one_file_at_once(tmp_path: Path, environ: dict[str, str]) -> None:
    code = """
import sys
from onhand.document import Document
from onhand.store.store import Entry
from onhand.store.sqlite import SqliteStore
sys.stdin.read()
store = SqliteStore(sys.argv[1])
store.upsert([Entry(Document(sys.argv[2], text="words"))])
store.close()
"""
    for round in range(3):
        path = tmp_path / f"new{round}.db"
        command = [sys.executable, "-c", code, str(path)]
        started = [
            subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environ)
            for number in range(8)
        ]
        for process in started:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
        failures = [error for process in started if (error := process.communicate()[1])]
        assert failures == []
        store = SqliteStore(path)
        assert (store.count(), store.check()) == (8, [])
        store.close()


@requirement("store.many-processes")
def test_one_store_serves_many_threads(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "index.db")
    failures: list[Exception] = []

    def work(thread: int) -> None:
        try:
            for number in range(6):
                put(store, f"{thread}-{number}-a", f"{thread}-{number}-b")
                assert store.count() % 2 == 0
                assert len(ids(store)) % 2 == 0
                assert store.get(f"{thread}-{number}-a") is not None
            store.delete([f"{thread}-0-a", f"{thread}-0-b"])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    with small_segments(tail=20):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert store.count() == len(ids(store)) == 32 * 5 * 2
        assert store.check() == []
    store.close()


@requirement("store.many-processes")
def test_a_reader_stays_in_its_moment_while_a_writer_commits(tmp_path: Path) -> None:
    reader, writer = SqliteStore(tmp_path / "index.db"), SqliteStore(tmp_path / "index.db")
    put(writer, "a", "b")
    with reader._reading():
        assert ids(reader) == ["a", "b"]
        put(writer, "c")
        writer.delete(["a"])
        writer.rebuild()
        assert ids(reader) == ["a", "b"]
        assert (reader.count(), reader.scan(order_by="document_id")) == (2, ["a", "b"])
        assert reader.get("a") is not None
    assert ids(reader) == ["b", "c"]
    reader.close()
    writer.close()


def in_a_child(work: str, store: SqliteStore) -> None:
    """Run code after a fork, and fail where it fails."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            exec(work, {"store": store, **globals()})
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


@requirement("store.many-processes")
def test_parent_and_child_go_on_with_an_open_store_after_a_fork(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "index.db")
    put(store, "before")
    assert ids(store) == ["before"]
    in_a_child("assert ids(store) == ['before']; put(store, 'child'); assert ids(store) == ['before', 'child']", store)
    assert ids(store) == ["before", "child"]
    in_a_child("store.close()", store)
    put(store, "parent")
    in_a_child("put(store, *map(str, range(100))); store.delete(['child']); store.close()", store)
    assert len(ids(store)) == 102
    assert store.check() == []
    store.close()


@requirement("store.many-processes")
def test_a_child_can_be_forked_while_threads_read_and_write(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "index.db")
    stopped, failures = threading.Event(), []

    def work(name: str) -> None:
        number = 0
        try:
            while not stopped.is_set():
                put(store, f"{name}{number}")
                assert store.get(f"{name}{number}") is not None
                number += 1
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "xy"]
    for thread in threads:
        thread.start()
    for number in range(10):
        in_a_child(f"put(store, 'child{number}'); assert 'child{number}' in ids(store)", store)
    stopped.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert {f"child{number}" for number in range(10)} <= set(ids(store))
    assert store.check() == []
    store.close()


def interrupted(store: SqliteStore, calls: int) -> None:
    """Write in a process of its own, with an alarm at some moment of each call."""
    chance = random.Random(3)
    acknowledged: list[str] = []
    interrupts = 0

    is_armed = False

    def interrupt(*_: object) -> None:
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    for number in range(calls):
        names = [f"{number}-{part}" for part in range(3)]
        try:
            is_armed = True
            signal.setitimer(signal.ITIMER_REAL, 0.0001 + chance.random() * 0.008)
            put(store, *names)
            acknowledged += names
            store.keyword("words")
            is_armed = False
        except KeyboardInterrupt:
            interrupts += 1
        assert [name for name in names if store.get(name)] in ([], names)
    assert interrupts > calls / 10
    assert set(acknowledged) <= set(ids(store))
    assert store.check() == []


@requirement("store.acknowledged-is-kept")
def test_an_interrupt_at_any_moment_leaves_all_of_a_call_or_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "index.db")
    with small_segments(tail=6):
        in_a_child("interrupted(store, 150)", store)
        assert len(ids(store)) % 3 == 0
        assert store.check() == []
    store.close()


@requirement("store.acknowledged-is-kept")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # where a generator is thrown away
@pytest.mark.parametrize("work", ["store.keyword('words')", "store.scan(order_by='document_id')", "put(store, 'b')"])
def test_an_interrupt_where_any_function_begins_leaves_nothing_open(tmp_path: Path, work: str) -> None:
    store = SqliteStore(tmp_path / "index.db")
    put(store, "a")
    before, moment, is_over = sys.gettrace(), 0, False
    while not is_over:
        left = [None] * moment

        def interrupt(frame: FrameType, event: str, argument: object) -> None:
            if not left:  # noqa: B023  # it is not called later
                sys.settrace(None)
                raise KeyboardInterrupt
            left.pop()  # noqa: B023

        sys.settrace(interrupt)
        try:
            exec(work, {"store": store, "put": put})
        except KeyboardInterrupt:
            pass
        finally:
            is_over = sys.gettrace() is not None
            sys.settrace(before)
        assert ids(store) in (["a"], ["a", "b"])
        put(store, "a")  # as nobody else is writing
        moment += 1
    assert moment > 20
    assert store.check() == []
    store.close()


def test_a_call_that_fails_halfway_leaves_nothing_and_the_store_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "index.db")
    put(store, "a")
    bad = Document("c", text="words", metadata={"x": object()})
    with pytest.raises(TypeError):
        store.upsert([Entry(Document("b", text="words")), Entry(bad)])
    with pytest.raises(StoreError), store._writing() as connection:
        connection.execute("DELETE FROM documents")
        connection.execute("SELECT no_such_column FROM documents")
    assert ids(store) == ["a"]
    put(store, "b")
    assert ids(store) == ["a", "b"]
    assert store.check() == []
    store.close()


@requirement("store.bad-disk", "store.integrity-check")
def test_a_flipped_bit_is_found_or_an_error_and_never_another_text() -> None:
    with directory() as place:
        outcome = flips.run(200, place, seed=23)
    assert (outcome.unnoticed, outcome.wrong_texts, outcome.errors) == (0, 0, [])
    assert outcome.in_our_data > 80
    assert outcome.found >= outcome.in_our_data * 0.98  # the rest falls on what is dead already


def test_a_file_of_another_ranking_is_reindexed_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "index.db", get_ranking("seed"))
    put(store, "a", "b")
    assert [part.field for part in store.keyword("words")[0].contributions] == ["text"]
    store.close()
    store = SqliteStore(tmp_path / "index.db")
    assert ids(store) == ["a", "b"]
    assert store.check() == []
    store.close()
    before = (tmp_path / "index.db").read_bytes()
    SqliteStore(tmp_path / "index.db").close()
    assert (tmp_path / "index.db").read_bytes() == before
