"""Is the nearest question the same question? Similar enough, of the same particulars, and clear of any other.

It knows neither where candidates come from nor what becomes of the verdict.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from onhand.memory.guards import disagreement

THRESHOLD = 0.85  # of the similarity
# How far the best has to stand above the next that could be meant. On public question pairs this leaves a fifth of the
# wrong hits that a bare threshold has at the same number of hits (docs/adr/0016-semantic-cache.md).
MARGIN = 0.07


class Candidate(NamedTuple):
    """A question that was answered before."""

    similarity: float
    query: str
    response: Any


class Verdict(NamedTuple):
    """Whether the first candidate answers the question, and why or why not."""

    is_hit: bool
    reason: str
    runner_up: float | None = None  # the similarity of the next that could be meant


def decide(
    query: str, candidates: Sequence[Candidate], threshold: float = THRESHOLD, margin: float = MARGIN
) -> Verdict:
    """Judge candidates, which stand best first."""
    if not candidates or candidates[0].similarity < threshold:
        return Verdict(False, "nothing is similar enough")
    best = candidates[0]
    if difference := disagreement(query, best.query):
        return Verdict(False, f"the most similar question differs: {difference}")
    rival = _rival(query, best, candidates[1:])
    if rival is not None and best.similarity - rival < margin:
        return Verdict(False, "two questions with different answers are about as similar", rival)
    return Verdict(True, "similar, of the same particulars, and clear of any other", rival)


def _rival(query: str, best: Candidate, others: Sequence[Candidate]) -> float | None:
    """The similarity of the next one that could be meant: what differs cannot, and the same answer is no other."""
    for other in others:
        if other.response != best.response and disagreement(query, other.query) is None:
            return other.similarity
    return None
