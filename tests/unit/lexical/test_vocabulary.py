"""Is every written word found by each of its forms, looked through or learnt?"""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from onhand.lexical.tokenize import IdentifierTokenizer
from onhand.lexical.vocabulary import LearntVocabulary, ScannedVocabulary
from requirements import requirement

FORMS = IdentifierTokenizer(stems=True).forms
WORDS = [
    "tries",
    "policy",
    "Policies",
    "readFile",
    "read_file",
    "GitHub",
    "APIs",
    "caching",
    "cached",
    "foo_foo",
    "ß",
    "日本",
]


def expected(words: list[str], term: str) -> list[str]:
    return sorted(word for word in words for form in FORMS(word) if form == term)


def learnt(words: list[str]) -> LearntVocabulary:
    vocabulary = LearntVocabulary(FORMS)
    vocabulary.learn(words)
    return vocabulary


@requirement("lexical.joined-and-split")
def test_a_word_is_found_by_every_form_and_counted_as_often_as_it_has_it() -> None:
    for vocabulary in (ScannedVocabulary(FORMS, WORDS), learnt(WORDS)):
        assert sorted(vocabulary.words_of("cach")) == ["cached", "caching"]
        assert vocabulary.words_of("foo") == ["foo_foo", "foo_foo"]
        assert sorted(vocabulary.words_of("polici")) == ["Policies", "policy"]
        assert vocabulary.words_of("try") == ["tries"]
        assert vocabulary.words_of("ss") == ["ß"]
        assert vocabulary.words_of("nothing") == []


words = st.lists(st.from_regex(r"[\w-]{1,12}", fullmatch=True) | st.sampled_from(WORDS), unique=True, max_size=12)


@requirement("lexical.joined-and-split")
@given(words)
def test_looking_through_finds_what_learning_finds(words: list[str]) -> None:
    scanned, whole = ScannedVocabulary(FORMS, words), learnt(words)
    for term in {form for word in words for form in FORMS(word)}:
        assert sorted(scanned.words_of(term)) == sorted(whole.words_of(term)) == expected(words, term)


@requirement("lexical.incremental")
@given(words, st.data())
def test_a_forgotten_word_is_found_by_no_form(words: list[str], data: st.DataObject) -> None:
    vocabulary = learnt(words)
    gone = data.draw(st.sets(st.sampled_from(words)) if words else st.just(set[str]()))
    for word in gone:
        vocabulary.forget(word)
    kept = [word for word in words if word not in gone]
    for term in {form for word in words for form in FORMS(word)}:
        assert Counter(vocabulary.words_of(term)) == Counter(expected(kept, term))
