"""Does one search bring what all corpora have, in one honest order, whatever becomes of one of them?"""

from pathlib import Path

import pytest

import onhand
from onhand import InputError, Notes, StoreError
from onhand.corpora.federated import (
    MAX_LIMIT,
    Corpus,
    FederatedResult,
    FederatedSearch,
    Finding,
    Findings,
)
from onhand.project import open_index
from requirements import requirement


class Fixed:
    """A corpus of given findings, scored as it likes."""

    def __init__(self, *texts: str, score: float = 1.0) -> None:
        self.texts, self.score, self.asked = texts, score, list[tuple[str, int]]()

    def find(self, query: str, limit: int) -> Findings:
        self.asked.append((query, limit))
        found = [Finding(text, "", text, self.score / rank) for rank, text in enumerate(self.texts, 1)]
        return Findings(tuple(found[:limit]), None if found else "nothing here")


def broken() -> Corpus:
    raise StoreError("the file is damaged: import again")


def texts(result: FederatedResult) -> list[str]:
    return [f"{hit.kind}: {hit.finding.text}" for hit in result.hits]


@requirement("search.everything")
def test_findings_rank_by_shared_words_whatever_scores_their_corpora_use() -> None:
    loud = Fixed("a zebra among many other animals of the field", score=1000.0)
    quiet = Fixed("zebra crossing", "crossing the zebra road", score=0.001)
    everything = FederatedSearch({"rules": lambda: loud, "notes": lambda: quiet})
    result = everything.search("zebra crossing")
    assert texts(result)[0] == "notes: zebra crossing"
    assert [hit.rank for hit in result.hits if hit.kind == "notes"] == [1, 2]
    assert result.hits[0].words_rank == 1
    assert result.hits[0].score == 1.0
    scores = [hit.score for hit in result.hits]
    assert scores == sorted(scores, reverse=True)
    assert everything.search("zebra crossing") == result


@requirement("search.everything", "notes.never-override")
def test_on_equal_scores_project_files_come_before_notes() -> None:
    corpora = {"rules": lambda: Fixed("rule zebra"), "notes": lambda: Fixed("note zebra")}
    assert texts(FederatedSearch(corpora).search("zebra")) == ["rules: rule zebra", "notes: note zebra"]


@requirement("search.everything")
def test_findings_without_shared_words_follow_those_with_some() -> None:
    everything = FederatedSearch({"a": lambda: Fixed("other words"), "b": lambda: Fixed("zebra")})
    result = everything.search("zebra")
    assert [(hit.finding.text, hit.words_rank) for hit in result.hits] == [("zebra", 1), ("other words", None)]


@requirement("search.everything")
def test_a_failing_corpus_is_reported_and_the_others_still_answer() -> None:
    everything = FederatedSearch({"documents": broken, "rules": lambda: Fixed("zebra"), "notes": Fixed})
    result = everything.search("zebra")
    assert texts(result) == ["rules: zebra"]
    assert [(one.kind, one.found, one.reason, one.failure) for one in result.searched] == [
        ("documents", 0, None, "the file is damaged: import again"),
        ("rules", 1, None, None),
        ("notes", 0, "nothing here", None),
    ]
    only = everything.search("zebra", ["documents"])
    assert (only.hits, only.searched[0].failure) == ((), "the file is damaged: import again")


@requirement("search.everything")
def test_kinds_select_the_corpora_that_are_opened_and_searched() -> None:
    rules = Fixed("zebra")
    everything = FederatedSearch({"rules": lambda: rules, "documents": broken})
    assert [one.kind for one in everything.search("zebra", ["rules", "rules"]).searched] == ["rules"]
    with pytest.raises(InputError, match="there is no kind 'rulez': choose from rules, documents"):
        everything.search("zebra", ["rulez"])


def test_what_two_corpora_have_is_shown_once() -> None:
    everything = FederatedSearch({"rules": lambda: Fixed("zebra", "quokka zebra"), "context": lambda: Fixed("zebra")})
    assert texts(everything.search("zebra")) == ["rules: zebra", "rules: quokka zebra"]


def test_the_limit_holds_and_each_corpus_is_asked_deep_enough() -> None:
    corpus = Fixed(*(f"zebra {number}" for number in range(60)))
    everything = FederatedSearch({"rules": lambda: corpus})
    assert len(everything.search("zebra", limit=3).hits) == 3
    assert len(everything.search("zebra", limit=MAX_LIMIT).hits) == MAX_LIMIT
    assert [limit for _, limit in corpus.asked] == [10, MAX_LIMIT]
    for limit in (0, MAX_LIMIT + 1):
        with pytest.raises(InputError, match="limit is"):
            everything.search("zebra", limit=limit)


@pytest.mark.parametrize("query", ["", " \n", "\u200b" * 0])
def test_an_empty_query_is_refused(query: str) -> None:
    with pytest.raises(InputError, match="the query is empty"):
        FederatedSearch({}).search(query)


def test_a_miss_names_what_was_searched() -> None:
    result = FederatedSearch({"rules": Fixed, "notes": Fixed}).search("zebra")
    assert (result.hits, result.reason) == ((), "nothing matches in rules, notes")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("ONHAND_DOCUMENTS_EMBEDDER", "none")
    project = tmp_path / "project"
    (project / ".AGENTS").mkdir(parents=True)
    (project / ".AGENTS/a.md").write_text("# Zebra page\n\nA page about it.\n", encoding="utf-8")
    (project / "AGENTS.md").write_text("# Zebra rule\n\nA rule about it.\n", encoding="utf-8")
    Notes(project / ".onhand/notes").write("zebra note", "a note about it", "body")
    monkeypatch.chdir(project)
    return project


@requirement("search.everything")
def test_a_project_is_searched_whole_and_each_hit_says_what_it_is(project: Path) -> None:
    reasons = {one.kind: one.reason for one in onhand.open().search("zebra").searched}
    assert "import some with" in str(reasons["documents"])
    assert "there are no skills here" in str(reasons["skills"])
    with open_index(project / ".onhand/documents.db", None) as index:
        from onhand import Document

        index.put([Document("mail-1", "Zebra mail", "about it")])
    result = onhand.open().search("zebra")
    assert {(hit.kind, hit.finding.place) for hit in result.hits} == {
        ("rules", "AGENTS.md:1-3"),
        ("context", ".AGENTS/a.md:1-3"),
        ("documents", "mail-1"),
        ("notes", "note zebra note"),
    }
    assert [hit.finding.mark for hit in result.hits if hit.kind == "notes"] == [
        "written by an agent, not by the project"
    ]
    assert [hit.kind for hit in onhand.open().search("zebra", kinds=["notes"], limit=5).hits] == ["notes"]


@requirement("search.everything")
def test_a_damaged_file_of_documents_hides_nothing_else(project: Path) -> None:
    (project / ".onhand/documents.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    result = onhand.open(project).search("zebra")
    assert {hit.kind for hit in result.hits} == {"rules", "context", "notes"}
    failures = {one.kind: one.failure for one in result.searched if one.failure}
    assert list(failures) == ["documents"]
    assert failures["documents"]


@requirement("search.everything")
def test_one_place_that_two_corpora_spell_in_two_ways_is_shown_once() -> None:
    corpora = {"rules": Fixed(), "context": Fixed()}
    for kind, place in (("rules", "app/.AGENTS/a.md:1-3"), ("context", ".AGENTS/a.md:1-3")):
        answer = Findings((Finding(place, "Zebras", "zebra", 1.0),))
        corpora[kind].find = lambda query, limit, answer=answer: answer  # type: ignore[method-assign, misc]
    everything = FederatedSearch({kind: (lambda kind=kind: corpora[kind]) for kind in corpora})  # type: ignore[misc]
    assert [(hit.kind, hit.finding.place) for hit in everything.search("zebra").hits] == [
        ("rules", "app/.AGENTS/a.md:1-3")
    ]


def test_one_corpus_may_find_several_things_in_one_place() -> None:
    parts = Findings(tuple(Finding("a.md:1-1", "", f"zebra {part}", 1.0) for part in ("one", "two")))
    corpus = Fixed()
    corpus.find = lambda query, limit: parts  # type: ignore[method-assign]
    result = FederatedSearch({"rules": lambda: corpus, "context": lambda: corpus}).search("zebra")
    assert texts(result) == ["rules: zebra one", "rules: zebra two"]
