"""One Index over a store and, if there is one, an embedder: search by keyword, by meaning, by filter, or fused.

Every corpus uses it. It knows neither where documents come from nor how a result is displayed.
"""

from __future__ import annotations

from onhand import cancellation
from onhand.document import EVERYTHING, Document, Filter, Match, from_microseconds
from onhand.errors import EmbedderError, InputError, MissingExtra, NotFound, OnhandError, StoreError
from onhand.record import Record
from onhand.search.result import Hit, Layer, SearchResult
from onhand.search.validation import (
    check_min_score,
    validate_document,
    validate_filter,
    validate_id,
    validate_query,
    validate_vector,
)
from onhand.store.store import Entry, Excerpt, PassageCounts, passes
from onhand.store.vectors import join_vectors, split_vectors
from onhand.text import count_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from onhand.document import Contribution
    from onhand.embed.embedder import Embedder, Kind
    from onhand.search.fusion import Fused
    from onhand.search.known_items import KnownItems
    from onhand.store.store import Damage, Store

DEFAULT_LIMIT = 10
MAX_LIMIT = 50
DEFAULT_MIN_SCORE = 0.6  # for an embedder that declares none
FUSED_DEPTH = 200  # matches of each layer; what is further down in both is not relevant
MOST = 2**31  # the largest limit or offset that every store supports
BATCH = 256  # documents, or passages to be embedded, that are written together
MAX_PASSAGES = 512  # of a document: up to 85,000 English words, which take MiniLM six seconds
CHARS_PER_PASSAGE = 1000  # about, to see how many fit into a batch
AS_DECLARED = "as declared"  # as min_score: that of the embedder, else DEFAULT_MIN_SCORE


class Written(Record):
    """How many documents were added, changed and unchanged."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0


class Rank(Record):
    """A document's place in a ranking."""

    id: str
    score: float  # BM25 or, if layers were fused, from 0 to 1
    layers: tuple[Layer, ...]


class Ranks(Record):
    """A ranking, best first; `notes` say what the caller should know."""

    ranked: tuple[Rank, ...]
    notes: tuple[str, ...] = ()


class Stats(Record):
    """The size of an index, and whether it can be searched by meaning."""

    documents: int
    vectors: int  # documents that have one
    embedder: Mapping[str, str]  # the one that made the vectors; empty if there are none
    semantic: str  # "ready", or why search by meaning is not available
    passages: PassageCounts = PassageCounts()
    semantic_weight: float = 1.0  # of meaning beside words, in fused searches
    known_items: KnownItems | None = None  # what that weight was measured on


class Index:
    """Documents that can be searched by keyword, by meaning, by filter, or by keyword and meaning fused.

    `semantic_weight` is the weight of meaning in fused searches; None measures it when documents are put.
    `unavailable` is the error message for searches by meaning if there is no embedder. Only documents that pass
    `embeds` are embedded; others are found by their words. Of a document that is longer than `max_passages`, the rest
    has no vector; with a maximum of 1, documents are not divided, and a vector represents the beginning.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None = None,
        unavailable: str | None = None,
        embeds: Filter = EVERYTHING,
        max_passages: int = MAX_PASSAGES,
        semantic_weight: float | None = 1.0,
    ) -> None:
        self.store = store
        self.embedder = embedder
        self.max_passages = max_passages
        self._embeds = embeds
        self._semantic_weight = semantic_weight
        self._unavailable = (
            unavailable or "This index was opened without an embedder. Open it with one, or search by keyword."
        )

    def put(
        self,
        documents: Document | Iterable[Document],
        on_progress: Callable[[int], None] | None = None,
        batch: int = BATCH,
        *,
        checked: bool = False,
    ) -> Written:
        """Write documents, each in place of the one with its id; unchanged documents cost nothing.

        Each batch is durable when `on_progress` is called with the number of documents so far. Documents that the
        caller has built from validated data are `checked`; they are neither validated nor copied.
        """
        if isinstance(documents, Document | str | dict):  # only a Document is accepted below
            documents = [documents]  # type: ignore[list-item]
        written, size = Written(), 0
        waiting: dict[str, Document] = {}
        for document in documents:
            if size >= batch:
                written, size = self._write(waiting, written, on_progress, more=True), 0
                waiting = {}
            valid = document if checked else validate_document(document)
            waiting[valid.id] = valid
            size += self._count_passages(valid)
        written = self._write(waiting, written, on_progress) if waiting else written
        if written.added or written.changed:
            self._measure_layers()
        return written

    def delete(self, ids: Collection[str]) -> int:
        """Delete documents, and return how many there were."""
        return self.store.delete([validate_id(document_id) for document_id in ([ids] if isinstance(ids, str) else ids)])

    def get(self, document_id: str) -> Document:
        """Return a complete document; raise NotFound if it does not exist."""
        document = self.store.get(validate_id(document_id))
        if document is None:
            raise NotFound(f"there is no document {document_id[:200]!r}: take the id from a search")
        return document

    def keyword(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = DEFAULT_LIMIT,
        offset: int = 0,
        min_score: float | None = None,
        *,
        explain: bool = True,
    ) -> SearchResult:
        """Return the documents with the best BM25 scores, at least `min_score`.

        Without `explain`, the hits do not list their terms.
        """
        query, filter = validate_query(query), validate_filter(filter)
        least = None if min_score is None else check_min_score(min_score, 0.0)
        with self.store.snapshot():
            matches = self.store.keyword(query, filter, _depth(limit, offset), explain=explain)
            found = [match for match in matches if least is None or match.score >= least]
            ranked = [(match, (_keyword_layer(rank, match),)) for rank, match in enumerate(found, 1)]
            result = self._result(
                ranked,
                query,
                limit,
                offset,
                lambda: _explain_low(matches[0], least) if matches else self._explain_no_words(query, filter),
            )
            return result._replace(min_score=least)

    def semantic(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = DEFAULT_LIMIT,
        min_score: float | str | None = AS_DECLARED,
        offset: int = 0,
    ) -> SearchResult:
        """Return the documents that are closest in meaning, with a cosine of at least `min_score`."""
        query, filter = validate_query(query), validate_filter(filter)
        if not query.strip():
            raise InputError("the query is empty: say what to look for", "query")
        embedder = self._ready_embedder()
        least = self._resolve_min_score(min_score)
        vector = self._embed_query(embedder, query)
        with self.store.snapshot():
            matches = self.store.nearest(vector, filter, _depth(limit, offset), least)
            ranked = [(match, (Layer("semantic", rank, match.score, 1.0),)) for rank, match in enumerate(matches, 1)]
            result = self._result(
                ranked, query, limit, offset, lambda: self._explain_nothing_near(filter, least), vector
            )
            return result._replace(min_score=least, notes=self._missing_vectors_note())

    def filter(
        self,
        filter: Filter = EVERYTHING,
        limit: int = DEFAULT_LIMIT,
        order_by: str = "created_time desc",
        offset: int = 0,
    ) -> SearchResult:
        """Return the documents that pass a filter, in order, without scores."""
        filter = validate_filter(filter)
        _depth(limit, offset)
        with self.store.snapshot():
            ids = self.store.scan(filter, order_by, limit + 1, offset)
            hits = self._hits([(document_id, 0.0, ()) for document_id in ids[:limit]], "")
            reason = None if hits else self._explain_filter(filter)
            return SearchResult(hits, reason, total=self.store.count(filter), more=len(ids) > limit)

    def fused(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = DEFAULT_LIMIT,
        offset: int = 0,
        method: str = "scores",
        weights: Mapping[str, float] | None = None,
        min_score: float | str | None = AS_DECLARED,
        *,
        explain: bool = True,
    ) -> SearchResult:
        """Fuse keyword and semantic search into scores from 0 to 1; without an embedder, search by keyword and note it.

        The method "scores" adds what each layer says about a document, so scores can be compared between queries, and a
        filter changes neither scores nor order. By default, nothing is found if none of the best hits has enough in
        common with the query; a number as `min_score` cuts hits below it instead, and None cuts none. "rrf" adds
        reciprocal ranks. Each layer is ranked once.
        """
        from onhand.search import fusion

        query, filter = validate_query(query), validate_filter(filter)
        if method not in fusion.METHODS:
            raise InputError(f"method must be {' or '.join(map(repr, fusion.METHODS))}, not {method!r}.")
        _depth(limit, offset)
        least = None if min_score in (None, AS_DECLARED) else check_min_score(min_score, 0.0, 1.0)
        vector, notes = self._query_vector(query)
        with self.store.snapshot():
            layers = self._layers(query, vector, filter, FUSED_DEPTH)
            is_cut = any(len(matches) == FUSED_DEPTH for matches in layers.values())
            if method == "rrf":
                fused = fusion.reciprocal_rank(layers, weights)
            else:
                fused, layers = self._fuse_scores(query, vector, layers, weights)
            scores = {name: {match.id: match.score for match in matches} for name, matches in layers.items()}
            is_judged = method == "scores" and vector is not None and min_score == AS_DECLARED
            if is_judged and fused and not self._has_evidence(query, fused, scores):
                return SearchResult((), _explain_weak(fused[0].id), notes)
            found = [one for one in fused if least is None or one.score >= least]
            ranked = [(Match(one.id, one.score), _fused_layers(one, scores)) for one in found]
            result = self._result(
                ranked,
                query,
                limit,
                offset,
                lambda: _explain_low(fused[0], least) if fused else self._explain_no_words(query, filter),
                vector,
            )
            result = result._replace(min_score=least)
            result = result._replace(hits=self.explain_hits(result.hits, query)) if explain else result
            notes += self._missing_vectors_note() if vector else ()
        if is_cut and not result.more:
            notes += (
                f"only the best {FUSED_DEPTH} matches by keyword and by meaning were fused: "
                "narrow the filter to see others",
            )
        return result._replace(notes=notes)

    def rank(self, query: str, limit: int = DEFAULT_LIMIT, among: Collection[str] | None = None) -> Ranks:
        """Return the ids that `fused` finds or, if meaning cannot be compared, `keyword`; with `among`, only these.

        This is for callers that have the documents themselves. Scores do not depend on `among`; `terms` explains them.
        """
        query = validate_query(query)
        depth = _depth(limit, 0) - 1
        vector, notes = self._query_vector(query)
        with self.store.snapshot():
            layers = self._layers(query, vector, EVERYTHING, max(depth, FUSED_DEPTH) if vector else depth, among)
            if vector is None:
                by_words = [_keyword_rank(rank, match) for rank, match in enumerate(layers["keyword"], 1)]
                return Ranks(tuple(by_words), notes)
            fused, layers = self._fuse_scores(query, vector, layers, None)
        scores = {name: {match.id: match.score for match in matches} for name, matches in layers.items()}
        return Ranks(tuple(Rank(one.id, one.score, _fused_layers(one, scores)) for one in fused[:depth]), notes)

    def terms(self, query: str, ids: Collection[str]) -> dict[str, tuple[Contribution, ...]]:
        """Return what each term of a query adds to the keyword scores of these documents."""
        return self.store.explain(validate_query(query), ids) if ids else {}

    def term_weights(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        """Return the weight (idf) of each term of a query, and whether this document has the term."""
        return self.store.term_weights(validate_query(query), validate_id(document_id))

    def stats(self) -> Stats:
        """Return the size of the index, and whether it can be searched by meaning."""
        try:
            self._ready_embedder()
            semantic = "ready"
        except (EmbedderError, MissingExtra) as reason:
            semantic = str(reason)
        with self.store.snapshot():
            return Stats(
                self.store.count(),
                self.store.vectors(),
                self._stored_fingerprint(),
                semantic,
                self.store.passages(),
                self._read_semantic_weight(),
                self._read_known_items(),
            )

    def check(self) -> list[Damage]:
        """Return everything in the store that is not as it was written."""
        return self.store.check()

    def count_unembedded(self) -> int:
        """Return how many documents `reembed` would embed."""
        if self.embedder and self._stored_fingerprint() != fingerprint(self.embedder):
            return self.store.count(self._embeds)
        return len(self.store.without_vector(MOST, self._embeds, self.max_passages))

    def reembed(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Embed all documents if another embedder made their vectors, else those without one; return how many.

        Documents of which passages were left out are embedded again if more are allowed now. After an interruption it
        continues where it stopped.
        """
        if self.embedder is None:
            raise self._no_embedder()
        facts = fingerprint(self.embedder)
        if self._stored_fingerprint() != facts:
            self.store.clear_vectors(facts)
        done = 0
        while ids := self.store.without_vector(BATCH, self._embeds, self.max_passages):
            for documents in self._batches(ids):
                ids_of_batch = [document.id for document in documents]
                self.store.upsert(self._entries(documents, ids_of_batch), facts, only_unchanged=True)
                done += len(documents)
                if on_progress:
                    on_progress(done)
        if done:
            self._measure_layers(again=True)
        return done

    def _batches(self, ids: Iterable[str]) -> Iterator[list[Document]]:
        """Yield documents in batches of about as many passages as are embedded together."""
        batch: list[Document] = []
        size = 0
        for document_id in ids:
            if document := self.store.get(document_id):
                batch.append(document)
                size += self._count_passages(document)
            if size >= BATCH:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _count_passages(self, document: Document) -> int:
        """Return about how many texts are embedded for a document, or 1 if none is."""
        if self.embedder is None:
            return 1
        return min(1 + len(document.text) // CHARS_PER_PASSAGE, self.max_passages)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _write(
        self,
        documents: Mapping[str, Document],
        written: Written,
        on_progress: Callable[[int], None] | None,
        more: bool = False,
    ) -> Written:
        unchanged = self.store.compare(list(documents.values()))
        new = [document for document in documents.values() if not unchanged.get(document.id)]
        if new:
            facts = fingerprint(self._matching_embedder()) if self.embedder else None
            self.store.upsert(self._entries(new, [one.id for one in new if one.id in unchanged]), facts, more=more)
        elif not more and (written.added or written.changed):
            self.store.upsert([])  # indexes what earlier calls left for later
        changed = sum(1 for document in new if document.id in unchanged)
        written = Written(
            written.added + len(new) - changed,
            written.changed + changed,
            written.unchanged + len(documents) - len(new),
        )
        if on_progress:
            on_progress(sum(written))
        return written

    def _entries(self, documents: Sequence[Document], stored: Collection[str] = ()) -> list[Entry]:
        """Return the documents with the vectors of those that are embedded.

        Passages that are the same in the `stored` document with the same id keep their vectors.
        """
        if self.embedder is None:
            return [Entry(document) for document in documents]
        embedder = self._matching_embedder()
        embedded = [document for document in documents if self._embeds == EVERYTHING or passes(document, self._embeds)]
        known: dict[str, array[float]] = {}
        for document_id in stored:
            known |= self._stored_vectors(document_id, embedder.dimension)
        entries = {entry.document.id: entry for entry in embed_documents(embedder, embedded, self.max_passages, known)}
        return [entries.get(document.id) or Entry(document) for document in documents]

    def _stored_vectors(self, document_id: str, dimension: int) -> dict[str, array[float]]:
        """Return the vectors of a document by the text that was embedded."""
        from onhand.search.passages import divide_document

        try:
            with self.store.snapshot():
                vector, document = self.store.vector(document_id), self.store.get(document_id)
        except StoreError:  # it is damaged, and about to be replaced
            return {}
        if vector is None or document is None or len(vector) % dimension:
            return {}
        vectors = split_vectors(vector, len(vector) // dimension)
        texts = divide_document(document, len(vectors)).texts
        return dict(zip(texts, vectors, strict=True)) if len(texts) == len(vectors) else {}

    def _measure_layers(self, again: bool = False) -> None:
        """Measure how well each layer finds these documents, unless that is known."""
        if self.embedder is None or self._semantic_weight is not None:
            return
        from onhand.search.known_items import is_due, measure_layers, sample_documents
        from onhand.store.memory import MemoryStore

        documents = self.store.count(self._embeds)
        if is_due(None if again else self._read_known_items(), documents):
            index = Index(MemoryStore(self.store.ranking), self.embedder)
            if known := measure_layers(index, sample_documents(self.store, self._embeds), documents):
                self.store.set_facts(known.as_facts())

    def _read_known_items(self) -> KnownItems | None:
        from onhand.search.known_items import read_known_items

        return read_known_items(self.store.facts())

    def _read_semantic_weight(self) -> float:
        if self._semantic_weight is not None:
            return self._semantic_weight
        known = self._read_known_items()
        return known.semantic_weight if known else 1.0

    def _query_vector(self, query: str) -> tuple[array[float] | None, tuple[str, ...]]:
        """Return the vector of a query, or None, and a note if it cannot be embedded."""
        try:
            embedder = self._ready_embedder()
            return (self._embed_query(embedder, query) if query.strip() else None), ()
        except (EmbedderError, MissingExtra) as reason:
            return None, (f"only words were compared: {reason}",)

    def _layers(
        self,
        query: str,
        vector: array[float] | None,
        filter: Filter,
        depth: int,
        among: Collection[str] | None = None,
    ) -> dict[str, list[Match]]:
        cancellation.check()
        by_words = self.store.keyword(query, filter, depth, among, explain=False)
        cancellation.check()
        by_meaning = [] if vector is None else self.store.nearest(vector, filter, depth, None, among)
        return {"keyword": by_words, "semantic": by_meaning}

    def _fuse_scores(
        self,
        query: str,
        vector: array[float] | None,
        layers: dict[str, list[Match]],
        weights: Mapping[str, float] | None,
    ) -> tuple[list[Fused], dict[str, list[Match]]]:
        """Fuse layers, and return the ranking and the layers with the scores of all of its documents."""
        from onhand.search import fusion

        by_words = {match.id for match in layers["keyword"]}
        by_meaning = {match.id for match in layers["semantic"]}
        # Each layer scores the documents that only the other one found. It does not rank all documents again.
        if unscored := by_meaning - by_words:
            scored = self.store.keyword(query, EVERYTHING, len(unscored), unscored, explain=False)
            layers = {**layers, "keyword": _sort_matches(layers["keyword"] + scored)}
        if vector is not None and (unscored := by_words - by_meaning):
            scored = self.store.nearest(vector, EVERYTHING, len(unscored), None, unscored)
            layers = {**layers, "semantic": _sort_matches(layers["semantic"] + scored)}
        weights = weights or {"semantic": self._read_semantic_weight()}
        return fusion.add_scores(layers, self.store.ranking.most_per_word(self.store.count()), weights), layers

    def _has_evidence(self, query: str, fused: Sequence[Fused], scores: Mapping[str, Mapping[str, float]]) -> bool:
        """Return whether one of the best documents has enough in common with a query to be called found."""
        from onhand.search import fusion

        least = self.embedder.min_score if self.embedder else None
        if least is None or least <= 0:  # nothing is known about what the cosines of this model mean
            return True
        for one in fused[: fusion.JUDGED]:
            weights = self.store.term_weights(query, one.id).values()
            whole = sum(weight for weight, _ in weights)
            share = sum(weight for weight, matches in weights if matches) / whole if whole else 0.0
            if fusion.has_evidence(share, scores["semantic"].get(one.id, 0.0), least):
                return True
        return False

    def explain_hits(self, hits: Sequence[Hit], query: str) -> tuple[Hit, ...]:
        """Return the hits with the terms that found them."""
        cancellation.check()
        terms = self.terms(query, [hit.document_id for hit in hits])
        return tuple(hit._replace(layers=_with_terms(hit.layers, terms.get(hit.document_id, ()))) for hit in hits)

    def _result(
        self,
        ranked: Sequence[tuple[Match, tuple[Layer, ...]]],
        query: str,
        limit: int,
        offset: int,
        why_empty: Callable[[], str],
        vector: array[float] | None = None,
    ) -> SearchResult:
        page = ranked[offset : offset + limit]
        hits = self._hits([(match.id, match.score, layers) for match, layers in page], query, vector)
        reason = None if hits else "there are no further hits" if offset and ranked else why_empty()
        return SearchResult(hits, reason, more=len(ranked) > offset + limit)

    def _hits(
        self,
        found: Sequence[tuple[str, float, tuple[Layer, ...]]],
        query: str,
        vector: array[float] | None = None,
    ) -> tuple[Hit, ...]:
        cancellation.check()
        near = [id for id, _, layers in found if any(layer.name == "semantic" for layer in layers)] if vector else []
        excerpts = self.store.excerpts(vector, near) if vector else {}
        heads = {head.id: head for head in self.store.heads([document_id for document_id, _, _ in found])}
        for whole in near:  # which are short, or not divided
            if whole not in excerpts and whole in heads and heads[whole].text:
                excerpts[whole] = Excerpt(heads[whole].text, (1, count_lines(heads[whole].text)), None)
        return tuple(
            Hit(
                head.id,
                head.title,
                head.author,
                head.tags,
                head.scope,
                None if head.created_us is None else from_microseconds(head.created_us),
                head.kind,
                head.source_path,
                score,
                layers,
                head.text,
                query,
                excerpts.get(head.id),
            )
            for document_id, score, layers in found
            if (head := heads.get(document_id))  # another process may have deleted it
        )

    def _embed_query(self, embedder: Embedder, query: str) -> array[float]:
        cancellation.check()
        vectors = _embed(embedder, [query], "query")
        cancellation.check()
        if len(vectors) != 1:
            raise EmbedderError(f"The embedder returned {len(vectors)} vectors for one query. Choose another embedder.")
        return validate_vector(vectors[0], embedder.dimension, "the query")

    def _ready_embedder(self) -> Embedder:
        """Return the embedder if the index has vectors that can be compared with its own."""
        if self.embedder is None:
            raise self._no_embedder()
        embedder = self._matching_embedder()
        if not self.store.vectors():
            if self.store.count():
                raise EmbedderError("no document has a vector yet: run `onhand docs reembed`")
            raise EmbedderError("the index is empty: run `onhand docs import`")
        return embedder

    def _matching_embedder(self) -> Embedder:
        if self.embedder is None:
            raise self._no_embedder()
        stored, current = self._stored_fingerprint(), fingerprint(self.embedder)
        if stored and stored != current:
            differing = [name for name in current if stored.get(name) != current[name]]
            before, now = (", ".join(f"{name} {facts.get(name)}" for name in differing) for facts in (stored, current))
            raise EmbedderError(
                f"The index was made with {before}, but the current embedder has {now}. Vectors of two models cannot "
                "be compared. Run `onhand docs reembed`, or open the index with the other embedder."
            )
        return self.embedder

    def _no_embedder(self) -> EmbedderError:
        return EmbedderError(self._unavailable)

    def _stored_fingerprint(self) -> dict[str, str]:
        return {name: value for name, value in self.store.facts().items() if name.startswith("embedder.")}

    def _missing_vectors_note(self) -> tuple[str, ...]:
        documents = self.store.count(self._embeds)
        missing = documents - self.store.vectors()
        advice = f"{missing:,} of {documents:,} documents have no vector: run `onhand docs reembed`" if missing else ""
        return tuple(filter(None, (advice, self.store.passages().describe_left_out())))

    def _resolve_min_score(self, min_score: float | str | None) -> float | None:
        if min_score != AS_DECLARED:
            return None if min_score is None else check_min_score(min_score, -1.0, 1.0)
        declared = self.embedder.min_score if self.embedder else None
        return DEFAULT_MIN_SCORE if declared is None else declared

    def _explain_no_words(self, query: str, filter: Filter) -> str:
        if not self.store.has_words(query):
            return "the query has no words to look for"
        return self._explain_filter(filter) or "no document has a word of the query: try other words for the same thing"

    def _explain_nothing_near(self, filter: Filter, least: float | None) -> str:
        threshold = "" if least is None else f": no cosine reaches {least}"
        advice = "lower min_score, or search by keyword"
        return self._explain_filter(filter) or f"nothing is close enough in meaning{threshold}; {advice}"

    def _explain_filter(self, filter: Filter) -> str | None:
        """Return why no document passes a filter, or None if some do."""
        if self.store.count(filter):
            return None
        return "no document passes the filter" if self.store.count() else "the index is empty: put documents into it"


def _explain_low(best: Match | Fused, least: float | None) -> str:
    return f"no score reaches {least}; the best, {best.score:.4f}, is that of {best.id[:200]!r}: lower min_score"


def _explain_weak(best_id: str) -> str:
    return (
        "nothing has enough in common with the query, in words or in meaning; "
        f"the closest document is {best_id[:200]!r}: use other words, or search by keyword"
    )


def _sort_matches(matches: list[Match]) -> list[Match]:
    return sorted(matches, key=lambda match: (-match.score, match.id))


def _embed(embedder: Embedder, texts: Sequence[str], kind: Kind) -> list[array[float]]:
    """Embed texts; any exception of a custom embedder becomes an EmbedderError."""
    try:
        return embedder.embed(texts, kind)
    except OnhandError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise EmbedderError(f"The embedder failed ({reason}). Choose another embedder.") from error


def embed_documents(
    embedder: Embedder,
    documents: Sequence[Document],
    max_passages: int = 1,
    known: Mapping[str, array[float]] | None = None,
) -> list[Entry]:
    """Return documents with the vectors of their passages; texts whose vectors are `known` are not embedded."""
    from onhand.search.passages import divide_document

    divisions = [divide_document(document, max_passages) for document in documents]
    by_text = dict(known or {})
    divided = list(zip(documents, divisions, strict=True))
    texts = {text: document.id for document, division in divided for text in division.texts}  # equal ones count once
    new = [text for text in texts if text not in by_text]
    vectors = _embed(embedder, new, "document") if new else []
    if len(vectors) != len(new):
        raise EmbedderError(f"The embedder returned {len(vectors)} vectors for {len(new)} texts. Nothing was written.")
    for text, vector in zip(new, vectors, strict=True):
        by_text[text] = validate_vector(vector, embedder.dimension, f"document {texts[text]!r}")
    return [
        Entry(document, join_vectors([by_text[text] for text in division.texts]), division.passages, division.left_out)
        for document, division in divided
    ]


def fingerprint(embedder: Embedder) -> dict[str, str]:
    """Return what two embedders must have in common for their vectors to be comparable."""
    return {
        "embedder.name": embedder.name,
        "embedder.dimension": str(embedder.dimension),
        "embedder.prompt_format": embedder.prompt_format,
        "embedder.normalised": "yes",
    }


def _fused_layers(fused: Fused, scores: Mapping[str, Mapping[str, float]]) -> tuple[Layer, ...]:
    """Return rank, score and share of a fused document in each layer that knows it."""
    return tuple(Layer(name, rank, scores[name][fused.id], share) for name, (rank, share) in fused.places.items())


def _with_terms(layers: tuple[Layer, ...], terms: tuple[Contribution, ...]) -> tuple[Layer, ...]:
    return tuple(layer._replace(terms=terms) if layer.name == "keyword" else layer for layer in layers)


def _keyword_rank(rank: int, match: Match) -> Rank:
    return Rank(match.id, match.score, (_keyword_layer(rank, match),))


def _keyword_layer(rank: int, match: Match) -> Layer:
    return Layer("keyword", rank, match.score, 1.0, match.contributions)


def _depth(limit: int, offset: int) -> int:
    """Return how many hits to find for a page: one more than it ends with, to know whether others follow."""
    numbers: tuple[object, ...] = (limit, offset)
    for number in numbers:
        if not isinstance(number, int) or number > MOST:
            raise InputError(f"limit and offset must be integers up to {MOST:,}, not {number!r}.")
    if limit < 1:
        raise InputError(f"limit is {limit}, but must be at least 1.", "limit")
    if offset < 0:
        raise InputError(f"offset is {offset}, but must be at least 0.")
    return limit + offset + 1
