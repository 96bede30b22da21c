"""What happens on a disk that is read-only, full or not ours? Each test has a process and a disk of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from requirements import requirement

pytestmark = [
    requirement("store.bad-disk"),
    pytest.mark.skipif(sys.platform != "linux", reason="disks of one's own are mounted by Linux"),
]

PRELUDE = """
import os, subprocess, sys
from onhand.document import Document
from onhand.errors import StoreError
from onhand.store.entry import Entry
from onhand.store.sqlite import SqliteStore

def mount(*options):
    # What it was mounted with is not said again: the disk's owner goes by another number here.
    subprocess.run(["mount", "--options-mode=ignore", *options], check=True)

def put(store, *names, text="some words"):
    store.upsert([Entry(Document(name, text=text)) for name in names])

def refused(call, *args):
    try:
        call(*args)
    except StoreError as error:
        return str(error)
    raise AssertionError(f"{call} was not refused")

def ids(store):
    return sorted(match.id for match in store.keyword("words", limit=1000))

def leave(path, *names):
    "Write as a process that ends without closing."
    if os.fork() == 0:
        store = SqliteStore(path)
        put(store, *names)
        os._exit(0)
    assert os.wait()[1] == 0

disk = sys.argv[1]
path = os.path.join(disk, "index.db")
"""

Run = Callable[[str], None]


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:  # not tmp_path: others may not enter that
        os.chmod(name, 0o755)
        yield Path(name)


def python(code: str, place: Path, environ: dict[str, str], *before: str) -> None:
    command = [*before, sys.executable, "-c", PRELUDE + dedent(code), str(place)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def on_a_disk(place: Path, environ: dict[str, str]) -> Run:
    """Runs code in a process that sees a disk of three megabytes and may mount it otherwise."""
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    mounting = ["sh", "-c", 'mount -t tmpfs -o size=3m tmpfs "$0" && exec "$@"', str(place)]
    if not shutil.which("unshare") or subprocess.run([*namespace, *mounting, "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a disk of our own")
    return lambda code: python(code, place, environ, *namespace, *mounting)


def test_a_file_on_a_read_only_disk_is_searched_and_refuses_to_be_written(on_a_disk: Run) -> None:
    on_a_disk("""
        store = SqliteStore(path)
        put(store, "a", "b")
        store.close()
        mount("-o", "remount,ro", disk)
        store = SqliteStore(path)
        assert ids(store) == ["a", "b"]
        assert store.get("a").text == "some words"
        assert store.check() == []
        for call, args in [(put, (store, "c")), (store.delete, (["a"],)), (store.rebuild, ())]:
            assert "read-only" in refused(call, *args)
        assert ids(store) == ["a", "b"]
        store.close()
        mount("-o", "remount,rw", disk)
        store = SqliteStore(path)
        put(store, "c")
        assert ids(store) == ["a", "b", "c"]
    """)


def test_a_file_of_another_ranking_on_a_read_only_disk_says_what_to_do(on_a_disk: Run) -> None:
    on_a_disk("""
        from onhand.lexical.ranking import ranking
        store = SqliteStore(path, ranking("seed"))
        put(store, "a", "b")
        store.close()
        mount("-o", "remount,ro", disk)
        said = refused(SqliteStore, path)
        assert "is indexed for the ranking 'seed-2'" in said and "open it once where it can be written" in said, said
        assert ids(SqliteStore(path, ranking("seed"))) == ["a", "b"]
        mount("-o", "remount,rw", disk)
        assert ids(SqliteStore(path)) == ["a", "b"]
    """)


def test_what_a_killed_writer_left_is_read_on_a_read_only_disk(on_a_disk: Run) -> None:
    on_a_disk("""
        leave(path, "a", "b")
        mount("-o", "remount,ro", disk)
        store = SqliteStore(path)
        assert ids(store) == ["a", "b"]
        assert "read-only" in refused(put, store, "c")
    """)


def test_a_log_that_cannot_be_read_here_is_not_passed_over(on_a_disk: Run) -> None:
    on_a_disk("""
        leave(path, "a")
        os.unlink(path + "-shm")
        mount("-o", "remount,ro", disk)
        assert "copy it" in refused(SqliteStore, path)
    """)


def test_a_reader_of_a_read_only_disk_notices_what_others_write(on_a_disk: Run) -> None:
    on_a_disk("""
        here, there = os.path.join(disk, "here"), os.path.join(disk, "there")
        os.mkdir(here)
        os.mkdir(there)
        writer = SqliteStore(os.path.join(here, "index.db"))
        put(writer, "a")
        writer.close()
        mount("--bind", here, there)
        mount("-o", "remount,bind,ro", there)
        reader = SqliteStore(os.path.join(there, "index.db"))
        assert ids(reader) == ["a"]
        writer = SqliteStore(os.path.join(here, "index.db"))
        put(writer, "b")
        assert ids(reader) == ["a", "b"]
        writer.delete(["a"])
        writer.close()
        assert ids(reader) == ["b"]
    """)


def test_nothing_can_be_made_on_a_read_only_disk(on_a_disk: Run) -> None:
    on_a_disk("""
        mount("-o", "remount,ro", disk)
        assert "index.db" in refused(SqliteStore, path)
        assert "Read-only" in refused(SqliteStore, os.path.join(disk, "new", "index.db"))
        assert os.listdir(disk) == []
    """)


def test_a_full_disk_refuses_a_write_and_keeps_everything_before_it(on_a_disk: Run) -> None:
    on_a_disk("""
        store = SqliteStore(path)
        texts, number = {}, 0
        while True:
            name, text = f"d{number}", f"words of {number} " + "and more " * (number * 37 % 5000)
            try:
                put(store, name, "twin of " + name, text=text)
            except StoreError as error:
                assert "disk is full" in str(error)
                break
            texts[name], number = text, number + 1
        assert number > 10
        for _ in range(2):
            assert store.count() == 2 * number
            assert all(store.get(name).text == text for name, text in texts.items())
            assert store.get(name) is None and store.get("twin of " + name) is None
            assert store.check() == []
            assert "disk is full" in refused(lambda: put(store, "huge", text="words " * 700_000))
            store.close()
            store = SqliteStore(path)
        mount("-o", "remount,size=9m", disk)
        put(store, "more")
        assert store.count() == 2 * number + 1
        assert store.check() == []
    """)


def test_a_disk_that_is_full_from_the_start_gives_an_error(on_a_disk: Run) -> None:
    on_a_disk("""
        with open(os.path.join(disk, "filler"), "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                pass
        refused(SqliteStore, path)
        os.unlink(os.path.join(disk, "filler"))
        store = SqliteStore(path)
        put(store, "a")
        assert ids(store) == ["a"]
    """)


def test_vectors_are_searched_on_a_read_only_and_on_a_full_disk(on_a_disk: Run) -> None:
    on_a_disk("""
        from array import array
        store = SqliteStore(path)
        store.upsert([Entry(Document("a"), array("f", [1, 0])), Entry(Document("b"), array("f", [0, 1]))])
        store.close()
        mount("-o", "remount,ro", disk)
        store = SqliteStore(path)
        assert [match.id for match in store.nearest(array("f", [0, 1]))] == ["b", "a"]
        store.close()
        mount("-o", "remount,rw,size=100k", disk)
        store = SqliteStore(path)
        assert [match.id for match in store.nearest(array("f", [0, 1]))] == ["b", "a"]
        assert store.check() == []
    """)


def test_a_file_of_another_user_is_searched_and_left_as_it_is(place: Path, environ: dict[str, str]) -> None:
    python(
        """
        store = SqliteStore(path)
        put(store, "a")
        store.close()
        """,
        place,
        environ,
    )
    path = place / "index.db"
    before = path.read_bytes()
    path.chmod(0o444)
    place.chmod(0o555)
    as_nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    if as_nobody and not shutil.which("setpriv"):
        pytest.skip("nobody is bound by permissions here")
    if subprocess.run([*as_nobody, sys.executable, "-c", ""], env=environ, capture_output=True).returncode:
        pytest.skip("nobody else can run our Python: it lies where only its owner can go")
    try:
        python(
            """
            store = SqliteStore(path)
            assert ids(store) == ["a"]
            assert "read-only" in refused(put, store, "b")
            store.close()
            """,
            place,
            environ,
            *as_nobody,
        )
    finally:
        place.chmod(0o755)
    assert path.read_bytes() == before
    assert [file.name for file in place.iterdir()] == ["index.db"]


def test_a_write_that_the_disk_refuses_halfway_leaves_nothing(place: Path, environ: dict[str, str]) -> None:
    python(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        store = SqliteStore(path)
        put(store, "a")
        for limit in range(4096, 200_000, 9973):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            store.close()
            try:
                store = SqliteStore(path)
                put(store, "b", "c", text="words " * 30_000)
            except StoreError as error:
                assert path in str(error)
            else:
                break
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            store.close()
            store = SqliteStore(path)
            assert ids(store) == ["a"] and store.check() == []
        put(store, "b", "c", text="words " * 30_000)
        assert ids(store) == ["a", "b", "c"] and store.check() == []
        """,
        place,
        environ,
    )
