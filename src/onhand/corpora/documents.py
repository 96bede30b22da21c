"""Search documents by words, by meaning, by filter or fused, page by page, and read them in full or in part.

A page token holds an offset, not a snapshot: while nothing changes, pages follow each other without gaps or
repetitions; documents that are added or deleted before the offset shift the rest. In the default order of a listing
new documents come first, so a reader may see one twice but misses none. A token is not a secret and grants nothing.
"""

from __future__ import annotations

from _thread import allocate_lock
from bisect import bisect_right

from onhand import cancellation
from onhand.document import EVERYTHING, Document, Filter, filter_author_keys, to_microseconds
from onhand.errors import InputError, NotFound
from onhand.record import Record
from onhand.search.index import AS_DECLARED, DEFAULT_LIMIT, MAX_LIMIT
from onhand.search.validation import validate_filter, validate_query
from onhand.store.store import parse_order
from onhand.text import count_lines

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from onhand.corpora.federated import Findings
    from onhand.search.index import Index
    from onhand.search.result import Hit, SearchResult
    from onhand.store.store import Summary
    from onhand.tools import Tool

MAX_OFFSET = 10_000  # a page costs as much as all pages before it, so paging deeper is slower than using a filter
_OFFSET_BYTES, _DIGEST_BYTES, _CHECK_BYTES = 2, 8, 4
_TOKEN_CHARS = 19  # 14 bytes as base64 without padding


class PagePlace(Record):
    """The position of a page in the list of all hits of one search."""

    offset: int
    arguments: bytes  # a digest of the search's arguments

    def token_after(self, count: int) -> str:
        """Return the token for the page that begins `count` hits later; empty if that is beyond MAX_OFFSET."""
        offset = self.offset + count
        if offset > MAX_OFFSET:
            return ""
        from base64 import urlsafe_b64encode

        body = offset.to_bytes(_OFFSET_BYTES, "big") + self.arguments
        return urlsafe_b64encode(body + _digest(body, _CHECK_BYTES)).decode().rstrip("=")


def page_of(token: str | None, *arguments: Any) -> PagePlace:
    """Return the page that a token asks for, or the first page without one.

    InputError if the token was not made here, or belongs to a search with other arguments.
    """
    import json

    expected = _digest(json.dumps(arguments).encode(), _DIGEST_BYTES)
    if not token:
        return PagePlace(0, expected)
    body = _decode_token(token)
    if body is None:
        raise InputError(
            f"Unknown page_token {str(token)[:40]!r}. Copy next_page_token completely, or leave page_token out.",
            "page_token",
        )
    offset = int.from_bytes(body[:_OFFSET_BYTES], "big")
    if body[_OFFSET_BYTES:] != expected:
        raise InputError(
            "page_token belongs to a search with other arguments. Repeat the arguments of the previous page (only "
            "limit may change), or leave page_token out to start again.",
            "page_token",
        )
    return PagePlace(offset, expected)


def _decode_token(token: object) -> bytes | None:
    """Return the content of a token, or None if it was not made here."""
    from base64 import urlsafe_b64decode

    if not isinstance(token, str) or len(token) != _TOKEN_CHARS or not token.isascii():
        return None
    try:
        raw = urlsafe_b64decode(token + "=")
    except ValueError:
        return None
    body, check = raw[:-_CHECK_BYTES], raw[-_CHECK_BYTES:]
    is_valid = len(body) == _OFFSET_BYTES + _DIGEST_BYTES and check == _digest(body, _CHECK_BYTES)
    return body if is_valid and int.from_bytes(body[:_OFFSET_BYTES], "big") <= MAX_OFFSET else None


def _digest(data: bytes, size: int) -> bytes:
    from hashlib import blake2b

    return blake2b(data, digest_size=size, person=b"onhand page").digest()


class TextPart(Record):
    """A part of a text and its position. A line ends with a newline; an empty text has no lines."""

    text: str
    first_line: int  # counted from 1
    last_line: int  # inclusive
    lines: int  # of the whole text
    first_byte: int  # counted from 0
    end_byte: int  # exclusive
    bytes: int  # of the whole text
    wanted_line: int  # the requested last line, even if the part had to be cut before it
    wanted_end: int  # the requested end, likewise
    by_lines: bool  # whether lines were requested

    @property
    def next(self) -> dict[str, int] | None:
        """Return the arguments that request what follows, or None at the end of the text."""
        if self.end_byte >= self.bytes:
            return None
        is_short = self.end_byte < self.wanted_end < self.bytes
        if self.by_lines and self.text.endswith("\n"):
            until = {"last_line": self.wanted_line} if is_short else {}
            return {"first_line": self.last_line + 1, **until}
        rest = {"max_bytes": self.wanted_end - self.end_byte} if is_short else {}
        return {"first_byte": self.end_byte, **rest}


def part_of(
    text: str,
    first_line: int | None = None,
    last_line: int | None = None,
    first_byte: int | None = None,
    max_bytes: int | None = None,
) -> TextPart:
    """Return the requested lines or bytes of a text, or all of it if no range is given."""
    by_bytes = first_byte is not None or max_bytes is not None
    if by_bytes and (first_line is not None or last_line is not None):
        raise InputError("ask for lines (first_line, last_line) or for bytes (first_byte, max_bytes), not both")
    raw = text.encode()
    if by_bytes:
        start, end = _byte_range(raw, first_byte or 0, max_bytes)
    else:
        start, end = _line_range(raw, 1 if first_line is None else first_line, last_line)
    return _part(raw, start, end, not by_bytes)


def shorten_part(part: TextPart, room: int, size: Callable[[str], int]) -> TextPart:
    """Return the longest start of a part whose size is at most `room`: whole lines, unless the first is too long.

    `size` must be at least the number of characters, and grow with the text.
    """
    text = part.text
    if len(text) <= room and size(text) <= room:
        return part
    length = bisect_right(range(min(len(text), max(room, 0)) + 1), room, key=lambda chars: size(text[:chars])) - 1
    length = max(length, 0)
    whole_lines = text.rfind("\n", 0, length) + 1
    if part.by_lines and whole_lines:
        length = whole_lines
    return _cut_part(part, text[:length])


def _cut_part(part: TextPart, text: str) -> TextPart:
    last_line = part.first_line + count_lines(text) - 1
    return part._replace(text=text, last_line=last_line, end_byte=part.first_byte + len(text.encode()))


def _part(raw: bytes, start: int, end: int, by_lines: bool) -> TextPart:
    text = raw[start:end].decode()
    first_line = raw.count(b"\n", 0, start) + 1
    last_line = first_line + count_lines(text) - 1
    return TextPart(text, first_line, last_line, count_lines(raw), start, end, len(raw), last_line, end, by_lines)


def _line_range(raw: bytes, first: int, last: int | None) -> tuple[int, int]:
    lines = count_lines(raw)
    if first < 1 or first > max(lines, 1):
        raise InputError(f"first_line is {first}, but the document has {lines:,} lines, counted from 1", "first_line")
    if last is not None and last < first:
        raise InputError(f"last_line is {last}, before first_line, which is {first}", "last_line")
    start = _line_start(raw, 0, first - 1)
    return start, len(raw) if last is None or last >= lines else _line_start(raw, start, last - first + 1)


def _line_start(raw: bytes, start: int, lines: int) -> int:
    """Return where the line begins that is this many lines after the one at `start`."""
    for _ in range(lines):
        start = raw.index(b"\n", start) + 1
    return start


def _byte_range(raw: bytes, first: int, max_bytes: int | None) -> tuple[int, int]:
    """Return the range aligned to whole characters: it begins no later than requested and is never empty."""
    if first < 0 or first >= max(len(raw), 1):
        raise InputError(
            f"first_byte is {first}, but the document has {len(raw):,} bytes, counted from 0", "first_byte"
        )
    if max_bytes is not None and max_bytes < 1:
        raise InputError(f"max_bytes is {max_bytes}: ask for at least one", "max_bytes")
    start = _back_to_character(raw, first)
    end = len(raw) if max_bytes is None else _back_to_character(raw, min(first + max_bytes, len(raw)))
    if end <= start < len(raw):
        end = start + 1
    while _is_inside(raw, end):
        end += 1
    return start, end


def _back_to_character(raw: bytes, at: int) -> int:
    while _is_inside(raw, at):
        at -= 1
    return at


def _is_inside(raw: bytes, at: int) -> bool:
    return at < len(raw) and raw[at] & 0xC0 == 0x80


DEFAULT_ORDER = "created_time desc"
MAX_OUTPUT_BYTES = 15 * 1024  # of an answer to a model: about 4,000 tokens
MAX_COMPARED_IDS = 2_000  # comparing an unknown id with more of them would take over 70 ms


class DocumentsPage(Record):
    """One page of hits; `reason` says why there are none, `notes` what the caller should know."""

    hits: tuple[Hit, ...]
    page: PagePlace
    more: bool  # whether there are hits after these
    by_meaning: bool = False  # whether min_score applied; it may be None
    min_score: float | None = None
    total: int | None = None  # the number of all hits, if it is known
    notes: tuple[str, ...] = ()
    reason: str | None = None
    left_out: int = 0  # hits of this page that did not fit

    def __iter__(self) -> Iterator[Hit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def next_page_token(self) -> str:
        """Return the token for the next page; empty if this is the last."""
        return self.page.token_after(max(len(self.hits), 1)) if self.more else ""

    def limit_to(self, count: int) -> DocumentsPage:
        """Return only the first hits; the next page begins after them, and after the first hit if `count` is 0."""
        left_out = len(self.hits) - count
        return self._replace(hits=self.hits[:count], more=True, left_out=left_out) if left_out else self


class DocumentReading(Record):
    """A document and the requested part of its text."""

    document: Document
    part: TextPart


class Documents:
    """The documents of an Index: validated searches, page by page. Threads may share it."""

    def __init__(self, index: Index, max_output_bytes: int = MAX_OUTPUT_BYTES) -> None:
        self.index = index
        self.max_output_bytes = max_output_bytes
        self._lock = allocate_lock()  # because only one thread at a time may use a store

    def keyword(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int | None = None,
        page_token: str | None = None,
        min_score: float | None = None,
        *,
        explain: bool = True,
    ) -> DocumentsPage:
        """Return the documents that share the rarest words with the query; `explain` says which, at a cost."""
        query, filter = _accept_query(query), validate_filter(filter)
        page = page_of(page_token, "keyword", query, _canonical_filter(filter), _canonical_score(min_score))
        return self._page(
            lambda size: self.index.keyword(query, filter, size, page.offset, min_score, explain=explain), limit, page
        )

    def semantic(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int | None = None,
        min_score: float | str | None = AS_DECLARED,
        page_token: str | None = None,
    ) -> DocumentsPage:
        """Return the documents nearest to the query in meaning; with `min_score=None`, however far they are."""
        query, filter = _accept_query(query), validate_filter(filter)
        page = page_of(page_token, "semantic", query, _canonical_filter(filter), _canonical_score(min_score))
        answer = self._page(lambda size: self.index.semantic(query, filter, size, min_score, page.offset), limit, page)
        return answer._replace(by_meaning=True)

    def filter(
        self,
        filter: Filter = EVERYTHING,
        limit: int | None = None,
        order_by: str = DEFAULT_ORDER,
        page_token: str | None = None,
    ) -> DocumentsPage:
        """Return the documents that pass the filter, in order, and how many there are."""

        filter = validate_filter(filter)
        page = page_of(page_token, "filter", _canonical_filter(filter), parse_order(order_by))
        return self._page(lambda size: self.index.filter(filter, size, order_by, page.offset), limit, page)

    def fused(
        self,
        query: str,
        filter: Filter = EVERYTHING,
        limit: int | None = None,
        page_token: str | None = None,
        min_score: float | str | None = AS_DECLARED,
        *,
        explain: bool = True,
    ) -> DocumentsPage:
        """Return documents ranked by words and meaning; by words alone, with a note, if meaning cannot be compared.

        By default nothing is found if no document has enough in common with the query; None finds the best all the
        same, and a number cuts hits below it.
        """
        query, filter = _accept_query(query), validate_filter(filter)
        page = page_of(page_token, "fused", query, _canonical_filter(filter), _canonical_score(min_score))

        def search(size: int) -> SearchResult:
            return self.index.fused(query, filter, size, page.offset, min_score=min_score, explain=explain)

        return self._page(search, limit, page)

    def get(
        self,
        document_id: str,
        first_line: int | None = None,
        last_line: int | None = None,
        first_byte: int | None = None,
        max_bytes: int | None = None,
    ) -> DocumentReading:
        """Return a document with its text, or with the requested lines or bytes of it."""
        with self._lock:
            cancellation.check()
            try:
                document = self.index.get(document_id)
            except NotFound as error:
                raise NotFound(f"{error}{self._nearest_ids(document_id)}") from None
        return DocumentReading(document, part_of(document.text, first_line, last_line, first_byte, max_bytes))

    def ids(self, limit: int) -> list[str]:
        """Return the first ids in their order."""
        with self._lock:
            return self.index.store.scan(order_by="document_id", limit=limit)

    def summary(self) -> Summary:
        """Return counts and the most common values of the whole corpus."""
        with self._lock:
            return self.index.store.summary()

    def why_no_meaning(self) -> str | None:
        """Return why documents cannot be found by meaning, or None if they can."""
        with self._lock:
            semantic = self.index.stats().semantic
        return None if semantic == "ready" else semantic

    def find(self, query: str, limit: int) -> Findings:
        """Return the documents for a search across all corpora."""
        from onhand.corpora.federated import Finding, Findings

        answer = self.fused(query, limit=limit)
        found = tuple(Finding(hit.document_id, hit.title, hit.matching_text, hit.score) for hit in answer.hits)
        return Findings(found, answer.reason, answer.notes)

    def tools(self) -> list[Tool]:
        """Return the tools over these documents. They describe the corpus as it is now; call again after a change."""
        from onhand.corpora.document_tools import tools_over

        return tools_over(self)

    def _page(self, search: Callable[[int], SearchResult], limit: int | None, page: PagePlace) -> DocumentsPage:
        size, notes = _page_size(limit)
        with self._lock:
            cancellation.check()  # the wait for the lock may have been long
            result = search(size)
        if result.more and page.offset + len(result.hits) > MAX_OFFSET:
            notes += (f"there are more hits, but pages end after {MAX_OFFSET:,}: narrow the filter",)
        return DocumentsPage(
            result.hits,
            page,
            result.more,
            min_score=result.min_score,
            total=result.total,
            notes=(*notes, *result.notes),
            reason=result.reason,
        )

    def _nearest_ids(self, document_id: str) -> str:
        """Return a hint with similar ids, if there are few enough ids to compare all of them."""
        store = self.index.store
        if not 0 < store.count() <= MAX_COMPARED_IDS:
            return ""
        from onhand.corpora.blocks import suggest_names

        return suggest_names(document_id, store.scan(order_by="document_id", limit=MAX_COMPARED_IDS))


def _page_size(limit: int | None) -> tuple[int, tuple[str, ...]]:
    """Return the number of hits per page, and a note if it is not `limit`; 0 means the default, as in AIP-158."""
    if limit is None:
        return DEFAULT_LIMIT, ()
    if limit < 0:
        raise InputError(f"limit is {limit}: use 1 to {MAX_LIMIT}; 0 or none means {DEFAULT_LIMIT}", "limit")
    if limit == 0:
        return DEFAULT_LIMIT, (f"limit 0 means the default, {DEFAULT_LIMIT}; from 1 to {MAX_LIMIT} are allowed",)
    if limit > MAX_LIMIT:
        return MAX_LIMIT, (f"limit was lowered to {MAX_LIMIT}, the maximum of a page",)
    return limit, ()


def _canonical_score(min_score: float | str | None) -> float | str | None:
    """Return the score as a float, because 0 and 0.0 are the same argument."""
    return min_score if min_score is None or isinstance(min_score, str) else float(min_score)


def _accept_query(query: str) -> str:
    """Return the query; InputError if it has nothing visible in it."""
    query = validate_query(query)
    if not any(map(str.isalnum, query)):
        from unicodedata import category

        if not any(category(character)[0] in "PS" for character in query):
            raise InputError("query needs at least one letter or number: say what to look for", "query")
    return query


def _canonical_filter(filter: Filter) -> list[object]:
    """Return the filter in a form that is the same for equal filters."""
    after, before = filter.created_after, filter.created_before
    return [
        sorted(filter_author_keys(filter)),
        sorted(set(filter.tags)),
        None if after is None else to_microseconds(after),
        None if before is None else to_microseconds(before),
        sorted(set(filter.scope)),
    ]
