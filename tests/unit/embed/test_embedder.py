"""Is what a model gave made a vector of length one, and what is one left as it is?"""

from array import array
from math import hypot
from typing import Any

import pytest

from onhand.embed.embedder import unit
from onhand.errors import EmbedderError


def test_numbers_become_a_vector_of_length_one() -> None:
    assert unit([3, 4], "it") == array("f", [0.6, 0.8])
    assert hypot(*unit(array("f", [3, 4]), "it")) == pytest.approx(1, abs=1e-6)
    assert hypot(*unit(array("d", [1e-3, 2e-3]), "it")) == pytest.approx(1, abs=1e-6)


def test_a_vector_of_length_one_stays_as_it_is_to_the_last_bit_and_is_a_copy() -> None:
    vector = unit([0.1, 0.2, 0.3, 0.7], "it")
    again = unit(vector, "it")
    assert again == vector
    again[0] = 5.0
    assert vector[0] != 5.0


@pytest.mark.parametrize("numbers", [[], [0.0], [float("nan")], [float("inf")], array("f", [0.0]), ["x"], None])
def test_what_points_nowhere_is_refused(numbers: Any) -> None:
    with pytest.raises(EmbedderError, match="it is no vector"):
        unit(numbers, "it")
