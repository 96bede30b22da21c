"""Find the caution that suits your own traffic, from pairs of questions labelled as the same or not.

The second questions of all pairs are cached together, so that each first question meets all of its rivals. The proposed
caution is chosen, with some slack, on one half of the first questions and measured on the other half.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from json import loads
from math import ceil, sqrt
from typing import Any, NamedTuple
from zlib import crc32

from onhand.cache.guards import CAUTION, contradict, criteria_of, disagreement
from onhand.cache.similarity import MAX_COMPARED_CHARS, SimilarityIndex, VectorIndex, WordIndex
from onhand.embed.embedder import Embedder
from onhand.errors import InputError

PRECISION = 0.98  # the default for the share of hits that must be right
MAX_PAIRS = 1_000_000
BATCH = 64  # questions that are embedded together
CAUTIONS = tuple(step / 50 for step in range(51))


class QuestionPair(NamedTuple):
    """Two questions, and whether the answer to the second also answers the first."""

    query: str
    cached: str
    same: bool


class Measurement(NamedTuple):
    """How many questions hit with a caution, and how many of those hits are wrong."""

    caution: float
    queries: int
    hits: int
    wrong: int

    @property
    def precision(self) -> float:
        """The share of hits that are right, or 1 without hits."""
        return 1 - self.wrong / self.hits if self.hits else 1.0

    @property
    def hit_rate(self) -> float:
        """The share of questions that hit."""
        return self.hits / self.queries if self.queries else 0.0


class Calibration(NamedTuple):
    """The results of different cautions. `proposed` is measured on questions that it was not chosen on."""

    frontier: tuple[Measurement, ...]  # the best trade-offs, from the most precise to the most hits
    default: Measurement
    plain: Measurement  # the default threshold alone, without particulars and lead
    proposed: Measurement | None  # None if no caution reaches the precision on the questions to choose from
    precision: float  # the required one
    queries: int
    cached: int
    left_out: int  # pairs too long to be compared

    @property
    def is_reached(self) -> bool:
        """Whether the proposed caution has the required precision on the questions that it was not chosen on."""
        return self.proposed is not None and self.proposed.precision >= self.precision


class JudgedQuery(NamedTuple):
    """A first question, with everything that decides whether it hits."""

    half: int  # 0 or 1, independent of the order of the pairs
    similarity: float  # of the nearest cached question
    lead: float | None  # over the next question that could be meant, if there is one
    agrees: bool  # with the nearest question in its particulars
    is_right: bool


def read_pairs(lines: Iterable[str]) -> list[QuestionPair]:
    """Return the pairs in lines of JSON with `query`, `cached` and `same`. Raise InputError for a bad line."""
    pairs = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            pairs.append(_parse_pair(line, number))
        if len(pairs) > MAX_PAIRS:
            raise InputError(f"there are more than {MAX_PAIRS:,} pairs: use a sample")
    return pairs


def calibrate(
    pairs: Sequence[QuestionPair],
    embedder: Embedder | None = None,
    *,
    precision: float = PRECISION,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> Calibration:
    """Measure every caution on these pairs, and propose one that reaches the precision."""
    if not 0 < precision <= 1:
        raise InputError(f"the precision must be more than 0 and at most 1, not {precision!r:.60}")
    short = [pair for pair in pairs if max(len(pair.query), len(pair.cached)) <= MAX_COMPARED_CHARS]
    if not any(pair.same for pair in short) or all(pair.same for pair in short):
        raise InputError("the pairs must include some that are the same and some that are not: add the missing kind")
    cached = list(dict.fromkeys(pair.cached for pair in short))
    by_words = embedder is None
    judged = judge_queries(short, cached, embedder, on_progress)
    threshold = criteria_of(by_words=by_words).threshold
    alone = [one for one in judged if one.similarity >= threshold]
    return Calibration(
        _frontier([_measure(judged, caution, by_words) for caution in CAUTIONS]),
        _measure(judged, CAUTION, by_words),
        Measurement(CAUTION, len(judged), len(alone), sum(not one.is_right for one in alone)),
        _propose(judged, precision, by_words),
        precision,
        len(judged),
        len(cached),
        len(pairs) - len(short),
    )


def _parse_pair(line: str, number: int) -> QuestionPair:
    try:
        value: Any = loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"line {number} is not JSON: {line[:60]!r}") from None
    if not isinstance(value, Mapping):
        raise InputError(f'line {number} must be of the form {{"query": "…", "cached": "…", "same": true}}')
    query, cached, same = value.get("query"), value.get("cached"), value.get("same")
    if not (isinstance(query, str) and query.strip() and isinstance(cached, str) and cached.strip()):
        raise InputError(f"line {number}: query and cached must be questions")
    if same not in (True, False):
        raise InputError(f"line {number}: same must be true or false, not {same!r:.60}")
    return QuestionPair(query, cached, bool(same))


def judge_queries(
    pairs: Sequence[QuestionPair],
    cached: Sequence[str],
    embedder: Embedder | None,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> list[JudgedQuery]:
    """Return, for each first question, the most similar of the cached ones with what decides whether it hits."""
    right: dict[str, set[str]] = {}
    for pair in pairs:
        right.setdefault(pair.query, set()).update([pair.cached] if pair.same else ())
    vectors = _embed_all([*cached, *right], embedder, on_progress)
    index: SimilarityIndex = WordIndex() if embedder is None else VectorIndex()
    for number, text in enumerate(cached):
        index.put(number, text, vectors.get(text))
    floor = criteria_of(CAUTIONS[0], by_words=embedder is None).floor
    reach = criteria_of(CAUTIONS[-1], by_words=embedder is None).max_lead
    judged = []
    for query, same in right.items():
        near = index.find_near(query, vectors.get(query), floor, reach)
        judged.append(_judge_query(query, [(cached[one.number], one.similarity) for one in near], same))
    return judged


def _embed_all(
    texts: Sequence[str], embedder: Embedder | None, on_progress: Callable[[int, int], object]
) -> "dict[str, array[float]]":
    vectors: dict[str, array[float]] = {}
    distinct = list(dict.fromkeys(texts)) if embedder is not None else []
    for start in range(0, len(distinct), BATCH):
        assert embedder is not None
        batch = distinct[start : start + BATCH]
        vectors.update(zip(batch, embedder.embed(batch, "similarity"), strict=True))
        on_progress(len(vectors), len(distinct))
    return vectors


def _judge_query(query: str, near: Sequence[tuple[str, float]], same: set[str]) -> JudgedQuery:
    half = crc32(query.encode("utf-8", "replace")) % 2
    if not near:
        return JudgedQuery(half, 0.0, None, False, False)
    best, similarity = near[0]
    # Two cached questions that are both right are not rivals, since a real cache would not contain the second.
    rivals = (other for text, other in near[1:] if not (best in same and text in same) and not contradict(query, text))
    runner_up = next(rivals, None)
    lead = None if runner_up is None else similarity - runner_up
    return JudgedQuery(half, similarity, lead, disagreement(query, best) is None, best in same)


def _measure(judged: Sequence[JudgedQuery], caution: float, by_words: bool) -> Measurement:
    criteria = criteria_of(caution, by_words=by_words)
    hits = [one for one in judged if one.agrees and criteria.is_met(one.similarity, one.lead)]
    return Measurement(caution, len(judged), len(hits), sum(not one.is_right for one in hits))


def _propose(judged: Sequence[JudgedQuery], precision: float, by_words: bool) -> Measurement | None:
    chosen_on, measured_on = ([one for one in judged if one.half == half] for half in (0, 1))
    every = [_measure(chosen_on, caution, by_words) for caution in CAUTIONS]
    good = [one for one in every if one.hits and one.precision >= precision]
    if not good:
        return None
    good = [one for one in good if _with_slack(one).precision >= precision] or good
    best = max(good, key=lambda one: (one.hits, -one.wrong, one.caution))
    return _measure(measured_on, best.caution, by_words)


def _with_slack(one: Measurement) -> Measurement:
    """Return the measurement with as many wrong hits as other questions may well have: one more, plus a deviation.

    Of all cautions that barely reach a precision, the one with the most hits did so by luck.
    """
    return one._replace(wrong=one.wrong + 1 + ceil(sqrt(one.wrong)))


def _frontier(every: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return the cautions that no other beats in both hits and wrong hits, from the most precise to the most hits."""
    best: list[Measurement] = []
    for one in sorted(every, key=lambda one: (one.wrong, -one.hits, -one.caution)):
        if one.hits and (not best or one.hits > best[-1].hits):
            best.append(one)
    return tuple(best)
