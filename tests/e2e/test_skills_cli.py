"""Does a process of its own find skills, keep what it learned, and see what changed since?"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from requirements import requirement


def asked(environ: dict[str, str], project: Path, *words: str) -> Any:
    command = [sys.executable, "-m", "onhand", "skills", *words, "--json"]
    done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@requirement("skills.warm-start", "skills.cli")
def test_a_second_process_starts_from_what_the_first_learned(environ: dict[str, str], tmp_path: Path) -> None:
    project = tmp_path / "project"
    root = project / ".agents/skills"
    for number in range(30):
        home = root / f"skill{number}"
        home.mkdir(parents=True)
        body = f"# Steps\n\n{chr(97 + number % 26) * 5}{number}\n" + "filling words\n" * 500
        (home / "SKILL.md").write_text(f"---\nname: skill{number}\ndescription: does it\n---\n{body}", encoding="utf-8")
    for file in root.rglob("*.md"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    before = asked(environ, project, "search", "ddddd3")
    kept = list((tmp_path / "home").rglob("skills-*.cache"))
    assert len(kept) == 1
    assert (kept[0].parent.stat().st_mode & 0o077) == 0
    assert asked(environ, project, "search", "ddddd3") == before
    assert before["hits"][0]["name"] == "skill3"
    (root / "skill3/SKILL.md").unlink()
    (root / "skill4").rename(root / "moved")
    after = asked(environ, project, "search", "ddddd3", "eeeee4")
    assert (after["skills"], after["hits"][0]["name"]) == (29, "skill4")
    assert after["hits"][0]["path"] == ".agents/skills/moved/SKILL.md"
    assert len({hit["name"] for hit in after["hits"]}) == len(after["hits"])
