"""Is the sample project what the judged queries and the demo take it for?

Nothing is searched here: the pages are read as plain lines, so that a fault of the search cannot hide a fault
of the data. Rules and skills are asked only what is wrong with them.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from onhand import Rules, Skills
from requirements import requirement

PROJECT = Path(__file__).parents[2] / "examples" / "sample-project"
PAGES = sorted((PROJECT / ".AGENTS").rglob("*.md"))
QUERIES = Path(__file__).with_name("context_queries.jsonl").read_text(encoding="utf-8").splitlines()

pytestmark = requirement("project.sample-project-is-real")


def judged() -> list[dict[str, Any]]:
    return [json.loads(line) for line in QUERIES]


def headings(page: Path) -> set[str]:
    lines = page.read_text(encoding="utf-8").splitlines()
    hashed = {line.lstrip("#").strip() for line in lines if line.startswith("#")}
    return hashed | {line for line, next_line in pairwise(lines) if re.fullmatch(r"=+|-{4,}", next_line)}


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def test_the_project_is_of_a_size_that_nobody_would_paste_into_a_prompt() -> None:
    sizes = {page.name: page.stat().st_size for page in PAGES}
    assert 22 <= len(PAGES) <= 30
    assert 90_000 <= sum(sizes.values()) <= 130_000
    assert sizes["overview.md"] + sizes["conventions.md"] + sizes["change-freeze.md"] < 6_000


def test_the_conventions_forbid_guessing_and_name_the_search() -> None:
    text = (PROJECT / ".AGENTS" / "conventions.md").read_text(encoding="utf-8")
    assert "Do not guess" in text
    assert "search the project context first" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_the_pages_resolves(page: Path) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).is_file()] == []


def test_every_judged_answer_is_a_heading_of_its_page() -> None:
    answers = {(answer["path"], answer["section"]) for row in judged() for answer in row["relevant"]}
    assert {path for path, _ in answers} <= {page.relative_to(PROJECT).as_posix() for page in PAGES}
    assert [(path, name) for path, name in answers if name not in headings(PROJECT / path)] == []


def test_the_judged_queries_are_sixty_of_all_kinds_and_each_asks_something_else() -> None:
    kinds = Counter(row["kind"] for row in judged())
    assert kinds == {"plain": 22, "identifier": 12, "paraphrase": 10, "multi": 6, "unicode": 4, "none": 6}
    assert len({row["query"] for row in judged()}) == 60


def test_the_queries_without_an_answer_share_no_word_with_the_project() -> None:
    corpus = words(" ".join(page.read_text(encoding="utf-8") for page in PAGES))
    unanswered = [row for row in judged() if row["kind"] == "none"]
    assert [row["relevant"] for row in unanswered] == [[]] * len(unanswered)
    assert {word for row in unanswered for word in words(row["query"])} & corpus == set()
    assert all(row["relevant"] for row in judged() if row["kind"] != "none")


def script(skill: str, name: str) -> str:
    return str(PROJECT / Skills(PROJECT, home=None).get(skill).directory / "scripts" / name)


def run(*command: str) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_the_root_and_one_directory_have_rules_whose_links_all_lead_somewhere() -> None:
    rules = Rules(PROJECT)
    assert rules.paths() == ("AGENTS.md", "services/ledger/AGENTS.md")
    assert rules.check() == ()
    linked = {reference.path for reference in rules.references() if reference.source == "AGENTS.md"}
    assert len(linked) >= 8
    assert linked <= {page.relative_to(PROJECT).as_posix() for page in PAGES}


def test_its_skills_keep_to_the_specification_without_a_warning_and_bring_references_and_scripts() -> None:
    skills = Skills(PROJECT, home=None)
    assert [skill.name for skill in skills.all()] == ["change-a-price", "close-receipt-gaps", "write-release-notes"]
    assert [checked.verdict for checked in skills.validate()] == [((), ())] * 3
    assert skills.problems() == ()
    references = [one for skill in skills.all() for one in skills.references(skill.name)]
    assert [(one.line > 0, one.problem) for one in references] == [(True, None)] * 3
    scripts = {one.qualified_name for skill in skills.all() for one in skills.scripts(skill.name)}
    assert scripts == {"change-a-price:check_rules", "close-receipt-gaps:gaps"}


def test_the_rules_that_a_skill_gives_as_examples_pass_its_own_check_and_bad_ones_do_not(tmp_path: Path) -> None:
    check = script("change-a-price", "check_rules.py")
    page = PROJECT / Skills(PROJECT, home=None).get("change-a-price").directory / "references" / "rules-by-example.md"
    examples = re.findall(r"^```json\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    good = tmp_path / "good.json"
    good.write_text(f"[{','.join(examples)}]", encoding="utf-8")
    assert run(sys.executable, check, str(good)) == (0, "3 rules, nothing to mend\n")
    bad = tmp_path / "bad.json"
    bad.write_text('[{"town": "bremen", "condition": {"not": {"moon": "full"}}, "effect": {"fee": 1.5}}]')
    code, said = run(sys.executable, check, str(bad))
    assert code == 1
    assert [line.partition(": ")[2] for line in said.splitlines()] == [
        "there is no town 'bremen'",
        "it needs a priority, a whole number",
        "there is no condition 'moon'",
        "fee is 1.5: amounts are whole numbers of the smallest unit",
    ]


@pytest.mark.skipif(os.name == "nt", reason="needs sh, sort and awk")
def test_the_script_for_receipt_gaps_names_every_gap_of_every_dock(tmp_path: Path) -> None:
    gaps = script("close-receipt-gaps", "gaps.sh")
    receipts = tmp_path / "receipts.csv"
    receipts.write_text("dock_id,counter\ndock-2,9\ndock-17,88119\ndock-17,88123\ndock-2,10\ndock-17,88120\n")
    assert run("sh", gaps, str(receipts)) == (0, "tw dock resend dock-17 --from 88121   # 2 missing\n")
    receipts.write_text("dock_id,counter\ndock-2,9\ndock-2,10\n")
    assert run("sh", gaps, str(receipts)) == (0, "no gaps\n")
