"""Whatever a SKILL.md says and is called: nothing raises, no block is forged, no budget is passed."""

import re
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onhand.corpora.skill_catalog import render_catalog
from onhand.corpora.skill_files import Skill, parse_skill, validate_skill
from onhand.corpora.skill_reading import describe_script
from onhand.corpora.skills import MAX_OUTPUT_BYTES, Skills
from onhand.tools import Registry
from requirements import requirement

PIECES = [
    *("<", ">", "/", "</skill>", "<skill", "</skill_content>", "</available_skills>", "skill_resources", '"', "&", "'"),
    *("---", "\n", "\r\n", "name: ", "description: ", ": ", "- ", "# ", "[a](b.md)", "](../../x)", "\u200b", "\x1b"),
    *(
        "zebra",
        "metadata:\n  a: b",
        "&a",
        "*a",
        "!t",
        ">-\n  ",
        "|\n",
        "\U000e0041",
        "é",
        "技",
        "\ufeff",
        "{",
        "]",
        "\\",
    ),
]
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=25).map("".join)


@requirement("skills.validate")
@given(front=texts, body=texts, directory=st.text(min_size=1, max_size=20))
def test_any_file_is_loaded_or_refused_with_a_reason(front: str, body: str, directory: str) -> None:
    for text in (front, f"---\n{front}\n---\n{body}", f"---\nname: x\ndescription: {front}\n---\n{body}"):
        skill, verdict = parse_skill(text, directory), validate_skill(text, directory)
        assert (skill.refused is None) == bool(skill.description)
        assert skill.name
        assert not verdict.errors or all(verdict.errors)
        if not verdict.errors:
            assert skill.refused is None


@requirement("skills.catalog-budget", "skills.tools")
@given(
    said=st.lists(st.tuples(texts, texts), max_size=12),
    max_chars=st.integers(min_value=0, max_value=3_000),
)
def test_no_catalog_passes_its_budget_or_holds_a_forged_skill(said: list[tuple[str, str]], max_chars: int) -> None:
    skills = [Skill(f"{name}{number}", text, name, "", "", {}, (), ()) for number, (name, text) in enumerate(said)]
    catalog = render_catalog(skills, max_chars, {})
    assert len(catalog.text) <= max_chars
    assert catalog.skills + catalog.left_out == len(skills)
    assert len(re.findall(r"<skill[ >]", catalog.text)) == catalog.skills
    assert catalog.text.count("</available_skills>") == bool(catalog.skills)


@given(source=texts)
def test_any_program_is_described_on_one_short_line(source: str) -> None:
    for text in (source, f"# {source}", f'"""{source}"""', f"/** {source} */"):
        said = describe_script(text)
        assert len(said) <= 200
        assert "\n" not in said


@requirement("skills.tools")
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(description=texts, body=texts, reference=texts)
def test_no_skill_forges_a_block_of_the_tools(description: str, body: str, reference: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        home = Path(place, "pdf")
        home.mkdir()
        quoted = description.replace("\\", "").replace('"', "'").replace("\n", " ").replace("\r", " ")
        front = f'---\nname: pdf\ndescription: "lion {quoted}"\n---\n'
        (home / "SKILL.md").write_text(front + body, encoding="utf-8", errors="replace")
        (home / "b.md").write_text(reference, encoding="utf-8", errors="replace")
        skills = Skills(place, roots=["."], usual=False)
        registry = Registry(skills.tools())
        if not skills.all():
            return
        read = registry.call("read_skill", {"name": "pdf"}).text
        assert (read.count("<skill_content"), read.count("</skill_content>")) == (1, 1)
        assert read.count("<skill_resources") == read.count("</skill_resources") <= 1
        search = registry.call("search_skills", {"query": "lion"}).text
        assert search.count("<skill ") == search.count("</skill>") == 1
        page = registry.call("read_skill_reference", {"skill": "pdf", "path": "b.md"})
        if page.ok:
            assert (page.text.count("<skill_reference"), page.text.count("</skill_reference>")) == (1, 1)
        assert all(len(text.encode()) <= MAX_OUTPUT_BYTES for text in (read, search, page.text))
