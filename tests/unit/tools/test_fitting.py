"""An answer that is too large is cut to JSON of the same shape, and says what is missing."""

from typing import NamedTuple

import pytest

from onhand.tools.fitting import cut_value, fit_record, fits, json_bytes
from requirements import requirement

pytestmark = requirement("tools.structured-answers-fit")


def test_a_name_in_a_list_is_whole_or_absent() -> None:
    names = ["a" * 300, "b" * 300]
    assert cut_value(names, 500) == names[:1]


def test_of_a_map_of_numbers_the_first_entries_stay() -> None:
    scores = {f"word{number}": number / 7 for number in range(1000)}
    cut = cut_value({"path": "p", "terms": scores}, 1000)
    assert json_bytes(cut) <= 1000
    assert list(cut["terms"].items()) == list(scores.items())[: len(cut["terms"])]
    assert len(cut["terms"]) > 20


@pytest.mark.parametrize("text", ["\x00" * 9000, '"' * 9000, "𝕏" * 9000, "\ud800" * 9000])
def test_a_text_is_measured_as_json_spells_it(text: str) -> None:
    assert 700 < json_bytes(cut_value(text, 800)) <= 800


class Page(NamedTuple):
    path: str
    text: str
    terms: dict[str, float] | None = None


class Found(NamedTuple):
    query: str
    pages: tuple[Page, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: int = 0


class Silent(NamedTuple):
    names: tuple[str, ...]

    def to_text(self) -> str:
        return "<name>".join(self.names)


def test_a_record_that_fits_is_the_same_record() -> None:
    found = Found("q", (Page("a", "b"),))
    assert fit_record(found, 1000).record is found
    assert fits(found, 1000)
    assert not fits(found, 10)


def test_a_record_loses_items_and_says_so_in_its_own_fields() -> None:
    pages = tuple(Page(str(number), "x" * 100) for number in range(50))
    cut = fit_record(Found("q", pages, ("p" * 50,) * 40, ("by words alone",), 3), 3000).record
    assert isinstance(cut, Found)
    assert json_bytes(cut) <= 3000
    assert cut.pages[:5] == pages[:5]
    assert cut.left_out == 3 + 50 - len(cut.pages)
    assert [note.split(";")[0] for note in cut.notes] == [
        "by words alone",
        f"left out {40 - len(cut.problems)} of 40 problems",
        f"left out {50 - len(cut.pages)} of 50 pages",
    ]


def test_the_largest_text_of_a_record_is_cut_inside_of_it() -> None:
    cut = fit_record(Found("q", (Page("p", "é\n" * 5000),)), 2000).record
    (page,) = cut.pages
    kept, _, marker = page.text.rpartition("\n\n[")
    assert page.path == "p"
    assert kept.startswith("é\né\n")
    assert marker == f"truncated: {15_000 - len(kept.encode())} more bytes]"
    assert 1500 < json_bytes(cut) <= 2000
    assert cut.notes == ("pages: cut; there is no room for more in 2,000 bytes",)


def test_a_record_is_cut_further_when_its_text_is_longer_than_its_json() -> None:
    fitted_record = fit_record(Silent(("ab",) * 1000), 2000)
    assert 100 < len(fitted_record.record.names) < 300
    assert len(fitted_record.text) <= 2000
    (note,) = fitted_record.notes  # the record has no field for it
    assert note.startswith(f"left out {1000 - len(fitted_record.record.names)} of 1,000 names;")
