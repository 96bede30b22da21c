"""The nearest vectors of a table are the same in mapped files and in plain Python."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from onhand.errors import EmbedderError, StoreError
from onhand.store.mmap_vectors import MappedVectors
from onhand.store.vectors import nearest_rows
from requirements import requirement

DIMENSION = 8
Table: TypeAlias = "dict[int, array[float]]"


def unit(chance: random.Random, dimension: int = DIMENSION) -> array[float]:
    numbers = [chance.gauss(0, 1) for _ in range(dimension)]
    length = math.sqrt(sum(number * number for number in numbers))
    return array("f", [number / length for number in numbers])


def table(size: int, seed: int = 1, step: int = 1) -> Table:
    chance = random.Random(seed)
    return {docnum * step: unit(chance) for docnum in range(1, size + 1)}


def above(rows: Table) -> Callable[[int, int], Iterator[tuple[int, bytes]]]:
    return lambda last, _copied: ((docnum, rows[docnum].tobytes()) for docnum in sorted(rows) if docnum > last)


def brute(rows: Table, query: array[float]) -> list[tuple[int, float]]:
    scores = [
        (docnum, min(1.0, math.fsum(a * b for a, b in zip(row, query, strict=True)))) for docnum, row in rows.items()
    ]
    return sorted(scores, key=lambda hit: (-hit[1], hit[0]))


@pytest.fixture
def vectors(tmp_path: Path) -> MappedVectors:
    return MappedVectors(tmp_path / "x.db-vectors", DIMENSION, "t")


def approx(hits: list[tuple[int, float]]) -> list[tuple[int, Any]]:
    return [(docnum, pytest.approx(score, abs=1e-12)) for docnum, score in hits]


@requirement("search.vectors-on-disk")
@pytest.mark.parametrize("step", [1, 3])
def test_the_nearest_come_in_order_with_their_products(vectors: MappedVectors, step: int) -> None:
    rows = table(500, step=step)
    vectors.catch_up(above(rows))
    query = unit(random.Random(9))
    assert (len(vectors), vectors.last_docnum) == (500, 500 * step)
    assert vectors.nearest(query) == approx(brute(rows, query)[:10])
    assert vectors.nearest(query, limit=3) == approx(brute(rows, query)[:3])
    assert vectors.nearest(query, limit=10**9) == approx(brute(rows, query))


@requirement("search.vectors-on-disk")
@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("share", [0.002, 0.05, 0.3, 0.7, 1.0])
def test_a_filter_finds_exactly_the_nearest_of_the_allowed_docnums(
    vectors: MappedVectors, step: int, share: float
) -> None:
    rows = table(2000, step=step)
    vectors.catch_up(above(rows))
    chance = random.Random(4)
    allowed = sorted(chance.sample(sorted(rows), int(len(rows) * share)))
    deleted = sorted(chance.sample(sorted(rows), 200))
    query = unit(chance)
    expected = [hit for hit in brute(rows, query) if hit[0] in set(allowed) - set(deleted)][:10]
    assert vectors.nearest(query, allowed=allowed, deleted=deleted) == approx(expected)


def test_a_score_is_the_same_to_the_last_bit_however_its_row_was_found(vectors: MappedVectors) -> None:
    rows = table(3000)
    vectors.catch_up(above(rows))
    query = unit(random.Random(5))
    everything = dict(vectors.nearest(query, limit=3000))
    for allowed in ([7], [7, 8, 2999], list(range(1, 400)), list(range(1, 2900))):
        for docnum, score in vectors.nearest(query, allowed=allowed, limit=5):
            assert score == everything[docnum]


def test_deleted_and_unknown_docnums_do_not_count(vectors: MappedVectors) -> None:
    rows = table(50)
    vectors.catch_up(above(rows))
    query = rows[7]
    assert vectors.nearest(query, limit=1)[0][0] == 7
    assert 7 not in dict(vectors.nearest(query, deleted=[7, 999], limit=50))
    assert vectors.nearest(query, allowed=[0, 7, 51, 10**12]) == approx([(7, brute(rows, query)[0][1])])
    assert vectors.nearest(query, allowed=[]) == []
    assert vectors.nearest(query, deleted=sorted(rows)) == []


def test_docnums_above_the_snapshot_of_the_caller_do_not_count(vectors: MappedVectors) -> None:
    rows = table(50)
    vectors.catch_up(above(rows))
    found = vectors.nearest(rows[40], upto=30, limit=50)
    assert {docnum for docnum, _ in found} == set(range(1, 31))
    assert vectors.nearest(rows[40], upto=0) == []


def test_all_ties_with_the_last_hit_are_returned(vectors: MappedVectors) -> None:
    rows = table(40)
    for docnum in (3, 17, 29, 33):
        rows[docnum] = rows[5]
    vectors.catch_up(above(rows))
    found = vectors.nearest(rows[5], limit=2)
    assert [docnum for docnum, _ in found] == [3, 5, 17, 29, 33]
    assert len({score for _, score in found}) == 1


@pytest.mark.parametrize("min_score", [None, -1.0, 0.0, 0.3, 1.1])
def test_only_scores_that_reach_the_minimum_are_returned(vectors: MappedVectors, min_score: float | None) -> None:
    rows = table(200)
    vectors.catch_up(above(rows))
    query = unit(random.Random(6))
    expected = [hit for hit in brute(rows, query) if min_score is None or hit[1] >= min_score]
    assert vectors.nearest(query, limit=200, min_score=min_score) == approx(expected)
    assert vectors.nearest(query, limit=4, min_score=min_score) == approx(expected[:4])


def test_a_score_equal_to_the_minimum_counts(vectors: MappedVectors) -> None:
    rows = table(200)
    vectors.catch_up(above(rows))
    query = unit(random.Random(6))
    third = vectors.nearest(query)[2][1]
    assert len(vectors.nearest(query, min_score=third)) == 3


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_finds_nothing(vectors: MappedVectors, limit: int) -> None:
    vectors.catch_up(above(table(5)))
    assert vectors.nearest(unit(random.Random(1)), limit=limit) == []


def test_an_empty_table_has_no_neighbours(vectors: MappedVectors) -> None:
    vectors.catch_up(above({}))
    assert (len(vectors), vectors.last_docnum) == (0, -1)
    assert vectors.nearest(unit(random.Random(1))) == []
    assert vectors.nearest(unit(random.Random(1)), allowed=[1, 2], deleted=[2]) == []


def test_later_rows_are_added_behind_the_earlier_ones(vectors: MappedVectors) -> None:
    rows = table(30)
    for size in (10, 10, 11, 30):
        vectors.catch_up(above({docnum: row for docnum, row in rows.items() if docnum <= size}))
        assert len(vectors) == size
    query = unit(random.Random(2))
    assert vectors.nearest(query) == approx(brute(rows, query)[:10])


def test_a_discarded_copy_is_made_again(vectors: MappedVectors) -> None:
    rows = table(30)
    vectors.catch_up(above(rows))
    vectors.discard()
    assert vectors.nearest(rows[1]) == []
    vectors.catch_up(above(rows))
    assert vectors.nearest(rows[1], limit=1)[0][0] == 1
    assert vectors.check() == []


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (array("f", [1.0] * 7), "has 7 numbers"),
        (array("f"), "has 0 numbers"),
        (array("f", [math.nan] * DIMENSION), "not finite"),
        (array("f", [math.inf] + [0.0] * 7), "not finite"),
    ],
)
def test_a_query_that_cannot_be_compared_is_refused(vectors: MappedVectors, query: array[float], reason: str) -> None:
    vectors.catch_up(above(table(5)))
    with pytest.raises(EmbedderError, match=reason):
        vectors.nearest(query)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([(3, b"\0" * 31)], "docnum 3 has 31 bytes"),
        ([(3, b"\0" * 32), (3, b"\0" * 32)], "Docnum 3 follows docnum 3"),
        ([(4, b"\0" * 32), (3, b"\0" * 32)], "Docnum 3 follows docnum 4"),
        ([(3, array("f", [math.nan] * DIMENSION).tobytes())], "docnum 3 is not finite"),
    ],
)
def test_rows_that_are_not_vectors_are_refused_as_a_whole(
    vectors: MappedVectors, rows: list[tuple[int, bytes]], reason: str
) -> None:
    with pytest.raises(StoreError, match=reason):
        vectors.catch_up(lambda last, _copied: rows)
    assert len(vectors) == 0
    vectors.catch_up(above(table(5)))
    assert len(vectors) == 5


@pytest.mark.parametrize("limit", [0, 1, 7, 2000])
@pytest.mark.parametrize("min_score", [None, 0.2])
def test_plain_python_finds_the_same_as_mapped_files(
    vectors: MappedVectors, limit: int, min_score: float | None
) -> None:
    rows = table(400, step=3)
    rows[9] = rows[6]
    vectors.catch_up(above(rows))
    query = rows[6]
    for allowed in (None, [], [6, 9, 12, 7000], sorted(rows)[::5]):
        expected = vectors.nearest(query, allowed=allowed, limit=limit, min_score=min_score)
        assert nearest_rows(query, above(rows)(0, 0), allowed, limit, min_score) == approx(expected)


def test_plain_python_refuses_a_row_that_is_not_a_vector() -> None:
    with pytest.raises(StoreError, match="docnum 3 has 31 bytes"):
        nearest_rows(unit(random.Random(1)), [(3, b"\0" * 31)])
