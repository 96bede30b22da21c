"""Is every door the same? The same question gives the same answer, page and refusal, whichever way it is asked.

The doors are listed in tests/door.py. What each of them does beyond this is tested beside it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from door import DOORS, Door, Rejected, python_door
from hostile.cases import Case, each
from mail import Concepts, mails
from onhand import Document
from onhand.embed import choose
from onhand.hidden_characters import sanitize_json
from onhand.project import open_index
from requirements import requirement

QUERIES = ["dock sensors", "Q3 forecast", "money back", "DOCK-1007", "who's on call?", "nothing like it", "+ - *"]
FILTERS: list[dict[str, Any]] = [
    {},
    {"author": ["sarah"], "tags": ["email"]},
    {"author": ["bob", "sarah"], "scope": ["inbox"], "created_after": "2026-01-10", "created_before": "2026-06-29"},
    {"created_after": "2026-02-01", "created_before": "2026-01-01"},
    {"tags": ["x' OR 1=1 --"]},
]
# Like those of the public collection: what a query language would obey, what cannot be seen, what is not ASCII.
HOSTILE = [
    *("multi-agent", '"unclosed', "NOT meeting", "col:meeting", "NEAR(a b, x)", "^abc", "{}", "a::b", "100%", "%s%n"),
    *("x'; DROP TABLE documents; --", "**/*.md", "select:dock", "regex:(", "line one\nline two", "alpha\x00beta"),
    *(
        "Übergrößenträger",
        "🚀 deploy",
        "फ़ाइल पढ़ें",
        "อ่านไฟล์",
        "<b>dock</b>",
        "\u202edock",
        "(" * 5000 + "a",
        "tool " * 9000,
    ),
]
INVISIBLE = ["", " ", "\t\n", "\u200d", "\u0301\u0301", "\u200f", "\x00"]
NAMES = list(DOORS)

pytestmark = requirement("grpc.same-as-other-doors")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The corpus of mail in a file, with an embedder that every door finds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        choose, "choose_embedder", lambda wanted, *_: (None, None) if wanted is None else (Concepts(), None)
    )
    path = tmp_path / "documents.db"
    markup = Document(
        "page", "A <b>title</b>", "1 &lt; 2 &amp;amp; <i>dock</i>\r\n" * 50 + "\x1b[2J end", "Ä <ä@x.org>"
    )
    with open_index(path) as index:
        index.put([*mails(), markup, Document("empty")])
    return path


@pytest.fixture(params=NAMES)
def door(request: pytest.FixtureRequest, path: Path) -> Iterator[Door]:
    with DOORS[request.param](path) as it:
        yield it


@pytest.fixture
def python(path: Path) -> Iterator[Door]:
    with python_door(path) as it:
        yield it


def outcome(door: Door, *args: Any, **options: Any) -> Any:
    """The answer, or how it was refused."""
    try:
        return door.search(*args, **options)
    except Rejected as refused:
        return refused.kind


@pytest.mark.parametrize("filter", FILTERS, ids=json.dumps)
def test_every_door_gives_the_same_hits_scores_reasons_and_tokens(
    door: Door, python: Door, filter: dict[str, Any]
) -> None:
    hits = 0
    for verb in ("keyword", "semantic", "fused"):
        for query in QUERIES:
            answer = door.search(verb, query, filter, limit=7)
            assert answer == python.search(verb, query, filter, limit=7), (verb, query)
            hits += len(answer["hits"])
    assert door.search("filter", "", filter, limit=7) == python.search("filter", "", filter, limit=7)
    assert hits or filter in FILTERS[3:]


def test_every_door_takes_the_token_of_every_other(door: Door, path: Path) -> None:
    first = door.search("keyword", "ticket", {}, limit=9)
    rest = []
    for name in NAMES:
        with DOORS[name](path) as other:
            rest.append(other.search("keyword", "ticket", {}, limit=20, page_token=first["next_page_token"]))
    assert len({hit["document_id"] for hit in [*first["hits"], *rest[0]["hits"]]}) == 29
    assert all(page == rest[0] for page in rest)


@pytest.mark.parametrize("order_by", ["", "title", "author desc, created_time", "document_id desc"])
def test_every_door_lists_in_the_same_order_and_counts(door: Door, python: Door, order_by: str) -> None:
    listed = door.search("filter", "", {}, limit=50, order_by=order_by)
    assert listed == python.search("filter", "", {}, limit=50, order_by=order_by)
    assert listed["total"] == 33


@pytest.mark.parametrize("min_score", [None, 0.0, 0.7, 1.0])
def test_every_door_means_the_same_by_a_least_score(door: Door, python: Door, min_score: float | None) -> None:
    asked: tuple[str, str, dict[str, Any]] = ("semantic", "Q3 forecast", {})
    assert door.search(*asked, limit=50, min_score=min_score) == python.search(*asked, limit=50, min_score=min_score)


@pytest.mark.parametrize(
    "options",
    [{"limit": -1}, {"page_token": "AAAA"}, {"page_token": "x" * 19}, {"page_token": "\u2028"}],
    ids=json.dumps,
)
def test_every_door_refuses_the_same(door: Door, options: dict[str, Any]) -> None:
    with pytest.raises(Rejected, match="invalid"):
        door.search("keyword", "dock", {}, **options)


def test_every_door_refuses_an_unknown_order(door: Door) -> None:
    with pytest.raises(Rejected, match="invalid"):
        door.search("filter", "", {}, order_by="created_time desc; drop table x")


def test_every_door_caps_a_limit_that_is_too_large(door: Door, python: Door) -> None:
    answer = door.search("keyword", "ticket", {}, limit=2_147_483_647)
    assert answer == python.search("keyword", "ticket", {}, limit=2_147_483_647)
    assert answer["notes"]


def test_every_door_takes_query_operators_for_words(door: Door, python: Door) -> None:
    for query in HOSTILE:
        first = door.search("keyword", query, {}, limit=5)
        assert first == python.search("keyword", query, {}, limit=5) == door.search("keyword", query, {}, limit=5)


@pytest.mark.parametrize("verb", ["keyword", "semantic", "fused"])
def test_every_door_refuses_a_query_that_nobody_can_see(door: Door, verb: str) -> None:
    assert [outcome(door, verb, query, {}) for query in INVISIBLE] == ["invalid"] * len(INVISIBLE)
    assert outcome(door, verb, "a" * 50_001, {}) == "invalid"


@pytest.mark.parametrize("ranges", [{}, {"first_line": 3, "last_line": 4}, {"first_byte": 5, "max_bytes": 9}])
def test_every_door_reads_the_same_document(door: Door, python: Door, ranges: dict[str, int]) -> None:
    for document_id in ("mail-forecast", "page"):
        got, expected = door.get(document_id, **ranges), python.get(document_id, **ranges)
        got.pop("next", None), expected.pop("next", None)
        assert sanitize_json(got) == sanitize_json(expected)  # a model is shown markers, and a program the text


def test_every_door_reports_an_unknown_document(door: Door) -> None:
    with pytest.raises(Rejected, match=r"failed: .*there is no document 'mail-forecas'.*did you mean"):
        door.get("mail-forecas")
    with pytest.raises(Rejected, match=r"invalid: .*first_line"):
        door.get("mail-forecast", first_line=0)


@pytest.mark.parametrize("case", each("queries", only=lambda case: isinstance(case.sent, str)))
def test_every_door_takes_a_hostile_query_alike(door: Door, python: Door, case: Case) -> None:
    if any(0xD800 <= ord(char) < 0xE000 for char in case.sent):
        pytest.skip("no message can hold half a character")
    assert outcome(door, "keyword", case.sent, {}, limit=5) == outcome(python, "keyword", case.sent, {}, limit=5)
