"""Is the nearest question the same question? Similar enough, of the same particulars, and clear of any other.

It knows neither where candidates come from nor what becomes of the verdict.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from onhand.memory.guards import contradict, disagreement


class Demand(NamedTuple):
    """What is asked of the best candidate."""

    threshold: float  # of its similarity
    margin: float  # how far it has to stand above the next that could be meant


# The margins are the smallest that, on one half of public question pairs and at each size of the cache, leave at most a
# quarter of the wrong hits of a bare threshold with as many hits. They do so on the other half too, which by itself
# would ask for less (docs/adr/0016-semantic-cache.md).
BY_MEANING = Demand(0.85, 0.13)
BY_WORDS = Demand(0.8, 0.27)  # at 0.7 a fifth more hit, but "reset my printer" for "reset my password" among them


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


def decide(query: str, candidates: Sequence[Candidate], demand: Demand) -> Verdict:
    """Judge candidates, which stand best first."""
    if not candidates or candidates[0].similarity < demand.threshold:
        return Verdict(False, "nothing is similar enough")
    best = candidates[0]
    if difference := disagreement(query, best.query):
        return Verdict(False, f"the most similar question differs: {difference}")
    rival = _rival(query, best, candidates[1:])
    if rival is not None and best.similarity - rival < demand.margin:
        return Verdict(False, "two questions with different answers are about as similar", rival)
    return Verdict(True, "similar, of the same particulars, and clear of any other", rival)


def _rival(query: str, best: Candidate, others: Sequence[Candidate]) -> float | None:
    """The similarity of the next one that could be meant: what contradicts the question cannot, and the same answer is
    no other."""
    for other in others:
        if other.response != best.response and not contradict(query, other.query):
            return other.similarity
    return None
