"""What can every corpus do? Be searched for what a query is about: the seam under one search across everything."""

from __future__ import annotations

from typing import Protocol

from onhand.record import Record


class Finding(Record):
    """Something that a corpus found, whatever it is made of."""

    place: str  # where to read it, as its corpus spells it: a path with lines, a name, an id
    title: str
    text: str
    score: float  # as its corpus counts it; not to be compared with another's
    mark: str = ""  # what a reader must know of all that comes from there


class Findings(Record):
    """What one corpus found, best first; `reason` says why nothing, `notes` what the asker should know."""

    found: tuple[Finding, ...]
    reason: str | None = None
    notes: tuple[str, ...] = ()


class Corpus(Protocol):
    """Something that can be looked up. What it finds is there at that moment, in an order that is always the same."""

    def find(self, query: str, limit: int) -> Findings:
        """At most `limit` findings; a miss is an empty answer with a reason."""


class Absent:
    """A corpus that is not there."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def find(self, query: str, limit: int) -> Findings:
        """Nothing, and why."""
        return Findings((), self._reason)
