"""What can be asked of documents? By words, by meaning, by filter, fused, and in full: the same for every door.

It knows the Index and how an answer is cut into pages. It does not know who asks, and reads no configuration.
"""

from __future__ import annotations

from _thread import allocate_lock  # threading's own Lock, without the cost of importing threading

from onhand import wanted
from onhand.corpora.pages import MAX_OFFSET, Page, page_of
from onhand.corpora.parts import Part, part_of
from onhand.document import EVERYTHING, Document, Filter, microseconds, wanted_authors
from onhand.errors import InputError, NotFound
from onhand.record import Record
from onhand.search.accept import accepted_filter, accepted_query
from onhand.search.index import AS_DECLARED, DEFAULT_LIMIT, MAX_LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from onhand.corpora.corpus import Findings
    from onhand.search.index import Index
    from onhand.search.result import Hit, Result
    from onhand.store.entry import Summary
    from onhand.tools import Tool

MAX_OUTPUT_BYTES = 15 * 1024  # of an answer to a model: about 4,000 tokens
MAX_COMPARED_IDS = 2_000  # ids that an unknown one is compared with: 70 ms at most


class Answer(Record):
    """One page of hits; `reason` says why there are none, `notes` what the asker should know."""

    hits: tuple[Hit, ...]
    page: Page
    more: bool  # whether there are hits behind these
    by_meaning: bool = False  # whether min_score, which may be None, was asked of the hits
    min_score: float | None = None
    total: int | None = None  # how many there are in all, where that is known
    notes: tuple[str, ...] = ()
    reason: str | None = None
    left_out: int = 0  # hits of this page that had no room

    @property
    def next_page_token(self) -> str:
        """What asks for the next page; empty when this is the last."""
        return self.page.token_after(max(len(self.hits), 1)) if self.more else ""

    def shortened(self, kept: int) -> Answer:
        """The first hits alone; the next page begins behind them, or behind the first if not even that is kept."""
        left_out = len(self.hits) - kept
        return self._replace(hits=self.hits[:kept], more=True, left_out=left_out) if left_out else self


class Reading(Record):
    """A document, or the part of it that was asked for."""

    document: Document
    part: Part


class Documents:
    """An index as a corpus to ask: limits are kept, pages follow each other. Threads may share it."""

    def __init__(self, index: Index, max_output_bytes: int = MAX_OUTPUT_BYTES) -> None:
        self.index = index
        self.max_output_bytes = max_output_bytes
        self._lock = allocate_lock()  # a store is used by one thread at a time

    def keyword(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int | None = None,
        page_token: str | None = None,
        *,
        explain: bool = True,
    ) -> Answer:
        """The documents that share the most telling words with the query; which ones, `explain` has its price for."""
        query, filter = _query(query), accepted_filter(filter)
        page = page_of(page_token, "keyword", query, _spelled(filter))
        return self._page(
            lambda size: self.index.keyword(query, filter, size, page.offset, explain=explain), limit, page
        )

    def semantic(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int | None = None,
        min_score: float | str | None = AS_DECLARED,
        page_token: str | None = None,
    ) -> Answer:
        """The documents that mean most nearly what the query does; None as `min_score` takes any."""
        query, filter = _query(query), accepted_filter(filter)
        page = page_of(page_token, "semantic", query, _spelled(filter), _number(min_score))
        answer = self._page(lambda size: self.index.semantic(query, filter, size, min_score, page.offset), limit, page)
        return answer._replace(by_meaning=True)

    def filter(
        self,
        filter: Filter = EVERYTHING,
        limit: int | None = None,
        order_by: str = "created_time desc",
        page_token: str | None = None,
    ) -> Answer:
        """The documents that the filter lets through, in order, and how many there are."""
        from onhand.store.order import parse_order

        filter = accepted_filter(filter)
        page = page_of(page_token, "filter", _spelled(filter), parse_order(order_by))
        return self._page(lambda size: self.index.filter(filter, size, order_by, page.offset), limit, page)

    def fused(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int | None = None,
        page_token: str | None = None,
        *,
        explain: bool = True,
    ) -> Answer:
        """Words and meaning together; words alone, and a note that says so, where meaning cannot be compared."""
        query, filter = _query(query), accepted_filter(filter)
        page = page_of(page_token, "fused", query, _spelled(filter))
        return self._page(lambda size: self.index.fused(query, filter, size, page.offset, explain=explain), limit, page)

    def get(
        self,
        document_id: str,
        first_line: int | None = None,
        last_line: int | None = None,
        first_byte: int | None = None,
        max_bytes: int | None = None,
    ) -> Reading:
        """A document with its text, or with the asked-for lines or bytes of it."""
        with self._lock:
            wanted.check()
            try:
                document = self.index.get(document_id)
            except NotFound as error:
                raise NotFound(f"{error}{self._nearest_ids(document_id)}") from None
        return Reading(document, part_of(document.text, first_line, last_line, first_byte, max_bytes))

    def ids(self, limit: int) -> list[str]:
        """The first ids, in their order."""
        with self._lock:
            return self.index.store.scan(order_by="document_id", limit=limit)

    def summary(self) -> Summary:
        """What is in the corpus as a whole."""
        with self._lock:
            return self.index.store.summary()

    def why_no_meaning(self) -> str | None:
        """Why nothing can be found by meaning; None if it can."""
        with self._lock:
            semantic = self.index.stats().semantic
        return None if semantic == "ready" else semantic

    def find(self, query: str, limit: int) -> Findings:
        """What one search across everything asks."""
        from onhand.corpora.corpus import Finding, Findings

        answer = self.fused(query, limit=limit)
        found = tuple(Finding(hit.document_id, hit.title, hit.text, hit.score) for hit in answer.hits)
        return Findings(found, answer.reason, answer.notes)

    def tools(self) -> list[Tool]:
        """The tools over these documents. What they say of the corpus is true now: ask again when it has changed."""
        from onhand.corpora.documents_tool import tools_over

        return tools_over(self)

    def _page(self, search: Callable[[int], Result], limit: int | None, page: Page) -> Answer:
        size, notes = _page_size(limit)
        with self._lock:
            wanted.check()  # it may have waited long for its turn
            result = search(size)
        if result.more and page.offset + len(result.hits) > MAX_OFFSET:
            notes += (f"there are more, but no more than {MAX_OFFSET:,} can be paged through: narrow the filter",)
        return Answer(
            result.hits,
            page,
            result.more,
            min_score=result.min_score,
            total=result.total,
            notes=(*notes, *result.notes),
            reason=result.reason,
        )

    def _nearest_ids(self, document_id: str) -> str:
        """A hint, where there are few enough ids to look at all of them."""
        store = self.index.store
        if not 0 < store.count() <= MAX_COMPARED_IDS:
            return ""
        from onhand.tools.problems import near

        nearest = near(document_id, store.scan(order_by="document_id", limit=MAX_COMPARED_IDS))
        return f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""


def _page_size(limit: int | None) -> tuple[int, tuple[str, ...]]:
    """How many hits a page has, as AIP-158 says: 0 is the default, and too many are as many as there may be."""
    if limit is None:
        return DEFAULT_LIMIT, ()
    if limit < 0:
        raise InputError(f"limit is {limit}: it is from 1 to {MAX_LIMIT}; 0 or none means {DEFAULT_LIMIT}", "limit")
    if limit == 0:
        return DEFAULT_LIMIT, (f"limit 0 means the default, {DEFAULT_LIMIT}; from 1 to {MAX_LIMIT} are allowed",)
    if limit > MAX_LIMIT:
        return MAX_LIMIT, (f"limit was taken as {MAX_LIMIT}, the most that a page has",)
    return limit, ()


def _number(min_score: float | str | None) -> float | str | None:
    """0 and 0.0 are the same argument."""
    return min_score if min_score is None or isinstance(min_score, str) else float(min_score)


def _query(query: str) -> str:
    """The query, or an error when nothing in it can be seen."""
    query = accepted_query(query)
    if not any(map(str.isalnum, query)):
        from unicodedata import category

        if not any(category(character)[0] in "PS" for character in query):
            raise InputError("query needs at least one letter or number: say what to look for", "query")
    return query


def _spelled(filter: Filter) -> list[object]:
    """The filter in the one spelling that equal filters share."""
    after, before = filter.created_after, filter.created_before
    return [
        sorted(wanted_authors(filter)),
        sorted(set(filter.tags)),
        None if after is None else microseconds(after),
        None if before is None else microseconds(before),
        sorted(set(filter.scope)),
    ]
