"""Is a file replaced whole, with its mode, and only where it was meant?"""

import os
import stat
import sys
from pathlib import Path

import pytest

from onhand.replace import replace_file
from requirements import requirement

pytestmark = [
    requirement("actions.write-file"),
    pytest.mark.skipif(sys.platform == "win32", reason="modes and held directories are of POSIX"),
]


def test_a_file_keeps_its_mode_and_a_new_one_gets_the_given(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_file(str(tmp_path / "new"), b"a", 0o666)
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
        (tmp_path / "new").chmod(0o777)
        replace_file(str(tmp_path / "new"), b"b")
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o777
    finally:
        os.umask(before)


def test_in_a_directory_that_is_held_open_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "outside").write_bytes(b"old")
    (tmp_path / "here" / "link").symlink_to("../outside")
    directory = os.open(tmp_path / "here", os.O_RDONLY)
    os.rename(tmp_path / "here", tmp_path / "moved")
    replace_file("link", b"new", directory=directory)
    os.close(directory)
    assert (tmp_path / "outside").read_bytes() == b"old"
    assert (tmp_path / "moved" / "link").read_bytes() == b"new"
    assert os.listdir(tmp_path / "moved") == ["link"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(OSError):
        replace_file(str(tmp_path / "there"), b"new")
    assert os.listdir(tmp_path) == ["there"]
