"""Calibration of the caution from pairs of questions."""

from zlib import crc32

import pytest

from onhand.cache.calibrate import JudgedQuery, Measurement, QuestionPair, _propose, calibrate, read_pairs
from onhand.embed.embedder import HashingEmbedder
from onhand.errors import InputError
from requirements import requirement

pytestmark = requirement("cache.calibrate")


def made_up() -> list[QuestionPair]:
    """Questions that are the same but for a word at the end, and others that share most words and are not."""
    pairs = []
    for number in range(60):
        name = f"widget{chr(97 + number % 26)}{chr(97 + number // 26)}"
        pairs.append(QuestionPair(f"how do I paint the {name} today", f"how do I paint the {name} today please", True))
        pairs.append(
            QuestionPair(f"how do I polish the {name} today", f"how do I paint the {name} today please", False)
        )
    return pairs


@pytest.mark.parametrize("embedder", [None, HashingEmbedder()])
def test_the_proposal_reaches_the_precision_on_questions_it_was_not_chosen_on(embedder: HashingEmbedder | None) -> None:
    found = calibrate(made_up(), embedder, precision=0.95)
    assert (found.queries, found.cached, found.left_out) == (120, 60, 0)
    assert found.proposed is not None
    assert 40 < found.proposed.queries < 80
    assert found.proposed.hits > 15
    assert found.proposed.precision >= 0.95
    again = calibrate(made_up(), embedder, precision=0.95)
    assert again == found


def test_a_proposal_that_misses_the_precision_on_other_questions_is_reported() -> None:
    half: dict[bool, list[QuestionPair]] = {True: [], False: []}
    for number in range(200):
        query = f"how do I paint the widget{chr(97 + number % 26)}{chr(97 + number // 26)} today"
        half[crc32(query.encode()) % 2 == 0].append(QuestionPair(query, query + " please", True))
    spoilt = [pair._replace(same=False) for pair in half[False]]  # what looks the same there is not
    found = calibrate([*half[True], *spoilt], HashingEmbedder(), precision=0.9)
    assert found.proposed is not None
    assert found.proposed.precision < 0.9
    assert not found.is_reached
    assert calibrate(made_up(), precision=0.95).is_reached


def test_a_caution_that_reaches_the_precision_by_luck_is_not_proposed() -> None:
    """Of each hundred hits above 0.88 one is wrong, and of each hundred below it three: 0.98 for all of them."""
    judged = [JudgedQuery(half, 0.9, None, True, number >= 10) for half in (0, 1) for number in range(1000)]
    judged += [JudgedQuery(half, 0.86, None, True, number >= 30) for half in (0, 1) for number in range(1000)]
    proposed = _propose(judged, 0.98, by_words=False)
    assert proposed is not None
    assert proposed.caution > 0.56  # 0.86 is similar enough up to there
    assert (proposed.hits, proposed.wrong) == (1000, 10)
    few = [one for number, one in enumerate(judged) if number % 100 == 50]
    assert _propose(few, 0.98, by_words=False) is not None  # too few for any room: measured on the other half


def test_the_frontier_trades_precision_for_hits_row_by_row() -> None:
    frontier = calibrate(made_up()).frontier
    assert [one.hits for one in frontier] == sorted({one.hits for one in frontier})
    assert [one.wrong for one in frontier] == sorted({one.wrong for one in frontier})


def test_a_bare_threshold_is_measured_for_comparison() -> None:
    words = "please refund the amount of {} USD to my account at the bank before noon"
    pairs = [QuestionPair(words.format(n) + " today", words.format(n), True) for n in range(20, 40)]
    pairs += [QuestionPair(words.format(n), words.format(n + 100), False) for n in range(40, 60)]
    found = calibrate(pairs, HashingEmbedder())
    assert found.default.wrong == 0
    assert found.plain.wrong > 0


def test_without_a_precise_caution_nothing_is_proposed() -> None:
    pairs = [QuestionPair(f"what is thing {name}", f"what is thing {name}", name == "a") for name in "abcdefgh"]
    assert calibrate(pairs, precision=1.0).proposed is None


def test_pairs_too_long_to_compare_are_left_out_and_counted() -> None:
    found = calibrate([*made_up(), QuestionPair("x" * 2000, "x" * 2000, True)])
    assert (found.queries, found.left_out) == (120, 1)


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([], "the pairs must include some that are the same and some that are not"),
        ([QuestionPair("a", "b", True)], "the pairs must include some"),
        ([QuestionPair("a", "b", False)], "the pairs must include some"),
    ],
)
def test_pairs_of_only_one_kind_are_rejected(pairs: list[QuestionPair], text: str) -> None:
    with pytest.raises(InputError, match=text):
        calibrate(pairs)
    with pytest.raises(InputError, match="the precision must be"):
        calibrate(made_up(), precision=0)


def test_precision_and_hit_rate_are_shares() -> None:
    assert Measurement(0.5, 10, 4, 1).precision == 0.75
    assert Measurement(0.5, 10, 4, 1).hit_rate == 0.4
    assert (Measurement(0.5, 0, 0, 0).precision, Measurement(0.5, 0, 0, 0).hit_rate) == (1.0, 0.0)


def test_pairs_are_read_from_lines_and_bad_lines_are_reported() -> None:
    assert read_pairs(
        ['{"query": "a", "cached": "b", "same": true}\n', "\n", '{"query":"c","cached":"d","same":0}']
    ) == [
        QuestionPair("a", "b", True),
        QuestionPair("c", "d", False),
    ]
    for line, text in (
        ("{", "line 2 is not JSON"),
        ("[" * 100_000, "line 2 is not JSON"),
        ("[]", "line 2 must be of the form"),
        ('{"query": "a", "cached": ""}', "line 2: query and cached must be questions"),
        ('{"query": "a", "cached": "b", "same": "yes"}', "line 2: same must be true or false"),
    ):
        with pytest.raises(InputError, match=text):
            read_pairs(["\n", line])
