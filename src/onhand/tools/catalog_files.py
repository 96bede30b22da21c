"""Read tools from files: an MCP tools/list result, a tools array of OpenAI or Anthropic, or onhand's own format.

The format of each entry is recognised by its keys, so one file may mix them. An entry that cannot be read as a tool is
reported as a problem, and the others are still read. The catalog decides whether a tool can be stored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onhand.embed.choose import choose_embedder
from onhand.embed.embedder import Embedder
from onhand.errors import EmbedderError, InputError
from onhand.fsio import open_regular
from onhand.record import Record
from onhand.tools.catalog import Catalog
from onhand.tools.catalog_tool import CatalogTool

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_DIGITS = 4_000  # of an integer
MAX_READ_DEPTH = 200  # more than a catalog accepts, less than Python can parse
MAX_NESTED = 4  # levels of namespaces; one is usual

FORMS = "an MCP tools/list result, or an array of tools in the format of OpenAI, Anthropic or onhand"
# A string, whose brackets do not count, or a bracket.
_NESTING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
_SCHEMAS = ("input_schema", "inputSchema", "parameters")


class CatalogFile(Record):
    """The tools of a file, and the problems of entries that are not tools."""

    tools: tuple[CatalogTool, ...]
    problems: tuple[str, ...] = ()


def read_catalog(path: str | os.PathLike[str]) -> CatalogFile:
    """Read a file; raise InputError if nothing in it can be read."""
    name = os.fspath(path)
    return tools_in(_parse(_read_content(name), name), name)


def tools_in(value: Any, where: str = "the value") -> CatalogFile:
    """Return the tools that a JSON value describes. Messages refer to the value as `where`."""
    listed, server = _find_list(value)
    if listed is None:
        raise InputError(f"{where} has no list of tools: use {FORMS}")
    tools: list[CatalogTool] = []
    problems: list[str] = []
    for place, entry, own_server in _walk_entries(listed, server):
        found = _read_tool(entry, own_server)
        if isinstance(found, str):
            problems.append(f"{where}: tool {place} {found}")
        else:
            tools.append(found)
    if _has_next_page(value):
        problems.append(
            f"{where}: the list is not complete (nextCursor): request the further pages and add their files"
        )
    return CatalogFile(tuple(tools), tuple(problems))


def _has_next_page(value: Any) -> bool:
    """Return whether the value is one page of a tools/list result, but not the last."""
    page = value.get("result", value) if isinstance(value, Mapping) else None
    return isinstance(page, Mapping) and bool(page.get("nextCursor"))


def _read_content(name: str) -> bytes:
    try:
        with open_regular(name) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{name!r} cannot be read: {why}") from None
    if len(content) > MAX_FILE_BYTES:
        raise InputError(f"{name} has more than {MAX_FILE_BYTES:,} bytes: split it")
    return content


def _parse(content: bytes, name: str) -> Any:
    try:
        text = content.decode("utf-8-sig")
        return json.loads(text, parse_int=_parse_integer)
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 (byte {error.start}): save it as UTF-8") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{error.lineno}:{error.colno} is not JSON: {error.msg}; use {FORMS}") from None
    except RecursionError:
        pass
    try:
        return json.loads(_cut_nesting(text), parse_int=_parse_integer)
    except json.JSONDecodeError:
        raise InputError(f"{name} is nested too deeply and is not JSON: remove the deep part") from None


def _cut_nesting(text: str) -> str:
    """Cut values that are nested too deeply for Python.

    The rest is still nested more deeply than the catalog accepts, so that only the tool in question is rejected.
    """
    kept: list[str] = []
    depth = start = 0
    for found in _NESTING.finditer(text):
        sign = found[0]
        if sign in "[{":
            depth += 1
            if depth == MAX_READ_DEPTH + 1:
                kept.append(text[start : found.start()])
        elif sign in "]}":
            if depth == MAX_READ_DEPTH + 1:
                kept.append("null")
                start = found.end()
            depth -= 1
    return "".join([*kept, text[start:] if depth <= MAX_READ_DEPTH else ""])


def _parse_integer(digits: str) -> float:
    """Return an integer, or NaN for one that Python cannot read, so that only its tool is rejected and not the file."""
    return int(digits) if len(digits) <= MAX_DIGITS else float("nan")


def _find_list(value: Any) -> tuple[list[Any] | None, str]:
    """Return the array of tools and the server that all of them belong to."""
    if isinstance(value, Mapping) and isinstance(value.get("result"), Mapping):  # a whole JSON-RPC response
        value = value["result"]
    if isinstance(value, Mapping):
        server = value.get("server")
        value, server = value.get("tools"), server if isinstance(server, str) else ""
    else:
        server = ""
    return (value if isinstance(value, list) else None), server


def _walk_entries(
    listed: list[Any], server: str, before: str = "", left: int = MAX_NESTED
) -> Iterator[tuple[str, Any, str]]:
    """Yield each entry with its position and server. A namespace counts as a server with that name."""
    for number, entry in enumerate(listed, 1):
        place = f"{before}{number}"
        if isinstance(entry, Mapping) and isinstance(entry.get("tools"), list) and left:
            name = entry.get("name") or entry.get("server")
            yield from _walk_entries(entry["tools"], name if isinstance(name, str) else server, f"{place}.", left - 1)
        else:
            yield place, entry, server


def _read_tool(entry: Any, server: str) -> CatalogTool | str:
    """Return the tool that an entry describes, or what is wrong with the entry."""
    if not isinstance(entry, Mapping):
        return f"is {type(entry).__name__}, not an object"
    for kind in ("function", "custom"):  # in OpenAI's chat completions
        if isinstance(entry.get(kind), Mapping):
            entry = {**entry, **entry[kind]}
    if not isinstance(entry.get("name"), str) or not entry["name"]:
        kind = entry.get("type")
        is_built_in = isinstance(kind, str) and kind not in ("", "function", "custom")
        return f"is {kind[:60]!r}, which the provider defines and runs" if is_built_in else "has no name"
    annotations = entry.get("annotations")
    claims = annotations if isinstance(annotations, Mapping) else {}
    label = entry.get("label") or entry.get("title") or claims.get("title") or ""
    own_server = entry.get("server") or server
    hints = entry.get("hints") or ()
    return CatalogTool(
        entry["name"],
        entry.get("description") or "",
        _complete_schema(next((entry[key] for key in _SCHEMAS if entry.get(key)), {})),
        entry.get("source") or ("mcp" if own_server or "inputSchema" in entry else "builtin"),
        own_server if isinstance(own_server, str) else "",
        label if isinstance(label, str) else "",
        entry.get("summary") or "",
        tuple(hints) if isinstance(hints, list | tuple) else (),
        entry.get("output_schema") or entry.get("outputSchema") or {},
        claims,
    )


def _complete_schema(schema: Any) -> Any:
    """Return a JSON Schema unchanged, or make one from a plain mapping of arguments to their schemas."""
    if not isinstance(schema, Mapping) or not schema or "properties" in schema:
        return schema
    is_bare = all(isinstance(part, Mapping) for part in schema.values())  # in a schema, "type" is a string
    return {"type": "object", "properties": dict(schema)} if is_bare else schema


def open_catalog(files: Sequence[str], embedder: Embedder | str | None = None) -> tuple[Catalog, list[str]]:
    """Return a catalog of the tools in some files, and the problems of what cannot be used.

    With several files, each stands for the server of its tools without one, so that no tool replaces that of another.
    """
    read = {file: read_catalog(file) for file in files}
    available, reason = choose_embedder(embedder)
    if embedder not in (None, "none", "auto") and available is None:
        raise EmbedderError(reason or "the embedder is not available")
    catalog = Catalog(embedder=available)
    problems = []
    stems = [os.path.splitext(os.path.basename(file))[0] for file in read]
    for (file, (tools, unread)), stem in zip(read.items(), stems, strict=True):
        server = "" if len(read) == 1 else stem if stems.count(stem) == 1 else os.path.splitext(file)[0]
        added = catalog.add([tool if tool.server else tool._replace(server=server) for tool in tools])
        problems += [*unread, *(f"{file}: {reason}" for _, reason in added.refused)]
    return catalog, problems
