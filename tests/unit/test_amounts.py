"""Does a number stand beside its noun as a person writes it?"""

import pytest

from onhand.amounts import counted


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (1, "tool", "1 tool"),
        (0, "tool", "0 tools"),
        (12_345, "tool", "12,345 tools"),
        (1, "directory", "1 directory"),
        (2, "more directory", "2 more directories"),
        (2, "day", "2 days"),
        (2, "search", "2 searches"),
        (3, "address", "3 addresses"),
    ],
)
def test_a_noun_has_the_form_that_its_number_asks_for(number: int, noun: str, said: str) -> None:
    assert counted(number, noun) == said
