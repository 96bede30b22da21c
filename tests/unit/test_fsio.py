"""Reading, replacing, stamping and locking files."""

import errno
import os
import stat
import struct
import sys
from pathlib import Path

import pytest

from onhand.fsio import MAX_TRIES, read_stable, write_atomic
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
