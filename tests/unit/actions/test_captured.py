"""What a command prints is kept at both ends, and all of it in a file as long as there is room for one."""

import subprocess
import sys
from pathlib import Path

from onhand.actions.captured import Captured
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
