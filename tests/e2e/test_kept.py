"""What does a person see of what is kept between runs? Nothing but speed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from requirements import requirement

pytestmark = requirement("context.warm-start")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project" / ".AGENTS"
    root.mkdir(parents=True)
    for number in range(20):
        (root / f"{number}.md").write_text(f"# Page {number}\n\nzebra {number} " + "filler " * 500, encoding="utf-8")
    return root.parent


def search(project: Path, environ: dict[str, str], query: str) -> list[str]:
    command = [sys.executable, "-m", "onhand", "context", "search", query, "--json"]
    done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [hit["path"] for hit in json.loads(done.stdout)["hits"]]


def kept(environ: dict[str, str]) -> list[str]:
    directory = Path(environ["HOME"]) / (".cache/onhand/kept" if os.name != "nt" else "onhand/kept")
    return os.listdir(directory) if directory.is_dir() else []


def test_a_command_keeps_what_it_learned_and_the_next_one_sees_every_change(
    project: Path, environ: dict[str, str]
) -> None:
    assert search(project, environ, "zebra 7")[0] == ".AGENTS/7.md"
    assert len(kept(environ)) == 1
    (project / ".AGENTS" / "7.md").unlink()
    (project / ".AGENTS" / "new.md").write_text("# New\n\nlion\n", encoding="utf-8")
    assert ".AGENTS/7.md" not in search(project, environ, "zebra 7")
    assert search(project, environ, "lion") == [".AGENTS/new.md"]
    assert len(kept(environ)) == 1


def test_another_setting_or_project_has_a_file_of_its_own(project: Path, environ: dict[str, str]) -> None:
    search(project, environ, "zebra")
    search(project, {**environ, "ONHAND_CONTEXT_RANKING": "seed"}, "zebra")
    assert len(kept(environ)) == 2


def test_nothing_is_kept_where_nobody_wants_it(project: Path, environ: dict[str, str]) -> None:
    assert search(project, {**environ, "ONHAND_FILE_INDEX_CACHED": "false"}, "zebra 3")[0] == ".AGENTS/3.md"
    assert kept(environ) == []
