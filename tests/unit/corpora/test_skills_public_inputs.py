"""Skills of real repositories are loaded and judged, and the public collection of hostile files does no harm."""

import base64
import json
from pathlib import Path
from typing import Any

from onhand.corpora.skills import Skills
from onhand.tools import Registry
from public_cases import DATA, cases, needs_cases

pytestmark = needs_cases
BODY = "\n# Title\n\nzebra\n"


def content(case: Any) -> bytes | None:
    if "input_b64" in case:
        return base64.b64decode(case["input_b64"])
    if case.get("generator_kind") == "python":
        names = {"__builtins__": {}, "range": range}
        return str(eval(case["generator"], names)).encode()  # such as "'---\\nname: '+'['*1000"
    return str(case["input"]).encode("utf-8", "surrogatepass") if "input" in case else None


def test_every_hostile_front_matter_is_refused_or_flagged_as_expected(tmp_path: Path) -> None:
    tried = 0
    for case in cases("yaml"):
        raw = content(case)
        if raw is None:
            continue
        tried += 1
        place = tmp_path / case["id"]
        (place / "x").mkdir(parents=True)
        (place / "x/SKILL.md").write_bytes(raw + BODY.encode())
        skills = Skills(place, roots=["."], usual=False)
        (checked,) = skills.validate()
        json.dumps([skill._asdict() for skill in skills.all()], allow_nan=False).encode()
        block = skills.catalog().text
        assert block.count("</skill>") == block.count("<skill>") == len(skills.all()), case["id"]
        assert "<system>" not in block
        # Not of the specification, but of what reads it: text that looks like a number, a word or a date stays text,
        # which the detail of these cases allows.
        read_as_text = case["name"] in ("date", "bad date crash", "int keys", "inf")
        if case["expected"] == "reject" and not read_as_text:
            assert checked.verdict.errors, case["id"]
        if case["expected"] == "flag":
            assert checked.verdict.errors or checked.verdict.warnings, case["id"]
        if case["expected"] == "sanitize":
            assert checked.verdict.errors == (), case["id"]
    assert tried >= 25


def test_every_hostile_page_may_be_a_skills_text_or_its_reference(tmp_path: Path) -> None:
    tried = 0
    for case in cases("markdown"):
        raw = content(case)
        if raw is None or len(raw) > 2_000_000:
            continue
        tried += 1
        place = tmp_path / case["id"] / "pdf"
        place.mkdir(parents=True)
        (place / "SKILL.md").write_bytes(b"---\nname: pdf\ndescription: lion\n---\n" + raw)
        (place / "reference.md").write_bytes(raw)
        registry = Registry(Skills(place.parent, roots=["."], usual=False).tools())
        assert registry.call("search_skills", {"query": "lion"}).text.startswith('<skill name="pdf"'), case["id"]
        for tool, arguments in (
            ("read_skill", {"name": "pdf"}),
            ("read_skill_reference", {"skill": "pdf", "path": "reference.md"}),
        ):
            result = registry.call(tool, arguments)
            assert result.ok, (case["id"], result.text)
            assert "root:" not in result.text
    assert tried >= 18


def test_the_skills_of_every_real_repository_are_listed_judged_and_found_by_their_names(tmp_path: Path) -> None:
    total = refused = 0
    for tree in sorted((Path(DATA or "") / "agent_trees").glob("*.jsonl")):
        homes = {}
        for line in tree.read_text("utf-8").splitlines():
            page = json.loads(line)
            target = tmp_path / tree.stem / page["path"].replace("/.", "/").removeprefix(".")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(page["text"], encoding="utf-8")
            if target.name == "SKILL.md":
                homes[target.parent] = page["path"]
        skills = Skills(tmp_path / tree.stem, roots=["."], usual=False)
        total += len(skills.all())
        refused += len(homes) - len(skills.all())
        assert len(skills.validate()) == len(homes)
        for skill in skills.all()[:20]:
            hits = skills.search(skill.name.replace("-", " ")).hits
            assert skill.name in [hit.name for hit in hits], skill.path
            assert skills.read(skill.name).text
    assert total > 200
    assert refused == 0
