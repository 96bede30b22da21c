"""Does every Store keep and find documents in the same way? Vectors are in test_store_nearest.py."""

from collections.abc import Callable
from typing import Any

import pytest

from onhand.document import EVERYTHING, Document, Filter
from onhand.errors import InputError, StoreError
from onhand.store import sqlite
from onhand.store.memory import MemoryStore
from onhand.store.store import HEAD_CHARS, Entry, Store, Summary, Tally
from requirements import requirement
from stores import MAIL, NEW_YORK, day, entries, vector

pytestmark = requirement("store.contract")

MANY = 200  # several segments of each size, with merges


def ids(store: Store, query: str, *args: Any, **options: Any) -> list[str]:
    return [match.id for match in store.keyword(query, *args, **options)]


def numbered(count: int) -> list[Document]:
    """Documents that share words in different measure, as some authors write them."""
    return [
        Document(
            f"d{number:04}",
            f"title {number % 7}",
            f"alpha {'beta ' * (number % 5)}gamma{number % 11} number{number}",
            f"author{number % 3}",
            (f"tag{number % 4}", "all"),
            f"scope{number % 2}",
            day(1, minutes=number) if number % 6 else None,
        )
        for number in range(count)
    ]


def test_an_empty_store_answers_everything_with_nothing(store: Store) -> None:
    assert store.get("x") is None
    assert store.delete(["x"]) == 0
    assert (store.keyword("word"), store.heads(["x"]), store.scan(), store.without_vector(5)) == ([], [], [], [])
    assert store.keyword("word", Filter(tags=("a",)), among=["x"]) == []
    assert store.count() == store.vectors() == 0
    assert not store.compare([Document("x")])
    assert not store.facts()
    assert store.summary() == Summary()
    assert store.check() == []
    store.upsert([])
    store.rebuild()
    assert store.count() == 0


def test_what_was_kept_comes_back_whole(store: Store) -> None:
    metadata = {"priority": 3, "to": ["ann", {"deep": None}], "ratio": 0.5, "日本": True}
    document = Document(
        "a", "Title", "Text\nof lines\n", "Ann", ("x", "y"), "s", day(5, microseconds=7), metadata, "mail", "/a.eml"
    )
    store.upsert([Entry(document), Entry(Document("bare"))])
    assert store.get("a") == document
    assert store.get("bare") == Document("bare")
    assert store.count() == 2
    assert [head.text for head in store.heads(["a", "bare"])] == ["Text\nof lines\n", ""]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "a\0b",
        "\x01\x7f\x1b[31m",
        "e" + "\u0301" * 40_000,
        "日本語のテキスト",
        "👩‍👩‍👧 ✂️",
        "\ufeff\u200b",
        "x" * 1_000_000,
        '"; DROP TABLE documents; --',
    ],
    ids=lambda text: ascii(text[:10]),
)
def test_any_text_comes_back_as_it_was(store: Store, text: str) -> None:
    document = Document(f"id{text[:100]}", text, text, text, (text, "tag"), text, None, {"text": text}, text, text)
    store.upsert([Entry(document)])
    assert store.get(document.id) == document
    assert store.compare([document]) == {document.id: True}
    assert store.scan(Filter(tags=(text,))) == [document.id]
    assert store.scan(Filter(scope=(text,))) == [document.id]
    assert store.check() == []


def test_a_document_takes_the_place_of_the_one_of_its_id(store: Store) -> None:
    store.upsert(entries(numbered(20)))
    store.upsert([Entry(Document("d0007", "New", "unheard words", "other"))])
    assert store.count() == 20
    assert store.get("d0007") == Document("d0007", "New", "unheard words", "other")
    assert ids(store, "unheard") == ["d0007"]
    assert ids(store, "number7") == []
    assert store.count(Filter(author=("other",))) == 1
    assert "d0007" not in store.scan(Filter(tags=("all",)), limit=100)


def test_the_last_of_equal_ids_in_one_call_stays(store: Store) -> None:
    store.upsert(entries([Document("a", text="first"), Document("a", text="second")]))
    assert store.count() == 1
    assert (ids(store, "first"), ids(store, "second")) == ([], ["a"])


def test_what_was_deleted_is_gone_from_everywhere(store: Store) -> None:
    store.upsert(entries(numbered(MANY)))
    gone = [f"d{number:04}" for number in range(0, MANY, 3)]
    assert store.delete([*gone, "unknown", gone[0]]) == len(gone)
    assert store.delete(gone) == 0
    assert store.count() == MANY - len(gone)
    assert store.get(gone[0]) is None
    assert store.heads(gone) == []
    assert store.compare([Document(document_id) for document_id in gone]) == {}
    assert not set(gone) & set(ids(store, "alpha", limit=MANY))
    assert not set(gone) & set(store.scan(Filter(tags=("all",)), limit=MANY))
    assert store.check() == []


def test_everything_can_be_deleted_and_kept_again(store: Store) -> None:
    documents = numbered(40)
    store.upsert(entries(documents))
    assert store.delete([document.id for document in documents]) == 40
    assert (store.count(), store.keyword("alpha"), store.check()) == (0, [], [])
    store.upsert(entries(documents))
    assert len(store.keyword("alpha", limit=100)) == 40
    assert store.check() == []


def test_heads_come_in_the_order_asked_for_and_show_only_the_beginning(store: Store) -> None:
    long = Document("long", "Title", "é" * (HEAD_CHARS + 5), created_time=day(4))
    store.upsert(entries([*MAIL, long]))
    heads = store.heads(["long", "missing", "q3", "long"])
    assert [head.id for head in heads] == ["long", "q3", "long"]
    assert heads[0].text == "é" * HEAD_CHARS
    assert heads[1].tags == ("mail", "q3")
    assert (heads[0].created_us, store.heads(["timeless"])[0].created_us) == (1772582400_000000, None)


def test_a_hash_changes_with_anything_in_the_document(store: Store) -> None:
    document = Document("a", "t", "x", "me", ("1", "2"), "s", day(1), {"k": 1}, "kind", "/p")
    changes: dict[str, Any] = {
        "title": "T", "text": "x ", "author": "you", "tags": ("2", "1"), "scope": "", "created_time": None,
        "metadata": {"k": 2}, "kind": "", "source_path": "/q",
    }  # fmt: skip
    store.upsert([Entry(document)])
    assert store.compare([document]) == {"a": True}
    for name, value in changes.items():
        assert store.compare([document._replace(**{name: value})]) == {"a": False}


@requirement("search.keyword-layer")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("forecast", ["q3", "lunch"]),
        ("FORECASTS", ["q3", "lunch"]),
        ("quarter", ["q3"]),
        ("parse http header", ["spec"]),
        ("parse_http_header", ["spec"]),
        ("parseHttpHeader", ["spec"]),
        ("http server", ["spec", "timeless"]),
        ("Q3", ["q3"]),
        ("unheard", []),
        ("", []),
        ("   ", []),
        ("?!", []),
    ],
)
def test_words_identifiers_and_names_are_found(store: Store, query: str, found: list[str]) -> None:
    store.upsert(entries(MAIL))
    assert ids(store, query) == found
    assert store.has_words(query) is any(character.isalnum() for character in query)


@requirement("search.keyword-is-never-syntax")
@pytest.mark.parametrize(
    "query",
    [
        '" OR NEAR( * ^ -',
        "forecast AND NOT quarter",
        '"',
        "title:forecast",
        "forecast*",
        "a OR (",
        "NEAR(a b, 5)",
        "-forecast",
        "{forecast}: ^",
        "%_'; --",
        "\0forecast",
    ],
)
def test_no_query_is_syntax(store: Store, query: str) -> None:
    store.upsert(entries(MAIL))
    words = ["".join(c for c in word if c.isalnum()) for word in query.replace("\0", " ").split()]
    plain = " ".join(words)
    if "forecast" in query:
        assert ids(store, query)[0] in ("q3", "lunch")
    if "_" not in query and ":" not in query:
        assert ids(store, query) == ids(store, plain)


@requirement("search.title-weighs-more")
def test_a_word_in_the_title_counts_more_than_in_the_text(store: Store) -> None:
    store.upsert(
        entries([Document("text", "other thing", "zebra here"), Document("title", "zebra thing", "other here")])
    )
    assert ids(store, "zebra") == ["title", "text"]


def test_explanations_add_up_to_the_score(store: Store) -> None:
    store.upsert(entries([*numbered(50), *MAIL]))
    for query in ("forecast quarter", "title beta gamma3 number3", "parse_http_header"):
        matches = store.keyword(query, limit=20)
        assert matches
        for match in matches:
            assert sum(part.score for part in match.contributions) == pytest.approx(match.score, rel=1e-12)
            assert {part.field for part in match.contributions} <= {"title", "text"}
            assert [part.score for part in match.contributions] == sorted(
                (part.score for part in match.contributions), reverse=True
            )


@requirement("search.ties-are-deterministic")
@pytest.mark.parametrize("filter", [EVERYTHING, Filter(scope=("s",))])
def test_very_many_equal_scores_are_ordered_by_id(store: Store, filter: Filter) -> None:
    documents = [Document(f"{number * 7919 % 1201:04}", text="same words", scope="s") for number in range(1201)]
    store.upsert(entries([*documents, Document("best", text="same words " * 2, scope="s")]))
    assert ids(store, "same words", filter, 6) == ["best", "0000", "0001", "0002", "0003", "0004"]
    assert ids(store, "same words", filter, 2000) == ["best", *sorted(document.id for document in documents)]


@requirement("search.ties-are-deterministic")
def test_the_order_does_not_depend_on_the_order_of_writing(store: Store) -> None:
    documents = numbered(60)
    store.upsert(entries(documents[::-1]))
    twin = MemoryStore()
    twin.upsert(entries(documents))
    for query in ("alpha", "beta gamma3", "title"):
        assert store.keyword(query, limit=60) == twin.keyword(query, limit=60)


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (59, 59), (60, 60), (10**9, 60)])
def test_a_limit_cuts_the_best_off(store: Store, limit: int, count: int) -> None:
    store.upsert(entries(numbered(60)))
    matches = store.keyword("alpha beta", limit=60)
    assert store.keyword("alpha beta", limit=limit) == matches[:count]
    assert store.keyword("alpha beta", Filter(tags=("all",)), limit) == matches[:count]
    assert len(store.scan(limit=limit)) == len(store.scan(Filter(tags=("all",)), limit=limit)) == count
    assert len(store.without_vector(limit)) == count


@requirement("search.filter-is-pushed-down")
def test_among_searches_only_these_ids_with_the_scores_of_all(store: Store) -> None:
    store.upsert(entries(numbered(60)))
    matches = store.keyword("alpha beta", limit=60)
    some = {"d0003", "d0014", "d0044", "unknown"}
    assert store.keyword("alpha beta", limit=60, among=some) == [match for match in matches if match.id in some]
    assert store.keyword("alpha beta", Filter(scope=("scope0",)), 60, some) == [
        match for match in matches if match.id in {"d0014", "d0044"}
    ]
    assert store.keyword("alpha beta", among=[]) == []


Expected = pytest.mark.parametrize(
    ("filter", "expected"),
    [
        pytest.param(Filter(), "q3 lunch spec old timeless dawn", marks=requirement("search.filter-empty")),
        pytest.param(Filter(("Sarah Chen <sarah@x.org>",)), "q3", marks=requirement("search.filter-author")),
        pytest.param(Filter(("sarah",)), "q3 old", marks=requirement("search.filter-author")),
        pytest.param(Filter(("sarah chen",)), "q3 dawn", marks=requirement("search.filter-author")),
        pytest.param(Filter(("SARAH@X.ORG",)), "q3", marks=requirement("search.filter-author")),
        pytest.param(Filter((" ann  lee ",)), "spec", marks=requirement("search.filter-author")),
        pytest.param(Filter(("bob", "ann lee")), "lunch spec", marks=requirement("search.filter-author")),
        pytest.param(Filter(("nobody",)), "", marks=requirement("search.filter-author")),
        pytest.param(Filter(("chen",)), "", marks=requirement("search.filter-author")),
        pytest.param(Filter(tags=("mail",)), "q3 lunch old", marks=requirement("search.filter-tags")),
        pytest.param(Filter(tags=("mail", "old")), "old", marks=requirement("search.filter-tags")),
        pytest.param(Filter(tags=("Mail",)), "", marks=requirement("search.filter-tags")),
        pytest.param(Filter(scope=("sales",)), "q3 old", marks=requirement("search.filter-scope")),
        pytest.param(Filter(scope=("code", "social")), "lunch spec dawn", marks=requirement("search.filter-scope")),
        pytest.param(Filter(scope=("",)), "timeless", marks=requirement("search.filter-scope")),
        (Filter(created_after=day(2)), "q3 spec dawn"),
        (Filter(created_after=day(2, microseconds=1)), "q3"),
        (Filter(created_before=day(2)), "lunch old"),
        (Filter(created_before=day(2, microseconds=1)), "lunch spec old dawn"),
        (Filter(created_after=day(1), created_before=day(2)), "lunch"),
        (Filter(created_after=day(2).astimezone(NEW_YORK), created_before=day(3)), "spec dawn"),
        (Filter(created_after=day(3), created_before=day(2)), ""),
        (Filter(("sarah",), ("mail",), day(1), day(4), ("sales", "social")), "q3"),
    ],
)


@Expected
def test_a_filter_means_the_same_to_list_to_count_and_to_search(store: Store, filter: Filter, expected: str) -> None:
    store.upsert(entries([document._replace(text=document.text + " everywhere") for document in MAIL]))
    wanted = set(expected.split())
    every = store.keyword("everywhere")
    assert set(store.scan(filter)) == wanted
    assert store.count(filter) == len(wanted)
    assert len(every) == len(MAIL)
    assert store.keyword("everywhere", filter) == [match for match in every if match.id in wanted]
    assert ids(store, "unheard", filter) == []


@Expected
def test_a_filter_holds_in_segments_as_in_the_newest_documents(store: Store, filter: Filter, expected: str) -> None:
    store.upsert(entries(numbered(30)))
    store.upsert(entries(MAIL))
    store.upsert(entries(numbered(30)))
    store.delete([document.id for document in numbered(30)])
    assert set(store.scan(filter)) == set(expected.split())


FIELDS: dict[str, Callable[[Document], Any]] = {
    "created_time": lambda document: (document.created_time is not None, document.created_time),
    "title": lambda document: document.title,
    "author": lambda document: document.author,
    "scope": lambda document: document.scope,
    "document_id": lambda document: document.id,
}


@pytest.mark.parametrize("few", [0, 5000])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("field", FIELDS)
@requirement("documents.order-by")
def test_documents_are_listed_by_any_field_and_then_by_id(
    store: Store, field: str, descending: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_SORTED_DOCUMENTS", few)
    documents = [*numbered(25), *MAIL, Document("Ä", "ä"), Document("𝄞", "𝄞", author="zed"), Document("￿", "￿")]
    store.upsert(entries(documents))
    by_id = sorted(documents, key=lambda document: document.id)
    ordered = [document.id for document in sorted(by_id, key=FIELDS[field], reverse=descending)]
    order = f"{field}{' desc' if descending else ''}"
    assert store.scan(order_by=order, limit=100) == ordered
    allowed = {document.id for document in documents if "all" in document.tags}
    filtered = [document_id for document_id in ordered if document_id in allowed]
    assert store.scan(Filter(tags=("all",)), order, 100) == filtered
    pages = [store.scan(Filter(tags=("all",)), order, 7, offset) for offset in range(0, 35, 7)]
    assert [document_id for page in pages for document_id in page] == filtered
    assert store.scan(Filter(tags=("all",)), order, 0) == []


def test_the_default_order_is_newest_first_and_without_a_time_last(store: Store) -> None:
    store.upsert(entries(MAIL))
    assert store.scan() == store.scan(order_by="") == ["q3", "dawn", "spec", "lunch", "old", "timeless"]
    assert store.scan(order_by="scope desc, title", limit=3) == ["dawn", "lunch", "old"]


@pytest.mark.parametrize("order", ["size", "title down", "title, title", ",", "title desc desc", "id; DROP TABLE x"])
def test_an_unknown_order_is_refused(store: Store, order: str) -> None:
    with pytest.raises(InputError, match="order"):
        store.scan(order_by=order)


def test_a_summary_counts_authors_tags_scopes_and_times(store: Store) -> None:
    store.upsert(entries(MAIL))
    summary = store.summary()
    assert summary.documents == 6
    assert summary.tags == Tally((("mail", 3), ("old", 2), ("q3", 2)), 3)
    assert summary.scopes == Tally((("sales", 2), ("social", 2), ("code", 1)), 3)
    assert summary.authors.distinct == 5
    assert summary.authors.most[0] == ("Ann Lee", 1)
    assert (summary.earliest_us, summary.latest_us) == (1772319600_000000, 1772496000_000000)
    store.upsert(entries([Document(f"more{number}", tags=(f"t{number:02}",)) for number in range(20)]))
    assert len(store.summary().tags.most) == 10
    assert store.summary().tags.distinct == 23


def test_documents_without_a_vector_are_named_and_vectors_are_forgotten_on_request(store: Store) -> None:
    store.upsert([Entry(Document("a"), vector(1, 0)), Entry(Document("b")), Entry(Document("c"), vector(0, 1))])
    assert (store.vectors(), store.without_vector(5)) == (2, ["b"])
    store.upsert([Entry(Document("b"), vector(1, 1)), Entry(Document("c"))])
    assert (store.vectors(), store.without_vector(5)) == (2, ["c"])
    store.upsert([Entry(Document("a", "new"))])
    assert (store.vectors(), store.without_vector(5), store.without_vector(1)) == (1, ["a", "c"], ["a"])
    store.delete(["b"])
    assert store.vectors() == 0
    store.upsert([Entry(Document("a", "new"), vector(1, 0))])
    store.clear_vectors({"embedder.name": "other"})
    assert (store.vectors(), store.without_vector(5), store.facts()) == (0, ["a", "c"], {"embedder.name": "other"})
    assert store.check() == []


def test_documents_without_a_vector_are_named_as_far_as_a_filter_lets_them_through(store: Store) -> None:
    tagged = [Document(name, tags=("head",) if name in "bde" else ()) for name in "abcde"]
    store.upsert(entries(tagged))
    heads = Filter(tags=("head",))
    assert (store.without_vector(5, heads), store.without_vector(2, heads)) == (["b", "d", "e"], ["b", "d"])
    store.upsert([Entry(tagged[3], vector(1, 0))])
    assert store.without_vector(5, heads) == ["b", "e"]
    assert store.without_vector(5, Filter(tags=("nobody's",))) == []


def test_facts_are_noted_with_a_write_and_contradicting_ones_are_refused_with_it(store: Store) -> None:
    store.upsert(entries([Document("a")]), {"embedder.name": "one", "embedder.dimension": "2"})
    store.upsert(entries([Document("b")]), {"embedder.name": "one"})
    with pytest.raises(StoreError, match="reembed"):
        store.upsert(entries([Document("c"), Document("a", "changed")]), {"embedder.name": "two"})
    assert store.facts() == {"embedder.name": "one", "embedder.dimension": "2"}
    assert store.count() == 2
    assert store.get("a") == Document("a")


def test_facts_can_be_set_in_place_of_others(store: Store) -> None:
    store.upsert(entries([Document("a")]), {"embedder.name": "one"})
    before = store.generation()
    store.set_facts({"measured": "1"})
    store.set_facts({"measured": "2"})
    assert store.facts() == {"embedder.name": "one", "measured": "2"}
    assert store.generation() != before


def test_a_vector_of_a_document_that_changed_meanwhile_is_not_kept(store: Store) -> None:
    store.upsert(entries([Document("a", text="new"), Document("b", text="same")]))
    old = [
        Entry(Document(name, text=text), vector(1, 0)) for name, text in (("a", "old"), ("b", "same"), ("c", "gone"))
    ]
    store.upsert(old, only_unchanged=True)
    assert store.get("a") == Document("a", text="new")
    assert store.get("c") is None
    assert store.without_vector(5) == ["a"]


@requirement("store.integrity-check")
def test_to_rebuild_changes_no_answer(store: Store) -> None:
    store.upsert(entries(numbered(MANY)))
    store.delete([f"d{number:04}" for number in range(50, 120, 2)])
    store.upsert(entries([document._replace(text="beta alpha") for document in numbered(30)]))
    queries = ("alpha", "beta gamma7", "title 3", "number77")
    before = [store.keyword(query, limit=MANY) for query in queries]
    store.rebuild()
    assert [store.keyword(query, limit=MANY) for query in queries] == before
    assert store.check() == []


def test_a_word_that_one_document_has_very_often_leaves_no_trace_when_that_is_gone(store: Store) -> None:
    store.upsert(entries([Document("often", text="word " * 300), *(Document(f"d{n}", text="word") for n in range(20))]))
    assert ids(store, "word")[0] == "often"
    store.delete(["often"])
    assert "often" not in ids(store, "word", limit=30)
    assert store.check() == []
    store.upsert(entries(numbered(20)))
    assert store.check() == []


def test_the_generation_differs_after_every_write(store: Store) -> None:
    seen = [store.generation()]
    store.upsert(entries([Document("a", "A", "words")]))
    seen.append(store.generation())
    store.upsert(entries([Document("a", "A", "other words")]))
    seen.append(store.generation())
    assert store.generation() == seen[-1]
    store.delete(["a"])
    seen.append(store.generation())
    assert len(set(seen)) == 4


def test_matches_without_explanations_are_the_same_matches(store: Store) -> None:
    store.upsert(entries(MAIL))
    explained = store.keyword("forecast of the server")
    assert explained and all(match.contributions for match in explained)
    assert store.keyword("forecast of the server", explain=False) == [
        match._replace(contributions=()) for match in explained
    ]


def test_a_word_tells_the_more_the_fewer_documents_have_it(store: Store) -> None:
    texts = {"a": "alpha beta", "b": "alpha gamma", "c": "alpha beta delta"}
    store.upsert(entries([Document(name, text=text) for name, text in texts.items()]))
    store.delete(["b"])
    store.upsert(entries([Document("b", text="alpha epsilon")]))
    tells = store.term_weights("alpha beta delta zeta", "a")
    alpha, beta, delta, zeta = (tells[term][0] for term in ("alpha", "beta", "delta", "zeta"))
    assert 0 < alpha < beta < delta < zeta
    assert [tells[term][1] for term in ("alpha", "beta", "delta", "zeta")] == [True, True, False, False]
    assert store.term_weights("gamma", "a")["gamma"] == (zeta, False)  # nobody has it any more
    assert store.term_weights("alpha", "nobody") == {}
    assert store.term_weights("?!", "a") == {}


def test_every_store_says_the_same_of_what_a_query_tells(store: Store) -> None:
    twin = MemoryStore()
    for one in (store, twin):
        one.upsert(entries(numbered(MANY)))
        one.delete(["d0003", "d0100"])
    for query in ("alpha beta gamma3", "number17 title 4 nothing", "alphas gamma-3"):
        assert store.term_weights(query, "d0017") == twin.term_weights(query, "d0017")
