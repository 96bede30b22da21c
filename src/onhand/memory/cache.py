"""Was this asked before? Answers by question: the same question, or one that means the same.

In this order, each step only when the one before found nothing: the very same question, without an embedder; the most
similar one, if the two agree in their particulars (memory/guards.py) and no other comes near (memory/decision.py).
Nothing crosses a Scope. Where entries are kept is the caller's: `on_persist` is given all of them. It knows neither
files nor models. Safe between threads and event loops.
"""

from array import array
from asyncio import CancelledError, Task
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from onhand.embed.embedder import is_in_process, unit
from onhand.errors import EmbedderError, InputError, StoreError
from onhand.memory import age, steps
from onhand.memory.bounded import Bounded, TooLate
from onhand.memory.decision import BY_MEANING, BY_WORDS, Candidate, Demand, decide
from onhand.memory.entries import MAX_COMPARED_CHARS, Entries, normal
from onhand.memory.entry import (
    Computed,
    Entry,
    Scope,
    accepted_documents,
    accepted_entry,
    accepted_labels,
    accepted_query,
    accepted_response,
    copied,
)
from onhand.memory.flight import Abandoned, Flights, board, leave, waiting_for
from onhand.memory.persisting import Persisting, accepted_many, is_async
from onhand.memory.tally import Stats, Tally

if TYPE_CHECKING:
    from onhand.embed.embedder import Embedder

MAX_ENTRIES = 1000
TTL_S = 24 * 60 * 60.0
EMBED_TIMEOUT_S = 10.0  # who waits longer for a look into a cache had better have computed
SHARED = Scope()  # for who has nothing to tell apart
SHARED_KEY = SHARED.key

Documents = Mapping[str, str] | Sequence[str]


class Lookup(NamedTuple):
    """Whether a question was answered before, by what, and why or why not."""

    hit: bool
    reason: str
    entry: Entry | None = None
    kind: str = ""  # of a hit: "exact", "semantic" or "lexical"
    similarity: float = 0.0
    runner_up: float | None = None  # the similarity of the next question that could be meant, where it comes near
    lookup_ms: float = 0.0


class Answer(NamedTuple):
    """A response, and whether it was there before; `reason` says where it came from and what became of it."""

    response: Any
    cached: bool
    reason: str
    lookup: Lookup


class _Question(NamedTuple):
    text: str
    scope: str  # the key of a Scope

    @property
    def key(self) -> tuple[str, str]:
        return self.scope, normal(self.text)


class SemanticCache:
    """Answers to questions, found again by the same question or one that means the same.

    Without an embedder similarity goes by words. A threshold or margin that is not given is the one that suits how
    questions are compared: 0.85 and 0.13 by meaning, 0.8 and 0.27 by words. `ttl_s` counts from when an answer was
    stored. `version_of` tells the present version of a document, None when it is gone: an answer drawn from another
    version is not served. `on_persist`, plain or async, gets all entries as JSON values, which `initial_entries` takes;
    with `auto_persist` after each change. An embedder that takes longer than `embed_timeout_s` is not waited for,
    unless it works in this process.
    """

    def __init__(
        self,
        embedder: "Embedder | None" = None,
        *,
        threshold: float | None = None,
        margin: float | None = None,
        max_entries: int = MAX_ENTRIES,
        ttl_s: float = TTL_S,
        embed_timeout_s: float = EMBED_TIMEOUT_S,
        on_persist: Callable[[list[dict[str, Any]]], object] | None = None,
        initial_entries: Iterable[Entry | Mapping[str, Any]] = (),
        auto_persist: bool = False,
        version_of: Callable[[str], str | None] | None = None,
        clock: Callable[[], age.Moment] = age.now,
    ) -> None:
        usual = BY_WORDS if embedder is None else BY_MEANING
        self._demand = Demand(
            usual.threshold if threshold is None else threshold, usual.margin if margin is None else margin
        )
        _check_settings(self._demand, max_entries, ttl_s, embed_timeout_s)
        self._embedder, self._bounded = embedder, Bounded(embed_timeout_s)
        self._max_entries, self._ttl_s = max_entries, ttl_s
        self._persisting = Persisting(on_persist, self._picture) if on_persist is not None else None
        self._auto_persist = auto_persist
        self._version_of = version_of
        self._clock = clock
        self._lock = Lock()
        self._flights = Flights()
        self._entries, self._tally = self._empty()
        self._next_id = 1
        self._withdrawals = 0  # how often something was taken back: what was begun before is not stored after
        self._persist_error: str | None = None
        self._closed = False
        self._hydrate([accepted_entry(given) for given in accepted_many(initial_entries, "initial_entries")])

    def lookup(self, query: str, scope: Scope = SHARED) -> Lookup:
        """Whether a question was answered before; a miss says why."""
        return steps.run(self._look(_question(query, scope)))[0]

    def store(
        self, query: str, response: Any, scope: Scope = SHARED, *, tags: Sequence[str] = (), documents: Documents = ()
    ) -> Entry | None:
        """Keep an answer in the place of the one to the same question; None when this cache keeps nothing."""
        self._check_open()
        question, computed = _question(query, scope), Computed(response, tags, documents)
        vector, _ = self._vector(question.text)
        entry = self._keep(question, computed, vector)
        self._changed()
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
    ) -> Awaitable[Answer]: ...
    @overload
    def get_or_compute(
        self,
        query: str,
        compute: Callable[[], Any],
        scope: Scope = SHARED,
        *,
        tags: Sequence[str] = (),
        documents: Documents = (),
    ) -> Answer: ...
    def get_or_compute(
        self,
        query: str,
        compute: Callable[[], Any],
        scope: Scope = SHARED,
        *,
        tags: Sequence[str] = (),
        documents: Documents = (),
    ) -> Answer | Awaitable[Answer]:
        """The answer from before, or that of `compute`, which is kept. Await it when `compute` is an async function.

        `compute` gives a response or a `Computed`. While it runs, whoever asks the same waits for it; when it raises,
        all of them get the error, nothing is kept, and the next one to ask computes again.
        """
        if not callable(compute):
            raise InputError(f"compute must be a function that gives the answer, not {compute!r:.60}")
        given = Computed(None, accepted_labels(tags, "tags"), accepted_documents(documents))
        procedure = self._answer(_question(query, scope), compute, given, blocks=not is_async(compute))
        return steps.soon(procedure) if is_async(compute) else steps.run(procedure)

    def invalidate(self, *, tags: Sequence[str] = (), document_ids: Sequence[str] = ()) -> int:
        """Take out every answer with one of these tags or drawn from one of these documents; how many there were."""
        wanted, changed = set(accepted_labels(tags, "tags")), set(accepted_labels(document_ids, "document_ids"))
        return self._take_out(
            lambda entry: not wanted.isdisjoint(entry.tags) or not changed.isdisjoint(entry.documents), withdrawn=True
        )

    def clear_expired(self) -> int:
        """Take out what is too old to be served; how many there were."""
        now = self._clock()
        return self._take_out(lambda entry: self._is_expired(entry, now))

    def clear(self) -> None:
        """Take out everything, and count from zero."""
        with self._lock:
            self._withdrawals += 1
            self._entries, self._tally = self._empty()
        self._changed()

    def stats(self) -> Stats:
        """What is in the cache, and how it did."""
        with self._lock:
            entries = self._entries
            not_compared = len(entries) - entries.compared
            return self._tally.stats(len(entries), entries.evicted, not_compared, self._persist_error)

    def persist(self) -> Awaitable[None] | None:
        """Hand all entries to `on_persist`, those that were used least recently first.

        With an async one, where an event loop runs, what is given back is to be awaited.
        """
        return self._persisting.hand_over() if self._persisting else None

    def close(self) -> Awaitable[None] | None:
        """Persist, as `persist` does, and answer no more."""
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

    def _picture(self) -> list[dict[str, Any]]:
        with self._lock:
            entries = list(self._entries)
        return [entry.as_json() for entry in entries]

    def _look(self, question: _Question) -> steps.Procedure[tuple[Lookup, Any]]:
        """What was found, and the vector of the question where one was made."""
        self._check_open()
        began = perf_counter()
        vector = None
        with self._lock:
            same = self._entries.exact(question.scope, question.text)
        if same is not None and self._is_served(same, self._clock()):
            found = Lookup(True, "the same question", same, "exact", 1.0)
        else:
            vector, why_not = yield steps.Work(partial(self._vector, question.text))
            found = Lookup(False, why_not) if why_not else self._similar(question, vector)
            if same is not None and not found.hit:
                found = found._replace(reason="the answer to this question is too old, or what it cites has changed")
        return self._counted(found)._replace(lookup_ms=(perf_counter() - began) * 1000), vector

    def _similar(self, question: _Question, vector: "array[float] | None") -> Lookup:
        near = self._near(question, vector)
        candidates = [Candidate(similarity, entry.query, entry.response) for entry, similarity in near]
        hit, reason, runner_up = decide(question.text, candidates, self._demand)
        similarity = candidates[0].similarity if candidates else 0.0
        kind = "lexical" if self._embedder is None else "semantic"
        return Lookup(hit, reason, near[0][0] if hit else None, kind if hit else "", similarity, runner_up)

    def _near(self, question: _Question, vector: "array[float] | None") -> list[tuple[Entry, float]]:
        """The most similar entry that may be served, and what comes near it; where none is similar enough, the best."""
        now = self._clock()
        while True:
            with self._lock:
                near = self._entries.near(question.scope, question.text, vector, *self._demand)
            if not near or near[0][1] < self._demand.threshold:
                return near
            if self._is_served(near[0][0], now):
                return near[:1] + [one for one in near[1:] if self._is_served(one[0], now)]

    def _counted(self, found: Lookup) -> Lookup:
        with self._lock:
            if found.entry is None:
                self._tally.miss(found.reason)
                return found
            entry = self._entries.use(found.entry)
            self._tally.hit(found.kind, found.similarity)
        return found._replace(entry=copied(entry))

    def _vector(self, text: str) -> "tuple[array[float] | None, str | None]":
        """The vector of a question, or why it cannot be compared; comparing words needs no vector."""
        if len(text) > MAX_COMPARED_CHARS:
            return None, "the question is too long to be compared by meaning"
        if self._embedder is None:
            return None, None
        try:
            embed = partial(self._embedder.embed, [text], "similarity")
            (vector,) = embed() if is_in_process(self._embedder) else self._bounded.call(embed)
            vector = unit(vector, "what the embedder gave")
            if self._entries.dimension not in (0, len(vector)):
                raise EmbedderError("what the embedder gave is not as long as it was before")
            return vector, None
        except TooLate:
            return None, f"the embedder did not answer within {self._bounded.timeout_s:g} s"
        except Exception as error:  # of anybody's embedder: a cache that cannot compare is a cache that misses
            return None, f"the question could not be embedded: {type(error).__name__}"

    def _is_served(self, entry: Entry, now: age.Moment) -> bool:
        """Whether an entry may be given to anybody: young enough, and its documents are as they were."""
        if self._is_expired(entry, now) or self._is_outdated(entry):
            with self._lock:
                self._entries.remove(entry.id)
            return False
        return True

    def _is_expired(self, entry: Entry, now: age.Moment) -> bool:
        return age.age_s(entry.born, now) >= self._ttl_s

    def _is_outdated(self, entry: Entry) -> bool:
        if self._version_of is None:
            return False
        return any(self._version(document) != version for document, version in entry.documents.items())

    def _version(self, document: str) -> str | None:
        try:
            return self._version_of(document) if self._version_of else ""
        except Exception:  # of the caller's function: what cannot be checked is not served
            return None

    def _versions(self, documents: Mapping[str, str]) -> dict[str, str]:
        """The documents with their present versions where none was given."""
        return {document: version or self._version(document) or "" for document, version in documents.items()}

    def _answer(
        self, question: _Question, compute: Callable[[], Any], given: Computed, blocks: bool
    ) -> steps.Procedure[Answer]:
        """One caller's way to an answer: wait for who computes it already, or look and compute."""
        while True:
            flight, is_ours = self._flights.join(question.key)
            if is_ours:
                break
            with waiting_for(flight, blocks) as can_wait:
                if not can_wait:
                    return (yield from self._found_or_computed(question, compute, given))
                try:
                    response = yield steps.Wait(flight.future)
                except Abandoned:
                    continue
            with self._lock:
                self._tally.share()
            reason = "another caller was asking the same"
            return Answer(_copy_of(response), True, reason, Lookup(False, reason))
        token = board(flight)
        try:
            answer = yield from self._found_or_computed(question, compute, given)
        except BaseException as error:
            self._flights.land(question.key, flight, error=error)
            raise
        else:
            self._flights.land(question.key, flight, answer.response)
            return answer
        finally:
            leave(token)

    def _found_or_computed(
        self, question: _Question, compute: Callable[[], Any], given: Computed
    ) -> steps.Procedure[Answer]:
        found, vector = yield from self._look(question)
        if found.entry is not None:
            return Answer(found.entry.response, True, found.reason, found)
        withdrawals = self._withdrawals
        documents = self._versions(accepted_documents(given.documents))  # before what is drawn from them is made
        value = yield steps.Compute(compute)
        computed = value if isinstance(value, Computed) else Computed(value)
        if not computed.keep:
            reason = "computed, and not kept: it was for now only"
        elif withdrawals != self._withdrawals:
            reason = "computed, and not kept: something was taken back meanwhile"
        else:
            reason = yield from self._kept(question, computed, given.tags, documents, vector)
        return Answer(_copy_of(computed.response), False, reason, found)

    def _kept(
        self,
        question: _Question,
        computed: Computed,
        tags: Sequence[str],
        documents: Mapping[str, str],
        vector: "array[float] | None",
    ) -> steps.Procedure[str]:
        """Keep what was computed, if it can be, and say so. An answer that was paid for is never lost here."""
        try:
            cited = {**documents, **accepted_documents(computed.documents)}
            computed = computed._replace(tags=(*tags, *accepted_labels(computed.tags, "tags")), documents=cited)
            entry = self._keep(question, computed, vector)
        except InputError as error:
            return f"computed, and not kept: {error}"
        if self._persisting is not None and self._auto_persist:
            yield from self._persisted_at_once(self._persisting)
        return "computed, and kept" if entry else "computed, and not kept: this cache keeps nothing"

    def _keep(self, question: _Question, computed: Computed, vector: "array[float] | None") -> Entry | None:
        response = accepted_response(computed.response)
        tags = accepted_labels(computed.tags, "tags")
        documents = self._versions(accepted_documents(computed.documents))
        if not self._max_entries:
            return None
        stamp = self._stamp()
        with self._lock:
            entry = Entry(
                self._next_id,
                question.text,
                response,
                question.scope,
                self._clock(),
                vector=vector,
                embedder=stamp if vector is not None else "",
                tags=tags,
                documents=documents,
            )
            self._next_id += 1
            self._entries.put(entry, stamp)
        return copied(entry)

    def _take_out(self, is_meant: Callable[[Entry], bool], withdrawn: bool = False) -> int:
        with self._lock:
            self._withdrawals += withdrawn
            meant = [entry.id for entry in self._entries if is_meant(entry)]
            for id in meant:
                self._entries.remove(id)
        if meant:
            self._changed()
        return len(meant)

    def _empty(self) -> tuple[Entries, Tally]:
        return Entries(self._max_entries, by_words=self._embedder is None), Tally()

    def _hydrate(self, entries: Sequence[Entry]) -> None:
        if len({entry.id for entry in entries}) < len(entries):
            raise InputError("a cached entry cannot be used: its id stands twice among the initial entries")
        stamp, now = self._stamp() if entries else "", self._clock()
        for entry in entries:
            self._next_id = max(self._next_id, entry.id + 1)
            if not self._is_expired(entry, now):
                self._entries.put(entry._replace(born=age.by_the_clocks_of(now, entry.born)), stamp)

    def _stamp(self) -> str:
        """What decides which vectors can be compared; "" when the embedder cannot even say its name."""
        if self._embedder is None:
            return ""
        try:
            return f"{self._embedder.name} {self._embedder.prompt_format}"
        except Exception:  # as in _vector
            return ""

    def _changed(self) -> "Task[None] | None":
        """Persist, if that was wanted. A full disk must not lose the caller an answer: stats tell of it."""
        if not self._auto_persist or self._persisting is None:
            return None
        try:
            pending = self._persisting.hand_over()
        except Exception as error:  # of the caller's function
            self._persist_error = _told(error)
            return None
        if pending is None:
            self._persist_error = None
        else:
            pending.add_done_callback(self._persisted)
        return pending

    def _persisted_at_once(self, persisting: Persisting) -> steps.Procedure[None]:
        """What `_changed` does, without keeping an event loop from its work."""
        if not persisting.is_async:
            yield steps.Work(self._changed)
            return
        pending = self._changed()
        if pending is not None:
            yield steps.Settled(pending)

    def _persisted(self, task: "Task[None]") -> None:
        error = CancelledError("it was cancelled") if task.cancelled() else task.exception()
        self._persist_error = None if error is None else _told(error)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the cache is closed: open another one")


def _question(query: str, scope: Scope) -> _Question:
    if not isinstance(scope, Scope):
        raise InputError(f"the scope must be a Scope, such as Scope(user=…), not {scope!r:.60}")
    return _Question(accepted_query(query), SHARED_KEY if scope is SHARED else scope.key)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _copy_of(response: Any) -> Any:
    """A copy, so that one caller cannot change another's answer; what is no JSON is given as it is."""
    try:
        return response if isinstance(response, str) else accepted_response(response)
    except InputError:
        return response


def _check_settings(demand: Demand, max_entries: Any, ttl_s: Any, embed_timeout_s: Any) -> None:
    for name, value in demand._asdict().items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:  # which NaN is not
            raise InputError(f"the {name} must be from 0 to 1, not {value!r:.60}")
    if isinstance(max_entries, bool) or not isinstance(max_entries, int) or max_entries < 0:
        raise InputError(f"max_entries must be a whole number of at least 0, not {max_entries!r:.60}")
    for name, value in (("ttl_s", ttl_s), ("embed_timeout_s", embed_timeout_s)):
        if not isinstance(value, int | float) or not value > 0:
            raise InputError(f"{name} must be more than 0 seconds, not {value!r:.60}")
