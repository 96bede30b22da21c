"""Records and messages are translated into each other without loss."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from mail import FORECAST
from onhand import Document, Filter, InputError
from onhand.corpora.documents import DocumentsPage, PagePlace
from onhand.grpc import search_pb2 as wire
from onhand.grpc import translate
from onhand.search.index import AS_DECLARED
from onhand.search.result import Hit, Layer

TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
TEXTS = st.text(max_size=20)


def hit(text: str = "", title: str = "", tags: tuple[str, ...] = (), query: str = "", score: float = 1.0) -> Hit:
    layer = Layer("keyword", 1, score, 1.0)
    return Hit("a", title, "", tags, "", None, "document", "/srv/private/a.md", score, (layer,), text, query)


def sent(hits: list[Hit], **answer: Any) -> wire.SearchResponse:
    page = DocumentsPage(tuple(hits), PagePlace(0, b""), False)._replace(**answer)
    return wire.SearchResponse.FromString(translate.response_of(page).SerializeToString())


@given(
    st.builds(
        Filter,
        st.lists(TEXTS).map(tuple),
        st.lists(TEXTS).map(tuple),
        st.none() | TIMES,
        st.none() | TIMES,
        st.lists(TEXTS).map(tuple),
    )
)
def test_filters_round_trip(filter: Filter) -> None:
    assert translate.filter_of(translate.filter_message(filter)) == filter


@given(
    st.builds(
        Document,
        TEXTS,
        TEXTS,
        TEXTS,
        TEXTS,
        st.lists(TEXTS).map(tuple),
        TEXTS,
        st.none() | TIMES,
        st.dictionaries(TEXTS, st.integers() | TEXTS | st.none() | st.booleans()),
        st.sampled_from(["document", "mail"]),
        TEXTS,
    )
)
def test_documents_round_trip(document: Document) -> None:
    assert translate.document_of(translate.document_message(document, with_source=True)) == document


def test_the_source_of_a_document_is_not_sent_to_searchers() -> None:
    named = FORECAST._replace(source_path="/srv/private/a.eml")
    assert b"/srv/private" not in translate.document_message(named).SerializeToString()
    assert b"/srv/private" not in sent([hit("text")]).SerializeToString()


@given(st.text(max_size=400), st.text(max_size=20))
def test_snippets_round_trip(text: str, query: str) -> None:
    here = hit(text, query=query)
    (there,) = translate.result_of([sent([here])], query, 10).hits
    assert there.snippet == here.snippet


@pytest.mark.parametrize(
    "text", ["&amp;lt;b&amp;gt; &amp;amp;", "a <b>bold</b> &lt;i&gt; word", "1 < 2 &#99999999999;"]
)
def test_text_that_looks_like_markup_round_trips(text: str) -> None:
    (there,) = translate.result_of([sent([hit(text)])], "", 10).hits
    assert there.snippet == hit(text).snippet


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_scores_round_trip_exactly(score: float) -> None:
    (there,) = translate.result_of([sent([hit(score=min(max(score, -1e30), 1e30))])], "", 10).hits
    assert there.score == min(max(score, -1e30), 1e30)
    assert there.layers[0].score == there.score


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [(253_402_300_800, 0), (-62_135_596_801, 0), (0, -1), (0, 1_000_000_000), (2**63 - 1, 0), (-(2**63), 2**31 - 1)],
)
def test_an_invalid_time_is_rejected_with_its_field(seconds: int, nanos: int) -> None:
    message = wire.Filter(created_before=Timestamp(seconds=seconds, nanos=nanos))
    with pytest.raises(InputError) as error:
        translate.filter_of(message)
    assert error.value.field == "filter.created_before"


def test_bounds_between_two_microseconds_are_rounded_up() -> None:
    between = wire.Filter(created_after=Timestamp(seconds=1, nanos=1), created_before=Timestamp(seconds=2, nanos=1000))
    filter = translate.filter_of(between)
    assert filter.created_after == datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)
    assert filter.created_before == datetime(1970, 1, 1, 0, 0, 2, 1, tzinfo=UTC)
    last = wire.Filter(created_after=Timestamp(seconds=253_402_300_799, nanos=999_999_999))
    assert translate.filter_of(last).created_after == datetime.max.replace(tzinfo=UTC)


def test_minimum_scores_of_none_zero_and_minus_one_differ() -> None:
    assert translate.min_score_of(wire.SemanticSearchRequest()) == AS_DECLARED
    assert translate.min_score_of(wire.SemanticSearchRequest(min_score=0)) == 0.0
    assert translate.min_score_of(wire.SemanticSearchRequest(min_score=-1)) is None


@given(st.decimals(-1, 1, places=4))
def test_a_minimum_score_keeps_its_decimal_digits(number: object) -> None:
    request = wire.SemanticSearchRequest(min_score=float(str(number)))
    assert translate.shortest_decimal(request.min_score) == float(str(number))


def test_hits_have_a_limited_size() -> None:
    huge = hit("word " * 100_000, "t" * 1_000_000, tuple(f"{n}" * 1000 for n in range(1000)))
    assert sent([huge]).ByteSize() < 10_000


def test_notes_reveal_no_paths_or_addresses() -> None:
    note = "only words were compared: /home/ops/model.gguf: no such file, and http://10.0.0.1:8080/v1 is gone; GB/s"
    response = sent([], notes=(note,), reason="nothing in C:\\data\\x.db")
    assert response.notes == ["only words were compared: …: no such file, and … is gone; GB/s"]
    assert response.reason == "nothing in …"


@pytest.mark.parametrize("metadata", ["{", "[1]", "1", "[" * 100_000, '"x"', "{}" + " " * 1_000_000])
def test_metadata_that_is_not_an_object_is_rejected(metadata: str) -> None:
    with pytest.raises(InputError) as error:
        translate.document_of(wire.Document(document_id="a", metadata_json=metadata))
    assert error.value.field == "documents.metadata_json"


def test_documents_are_sent_in_batches() -> None:
    documents = [Document(str(number), text="x" * 100) for number in range(10)]
    sizes = [len(message.documents) for message in translate.put_messages(documents, 4, 10_000)]
    assert sizes == [4, 4, 2]
    assert [len(message.documents) for message in translate.put_messages(documents, 100, 250)] == [2] * 5
    assert [len(message.documents) for message in translate.put_messages(documents, 100, 1)] == [1] * 10


def test_pages_become_one_result() -> None:
    pages = [sent([hit("a"), hit("b")], more=True, notes=("note",)), sent([hit("c")], notes=("note",), total=3)]
    result = translate.result_of(pages, "q", 10)
    assert (len(result.hits), result.more, result.notes, result.reason) == (3, False, ("note",), None)
    assert translate.result_of(pages, "q", 2).more
    assert translate.result_of([sent([], reason="why")], "q", 2).reason == "why"


def test_times_are_sent_with_their_microseconds() -> None:
    time = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    message = translate.time_message(time)
    assert message is not None
    assert (message.seconds, message.nanos) == (-1, 999_999_000)
    assert message.ToDatetime(tzinfo=UTC) - time == timedelta(0)
