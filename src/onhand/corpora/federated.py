"""Search all corpora at once, in one ranking.

Scores of different corpora cannot be compared, so ranks are fused: the rank that a finding has in its corpus, and its
rank when the words of all findings are compared in one temporary Index. docs/adr/0019-one-search-across-everything.md
measures the quality. A corpus that fails does not affect the others.
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
    """A result of one corpus in the form that all corpora share."""

    place: str  # where to read it, as its corpus writes it: a path with lines, a name, an id
    title: str
    text: str
    score: float  # of its corpus; not comparable with scores of another
    mark: str = ""  # what a reader must know about everything from this corpus


class Findings(Record):
    """The results of one corpus, best first; `reason` says why there are none, `notes` what the caller should know."""

    found: tuple[Finding, ...]
    reason: str | None = None
    notes: tuple[str, ...] = ()


class Corpus(Protocol):
    """Something that can be searched. Findings are current, and their order is deterministic."""

    def find(self, query: str, limit: int) -> Findings:
        """Return at most `limit` findings; a miss is empty and has a reason."""


def section_finding(path: str, section: Section, score: float) -> Finding:
    """Return the finding for a section of a file."""
    place = f"{path}:{section.first_line}-{section.last_line}"
    return Finding(place, " › ".join(section.heading_path), section.text, score)


DEFAULT_LIMIT = 10
MAX_LIMIT = 50
WORDS = "words"  # the layer in which the findings of all corpora are compared
MIN_DEPTH = 10  # findings of each corpus that are compared, however small the limit is


class FederatedHit(Record):
    """A finding, the corpus that it is from, and why it is ranked where it is."""

    kind: str
    finding: Finding
    score: float  # from 0 to 1, fused from the ranks
    rank: int  # in its own corpus, counted from 1
    words_rank: int | None  # by words among the findings of all corpora; None if it has no word of the query
    query: str

    @property
    def snippet(self) -> str:
        """Return the part of the text that best shows why it was found, as plain text."""
        from onhand.lexical.scoring import get_ranking
        from onhand.lexical.snippet import best_window

        return best_window(self.finding.text, self.query, get_ranking().tokenizer)


class SearchedCorpus(Record):
    """How a search went in one corpus."""

    kind: str
    found: int
    reason: str | None  # why nothing was found
    failure: str | None  # why it could not be searched
    notes: tuple[str, ...]


class FederatedResult(Record):
    """The hits of a search across corpora; `reason` says why there are none."""

    query: str
    hits: tuple[FederatedHit, ...]
    searched: tuple[SearchedCorpus, ...]
    reason: str | None

    def __iter__(self) -> Iterator[FederatedHit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)


class FederatedSearch:
    """Search over several corpora by kind, the most authoritative first. Each is opened when it is first searched."""

    def __init__(self, corpora: Mapping[str, Callable[[], Corpus]]) -> None:
        self._openers = dict(corpora)
        self._opened: dict[str, Corpus] = {}

    def search(self, query: str, kinds: Sequence[str] = (), limit: int = DEFAULT_LIMIT) -> FederatedResult:
        """Search all corpora, or those of these kinds, and return one ranking."""
        query = validate_query(query)
        if not query.strip():
            raise InputError("the query is empty: say what to look for")
        if not 1 <= limit <= MAX_LIMIT:
            raise InputError(f"limit is {limit}: ask for 1 to {MAX_LIMIT}")
        findings: dict[str, Findings] = {}
        searched: list[SearchedCorpus] = []
        for kind in self._select_kinds(kinds):
            result, failure = self._search_corpus(kind, query, max(limit, MIN_DEPTH))
            findings[kind] = result
            searched.append(SearchedCorpus(kind, len(result.found), result.reason, failure, result.notes))
        hits = _merge(query, findings)[:limit]
        reason = None if hits else f"nothing matches in {', '.join(one.kind for one in searched if not one.failure)}"
        return FederatedResult(query, hits, tuple(searched), reason)

    def _select_kinds(self, kinds: Sequence[str]) -> list[str]:
        unknown = [kind for kind in kinds if kind not in self._openers]
        if unknown:
            raise InputError(f"there is no kind {unknown[0][:100]!r}: choose from {', '.join(self._openers)}")
        return [kind for kind in self._openers if not kinds or kind in kinds]

    def _search_corpus(self, kind: str, query: str, limit: int) -> tuple[Findings, str | None]:
        try:
            if kind not in self._opened:
                self._opened[kind] = self._openers[kind]()
            return self._opened[kind].find(query, limit), None
        except (OnhandError, OSError) as error:
            return Findings(()), str(error)


def _merge(query: str, findings: Mapping[str, Findings]) -> tuple[FederatedHit, ...]:
    from onhand.search.fusion import reciprocal_rank

    once = _unique_findings(query, findings)
    words = _rank_by_words(query, once)
    own = {kind: [Match(key, 0.0) for key, hit in once.items() if hit.kind == kind] for kind in findings}
    words_rank = {match.id: rank for rank, match in enumerate(words, 1)}
    layers = {WORDS: words, **own}
    best_score = 2 / len(layers)  # a finding is in two layers: that of its corpus and that of words
    return tuple(
        once[fused.id]._replace(score=min(1.0, fused.score / best_score), words_rank=words_rank.get(fused.id))
        for fused in reciprocal_rank(layers)
    )


def _unique_findings(query: str, findings: Mapping[str, Findings]) -> dict[str, FederatedHit]:
    """Return every finding by a key that orders equal scores by kind and rank; duplicates belong to the first corpus.

    One corpus may find several things in one place, such as two parts of a long line. Two corpora may write the same
    place in two ways, because paths of rules start at the repository and paths of context at the project.
    """
    hits = [
        FederatedHit(kind, finding, 0.0, rank, None, query)
        for kind, result in findings.items()
        for rank, finding in enumerate(result.found, 1)
    ]
    first: dict[object, str] = {}  # place, or title and text → the kind that found it
    once = [
        hit
        for hit in hits
        if first.setdefault(hit.finding.place, hit.kind) == hit.kind
        and first.setdefault((hit.finding.title, hit.finding.text), hit.kind) == hit.kind
    ]
    return {f"{number:06d}": hit for number, hit in enumerate(once)}


def _rank_by_words(query: str, once: Mapping[str, FederatedHit]) -> list[Match]:
    """Rank all findings by their words, with term weights from these findings alone."""
    from onhand.search.index import Index
    from onhand.store.memory import MemoryStore

    if not once:
        return []
    index = Index(MemoryStore())
    index.put(Document(key, hit.finding.title, hit.finding.text) for key, hit in once.items())
    return [Match(hit.document_id, hit.score) for hit in index.keyword(query, limit=len(once)).hits]
