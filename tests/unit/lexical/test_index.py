"""Does the ranking behave as BM25 promises, and can every hit say why?"""

from itertools import permutations
from math import inf, log, nan

import pytest

from onhand.document import Contribution, Match
from onhand.errors import InputError
from onhand.lexical.index import LexicalIndex
from onhand.lexical.scoring import BM25, BM25_PLUS, MAX_QUESTION_TERMS, Formula, get_ranking, query_weights
from onhand.lexical.tokenizer import PlainTokenizer
from requirements import requirement
from stores import ALL, lexical_index


def index_of(**texts: str) -> LexicalIndex:
    index = lexical_index()
    for document_id, text in texts.items():
        index.add(document_id, text)
    return index


def ids(matches: list[Match]) -> list[str]:
    return [match.id for match in matches]


def score(index: LexicalIndex, query: str, document_id: str) -> float:
    return {match.id: match.score for match in index.search(query, ALL)}[document_id]


@requirement("lexical.bm25-formula")
def test_a_score_is_the_formula_written_out() -> None:
    index = index_of(a="wind wind rain", b="snow", c="hail hail")
    idf = log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    assert score(index, "wind", "a") == pytest.approx(idf * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 3 / 2)))


@requirement("lexical.bm25-plus-formula")
def test_bm25_plus_adds_its_delta_to_every_term_that_is_there() -> None:
    plain, plus = (lexical_index(formula=Formula(1.2, 0.75, delta)) for delta in (0.0, 1.0))
    for index in (plain, plus):
        index.add("a", "wind and rain")
        index.add("b", "snow")
    idf = log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    assert score(plus, "wind", "a") == pytest.approx(score(plain, "wind", "a") + idf)
    assert ids(plus.search("wind")) == ["a"]


@requirement("lexical.length-normalised")
def test_a_long_section_does_not_win_by_being_long() -> None:
    index = index_of(long="cache " + "filler words go here " * 50, short="cache of pages")
    assert ids(index.search("cache")) == ["short", "long"]


@requirement("lexical.length-normalised")
def test_the_tenth_occurrence_adds_less_than_the_second() -> None:
    counted = [index_of(a="cache " * count + "rest " * (20 - count), b="rest " * 20) for count in (1, 2, 9, 10)]
    one, two, nine, ten = (score(index, "cache", "a") for index in counted)
    assert 0 < ten - nine < two - one


@requirement("lexical.rare-terms-weigh-more")
def test_a_rarer_term_contributes_more_than_a_common_one() -> None:
    index = index_of(a="common rare", b="common", c="common", d="other")
    contributions = {c.term: c.score for c in index.explain("common rare", ["a"])[0]}
    assert contributions["rare"] > contributions["common"] > 0


@requirement("lexical.rare-terms-weigh-more", "lexical.only-positive-scores")
def test_a_term_that_every_document_has_still_counts_a_little() -> None:
    index = index_of(a="word", b="word", c="word")
    assert all(0 < match.score < 0.2 for match in index.search("word"))
    assert len(index.search("word")) == 3


@requirement("lexical.query-terms-count-once")
def test_a_word_repeated_in_the_query_is_not_a_vote() -> None:
    index = index_of(a="wind and rain", b="snow and rain")
    assert index.search("wind snow snow snow") == index.search("wind snow")
    assert index.explain("wind wind", ["a"])[0] == index.explain("wind", ["a"])[0]


@requirement("lexical.long-queries-tell-by-repeating")
def test_in_a_query_as_long_as_a_text_a_repeated_word_counts_more_but_never_more_than_it_is_said() -> None:
    once = " ".join(f"word{number}" for number in range(10 * MAX_QUESTION_TERMS))
    weights = query_weights(PlainTokenizer(), once + " wind" * 9 + " rain")
    assert weights["rain"] == weights["word1"] == 1
    assert 6 < weights["wind"] < 9


@requirement("lexical.query-terms-count-once", "lexical.long-queries-tell-by-repeating")
def test_repeating_begins_to_tell_only_beyond_the_length_of_a_question() -> None:
    question = " ".join(f"word{number}" for number in range(MAX_QUESTION_TERMS - 1))
    assert query_weights(PlainTokenizer(), question + " wind" * 9)["wind"] == 1
    assert 1 < query_weights(PlainTokenizer(), question + " rain" + " wind" * 9)["wind"] < 1.1


@requirement("lexical.query-repeats-optional")
def test_counting_repeats_is_an_option() -> None:
    index = lexical_index(PlainTokenizer(), count_repeats=True)
    index.add("a", "wind rain")
    index.add("b", "snow rain")
    assert score(index, "wind wind wind", "a") == pytest.approx(3 * score(index, "wind", "a"))
    assert ids(index.search("wind snow snow")) == ["b", "a"]
    assert index.explain("wind wind", ["a"])[0][0].score == pytest.approx(2 * index.explain("wind", ["a"])[0][0].score)


@requirement("lexical.no-match-is-empty", "lexical.only-positive-scores")
@pytest.mark.parametrize("query", ["hail", "", "   ", "?!", "\0", "the the"])
def test_what_shares_no_term_with_the_query_is_not_a_hit(query: str) -> None:
    assert index_of(a="wind and rain", b="").search(query, ALL) == []


@requirement("lexical.no-match-is-empty")
@pytest.mark.parametrize("query", ["", "wind"])
def test_an_empty_index_gives_no_hits(query: str) -> None:
    index = lexical_index()
    assert index.search(query) == []
    assert len(index) == 0


@requirement("lexical.no-match-is-empty")
def test_documents_without_words_are_not_hits_and_do_no_harm() -> None:
    index = index_of(a="", b="?!", c="\0")
    assert index.search("wind") == []
    index.add("d", "wind")
    assert ids(index.search("wind")) == ["d"]


@requirement("lexical.only-positive-scores")
def test_only_documents_with_a_term_of_the_query_are_hits() -> None:
    assert ids(index_of(a="wind", b="rain", c="wind rain", d="snow").search("wind", ALL)) == ["a", "c"]


@requirement("lexical.deterministic-order")
@pytest.mark.parametrize("order", list(permutations(["a", "b", "B", "é"])))
def test_equal_scores_are_ordered_by_id_whatever_the_order_of_insertion(order: tuple[str, ...]) -> None:
    index = index_of(**dict.fromkeys(order, "same words"))
    assert ids(index.search("words")) == sorted(order)
    assert ids(index.search("words", 2)) == sorted(order)[:2]


@requirement("lexical.deterministic-order")
def test_the_better_score_comes_before_the_smaller_id() -> None:
    assert ids(index_of(a="wind and more", z="wind").search("wind")) == ["z", "a"]


@requirement("lexical.limit")
@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (-1, 0), (1, 1), (10, 10), (25, 25), (26, 25), (2**63, 25)])
def test_at_most_the_asked_number_of_hits_comes_back_and_the_best_ones(limit: int, expected: int) -> None:
    index = index_of(**{f"d{n:02}": "wind " + "more " * n for n in range(25)})
    everything = index.search("wind", ALL)
    assert index.search("wind", limit) == everything[:expected]
    assert len(everything) == 25
    assert ids(everything) == sorted(ids(everything))


@requirement("lexical.limit")
def test_ten_hits_come_back_when_nothing_is_asked() -> None:
    assert len(index_of(**{f"d{n}": "wind" for n in range(25)}).search("wind")) == 10


@requirement("lexical.weighted-fields", "lexical.hits-explain-themselves")
def test_a_field_weight_multiplies_its_terms_and_the_explanation_names_the_field() -> None:
    index = lexical_index(fields={"title": 3.0, "body": 1.0})
    index.add("in-body", {"title": "rain", "body": "wind"})
    index.add("in-title", {"title": "wind", "body": "rain"})
    index.add("in-both", {"title": "wind", "body": "wind"})
    assert ids(index.search("wind")) == ["in-both", "in-title", "in-body"]
    in_title, in_body = index.explain("wind", ["in-both"])[0]
    assert (in_title.term, in_title.field, in_body.field) == ("wind", "title", "body")
    assert in_title.score == pytest.approx(3 * in_body.score)


@requirement("lexical.weighted-fields")
def test_a_word_in_two_fields_is_one_document_that_has_it() -> None:
    two, one = lexical_index(fields={"title": 1.0, "body": 1.0}), lexical_index(fields={"body": 1.0})
    for index in (two, one):
        index.add("a", {"title": "wind", "body": "wind" if index is two else "wind wind"})
        index.add("b", {"body": "rain rain"})
    assert two.search("wind") == one.search("wind")


@requirement("lexical.weighted-fields")
def test_with_length_per_field_a_long_body_does_not_drown_a_title() -> None:
    def title_share(per_field_length: bool) -> float:
        index = lexical_index(fields={"title": 1.0, "body": 1.0}, per_field_length=per_field_length)
        index.add("a", {"title": "wind", "body": "rain " * 200})
        index.add("b", {"title": "wind", "body": "rain"})
        return score(index, "wind", "a") / score(index, "wind", "b")

    assert title_share(per_field_length=False) < 0.6
    assert title_share(per_field_length=True) == pytest.approx(1.0)


@requirement("lexical.title-counts-twice")
def test_a_field_that_counts_alone_adds_its_own_saturated_part_to_that_of_the_whole() -> None:
    index = lexical_index(fields={"title": 1.0, "body": 1.0}, per_field_length=True, alone={"title": 0.75})
    index.add("a", {"title": "wind", "body": "wind"})
    index.add("b", {"title": "rain", "body": "snow"})
    idf = log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    assert score(index, "wind", "a") == pytest.approx(idf * (2 * 2.5 / 3.5 + 0.75 * 2.5 / 2.5))
    assert {c.field: c.score / idf for c in index.explain("wind", ["a"])[0]} == pytest.approx(
        {"title": 2.5 / 3.5 + 0.75, "body": 2.5 / 3.5}
    )


@requirement("lexical.title-counts-twice")
def test_a_word_in_title_and_text_beats_the_same_word_said_again_and_again_in_the_text() -> None:
    index = LexicalIndex(get_ranking())
    index.add("said", {"title": "notes of a day", "text": "wind wind wind wind wind and nothing else"})
    index.add("titled", {"title": "wind of a day", "text": "wind and nothing else but the rain there"})
    assert ids(index.search("wind")) == ["titled", "said"]


@pytest.mark.parametrize("alone", [-0.5, nan, inf])
def test_what_a_field_counts_alone_is_refused_when_it_could_not_rank(alone: float) -> None:
    with pytest.raises(InputError, match=r"'body'.*at least 0"):
        lexical_index(fields={"title": 1.0, "body": 1.0}, alone={"body": alone})


def test_a_plain_text_is_the_first_field_and_fields_that_the_index_has_not_are_left_out() -> None:
    index = lexical_index(fields={"title": 2.0, "body": 1.0})
    index.add("a", "wind")
    index.add("b", {"other": "wind"})
    assert index.explain("wind", ["a"])[0][0].field == "title"
    assert ids(index.search("wind")) == ["a"]
    assert "b" in index


@pytest.mark.parametrize("weight", [0, 0.0, -1.0, nan, inf])
def test_a_field_weight_that_could_not_rank_is_refused_with_its_name(weight: float) -> None:
    with pytest.raises(InputError, match=r"'body'.*above 0.*leave it out"):
        lexical_index(fields={"title": 1.0, "body": weight})


@requirement("lexical.hits-explain-themselves")
def test_a_hit_names_its_terms_largest_first_and_nothing_that_it_has_not() -> None:
    index = index_of(a="wind wind rain", b="rain", c="snow")
    contributions = index.explain("snow rain wind", ["a"])[0]
    assert [(c.term, c.field) for c in contributions] == [("wind", "text"), ("rain", "text")]
    assert contributions[0].score > contributions[1].score > 0
    assert sum(c.score for c in contributions) == pytest.approx(score(index, "snow rain wind", "a"))
    assert index.explain("hail", ["a"])[0] == ()
    assert isinstance(contributions[0], Contribution)


@requirement("lexical.hits-explain-themselves")
@pytest.mark.parametrize("formula", [BM25, BM25_PLUS, Formula(1.2, 1.0), Formula(1.2, 0.0), Formula(0.0, 0.75)])
@pytest.mark.parametrize("per_field_length", [False, True])
def test_a_document_with_an_empty_field_can_be_explained(formula: Formula, per_field_length: bool) -> None:
    index = lexical_index(fields={"title": 2.0, "body": 1.0}, formula=formula, per_field_length=per_field_length)
    index.add("a", {"body": "wind and rain"})
    index.add("b", {"title": "rain"})
    assert sum(c.score for c in index.explain("wind", ["a"])[0]) == pytest.approx(score(index, "wind", "a"))


def test_a_document_that_is_not_there_cannot_be_removed_or_explained() -> None:
    index = index_of(a="wind")
    with pytest.raises(KeyError):
        index.remove("b")
    with pytest.raises(KeyError):
        index.explain("wind", ["b"])[0]
    assert ids(index.search("wind")) == ["a"]


@requirement("lexical.incremental")
def test_what_cannot_be_entered_leaves_the_index_as_it_was() -> None:
    index = index_of(a="wind", b="wind rain")
    before = index.search("wind")
    with pytest.raises((AttributeError, TypeError)):
        index.add("a", {"text": 5})  # type: ignore[dict-item]
    assert index.search("wind") == before
    assert len(index) == 2


@requirement("lexical.incremental")
def test_a_replaced_document_is_found_by_its_new_words_alone() -> None:
    index = index_of(a="wind", b="rain")
    index.add("a", "snow")
    assert index.search("wind") == []
    assert ids(index.search("snow")) == ["a"]
    assert len(index) == 2


@requirement("lexical.incremental")
def test_a_removed_document_is_not_found() -> None:
    index = index_of(a="wind", b="wind", c="wind")
    index.remove("b")
    index.add("d", "rain")
    assert ids(index.search("wind")) == ["a", "c"]
    assert ids(index.search("rain")) == ["d"]
    assert "b" not in index
    for document_id in ("a", "c", "d"):
        index.remove(document_id)
    assert (len(index), index.search("wind"), index.search("rain")) == (0, [], [])


@requirement("lexical.incremental")
def test_ten_thousand_replacements_do_not_grow_the_index() -> None:
    index = index_of(a="wind", b="rain")
    for query in ("wind", "rain"):  # the second query sorts what the first looked through
        assert len(index.search(query)) == 1
    for number in range(10_000):
        index.add("a", f"word{number}")
    assert len(index._ids) == 2
    assert len(index._segments) <= 2
    assert ids(index.search("word9999")) == ["a"]


@pytest.mark.parametrize("document_id", ["", " ", "\0", "ключ", "\ud800", "x" * 100_000])
def test_any_string_is_an_id(document_id: str) -> None:
    index = lexical_index()
    index.add(document_id, "wind")
    assert ids(index.search("wind")) == [document_id]
    index.remove(document_id)
    assert index.search("wind") == []


@requirement("lexical.fields-of-metadata")
def test_a_field_has_the_words_that_are_read_of_it_when_entered_explained_and_removed() -> None:
    index = lexical_index(fields={"title": 1.0, "body": 1.0}, reading={"body": lambda text: text.split()[:1]})
    index.add("a", {"title": "one", "body": "two three"})
    assert [match.id for match in index.search("one")] == ["a"]
    assert [(one.term, one.field) for one in index.explain("two three", ["a"])[0]] == [("two", "body")]
    assert index.search("three") == []
    index.remove("a")
    assert index.search("two") == []
