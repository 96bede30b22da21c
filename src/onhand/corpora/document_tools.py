"""The tools over documents, and the JSON of their answers.

Text from documents appears only inside JSON strings, so that no document can forge a hit or a note; invisible
characters and the tags of blocks are escaped there. An answer fits into a number of bytes, and a hit is whole or
absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict, cast

from onhand.corpora.blocks import corpus_tool, neutralise_json, safe_error
from onhand.corpora.documents import DEFAULT_ORDER, shorten_part
from onhand.document import Document, Filter, from_microseconds
from onhand.errors import EmbedderError, InputError, OnhandError, ToolError
from onhand.search.index import AS_DECLARED, DEFAULT_LIMIT, MAX_LIMIT
from onhand.search.validation import parse_time
from onhand.text import quantity
from onhand.tools import Output, Tool

if TYPE_CHECKING:
    from onhand.corpora.documents import DocumentReading, Documents, DocumentsPage
    from onhand.search.result import Hit, Layer
    from onhand.store.store import Summary, Tally

Span = Annotated[list[int], {"minItems": 2, "maxItems": 2}]


class DocumentLayer(TypedDict):
    """The rank and score of a document in one layer."""

    rank: int
    score: float
    terms: NotRequired[list[str]]


class ExplainedLayer(DocumentLayer):
    """A layer with what each term contributed in each field, for people who tune a ranking."""

    share: float
    contributions: list[dict[str, Any]]


class DocumentHitJson(TypedDict):
    """A document that matches."""

    document_id: str
    title: str
    snippet: str
    score: float
    author: str
    created_time: str | None
    layers: dict[str, DocumentLayer]
    lines: NotRequired[Annotated[Span, "Of the passage nearest in meaning: first_line and last_line of get_document."]]
    bytes: NotRequired[Annotated[Span, "Of that passage if it is a part of a long line: first_byte, and the end."]]


class DocumentsPageJson(TypedDict):
    """The answer of the four searches."""

    hits: list[DocumentHitJson]
    total: NotRequired[int]
    min_score: NotRequired[float | None]
    next_page_token: NotRequired[str]
    notes: NotRequired[list[str]]
    reason: NotRequired[str]
    left_out: NotRequired[int]


class DocumentPart(TypedDict):
    """The position of a part in the text of a document."""

    lines: Span
    of_lines: int
    bytes: Span
    of_bytes: int


class DocumentHead(TypedDict):
    """Everything about a document except its text."""

    document_id: str
    title: str
    author: str
    tags: list[str]
    scope: str
    created_time: str | None
    metadata: dict[str, Any]


class DocumentReadingJson(DocumentHead):
    """The answer of `get_document`."""

    text: str
    part: DocumentPart
    next: NotRequired[dict[str, Any]]
    notes: NotRequired[list[str]]


MAX_TITLE_CHARS = 200
MAX_NAME_CHARS = 200  # of an author or a scope
MAX_TERMS = 8  # of a hit: those with the largest contributions
DIGITS = 6  # of a score: more digits would only cost tokens


def to_safe_json(value: Any) -> str:
    """Return a value as compact JSON on one line, sanitized and without anything that could be taken for a block."""
    return json.dumps(neutralise_json(value), ensure_ascii=False, separators=(",", ":"))


def answer_within(answer: DocumentsPage, max_bytes: int) -> DocumentsPageJson:
    """Return the page with as many whole hits as fit; the rest is counted, and is on the next page."""
    hits: list[DocumentHitJson] = []
    room = max_bytes
    for hit in answer.hits:  # one by one, because finding a snippet costs more than everything else
        hits.append(hit_as_json(hit))
        room -= _size(hits[-1])
        if room < 0:
            break
    for count in range(len(hits), -1, -1):
        value = _page_json(answer.limit_to(count), hits[:count], max_bytes)
        if _size(value) <= max_bytes:
            return value
    raise InputError(f"even an empty answer needs more than {max_bytes:,} bytes: raise documents.max_output_bytes")


def answer_as_json(answer: DocumentsPage, explain: bool = False) -> DocumentsPageJson:
    """Return the whole page; `explain` adds what every term contributed in every field."""
    return _page_json(answer, [hit_as_json(hit, explain) for hit in answer.hits])


def hit_as_json(hit: Hit, explain: bool = False) -> DocumentHitJson:
    """Return a hit as every door shows it."""
    value: DocumentHitJson = {
        "document_id": hit.document_id,
        "title": shorten(hit.title, MAX_TITLE_CHARS),
        "snippet": hit.snippet,
        "score": round(hit.score, DIGITS),
        "author": shorten(hit.author, MAX_NAME_CHARS),
        "created_time": time_text(hit.created_time),
        "layers": {layer.name: _layer(layer, explain) for layer in hit.layers},
    }
    if hit.excerpt is not None:
        value["lines"] = list(hit.excerpt.lines)
        if hit.excerpt.bytes is not None:  # a part of a long line, of which the lines say too little
            value["bytes"] = list(hit.excerpt.bytes)
    return value


def reading_within(reading: DocumentReading, max_bytes: int) -> DocumentReadingJson:
    """Return the document with as much of its text as fits, and how to continue."""
    head, notes = _bounded_head(reading, max_bytes)
    frame = _reading_json(reading, head, notes)
    # Positions can only get shorter, but `next` may have to be added.
    room = max_bytes - _size({**frame, "text": "", "next": {"first_line": 10**9, "last_line": 10**9}})
    part = shorten_part(reading.part, room, lambda text: _size(text) - 2)
    if reading.part.text and not part.text:
        raise InputError(f"nothing of the document fits in {max_bytes:,} bytes: raise documents.max_output_bytes")
    return _reading_json(reading._replace(part=part), head, notes)


def reading_as_json(reading: DocumentReading) -> DocumentReadingJson:
    """Return the whole document, or the whole requested part."""
    return _reading_json(reading, _head_json(reading.document), [])


def time_text(time: datetime | None) -> str | None:
    """Return a time in UTC as RFC 3339 text."""
    if time is None:
        return None
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def shorten(text: str, max_chars: int) -> str:
    """Return at most `max_chars` characters; an ellipsis replaces the rest."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _page_json(answer: DocumentsPage, hits: list[DocumentHitJson], max_bytes: int = 0) -> DocumentsPageJson:
    notes = list(answer.notes)
    if answer.left_out:
        where = "they are on the next page" if hits else "the next page begins after the first of them"
        notes.append(f"left out {answer.left_out} more hits that do not fit in {max_bytes:,} bytes: {where}")
    value: DocumentsPageJson = {"hits": hits}
    if answer.total is not None:
        value["total"] = answer.total
    if answer.by_meaning:
        value["min_score"] = answer.min_score
    if answer.next_page_token:
        value["next_page_token"] = answer.next_page_token
    if answer.left_out:
        value["left_out"] = answer.left_out
    if notes:
        value["notes"] = notes
    if answer.reason:
        value["reason"] = answer.reason
    return value


def _layer(layer: Layer, explain: bool) -> DocumentLayer:
    value: DocumentLayer = {"rank": layer.rank, "score": round(layer.score, DIGITS)}
    if layer.name == "keyword":
        value["terms"] = _terms(layer)
    if not explain:
        return value
    contributions = [
        {**contribution._asdict(), "score": round(contribution.score, DIGITS)} for contribution in layer.terms
    ]
    explained: ExplainedLayer = {**value, "share": round(layer.share, DIGITS), "contributions": contributions}
    return explained


def _terms(layer: Layer) -> list[str]:
    """Return the matching words, largest contribution first."""
    scores: dict[str, float] = {}
    for term, _, score in layer.terms:
        scores[term] = scores.get(term, 0.0) + score
    return sorted(scores, key=lambda term: (-scores[term], term))[:MAX_TERMS]


def _bounded_head(reading: DocumentReading, max_bytes: int) -> tuple[DocumentHead, list[str]]:
    """Return the fields before the text in at most about half of the room, and notes on what was left out."""
    document, notes = reading.document, []
    head = _head_json(document)
    tags = _as_many_as_fit(document.tags, max_bytes // 8)
    if len(tags) < len(document.tags):
        notes.append(f"left out {len(document.tags) - len(tags):,} more tags")
    metadata = head["metadata"]
    if _size(metadata) > max_bytes // 4:
        notes.append(f"left out the metadata, {_size(metadata):,} bytes, with {len(metadata):,} entries")
        metadata = {}
    author, scope = shorten(document.author, MAX_NAME_CHARS), shorten(document.scope, MAX_NAME_CHARS)
    title = shorten(document.title, MAX_TITLE_CHARS)
    return {**head, "title": title, "author": author, "tags": tags, "scope": scope, "metadata": metadata}, notes


def _head_json(document: Document) -> DocumentHead:
    return {
        "document_id": document.id,
        "title": document.title,
        "author": document.author,
        "tags": list(document.tags),
        "scope": document.scope,
        "created_time": time_text(document.created_time),
        "metadata": dict(document.metadata),
    }


def _as_many_as_fit(texts: Iterable[str], room: int) -> list[str]:
    fitting = []
    for text in texts:
        room -= _size(text) + 2
        if room < 0:
            break
        fitting.append(text)
    return fitting


def _reading_json(reading: DocumentReading, head: DocumentHead, notes: list[str]) -> DocumentReadingJson:
    part = reading.part
    place: DocumentPart = {
        "lines": [part.first_line, part.last_line],
        "of_lines": part.lines,
        "bytes": [part.first_byte, part.end_byte],
        "of_bytes": part.bytes,
    }
    value = cast(DocumentReadingJson, {**head, "text": part.text, "part": place})
    if part.next:
        value["next"] = part.next
    if notes:
        value["notes"] = notes
    return value


def _size(value: Any) -> int:
    """Return the bytes of a value as text for a model or as JSON for a program, whichever is more."""
    return max(len(to_safe_json(value).encode()), len(json.dumps(value, ensure_ascii=False).encode()))


MAX_NAMED = 5  # authors, tags or scopes that a description names
MAX_LISTED_NAME_CHARS = 60

KEYWORD = (
    "Find documents that contain the words of the query. Good for exact words, names, identifiers, codes and numbers, "
    "in any spelling (readFile finds read_file). Poor for paraphrases: the same thing in other words is not found, so "
    "use semantic_search for that. Cheap: local, a few milliseconds. Returns snippets, never whole documents: "
    'read one with get_document. Example: keyword_search(query="INV-2041 refund", filter={"author": ["sarah"]}).'
)
SEMANTIC = (
    "Find documents that mean roughly what the query says, even in other words. Good for questions and paraphrases: "
    '"Q3 forecast" finds "quarterly revenue projections". Poor for exact identifiers, codes and rare names; use '
    "keyword_search for those. More expensive than keyword_search, because a model reads the query first; narrow it "
    "with filter. Hits below min_score are left out, so an empty answer means that nothing is close. Returns snippets. "
    "Example: "
    'semantic_search(query="how do we handle refunds", filter={"tags": ["email"]}, limit=5).'
)
FILTER = (
    "List documents by author, tags, time and scope alone, newest first, with the total count. Good for requests that "
    "are all structure (mails that Sarah sent in July), and for counting before a search. Poor for topics: it does not "
    "look at the text. The cheapest call. Returns snippets. Example: filter_documents(filter="
    '{"author": ["sarah"], "tags": ["email"], "created_after": "2026-07-01", "created_before": "2026-08-01"}).'
)
FUSED = (
    "Find documents by words and by meaning at once, in one ranking. Good when you cannot tell which of the two will "
    "work, or when one call has to be enough. Poor for telling the two apart: a hit's layers say how each ranked it, "
    "but keyword_search or semantic_search alone show it better. Costs as much as both together. Finds nothing, and "
    "says so, if no document has enough in common with the query. If meaning cannot be compared, it uses words alone "
    'and says so. Returns snippets. Example: fused_search(query="parental leave policy").'
)
GET = (
    "Read one document: its text and everything known about it. Good for a document that a search found. Poor for "
    "finding one: it takes a document_id from a search. The most expensive call, up to {max_bytes:,} bytes: ask for "
    "lines or bytes of a long document; next in the answer says how to continue. Example: "
    'get_document(document_id="…", first_line=1, last_line=80).'
)

Query = Annotated[str, "Plain words; there are no operators."]
Limit = Annotated[int, f"At most this many hits: {DEFAULT_LIMIT} by default, {MAX_LIMIT} at most."]
PageToken = Annotated[str, "next_page_token of the previous page, with all other arguments unchanged."]
LeastScore = Annotated[float | None, {"minimum": 0}, "The least score of a hit; by default any."]
LeastFused = Annotated[
    float | None,
    {"minimum": 0, "maximum": 1},
    "The least score of a hit; by default there are none if nothing fits. null: any.",
]
MinScore = Annotated[
    float | None,
    {"minimum": 0, "maximum": 1},
    "The least cosine similarity of a hit; by default what suits the model. null: any.",
]
OrderBy = Annotated[str, '"created_time desc" by default; also title, author, scope, document_id, joined by commas.']
_OMITTED: Any = object()  # as min_score, since None means any score


class DocumentFilter(TypedDict, total=False):
    """Which documents to consider; omitted fields do not constrain."""

    author: Annotated[list[str], "By any of these: a name, an address, or the part before its @."]
    tags: Annotated[list[str], "With all of these."]
    created_after: Annotated[str, "From this date or time on, such as 2026-07-01; UTC."]
    created_before: Annotated[str, "Before this date or time."]
    scope: Annotated[list[str], "In any of these channels, projects or folders."]


def tools_over(documents: Documents) -> list[Tool]:
    """Return the five tools over one corpus. Their descriptions state what is in the corpus now."""
    max_bytes = documents.max_output_bytes
    summary = documents.summary()
    corpus = corpus_sentence(summary)
    meaning = _meaning_sentence(documents, summary)

    def document_tool(description: str) -> Callable[[Callable[..., Any]], Tool]:
        return corpus_tool(
            reads=["documents"], description=description, max_output_bytes=max_bytes, on_error=_explain_error
        )

    def page_output(page: DocumentsPage) -> Output[DocumentsPageJson]:
        return _output(answer_within(page, max_bytes))

    @document_tool(f"{KEYWORD} {corpus}")
    def keyword_search(
        query: Query,
        filter: DocumentFilter | None = None,
        limit: Limit | None = None,
        min_score: LeastScore = None,
        page_token: PageToken | None = None,
    ) -> Output[DocumentsPageJson]:
        return page_output(documents.keyword(query, filter_of(filter), limit, page_token, min_score))

    @document_tool(f"{SEMANTIC}{meaning} {corpus}")
    def semantic_search(
        query: Query,
        filter: DocumentFilter | None = None,
        limit: Limit | None = None,
        min_score: MinScore = _OMITTED,
        page_token: PageToken | None = None,
    ) -> Output[DocumentsPageJson]:
        least = AS_DECLARED if min_score is _OMITTED else min_score
        return page_output(documents.semantic(query, filter_of(filter), limit, least, page_token))

    @document_tool(f"{FILTER} {corpus}")
    def filter_documents(
        filter: DocumentFilter | None = None,
        limit: Limit | None = None,
        order_by: OrderBy | None = None,
        page_token: PageToken | None = None,
    ) -> Output[DocumentsPageJson]:
        return page_output(documents.filter(filter_of(filter), limit, order_by or DEFAULT_ORDER, page_token))

    @document_tool(f"{FUSED}{meaning} {corpus}")
    def fused_search(
        query: Query,
        filter: DocumentFilter | None = None,
        limit: Limit | None = None,
        min_score: LeastFused = _OMITTED,
        page_token: PageToken | None = None,
    ) -> Output[DocumentsPageJson]:
        least = AS_DECLARED if min_score is _OMITTED else min_score
        return page_output(documents.fused(query, filter_of(filter), limit, page_token, least))

    @document_tool(f"{GET.format(max_bytes=max_bytes)} {_count_documents(summary)}")
    def get_document(
        document_id: Annotated[str, "As returned by a search."],
        first_line: Annotated[int | None, "From this line on, counted from 1."] = None,
        last_line: Annotated[int | None, "Up to and including this line."] = None,
        first_byte: Annotated[int | None, "Instead of lines: from this byte on, counted from 0."] = None,
        max_bytes: Annotated[int | None, "At most this many bytes."] = None,
    ) -> Output[DocumentReadingJson]:
        reading = documents.get(document_id, first_line, last_line, first_byte, max_bytes)
        return _output(reading_within(reading, documents.max_output_bytes))

    return [keyword_search, semantic_search, filter_documents, fused_search, get_document]


def filter_of(filter: DocumentFilter | None) -> Filter:
    """Return the Filter that a JSON object describes."""
    values: dict[str, Any] = {
        name: parse_time(value) if isinstance(value, str) else tuple(dict.fromkeys(cast(list[str], value)))
        for name, value in (filter or {}).items()
    }
    return Filter(**values)


def _output(value: Any) -> Output[Any]:
    return Output(to_safe_json(value), value)


def _explain_error(error: OnhandError, arguments: dict[str, Any]) -> ToolError:
    if isinstance(error, EmbedderError):
        return ToolError(f"{error}. keyword_search and filter_documents still work")
    return safe_error(error, arguments)


def corpus_sentence(summary: Summary) -> str:
    """Describe the corpus in one sentence, which changes only with the corpus."""
    parts = [
        _list_most_common("by", "author", summary.authors),
        _list_most_common("with", "tag", summary.tags),
        _list_most_common("in", "scope", summary.scopes),
    ]
    if summary.earliest_us is not None and summary.latest_us is not None:
        first, last = (str(time_text(from_microseconds(at)))[:10] for at in (summary.earliest_us, summary.latest_us))
        parts.append(f"created on {first}" if first == last else f"created from {first} to {last}")
    return "; ".join([_count_documents(summary).removesuffix("."), *filter(None, parts)]) + "."


def _count_documents(summary: Summary) -> str:
    if not summary.documents:
        return "This corpus is empty: import documents before searching."
    return f"This corpus has {quantity(summary.documents, 'document')}."


def _list_most_common(preposition: str, noun: str, tally: Tally) -> str:
    """Return such text as `by 3 authors: "ann" (7), "bob" (2), …`."""
    if not tally.distinct:
        return ""
    # Authors of documents choose these values: quoted, short and on one line they cannot pass for anything else.
    named = [
        f"{to_safe_json(shorten(' '.join(value.split()), MAX_LISTED_NAME_CHARS))} ({count:,})"
        for value, count in tally.most
    ]
    more = [] if tally.distinct <= MAX_NAMED else ["…"]
    return f"{preposition} {quantity(tally.distinct, noun)}: {', '.join([*named[:MAX_NAMED], *more])}"


def _meaning_sentence(documents: Documents, summary: Summary) -> str:
    reason = documents.why_no_meaning() if summary.documents else None
    return f" Meaning cannot be compared at present: {reason}." if reason else ""
