"""What happens on a disk that is read-only, full or not ours? Each test has a process and a disk of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import onhand
from requirements import requirement

pytestmark = [
    requirement("store.bad-disk"),
    pytest.mark.skipif(sys.platform != "linux", reason="disks of one's own are mounted by Linux"),
]

PRELUDE = """
import os, subprocess, sys
from onhand.document import Document
from onhand.errors import StoreError
from onhand.store.store import Entry
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


@contextmanager
def world_readable_directory() -> Iterator[Path]:
    """A directory that every user can enter, unlike `tmp_path`; `TMPDIR` may also be its owner's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture
def place() -> Iterator[Path]:
    with world_readable_directory() as directory:
        yield directory


def python(
    code: str, place: Path, environ: dict[str, str], *before: str, program: str = sys.executable, **how: Any
) -> None:
    command = [*before, program, "-c", PRELUDE + dedent(code), str(place)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, **how)
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
        from onhand.lexical.scoring import get_ranking
        store = SqliteStore(path, get_ranking("seed"))
        put(store, "a", "b")
        store.close()
        mount("-o", "remount,ro", disk)
        said = refused(SqliteStore, path)
        assert "indexed for the ranking 'seed-2'" in said and "Open it once where it can be written" in said, said
        assert ids(SqliteStore(path, get_ranking("seed"))) == ["a", "b"]
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
        assert "Copy it" in refused(SqliteStore, path)
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
        assert "read-only" in refused(SqliteStore, os.path.join(disk, "new", "index.db"))
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


OTHER_USER: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


def python_for_another_user() -> str:
    """A Python that another user can start: ours may be in a directory that only its owner can enter."""
    ours: str = getattr(sys, "_base_executable", sys.executable)
    for program in filter(None, [ours, shutil.which("python3", path="/usr/bin:/bin")]):
        check = [program, "-c", "import sqlite3, sys; sys.exit(sys.version_info < (3, 11))"]
        with suppress(OSError):
            if subprocess.run(check, cwd="/", env={}, capture_output=True, **OTHER_USER).returncode == 0:
                return program
    pytest.skip("another user cannot start any Python that is new enough")


@pytest.fixture
def as_another_user(environ: dict[str, str]) -> Iterator[Callable[[str, Path], None]]:
    """Run code as a user who owns neither our files nor the directory of this project, and may not even enter it."""
    program = python_for_another_user()
    with world_readable_directory() as copy:
        source = Path(onhand.__file__).parent
        shutil.copytree(source, copy / "onhand", ignore=shutil.ignore_patterns("__pycache__"))
        for path in copy.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        theirs = {**environ, "PYTHONPATH": str(copy)}
        yield lambda code, place: python(code, place, theirs, program=program, cwd="/", **OTHER_USER)


def test_a_file_of_another_user_is_searched_and_left_as_it_is(
    place: Path, environ: dict[str, str], as_another_user: Callable[[str, Path], None]
) -> None:
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
    try:
        as_another_user(
            """
            store = SqliteStore(path)
            assert ids(store) == ["a"]
            assert "read-only" in refused(put, store, "b")
            store.close()
            """,
            place,
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
