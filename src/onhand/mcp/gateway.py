"""Serve all upstream servers through a few tools that never change.

`tools/list` has the same bytes before and after every search: what a search finds is called through the call tool for
its kind, or by its own name. Resources and prompts of all servers are listed under names that say whose they are. A
long result is cut, and the rest can be read with a handle. Ranking is the catalog's; nothing here decides it.
"""

import json
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from secrets import token_urlsafe
from typing import Any, NamedTuple, Self

import anyio
import mcp_types as types
from mcp import MCPError

from onhand.errors import InputError, NotFound, OnhandError, ToolError
from onhand.hidden_characters import repair_surrogates
from onhand.mcp import upstream_skills
from onhand.mcp.client_callbacks import is_modern, shows_apps
from onhand.mcp.client_sessions import ProxySurface
from onhand.mcp.local import ALWAYS_LOAD, LocalSurface, describe_tool, run_in_thread, to_call_result
from onhand.mcp.permissions import CALL_TOOLS, check_call_tool, kind_of
from onhand.mcp.profiles import Problems
from onhand.mcp.surface import Method, RequestContext, page, sanitize_message
from onhand.mcp.tool_settings import DESTRUCTIVE, READ, WRITE
from onhand.mcp.upstream_catalog import Relevant, catalog_tool, tool_for_era
from onhand.mcp.upstream_routes import (
    SEPARATOR,
    Route,
    annotations_of,
    is_for_models,
    only_for_models,
    public_address,
    public_name,
    with_public_app,
)
from onhand.mcp.upstreams import Upstreams
from onhand.record import Record
from onhand.text import quantity
from onhand.tools import Call, Output, Registry, Tool, tool
from onhand.tools.arguments import ToolArguments
from onhand.tools.catalog import ToolSearchResult, UnknownName
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.prompt import plain_line, render_definition
from onhand.tools.search_tools import (
    DEFAULT_LIMIT,
    MAX_DESCRIPTION_CHARS,
    FoundTool,
    ToolDefinition,
    covers_all_servers,
    define_tool,
    make_describe_tool,
    make_search_tool,
    render_notes,
    render_tool_line,
    render_unknown,
    search_answer,
)
from onhand.tools.tool import LOCAL, Hints

CallResult = types.CallToolResult | types.InputRequiredResult

READ_ON = "read_on"
CALL = {
    READ: (
        "Call a tool that search_tools found and that only reads, by its full name and with its arguments as an "
        'object. Example: call_tool(name="github__get_issue", arguments={"number": 7}).'
    ),
    WRITE: "Like call_tool, for tools that change something but delete and overwrite nothing.",
    DESTRUCTIVE: "Like call_tool, for tools that may delete or overwrite something.",
}
READ_NEXT = (
    'Read the next part of a result that was cut off, by the handle in its last line. Example: read_on(handle="…").'
)

MAX_KEPT_BYTES = 64 * 1024 * 1024  # of all results that were cut off
MAX_AGE_S = 3600.0  # of what is left of a result
TTL_MS = 60_000  # of the list of tools, which changes only when a server's list does
MAX_REST_NOTE_CHARS = 1_000  # more than the line that says how to read on
TOOLS_PER_PAGE = 500
MAX_NAMED_SERVERS = 40
SEARCH_AGAIN = "search again in a few seconds"
NOTHING_LISTED = "no server has listed its tools yet"
NO_TOOLS = "there are no tools here"
MAX_NAMED_PROBLEMS = 5
OTHER_LIMIT = 3  # resources and prompts in the answer of a search


class GatewaySearchAnswer(Record):
    """The answer of the gateway's `search_tools`: also addresses of resources, names of prompts, and how to call."""

    query: str
    form: str
    hits: tuple[FoundTool, ...]
    total_tools: int
    reason: str | None = None
    unknown: tuple[UnknownName, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: int = 0
    weak: bool = False
    resources: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    call_with: Mapping[str, str] = {}  # name of a tool → that of the tool to call it with


class _Request(NamedTuple):
    ctx: RequestContext
    params: types.CallToolRequestParams
    kind: str  # that its call tool is for


_REQUEST: ContextVar[_Request] = ContextVar("request")  # on whose behalf a call tool runs
_IS_STRUCTURED: ContextVar[bool] = ContextVar("is_structured", default=True)  # whether JSON of a search will be sent


class GatewayTools:
    """The tools of a gateway; their definitions depend on the configuration alone."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._upstreams = gateway.upstreams
        keys = self._upstreams.keys[:MAX_NAMED_SERVERS]
        self.search_tools = make_search_tool(
            self.search,
            what_next="The answer says how to call them.",
            about=f"Servers: {', '.join(keys)}." if keys else "",
        )
        self.describe_tool = make_describe_tool(self.describe, example="github__create_issue")
        self.call_tools = {name: self._make_call_tool(name, kind) for kind, name in CALL_TOOLS.items()}
        self.read_on = tool(
            self.read,
            name=READ_ON,
            description=READ_NEXT,
            read_only=True,
            reads=[],
            max_output_bytes=MAX_KEPT_BYTES,  # a part is as long as the configuration of its server says
            hints=LOCAL,
        )

    def _make_call_tool(self, name: str, kind: str) -> Tool:
        return tool(
            self.call,
            name=name,
            description=CALL[kind],
            read_only=kind == READ,
            reads=[] if kind == READ else None,
            hints=Hints(destructive=kind == DESTRUCTIVE),
            timeout_s=None,  # every server has its own limit
        )

    async def search(self, query: str, limit: int = DEFAULT_LIMIT) -> Output[GatewaySearchAnswer]:
        """Find tools, resources and prompts."""
        if not query.strip():
            raise ToolError("query is empty. Say what the tool should do, or use select:NAME.")
        await self._upstreams.wait_until_listed()
        relevant = self._upstreams.discover_relevant(query.strip(), limit)
        found = relevant.tools._replace(notes=(*relevant.tools.notes, *self._unsearched_servers(relevant.tools)))
        text = self._render_search(found, relevant)
        if not _IS_STRUCTURED.get():
            return Output(text)
        answer = GatewaySearchAnswer(
            *search_answer(found, MAX_DESCRIPTION_CHARS),
            tuple(_address_of(hit.document_id) for hit in relevant.resources[:OTHER_LIMIT]),
            tuple(_address_of(hit.document_id) for hit in relevant.prompts[:OTHER_LIMIT]),
            {hit.name: _call_tool_of(hit.tool) for hit in found.hits},
        )
        return Output(text, answer)

    async def describe(self, name: str) -> Output[ToolDefinition]:
        """Return the full definition of a tool."""
        await self._upstreams.wait_until_listed(name)
        try:
            found = self._upstreams.catalog.get(name)
        except NotFound:
            self._upstreams.route(name)  # which says so if it is pending approval
            raise
        if found.server:
            self._upstreams.route(found.name)
        how = f"Call it with {_call_tool_of(found)}"
        answer = define_tool(found)
        return Output(f"{render_definition(found)}{how}.", answer._replace(notes=(*answer.notes, how)))

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> CallResult:
        """Call a tool for the client of the current request; its result passes unchanged."""
        ctx, params, kind = _REQUEST.get()
        if name in self._gateway.tools:
            raise ToolError(f"{name} cannot be called with {CALL_TOOLS[kind]}. Call it directly.")
        forwarded = params.model_copy(update={"name": name, "arguments": arguments})
        return await self._gateway.forward_call(ctx, forwarded, kind)

    async def read(self, handle: str) -> str:
        """Return the next part of a result that was cut off."""
        return self._gateway.outputs.read(handle)

    def _render_search(self, found: ToolSearchResult, relevant: Relevant) -> str:
        """Return what the model reads of a search; everything that a server wrote is on one line."""
        lines = []
        if found.hits:
            lines += self._render_hits(found)
            lines += self._servers_down(dict.fromkeys(hit.tool.server for hit in found.hits))
        else:
            none = NOTHING_LISTED if self._upstreams.pending() else NO_TOOLS
            reason = plain_line(found.reason or "", 300) if found.total_tools else none
            lines.append(f"Nothing found for {plain_line(found.query, 200)!r}: {reason}.")
        lines += render_unknown(found)
        lines += render_notes(found.notes)
        for kind, hits in (("Resource", relevant.resources), ("Prompt", relevant.prompts)):
            lines += [
                f"{kind}: {plain_line(_address_of(hit.document_id), 200)} ({plain_line(hit.title, 80)})"
                for hit in hits[:OTHER_LIMIT]
            ]
        return "\n".join(lines if found.hits else [*lines, *self._server_overview()])

    def _render_hits(self, found: ToolSearchResult) -> list[str]:
        """Return a line for each tool that was found, and how to call them."""
        start = f"Found {len(found.hits)} of {found.total_tools:,}"
        ways = [_call_tool_of(hit.tool) for hit in found.hits]
        lines = [render_tool_line(hit.tool) for hit in found.hits]
        if len(set(ways)) == 1:
            return [f"{start}; call them with {ways[0]}:", *lines]
        marked = [f"[{way}] {line}" for way, line in zip(ways, lines, strict=True)]
        return [f"{start}; call each with the tool in brackets:", *marked]

    def _unsearched_servers(self, found: ToolSearchResult) -> list[str]:
        """Name the servers that could not be searched, if something was found; a miss lists all servers anyway."""
        if not found.hits or not covers_all_servers(found):
            return []
        states = (
            (f"still connecting, so not searched; to include them, {SEARCH_AGAIN}", self._upstreams.pending()),
            ("down, so not searched", self._upstreams.unreachable()),
        )
        return [f"{words}: {', '.join(keys[:MAX_NAMED_SERVERS])}" for words, keys in states if keys]

    def _servers_down(self, keys: Iterable[str]) -> list[str]:
        """Name the servers that are down and whose tools are known from an earlier list."""
        states = {key: self._upstreams.client(key).status for key in keys if key in self._upstreams.keys}
        return [
            f"{key} is down; its tools are as it last listed them: {plain_line(status.detail, 160)}."
            for key, status in states.items()
            if status.state == "down"
        ]

    def _server_overview(self) -> list[str]:
        """Return what there is, for a model that found nothing."""
        servers = self._upstreams.status()
        lines = []
        words = {"ready": "Servers", "idle": "Not connected yet", "connecting": "Still connecting", "down": "Down"}
        for state, word in words.items():
            names = []
            for server in servers:
                if server.status.state == state:
                    count = f" ({quantity(server.tools, 'tool')})" if server.tools else ""
                    detail = f": {plain_line(server.status.detail, 160)}" if state == "down" else ""
                    names.append(server.key + count + detail)
            advice = f" To include them, {SEARCH_AGAIN}." if state == "connecting" else ""
            lines += [f"{word}: {'; '.join(names[:MAX_NAMED_SERVERS])}.{advice}"] if names else []
        problems = [plain_line(problem, 200) for problem in self._gateway.find_problems()]
        problems += [f"{server.key}: {plain_line(problem, 200)}" for server in servers for problem in server.problems]
        if problems:
            more = f"; and {len(problems) - MAX_NAMED_PROBLEMS:,} more" if len(problems) > MAX_NAMED_PROBLEMS else ""
            lines.append(f"Not usable: {'; '.join(problems[:MAX_NAMED_PROBLEMS])}{more}.")
        disabled, blocked = (sum(getattr(one, state) for one in servers) for state in ("disabled", "blocked"))
        lines += [f"Disabled by the user: {quantity(disabled, 'tool')}."] if disabled else []
        return [*lines, f"Waiting for a person's approval: {quantity(blocked, 'tool')}."] if blocked else lines


class Gateway(ProxySurface):
    """All upstream servers, and the project itself beside them, as one server."""

    name = "onhand"

    def __init__(
        self,
        upstreams: Upstreams,
        local: LocalSurface | None = None,
        is_structured: bool = False,
        find_problems: Problems = lambda: (),
    ) -> None:
        """`find_problems` returns what is wrong with the profile that is served."""
        super().__init__(upstreams)
        self.find_problems = find_problems
        self._local = local
        self.is_structured = is_structured
        self.outputs = OutputPager()
        tools = GatewayTools(self)
        self.tools = Registry([tools.search_tools, tools.describe_tool, *tools.call_tools.values(), tools.read_on])
        self._call_arguments = {name: ToolArguments(tool) for name, tool in tools.call_tools.items()}
        self._kinds = {name: kind for kind, name in CALL_TOOLS.items()}
        if local is not None:
            self._index_local_tools()
            local.on_changed.append(self._index_local_tools)
        self.instructions = _instructions(upstreams.keys, local)

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """Everything that an upstream server may have, and the extensions of the project's own surface."""
        extensions = self._local.capabilities.extensions if self._local else None
        return super().capabilities.model_copy(update={"extensions": extensions})

    @property
    def methods(self) -> Mapping[str, Method]:
        """The methods of the project's own surface; those about skills include upstream skills."""
        return upstream_skills.add_upstream_skills(self, self._local.methods) if self._local else {}

    def input_schema(self, tool: str) -> Mapping[str, Any] | None:
        """Return the input schema of one of our own tools; upstream servers check theirs."""
        known = self.tools.get(tool)
        if known is not None:
            return known.input_schema
        return self._local.input_schema(tool) if self._local else None

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self._local is not None:
            await self._life.enter_async_context(self._local)
        return self

    def lists_upstream_tools(self) -> bool:
        """Whether some upstream tools are always in our list."""
        return any(self.upstreams.server(key).always for key in self.upstreams.keys)

    def listed_tools(self, is_structured: bool = False) -> list[types.Tool]:
        """Return what `tools/list` has, for clients that want JSON for programs or do not."""
        own = {tool.name: self._describe(tool, is_structured) for tool in self.tools}
        local = {tool.name: tool for tool in self._local.tools(is_structured)} if self._local else {}
        always = {tool.name: tool for tool in self._always_listed() if tool.name not in own}
        return list({**local, **own, **always}.values())

    async def list_tools(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Return the project's tools, the tools of the gateway, and upstream tools that are always listed."""
        self.register_client(ctx)
        if self._local is not None:
            await self._local.refresh()
        listed = self.listed_tools(self.sends_structured(params))
        if shows_apps(ctx):
            listed = [tool if SEPARATOR in tool.name else only_for_models(tool) for tool in listed]
        tools = [tool_for_era(tool, is_modern(ctx.protocol_version)) for tool in listed]
        on_page, cursor = page(tools, params, TOOLS_PER_PAGE)
        return types.ListToolsResult(tools=on_page, next_cursor=cursor, ttl_ms=TTL_MS, cache_scope="private")

    async def call_tool(self, ctx: RequestContext, params: types.CallToolRequestParams) -> CallResult:
        """Call a tool of the gateway, or a tool of the project or of an upstream server by its own name."""
        self.register_client(ctx)
        tool = self.tools.get(params.name)
        if tool is None:
            return await self.forward_call(ctx, params)
        if tool.name in self._kinds:
            # Not dispatched: a registry runs calls that may write one after another, and makes text of their results.
            token = _REQUEST.set(_Request(ctx, params, self._kinds[tool.name]))
            try:
                called: CallResult = await tool.handler(
                    self._call_arguments[tool.name].read(_collect_arguments(params.arguments or {}))
                )
                return called
            except (InputError, ToolError) as error:
                return _failure(error)
            finally:
                _REQUEST.reset(token)
        is_structured = self.sends_structured(params)
        setting = _IS_STRUCTURED.set(is_structured)
        try:
            (result,) = await self.tools.dispatch([Call(tool.name, params.arguments)])
        finally:
            _IS_STRUCTURED.reset(setting)
        return to_call_result(result, tool, ctx.protocol_version, is_structured)

    async def forward_call(
        self, ctx: RequestContext, params: types.CallToolRequestParams, kind: str = ""
    ) -> CallResult:
        """Call a tool of the project or of an upstream server.

        `kind` is that of the call tool that was used; it is empty if the client itself used the tool's name.
        """
        name, arguments, is_direct = params.name, params.arguments or {}, not kind
        local = await self._local.find_tool(name) if self._local is not None and SEPARATOR not in name else None
        if local is not None and self._local is not None:
            if kind:
                check_call_tool(name, local.annotations(), kind)
            return await self._local.call_tool(ctx, params)
        is_public = SEPARATOR in name
        if is_direct and not is_public:
            name = self.upstreams.find_app_tool(name)
        try:
            await self.upstreams.wait_until_listed(name)
            route = self.upstreams.route(name)
            if is_direct and is_public and shows_apps(ctx) and not self._is_always_listed(route):
                # A model calls what is listed. The interface of another server's app could call anything.
                raise ToolError(f"{name} is not listed. Call it with {CALL_TOOLS[route.kind]}.")
            if kind:
                if not is_for_models(route.tool):
                    raise ToolError(f"{name} is for the interface of an app, and not for a model.")
                check_call_tool(name, annotations_of(route.tool), kind)
            result = await self.upstreams.execute(name, arguments, ctx, params)
        except MCPError as error:
            if is_direct or error.code != types.INVALID_PARAMS:
                raise
            result = _failure(error)
        except OnhandError as error:
            return _failure(error)
        if isinstance(result, types.InputRequiredResult):
            return result
        result = sanitize_message(result)  # before it is measured
        if result.is_error and not is_direct:
            result = explain_refusal(result, catalog_tool(route.tool, route.key), arguments)
        is_checked = is_direct and route.tool.output_schema is not None
        return self.outputs.cut(result, self.upstreams.server(route.key).max_output_bytes, is_checked)

    async def list_resources(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Return the project's resources, then those of the servers, under addresses that say whose they are."""
        self.register_client(ctx)
        items = await run_in_thread(self._local.resources.all) if self._local else []
        for key in self.upstreams.keys:
            items += [_rename(types.Resource, one, "uri", key) for one in self.upstreams.listing(key).resources]
        on_page, cursor = page(items, params)
        return types.ListResourcesResult(resources=on_page, next_cursor=cursor, ttl_ms=0, cache_scope="private")

    async def list_resource_templates(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Return the URI templates of the project, then those of the servers."""
        self.register_client(ctx)
        items = await run_in_thread(self._local.resources.templates) if self._local else []
        for key in self.upstreams.keys:
            templates = self.upstreams.listing(key).templates
            items += [_rename(types.ResourceTemplate, one, "uriTemplate", key) for one in templates]
        on_page, cursor = page(items, params)
        return types.ListResourceTemplatesResult(
            resource_templates=on_page, next_cursor=cursor, ttl_ms=0, cache_scope="private"
        )

    async def read_resource(
        self, ctx: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """Return what is at an address of a server or of the project."""
        self.register_client(ctx)
        try:
            key, _ = self.upstreams.owner(params.uri)
        except InputError:
            if self._local is None:
                raise
            return await self._local.read_resource(ctx, params)
        result = await self.upstreams.read(params.uri, ctx, params)
        if isinstance(result, types.InputRequiredResult):
            return result
        contents = [one.model_copy(update={"uri": public_address(key, str(one.uri))}) for one in result.contents]
        return result.model_copy(update={"contents": contents})

    async def list_prompts(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Return the prompts of the project, then those of the servers."""
        self.register_client(ctx)
        items = self._local.prompts() if self._local else []
        for key in self.upstreams.keys:
            for one in self.upstreams.listing(key).prompts:
                with suppress(InputError):  # it has no usable name
                    items.append(types.Prompt.model_validate({**one, "name": public_name(key, one["name"])}))
        on_page, cursor = page(items, params)
        return types.ListPromptsResult(prompts=on_page, next_cursor=cursor, ttl_ms=0, cache_scope="private")

    async def get_prompt(
        self, ctx: RequestContext, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """Return a prompt of a server or of the project, filled in."""
        self.register_client(ctx)
        try:
            self.upstreams.prompt(params.name)
        except InputError:
            if self._local is None:
                raise
            return await self._local.get_prompt(ctx, params)
        return await self.upstreams.get(params.name, params.arguments, ctx, params)

    async def completion(self, ctx: RequestContext, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Return values that complete an argument of a prompt or template."""
        self.register_client(ctx)
        try:
            if isinstance(params.ref, types.PromptReference):
                key, own = self.upstreams.prompt(params.ref.name)
                ref: Any = params.ref.model_copy(update={"name": own})
            else:
                key, own = self.upstreams.owner(params.ref.uri)
                ref = params.ref.model_copy(update={"uri": own})
        except InputError:
            if self._local is None:
                raise
            return await self._local.completion(ctx, params)
        return await self.upstreams.complete(key, ctx, params.model_copy(update={"ref": ref}))

    def _index_local_tools(self) -> None:
        """Make the project's own tools searchable, and no others that it may have had before."""
        tools = self._local.tools() if self._local else []
        self.upstreams.catalog.clear(source="builtin")
        self.upstreams.catalog.add(map(catalog_tool, tools))
        self.upstreams.embed_soon()

    def _always_listed(self) -> list[types.Tool]:
        routes = self.upstreams.routes() if self.lists_upstream_tools() else ()
        listed = [route for route in routes if self._is_always_listed(route) and route.is_usable]
        tools = [with_public_app(route.tool, route.key) for route in listed]
        return [tool.model_copy(update={"meta": {**(tool.meta or {}), **ALWAYS_LOAD}}) for tool in tools]

    def _is_always_listed(self, route: Route) -> bool:
        return route.upstream_name in self.upstreams.server(route.key).always

    def _describe(self, tool: Tool, is_structured: bool) -> types.Tool:
        """Return one of the four tools as it is listed. Claude Code keeps a part that `read_on` returns in the prompt.

        By default it puts results of more than 50,000 characters into a file, which is where they came from.
        """
        listed = describe_tool(tool, is_structured)
        if tool.name != READ_ON:
            return listed
        part_bytes = max((self.upstreams.server(key).max_output_bytes for key in self.upstreams.keys), default=0)
        meta = {**ALWAYS_LOAD, "anthropic/maxResultSizeChars": part_bytes + MAX_REST_NOTE_CHARS}
        return listed.model_copy(update={"meta": meta})


def _instructions(keys: tuple[str, ...], local: LocalSurface | None) -> str | None:
    """Return what a model reads about the server: what the project has, and whose tools can be found."""
    parts = [local.instructions or ""] if local else []
    if keys:
        servers = ", ".join(keys[:MAX_NAMED_SERVERS])
        parts.append(
            f"Tools of {servers} are not listed. Find them with search_tools, which also says how to call them."
        )
    return " ".join(filter(None, parts)) or None


def _collect_arguments(sent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the name and the arguments of a call. Some models send them as JSON text, or beside the name."""
    arguments = sent.get("arguments")
    if arguments is None:
        arguments = {key: value for key, value in sent.items() if key not in ("name", "arguments")}
    elif isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    return {**({"name": sent["name"]} if "name" in sent else {}), "arguments": arguments}


def _call_tool_of(found: CatalogTool) -> str:
    return CALL_TOOLS[kind_of(found.annotations)]


def _address_of(document_id: str) -> str:
    return document_id.partition(":")[2]


def _rename(kind: Any, item: Mapping[str, Any], field: str, key: str) -> Any:
    fields = {name: value for name, value in item.items() if name != "icons"}
    return kind.model_validate({**fields, field: public_address(key, item[field])})


def _failure(error: OnhandError | MCPError) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=repair_surrogates(str(error)))], is_error=True)


def explain_refusal(
    result: types.CallToolResult, found: CatalogTool, arguments: Mapping[str, Any]
) -> types.CallToolResult:
    """Add to an error what is wrong with the arguments, and the definition of the tool.

    The server decides what it accepts; the model that called the tool has seen at most its signature.
    """
    problem = _find_problem(found, arguments)
    if not problem:
        return result
    advice = f"{problem}\nFull definition: {render_definition(found).rstrip()}"
    return result.model_copy(update={"content": [*result.content, types.TextContent(text=advice)]})


def _find_problem(found: CatalogTool, arguments: Mapping[str, Any]) -> str:
    try:
        ToolArguments(Tool(found.name, found.description or found.name, dict(found.input_schema), str)).read(arguments)
    except ToolError as error:
        return str(error)
    except InputError:  # the schema itself cannot be used
        pass
    return ""


class OutputPager:
    """Cuts long results and keeps the rest under handles that cannot be guessed.

    Text is cut between characters, within a number of bytes for all of it. Images and everything else that cannot be
    cut share as many bytes again; what does not fit is left out. The rest is forgotten when it is old, or when newer
    results need the room.
    """

    def __init__(self, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._rests: OrderedDict[str, tuple[float, int, bytes]] = OrderedDict()  # handle → time, bytes per part, rest

    def cut(self, result: types.CallToolResult, max_bytes: int, is_checked: bool = False) -> types.CallToolResult:
        """Return the result within max_bytes of text; `is_checked` if the client checks structured content."""
        if len(result.model_dump_json()) <= max_bytes:  # the common case; its texts never have more bytes than this
            return result
        text_room, other_room, content, rest = max_bytes, max_bytes, [], b""
        left_out: list[tuple[str, int]] = []
        for block in result.content:
            text = _text_of(block)
            raw = b"" if text is None else repair_surrogates(text).encode()
            if text is None:
                size = len(block.model_dump_json())
                if size <= other_room:
                    content.append(block)
                    other_room -= size
                else:
                    left_out.append((block.type, size))
            elif len(raw) <= text_room and not rest:
                content.append(block)
                text_room -= len(raw)
            else:
                start = raw[:text_room].decode(errors="ignore") if not rest else ""
                rest += raw[len(start.encode()) :] + b"\n"
                text_room = 0
                content += [_with_text(block, start)] if start else []
        structured, note = _fit_structured(result.structured_content, max_bytes)
        if left_out:
            note += _describe_left_out(left_out)
        if rest:
            note += self._describe_rest(rest, max_bytes)
        if note:
            content.append(types.TextContent(text=note))
        is_error = result.is_error or (is_checked and structured is None and result.structured_content is not None)
        return result.model_copy(update={"content": content, "structured_content": structured, "is_error": is_error})

    def read(self, handle: str) -> str:
        """Return the next part of a result, which names the handle of the part after it."""
        self._forget_old()
        if handle not in self._rests:
            raise ToolError("This handle is unknown or has expired. Call the tool again, and ask it for less.")
        _, part_bytes, raw = self._rests[handle]
        text = raw[:part_bytes].decode(errors="ignore")
        rest = raw[len(text.encode()) :]
        return f"{text}\n\n{self._describe_rest(rest, part_bytes)}" if rest else text

    def _describe_rest(self, rest: bytes, part_bytes: int) -> str:
        self._forget_old()
        handle = token_urlsafe(18)
        self._rests[handle] = (anyio.current_time(), part_bytes, rest)
        while sum(len(raw) for _, _, raw in self._rests.values()) > self._max_kept_bytes:
            self._rests.popitem(last=False)
        return f'[{len(rest):,} more bytes; continue with {READ_ON}(handle="{handle}")]'

    def _forget_old(self) -> None:
        oldest = anyio.current_time() - MAX_AGE_S
        while self._rests and next(iter(self._rests.values()))[0] < oldest:
            self._rests.popitem(last=False)


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


def _fit_structured(structured: Any, max_bytes: int) -> tuple[Any, str]:
    """Return structured content if it fits, or a note that it was left out."""
    size = len(json.dumps(structured, ensure_ascii=False).encode(errors="replace"))
    if structured is None or size <= max_bytes:
        return structured, ""
    return None, f"[structured content left out: {size:,} bytes, more than {max_bytes:,}] "


def _describe_left_out(left_out: list[tuple[str, int]]) -> str:
    kinds = ", ".join(f"{count} × {kind}" for kind, count in Counter(kind for kind, _ in left_out).items())
    return f"[{kinds} left out: {sum(size for _, size in left_out):,} bytes; ask the tool for less] "
