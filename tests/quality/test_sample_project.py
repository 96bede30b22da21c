"""Is the sample project what the judged queries and the demo take it for?

Nothing is searched here: the pages are read as plain lines, so that a fault of the search cannot hide a fault
of the data.
"""

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

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
