"""Which threshold and margin suit this traffic? From pairs of questions, and whether one answer does for both.

All second questions are taken as cached at once, so that each first one meets its rivals. What is proposed is chosen
with some room on one half of the first questions and measured on the other. It knows no file and no terminal.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from json import loads
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from onhand.errors import InputError
from onhand.memory.decision import BY_MEANING, BY_WORDS
from onhand.memory.entries import MAX_COMPARED_CHARS
from onhand.memory.guards import contradict, disagreement
from onhand.memory.shelf import Shelf, VectorShelf, WordShelf

if TYPE_CHECKING:
    from onhand.embed.embedder import Embedder

PRECISION = 0.98  # of the hits, unless another is asked for
MAX_PAIRS = 1_000_000
BATCH = 64  # questions that are embedded together
FLOOR = 0.4  # no similarity below it is worth a look
RIVALS = 20  # of a question, among which the next that could be meant is looked for
THRESHOLDS = tuple(round(0.5 + step / 100, 2) for step in range(50))
MARGINS = tuple(step / 100 for step in range(31))


class Pair(NamedTuple):
    """Two questions, and whether the answer to the second is one to the first."""

    query: str
    cached: str
    same: bool


class Measured(NamedTuple):
    """What a threshold and a margin do to some questions."""

    threshold: float
    margin: float
    queries: int
    hits: int
    wrong: int

    @property
    def precision(self) -> float:
        """The share of hits that are right; 1 where there are none."""
        return 1 - self.wrong / self.hits if self.hits else 1.0

    @property
    def hit_rate(self) -> float:
        """The share of questions that hit."""
        return self.hits / self.queries if self.queries else 0.0


class Calibration(NamedTuple):
    """What was found. `proposed` is measured on questions that it was not chosen on."""

    frontier: tuple[Measured, ...]  # the best that can be had, more hits and less precision from row to row
    default: Measured
    plain: Measured  # the default threshold without guards and margin
    proposed: Measured | None  # None: no setting reaches the precision where it was chosen
    asked: float  # the precision
    queries: int
    cached: int
    left_out: int  # pairs too long to be compared

    @property
    def is_reached(self) -> bool:
        """Whether what is proposed has the precision that was asked for on the questions that it was not chosen on."""
        return self.proposed is not None and self.proposed.precision >= self.asked


class _Judged(NamedTuple):
    """A first question and what decides whether it hits."""

    half: int  # 0 or 1, whatever the order of the pairs
    similarity: float  # of the nearest cached question
    clearance: float  # above the next that could be meant
    agrees: bool  # with the nearest, in its particulars
    is_right: bool


def read_pairs(lines: Iterable[str]) -> list[Pair]:
    """Pairs out of lines of JSON with `query`, `cached` and `same`; InputError names the line that has none."""
    pairs = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            pairs.append(_pair(line, number))
        if len(pairs) > MAX_PAIRS:
            raise InputError(f"there are more than {MAX_PAIRS:,} pairs: take some of them")
    return pairs


def calibrate(
    pairs: Sequence[Pair],
    embedder: "Embedder | None" = None,
    *,
    precision: float = PRECISION,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> Calibration:
    """What thresholds and margins would have done to these questions, and which to take for a precision."""
    if not 0 < precision <= 1:
        raise InputError(f"the precision must be more than 0 and at most 1, not {precision!r:.60}")
    short = [pair for pair in pairs if max(len(pair.query), len(pair.cached)) <= MAX_COMPARED_CHARS]
    if not any(pair.same for pair in short) or all(pair.same for pair in short):
        raise InputError(
            "there must be pairs that are the same and pairs that are not: without both, nothing is learnt"
        )
    cached = list(dict.fromkeys(pair.cached for pair in short))
    judged = _judged(short, cached, embedder, on_progress)
    usual = BY_WORDS if embedder is None else BY_MEANING
    every = [_measure(judged, threshold, margin) for threshold in THRESHOLDS for margin in MARGINS]
    return Calibration(
        _frontier(every),
        _measure(judged, *usual),
        _measure([one._replace(agrees=True) for one in judged], usual.threshold, 0.0),
        _proposed(judged, precision),
        precision,
        len(judged),
        len(cached),
        len(pairs) - len(short),
    )


def _pair(line: str, number: int) -> Pair:
    try:
        given: Any = loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"line {number} is not JSON: {line[:60]!r}") from None
    if not isinstance(given, Mapping):
        raise InputError(f'line {number} must be of the form {{"query": "…", "cached": "…", "same": true}}')
    query, cached, same = given.get("query"), given.get("cached"), given.get("same")
    if not (isinstance(query, str) and query.strip() and isinstance(cached, str) and cached.strip()):
        raise InputError(f"line {number}: query and cached must be questions")
    if same not in (True, False):
        raise InputError(f"line {number}: same must be true or false, not {same!r:.60}")
    return Pair(query, cached, bool(same))


def _judged(
    pairs: Sequence[Pair],
    cached: Sequence[str],
    embedder: "Embedder | None",
    on_progress: Callable[[int, int], object],
) -> list[_Judged]:
    right: dict[str, set[str]] = {}
    for pair in pairs:
        right.setdefault(pair.query, set()).update([pair.cached] if pair.same else ())
    vectors = _vectors([*cached, *right], embedder, on_progress)
    shelf: Shelf = WordShelf() if embedder is None else VectorShelf()
    for number, text in enumerate(cached):
        shelf.put(number, text, vectors.get(text))
    return [
        _judge(
            query,
            [(cached[one.number], one.similarity) for one in shelf.near(query, vectors.get(query), FLOOR, MARGINS[-1])],
            same,
        )
        for query, same in right.items()
    ]


def _vectors(
    texts: Sequence[str], embedder: "Embedder | None", on_progress: Callable[[int, int], object]
) -> "dict[str, array[float]]":
    found: dict[str, array[float]] = {}
    distinct = list(dict.fromkeys(texts)) if embedder is not None else []
    for start in range(0, len(distinct), BATCH):
        assert embedder is not None
        batch = distinct[start : start + BATCH]
        found.update(zip(batch, embedder.embed(batch, "similarity"), strict=True))
        on_progress(len(found), len(distinct))
    return found


def _judge(query: str, near: Sequence[tuple[str, float]], same: set[str]) -> _Judged:
    half = crc32(query.encode("utf-8", "replace")) % 2
    if not near:
        return _Judged(half, 0.0, 1.0, False, False)
    best, similarity = near[0]
    # Two cached questions that are both the right one are no rivals: in a cache, the second would not be there.
    rivals = [
        other for text, other in near[1:RIVALS] if not (best in same and text in same) and not contradict(query, text)
    ]
    clearance = similarity - rivals[0] if rivals else 1.0
    return _Judged(half, similarity, clearance, disagreement(query, best) is None, best in same)


def _measure(judged: Sequence[_Judged], threshold: float, margin: float) -> Measured:
    hits = [one for one in judged if one.similarity >= threshold and one.agrees and one.clearance >= margin]
    return Measured(threshold, margin, len(judged), len(hits), sum(not one.is_right for one in hits))


def _proposed(judged: Sequence[_Judged], precision: float) -> Measured | None:
    chosen_on, measured_on = ([one for one in judged if one.half == half] for half in (0, 1))
    every = [_measure(chosen_on, threshold, margin) for threshold in THRESHOLDS for margin in MARGINS]
    good = [one for one in every if one.hits and one.precision >= precision]
    if not good:
        return None
    good = [one for one in good if _worse(one).precision >= precision] or good
    best = max(good, key=lambda one: (one.hits, -one.wrong, one.threshold, one.margin))
    return _measure(measured_on, best.threshold, best.margin)


def _worse(one: Measured) -> Measured:
    """With as many wrong hits as other questions may well have: one more, and what such a number varies by.

    Of all settings that just reach a precision, the one with most hits got there by luck. On public question pairs
    every second one missed it on the other half; like this, every fifth does, with a twentieth of the hits less.
    """
    return one._replace(wrong=one.wrong + 1 + ceil(sqrt(one.wrong)))


def _frontier(every: Sequence[Measured]) -> tuple[Measured, ...]:
    """Those to which no other is better in both hits and wrong hits, from careful to bold."""
    best: list[Measured] = []
    for one in sorted(every, key=lambda one: (one.wrong, -one.hits, -one.threshold, -one.margin)):
        if one.hits and (not best or one.hits > best[-1].hits):
            best.append(one)
    return tuple(best)
