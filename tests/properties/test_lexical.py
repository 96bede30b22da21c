"""Does lexical search keep its promises for whatever texts, queries and changes there are?"""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from onhand.lexical.index import LexicalIndex
from onhand.lexical.scoring import BM25, BM25_PLUS, Formula
from onhand.lexical.snippet import ELLIPSIS, best_window, plain_text
from onhand.lexical.tokenizer import FUNCTION_WORDS, IdentifierTokenizer, PlainTokenizer, Tokenizer, fold, stem
from requirements import requirement
from stores import ALL, lexical_index

# Few words, so that documents share them, and of every kind that the tokenizers tell apart.
WORDS = ["wind", "winds", "rain", "raining", "GitHub", "github", "git", "read_file", "readFile", "file", "DEC-0054",
         "0054", "APIキー", "検索", "全文検索", "Straße", "👍🏽", "the", "—", ""]  # fmt: skip
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
any_text = st.text(st.characters(), max_size=80) | texts

FIELDS = {"title": 2.5, "body": 1.0, "tags": 0.3}
documents = st.fixed_dictionaries(dict.fromkeys(FIELDS, texts))
corpora = st.dictionaries(st.sampled_from("abcdefgh"), documents, min_size=1)
formulas = st.sampled_from([BM25, BM25_PLUS, Formula(1.2, 1.0), Formula(0.9, 0.0, 0.5)])


def tokenizers() -> list[Tokenizer]:
    return [
        PlainTokenizer(),
        IdentifierTokenizer(),
        IdentifierTokenizer(stems=True, stop_words=FUNCTION_WORDS),
        IdentifierTokenizer(joined=False, bigrams=False),
    ]


options = st.fixed_dictionaries(
    {
        "tokenizer": st.builds(tokenizers).flatmap(st.sampled_from),
        "fields": st.sampled_from([FIELDS, {"title": 1, "body": 6}, {"body": 1.0}]),
        "formula": formulas,
        "per_field_length": st.booleans(),
        "alone": st.sampled_from([{}, {"title": 0.75}, {"title": 0.2, "body": 1.0}]),
        "count_repeats": st.booleans(),
    }
)


def built(corpus: dict[str, dict[str, str]], **chosen: Any) -> LexicalIndex:
    index = lexical_index(**chosen)
    for document_id, fields in corpus.items():
        index.add(document_id, fields)
    return index


class Changes(RuleBasedStateMachine):
    """An index through any changes, beside what it should hold."""

    QUERIES = ("wind", "raining github", "read file DEC0054", "検索", "the 👍", " ".join(WORDS))

    def __init__(self) -> None:
        super().__init__()
        self.index = lexical_index(fields=FIELDS)
        self.expected: dict[str, dict[str, str]] = {}

    @rule(document_id=st.sampled_from("abcdefgh"), fields=documents)
    def add_or_replace(self, document_id: str, fields: dict[str, str]) -> None:
        self.index.add(document_id, fields)
        self.expected[document_id] = fields

    @rule(document_id=st.sampled_from("abcdefgh"))
    def remove(self, document_id: str) -> None:
        if document_id in self.expected:
            self.index.remove(document_id)
            del self.expected[document_id]
        else:
            with pytest.raises(KeyError):
                self.index.remove(document_id)

    @rule(query=st.sampled_from(QUERIES))
    def search_between_changes(self, query: str) -> None:
        assert {match.id for match in self.index.search(query)} <= set(self.expected)

    @invariant()
    def it_is_as_if_built_anew(self) -> None:
        anew = built(self.expected, fields=FIELDS)
        for query in self.QUERIES:
            assert self.index.search(query, ALL) == anew.search(query, ALL), "to the last bit"
        assert len(self.index) == len(self.expected)


@given(any_text, st.sampled_from(tokenizers()))
def test_the_words_of_a_text_are_those_between_its_white_space(text: str, tokenizer: Tokenizer) -> None:
    assert tokenizer.words(text) == [word for piece in text.split() for word in tokenizer.words(piece)]


@requirement("lexical.incremental")
def test_after_any_changes_the_index_is_as_if_built_again() -> None:
    run_state_machine_as_test(Changes, settings=settings(max_examples=40, stateful_step_count=25, deadline=None))


@requirement("lexical.deterministic-order")
@settings(deadline=None)
@given(corpora, texts, options, st.randoms(use_true_random=False))
def test_the_order_of_insertion_changes_no_score_and_no_order(
    corpus: dict[str, dict[str, str]], query: str, chosen: dict[str, Any], chance: Any
) -> None:
    shuffled = list(corpus.items())
    chance.shuffle(shuffled)
    matches = built(corpus, **chosen).search(query, ALL)
    assert built(dict(shuffled), **chosen).search(query, ALL) == matches
    assert matches == sorted(matches, key=lambda match: (-match.score, match.id))


@requirement("lexical.hits-explain-themselves", "lexical.weighted-fields", "lexical.only-positive-scores")
@settings(deadline=None)
@given(corpora, texts, options)
def test_contributions_add_up_to_the_score_and_a_miss_has_none(
    corpus: dict[str, dict[str, str]], query: str, chosen: dict[str, Any]
) -> None:
    index = built(corpus, **chosen)
    scores = {match.id: match.score for match in index.search(query, ALL)}
    for document_id in corpus:
        contributions = index.explain(query, [document_id])[0]
        assert math.isclose(math.fsum(c.score for c in contributions), scores.get(document_id, 0.0), rel_tol=1e-12)
        assert all(c.score > 0 and c.field in chosen["fields"] for c in contributions)
        assert bool(contributions) == (document_id in scores)
        for contribution in contributions:
            terms = list(index.ranking.tokenizer.terms(corpus[document_id][contribution.field]))
            assert contribution.term in terms
            assert contribution.term in dict(index.ranking.tokenizer.query_terms(query))


@requirement("lexical.bm25-formula", "lexical.bm25-plus-formula")
@settings(deadline=None)
@given(st.dictionaries(st.sampled_from("abcdefgh"), texts, min_size=1), texts, formulas)
def test_scores_are_those_of_the_formula_computed_the_slow_way(
    corpus: dict[str, str], query: str, formula: Formula
) -> None:
    tokenizer = PlainTokenizer()
    index = lexical_index(tokenizer, formula=formula)
    for document_id, text in corpus.items():
        index.add(document_id, text)
    lists = {document_id: tokenizer.terms(text) for document_id, text in corpus.items()}
    average = Fraction(sum(map(len, lists.values())), len(lists)) or 1
    expected: dict[str, float] = {}
    for document_id, terms in lists.items():
        for term in set(tokenizer.terms(query)) & set(terms):
            having = sum(term in other for other in lists.values())
            idf = math.log(1 + (len(lists) - having + 0.5) / (having + 0.5))
            norm = formula.k1 * (1 - formula.b + formula.b * float(len(terms) / average))
            saturated = terms.count(term) * (formula.k1 + 1) / (terms.count(term) + norm)
            expected[document_id] = expected.get(document_id, 0.0) + idf * (saturated + formula.delta)
    found = {match.id: match.score for match in index.search(query, ALL)}
    assert found == pytest.approx(expected, rel=1e-9)


@requirement("lexical.limit")
@settings(deadline=None)
@given(corpora, texts, st.integers(-3, 12))
def test_a_limit_keeps_the_first_of_all_hits(corpus: dict[str, dict[str, str]], query: str, limit: int) -> None:
    index = built(corpus, fields=FIELDS)
    everything = index.search(query, ALL)
    assert index.search(query, limit) == everything[: max(limit, 0)]


@requirement("lexical.hostile-text-is-bounded", "lexical.no-query-is-syntax")
@settings(max_examples=300, deadline=None)
@given(any_text, any_text, st.integers(-1, 60))
def test_no_text_and_no_query_raises(text: str, query: str, max_chars: int) -> None:
    for tokenizer in tokenizers():
        index = lexical_index(tokenizer)
        index.add("a", text)
        index.search(query)
        index.explain(query, ["a"])
        best_window(text, query, tokenizer, max_chars)
        index.search(f"{query} sorted")
        index.remove("a")
        assert index.search(query) == []


@requirement("lexical.scripts")
@settings(deadline=None)
@given(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12), any_text)
def test_a_text_is_found_by_every_word_in_it(word: str, around: str) -> None:
    assume(any(character.isalnum() for character in fold(word)))  # some signs that count as letters are only marks
    index = lexical_index()
    index.add("a", f"{around} {word} {around}")
    assert index.search(word), "letters and digits of any script"


@requirement("lexical.stems-stand-beside")
@settings(deadline=None)
@given(any_text)
def test_stems_only_ever_add_terms(text: str) -> None:
    plain, with_stems = (list(IdentifierTokenizer(stems=stems).terms(text)) for stems in (False, True))
    left = list(with_stems)
    for term in plain:
        left.remove(term)
    assert set(left) <= {stem(term) for term in plain}


@given(st.text() | st.text("abcdeginrsty", min_size=1, max_size=12))
def test_a_stem_is_never_longer_and_never_lost(word: str) -> None:
    assert len(stem(word)) <= len(word)
    assert bool(stem(word)) == bool(word)


markup = st.lists(
    st.sampled_from(["<", ">", "</", "<b>", "<img ", "onerror=x", "<script>", "</script>", "<!--", "-->", "&lt;",
                     "&gt;", "&amp;", "&#60;", "&#x3c", ";", "<style", "word", "検索", " ", "\n", "'", '"', "/", "!",
                     "?"])
).map("".join)  # fmt: skip


@requirement("lexical.snippet-is-plain")
@settings(max_examples=500, deadline=None)
@given(markup | any_text, st.integers(-1, 80))
def test_no_text_leaves_markup_in_a_snippet(text: str, max_chars: int) -> None:
    for shown in (plain_text(text), best_window(text, "word 検索", IdentifierTokenizer(), max_chars)):
        folded = shown.casefold()
        assert not any(f"<{sign}" in folded for sign in "abcdefghijklmnopqrstuvwxyz/!?")


@requirement("lexical.snippet-boundaries")
@settings(max_examples=300, deadline=None)
@given(any_text.map(lambda text: text * 5), texts, st.integers(-1, 120))
def test_a_snippet_is_a_stretch_of_the_plain_text_within_its_limit(text: str, query: str, max_chars: int) -> None:
    plain = plain_text(text)
    found = best_window(text, query, IdentifierTokenizer(), max_chars)
    assert len(found) <= max(max_chars, 0)
    if len(plain) <= max_chars:
        assert found == plain
    elif max_chars > 2:
        inner = found[found[0] == ELLIPSIS : len(found) - (found[-1] == ELLIPSIS)]
        assert inner in plain
        assert ELLIPSIS in (found[0], found[-1])


@requirement("lexical.snippet-best-window")
@settings(deadline=None)
@given(st.lists(st.sampled_from(["filler", "wind", "rain", "longerfiller"]), min_size=30, max_size=60))
def test_no_other_window_of_words_has_more_different_terms(words: list[str]) -> None:
    found = best_window(" ".join(words), "wind rain", IdentifierTokenizer(), 40)
    room = 40 - 2 * len(ELLIPSIS)
    best = 0
    for start in range(len(words)):
        end = start + 1
        while end < len(words) and len(" ".join(words[start : end + 1])) <= room:
            end += 1
        best = max(best, len({"wind", "rain"} & set(words[start:end])))
    assert len({"wind", "rain"} & set(found.strip(ELLIPSIS).split())) == best


@requirement("lexical.first-query-sorts-nothing")
@given(corpora, any_text, options, st.sampled_from("abcdefgh"))
def test_what_is_scanned_scores_as_what_is_indexed(
    corpus: dict[str, dict[str, str]], query: str, chosen: dict[str, Any], gone: str
) -> None:
    scanned, indexed = built(corpus, **chosen), built(corpus, **chosen)
    indexed.reader().index_tail()
    for index in (scanned, indexed):
        if gone in index:
            index.remove(gone)
    matches = indexed.search(query, ALL)
    assert scanned.search(query, ALL) == matches
    for match in matches:
        assert scanned.explain(query, [match.id])[0] == indexed.explain(query, [match.id])[0]


@requirement("lexical.scripts")
@given(st.text(st.characters(max_codepoint=0xFF) | st.sampled_from("—→ęΣ語😀"), max_size=40))
def test_western_text_is_read_by_a_table_as_it_is_by_unicode(text: str) -> None:
    tokenizer = IdentifierTokenizer()
    assert tokenizer.words(text) == tokenizer._words_of_any_script(text)
