"""One question, asked through every door, answered in one form: so that one suite can compare them.

To add a door, write a class with `search` and `get`, and a line in DOORS.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import grpc
import mcp_types as types
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client

from grpc_serving import SEARCH, ask, raw_channel, serving
from onhand import InputError, OnhandError
from onhand.cli.main import main
from onhand.corpora.document_tools import DIGITS, answer_as_json, reading_as_json, time_text
from onhand.corpora.documents import Documents
from onhand.document import Filter
from onhand.doors import mcp_surface
from onhand.grpc import search_pb2 as wire
from onhand.grpc import translate
from onhand.mcp.surface import build_server
from onhand.project import Project, load_config
from onhand.search.validation import parse_time
from rawmcp import JSON

METHODS: dict[str, tuple[str, Any]] = {
    "keyword": ("KeywordSearch", wire.KeywordSearchRequest),
    "semantic": ("SemanticSearch", wire.SemanticSearchRequest),
    "filter": ("FilterDocuments", wire.FilterRequest),
    "fused": ("FusedSearch", wire.FusedSearchRequest),
}
TOOLS = {
    "keyword": "keyword_search",
    "semantic": "semantic_search",
    "filter": "filter_documents",
    "fused": "fused_search",
}
ROOM_BYTES = 10_000_000  # an answer for a model is cut where its room ends: here it never does


class Rejected(Exception):
    """The door refuses: "invalid" is what cannot be used, "failed" all else, such as a document that is not there."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {text}")


class Door(Protocol):
    """Answers in the form of the command line's JSON."""

    def search(self, verb: str, query: str, filter: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """A page of hits. `filter` has times as texts; options are limit, page_token, min_score and order_by."""

    def get(self, document_id: str, **ranges: int) -> dict[str, Any]:
        """A document, or the lines or bytes of it that were asked for."""


class PythonDoor:
    """`Documents`, called."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def search(self, verb: str, query: str, filter: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        words = [] if verb == "filter" else [query]
        with _own_errors():
            return {**answer_as_json(getattr(self._documents, verb)(*words, filter_of(filter), **options))}

    def get(self, document_id: str, **ranges: int) -> dict[str, Any]:
        with _own_errors():
            return {**reading_as_json(self._documents.get(document_id, **ranges))}


class CommandDoor:
    """`onhand docs … --json`, in this process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def search(self, verb: str, query: str, filter: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        flags = [f"--{name}={value}" for name, value in _flags(filter, options)]
        return self._run([verb, *flags, *([] if verb == "filter" else ["--", query])])

    def get(self, document_id: str, **ranges: int) -> dict[str, Any]:
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in ranges.items()]
        return self._run(["get", *flags, "--", document_id])

    def _run(self, words: list[str]) -> dict[str, Any]:
        out, said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        with redirect_stdout(out), redirect_stderr(said):
            code = main(["docs", words[0], "--json", f"--db={self._path}", *words[1:]])
            out.flush()
        if code:
            raise Rejected("invalid" if code == 2 else "failed", said.getvalue())
        out.buffer.seek(0)
        printed: dict[str, Any] = json.loads(out.buffer.read())
        return printed


class GrpcDoor:
    """Messages to a server, as any language would send them."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def search(self, verb: str, query: str, filter: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        method, kind = METHODS[verb]
        fields = {name: value for name, value in options.items() if value is not None}
        if verb != "filter":
            fields["query"] = query
        if verb in ("keyword", "fused"):
            fields["explain"] = True
        if "min_score" in options and options["min_score"] is None:
            fields["min_score"] = translate.ANY_SCORE
        with _own_errors():
            request = kind(filter=translate.filter_message(filter_of(filter)), **fields)
        with _statuses():
            return _as_json(verb, ask(self._channel, SEARCH + method, request, wire.SearchResponse)[0])

    def get(self, document_id: str, **ranges: int) -> dict[str, Any]:
        request = wire.GetDocumentRequest(document_id=document_id, **ranges)
        with _statuses():
            got = ask(self._channel, SEARCH + "GetDocument", request, wire.GetDocumentResponse)[0]
        document, part = translate.document_of(got.document), got.part
        return {
            "document_id": document.id,
            "title": document.title,
            "author": document.author,
            "tags": list(document.tags),
            "scope": document.scope,
            "created_time": time_text(document.created_time),
            "metadata": dict(document.metadata),
            "text": document.text,
            "part": {
                "lines": [part.first_line, part.last_line],
                "of_lines": part.total_lines,
                "bytes": [part.first_byte, part.end_byte],
                "of_bytes": part.total_bytes,
            },
        }


class McpDoor:
    """The tools, called by a client of the official SDK."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self._client = client

    def search(self, verb: str, query: str, filter: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        words = {} if verb == "filter" else {"query": query}
        return self._call(TOOLS[verb], {**words, "filter": dict(filter), **options})

    def get(self, document_id: str, **ranges: int) -> dict[str, Any]:
        return self._call("get_document", {"document_id": document_id, **ranges})

    def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        asked = partial(self._client.call_tool, tool, arguments, meta=JSON)
        result = self._portal.call(asked)
        assert isinstance(result, types.CallToolResult)
        (block,) = result.content
        assert isinstance(block, types.TextContent)
        if result.is_error:  # which is all that is told apart; what went wrong is in words for a model
            raise Rejected("failed" if "there is no document" in block.text else "invalid", block.text)
        answer: dict[str, Any] = result.structured_content or {}
        assert json.loads(block.text) == answer, "a client that reads the text alone has to find the same"
        return answer


@contextmanager
def python_door(path: Path) -> Iterator[Door]:
    documents = Project(load_config(flags={"documents.path": str(path)})).documents
    try:
        yield PythonDoor(documents)
    finally:
        documents.index.close()


@contextmanager
def command_door(path: Path) -> Iterator[Door]:
    yield CommandDoor(path)


@contextmanager
def grpc_door(path: Path) -> Iterator[Door]:
    documents = Project(load_config(flags={"documents.path": str(path)})).documents
    try:
        with serving(documents.index) as running, raw_channel(running.address) as channel:
            yield GrpcDoor(channel)
    finally:
        documents.index.close()


@contextmanager
def mcp_door(path: Path) -> Iterator[Door]:
    config = load_config(flags={"documents.path": str(path), "documents.max_output_bytes": ROOM_BYTES})
    surface = mcp_surface(Project(config))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(build_server(surface))) as client:
        yield McpDoor(portal, client)


DOORS: dict[str, Callable[[Path], AbstractContextManager[Door]]] = {
    "python": python_door,
    "command line": command_door,
    "grpc": grpc_door,
    "mcp": mcp_door,
}


def filter_of(filter: Mapping[str, Any]) -> Filter:
    """The filter that names and texts ask for."""
    values: dict[str, Any] = {
        name: parse_time(value) if name.startswith("created") else tuple(value) for name, value in filter.items()
    }
    return Filter(**values)


def _flags(filter: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    names = {"author": "author", "tags": "tag", "scope": "scope", "created_after": "after", "created_before": "before"}
    for name, values in filter.items():
        for value in [values] if isinstance(values, str) else values:
            yield names[name], value
    for name, value in options.items():
        if value is not None or name == "min_score":
            yield name.replace("_", "-"), "none" if value is None else value


@contextmanager
def _own_errors() -> Iterator[None]:
    try:
        yield
    except OnhandError as error:
        is_invalid = type(error) is InputError
        raise Rejected("invalid" if is_invalid else "failed", str(error)) from error


@contextmanager
def _statuses() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        is_invalid = error.code() is grpc.StatusCode.INVALID_ARGUMENT
        raise Rejected("invalid" if is_invalid else "failed", error.details() or "") from error


def _as_json(verb: str, response: wire.SearchResponse) -> dict[str, Any]:
    value: dict[str, Any] = {"hits": [_hit(hit) for hit in response.hits]}
    if response.HasField("total_size"):
        value["total"] = response.total_size
    if verb == "semantic":
        value["min_score"] = response.min_score if response.HasField("min_score") else None
    if response.next_page_token:
        value["next_page_token"] = response.next_page_token
    if response.notes:
        value["notes"] = list(response.notes)
    if response.reason:
        value["reason"] = response.reason
    return value


def _hit(hit: wire.SearchHit) -> dict[str, Any]:
    layers: dict[str, Any] = {}
    for layer in hit.layers:
        layers[layer.name] = {"rank": layer.rank, "score": round(layer.score, DIGITS)}
        if layer.name == "keyword":
            scores: dict[str, float] = {}
            for term in layer.terms:
                scores[term.term] = scores.get(term.term, 0.0) + term.score
            layers[layer.name]["terms"] = sorted(scores, key=lambda term: (-scores[term], term))[:8]
    created = hit.created_time.ToDatetime() if hit.HasField("created_time") else None
    return {
        "document_id": hit.document_id,
        "title": hit.title,
        "snippet": hit.snippet,
        "score": round(hit.exact_score, DIGITS),
        "author": hit.author,
        "created_time": None if created is None else created.isoformat() + "Z",
        "layers": layers,
        **({"lines": [hit.first_line, hit.last_line]} if hit.first_line else {}),
        **({"bytes": [hit.first_byte, hit.end_byte]} if hit.end_byte else {}),
    }
