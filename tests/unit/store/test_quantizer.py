"""Do two bits for each number lead to the same nearest vectors as all of them?"""

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from onhand.store import mmap_vectors, quantizer
from onhand.store.mmap_vectors import MappedVectors

DIMENSION = 128
SIZE = quantizer.BLOCK * 4 + 1500  # some coded, some not
Floats = NDArray[np.float32]


def of_length_one(rows: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / lengths


def above(rows: Floats) -> Callable[[int, int], Iterator[tuple[int, bytes]]]:
    return lambda last, _copied: ((docnum, rows[docnum].tobytes()) for docnum in range(last + 1, len(rows)))


def kind_of_rows(kind: str, size: int = SIZE, dimension: int = DIMENSION) -> Floats:
    chance = np.random.default_rng(5)
    rows = chance.standard_normal((size, dimension), dtype=np.float32)
    if kind == "clustered":
        rows = rows[chance.integers(0, 300, size)] + rows * np.float32(0.4) + np.float32(0.5)
    if kind == "few numbers":
        rows[:, dimension // 16 :] *= np.float32(0.01)
    return of_length_one(rows)


@pytest.fixture(scope="module", params=["random", "clustered", "few numbers"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[MappedVectors, Floats]:
    rows = kind_of_rows(request.param)
    vectors = MappedVectors(tmp_path_factory.mktemp("codes") / "v", DIMENSION, "t")
    vectors.catch_up(above(rows))
    return vectors, rows


def truth(rows: Floats, query: Floats, limit: int = 10) -> list[int]:
    scores = rows.astype(np.float64) @ query.astype(np.float64)
    best: list[int] = np.argsort(-scores, kind="stable")[:limit].tolist()
    return best


def queries(rows: Floats, count: int = 30) -> Floats:
    chance = np.random.default_rng(8)
    near = rows[chance.integers(0, len(rows), count)] * 2
    return of_length_one(near + chance.standard_normal(near.shape, dtype=np.float32) * np.float32(0.1))


def found(vectors: MappedVectors, query: Floats, **options: object) -> list[int]:
    return [docnum for docnum, _ in vectors.nearest(array("f", query.tobytes()), **options)]  # type: ignore[arg-type]


def test_nearly_all_of_the_nearest_are_found(filled: tuple[MappedVectors, Floats]) -> None:
    vectors, rows = filled
    there = sum(len({*found(vectors, query)} & {*truth(rows, query)}) for query in queries(rows))
    assert there >= 0.98 * 10 * 30


def test_scores_are_those_of_an_exact_search(filled: tuple[MappedVectors, Floats]) -> None:
    vectors, rows = filled
    everything = range(len(rows))
    for query in queries(rows, 5):
        exact = dict(vectors.nearest(array("f", query.tobytes()), allowed=everything, limit=20))
        for docnum, score in vectors.nearest(array("f", query.tobytes())):
            assert score == exact.get(docnum, score)


def test_a_filter_is_exact_however_many_it_lets_through(filled: tuple[MappedVectors, Floats]) -> None:
    vectors, rows = filled
    for share in (0.001, 0.01, 0.1, 0.9):
        allowed = np.sort(np.random.default_rng(2).choice(len(rows), int(len(rows) * share), replace=False))
        for query in queries(rows, 10):
            assert found(vectors, query, allowed=allowed) == allowed[truth(rows[allowed], query)].tolist()


def test_deleted_rows_are_not_found_by_their_codes(filled: tuple[MappedVectors, Floats]) -> None:
    vectors, rows = filled
    for query in queries(rows, 5):
        before = found(vectors, query, limit=20)
        deleted = sorted([*before[:5], SIZE - 1, SIZE + 5])
        assert not {*deleted} & {*found(vectors, query, deleted=deleted)}
        assert {*before[5:15]} - {*deleted} <= {*found(vectors, query, deleted=deleted, limit=20)}


def test_the_few_rows_that_are_not_deleted_are_found(filled: tuple[MappedVectors, Floats]) -> None:
    vectors, rows = filled
    alive = [5, 99, 20_000, 60_000, SIZE - 2]
    deleted = np.setdiff1d(np.arange(SIZE), alive)
    for query in queries(rows, 3):
        assert sorted(found(vectors, query, deleted=deleted)) == alive
        assert found(vectors, query, deleted=deleted, limit=2) == [
            alive[place] for place in truth(rows[alive], query, 2)
        ]


def test_a_minimum_score_is_respected(filled: tuple[MappedVectors, Floats]) -> None:
    vectors, rows = filled
    query = queries(rows, 1)[0]
    scores = [score for _, score in vectors.nearest(array("f", query.tobytes()))]
    assert [score for _, score in vectors.nearest(array("f", query.tobytes()), min_score=scores[3])] == scores[:4]
    assert vectors.nearest(array("f", query.tobytes()), min_score=1.5) == []


def test_a_view_that_ends_among_the_coded_rows_is_searched_exactly_or_by_whole_blocks(
    filled: tuple[MappedVectors, Floats],
) -> None:
    vectors, rows = filled
    for upto in (100, quantizer.BLOCK * 4, SIZE - 700):
        for query in queries(rows, 5):
            hits = found(vectors, query, upto=upto)
            assert max(hits) <= upto
            assert len({*hits} & {*truth(rows[: upto + 1], query)}) >= 9


def test_codes_are_written_once_and_found_again(tmp_path: Path) -> None:
    rows = kind_of_rows("random")
    MappedVectors(tmp_path / "v", DIMENSION, "t").catch_up(above(rows))
    (file,) = (tmp_path / "v").glob("*.codes")
    before = file.stat()
    assert before.st_size == 4 * quantizer.block_type(DIMENSION).itemsize
    again = MappedVectors(tmp_path / "v", DIMENSION, "t")
    again.catch_up(above(rows))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert again.check() == []
    data = bytearray(file.read_bytes())
    data[before.st_size // 2] ^= 1
    file.write_bytes(data)
    (damage,) = MappedVectors(tmp_path / "v", DIMENSION, "t").check()
    assert "1 of 4 blocks of codes" in damage.what


def test_missing_codes_are_written_again(tmp_path: Path) -> None:
    rows = kind_of_rows("random")
    MappedVectors(tmp_path / "v", DIMENSION, "t").catch_up(above(rows))
    (file,) = (tmp_path / "v").glob("*.codes")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2 + 10])
    vectors = MappedVectors(tmp_path / "v", DIMENSION, "t")
    vectors.catch_up(above(rows))
    assert file.read_bytes() == whole
    assert vectors.check() == []


@pytest.mark.parametrize("dimension", [quantizer.MIN_DIMENSION, 129, 200, 384])
def test_any_dimension_can_be_coded(dimension: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap_vectors, "MIN_QUANTIZED_ROWS", quantizer.BLOCK)
    rows = kind_of_rows("random", quantizer.BLOCK + 10, dimension)
    vectors = MappedVectors(tmp_path / "v", dimension, "t")
    vectors.catch_up(above(rows))
    there = sum(len({*found(vectors, query)} & {*truth(rows, query)}) for query in queries(rows))
    assert there >= 0.98 * 10 * 30


def test_equal_vectors_and_a_zero_query_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap_vectors, "MIN_QUANTIZED_ROWS", quantizer.BLOCK)
    one = array("f", [1.0] + [0.0] * (DIMENSION - 1))
    vectors = MappedVectors(tmp_path / "v", DIMENSION, "t")
    vectors.catch_up(lambda last, _copied: ((docnum, one.tobytes()) for docnum in range(last + 1, quantizer.BLOCK)))
    assert len(vectors.nearest(one)) == quantizer.BLOCK
    nothing = array("f", [0.0] * DIMENSION)
    assert {score for _, score in vectors.nearest(nothing)} == {0.0}
