"""SemanticCache: answers to questions, found again by the same question or by one that means the same.

A lookup tries the same question first, which needs no embedder, and then the most similar one, which is served if the
two agree in their particulars and no other question comes near (onhand/cache/guards.py). Nothing crosses a Scope. Where
entries are stored is up to the caller, who gets all of them through `on_persist`. Safe between threads and event loops.
"""

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Annotated, Any, NamedTuple, TypeAlias, overload

from onhand.cache.entry import (
    CacheEntry,
    Computed,
    Documents,
    Scope,
    normalize_query,
    validate_documents,
    validate_entry,
    validate_labels,
    validate_query,
    validate_response,
)
from onhand.cache.guards import BY_MEANING, BY_WORDS, Candidate, Criteria, decide
from onhand.cache.similarity import MAX_COMPARED_CHARS, EntryTable
from onhand.cache.single_flight import SingleFlight
from onhand.embed.embedder import Embedder, unit_vector
from onhand.errors import EmbedderError, InputError, StoreError
from onhand.persistence import Persister, close_coroutine, is_async, require_iterable
from onhand.tools import Tool, tool
from onhand.tools.tool import LOCAL

MAX_ENTRIES = 1000
TTL_S = 24 * 60 * 60.0
SHARED = Scope()  # for callers that have nothing to keep apart
SHARED_KEY = SHARED.key

Vector: TypeAlias = "array[float]"


class Lookup(NamedTuple):
    """Whether a question was answered before, by what, and why or why not."""

    hit: bool
    reason: str
    entry: CacheEntry | None = None
    kind: str = ""  # of a hit: "exact", "semantic" or "lexical"
    similarity: float = 0.0
    runner_up: float | None = None  # the similarity of the next question that could be meant, if it comes near
    lookup_ms: float = 0.0


class CacheAnswer(NamedTuple):
    """A response and whether it was in the cache; `reason` says where it came from and whether it was stored."""

    response: Any
    cached: bool
    reason: str
    lookup: Lookup


class CachedResponse(NamedTuple):
    """What the cache has on a question: a stored response, or why there is none."""

    hit: bool
    reason: str
    question: str = ""  # that was answered
    response: Any = None
    similarity: float = 0.0


class CacheStats(NamedTuple):
    """What is in a cache, and what was counted since it was created or cleared."""

    entries: int
    hits: int
    misses: int
    shared: int  # answers that another caller was already computing
    hit_rate: float
    avg_similarity: float  # of hits
    by_kind: Mapping[str, int]  # hits
    by_reason: Mapping[str, int]  # misses
    evicted: int
    not_compared: int  # entries that only the same question finds: too long, or without a vector of this embedder
    persist_error: str | None  # of the last automatic one


class _Question(NamedTuple):
    text: str
    scope: str  # the key of a Scope

    @property
    def key(self) -> tuple[str, str]:
        return self.scope, normalize_query(self.text)


class _QuestionEmbedder:
    """Embeds questions; an embedder that fails costs a hit, never an answer."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self.compares_words = embedder is None

    @property
    def fingerprint(self) -> str:
        """What decides which vectors can be compared; "" if there is no embedder or it cannot be asked."""
        if self._embedder is None:
            return ""
        try:
            return f"{self._embedder.name} {self._embedder.prompt_format}"
        except Exception:  # of any embedder
            return ""

    def embed(self, text: str, dimension: int) -> "tuple[Vector | None, str | None]":
        """Return the vector of a question, or why it cannot be compared; comparing words needs no vector."""
        if len(text) > MAX_COMPARED_CHARS:
            return None, "the question is too long to be compared with others"
        if self._embedder is None:
            return None, None
        try:
            (numbers,) = self._embedder.embed([text], "similarity")
            vector = unit_vector(numbers, "what the embedder returned")
            if dimension not in (0, len(vector)):
                raise EmbedderError("the embedder returned a vector of another length than before")
            return vector, None
        except Exception as error:  # of any embedder
            return None, f"the question could not be embedded: {type(error).__name__}"


class _Freshness:
    """Decides whether an entry may still be served: young enough, and drawn from the present versions of documents."""

    def __init__(
        self, ttl_s: float, clock: Callable[[], float], version_of: Callable[[str], str | None] | None
    ) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._version_of = version_of

    def now_ms(self) -> int:
        return max(0, int(self._clock() * 1000))

    def is_expired(self, entry: CacheEntry) -> bool:
        # When the clock was set back, an entry from the future does not live longer than its time either.
        return abs(self.now_ms() - entry.cached_at_ms) >= self._ttl_s * 1000

    def is_fresh(self, entry: CacheEntry) -> bool:
        if self.is_expired(entry):
            return False
        if self._version_of is None:
            return True
        return all(self._version(document) == version for document, version in entry.documents.items())

    def present_versions(self, documents: Mapping[str, str]) -> dict[str, str]:
        """Return the documents with their present versions where none was given."""
        return {document: version or self._version(document) or "" for document, version in documents.items()}

    def _version(self, document: str) -> str | None:
        try:
            return self._version_of(document) if self._version_of else ""
        except Exception:  # of the caller's function: what cannot be checked is not served
            return None


class _Counters:
    """Counts hits and misses. Not safe between threads: the cache holds a lock."""

    def __init__(self) -> None:
        self.by_kind: Counter[str] = Counter()
        self.by_reason: Counter[str] = Counter()
        self.similarities = 0.0
        self.shared = 0

    def count(self, lookup: Lookup) -> None:
        if lookup.hit:
            self.by_kind[lookup.kind] += 1
            self.similarities += lookup.similarity
        else:
            self.by_reason[lookup.reason] += 1


class SemanticCache:
    """Answers to questions, found again by the same question or one that means the same.

    Without an embedder, questions are compared by their words. The defaults of `threshold` and `margin` depend on that:
    0.85 and 0.13 by meaning, 0.8 and 0.27 by words. An entry is served for `ttl_s` seconds after it was stored.
    `version_of` returns the present version of a document, None when it is gone: an answer drawn from another version
    is not served. `on_persist`, plain or async, gets all entries as JSON values, which `initial_entries` takes; with
    `auto_persist` it is called after each change. `clock` returns seconds since 1970.
    """

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        threshold: float | None = None,
        margin: float | None = None,
        max_entries: int = MAX_ENTRIES,
        ttl_s: float = TTL_S,
        on_persist: Callable[[list[dict[str, Any]]], object] | None = None,
        initial_entries: Iterable[CacheEntry | Mapping[str, Any]] = (),
        auto_persist: bool = False,
        version_of: Callable[[str], str | None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        default = BY_WORDS if embedder is None else BY_MEANING
        self._criteria = Criteria(
            default.threshold if threshold is None else threshold, default.margin if margin is None else margin
        )
        _check_settings(self._criteria, max_entries, ttl_s)
        self._embedder = _QuestionEmbedder(embedder)
        self._freshness = _Freshness(ttl_s, clock, version_of)
        self._persister = Persister(on_persist, self._snapshot, automatic=auto_persist)
        self._single_flight = SingleFlight()
        self._lock = Lock()
        self._entries = EntryTable(max_entries, by_words=embedder is None)
        self._counters = _Counters()
        self._invalidations = 0  # a computation that began before one of them is not stored after it
        self._closed = False
        self._add_initial([validate_entry(entry) for entry in require_iterable(initial_entries, "initial_entries")])

    def lookup(self, query: str, scope: Scope = SHARED) -> Lookup:
        """Look a question up; a miss says why."""
        return self._look_up(_validate_question(query, scope))[0]

    def store(
        self, query: str, response: Any, scope: Scope = SHARED, *, tags: Sequence[str] = (), documents: Documents = ()
    ) -> CacheEntry | None:
        """Store an answer in place of the one to the same question; None when the cache holds no entries at all."""
        self._check_open()
        question = _validate_question(query, scope)
        vector, _ = self._embedder.embed(question.text, self._entries.dimension)
        entry = self._add(question, Computed(response, tags, documents), vector)
        self._persist_change()
        return entry

    @overload
    def get_or_compute(
        self,
        query: str,
        compute: Callable[[], Awaitable[Any]],
        scope: Scope = SHARED,
        *,
        tags: Sequence[str] = (),
        documents: Documents = (),
    ) -> Awaitable[CacheAnswer]: ...
    @overload
    def get_or_compute(
        self,
        query: str,
        compute: Callable[[], Any],
        scope: Scope = SHARED,
        *,
        tags: Sequence[str] = (),
        documents: Documents = (),
    ) -> CacheAnswer: ...
    def get_or_compute(
        self,
        query: str,
        compute: Callable[[], Any],
        scope: Scope = SHARED,
        *,
        tags: Sequence[str] = (),
        documents: Documents = (),
    ) -> CacheAnswer | Awaitable[CacheAnswer]:
        """Return the cached answer, or compute and store it. Await the result when `compute` is an async function.

        `compute` returns a response or a `Computed`. While it runs, other callers with the same question wait for it.
        If it raises, all of them get the error, nothing is stored, and the next caller computes again.
        """
        if not callable(compute):
            raise InputError(f"compute must be a function that returns the answer, not {compute!r:.60}")
        question = _validate_question(query, scope)
        labels = Computed(None, validate_labels(tags, "tags"), validate_documents(documents))
        if is_async(compute):
            return self._answer_async(question, compute, labels)
        answer, is_shared = self._single_flight.run(question.key, lambda: self._answer(question, compute, labels))
        return self._share(answer) if is_shared else answer

    def invalidate(self, *, tags: Sequence[str] = (), document_ids: Sequence[str] = ()) -> int:
        """Remove every answer with one of these tags or drawn from one of these documents; return how many."""
        outdated_tags = set(validate_labels(tags, "tags"))
        changed_ids = set(validate_labels(document_ids, "document_ids"))
        with self._lock:
            self._invalidations += 1
        return self._remove_if(
            lambda entry: not outdated_tags.isdisjoint(entry.tags) or not changed_ids.isdisjoint(entry.documents)
        )

    def clear_expired(self) -> int:
        """Remove what is too old to be served; return how many entries that were."""
        return self._remove_if(self._freshness.is_expired)

    def clear(self) -> None:
        """Remove everything, and count from zero."""
        with self._lock:
            self._invalidations += 1
            self._entries.clear()
            self._counters = _Counters()
        self._persist_change()

    def stats(self) -> CacheStats:
        """Return what is in the cache, and how often it hit."""
        with self._lock:
            counters, entries = self._counters, self._entries
            hits, misses = counters.by_kind.total(), counters.by_reason.total()
            return CacheStats(
                entries=len(entries),
                hits=hits,
                misses=misses,
                shared=counters.shared,
                hit_rate=hits / (hits + misses) if hits + misses else 0.0,
                avg_similarity=counters.similarities / hits if hits else 0.0,
                by_kind=dict(counters.by_kind),
                by_reason=dict(counters.by_reason),
                evicted=entries.evicted,
                not_compared=entries.not_compared,
                persist_error=self._persister.error,
            )

    def tools(self, scope: Scope = SHARED) -> list[Tool]:
        """Return tools that look into the cache, in one scope, and never compute."""

        @tool(read_only=True, hints=LOCAL)
        def cache_lookup(question: Annotated[str, "The question, as a user would ask it."]) -> CachedResponse:
            """Look up whether this question, or one that means the same, was answered before. Good for repeated
            questions; it never computes an answer. A miss says why. Cheap. Example: cache_lookup(question="How do I
            reset my password?").
            """
            found = self.lookup(question, scope)
            if found.entry is None:
                return CachedResponse(False, found.reason, similarity=found.similarity)
            return CachedResponse(True, found.reason, found.entry.query, found.entry.response, found.similarity)

        @tool(read_only=True, hints=LOCAL)
        def cache_stats() -> CacheStats:
            """Show how many answers are cached, how often questions hit, and why others missed. Cheap."""
            return self.stats()

        return [cache_lookup, cache_stats]

    def persist(self) -> Awaitable[None] | None:
        """Pass all entries to `on_persist`, the least recently used first.

        With an async one, in a running event loop, await what this returns.
        """
        return self._persister.persist()

    def close(self) -> Awaitable[None] | None:
        """Persist as `persist` does, and refuse further questions."""
        if self._closed:
            return None
        pending = self.persist()
        self._closed = True
        return pending

    def __enter__(self) -> "SemanticCache":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> "SemanticCache":
        return self

    async def __aexit__(self, *exc: object) -> None:
        pending = self.close()
        if pending is not None:
            await pending

    # Look up

    def _look_up(self, question: _Question) -> "tuple[Lookup, Vector | None]":
        """Return what was found, and the vector of the question if it was embedded."""
        self._check_open()
        began = time.perf_counter()
        with self._lock:
            same = self._entries.get(question.scope, question.text)
        if same is not None and self._is_servable(same):
            return self._count(Lookup(True, "the same question", same, "exact", 1.0), began), None
        vector, why_not = self._embedder.embed(question.text, self._entries.dimension)
        found = Lookup(False, why_not) if why_not else self._find_similar(question, vector)
        if same is not None and not found.hit:
            found = found._replace(reason="the stored answer is too old, or a document it cites has changed")
        return self._count(found, began), vector

    def _find_similar(self, question: _Question, vector: "Vector | None") -> Lookup:
        near = self._near_entries(question, vector)
        candidates = [Candidate(similarity, entry.query, entry.response) for entry, similarity in near]
        hit, reason, runner_up = decide(question.text, candidates, self._criteria)
        similarity = candidates[0].similarity if candidates else 0.0
        kind = "lexical" if self._embedder.compares_words else "semantic"
        return Lookup(hit, reason, near[0][0] if hit else None, kind if hit else "", similarity, runner_up)

    def _near_entries(self, question: _Question, vector: "Vector | None") -> list[tuple[CacheEntry, float]]:
        """Return the most similar entry that may be served and what comes near it; if none is near, the best one."""
        while True:
            with self._lock:
                near = self._entries.find_near(question.scope, question.text, vector, *self._criteria)
            if not near or near[0][1] < self._criteria.threshold:
                return near
            if self._is_servable(near[0][0]):
                return near[:1] + [one for one in near[1:] if self._is_servable(one[0])]

    def _is_servable(self, entry: CacheEntry) -> bool:
        """Return whether an entry may be served; remove it if not."""
        if self._freshness.is_fresh(entry):
            return True
        with self._lock:
            self._entries.remove(entry.id)
        return False

    def _count(self, found: Lookup, began: float) -> Lookup:
        with self._lock:
            self._counters.count(found)
            entry = self._entries.use(found.entry).copy() if found.entry is not None else None
        return found._replace(entry=entry, lookup_ms=(time.perf_counter() - began) * 1000)

    # Compute and store

    def _answer(self, question: _Question, compute: Callable[[], Any], labels: Computed) -> CacheAnswer:
        found, vector = self._look_up(question)
        if found.entry is not None:
            return CacheAnswer(found.entry.response, True, found.reason, found)
        invalidations, labels = self._invalidations, self._with_versions(labels)
        value = compute()
        if isinstance(value, Awaitable):
            close_coroutine(value)
            raise InputError("compute returned an awaitable: pass an async function instead")
        reason, is_stored = self._store_computed(question, value, labels, vector, invalidations)
        if is_stored:
            self._persist_change()
        return CacheAnswer(_copy_response(value), False, reason, found)

    async def _answer_async(
        self, question: _Question, compute: Callable[[], Awaitable[Any]], labels: Computed
    ) -> CacheAnswer:
        answer, is_shared = await self._single_flight.run_async(
            question.key, lambda: self._answer_in_loop(question, compute, labels)
        )
        return self._share(answer) if is_shared else answer

    async def _answer_in_loop(
        self, question: _Question, compute: Callable[[], Awaitable[Any]], labels: Computed
    ) -> CacheAnswer:
        """Do what `_answer` does without blocking the event loop."""
        found, vector = await asyncio.to_thread(self._look_up, question)
        if found.entry is not None:
            return CacheAnswer(found.entry.response, True, found.reason, found)
        invalidations, labels = self._invalidations, self._with_versions(labels)
        value = await compute()
        reason, is_stored = self._store_computed(question, value, labels, vector, invalidations)
        if is_stored and self._persister.is_automatic:
            await self._persister.persist_quietly_async()
        return CacheAnswer(_copy_response(value), False, reason, found)

    def _with_versions(self, labels: Computed) -> Computed:
        """Note the versions of documents before an answer is drawn from them."""
        return labels._replace(documents=self._freshness.present_versions(validate_documents(labels.documents)))

    def _store_computed(
        self, question: _Question, value: Any, labels: Computed, vector: "Vector | None", invalidations: int
    ) -> tuple[str, bool]:
        """Store what was computed, if that is possible, and return why or why not: the answer itself is never lost."""
        computed = value if isinstance(value, Computed) else Computed(value)
        if not computed.keep:
            return "computed, not stored: the computation asked for that", False
        if invalidations != self._invalidations:
            return "computed, not stored: something was invalidated meanwhile", False
        try:
            tags = (*labels.tags, *validate_labels(computed.tags, "tags"))
            documents = {**validate_documents(labels.documents), **validate_documents(computed.documents)}
            entry = self._add(question, Computed(computed.response, tags, documents), vector)
        except InputError as error:
            return f"computed, not stored: {error}", False
        return ("computed and stored", True) if entry else ("computed, not stored: max_entries is 0", False)

    def _add(self, question: _Question, computed: Computed, vector: "Vector | None") -> CacheEntry | None:
        response = validate_response(computed.response)
        tags = validate_labels(computed.tags, "tags")
        documents = self._freshness.present_versions(validate_documents(computed.documents))
        embedder = self._embedder.fingerprint
        with self._lock:
            entry = CacheEntry(
                self._entries.next_id,
                question.text,
                response,
                question.scope,
                self._freshness.now_ms(),
                vector=vector,
                embedder=embedder if vector is not None else "",
                tags=tags,
                documents=documents,
            )
            return entry.copy() if self._entries.add(entry, embedder) else None

    def _share(self, answer: CacheAnswer) -> CacheAnswer:
        """Return a caller's own copy of an answer that another caller computed."""
        with self._lock:
            self._counters.shared += 1
        reason = "another caller was already computing it"
        return CacheAnswer(_copy_response(answer.response), True, reason, Lookup(False, reason))

    def _remove_if(self, is_unwanted: Callable[[CacheEntry], bool]) -> int:
        with self._lock:
            unwanted = [entry.id for entry in self._entries if is_unwanted(entry)]
            for id in unwanted:
                self._entries.remove(id)
        if unwanted:
            self._persist_change()
        return len(unwanted)

    # Persist

    def _snapshot(self) -> list[dict[str, Any]]:
        with self._lock:
            entries = list(self._entries)
        return [entry.to_json() for entry in entries]

    def _persist_change(self) -> None:
        """Persist if `auto_persist` was set; a full disk must not cost the caller an answer, so `stats` reports it."""
        if self._persister.is_automatic:
            self._persister.persist_quietly()

    def _add_initial(self, entries: Sequence[CacheEntry]) -> None:
        if len({entry.id for entry in entries}) < len(entries):
            raise InputError("a cached entry cannot be used: two initial entries have the same id")
        embedder = self._embedder.fingerprint if entries else ""
        for entry in entries:
            if not self._freshness.is_expired(entry):
                self._entries.add(entry, embedder)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the cache is closed: open another one")


def _validate_question(query: str, scope: Scope) -> _Question:
    if not isinstance(scope, Scope):
        raise InputError(f"the scope must be a Scope, such as Scope(user=…), not {scope!r:.60}")
    return _Question(validate_query(query), SHARED_KEY if scope is SHARED else scope.key)


def _copy_response(value: Any) -> Any:
    """Return a copy, so that no caller can change another's answer; what is not JSON is returned as it is."""
    response = value.response if isinstance(value, Computed) else value
    try:
        return response if isinstance(response, str) else validate_response(response)
    except InputError:
        return response


def _check_settings(criteria: Criteria, max_entries: Any, ttl_s: Any) -> None:
    for name, value in criteria._asdict().items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:  # also refuses NaN
            raise InputError(f"the {name} must be from 0 to 1, not {value!r:.60}")
    if isinstance(max_entries, bool) or not isinstance(max_entries, int) or max_entries < 0:
        raise InputError(f"max_entries must be a whole number of at least 0, not {max_entries!r:.60}")
    if not isinstance(ttl_s, int | float) or not ttl_s > 0:
        raise InputError(f"ttl_s must be more than 0 seconds, not {ttl_s!r:.60}")
