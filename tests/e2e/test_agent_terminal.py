"""Does `onhand agent` behave at a real terminal? Typed at, and interrupted, through a pseudo-terminal."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from requirements import requirement

pty = pytest.importorskip("pty")

ROOT = Path(__file__).parents[2]
INTERRUPT = b"\x03"
EDIT = {"name": "edit_file", "arguments": {"path": "a.txt", "old_string": "old", "new_string": "new"}}


class Terminal:
    """A person at a terminal in which an agent runs."""

    def __init__(self, project: Path, script: list[object]) -> None:
        (project / "script.json").write_text(json.dumps(script), encoding="utf-8")
        self._pid, self._descriptor = pty.fork()
        if self._pid == 0:
            os.chdir(project)
            words = [sys.executable, "-m", "onhand", "agent", "--model", "scripted:script.json"]
            os.execve(words[0], words, {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(project)})

    def type(self, typed: bytes) -> None:
        os.write(self._descriptor, typed)

    def shown(self, until: bytes) -> bytes:
        """What is shown, up to some words; all of it if they never come."""
        got = b""
        while until not in got:
            try:
                piece = os.read(self._descriptor, 65536)
            except OSError:  # as Linux says that the other end is closed
                piece = b""
            if not piece:
                break
            got += piece
        return got

    def ended(self) -> int:
        """How it ended."""
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._pid = 0
        return code

    def close(self) -> None:
        if self._pid:
            os.kill(self._pid, 9)
            self.ended()
        os.close(self._descriptor)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "a.txt").write_text("old\n", encoding="utf-8")
    made = Terminal(tmp_path, [{"calls": [EDIT]}, "It was refused.", "All is well."])
    yield made
    made.close()


@requirement("agent.cli")
@pytest.mark.timeout(120)
def test_an_interrupt_before_anything_was_said_ends_it(terminal: Terminal) -> None:
    assert b"What should the agent do?" in terminal.shown(b"> ")
    terminal.type(INTERRUPT)
    terminal.shown(b"never shown")
    assert terminal.ended() == 130


@requirement("agent.cli", "agent.approval")
@pytest.mark.timeout(120)
def test_an_interrupt_at_a_question_says_no_and_stops_nothing_that_comes_later(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.shown(b"> ")
    terminal.type(b"change it\n")
    terminal.shown(b"ne[v]er: ")
    terminal.type(INTERRUPT)
    assert b"? edit_file: reject once" in terminal.shown(b"It was refused.\r\n> ")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "old\n"
    terminal.type(b"and now?\n")
    assert b"cancelled" not in terminal.shown(b"All is well.\r\n> ")
    terminal.type(b"\n")
    terminal.shown(b"never shown")
    assert terminal.ended() == 0
