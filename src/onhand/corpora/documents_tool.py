"""How does a model ask for documents? Five tools: their words, their schemas, their answers."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from onhand.amounts import counted
from onhand.corpora.answers import answer_within, reading_within, short, text_of, time_text
from onhand.corpora.shapes import DocumentReading, DocumentsAnswer
from onhand.document import Filter, time_of
from onhand.errors import EmbedderError, InputError, ToolError
from onhand.search.index import DEFAULT_LIMIT, MAX_LIMIT
from onhand.tools import Output, Tool
from onhand.tools.tool import LOCAL, closed_schema

if TYPE_CHECKING:
    from onhand.corpora.documents import Answer, Documents
    from onhand.store.entry import Summary, Tally

Schema = dict[str, Any]

MAX_NAMED = 5  # authors, tags or scopes that a description names
MAX_NAME_CHARS = 60

KEYWORD = (
    "Find documents that contain the words of the query. Good at exact words, names, identifiers, codes and numbers, "
    "in any spelling (readFile finds read_file). Bad at paraphrase: what says the same in other words is not found, "
    "for which there is semantic_search. Cheap: local, some milliseconds. Returns snippets, never whole documents: "
    'read one with get_document. Example: keyword_search(query="INV-2041 refund", filter={"author": ["sarah"]}).'
)
SEMANTIC = (
    "Find documents that mean roughly what the query says, also in other words. Good at questions and paraphrase: "
    '"Q3 forecast" finds "quarterly revenue projections". Bad at exact identifiers, codes and rare names, for which '
    "there is keyword_search. Dearer than keyword_search: a model reads the query first; narrow it with filter. Hits "
    "below min_score are left out, so an empty answer means that nothing is near enough. Returns snippets. Example: "
    'semantic_search(query="how do we handle refunds", filter={"tags": ["email"]}, limit=5).'
)
FILTER = (
    "List documents by author, tags, time and scope alone, newest first, with how many there are in all. Good at "
    "wishes that are all structure (mails that Sarah sent in July), and at counting before a search. Bad at topics: it "
    "does not look at the text. The cheapest call. Returns snippets. Example: filter_documents(filter="
    '{"author": ["sarah"], "tags": ["email"], "created_after": "2026-07-01", "created_before": "2026-08-01"}).'
)
FUSED = (
    "Find documents by words and by meaning at once, in one ranking. Good when you cannot tell which of the two will "
    "fit, or when one call has to do. Bad at telling the two apart: a hit's layers say how each ranked it, and "
    "keyword_search or semantic_search alone show it better. Costs as much as both together. Where meaning cannot be "
    'compared it goes by words, and says so. Returns snippets. Example: fused_search(query="parental leave policy").'
)
GET = (
    "Read one document: its text and all that is known about it. Good at the one that a search has picked. Bad at "
    "finding: it takes a document_id, which the searches give. The dearest call, up to {max_bytes:,} bytes: ask for "
    "lines or bytes of a long document; next in the answer says how to go on. Example: "
    'get_document(document_id="…", first_line=1, last_line=80).'
)

_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_QUERY: Schema = {"type": "string", "description": "Plain words; nothing in it is an operator."}
_FILTER: Schema = {
    "type": "object",
    "description": "Which documents count; what is left out does not constrain.",
    "properties": {
        "author": {**_TEXTS, "description": "By any of these: a name, an address, or what stands before its @."},
        "tags": {**_TEXTS, "description": "With all of these."},
        "created_after": {"type": "string", "description": "From this date or time on, such as 2026-07-01; UTC."},
        "created_before": {"type": "string", "description": "Before this date or time."},
        "scope": {**_TEXTS, "description": "In any of these channels, projects or folders."},
    },
    "additionalProperties": False,
}
_LIMIT: Schema = {
    "type": "integer",
    "description": f"At most this many hits: {DEFAULT_LIMIT} by default, {MAX_LIMIT} at most.",
}
_PAGE_TOKEN: Schema = {
    "type": "string",
    "description": "next_page_token of the page before, with all other arguments unchanged.",
}
_MIN_SCORE: Schema = {
    "type": ["number", "null"],
    "minimum": 0,
    "maximum": 1,
    "description": "The least cosine of a hit; by default what suits the model. null: any.",
}
_ORDER_BY: Schema = {
    "type": "string",
    "description": '"created_time desc" by default; also title, author, scope, document_id, joined by commas.',
}
_RANGE: Schema = {
    "first_line": {"type": "integer", "description": "From this line on; they count from 1."},
    "last_line": {"type": "integer", "description": "Up to and with this line."},
    "first_byte": {"type": "integer", "description": "Instead of lines: from this byte on; they count from 0."},
    "max_bytes": {"type": "integer", "description": "At most this many bytes."},
}


def tools_over(documents: "Documents") -> list[Tool]:
    """The five tools over one corpus."""
    summary = documents.summary()
    corpus = corpus_sentence(summary)
    meaning = _meaning_sentence(documents, summary)
    query = {"query": _QUERY, "filter": _FILTER, "limit": _LIMIT}
    by_meaning = {**query, "min_score": _MIN_SCORE}
    listing = {"filter": _FILTER, "limit": _LIMIT, "order_by": _ORDER_BY}
    return [
        _search_tool(documents, "keyword_search", f"{KEYWORD} {corpus}", query, documents.keyword),
        _search_tool(documents, "semantic_search", f"{SEMANTIC}{meaning} {corpus}", by_meaning, documents.semantic),
        _search_tool(documents, "filter_documents", f"{FILTER} {corpus}", listing, documents.filter),
        _search_tool(documents, "fused_search", f"{FUSED}{meaning} {corpus}", query, documents.fused),
        _get_tool(documents, f"{GET.format(max_bytes=documents.max_output_bytes)} {_counted(summary)}"),
    ]


def corpus_sentence(summary: "Summary") -> str:
    """What is in the corpus, in a sentence that stays the same while the corpus does."""
    parts = [
        _tallied("by", "author", summary.authors),
        _tallied("with", "tag", summary.tags),
        _tallied("in", "scope", summary.scopes),
    ]
    if summary.earliest_us is not None and summary.latest_us is not None:
        first, last = (str(time_text(time_of(at)))[:10] for at in (summary.earliest_us, summary.latest_us))
        parts.append(f"created on {first}" if first == last else f"created from {first} to {last}")
    return "; ".join([_counted(summary).removesuffix("."), *filter(None, parts)]) + "."


def _counted(summary: "Summary") -> str:
    if not summary.documents:
        return "This corpus is empty: nothing can be found before documents are imported."
    return f"This corpus has {counted(summary.documents, 'document')}."


def _tallied(preposition: str, noun: str, tally: "Tally") -> str:
    """`by 3 authors: "ann" (7), "bob" (2), …`"""
    if not tally.distinct:
        return ""
    # Whoever wrote a document chose these words: quoted, short and on one line they can pass for nothing else.
    named = [f"{text_of(short(' '.join(value.split()), MAX_NAME_CHARS))} ({count:,})" for value, count in tally.most]
    more = [] if tally.distinct <= MAX_NAMED else ["…"]
    return f"{preposition} {counted(tally.distinct, noun)}: {', '.join([*named[:MAX_NAMED], *more])}"


def _meaning_sentence(documents: "Documents", summary: "Summary") -> str:
    why = documents.why_no_meaning() if summary.documents else None
    return f" At present meaning cannot be compared: {why}." if why else ""


def _search_tool(
    documents: "Documents", name: str, description: str, properties: Schema, search: Callable[..., "Answer"]
) -> Tool:
    def handler(arguments: dict[str, Any]) -> Any:
        return answer_within(search(**_understood(arguments)), documents.max_output_bytes)

    return _tool(documents, name, description, {**properties, "page_token": _PAGE_TOKEN}, handler, DocumentsAnswer)


def _get_tool(documents: "Documents", description: str) -> Tool:
    def handler(arguments: dict[str, Any]) -> Any:
        ranges = {name: whole_number(value, name) for name, value in arguments.items() if name in _RANGE}
        return reading_within(documents.get(arguments["document_id"], **ranges), documents.max_output_bytes)

    properties = {"document_id": {"type": "string", "description": "As a search gave it."}, **_RANGE}
    return _tool(documents, "get_document", description, properties, handler, DocumentReading)


def _tool(
    documents: "Documents",
    name: str,
    description: str,
    properties: Schema,
    handler: Callable[[dict[str, Any]], Any],
    shape: type,
) -> Tool:
    from onhand.tools.schema import answer_schema

    schema = closed_schema(properties, [name for name in ("query", "document_id") if name in properties])

    def answered(arguments: dict[str, Any]) -> Output:
        try:
            value = handler(arguments)
        except EmbedderError as error:
            raise ToolError(f"{error}. keyword_search and filter_documents work without") from None
        return Output(text_of(value), value)

    return Tool(
        name,
        description,
        schema,
        answered,
        read_only=True,
        max_output_bytes=documents.max_output_bytes,
        output_schema=answer_schema(shape),
        hints=LOCAL,
    )


def _understood(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with their filter and limit as Python has them."""
    understood = dict(arguments)
    if "filter" in understood:
        understood["filter"] = filter_of(understood["filter"])
    if "limit" in understood:
        understood["limit"] = whole_number(understood["limit"], "limit")
    return understood


def filter_of(given: Mapping[str, Any]) -> Filter:
    """The Filter that a JSON object asks for."""
    from onhand.search.times import parse_time
    from onhand.tools.problems import unknown

    for name in given:
        if name not in Filter._fields:
            raise InputError(unknown(name, Filter._fields, "filter"))
    values: dict[str, Any] = {
        name: parse_time(value) if name.startswith("created") else tuple(dict.fromkeys(value))
        for name, value in given.items()
    }
    return Filter(**values)


def whole_number(value: int | float, name: str) -> int:
    """JSON may write 5 as 5.0; what is beyond all counting is no number of anything."""
    if abs(value) > 2**53:
        raise InputError(f"{name} is beyond all counting: send a smaller number")
    return int(value)
