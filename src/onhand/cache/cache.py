"""SemanticCache: answers to questions, found again by the same question or by one that means the same.

Entries and their lookup are in `lookup`. This module adds what callers see: computing an answer once for all who wait
for it (single-flight), tools, and persistence through `on_persist` or in a file. Safe between threads and event loops.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from threading import Lock
from typing import Annotated, Any, NamedTuple, TypeVar, overload

from onhand.cache.entry import (
    CacheEntry,
    Computed,
    Documents,
    Scope,
    read_entries,
    validate_documents,
    validate_entry,
    validate_labels,
    validate_query,
    validate_response,
    write_entries,
)
from onhand.cache.guards import CAUTION, criteria_of
from onhand.cache.lookup import CacheEntries, CacheStats, Freshness, Lookup, Question, Vector
from onhand.embed.embedder import Embedder
from onhand.errors import InputError, StoreError
from onhand.persistence import Persister, close_coroutine, is_async, require_iterable
from onhand.tools import Tool, tool
from onhand.tools.tool import LOCAL

MAX_ENTRIES = 1000
TTL_S = 24 * 60 * 60.0
SHARED = Scope()  # for callers that have nothing to keep apart
SHARED_KEY = SHARED.key

T = TypeVar("T")

# The computations that the running code is part of. One that asks for its own key must not wait for itself.
_enclosing: ContextVar[tuple["Flight", ...]] = ContextVar("onhand_cache_flights", default=())


class Abandoned(Exception):
    """The computation was cancelled or interrupted. Those who wait for it try again."""


class Flight:
    """A computation in progress. Its future ends with the value, the error, or `Abandoned`."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()
        self.future.set_running_or_notify_cancel()  # a cancelled waiter must not cancel it
        self.value: Any = None
        self._loop = _running_loop()

    def can_be_awaited(self, *, blocking: bool) -> bool:
        """Return whether waiting can end: not inside the computation, nor while blocking the loop it runs in."""
        loop = _running_loop()
        return self not in _enclosing.get() and not (blocking and loop is not None and loop is self._loop)


class SingleFlight:
    """Computations in progress by key. A caller that asks for the same key in the meantime waits for the result.

    A thread can wait for a task, and a task for a thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._flights: dict[Hashable, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def run(self, key: Hashable, compute: Callable[[], T]) -> tuple[T, bool]:
        """Return the value for a key, and whether another caller computed it."""
        while True:
            flight, is_leader = self._join(key)
            if is_leader:
                with self._lead(key, flight):
                    flight.value = compute()
                return flight.value, False
            if not flight.can_be_awaited(blocking=True):
                return compute(), False
            with suppress(Abandoned):
                return flight.future.result(), True

    async def run_async(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Do what `run` does without blocking the event loop."""
        while True:
            flight, is_leader = self._join(key)
            if is_leader:
                with self._lead(key, flight):
                    flight.value = await compute()
                return flight.value, False
            if not flight.can_be_awaited(blocking=False):
                return await compute(), False
            with suppress(Abandoned):
                return await asyncio.wrap_future(flight.future), True

    def _join(self, key: Hashable) -> tuple[Flight, bool]:
        """Return the flight of a key, and whether the caller has begun it."""
        with self._lock:
            flight = self._flights.get(key)
            if flight is not None:
                return flight, False
            flight = self._flights[key] = Flight()
            return flight, True

    @contextmanager
    def _lead(self, key: Hashable, flight: Flight) -> Iterator[None]:
        """Deliver the value that the caller computes inside, or its error, to everyone who waits."""
        token = _enclosing.set((*_enclosing.get(), flight))
        try:
            yield
        except BaseException as error:
            self._forget(key)
            flight.future.set_exception(error if isinstance(error, Exception) else Abandoned())
            raise
        else:
            self._forget(key)
            flight.future.set_result(flight.value)
        finally:
            with suppress(ValueError):  # a coroutine that nobody awaits to its end is closed in another context
                _enclosing.reset(token)

    def _forget(self, key: Hashable) -> None:
        with self._lock:
            del self._flights[key]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class CacheAnswer(NamedTuple):
    """A response and whether it was cached; `reason` says where it came from and whether it was stored."""

    response: Any
    cached: bool
    reason: str
    lookup: Lookup


class CachedResponse(NamedTuple):
    """The stored response to a question, or why there is none."""

    hit: bool
    reason: str
    question: str = ""  # that was answered
    response: Any = None
    similarity: float = 0.0


class SemanticCache:
    """Answers to questions, found again by the same question or one that means the same.

    Without an embedder, questions are compared by their words. `caution` says how sure a hit must be, from 0 (more
    hits) to 1 (fewer wrong ones); it sets the required similarity, 0.85 by meaning and 0.8 by words unless changed, and
    the lead over the next question. A question that is less similar than `threshold` never hits. An entry is served for
    `ttl_s` seconds after it was stored.
    `version_of` returns the current version of a document, or None if it no longer exists; an answer based on another
    version is not served. `on_persist`, plain or async, is called with all entries as JSON values, which
    `initial_entries` accepts; with `auto_persist` it is called after each change. `clock` returns seconds since 1970.
    """

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        caution: float = CAUTION,
        threshold: float | None = None,
        max_entries: int = MAX_ENTRIES,
        ttl_s: float = TTL_S,
        on_persist: Callable[[list[dict[str, Any]]], object] | None = None,
        initial_entries: Iterable[CacheEntry | Mapping[str, Any]] = (),
        auto_persist: bool = False,
        version_of: Callable[[str], str | None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        criteria = criteria_of(caution, by_words=embedder is None, threshold=threshold)
        _check_settings(max_entries, ttl_s)
        self._entries = CacheEntries(embedder, criteria, Freshness(ttl_s, clock, version_of), max_entries)
        self._persister = Persister(on_persist, self._entries.to_json, automatic=auto_persist)
        self._single_flight = SingleFlight()
        self._closed = False
        initial = [validate_entry(entry) for entry in require_iterable(initial_entries, "initial_entries")]
        self._entries.add_initial(initial)

    def lookup(self, query: str, scope: Scope = SHARED) -> Lookup:
        """Look a question up. A miss says why."""
        return self._look_up(_validate_question(query, scope))[0]

    def store(
        self, query: str, response: Any, scope: Scope = SHARED, *, tags: Sequence[str] = (), documents: Documents = ()
    ) -> CacheEntry | None:
        """Store an answer in place of one to the same question; return None if `max_entries` is 0."""
        self._check_open()
        question = _validate_question(query, scope)
        entry = self._entries.add(question, Computed(response, tags, documents), self._entries.embed(question))
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
        """Return the cached answer, or compute and store it. Await the result if `compute` is an async function.

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
        """Remove every answer with one of these tags or based on one of these documents; return how many."""
        outdated_tags = set(validate_labels(tags, "tags"))
        changed_ids = set(validate_labels(document_ids, "document_ids"))
        return self._persist_removal(self._entries.invalidate(outdated_tags, changed_ids))

    def clear_expired(self) -> int:
        """Remove every answer that is too old to be served; return how many."""
        return self._persist_removal(self._entries.clear_expired())

    def clear(self) -> None:
        """Remove every answer, and reset all counts."""
        self._entries.clear()
        self._persist_change()

    def stats(self) -> CacheStats:
        """Return the contents of the cache, and how often it hit."""
        return self._entries.stats(self._persister.error)

    def tools(self, scope: Scope = SHARED) -> list[Tool]:
        """Return tools that look answers up in one scope and never compute any."""

        @tool(read_only=True, hints=LOCAL, reads=["cache"])
        def cache_lookup(question: Annotated[str, "The question, as a user would ask it."]) -> CachedResponse:
            """Look up whether this question, or one that means the same, was answered before. Good for repeated
            questions; it never computes an answer. A miss says why. Cheap. Example: cache_lookup(question="How do I
            reset my password?").
            """
            found = self.lookup(question, scope)
            if found.entry is None:
                return CachedResponse(False, found.reason, similarity=found.similarity)
            return CachedResponse(True, found.reason, found.entry.query, found.entry.response, found.similarity)

        @tool(read_only=True, hints=LOCAL, reads=["cache"])
        def cache_stats() -> CacheStats:
            """Show how many answers are cached, how often questions hit, and why others missed. Cheap."""
            return self.stats()

        return [cache_lookup, cache_stats]

    def persist(self) -> Awaitable[None] | None:
        """Pass all entries to `on_persist`, the least recently used first.

        If it is async and an event loop is running, await what this returns.
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

    def _look_up(self, question: Question) -> "tuple[Lookup, Vector | None]":
        self._check_open()
        return self._entries.look_up(question)

    def _answer(self, question: Question, compute: Callable[[], Any], labels: Computed) -> CacheAnswer:
        found, vector = self._look_up(question)
        if found.entry is not None:
            return CacheAnswer(found.entry.response, True, found.reason, found)
        invalidations, labels = self._entries.invalidations, self._with_versions(labels)
        value = compute()
        if isinstance(value, Awaitable):
            close_coroutine(value)
            raise InputError("compute returned an awaitable: pass an async function instead")
        reason, is_stored = self._store_computed(question, value, labels, vector, invalidations)
        if is_stored:
            self._persist_change()
        return CacheAnswer(_copy_response(value), False, reason, found)

    async def _answer_async(
        self, question: Question, compute: Callable[[], Awaitable[Any]], labels: Computed
    ) -> CacheAnswer:
        answer, is_shared = await self._single_flight.run_async(
            question.key, lambda: self._answer_in_loop(question, compute, labels)
        )
        return self._share(answer) if is_shared else answer

    async def _answer_in_loop(
        self, question: Question, compute: Callable[[], Awaitable[Any]], labels: Computed
    ) -> CacheAnswer:
        """Do what `_answer` does without blocking the event loop."""
        found, vector = await asyncio.to_thread(self._look_up, question)
        if found.entry is not None:
            return CacheAnswer(found.entry.response, True, found.reason, found)
        invalidations, labels = self._entries.invalidations, self._with_versions(labels)
        value = await compute()
        reason, is_stored = self._store_computed(question, value, labels, vector, invalidations)
        if is_stored and self._persister.is_automatic:
            await self._persister.persist_quietly_async()
        return CacheAnswer(_copy_response(value), False, reason, found)

    def _with_versions(self, labels: Computed) -> Computed:
        """Note the versions of documents before an answer is computed from them."""
        return labels._replace(documents=self._entries.current_versions(labels))

    def _store_computed(
        self, question: Question, value: Any, labels: Computed, vector: "Vector | None", invalidations: int
    ) -> tuple[str, bool]:
        """Store a computed answer if possible, and return the reason and whether it was stored.

        An answer that cannot be stored is still returned to the caller, so this does not raise.
        """
        computed = value if isinstance(value, Computed) else Computed(value)
        if not computed.keep:
            return "computed, not stored: the computation asked for that", False
        if invalidations != self._entries.invalidations:
            return "computed, not stored: something was invalidated meanwhile", False
        try:
            tags = (*labels.tags, *validate_labels(computed.tags, "tags"))
            documents = {**validate_documents(labels.documents), **validate_documents(computed.documents)}
            entry = self._entries.add(question, Computed(computed.response, tags, documents), vector)
        except InputError as error:
            return f"computed, not stored: {error}", False
        return ("computed and stored", True) if entry else ("computed, not stored: max_entries is 0", False)

    def _share(self, answer: CacheAnswer) -> CacheAnswer:
        """Return a copy of an answer that another caller computed."""
        self._entries.count_shared()
        reason = "another caller was already computing it"
        return CacheAnswer(_copy_response(answer.response), True, reason, Lookup(False, reason))

    def _persist_removal(self, removed: int) -> int:
        if removed:
            self._persist_change()
        return removed

    def _persist_change(self) -> None:
        """Persist if `auto_persist` is set. `stats` reports a failure, which must not cost the caller an answer."""
        if self._persister.is_automatic:
            self._persister.persist_quietly()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the cache is closed: open another one")


def open_cache(
    path: str | os.PathLike[str], embedder: Embedder | None = None, *, auto_persist: bool = False, **options: Any
) -> SemanticCache:
    """Open the cache in a file, which `persist` and `close` write and, with `auto_persist`, every change.

    `options` are those of SemanticCache. Several processes may use one file: the last to write wins, and what the
    others have computed since they started is computed again when it is needed. Raise StoreError, and leave the file
    unchanged, if it cannot be read.
    """
    path = os.path.realpath(path)
    try:
        return SemanticCache(
            embedder,
            on_persist=partial(write_entries, path),
            initial_entries=read_entries(path),
            auto_persist=auto_persist,
            **options,
        )
    except InputError as error:
        if "cached entry" not in str(error):  # an invalid option, not an invalid file
            raise
        raise StoreError(f"{path}: {error}; delete the file to start again") from None


def _validate_question(query: str, scope: Scope) -> Question:
    if not isinstance(scope, Scope):
        raise InputError(f"the scope must be a Scope, such as Scope(user=…), not {scope!r:.60}")
    return Question(validate_query(query), SHARED_KEY if scope is SHARED else scope.key)


def _copy_response(value: Any) -> Any:
    """Return a copy, so that no caller can change another's answer; what is not JSON is returned as it is."""
    response = value.response if isinstance(value, Computed) else value
    try:
        return response if isinstance(response, str) else validate_response(response)
    except InputError:
        return response


def _check_settings(max_entries: Any, ttl_s: Any) -> None:
    if isinstance(max_entries, bool) or not isinstance(max_entries, int) or max_entries < 0:
        raise InputError(f"max_entries must be a whole number of at least 0, not {max_entries!r:.60}")
    if not isinstance(ttl_s, int | float) or not ttl_s > 0:
        raise InputError(f"ttl_s must be more than 0 seconds, not {ttl_s!r:.60}")
