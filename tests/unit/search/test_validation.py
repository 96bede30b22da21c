"""What may enter an index, and what is refused with which words?"""

from array import array
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from onhand.document import Document, Filter
from onhand.errors import EmbedderError, InputError
from onhand.search import validation
from onhand.search.validation import validate_document, validate_filter, validate_id, validate_query, validate_vector
from requirements import requirement

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2)))


@requirement("documents.bad-input")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"id": ""}, "must be a string of 1 to"),
        ({"id": " \n"}, "must be a string of 1 to"),
        ({"id": "x" * (validation.MAX_ID_CHARS + 1)}, "must be a string of 1 to"),
        ({"id": 5}, "must be a string of 1 to"),
        ({"id": None}, "must be a string of 1 to"),
        ({"title": None}, "'a': title must be a string"),
        ({"text": b"bytes"}, "'a': text must be a string"),
        ({"author": 3}, "'a': author must be a string"),
        ({"scope": ["s"]}, "'a': scope must be a string"),
        ({"tags": None}, "'a': tags must be a list of strings"),
        ({"tags": 7}, "'a': tags must be a list of strings"),
        ({"tags": ("red", 7)}, "'a': tags must be a list of strings"),
        ({"tags": tuple(map(str, range(1001)))}, "at most 1,000"),
        ({"created_time": "some day"}, "'a': created_time must be a datetime"),
        ({"created_time": datetime(2026, 3, 1)}, "without a time zone"),
        ({"created_time": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))}, "1 to 9999"),
        ({"created_time": datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12)))}, "1 to 9999"),
        ({"metadata": {"x": object()}}, "'a': metadata must be serialisable"),
        ({"metadata": {"x": float("nan")}}, "'a': metadata must be serialisable"),
        ({"metadata": {"x": b""}}, "'a': metadata must be serialisable"),
        ({"metadata": [1]}, "'a': metadata must be a mapping"),
        ({"metadata": "text"}, "'a': metadata must be a mapping"),
    ],
)
def test_a_document_that_cannot_be_kept_is_refused_by_name(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        validate_document(Document(**{"id": "a", **fields}))


def test_a_circle_and_a_deep_nest_are_not_metadata() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for metadata in (circle, {"deep": deep}):
        with pytest.raises(InputError, match="metadata"):
            validate_document(Document("a", metadata=metadata))


def test_a_document_is_of_our_type() -> None:
    given: Any = {"id": "a"}
    with pytest.raises(InputError, match=r"onhand\.Document, not dict"):
        validate_document(given)


def test_a_text_that_is_too_long_is_refused_with_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_TEXT_CHARS", 1000)
    assert validate_document(Document("a", text="x" * 1000)).text == "x" * 1000
    with pytest.raises(InputError, match=r"1,001 characters, more than 1,000\. Split it"):
        validate_document(Document("a", text="x" * 1001))


@requirement("documents.bad-input")
def test_halves_of_characters_are_joined_or_marked_wherever_they_stand() -> None:
    half, pair = "a\ud800b", "\ud83d\ude00"
    broken = Document(half, half, pair, half, (half, pair), half, None, {half: [half, pair]}, half, half)
    document = validate_document(broken)
    mended = "a\ufffdb"
    wanted = Document(
        mended, mended, "😀", mended, (mended, "😀"), mended, None, {mended: [mended, "😀"]}, mended, mended
    )
    assert document == wanted


def test_repeated_tags_count_once_and_times_become_utc() -> None:
    document = validate_document(Document("a", tags=("x", "y", "x"), created_time=NOON))
    assert document.tags == ("x", "y")
    assert document.created_time == NOON
    assert document.created_time.tzinfo is UTC


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"author": 5}, "author must be a list of strings"),
        ({"tags": None}, "tags must be a list of strings"),
        ({"scope": (1,)}, "scope must be a list of strings"),
        ({"scope": ("s",) * 1001}, "at most 1,000"),
        ({"created_after": datetime(2026, 3, 1)}, "created_after is 2026-03-01T00:00:00.*time zone"),
        ({"created_before": "yesterday"}, "created_before must be a datetime"),
        ({"created_before": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))}, "1 to 9999"),
    ],
)
def test_a_filter_that_cannot_be_asked_for_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        validate_filter(Filter(**fields))


def test_a_filter_is_of_our_type_and_may_name_its_values_in_any_list() -> None:
    given: Any = {"author": ["sarah"]}
    with pytest.raises(InputError, match=r"onhand\.Filter"):
        validate_filter(given)
    listed: Any = ["sarah", "\ud800"]
    assert validate_filter(Filter(author=listed)) == Filter(author=("sarah", "\ufffd"))


@pytest.mark.parametrize("query", [None, 5, b"bytes", ["words"]])
def test_a_query_is_a_text(query: Any) -> None:
    with pytest.raises(InputError, match="A query must be a string"):
        validate_query(query)
    with pytest.raises(InputError, match="id must be a string"):
        validate_id(query)


def test_a_document_is_not_a_query() -> None:
    longest = validation.MAX_QUERY_CHARS
    assert validate_query("x" * longest) == "x" * longest
    for size in (longest + 1, 10_000_000):
        with pytest.raises(InputError, match=f"use at most {longest:,}"):
            validate_query("x" * size)


NAN, INF = float("nan"), float("inf")


@requirement("search.bad-vectors-are-refused")
@pytest.mark.parametrize(
    ("vector", "said"),
    [
        (array("f", [1, 0, 0]), "3 numbers for it, not 2"),
        (array("f", []), "0 numbers for it, not 2"),
        (array("f", [NAN, 0]), "not finite"),
        (array("f", [INF, 0]), "not finite"),
        (array("f", [0, -INF]), "not finite"),
        (array("f", [INF, -INF]), "not finite"),
        (array("f", [0, 0]), "zeros"),
        (array("f", [1e-9, 0]), "zeros"),
        (["a", "b"], "not numbers"),
        (None, "not numbers"),
        (0.5, "not numbers"),
    ],
)
def test_a_bad_vector_is_refused(vector: Any, said: str) -> None:
    with pytest.raises(EmbedderError, match=said):
        validate_vector(vector, 2, "it")


@pytest.mark.parametrize(
    "vector", [array("f", [3, 4]), array("d", [3, 4]), [3, 4], (3.0, 4.0), array("f", [3e30, 4e30])]
)
def test_a_good_vector_has_length_one_whatever_it_came_in(vector: Any) -> None:
    given = validate_vector(vector, 2, "it")
    assert given.typecode == "f"
    assert list(given) == pytest.approx([0.6, 0.8])
