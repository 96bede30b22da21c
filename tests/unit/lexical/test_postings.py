"""Does a posting hold each occurrence, in order, while documents come and go?"""

from hypothesis import given
from hypothesis import strategies as st

from onhand.lexical.postings import Postings


def held(postings: Postings, word: str) -> list[int]:
    return [slot for posting in postings.of([word]) for slot in posting]


def test_a_slot_stands_once_for_every_occurrence() -> None:
    postings = Postings()
    postings.add(0, ["wind", "rain", "wind"])
    postings.add(1, ["wind"])
    assert held(postings, "wind") == [0, 0, 1]
    assert held(postings, "rain") == [0]


def test_a_slot_that_is_used_again_is_sorted_in() -> None:
    postings = Postings()
    for slot in range(3):
        postings.add(slot, ["wind", "wind"])
    postings.remove(1, ["wind", "wind"])
    assert held(postings, "wind") == [0, 0, 2, 2]
    postings.add(1, ["wind", "rain"])
    assert held(postings, "wind") == [0, 0, 1, 2, 2]
    assert held(postings, "rain") == [1]


def test_a_word_that_no_document_has_any_more_is_forgotten() -> None:
    postings = Postings()
    postings.add(0, ["wind"])
    postings.add(1, ["rain"])
    assert postings.remove(0, ["wind"]) == ["wind"]
    assert postings.of(["wind", "never"]) == []
    assert set(postings.words()) == {"rain"}


def test_asking_for_a_word_does_not_enter_it() -> None:
    postings = Postings()
    assert postings.of(["wind"]) == []
    assert "wind" not in postings


@given(st.dictionaries(st.integers(0, 9), st.lists(st.sampled_from(["wind", "rain", "hail"]), max_size=5)), st.data())
def test_one_that_was_restored_is_as_the_other_was_before_and_after_a_change(
    documents: dict[int, list[str]], data: st.DataObject
) -> None:
    postings, again = Postings(), Postings()
    for slot, words in documents.items():
        postings.add(slot, words)
    again.restore(postings.state())
    for change in (False, True):
        if change:
            slot = data.draw(st.integers(0, 9))
            for one in (postings, again):
                one.remove(slot, documents.get(slot, []))
                one.add(slot, ["wind", "snow"])
        assert set(again.words()) == set(postings.words())
        for word in ("wind", "rain", "hail", "snow"):
            assert held(again, word) == held(postings, word) == sorted(held(again, word))
            assert (word in again) == (word in postings)
    assert again.state() == postings.state()
