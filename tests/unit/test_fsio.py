"""Reading, replacing, stamping and locking files."""

import errno
import os
import stat
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faults import needs_faults, run_python
from onhand.fsio import MAX_TRIES, make_directories, read_stable, write_atomic
from requirements import requirement


@pytest.mark.timeout(30)
def test_a_file_that_grows_as_quickly_as_it_is_read_is_not_run_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, real_read, sizes = tmp_path / "log", os.read, list[int]()
    log.write_text("line\n", encoding="utf-8")

    def read_and_write(descriptor: int, size: int) -> bytes:
        with log.open("a", encoding="utf-8") as file:
            file.write("more\n")
        sizes.append(size)
        return real_read(descriptor, size)

    monkeypatch.setattr(os, "read", read_and_write)
    descriptor = os.open(log, os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError, match="being written to"):
            read_stable(descriptor, 100_000)
    finally:
        os.close(descriptor)
    assert len(sizes) == MAX_TRIES


pytestmark = [
    requirement("actions.write-file"),
    pytest.mark.skipif(sys.platform == "win32", reason="modes and held directories are of POSIX"),
]


def test_a_file_keeps_its_mode_and_a_new_one_gets_the_given(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomic(str(tmp_path / "new"), b"a", 0o666)
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
        (tmp_path / "new").chmod(0o777)
        write_atomic(str(tmp_path / "new"), b"b")
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o777
    finally:
        os.umask(before)


def test_in_a_directory_that_is_held_open_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "outside").write_bytes(b"old")
    (tmp_path / "here" / "link").symlink_to("../outside")
    directory = os.open(tmp_path / "here", os.O_RDONLY)
    os.rename(tmp_path / "here", tmp_path / "moved")
    write_atomic("link", b"new", directory=directory)
    os.close(directory)
    assert (tmp_path / "outside").read_bytes() == b"old"
    assert (tmp_path / "moved" / "link").read_bytes() == b"new"
    assert os.listdir(tmp_path / "moved") == ["link"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(OSError):
        write_atomic(str(tmp_path / "there"), b"new")
    assert os.listdir(tmp_path) == ["there"]


def test_the_last_word_before_a_file_is_replaced_may_be_no(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"old")
    sizes: list[int] = []

    def no() -> None:
        sizes.extend(sorted(entry.stat().st_size for entry in tmp_path.iterdir()))
        raise InterruptedError

    with pytest.raises(InterruptedError):
        write_atomic(str(tmp_path / "there"), b"newer", check=no)
    assert sizes == [3, 5]  # all of it was written by then
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [b"old"]


NOBODY, MANY = 65534, 0xFFFFFFFF
OWNER, USER, GROUP, MASK, OTHERS, ALL = 1, 2, 4, 16, 32, "system.posix_acl_access"


def _access(*entries: tuple[int, int, int]) -> bytes:
    """A list of who may do what, as the kernel takes it: kind, bits, user."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


ONE_USER = _access((OWNER, 6, MANY), (USER, 6, NOBODY), (GROUP, 0, MANY), (MASK, 6, MANY), (OTHERS, 0, MANY))


def _set(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except (AttributeError, OSError):
        pytest.skip("this file system keeps no such attributes")


def test_a_file_keeps_its_list_of_who_has_access_and_its_group_gets_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    _set(file, ALL, ONE_USER)
    _set(file, "user.note", b"mine")
    write_atomic(str(file), b"new")
    assert file.read_bytes() == b"new"
    assert os.getxattr(file, ALL) == ONE_USER
    assert os.getxattr(file, "user.note") == b"mine"


def test_a_file_keeps_its_mode_where_there_is_no_room_for_its_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o664)
    _set(file, "user.note", b"mine")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "setxattr", full)
    write_atomic(str(file), b"new")
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o664


def test_a_file_that_is_there_gets_no_list_from_its_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o660)
    _set(tmp_path, "system.posix_acl_default", ONE_USER)
    write_atomic(str(file), b"new")
    assert ALL not in os.listxattr(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o660


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes that are synced, in this order."""
    inodes, real_fsync = list[int](), os.fsync

    def record(descriptor: int) -> None:
        inodes.append(os.fstat(descriptor).st_ino)
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    return inodes


@requirement("project.names-are-durable")
@pytest.mark.parametrize("parts", [["new"], ["new", "and", "deep"]])
def test_every_new_directory_is_synced_into_the_one_above_it(
    tmp_path: Path, synced: list[int], parts: list[str]
) -> None:
    make_directories(str(tmp_path.joinpath(*parts)))
    assert synced == [tmp_path.joinpath(*parts[:depth]).stat().st_ino for depth in range(len(parts))]
    synced.clear()
    make_directories(str(tmp_path.joinpath(*parts)))
    assert synced == []


@requirement("project.names-are-durable")
def test_a_file_is_synced_before_it_gets_its_name_and_its_directory_after_that(
    tmp_path: Path, synced: list[int]
) -> None:
    write_atomic(str(tmp_path / "file"), b"new")
    assert synced == [(tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino]


def test_a_file_in_the_way_of_a_new_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError):
            make_directories(str(path))


ON_A_FAILING_DIRECTORY = """
import errno, os, sys
from faults import Fault, fail_calls
from onhand.fsio import make_directories, sync_directory, write_atomic

first = os.open(os.devnull, os.O_RDONLY)
while os.dup(first) < 39:
    pass  # so that whatever is opened first is number 40: the directory
fail_calls(Fault(["fsync"], getattr(errno, sys.argv[2]), descriptor=40))
directory = sys.argv[1]
for write in (
    lambda: write_atomic(os.path.join(directory, "file"), b"new"),
    lambda: make_directories(os.path.join(directory, "below")),
    lambda: sync_directory(directory),
):
    try:
        write()
        print("synced")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


@needs_faults
@requirement("project.names-are-durable")
@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "EDQUOT", "EROFS"])
def test_a_directory_that_cannot_be_synced_is_an_error(tmp_path: Path, error: str) -> None:
    assert run_python(ON_A_FAILING_DIRECTORY, str(tmp_path), error).split() == [error] * 3


@needs_faults
def test_a_file_system_without_such_an_operation_is_not_an_error(tmp_path: Path) -> None:
    assert run_python(ON_A_FAILING_DIRECTORY, str(tmp_path), "EINVAL").split() == ["synced"] * 3


LEFTOVER = ".0123456789abcdef.new"


@requirement("project.leftovers-are-swept")
def test_the_temporary_file_of_a_killed_writer_is_swept_by_the_next_process(tmp_path: Path) -> None:
    kept = [".0123456789abcdeg.new", ".0123456789abcdef.newer", "0123456789abcdef.new", ".new"]
    for name in (LEFTOVER, *kept):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / ".00000000000000ff.new").mkdir()
    (tmp_path / ".00000000000000fe.new").symlink_to(tmp_path / kept[0])
    write_atomic(str(tmp_path / "file"), b"new")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, ".00000000000000ff.new", ".00000000000000fe.new", "file"])


@requirement("project.leftovers-are-swept")
def test_the_temporary_file_of_a_living_writer_is_never_swept(tmp_path: Path) -> None:
    others: list[str] = []

    def let_another_process_write() -> None:
        others.extend(name for name in os.listdir(tmp_path))
        run_python(
            "import sys; from onhand.fsio import write_atomic; write_atomic(sys.argv[1], b'b')", str(tmp_path / "b")
        )

    write_atomic(str(tmp_path / "a"), b"a", check=let_another_process_write)
    assert len(others) == 1
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@requirement("project.leftovers-are-swept")
def test_many_processes_sweep_and_write_at_once_and_lose_nothing(tmp_path: Path) -> None:
    code = """
        import sys
        from onhand import fsio
        for number in range(100):
            fsio._swept.clear()  # as a new process would
            fsio.write_atomic(f"{sys.argv[1]}/{sys.argv[2]}-{number % 3}", b"new")
    """
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: run_python(code, str(tmp_path), name), "abcd"))
    assert sorted(os.listdir(tmp_path)) == sorted(f"{name}-{number}" for name in "abcd" for number in range(3))
