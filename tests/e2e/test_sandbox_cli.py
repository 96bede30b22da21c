"""`onhand sandbox run` around real commands, and around onhand itself."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from requirements import requirement
from workplace import backend, give, python_inside, workplace


@pytest.fixture
def place() -> Iterator[Path]:
    with workplace() as directory:
        yield directory


@pytest.fixture(params=["bubblewrap", "landlock"])
def name(request: pytest.FixtureRequest) -> str:
    return backend(request.param).name


def sandboxed(place: Path, environ: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "onhand", "sandbox", "run", *words],
        cwd=place,
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
    )


@requirement("sandbox.run")
def test_a_command_runs_behind_the_walls_and_gives_its_exit_code(
    place: Path, environ: dict[str, str], name: str
) -> None:
    secret = {**environ, "API_TOKEN": "s3cr3t"}
    line = "echo $API_TOKEN; cat /etc/shadow; echo edited > notes.txt; exit 9"
    done = sandboxed(place, secret, "--backend", name, "--", "sh", "-c", line)
    assert done.returncode == 9, done.stderr
    assert "s3cr3t" not in done.stdout
    assert "root:" not in done.stdout
    assert (place / "notes.txt").read_text() == "edited\n"


def test_flags_open_and_close_paths_and_set_limits(place: Path, environ: dict[str, str], name: str) -> None:
    with workplace() as other:
        words = ("--backend", name, "--read", str(other), "--deny", "src")
        done = sandboxed(
            place, environ, *words, "--", "sh", "-c", f"cat {other}/notes.txt src/app.py; echo x > {other}/new"
        )
        assert "hello" in done.stdout
        assert "print" not in done.stdout
        assert not (other / "new").exists()
        assert sandboxed(place, environ, "--backend", name, "--time", "0.3", "--", "sleep", "60").returncode == 124


@requirement("sandbox.wraps-the-agent")
def test_the_whole_of_onhand_runs_inside_and_does_its_work(place: Path, environ: dict[str, str], name: str) -> None:
    (place / ".AGENTS").mkdir()
    (place / ".AGENTS" / "deploy.md").write_text("# Rollback\n\nRun the rollback script twice.\n")
    give(place)
    source, python = environ["PYTHONPATH"], sys.executable
    if os.geteuid() == 0:
        python = python_inside()
        if not _is_open_to_all(Path(source)) or _version(python) < (3, 11):
            pytest.skip("the user that root becomes can reach neither onhand nor a Python for it")
    words = ("--backend", name, "--read", source, "--", "env", f"PYTHONPATH={source}", python, "-m", "onhand")
    done = sandboxed(place, environ, *words, "context", "search", "rollback")
    assert done.returncode == 0, done.stderr
    assert "Run the rollback script twice." in done.stdout


def _version(python: str) -> tuple[int, ...]:
    said = subprocess.check_output([python, "-c", "import sys; print(*sys.version_info[:2])"], text=True)
    return tuple(map(int, said.split()))


def _is_open_to_all(path: Path) -> bool:
    return os.geteuid() != 0 or all(above.stat().st_mode & 0o001 for above in [path, *path.parents])
