"""Do the commands about configuration work as a person runs them?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from requirements import requirement

COMMAND = [sys.executable, "-m", "onhand"]


def run(words: list[str], where: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        cwd=where,
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def project(tmp_path: Path, name: str, text: str) -> Path:
    directory = tmp_path / "home" / name
    directory.mkdir(parents=True)
    (directory / "onhand.toml").write_text(text, encoding="utf-8")
    return directory


@requirement("config.show-tells-origins", "trust.said-once")
def test_a_clone_is_held_back_then_trusted_then_heard(tmp_path: Path, environ: dict[str, str]) -> None:
    clone = project(tmp_path, "clone", "[context]\nroot = '/elsewhere/notes'\nlimit = 5\n")

    def root() -> object:
        return json.loads(run(["config", "show", "--json"], clone, environ).stdout)["context.root"]

    assert root() == {"value": ".AGENTS", "source": "default"}
    warned = run(["config", "show"], clone, environ)
    assert f"onhand trust {clone}" in warned.stderr
    assert warned.returncode == 0
    assert run(["trust", "--yes"], clone, environ).returncode == 0
    assert root() == {"value": "/elsewhere/notes", "source": f"{clone / 'onhand.toml'}:2"}


@requirement("trust.concurrent")
def test_directories_trusted_at_the_same_moment_are_all_kept(tmp_path: Path, environ: dict[str, str]) -> None:
    clones = [project(tmp_path, f"clone{number}", "[context]\nroot = '/x'\n") for number in range(8)]
    started = [
        subprocess.Popen([*COMMAND, "trust", "--yes"], cwd=clone, env=environ, stdout=subprocess.DEVNULL)
        for clone in clones
    ]
    assert [process.wait(timeout=60) for process in started] == [0] * len(clones)
    listed = run(["trust", "--list"], tmp_path, environ).stdout.splitlines()
    assert listed == sorted(str(clone.resolve()) for clone in clones)


def test_init_and_show_agree(tmp_path: Path, environ: dict[str, str]) -> None:
    before = run(["config", "show", "--json"], tmp_path, environ)
    assert run(["init"], tmp_path, environ).returncode == 0
    assert run(["config", "show", "--json"], tmp_path, environ).stdout == before.stdout
    assert run(["init"], tmp_path, environ).returncode == 2


@requirement("config.broken-files")
def test_a_broken_file_ends_with_2_and_one_message(tmp_path: Path, environ: dict[str, str]) -> None:
    broken = project(tmp_path, "broken", "[context]\nlimit = 'many'\npined = []\n")
    done = run(["config", "show"], broken, environ)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("onhand: the configuration has 2 problems:")
    assert "did you mean 'context.pinned'?" in done.stderr
    assert run(["doctor"], broken, environ).returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows names are not bytes")
def test_a_directory_whose_name_is_not_text_is_an_ordinary_directory(tmp_path: Path, environ: dict[str, str]) -> None:
    odd = project(tmp_path, os.fsdecode(b"caf\xe9"), "[context]\nroot = '/x'\n")
    for locale in ("C.UTF-8", "C"):
        done = run(["config", "show", "--json"], odd, {**environ, "LC_ALL": locale, "PYTHONUTF8": "0"})
        assert done.returncode == 0, done.stderr
        assert "context.root" in json.loads(done.stdout)
        assert run(["config", "show"], odd, {**environ, "LC_ALL": locale, "PYTHONIOENCODING": "ascii"}).returncode == 0
    assert run(["trust", "--yes"], odd, environ).returncode == 0
    assert run(["trust", "--list"], odd, environ).stdout.endswith("caf\ufffd\n")


@pytest.mark.skipif(os.name == "nt", reason="pipes close differently on Windows")
def test_a_reader_that_goes_away_is_not_a_failure(tmp_path: Path, environ: dict[str, str]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*COMMAND, "config", "show"],
            cwd=tmp_path,
            env=environ,
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
