"""Does a person at a terminal see the matches as a short tree, and a pipe as plain lines?"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from requirements import requirement

pty = pytest.importorskip("pty", reason="needs terminals as Unix has them")
SAMPLE = Path(__file__).parents[2] / "examples" / "sample-tools" / "tools.json"
SEARCH = [sys.executable, "-m", "onhand", "tools", "search", "--catalog", str(SAMPLE)]


def in_terminal(words: list[str], environ: dict[str, str]) -> list[str]:
    """What a command prints to a terminal, line by line."""
    ours, its = pty.openpty()
    process = subprocess.Popen([*SEARCH, *words], env=environ, stdin=its, stdout=its, stderr=its)
    os.close(its)
    printed = b""
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # how Linux says that nobody has the other end any more
            piece = b""
        if not piece:
            break
        printed += piece
    os.close(ours)
    assert process.wait(timeout=60) == 0, printed
    return printed.decode().splitlines()


@requirement("catalog.renderer", "catalog.cli-search")
def test_a_terminal_shows_a_status_line_and_five_matches_of_eight(environ: dict[str, str]) -> None:
    shown = in_terminal(["create", "an", "issue"], {**environ, "PYTHONIOENCODING": "utf-8"})
    assert shown[0].startswith("✓ SearchTools create an issue · 8 matches · 0 activated · 100 total")
    assert sum(line.startswith("├─ ") for line in shown) == 5
    assert "└─ … 3 more" in shown


@requirement("catalog.renderer")
def test_who_asks_for_a_number_of_tools_sees_all_of_them(environ: dict[str, str]) -> None:
    shown = in_terminal(["-k", "7", "create an issue"], {**environ, "PYTHONIOENCODING": "utf-8"})
    assert sum(line.startswith(("├─ ", "└─ ")) for line in shown) == 7
    assert not any("more" in line for line in shown if line.startswith("└─"))


@requirement("catalog.cli-search")
def test_a_pipe_gets_plain_lines(environ: dict[str, str]) -> None:
    done = subprocess.run([*SEARCH, "create an issue"], env=environ, capture_output=True, timeout=60, check=True)
    assert done.stdout.startswith(b"1. ")
