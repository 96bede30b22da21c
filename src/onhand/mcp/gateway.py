"""What does a client see of all the servers behind us? Three tools that find, describe and call all the others.

`tools/list` is the same bytes before and after every search: what a search finds is called through `call_tool`, or by
its own name. Clients of 2025-11-25 may instead have what they found added to the list, with a notification. Resources
and prompts of all servers are listed under names of their own. Ranking is the catalog's; nothing here decides it.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import mcp_types as types
from mcp import MCPError

from onhand.errors import InputError, NotFound, OnhandError, ToolError
from onhand.mcp import their_skills
from onhand.mcp.cleaning import clean, cleaned
from onhand.mcp.front import Front
from onhand.mcp.gateway_tools import MAX_NAMED_SERVERS, fixed_tools
from onhand.mcp.misfit import explained
from onhand.mcp.naming import public_address, public_name
from onhand.mcp.offers import findable, for_era
from onhand.mcp.outputs import Outputs
from onhand.mcp.paging import page
from onhand.mcp.registry import McpRegistry, Relevant
from onhand.mcp.relay import connection_of, is_modern
from onhand.mcp.surface import Method, Surface
from onhand.text import whole
from onhand.tools.catalog import Found
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.found import found_as_json
from onhand.tools.prompt import called_as, line, plain_line
from onhand.tools.search_tools import DEFAULT_LIMIT, MAX_LIMIT, asks_everywhere, missing

if TYPE_CHECKING:
    from onhand.mcp.surface import Context

TTL_MS = 60_000  # of lists that change only when a server's do
DESCRIPTION_CHARS = 120
MAX_NAMED_PROBLEMS = 5
MAX_ACTIVATED = 64  # tools that one client may have added to its list
OTHER_LIMIT = 3  # resources and prompts that a search shows


class Gateway(Front):
    """The servers behind us, and our own surface beside them, as one server's offer."""

    name = "onhand"

    def __init__(self, registry: McpRegistry, own: Surface | None = None, surface: str = "stable") -> None:
        super().__init__(registry)
        self._own = own
        self._activates = surface == "activate"
        self._outputs = Outputs()
        self._activated: dict[int, dict[str, None]] = {}
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
        return their_skills.beside(self, self._own.methods) if self._own else {}

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

    async def list_tools(self, ctx: "Context", params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Our own tools, those that find and call the others, and those that are always there."""
        self.meet(ctx)
        own = await self._own_tools_of(ctx)
        listed = {**own, **self._fixed, **self._always()}
        if self._activates and not is_modern(ctx.protocol_version):
            mine = self._activated.get(id(connection_of(ctx)), {})
            listed |= {name: tool for name in mine if (tool := self._activated_tool(name)) is not None}
        shown = [for_era(tool, is_modern(ctx.protocol_version)) for tool in listed.values()]
        tools, following = page(shown, params.cursor if params else None, size=500)
        return types.ListToolsResult(tools=tools, next_cursor=following, ttl_ms=TTL_MS, cache_scope="private")

    async def call_tool(
        self, ctx: "Context", params: types.CallToolRequestParams
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
                    await self.registry.settled(name)
                    return self._describe(name)
                case "call_tool":
                    return await self._called(ctx, _text(arguments, "name"), _arguments(arguments), params)
                case _:
                    return _said(self._outputs.read(_text(arguments, "handle")))
        except (InputError, ToolError) as error:
            return _failed(error)

    async def _called(
        self, ctx: "Context", name: str, arguments: Any, params: types.CallToolRequestParams, is_direct: bool = False
    ) -> types.CallToolResult | types.InputRequiredResult:
        own = await self._own_tools_of(ctx)
        if name in own and self._own is not None:
            return await self._own.call_tool(ctx, params.model_copy(update={"name": name, "arguments": arguments}))
        if name in self._fixed:
            raise ToolError(f"{name} is called by itself, not with call_tool")
        try:
            await self.registry.settled(name)
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
            result = explained(result, findable(route.tool, route.key), arguments)
        checked = is_direct and route.tool.output_schema is not None
        return self._outputs.capped(result, self.registry.server(route.key).max_output_bytes, checked)

    async def _search(self, ctx: "Context", arguments: Mapping[str, Any]) -> types.CallToolResult:
        await self._own_tools_of(ctx)
        query = _text(arguments, "query").strip()
        if not query:
            raise ToolError("query is empty: say what the tool should do, or select:NAME")
        limit = arguments.get("limit", DEFAULT_LIMIT)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= MAX_LIMIT:
            raise ToolError(f"limit is a whole number from 1 to {MAX_LIMIT}")
        await self.registry.settled()
        relevant = self.registry.discover_relevant(query, limit)
        if self._activates and not is_modern(ctx.protocol_version):
            await self._activate(ctx, [hit.name for hit in relevant.tools.hits])
        absent = self._absent(relevant.tools)
        relevant = relevant._replace(tools=relevant.tools._replace(notes=(*relevant.tools.notes, *absent)))
        return types.CallToolResult(
            content=[types.TextContent(text=self._answer(relevant))],
            structured_content={
                **cleaned(found_as_json(relevant.tools, 300)),
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
        lines += missing(found)
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

    def _absent(self, found: Found) -> list[str]:
        """Where nobody could look, for whoever found something: a miss tells of all servers."""
        if not found.hits or not asks_everywhere(found):
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
            held += one.held
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
        definition = json.loads(line(tool))
        definition |= {key: value for key in ("output_schema", "annotations") if (value := getattr(tool, key))}
        return types.CallToolResult(
            content=[types.TextContent(text=line(tool).rstrip())], structured_content=cleaned(definition)
        )

    async def list_resources(
        self, ctx: "Context", params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Our own resources, then those of the servers, under addresses that say whose they are."""
        self.meet(ctx)
        items = await self._own_items(ctx, "list_resources", "resources")
        for key in self.registry.keys:
            items += [_renamed(types.Resource, one, "uri", key) for one in self.registry.listing(key).resources]
        shown, following = page(items, params.cursor if params else None)
        return types.ListResourcesResult(resources=shown, next_cursor=following, ttl_ms=0, cache_scope="private")

    async def list_resource_templates(
        self, ctx: "Context", params: types.PaginatedRequestParams | None
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
        self, ctx: "Context", params: types.ReadResourceRequestParams
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
        self, ctx: "Context", params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Our own prompts, then those of the servers."""
        self.meet(ctx)
        items = await self._own_items(ctx, "list_prompts", "prompts")
        for key in self.registry.keys:
            for one in self.registry.listing(key).prompts:
                with suppress(InputError):
                    shown = {**cleaned(one), "name": public_name(key, one["name"])}
                    items.append(types.Prompt.model_validate(shown))
        on_page, following = page(items, params.cursor if params else None)
        return types.ListPromptsResult(prompts=on_page, next_cursor=following, ttl_ms=0, cache_scope="private")

    async def get_prompt(
        self, ctx: "Context", params: types.GetPromptRequestParams
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

    async def completion(self, ctx: "Context", params: types.CompleteRequestParams) -> types.CompleteResult:
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

    async def part(self, client: int) -> None:
        """Forget a client that has gone, and what it activated."""
        self._activated.pop(client, None)
        await super().part(client)

    async def _own_tools_of(self, ctx: "Context") -> dict[str, types.Tool]:
        """Our own surface's tools, which never change while we run; they can be found like all others."""
        if self._own_tools is None:
            tools: dict[str, types.Tool] = {}
            if self._own is not None:
                listed = await self._own.list_tools(ctx, None)
                tools = {tool.name: tool for tool in listed.tools if tool.name not in self._fixed}
                self.registry.catalog.add(map(findable, tools.values()))
            self._own_tools = tools
        return self._own_tools

    async def _own_items(self, ctx: "Context", method: str, field: str) -> list[Any]:
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
        shown = {route.tool.name: route.tool for route in routes if (route.key, route.own) in wanted and not route.held}
        return {name: tool for name, tool in shown.items() if name not in self._fixed}

    async def _activate(self, ctx: "Context", names: list[str]) -> None:
        mine = self._activated.setdefault(id(connection_of(ctx)), {})
        fresh = [name for name in names if name not in mine and self._activated_tool(name) is not None]
        if not fresh:
            return
        mine.update(dict.fromkeys(fresh))
        for name in list(mine)[: max(len(mine) - MAX_ACTIVATED, 0)]:
            del mine[name]
        await ctx.session.send_tool_list_changed()

    def _activated_tool(self, name: str) -> types.Tool | None:
        try:
            return self.registry.route(name).tool
        except OnhandError:
            return None


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
    return whole(value)


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
    return f"{called_as(tool)}: {said}" if said else called_as(tool)


def _address_of(document_id: str) -> str:
    return document_id.partition(":")[2]


def _renamed(kind: Any, item: Mapping[str, Any], field: str, key: str) -> Any:
    shown = {name: value for name, value in cleaned(item).items() if name != "icons"}
    return kind.model_validate({**shown, field: public_address(key, item[field])})


def _said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=clean(text))])


def _failed(error: OnhandError | MCPError) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=whole(str(error)))], is_error=True)
