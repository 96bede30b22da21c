"""Real repositories' rules are found by place and by words, and the public collection of bad inputs does no harm."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from onhand import InputError, Notes, Registry, Rules
from public_cases import DATA, cases

pytestmark = pytest.mark.skipif(not DATA, reason="set ONHAND_DATA to the directory of public evaluation data")
TREES = sorted(Path(DATA or "/nowhere").glob("agent_trees/*.jsonl"))


def contents_of(area: str) -> list[tuple[str, bytes]]:
    """The contents of an area's cases, by id; what is described in words only is left out."""
    return [(case["id"], content) for case in cases(area) if (content := content_of(case)) is not None]


def content_of(case: dict[str, Any]) -> bytes | None:
    if isinstance(case.get("input"), str):
        return str(case["input"]).encode("utf-8", "surrogatepass")
    if "input_b64" in case:
        return base64.b64decode(case["input_b64"])
    if case.get("generator_kind") == "python":
        made = eval(case["generator"], {"__builtins__": {}, "range": range})  # such as "'['*1000+']'*1000"
        return made.encode() if isinstance(made, str) else None
    return None


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.stem)
def test_every_rule_file_of_a_real_repository_is_found_by_its_place(tree: Path, tmp_path: Path) -> None:
    for line in tree.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        path = tmp_path / row["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(row["text"], encoding="utf-8")
    rules = Rules(tmp_path)
    there = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("AGENTS.md")}
    assert there <= set(rules.paths())
    for path in there:
        found = rules.for_path(f"{path.rpartition('/')[0]}/new.py".lstrip("/"))
        assert found.files[-1].path == path
        assert found.files[-1].shown_bytes > 0
        assert len(found.text.encode()) < 40_000
    text = Registry(rules.tools()).call("search_rules", {"query": "how do I run the tests"}).text
    assert "Traceback" not in text


@pytest.mark.parametrize("area", ["yaml", "markdown"])
def test_no_content_of_a_rule_file_or_of_a_note_does_harm(area: str, tmp_path: Path) -> None:
    tried = 0
    for case, content in contents_of(area):
        directory = tmp_path / case
        (directory / "good").mkdir(parents=True)
        (directory / "good/AGENTS.md").write_text("# Zebra\n", encoding="utf-8")
        (directory / "AGENTS.md").write_bytes(content)
        rules = Rules(directory)
        assert [hit.path for hit in rules.search("zebra").hits][:1] == ["good/AGENTS.md"], case
        text = rules.for_path("good/x").text
        assert text.count("<rules") == text.count("</rules>") <= 2
        assert len(text.encode()) < 40_000
        assert all("passwd" not in reference.path for reference in rules.references() if not reference.problem)
        notes = Notes(directory / "notes")
        notes.write("zebra", "d", "b")
        (directory / "notes/bad.md").write_bytes(content)
        assert [hit.note.name for hit in notes.search("zebra").hits] == ["zebra"], case
        prompt = notes.prompt()
        assert prompt.count("<agent_note") == prompt.count("</agent_note>") == 1
        json.dumps([note._asdict() for note in notes.all()])
        tried += 1
    assert tried > 15


def test_no_path_of_the_collection_reaches_outside(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("# All\n", encoding="utf-8")
    rules, tried = Rules(tmp_path), 0
    for case, content in contents_of("paths"):
        path = content.decode("utf-8", "replace")
        try:
            found = rules.for_path(path)
        except InputError:
            tried += 1
            continue
        assert [file.path for file in found.files] == ["AGENTS.md"], case
        assert not found.path.startswith(("/", "../")), case
        tried += 1
    assert tried > 20
