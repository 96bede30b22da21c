"""What every corpus promises to one search across everything, shown for each of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from onhand import Context, Document, Documents, Notes, Rules, Skills, open_index
from onhand.corpora.federated import Corpus
from requirements import requirement

TEXTS = {"alpha": "zebra crossing rules", "beta": "zebra zebra stripes", "gamma": "quokka"}


def context(directory: Path) -> Corpus:
    (directory / ".AGENTS").mkdir()
    for name, text in TEXTS.items():
        (directory / f".AGENTS/{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
    return Context(directory)


def rules(directory: Path) -> Corpus:
    for name, text in TEXTS.items():
        (directory / name).mkdir()
        (directory / name / "AGENTS.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
    return Rules(directory)


def notes(directory: Path) -> Corpus:
    kept = Notes(directory / "notes")
    for name, text in TEXTS.items():
        kept.write(name, name, text)
    return kept


def skills(directory: Path) -> Corpus:
    for name, text in TEXTS.items():
        skill = directory / "skills" / name
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {text}\n---\n\n{text}\n", encoding="utf-8")
    return Skills(directory, roots=("skills",), usual=False)


def documents(directory: Path) -> Corpus:
    index = open_index(None, None)
    index.put(Document(name, name, text) for name, text in TEXTS.items())
    return Documents(index)


@pytest.fixture(params=[context, rules, skills, notes, documents], ids=lambda make: make.__name__)
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> Corpus:
    make: Callable[[Path], Corpus] = request.param
    return make(tmp_path)


@requirement("search.everything")
def test_what_matches_is_found_best_first_with_its_text(corpus: Corpus) -> None:
    found = corpus.find("zebra", 10).found
    assert {finding.title.split()[-1] for finding in found} == {"alpha", "beta"}
    assert all("zebra" in finding.text for finding in found)
    assert [finding.score for finding in found] == sorted((finding.score for finding in found), reverse=True)
    assert len({finding.place for finding in found}) == 2


@requirement("search.everything")
def test_no_more_are_found_than_were_asked_for_and_always_the_same(corpus: Corpus) -> None:
    assert len(corpus.find("zebra", 1).found) == 1
    assert corpus.find("zebra", 1).found == corpus.find("zebra", 5).found[:1]
    assert corpus.find("zebra", 5) == corpus.find("zebra", 5)


@requirement("search.everything")
def test_a_miss_is_empty_and_has_a_reason(corpus: Corpus) -> None:
    missed = corpus.find("wombat", 5)
    assert missed.found == ()
    assert missed.reason
