"""Does a clone get its servers started by `onhand mcp import`? Only if a person at a terminal, or --yes, says so."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from requirements import requirement

pty = pytest.importorskip("pty")

ROOT = Path(__file__).parents[2]
ONHAND = [sys.executable, "-m", "onhand", "mcp"]


class Clone:
    """A clone whose server leaves a mark when it is started, in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home, self.directory, self.mark = home, home / "clone", home / "started"
        self.directory.mkdir()
        entry = {"command": "touch", "args": [str(self.mark)]}
        (self.directory / ".mcp.json").write_text(json.dumps({"mcpServers": {"helpful": entry}}), encoding="utf-8")
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(home)}

    def run(self, *words: str, where: Path | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*ONHAND, *words],
            cwd=where or self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def import_at_terminal(self, answer: bytes) -> tuple[str, int]:
        """Import at a terminal and type an answer to the question; return what was shown and the exit code."""
        pid, descriptor = pty.fork()
        if pid == 0:
            os.chdir(self.directory)
            os.execve(ONHAND[0], [*ONHAND, "import"], self.environment)
        shown = b""
        while b"[y/N] " not in shown:
            shown += os.read(descriptor, 65536)
        os.write(descriptor, answer)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(descriptor)
        return shown.decode(), code


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


@requirement("mcp.imports-are-safe")
def test_without_a_terminal_nothing_of_a_clone_is_taken(clone: Clone) -> None:
    done = clone.run("import")
    assert (done.returncode, "run: onhand mcp import --yes" in done.stderr) == (0, True)
    assert clone.run("test", "helpful").returncode == 1
    assert not clone.mark.exists()


@requirement("mcp.imports-are-safe")
@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 0), (b"\n", 0), (b"\x04", 0), (b"\x03", 130)])
def test_whoever_does_not_say_yes_takes_nothing(answer: bytes, code: int, clone: Clone) -> None:
    shown, exit_code = clone.import_at_terminal(answer)
    assert f"helpful: touch {clone.mark}" in shown
    assert f"came with the project, in {clone.directory}/.mcp.json" in shown
    assert exit_code == code
    assert not (clone.home / ".config/onhand/mcp.json").exists()


@requirement("mcp.imports-are-safe")
def test_what_a_person_takes_is_started_in_the_clone_and_nowhere_else(clone: Clone) -> None:
    assert clone.import_at_terminal(b"y\n")[1] == 0
    clone.run("test", where=clone.home)
    assert not clone.mark.exists()
    clone.run("test")
    assert clone.mark.exists()
