"""What a command prints is kept at both ends, and all of it in a file as long as there is room for one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onhand.actions.captured import Captured
from onhand.errors import NotFound
from requirements import requirement

FULL = """
import resource, signal, sys
from onhand.actions.captured import Captured
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))  # as a disk with no more room
captured = Captured(sys.argv[1], 100)
for _ in range(30):
    captured.add(b"x" * 99 + b"\\n")
captured.finish()
print(captured.total_bytes, captured.kept_bytes, len(captured.read(0, 9999)), captured.read(1500, 100))
"""


@requirement("actions.shell-output")
def test_a_full_disk_stops_no_command_and_what_was_kept_can_be_read(tmp_path: Path) -> None:
    said = subprocess.check_output([sys.executable, "-c", FULL, str(tmp_path / "out")], text=True, timeout=60)
    assert said == "3000 1500 1500 b''\n"


@requirement("actions.shell-output")
def test_where_no_file_can_be_made_the_beginning_can_still_be_read(tmp_path: Path) -> None:
    captured = Captured(str(tmp_path / "none" / "out"), 10)
    for letter in b"abcdefghijklmnopqrstuvwxyz":
        captured.add(bytes([letter]))
    assert captured.text() == "abcde\n[… 16 bytes left out …]\nvwxyz"
    assert (captured.kept_bytes, captured.read(0, 100), captured.read(3, 100)) == (5, b"abcde", b"de")


@requirement("actions.shell-output")
@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(24, 100))  # less may be less than a character
def test_any_bytes_are_shown_within_what_is_kept_and_what_is_missing_is_counted(
    pieces: list[bytes], keep_bytes: int
) -> None:
    captured = Captured(os.path.join(os.devnull, "out"), keep_bytes)
    for piece in pieces:
        captured.add(piece)
    said, marker = captured.text(), "\n[… "
    printed = b"".join(pieces)
    if not captured.is_cut:
        assert said == printed.decode("utf-8", "replace")
        assert len(said.encode()) <= keep_bytes + 3  # the last character may be incomplete
        return
    head, _, rest = said.partition(marker)
    left_out, _, tail = rest.partition(" bytes left out …]\n")
    assert len(head.encode()) + len(tail.encode()) <= keep_bytes
    assert 0 < int(left_out) < len(printed)
    assert len(printed) - int(left_out) <= keep_bytes


@requirement("actions.shell-output")
def test_nothing_is_lost_before_a_character_that_is_not_complete_yet(tmp_path: Path) -> None:
    captured = Captured(str(tmp_path / "out"), 10)
    captured.add(b"0123456789\xf0\x9f")
    assert captured.is_cut
    assert captured.read(0, 100) == b"0123456789\xf0\x9f"
    captured.finish()


@requirement("actions.shell-output")
def test_output_whose_file_somebody_removed_is_told_to_be_gone(tmp_path: Path) -> None:
    captured = Captured(str(tmp_path / "out"), 10)
    captured.add(b"x" * 1000)
    captured.finish()
    assert captured.read(10**40, 5) == b""
    (tmp_path / "out").unlink()
    with pytest.raises(NotFound, match="run it again"):
        captured.read(0, 5)


@requirement("actions.shell-output")
def test_a_byte_that_is_no_text_costs_no_more_than_its_place(tmp_path: Path) -> None:
    captured = Captured(str(tmp_path / "out"), 300)
    captured.add(b"\xff" + b"x" * 1000 + b"\xff")
    captured.finish()
    assert captured.text() == f"\ufffd{'x' * 147}\n[… 706 bytes left out …]\n{'x' * 147}\ufffd"
