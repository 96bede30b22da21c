"""Does text that was made to hurt neither crash the search nor take unbounded time?

The sizes are such that quadratic work would run into the timeout by hours.
"""

import base64
import random
from collections.abc import Callable

import pytest

from onhand.lexical.tokenizer import IdentifierTokenizer, PlainTokenizer
from requirements import requirement
from stores import ALL, lexical_index

pytestmark = [requirement("lexical.hostile-text-is-bounded"), pytest.mark.timeout(60)]

MB = 1_000_000

HOSTILE: dict[str, Callable[[], str]] = {
    "combining marks": lambda: "a" + "\u0301" * 40_000,
    "mixed combining marks": lambda: "a" + "\u0301\u0327\u0316\u0345" * 25_000,
    "voiced marks": lambda: "か" + "\u3099\u309a" * 500_000,
    "half-width voiced marks": lambda: "ﾊ" + "ﾞﾟ" * 500_000,
    "hangul jamo": lambda: "\u1100\u1161\u11a8" * 300_000,
    "one word": lambda: "x" * 10 * MB,
    "one word of many parts": lambda: "aB" * 5 * MB,
    "dashes": lambda: "-" * 10 * MB,
    "underscores": lambda: "_-" * 5 * MB,
    "letters between dashes": lambda: "a-" * 5 * MB,
    "the widest decomposition": lambda: "\ufdfa" * 100_000,
    "one run of characters": lambda: "漢字" * 250_000,
    "emoji": lambda: "\U0001f9ea" * 500_000,
    "joined emoji": lambda: "👩\u200d" * 250_000,
    "NULs": lambda: "\0" * MB,
    "lone surrogates": lambda: "\ud800" * MB,
    "reversed surrogate pairs": lambda: "\ude00\ud83d" * 500_000,
    "base64": lambda: base64.b64encode(random.Random(1).randbytes(MB // 4)).decode(),
    "binary": lambda: random.Random(2).randbytes(MB // 4).decode("latin-1"),
    "the last code points": lambda: "\U0010ffff\ufffe\uffff" * 100_000,
    "one letter words": lambda: "a " * 500_000,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_entered_searched_and_removed(make: Callable[[], str]) -> None:
    index = lexical_index(IdentifierTokenizer(stems=True))
    index.add("before", "needle")
    index.add("hostile", f"needle {make()} thread")
    assert {match.id for match in index.search("needle")} == {"before", "hostile"}
    assert [match.id for match in index.search("thread")] == ["hostile"]
    index.remove("hostile")
    assert [match.id for match in index.search("needle thread")] == ["before"]


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_query_is_answered_and_explained(make: Callable[[], str]) -> None:
    index = lexical_index(IdentifierTokenizer(stems=True))
    index.add("a", "needle")
    query = f"{make()} needle"
    (match,) = index.search(query)
    assert match.id == "a"
    assert sum(c.score for c in index.explain(query, ["a"])[0]) == pytest.approx(match.score)


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_the_plain_tokenizer_takes_it_too(make: Callable[[], str]) -> None:
    terms = PlainTokenizer().terms(f"needle {make()} thread")
    assert (terms[0], terms[-1]) == ("needle", "thread")


@requirement("lexical.query-terms-count-once")
@pytest.mark.parametrize("query", ["tool " * 50_000, " OR ".join(["tool"] * 100_000), "(" * 5000 + "tool" + ")" * 5000])
def test_a_query_of_one_word_said_many_times_is_that_word(query: str) -> None:
    index = lexical_index()
    index.add("a", "a tool box")
    assert index.search(query) == index.search("tool")


def test_a_query_of_many_words_is_answered() -> None:
    index = lexical_index()
    for number in range(1000):
        index.add(f"d{number}", f"word{number} and more")
    assert len(index.search(" ".join(f"word{number}" for number in range(100_000)), ALL)) == 1000


def test_a_document_of_one_word_many_times_is_replaced_as_fast_as_it_was_entered() -> None:
    index = lexical_index()
    for document_id in ("a", "b", "c"):
        index.add(document_id, "wind " * 500_000)
    index.add("a", "rain " + "wind " * 500_000)
    assert [match.id for match in index.search("wind")] == ["b", "c", "a"]
    assert [match.id for match in index.search("rain")] == ["a"]


def test_a_query_of_very_many_short_words_meets_a_large_vocabulary_in_bounded_time() -> None:
    """Looking for each of them in each word would take half an hour here."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    query = " ".join(one + two for one in letters for two in letters)
    words = ["".join(letters[number // 26**place % 26] for place in range(5)) * 5 for number in range(150_000)]
    index = lexical_index(IdentifierTokenizer(stems=True))
    for start in range(0, len(words), 150):
        index.add(str(start), " ".join(words[start : start + 150]))
    index.add("last", "zz aa")
    for _ in range(100):
        assert [match.id for match in index.search(query)] == ["last"]
        index.add("other", "word")
    assert len(index.explain(query, ["last"])[0]) == 2


def test_a_long_query_scores_as_the_same_words_do_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        "readFile of the parts",
        "Parsing reads files",
        "read_files, part",
        "GitHubIssue parsed",
        "deploying deploys",
    ]
    query = " ".join([*texts, *(f"other{number}" for number in range(100))])

    def scores() -> list[object]:
        index = lexical_index(IdentifierTokenizer(stems=True))
        for number, text in enumerate(texts):
            index.add(str(number), text)
        found = list(index.search(query))
        index.remove("1")
        index.add("5", "parts of parsing")
        return [*found, *index.search(query), *index.explain(query, ["5"])[0], *index.search("parts deployed")]

    long = scores()
    monkeypatch.setattr("onhand.lexical.index.MAX_SCANNED_TERMS", 10**9)
    assert long == scores()
