"""Search all corpora at once, in one ranking.

Each corpus ranks its own findings, and no two score alike, so ranks are fused: the rank that a finding has in its
corpus, and its rank when the words of all findings are compared in one temporary Index. Quality is measured in
docs/adr/0019-one-search-across-everything.md. A corpus that fails does not affect the others.
"""

from __future__ import annotations

from typing import Protocol

from onhand.document import Document, Match
from onhand.errors import InputError, OnhandError
from onhand.record import Record
from onhand.search.validation import validate_query

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from onhand.document import Section


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


class UnavailableCorpus:
    """A corpus that is not there."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def find(self, query: str, limit: int) -> Findings:
        """Nothing, and why."""
        return Findings((), self._reason)


def section_finding(path: str, section: Section, score: float) -> Finding:
    """A section that was found, for one search across everything."""
    place = f"{path}:{section.first_line}-{section.last_line}"
    return Finding(place, " › ".join(section.heading_path), section.text, score)


DEFAULT_LIMIT = 10
MAX_LIMIT = 50
WORDS = "words"  # the layer in which the findings of all corpora are compared
MIN_DEPTH = 10  # findings of each corpus that are compared, however few are asked for


class FederatedHit(Record):
    """A finding, the corpus that it is from, and why it is at its place."""

    kind: str
    finding: Finding
    score: float  # from 0 to 1: what was fused
    rank: int  # in its own corpus, from 1
    words_rank: int | None  # among the findings of all, by words; None when it shares none with the query
    query: str

    @property
    def snippet(self) -> str:
        """The stretch of the text that shows best why it was found: plain text, never markup."""
        from onhand.lexical.scoring import get_ranking
        from onhand.lexical.snippet import best_window

        return best_window(self.finding.text, self.query, get_ranking().tokenizer)


class SearchedCorpus(Record):
    """How a corpus took part."""

    kind: str
    found: int
    reason: str | None  # why nothing was found
    failure: str | None  # why it could not be asked
    notes: tuple[str, ...]


class FederatedResult(Record):
    """What was found, and what was asked; `reason` says why there is nothing."""

    query: str
    hits: tuple[FederatedHit, ...]
    searched: tuple[SearchedCorpus, ...]
    reason: str | None

    def __iter__(self) -> Iterator[FederatedHit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)


class FederatedSearch:
    """Corpora by kind, those that have more authority first. Each is opened when it is first asked."""

    def __init__(self, corpora: Mapping[str, Callable[[], Corpus]]) -> None:
        self._openers = dict(corpora)
        self._opened: dict[str, Corpus] = {}

    def search(self, query: str, kinds: Sequence[str] = (), limit: int = DEFAULT_LIMIT) -> FederatedResult:
        """What all corpora, or those of these kinds, have about a query, in one ranking."""
        query = validate_query(query)
        if not query.strip():
            raise InputError("the query is empty: say what to look for")
        if not 1 <= limit <= MAX_LIMIT:
            raise InputError(f"the limit is {limit}: it is from 1 to {MAX_LIMIT}")
        findings: dict[str, Findings] = {}
        searched: list[SearchedCorpus] = []
        for kind in self._wanted(kinds):
            answer, failure = self._asked(kind, query, max(limit, MIN_DEPTH))
            findings[kind] = answer
            searched.append(SearchedCorpus(kind, len(answer.found), answer.reason, failure, answer.notes))
        hits = _merge(query, findings)[:limit]
        reason = None if hits else f"nothing matches in {', '.join(one.kind for one in searched if not one.failure)}"
        return FederatedResult(query, hits, tuple(searched), reason)

    def _wanted(self, kinds: Sequence[str]) -> list[str]:
        unknown = [kind for kind in kinds if kind not in self._openers]
        if unknown:
            raise InputError(f"there is no kind {unknown[0][:100]!r}: choose from {', '.join(self._openers)}")
        return [kind for kind in self._openers if not kinds or kind in kinds]

    def _asked(self, kind: str, query: str, limit: int) -> tuple[Findings, str | None]:
        try:
            if kind not in self._opened:
                self._opened[kind] = self._openers[kind]()
            return self._opened[kind].find(query, limit), None
        except (OnhandError, OSError) as error:
            return Findings(()), str(error)


def _merge(query: str, findings: Mapping[str, Findings]) -> tuple[FederatedHit, ...]:
    from onhand.search.fusion import reciprocal_rank

    once = _unique_findings(query, findings)
    words = _by_words(query, once)
    own = {kind: [Match(key, 0.0) for key, hit in once.items() if hit.kind == kind] for kind in findings}
    words_rank = {match.id: rank for rank, match in enumerate(words, 1)}
    layers = {WORDS: words, **own}
    most = 2 / len(layers)  # of all layers, a finding is in its own corpus's and in that of words
    return tuple(
        once[one.id]._replace(score=min(1.0, one.score / most), words_rank=words_rank.get(one.id))
        for one in reciprocal_rank(layers)
    )


def _unique_findings(query: str, findings: Mapping[str, Findings]) -> dict[str, FederatedHit]:
    """Every finding by a key that orders equals by kind and rank; what two corpora found is the first one's.

    One corpus may find several things in one place, such as two parts of a long line. Two may spell one place in two
    ways: the paths of rules begin at the repository, those of context at the project.
    """
    hits = [
        FederatedHit(kind, finding, 0.0, rank, None, query)
        for kind, answer in findings.items()
        for rank, finding in enumerate(answer.found, 1)
    ]
    first: dict[object, str] = {}  # place, or title and text → the kind that found it
    once = [
        hit
        for hit in hits
        if first.setdefault(hit.finding.place, hit.kind) == hit.kind
        and first.setdefault((hit.finding.title, hit.finding.text), hit.kind) == hit.kind
    ]
    return {f"{number:06d}": hit for number, hit in enumerate(once)}


def _by_words(query: str, once: Mapping[str, FederatedHit]) -> list[Match]:
    """All findings by their words, compared with each other alone."""
    from onhand.search.index import Index
    from onhand.store.memory import MemoryStore

    if not once:
        return []
    index = Index(MemoryStore())
    index.put(Document(key, hit.finding.title, hit.finding.text) for key, hit in once.items())
    return [Match(hit.document_id, hit.score) for hit in index.keyword(query, limit=len(once)).hits]
