"""What is relevant to this question? One Index over a store and, when there is one, an embedder.

Every corpus uses it. It knows neither where documents come from nor how an answer is shown.
"""

from __future__ import annotations

from onhand import cancellation
from onhand.document import EVERYTHING, Document, Filter, Match, from_microseconds
from onhand.errors import EmbedderError, InputError, MissingExtra, NotFound, OnhandError
from onhand.record import Record
from onhand.search.result import Hit, Layer, Result
from onhand.search.validation import accepted, accepted_filter, accepted_id, accepted_query, accepted_vector
from onhand.store.store import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from onhand.document import Contribution
    from onhand.embed.embedder import Embedder, Kind
    from onhand.search.fusion import Fused
    from onhand.store.store import Damage, Store

DEFAULT_LIMIT = 10
MAX_LIMIT = 50
DEFAULT_MIN_SCORE = 0.6  # of an embedder that declares none
FUSED_DEPTH = 200  # of each layer: what is further down in both is no answer
MOST = 2**31  # of hits, or before them: what any store can count
BATCH = 256  # documents that are embedded and written together
AS_DECLARED = "as declared"  # for min_score: the embedder's own, else DEFAULT_MIN_SCORE


class Written(Record):
    """What became of documents that were put into an index."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0


class Rank(Record):
    """A document's place in a ranking."""

    id: str
    score: float  # BM25, or what was fused, from 0 to 1
    layers: tuple[Layer, ...]


class Ranks(Record):
    """A ranking, best first; `notes` say what the searcher should know."""

    ranked: tuple[Rank, ...]
    notes: tuple[str, ...] = ()


class Stats(Record):
    """What is in an index."""

    documents: int
    vectors: int
    embedder: Mapping[str, str]  # what the vectors were made with; empty when there are none
    semantic: str  # "ready", or why nothing can be found by meaning


class Index:
    """Documents, found by words, by meaning, by filter, fused, and in full.

    `unavailable` says why there is no embedder, for whoever asks for meaning. Meaning is worked out for what `embeds`
    lets through; the rest is found by words.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None = None,
        unavailable: str | None = None,
        embeds: Filter = EVERYTHING,
    ) -> None:
        self.store = store
        self.embedder = embedder
        self._embeds = embeds
        self._unavailable = (
            unavailable or "this index was opened without an embedder: open it with one, or search by keyword"
        )

    def put(
        self,
        documents: Document | Iterable[Document],
        on_progress: Callable[[int], None] | None = None,
        batch: int = BATCH,
        *,
        checked: bool = False,
    ) -> Written:
        """Keep documents, each in place of the one of its id; those that are there unchanged cost nothing.

        Each batch is durable when `on_progress` is called with how many are done. `checked` documents are made, by
        whoever puts them, of what was checked when it entered; they are not copied.
        """
        if isinstance(documents, Document | str | dict):  # only a Document is accepted below
            documents = [documents]  # type: ignore[list-item]
        written = Written()
        waiting: dict[str, Document] = {}
        for document in documents:
            if len(waiting) >= batch:
                written = self._write(waiting, written, on_progress, more=True)
                waiting = {}
            whole = document if checked else accepted(document)
            waiting[whole.id] = whole
        return self._write(waiting, written, on_progress) if waiting else written

    def delete(self, ids: Collection[str]) -> int:
        """Take documents out; how many there were."""
        return self.store.delete([accepted_id(document_id) for document_id in ([ids] if isinstance(ids, str) else ids)])

    def get(self, document_id: str) -> Document:
        """A document in full."""
        document = self.store.get(accepted_id(document_id))
        if document is None:
            raise NotFound(f"there is no document {document_id[:200]!r}: take the id from a search")
        return document

    def keyword(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = DEFAULT_LIMIT,
        offset: int = 0,
        *,
        explain: bool = True,
    ) -> Result:
        """The documents that share the most telling words with the query; `terms` explains them if this need not."""
        query, filter = accepted_query(query), accepted_filter(filter)
        with self.store.snapshot():
            matches = self.store.keyword(query, filter, _depth(limit, offset), explain=explain)
            ranked = [(match, (_keyword_layer(rank, match),)) for rank, match in enumerate(matches, 1)]
            return self._result(ranked, query, limit, offset, lambda: self._why_no_words(query, filter))

    def semantic(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = DEFAULT_LIMIT,
        min_score: float | str | None = AS_DECLARED,
        offset: int = 0,
    ) -> Result:
        """The documents that mean most nearly what the query does, with a cosine of at least `min_score`."""
        query, filter = accepted_query(query), accepted_filter(filter)
        if not query.strip():
            raise InputError("the query is empty: say what to look for", "query")
        embedder = self._ready_embedder()
        least = self._least_score(min_score)
        vector = self._embed_query(embedder, query)
        with self.store.snapshot():
            matches = self.store.nearest(vector, filter, _depth(limit, offset), least)
            ranked = [(match, (Layer("semantic", rank, match.score, 1.0),)) for rank, match in enumerate(matches, 1)]
            result = self._result(ranked, query, limit, offset, lambda: self._why_nothing_near(filter, least))
            return result._replace(min_score=least, notes=self._incomplete())

    def filter(
        self,
        filter: Filter = EVERYTHING,
        limit: int = DEFAULT_LIMIT,
        order_by: str = "created_time desc",
        offset: int = 0,
    ) -> Result:
        """The documents that a filter lets through, in order; nothing is scored."""
        filter = accepted_filter(filter)
        _depth(limit, offset)
        with self.store.snapshot():
            ids = self.store.scan(filter, order_by, limit + 1, offset)
            hits = self._hits([(document_id, 0.0, ()) for document_id in ids[:limit]], "")
            reason = None if hits else self._why_filtered(filter)
            return Result(hits, reason, total=self.store.count(filter), more=len(ids) > limit)

    def fused(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int = DEFAULT_LIMIT,
        offset: int = 0,
        method: str = "adaptive",
        weights: Mapping[str, float] | None = None,
        *,
        explain: bool = True,
    ) -> Result:
        """Words and meaning together, from 0 to 1; words alone, and a note that says so, where there is no embedder.

        `method` is "adaptive", which joins scores by what this query's scores look like in the whole index, so that a
        filter changes neither scores nor order; or "rrf", which joins ranks by `weights`.
        """
        from onhand.search import fusion

        query, filter = accepted_query(query), accepted_filter(filter)
        if method not in fusion.METHODS:
            raise InputError(f"fusion is by {' or '.join(map(repr, fusion.METHODS))}, not {method!r}")
        _depth(limit, offset)
        vector, notes = self._query_vector(query)
        with self.store.snapshot():
            layers = self._layers(query, vector, filter, FUSED_DEPTH)
            is_cut = any(len(matches) == FUSED_DEPTH for matches in layers.values())
            if method == "rrf":
                fused = fusion.reciprocal_rank(layers, weights)
            else:
                whole = layers if filter == EVERYTHING else self._layers(query, vector, EVERYTHING, FUSED_DEPTH)
                fused, layers = self._adaptive(query, vector, layers, whole, weights)
            scores = {name: {match.id: match.score for match in matches} for name, matches in layers.items()}
            ranked = [(Match(one.id, one.score), _fused_layers(one, scores)) for one in fused]
            result = self._result(ranked, query, limit, offset, lambda: self._why_no_words(query, filter))
            result = result._replace(hits=self.explained(result.hits, query)) if explain else result
            notes += self._incomplete() if vector else ()
        if is_cut and not result.more:
            notes += (f"only the best {FUSED_DEPTH} by words and by meaning were fused: narrow the filter for others",)
        return result._replace(notes=notes)

    def rank(self, query: str, limit: int = DEFAULT_LIMIT, among: Collection[str] | None = None) -> Ranks:
        """What `fused` finds, or `keyword` where meaning cannot be compared; ids alone, for whoever has the documents
        at hand, with the same scores whether or not only some of them count. `terms` says why."""
        query = accepted_query(query)
        depth = _depth(limit, 0) - 1
        vector, notes = self._query_vector(query)
        with self.store.snapshot():
            layers = self._layers(query, vector, EVERYTHING, max(depth, FUSED_DEPTH) if vector else depth, among)
            if vector is None:
                by_words = [_keyword_rank(rank, match) for rank, match in enumerate(layers["keyword"], 1)]
                return Ranks(tuple(by_words), notes)
            whole = layers if among is None else self._layers(query, vector, EVERYTHING, FUSED_DEPTH)
            fused, layers = self._adaptive(query, vector, layers, whole, None)
        scores = {name: {match.id: match.score for match in matches} for name, matches in layers.items()}
        return Ranks(tuple(Rank(one.id, one.score, _fused_layers(one, scores)) for one in fused[:depth]), notes)

    def terms(self, query: str, ids: Collection[str]) -> dict[str, tuple[Contribution, ...]]:
        """What each word of a query added to what `keyword` would give these documents."""
        return self.store.explain(accepted_query(query), ids) if ids else {}

    def term_weights(self, query: str, document_id: str) -> dict[str, tuple[float, bool]]:
        """How much each term of a query tells, the more, the fewer documents have it; and whether this one does."""
        return self.store.term_weights(accepted_query(query), accepted_id(document_id))

    def stats(self) -> Stats:
        """What is in the index, and whether meaning can be searched."""
        try:
            self._ready_embedder()
            semantic = "ready"
        except (EmbedderError, MissingExtra) as reason:
            semantic = str(reason)
        with self.store.snapshot():
            return Stats(self.store.count(), self.store.vectors(), self._made_with(), semantic)

    def check(self) -> list[Damage]:
        """What is not as it was written."""
        return self.store.check()

    def reembed(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Work out what documents mean by the embedder at hand: all of them if another one did, else those that nobody
        did; how many there were. What is interrupted goes on where it stopped."""
        if self.embedder is None:
            raise self._no_embedder()
        facts = fingerprint(self.embedder)
        if self._made_with() != facts:
            self.store.clear_vectors(facts)
        done = 0
        while ids := self.store.without_vector(BATCH, self._embeds):
            documents = [document for document_id in ids if (document := self.store.get(document_id))]
            self.store.upsert(self._entries(documents), facts, only_unchanged=True)
            done += len(documents)
            if on_progress:
                on_progress(done)
        return done

    def close(self) -> None:
        """Let go of what is open."""
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
        before = self.store.known(list(documents.values()))
        new = [document for document in documents.values() if not before.get(document.id)]
        if new:
            facts = fingerprint(self._matching_embedder()) if self.embedder else None
            self.store.upsert(self._entries(new), facts, more=more)
        elif not more and (written.added or written.changed):
            self.store.upsert([])  # what waited for more may wait no longer
        changed = sum(1 for document in new if document.id in before)
        written = Written(
            written.added + len(new) - changed,
            written.changed + changed,
            written.unchanged + len(documents) - len(new),
        )
        if on_progress:
            on_progress(sum(written))
        return written

    def _entries(self, documents: Sequence[Document]) -> list[Entry]:
        vectors = self._vectors(documents) if self.embedder else {}
        return [Entry(document, vectors.get(document.id) if vectors else None) for document in documents]

    def _vectors(self, documents: Sequence[Document]) -> dict[str, array[float]]:
        """What those of the documents mean that are embedded, by id."""
        from onhand.store.store import passes

        embedder = self._matching_embedder()
        meant = [document for document in documents if self._embeds == EVERYTHING or passes(document, self._embeds)]
        texts = [f"{document.title}\n{document.text}".strip() or document.id for document in meant]
        vectors = _embedded(embedder, texts, "document") if texts else []
        if len(vectors) != len(texts):
            raise EmbedderError(f"the embedder gave {len(vectors)} vectors for {len(texts)} texts: nothing was kept")
        return {
            document.id: accepted_vector(vector, embedder.dimension, f"document {document.id!r}")
            for document, vector in zip(meant, vectors, strict=True)
        }

    def _query_vector(self, query: str) -> tuple[array[float] | None, tuple[str, ...]]:
        """What a query means, if that can be known, and what the searcher should know about it."""
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

    def _adaptive(
        self,
        query: str,
        vector: array[float] | None,
        layers: dict[str, list[Match]],
        whole: dict[str, list[Match]],
        weights: Mapping[str, float] | None,
    ) -> tuple[list[Fused], dict[str, list[Match]]]:
        """Layers as one ranking, and what each has to say of all that are in it; `whole` are those of all documents."""
        from onhand.search import fusion

        ids = {name: {match.id for match in matches} for name, matches in layers.items()}
        by_words = self.store.keyword_scores(query, ids["semantic"] - ids["keyword"])
        by_meaning = [] if vector is None else self.store.cosines(vector, ids["keyword"] - ids["semantic"])
        layers = {
            "keyword": _by_score(layers["keyword"] + by_words),
            "semantic": _by_score(layers["semantic"] + by_meaning),
        }
        return fusion.adaptive(layers, whole, self.store.count(), weights), layers

    def explained(self, hits: Sequence[Hit], query: str) -> tuple[Hit, ...]:
        """Hits, each with the words that it was found by."""
        cancellation.check()
        terms = self.terms(query, [hit.document_id for hit in hits])
        return tuple(hit._replace(layers=_explained(hit.layers, terms.get(hit.document_id, ()))) for hit in hits)

    def _result(
        self,
        ranked: Sequence[tuple[Match, tuple[Layer, ...]]],
        query: str,
        limit: int,
        offset: int,
        why_empty: Callable[[], str],
    ) -> Result:
        page = ranked[offset : offset + limit]
        hits = self._hits([(match.id, match.score, layers) for match, layers in page], query)
        reason = None if hits else "there are no hits behind these" if offset and ranked else why_empty()
        return Result(hits, reason, more=len(ranked) > offset + limit)

    def _hits(self, found: Sequence[tuple[str, float, tuple[Layer, ...]]], query: str) -> tuple[Hit, ...]:
        cancellation.check()
        heads = {head.id: head for head in self.store.heads([document_id for document_id, _, _ in found])}
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
            )
            for document_id, score, layers in found
            if (head := heads.get(document_id))  # another process may have deleted it meanwhile
        )

    def _embed_query(self, embedder: Embedder, query: str) -> array[float]:
        cancellation.check()
        vectors = _embedded(embedder, [query], "query")
        cancellation.check()
        if len(vectors) != 1:
            raise EmbedderError(f"the embedder gave {len(vectors)} vectors for one query: use another one")
        return accepted_vector(vectors[0], embedder.dimension, "the query")

    def _ready_embedder(self) -> Embedder:
        """The embedder, if what is in the index can be compared with what it says."""
        if self.embedder is None:
            raise self._no_embedder()
        embedder = self._matching_embedder()
        if not self.store.vectors():
            empty = "the index is empty" if not self.store.count() else "no document has a vector yet"
            raise EmbedderError(f"{empty}: run `onhand docs {'reembed' if self.store.count() else 'import'}`")
        return embedder

    def _matching_embedder(self) -> Embedder:
        if self.embedder is None:
            raise self._no_embedder()
        made_with, at_hand = self._made_with(), fingerprint(self.embedder)
        if made_with and made_with != at_hand:
            differing = [name for name in at_hand if made_with.get(name) != at_hand[name]]
            before, now = (", ".join(f"{name} {made.get(name)}" for name in differing) for made in (made_with, at_hand))
            raise EmbedderError(
                f"the index was made with {before}; the embedder at hand is {now}: vectors of two models cannot be "
                "compared. Run `onhand docs reembed` to make the index with it, or open it with the other"
            )
        return self.embedder

    def _no_embedder(self) -> EmbedderError:
        return EmbedderError(self._unavailable)

    def _made_with(self) -> dict[str, str]:
        return {name: value for name, value in self.store.facts().items() if name.startswith("embedder.")}

    def _incomplete(self) -> tuple[str, ...]:
        documents, vectors = self.store.count(self._embeds), self.store.vectors()
        if vectors == documents:
            return ()
        return (f"{documents - vectors:,} of {documents:,} documents have no vector: run `onhand docs reembed`",)

    def _least_score(self, min_score: float | str | None) -> float | None:
        if min_score is None or isinstance(min_score, int | float):
            if min_score is not None and not -1 <= min_score <= 1:
                raise InputError(f"min_score is a cosine, from -1 to 1, not {min_score}", "min_score")
            return min_score
        if min_score != AS_DECLARED:
            raise InputError(f"min_score is a number or None, not {min_score!r}", "min_score")
        declared = self.embedder.min_score if self.embedder else None
        return DEFAULT_MIN_SCORE if declared is None else declared

    def _why_no_words(self, query: str, filter: Filter) -> str:
        if not self.store.has_words(query):
            return "the query has no words to look for"
        return self._why_filtered(filter) or "no document has a word of the query: try other words for the same thing"

    def _why_nothing_near(self, filter: Filter, least: float | None) -> str:
        near = "nothing is near enough in meaning" + ("" if least is None else f": no cosine reaches {least}")
        return self._why_filtered(filter) or f"{near}; lower min_score, or search by keyword"

    def _why_filtered(self, filter: Filter) -> str | None:
        """Why a filter alone leaves nothing; None if it leaves something."""
        if self.store.count(filter):
            return None
        return "no document passes the filter" if self.store.count() else "the index is empty: put documents into it"


def _by_score(matches: list[Match]) -> list[Match]:
    return sorted(matches, key=lambda match: (-match.score, match.id))


def _embedded(embedder: Embedder, texts: Sequence[str], kind: Kind) -> list[array[float]]:
    """The vectors of texts; whatever an embedder of somebody else's raises is an EmbedderError."""
    try:
        return embedder.embed(texts, kind)
    except OnhandError:
        raise
    except Exception as error:
        raise EmbedderError(f"the embedder failed ({type(error).__name__}: {str(error)[:200]}): use another") from error


def fingerprint(embedder: Embedder) -> dict[str, str]:
    """What decides whether two vectors can be compared."""
    return {
        "embedder.name": embedder.name,
        "embedder.dimension": str(embedder.dimension),
        "embedder.prompt_format": embedder.prompt_format,
        "embedder.normalised": "yes",
    }


def _fused_layers(one: Fused, scores: Mapping[str, Mapping[str, float]]) -> tuple[Layer, ...]:
    """How each layer that knows a fused document saw it."""
    return tuple(Layer(name, rank, scores[name][one.id], share) for name, (rank, share) in one.places.items())


def _explained(layers: tuple[Layer, ...], terms: tuple[Contribution, ...]) -> tuple[Layer, ...]:
    return tuple(layer._replace(terms=terms) if layer.name == "keyword" else layer for layer in layers)


def _keyword_rank(rank: int, match: Match) -> Rank:
    return Rank(match.id, match.score, (_keyword_layer(rank, match),))


def _keyword_layer(rank: int, match: Match) -> Layer:
    return Layer("keyword", rank, match.score, 1.0, match.contributions)


def _depth(limit: int, offset: int) -> int:
    """How many hits must be known for a page of them, and one more to see whether that is all."""
    numbers: tuple[object, ...] = (limit, offset)
    for given in numbers:
        if not isinstance(given, int) or given > MOST:
            raise InputError(f"limit and offset are whole numbers up to {MOST:,}, not {given!r}")
    if limit < 1:
        raise InputError(f"the limit is {limit}: ask for at least one", "limit")
    if offset < 0:
        raise InputError(f"the offset is {offset}: it counts from 0")
    return limit + offset + 1
