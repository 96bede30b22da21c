"""Serve all upstream servers through four fixed tools.

How much of a tool's answer goes into a prompt at once? So many bytes; the rest is read on with a handle.

Texts are cut between characters, and have so many bytes together; so have pictures and all else that cannot be cut,
which is left out whole where there is more. A handle cannot be guessed and stands for what is left of one answer; it is
forgotten when it is old or when newer answers need the room.
What should a model change in a call that a server refused? Of tools behind us it has seen a signature at most.

The server decides what it takes; this only explains a refusal, where the arguments do not fit what it says it takes.
Which tools does a gateway have itself? Those that find, describe and call all the others, and read on.

Their words and schemas; what becomes of a call is the gateway's matter.
What does a client see of all the servers behind us? Three tools that find, describe and call all the others.

`tools/list` is the same bytes before and after every search: what a search finds is called through `call_tool`, or by
its own name. Clients of 2025-11-25 may instead have what they found added to the list, with a notification. Resources
and prompts of all servers are listed under names of their own. Ranking is the catalog's; nothing here decides it.
"""

import json
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from secrets import token_urlsafe
from typing import Any, Self

import anyio
import mcp_types as types
from mcp import MCPError

from onhand.errors import InputError, NotFound, OnhandError, ToolError
from onhand.mcp import upstream_skills
from onhand.mcp.client_callbacks import is_modern
from onhand.mcp.client_sessions import Front
from onhand.mcp.sanitize import clean, clean_json
from onhand.mcp.surface import Method, RequestContext, Surface, page
from onhand.mcp.upstream_catalog import Relevant, catalog_tool, tool_for_era
from onhand.mcp.upstream_routes import public_address, public_name
from onhand.mcp.upstreams import Upstreams
from onhand.record import Record, to_json
from onhand.text import repair_surrogates
from onhand.tools.arguments import ToolArguments
from onhand.tools.catalog import ToolSearchResult, UnknownName
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import plain_line, render_definition, render_signature
from onhand.tools.schema import answer_schema
from onhand.tools.search_tools import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    FoundTool,
    ToolDefinition,
    covers_all_servers,
    define_tool,
    render_unknown,
    search_answer,
)
from onhand.tools.tool import Tool

MAX_KEPT_BYTES = 64 * 1024 * 1024
MAX_AGE_S = 3600.0
READ_TOOL = "read_on"


class Outputs:
    """What is left of answers that were cut."""

    def __init__(self, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._kept: OrderedDict[str, tuple[float, int, bytes]] = OrderedDict()  # handle → when, bytes at once, rest

    def capped(self, result: types.CallToolResult, max_bytes: int, is_checked: bool = False) -> types.CallToolResult:
        """The result within so many bytes of text; `is_checked` where a client checks the structured content."""
        if len(result.model_dump_json()) <= max_bytes:  # in most cases; never fewer than the bytes of its texts
            return result
        left, room, content, rest = max_bytes, max_bytes, [], b""
        left_out: list[tuple[str, int]] = []
        for block in result.content:
            text = _text_of(block)
            raw = b"" if text is None else repair_surrogates(text).encode()
            if text is None:
                size = len(block.model_dump_json())
                if size <= room:
                    content.append(block)
                    room -= size
                else:
                    left_out.append((block.type, size))
            elif len(raw) <= left and not rest:
                content.append(block)
                left -= len(raw)
            else:
                kept = raw[:left].decode(errors="ignore") if not rest else ""
                rest += raw[len(kept.encode()) :] + b"\n"
                left = 0
                content += [_with_text(block, kept)] if kept else []
        structured, note = self._structured(result, max_bytes)
        if left_out:
            note += _named(left_out)
        if rest:
            handle = self._keep(rest, max_bytes)
            note += f'[{len(rest):,} more bytes: {READ_TOOL}(handle="{handle}") reads on]'
        if note:
            content.append(types.TextContent(text=note))
        is_error = result.is_error or (is_checked and structured is None and result.structured_content is not None)
        return result.model_copy(update={"content": content, "structured_content": structured, "is_error": is_error})

    def read(self, handle: str) -> str:
        """What comes next of an answer that was cut; each part has a handle of its own for what follows."""
        self._forget_old()
        if handle not in self._kept:
            raise ToolError("this handle is not known any more: call the tool again, and ask it for less")
        _, at_once, raw = self._kept[handle]
        text = raw[:at_once].decode(errors="ignore")
        rest = raw[len(text.encode()) :]
        if not rest:
            return text
        return f'{text}\n\n[{len(rest):,} more bytes: {READ_TOOL}(handle="{self._keep(rest, at_once)}") reads on]'

    def _structured(self, result: types.CallToolResult, max_bytes: int) -> tuple[Any, str]:
        size = len(json.dumps(result.structured_content, ensure_ascii=False).encode(errors="replace"))
        if result.structured_content is None or size <= max_bytes:
            return result.structured_content, ""
        return None, f"[structured content left out: {size:,} bytes, more than {max_bytes:,}] "

    def _keep(self, rest: bytes, at_once: int) -> str:
        self._forget_old()
        handle = token_urlsafe(18)
        self._kept[handle] = (anyio.current_time(), at_once, rest)
        while sum(len(raw) for _, _, raw in self._kept.values()) > self._max_kept_bytes:
            self._kept.popitem(last=False)
        return handle

    def _forget_old(self) -> None:
        oldest = anyio.current_time() - MAX_AGE_S
        while self._kept and next(iter(self._kept.values()))[0] < oldest:
            self._kept.popitem(last=False)


def _text_of(block: Any) -> str | None:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.EmbeddedResource) and isinstance(block.resource, types.TextResourceContents):
        return block.resource.text
    return None


def _with_text(block: Any, text: str) -> Any:
    if isinstance(block, types.TextContent):
        return block.model_copy(update={"text": text})
    return block.model_copy(update={"resource": block.resource.model_copy(update={"text": text})})


def _named(left_out: list[tuple[str, int]]) -> str:
    kinds = ", ".join(f"{count} × {kind}" for kind, count in Counter(kind for kind, _ in left_out).items())
    return f"[{kinds} left out: {sum(size for _, size in left_out):,} bytes; ask the tool for less] "


def explained(result: types.CallToolResult, tool: CatalogTool, arguments: Mapping[str, Any]) -> types.CallToolResult:
    """A result as it is; where it is an error and the arguments do not fit, with what is wrong and the definition."""
    wrong = _wrong(tool, arguments) if result.is_error else ""
    if not wrong:
        return result
    advice = f"{wrong}\nthe whole definition: {render_definition(tool).rstrip()}"
    return result.model_copy(update={"content": [*result.content, types.TextContent(text=advice)]})


def _wrong(tool: CatalogTool, arguments: Mapping[str, Any]) -> str:
    try:
        ToolArguments(Tool(tool.name, tool.description, dict(tool.input_schema), _never)).read(arguments)
    except ToolError as error:
        return str(error)
    except InputError:  # a schema that nobody can check
        pass
    return ""


def _never(_: dict[str, Any]) -> str:
    raise AssertionError("it is only checked here")


MAX_NAMED_SERVERS = 40

SEARCH = (
    "Find tools by what they do. Say what you want to do, in a few words; or select:NAME,NAME by name, +word in front "
    "of what the name must have, server:NAME in front of words to stay with one server, re:PATTERN for names. A query "
    "that fits nothing finds nothing. Then call what was found with call_tool. One search is local and costs some 250 "
    'tokens. Example: search_tools(query="create a pull request").'
)
DESCRIBE = (
    "Give the whole definition of one tool, with every argument's description. Only for a tool whose one-line "
    'signature is not enough. Example: describe_tool(name="github__create_issue").'
)
CALL = (
    "Call a tool that search_tools found, by its whole name, with its arguments as an object. Example: "
    'call_tool(name="github__create_issue", arguments={"title": "…"}).'
)
READ = 'Read on where a long answer was cut. Example: read_on(handle="…").'


class GatewaySearchAnswer(Record):
    """The answer of `search_tools`: also addresses of resources and names of prompts."""

    query: str
    form: str
    hits: tuple[FoundTool, ...]
    total_tools: int
    reason: str | None = None
    unknown: tuple[UnknownName, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: int = 0
    resources: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()


def fixed_tools(keys: tuple[str, ...]) -> list[types.Tool]:
    """The tools that find and call others: the same bytes for as long as the configuration is."""
    named = f" Servers: {', '.join(keys[:MAX_NAMED_SERVERS])}." if keys else ""
    name = {"type": "string", "description": "The whole name of the tool."}
    limit = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": f"{DEFAULT_LIMIT} if left out."}
    query = {"type": "string", "description": "What you want to do, or select:NAME,NAME."}
    arguments = {"type": "object", "description": "The tool's arguments."}
    handle = {"type": "string", "description": "What the cut answer names."}
    reads = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    acts = types.ToolAnnotations(  # what it calls may do anything, and answer in any form
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
    )
    return [
        types.Tool(name="search_tools", description=SEARCH + named, annotations=reads,
                   input_schema=_object({"query": query, "limit": limit}, "query"),
                   output_schema=answer_schema(GatewaySearchAnswer)),
        types.Tool(name="describe_tool", description=DESCRIBE, annotations=reads,
                   input_schema=_object({"name": name}, "name"), output_schema=answer_schema(ToolDefinition)),
        types.Tool(name="call_tool", description=CALL, annotations=acts,
                   input_schema=_object({"name": name, "arguments": arguments}, "name")),
        types.Tool(name=READ_TOOL, description=READ, annotations=reads,
                   input_schema=_object({"handle": handle}, "handle")),
    ]  # fmt: skip


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TTL_MS = 60_000  # of lists that change only when a server's do
DESCRIPTION_CHARS = 120
MAX_NAMED_PROBLEMS = 5
OTHER_LIMIT = 3  # resources and prompts that a search shows


class Gateway(Front):
    """The servers behind us, and our own surface beside them, as one server's offer."""

    name = "onhand"

    def __init__(self, registry: Upstreams, own: Surface | None = None) -> None:
        super().__init__(registry)
        self._own = own
        self._outputs = Outputs()
        self._own_tools: dict[str, types.Tool] | None = None
        self._fixed = {tool.name: tool for tool in fixed_tools(registry.keys)}
        self.instructions = _instructions(registry.keys, own)

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """All that a server behind us may have, and the extensions of our own surface."""
        extensions = self._own.capabilities.extensions if self._own else None
        return super().capabilities.model_copy(update={"extensions": extensions})

    @property
    def methods(self) -> Mapping[str, Method]:
        """Those of our own surface; where they are about skills, those of the servers are there too."""
        return upstream_skills.add_upstream_skills(self, self._own.methods) if self._own else {}

    def input_schema(self, tool: str) -> Mapping[str, Any] | None:
        """Of one of our own tools; of others, their servers check it."""
        if tool in self._fixed:
            return self._fixed[tool].input_schema
        return self._own.input_schema(tool) if self._own else None

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self._own is not None:
            await self._life.enter_async_context(self._own)
        return self

    def lists_their_tools(self) -> bool:
        """Only those that are always in our list."""
        return any(self.registry.server(key).always for key in self.registry.keys)

    async def list_tools(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Our own tools, those that find and call the others, and those that are always there."""
        self.meet(ctx)
        own = await self._own_tools_of(ctx)
        listed = {**own, **self._fixed, **self._always()}
        shown = [tool_for_era(tool, is_modern(ctx.protocol_version)) for tool in listed.values()]
        tools, following = page(shown, params.cursor if params else None, size=500)
        return types.ListToolsResult(tools=tools, next_cursor=following, ttl_ms=TTL_MS, cache_scope="private")

    async def call_tool(
        self, ctx: "RequestContext", params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """What a tool answers: one of ours, or one of a server behind us by its name."""
        self.meet(ctx)
        if params.name not in self._fixed:
            return await self._called(ctx, params.name, params.arguments, params, is_direct=True)
        arguments = params.arguments or {}
        try:
            match params.name:
                case "search_tools":
                    return await self._search(ctx, arguments)
                case "describe_tool":
                    name = _text(arguments, "name")
                    await self.registry.wait_until_listed(name)
                    return self._describe(name)
                case "call_tool":
                    return await self._called(ctx, _text(arguments, "name"), _arguments(arguments), params)
                case _:
                    return _said(self._outputs.read(_text(arguments, "handle")))
        except (InputError, ToolError) as error:
            return _failed(error)

    async def _called(
        self,
        ctx: "RequestContext",
        name: str,
        arguments: Any,
        params: types.CallToolRequestParams,
        is_direct: bool = False,
    ) -> types.CallToolResult | types.InputRequiredResult:
        own = await self._own_tools_of(ctx)
        if name in own and self._own is not None:
            return await self._own.call_tool(ctx, params.model_copy(update={"name": name, "arguments": arguments}))
        if name in self._fixed:
            raise ToolError(f"{name} is called by itself, not with call_tool")
        try:
            await self.registry.wait_until_listed(name)
            route = self.registry.route(name)
            result = await self.registry.execute(name, arguments, ctx, params)
        except MCPError as error:
            if is_direct or error.code != types.INVALID_PARAMS:
                raise
            result = _failed(error)
        except OnhandError as error:
            return _failed(error)
        if isinstance(result, types.InputRequiredResult):
            return result
        if not is_direct:  # by its route: not all that can be called can be found
            result = explained(result, catalog_tool(route.tool, route.key), arguments)
        checked = is_direct and route.tool.output_schema is not None
        return self._outputs.capped(result, self.registry.server(route.key).max_output_bytes, checked)

    async def _search(self, ctx: "RequestContext", arguments: Mapping[str, Any]) -> types.CallToolResult:
        await self._own_tools_of(ctx)
        query = _text(arguments, "query").strip()
        if not query:
            raise ToolError("query is empty: say what the tool should do, or select:NAME")
        limit = arguments.get("limit", DEFAULT_LIMIT)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= MAX_LIMIT:
            raise ToolError(f"limit is a whole number from 1 to {MAX_LIMIT}")
        await self.registry.wait_until_listed()
        relevant = self.registry.discover_relevant(query, limit)
        absent = self._absent(relevant.tools)
        relevant = relevant._replace(tools=relevant.tools._replace(notes=(*relevant.tools.notes, *absent)))
        return types.CallToolResult(
            content=[types.TextContent(text=self._answer(relevant))],
            structured_content={
                **clean_json(to_json(search_answer(relevant.tools, 300))),
                "resources": [_address_of(hit.document_id) for hit in relevant.resources[:OTHER_LIMIT]],
                "prompts": [_address_of(hit.document_id) for hit in relevant.prompts[:OTHER_LIMIT]],
            },
        )

    def _answer(self, relevant: Relevant) -> str:
        """What the model reads of a search: everything that a stranger wrote stands on one line."""
        found = relevant.tools
        lines = []
        if found.hits:
            lines.append(f"Found {len(found.hits)} of {found.total_tools:,}; call them with call_tool:")
            lines += [_line(hit.tool) for hit in found.hits]
            lines += self._down(dict.fromkeys(hit.tool.server for hit in found.hits))
        lines += render_unknown(found)
        lines += [f"Note: {plain_line(note, 300)}." for note in found.notes]
        for kind, hits in (("Resource", relevant.resources), ("Prompt", relevant.prompts)):
            lines += [
                f"{kind}: {plain_line(_address_of(hit.document_id), 200)} ({plain_line(hit.title, 80)})"
                for hit in hits[:OTHER_LIMIT]
            ]
        if not found.hits:
            lines.insert(
                0, f"No tool found for {plain_line(found.query, 200)!r}: {plain_line(found.reason or '', 300)}."
            )
            lines += self._what_there_is()
        return "\n".join(lines)

    def _absent(self, found: ToolSearchResult) -> list[str]:
        """Where nobody could look, for whoever found something: a miss tells of all servers."""
        if not found.hits or not covers_all_servers(found):
            return []
        pending, down = self.registry.pending(), self.registry.unreachable()
        silent = (("still connecting, so search again later for theirs", pending), ("down, so not searched", down))
        return [f"{words}: {', '.join(keys[:MAX_NAMED_SERVERS])}" for words, keys in silent if keys]

    def _down(self, keys: Iterable[str]) -> list[str]:
        """Of whom only an earlier list is known, since they cannot be reached."""
        states = {key: self.registry.client(key).status for key in keys if key in self.registry.keys}
        return [
            f"{key} is down, and its tools are as it listed them last: {plain_line(status.detail, 160)}."
            for key, status in states.items()
            if status.state == "down"
        ]

    def _what_there_is(self) -> list[str]:
        states: dict[str, list[str]] = {"connecting": [], "down": [], "ready": [], "idle": []}
        held = 0
        for one in self.registry.status():
            shown = f"{one.key} ({one.tools:,} tool{'s' * (one.tools > 1)})" if one.tools else one.key
            detail = f": {plain_line(one.status.detail, 160)}" if one.status.state == "down" else ""
            states[one.status.state].append(shown + detail)
            held += one.blocked
        words = {"ready": "Servers", "idle": "Not connected yet", "connecting": "Still connecting", "down": "Down"}
        lines = [
            f"{word}: {'; '.join(states[state][:MAX_NAMED_SERVERS])}." for state, word in words.items() if states[state]
        ]
        lines += self._not_used()
        waits = "1 tool waits" if held == 1 else f"{held} tools wait"
        return [*lines, f"{waits} for a person's approval."] if held else lines

    def _not_used(self) -> list[str]:
        """What servers listed in vain: whoever looks for it should know that it will not be found."""
        told = [f"{one.key}: {plain_line(problem, 200)}" for one in self.registry.status() for problem in one.problems]
        more = f"; and {len(told) - MAX_NAMED_PROBLEMS:,} more" if len(told) > MAX_NAMED_PROBLEMS else ""
        return [f"Not usable: {'; '.join(told[:MAX_NAMED_PROBLEMS])}{more}."] if told else []

    def _describe(self, name: str) -> types.CallToolResult:
        try:
            tool = self.registry.catalog.get(name)
        except NotFound:
            self.registry.route(name)  # it may be held, which is another answer
            raise
        if tool.name not in (self._own_tools or ()):
            self.registry.route(tool.name)
        definition = clean_json(to_json(define_tool(tool)))
        text = render_definition(tool).rstrip()
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=definition)

    async def list_resources(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Our own resources, then those of the servers, under addresses that say whose they are."""
        self.meet(ctx)
        items = await self._own_items(ctx, "list_resources", "resources")
        for key in self.registry.keys:
            items += [_renamed(types.Resource, one, "uri", key) for one in self.registry.listing(key).resources]
        shown, following = page(items, params.cursor if params else None)
        return types.ListResourcesResult(resources=shown, next_cursor=following, ttl_ms=0, cache_scope="private")

    async def list_resource_templates(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """The same of forms of addresses."""
        self.meet(ctx)
        items = await self._own_items(ctx, "list_resource_templates", "resource_templates")
        for key in self.registry.keys:
            listed = self.registry.listing(key).templates
            items += [_renamed(types.ResourceTemplate, one, "uriTemplate", key) for one in listed]
        shown, following = page(items, params.cursor if params else None)
        return types.ListResourceTemplatesResult(
            resource_templates=shown, next_cursor=following, ttl_ms=0, cache_scope="private"
        )

    async def read_resource(
        self, ctx: "RequestContext", params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """What is at an address of a server, or at one of our own."""
        self.meet(ctx)
        try:
            key, _ = self.registry.owner(params.uri)
        except InputError:
            if self._own is None:
                raise
            return await self._own.read_resource(ctx, params)
        result = await self.registry.read(params.uri, ctx, params)
        if isinstance(result, types.InputRequiredResult):
            return result
        contents = [one.model_copy(update={"uri": public_address(key, str(one.uri))}) for one in result.contents]
        return result.model_copy(update={"contents": contents})

    async def list_prompts(
        self, ctx: "RequestContext", params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Our own prompts, then those of the servers."""
        self.meet(ctx)
        items = await self._own_items(ctx, "list_prompts", "prompts")
        for key in self.registry.keys:
            for one in self.registry.listing(key).prompts:
                with suppress(InputError):
                    shown = {**clean_json(one), "name": public_name(key, one["name"])}
                    items.append(types.Prompt.model_validate(shown))
        on_page, following = page(items, params.cursor if params else None)
        return types.ListPromptsResult(prompts=on_page, next_cursor=following, ttl_ms=0, cache_scope="private")

    async def get_prompt(
        self, ctx: "RequestContext", params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """A prompt of a server, or one of our own."""
        self.meet(ctx)
        try:
            self.registry.prompt(params.name)
        except InputError:
            if self._own is None:
                raise
            return await self._own.get_prompt(ctx, params)
        return await self.registry.get(params.name, params.arguments, ctx, params)

    async def completion(self, ctx: "RequestContext", params: types.CompleteRequestParams) -> types.CompleteResult:
        """How an argument of a prompt or template may go on."""
        self.meet(ctx)
        try:
            if isinstance(params.ref, types.PromptReference):
                key, own = self.registry.prompt(params.ref.name)
                ref: Any = params.ref.model_copy(update={"name": own})
            else:
                key, own = self.registry.owner(params.ref.uri)
                ref = params.ref.model_copy(update={"uri": own})
        except InputError:
            if self._own is None:
                raise
            return await self._own.completion(ctx, params)
        return await self.registry.complete(key, ctx, params.model_copy(update={"ref": ref}))

    async def _own_tools_of(self, ctx: "RequestContext") -> dict[str, types.Tool]:
        """Our own surface's tools, which never change while we run; they can be found like all others."""
        if self._own_tools is None:
            tools: dict[str, types.Tool] = {}
            if self._own is not None:
                listed = await self._own.list_tools(ctx, None)
                tools = {tool.name: tool for tool in listed.tools if tool.name not in self._fixed}
                self.registry.catalog.add(map(catalog_tool, tools.values()))
            self._own_tools = tools
        return self._own_tools

    async def _own_items(self, ctx: "RequestContext", method: str, field: str) -> list[Any]:
        """All pages of our own surface's list."""
        items: list[Any] = []
        cursor = None
        while self._own is not None:
            listed = await getattr(self._own, method)(ctx, types.PaginatedRequestParams(cursor=cursor))
            items += getattr(listed, field)
            cursor = listed.next_cursor
            if cursor is None:
                break
        return items

    def _always(self) -> dict[str, types.Tool]:
        wanted = {(key, own) for key in self.registry.keys for own in self.registry.server(key).always}
        routes = self.registry.routes() if wanted else ()
        shown = {
            route.tool.name: route.tool
            for route in routes
            if (route.key, route.upstream_name) in wanted and not route.blocked
        }
        return {name: tool for name, tool in shown.items() if name not in self._fixed}


def _instructions(keys: tuple[str, ...], own: Surface | None) -> str | None:
    """What a model is told of us: what we have ourselves, and whose tools can be found."""
    told = (
        f"Tools of {', '.join(keys[:MAX_NAMED_SERVERS])} are not listed: find them with search_tools, then call them "
        "with call_tool."
        if keys
        else ""
    )
    return " ".join(filter(None, [own.instructions if own else "", told])) or None


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise ToolError(f"{name} is missing: give it as a text")
    return repair_surrogates(value)


def _arguments(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments for the tool. Some models write them as a text of JSON, or beside the name instead of inside."""
    arguments = given.get("arguments")
    if arguments is None:
        return {key: value for key, value in given.items() if key not in ("name", "arguments")}
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    if not isinstance(arguments, Mapping):
        raise ToolError('arguments is an object, such as {"title": "…"}')
    return arguments


def _line(tool: CatalogTool) -> str:
    said = plain_line(tool.description or tool.summary, DESCRIPTION_CHARS)
    return f"{render_signature(tool)}: {said}" if said else render_signature(tool)


def _address_of(document_id: str) -> str:
    return document_id.partition(":")[2]


def _renamed(kind: Any, item: Mapping[str, Any], field: str, key: str) -> Any:
    shown = {name: value for name, value in clean_json(item).items() if name != "icons"}
    return kind.model_validate({**shown, field: public_address(key, item[field])})


def _said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=clean(text))])


def _failed(error: OnhandError | MCPError) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=repair_surrogates(str(error)))], is_error=True)
