"""Whatever a page or its front matter says, only that page suffers, and nothing leaves the block that shows it."""

import json
import re
from pathlib import Path

import pytest

from hostile.cases import Case, Repeated, each, not_understood, spelled
from onhand import Notes, Registry, Rules
from onhand.corpora.skills import Skills
from onhand.hidden_characters import sanitize
from onhand.markdown.page import split_sections
from requirements import requirement

BODY = b"\n# Title\n\nzebra\n"
LARGEST = 2_000_000  # of a page that is given to every corpus; larger ones are only parsed
INDICATORS = "!&*<"  # what begins no plain text in YAML, and no name


def content(case: Case) -> bytes:
    """What the file contains."""
    sent = case.sent
    assert not isinstance(sent, Repeated)
    if isinstance(sent, bytes):
        return sent
    if not isinstance(sent, str):
        not_understood(case, "what the file contains")
    return spelled(sent).encode("utf-8", "surrogatepass")


def values(raw: bytes) -> list[str]:
    """The values of a front matter as they are spelled."""
    return re.findall(r"^\w[\w-]*: *(.*)$", raw.decode("utf-8", "replace"), re.MULTILINE)


@requirement("skills.validate")
@pytest.mark.parametrize("case", each("yaml"))
def test_a_front_matter_is_refused_flagged_or_taken_as_it_is_spelled(case: Case, tmp_path: Path) -> None:
    raw = content(case)
    (tmp_path / "x").mkdir()
    (tmp_path / "x/SKILL.md").write_bytes(raw + BODY)
    skills = Skills(tmp_path, roots=["."], usual=False)
    (checked,) = skills.validate()
    found = skills.all()
    told = json.dumps([skill._asdict() for skill in found], allow_nan=False)
    block = skills.catalog().text
    assert block.count("</skill>") == block.count("<skill>") == len(found)
    assert "<system>" not in block
    problems = (*checked.verdict.errors, *checked.verdict.warnings)
    if case.expected == "reject":
        # Text that looks like a number, a word or a date may stay the text that it is; it never becomes a value.
        spelling = [value.strip("\"'") for value in values(raw)]
        is_plain = not any(value.startswith(tuple(INDICATORS)) for value in spelling)
        plain = is_plain and found and {found[0].name, found[0].description} <= set(spelling)
        assert checked.verdict.errors or plain, told
    elif case.expected == "flag":
        assert problems
    elif case.expected == "sanitize":
        assert checked.verdict.errors == ()
    elif case.expected not in ("accept", "bounded", "survive"):
        not_understood(case, "what is expected of a front matter")


@requirement("markdown.hostile-pages-are-bounded")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", each("yaml", "markdown"))
def test_a_page_costs_no_other_page_and_opens_nothing(case: Case, tmp_path: Path) -> None:
    raw = content(case)
    split_sections(raw.decode("utf-8", "replace"))
    if len(raw) > LARGEST:
        return
    (tmp_path / "good").mkdir()
    (tmp_path / "good/AGENTS.md").write_text("# Zebra\n", encoding="utf-8")
    (tmp_path / "AGENTS.md").write_bytes(raw)
    rules = Rules(tmp_path)
    assert [hit.path for hit in rules.search("zebra").hits][:1] == ["good/AGENTS.md"]
    text = rules.for_path("good/x").text
    assert text.count("<rules") == text.count("</rules>") <= 2
    assert len(text.encode()) < 40_000
    assert all("passwd" not in reference.path for reference in rules.references() if not reference.problem)
    notes = Notes(tmp_path / "notes")
    notes.write("zebra", "d", "b")
    (tmp_path / "notes/bad.md").write_bytes(raw)
    assert [hit.note.name for hit in notes.search("zebra").hits] == ["zebra"]
    prompt = notes.prompt()
    assert prompt.count("<agent_note") == prompt.count("</agent_note>") == 1
    json.dumps([note._asdict() for note in notes.all()])
    is_a_skill(raw, tmp_path / "pdf")
    if case.expected == "sanitize":
        assert "\x1b" not in sanitize(raw.decode("utf-8", "replace"))


def is_a_skill(raw: bytes, place: Path) -> None:
    """The same as the text of a skill, and as its reference."""
    place.mkdir()
    (place / "SKILL.md").write_bytes(b"---\nname: pdf\ndescription: lion\n---\n" + raw)
    (place / "reference.md").write_bytes(raw)
    registry = Registry(Skills(place.parent, roots=["."], usual=False).tools())
    found = registry.call("search_skills", {"query": "lion"}).text
    if b"\0" in raw:  # no text
        assert "cannot be used" in found
        return
    assert found.startswith('<skill name="pdf"')
    for tool, arguments in (
        ("read_skill", {"name": "pdf"}),
        ("read_skill_reference", {"skill": "pdf", "path": "reference.md"}),
    ):
        result = registry.call(tool, arguments)
        assert result.ok, result.text
        assert "root:" not in result.text
