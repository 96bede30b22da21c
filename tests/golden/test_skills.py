"""Does the model still read the same words about skills? They are a part of every prompt."""

import json
from collections.abc import Callable
from pathlib import Path

from onhand.corpora.skills import Skills
from requirements import requirement


def library(place: Path) -> Skills:
    for name, described in (
        ("pdf-processing", "Extract text & tables from PDF files, fill in forms. Use for any <PDF>."),
        ("release-notes", "Write release notes from merged changes. Use when a version is about to be published."),
    ):
        home = place / ".agents/skills" / name
        home.mkdir(parents=True)
        (home / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {described}\n---\n# Steps\n", encoding="utf-8")
    return Skills(place)


@requirement("skills.tools")
def test_the_skill_tools_are_described_in_the_same_words(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    wire = [tool.wire() for tool in Skills(tmp_path).tools()]
    for tool in wire:
        words = str(tool["description"])
        assert all(said in words for said in ("Good for ", "Poor for ", "Example: "))
        assert "Cheap" in words or "Costs" in words
    golden("skill_tools.json", json.dumps(wire, indent=2, ensure_ascii=False) + "\n")


@requirement("skills.catalog-budget")
def test_the_catalog_reads_the_same_whole_and_shortened(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    skills = library(tmp_path)
    golden("skill_catalog.txt", skills.catalog().text + "\n")
    golden("skill_catalog_short.txt", Skills(tmp_path, catalog_max_chars=430).catalog().text + "\n")
