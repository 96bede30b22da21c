"""All upstream servers: find what they offer, and send requests to the server that a name belongs to.

It does not depend on a door: the gateway, the command line and Python code call the same methods.
"""

import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Set
from contextlib import suppress
from copy import copy
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.client._input_required import run_input_required_driver
from pydantic import BaseModel, TypeAdapter

from onhand.embed.cached import CachedEmbedder
from onhand.errors import NotFound, OnhandError, ToolError, UpstreamError
from onhand.mcp.approvals import REJECTED, Approvals
from onhand.mcp.client_callbacks import ask_client, forwarded_meta, is_modern
from onhand.mcp.offered_tools import NO_POLICIES
from onhand.mcp.permissions import PermissionRequests
from onhand.mcp.servers import ServerConfig
from onhand.mcp.surface import RequestContext
from onhand.mcp.tool_settings import ASK
from onhand.mcp.upstream import Status, Upstream, UpstreamRequest
from onhand.mcp.upstream_catalog import Relevant, UpstreamCatalog
from onhand.mcp.upstream_lists import UpstreamLists
from onhand.mcp.upstream_routes import SEPARATOR, Route, public_address, split_address
from onhand.mcp.upstream_tools import make_upstream_tool
from onhand.mcp.upstream_transport import ServerTransport, StartupThrottle
from onhand.tools.catalog import Catalog, ToolSearchResult
from onhand.tools.tool import Tool, copy_json

_log = logging.getLogger(__name__)

Params = TypeVar("Params", bound=BaseModel)
SEARCH_WAIT_S = 0.3  # of the first search for servers that connect; nobody notices it, even if all of them hang
NAMED_WAIT_S = 8.0  # for a server whose tool was named: a program from npm takes some seconds to start
_TOOL_RESULT: Any = TypeAdapter(types.CallToolResult | types.InputRequiredResult)
_RESOURCE_RESULT: Any = TypeAdapter(types.ReadResourceResult | types.InputRequiredResult)
_PROMPT_RESULT: Any = TypeAdapter(types.GetPromptResult | types.InputRequiredResult)
OnResourceUpdate = Callable[[str], Awaitable[None]]
"""Called with the public address of a resource that changed."""


class ServerStatus(NamedTuple):
    """The state of one server and of its tools."""

    key: str
    status: Status
    tools: int  # that can be called
    blocked: int  # that wait for approval
    problems: tuple[str, ...]
    disabled: int = 0  # by the user's settings


class Upstreams:
    """All upstream servers; open while it is entered."""

    def __init__(
        self,
        servers: Iterable[ServerConfig],
        approvals: Approvals | None = None,
        *,
        lists_directory: str | None = None,
        environ: Mapping[str, str] | None = None,
        auth_of: Callable[[ServerConfig], Any] = lambda server: None,
        version: str = "",
        policies: Mapping[str, str] = NO_POLICIES,
        embedder: CachedEmbedder | None = None,
    ) -> None:
        """`lists_directory` caches the servers' lists; `auth_of` logs in to a server that requires it.

        `policies` are those for each kind of tool where the settings of a server say nothing. With an `embedder`,
        searches also compare meaning, as soon as its model is loaded and the tools are embedded.
        """
        enabled = {server.key: server for server in servers if not server.disabled}
        self.version = version
        self._embedder = embedder
        self._embeds = anyio.Event()  # set when there may be tools to embed
        self._embedded: list[Catalog] = []  # the catalogs that clients search: the whole one, or parts of it
        tools = self._open_catalog()
        self._catalog = UpstreamCatalog(enabled, approvals or Approvals(), tools, lists_directory, policies)
        self._permissions = PermissionRequests()
        self._throttle = StartupThrottle()
        variables = os.environ if environ is None else environ
        self._clients = {
            key: Upstream(
                server, ServerTransport(server, variables, auth_of(server)), self._catalog, self._throttle, version
            )
            for key, server in enabled.items()
        }
        self._tasks: TaskGroup | None = None
        self._users = 0  # that have entered it
        self._whole: Upstreams | None = None
        self._search_until: float | None = None  # when searches no longer wait; set by the first one

    def part(self, keys: Collection[str], offers: Callable[[str], bool]) -> "Upstreams":
        """Return a part that has only these servers, and the tools whose public names are offered.

        It shares the connections, and is open while it is entered, as the whole is.
        """
        part = copy(self)
        part._whole = self
        part._clients = {key: client for key, client in self._clients.items() if key in keys}
        part._catalog = self._catalog.part(part._clients, offers, self._open_catalog())
        part._search_until = None
        return part

    async def __aenter__(self) -> Self:
        if self._whole is not None:
            await self._whole.__aenter__()
            return self
        self._users += 1
        if self._users > 1:
            return self
        tasks = anyio.create_task_group()
        self._tasks = await tasks.__aenter__()
        for client in self._clients.values():
            client.open(tasks)
        if self._embedder is not None:
            self.on_changed.append(self.embed_soon)
            tasks.start_soon(self._keep_embedded, self._embedder)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._whole is not None:
            await self._whole.__aexit__(kind, error, trace)
            return
        self._users -= 1
        if self._tasks is not None and not self._users:
            tasks, self._tasks = self._tasks, None
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)  # so that an error of the block is not wrapped in a group

    @property
    def keys(self) -> tuple[str, ...]:
        """The servers in the order of the configuration."""
        return tuple(self._clients)

    @property
    def catalog(self) -> Catalog:
        """The searchable tools."""
        return self._catalog.tools

    @property
    def on_changed(self) -> list[Callable[[], object]]:
        """The functions that are called after a server's lists were taken in."""
        return self._catalog.on_changed

    def client(self, key: str) -> Upstream:
        """Return the client of a server."""
        if key not in self._clients:
            raise NotFound(f"There is no server {key[:100]!r}. Known servers: {', '.join(self._clients) or 'none'}.")
        return self._clients[key]

    def server(self, key: str) -> ServerConfig:
        """Return the configuration of a server."""
        return self.client(key).server

    def listing(self, key: str) -> UpstreamLists:
        """Return the latest lists of a server."""
        return self._catalog.lists(key)

    def wake(self, legacy: bool = False) -> None:
        """Connect in the background to servers with unknown lists, and fetch lists again that have expired."""
        self._catalog.refresh()
        whole = self._whole or self
        if self.catalog not in whole._embedded:
            whole._embedded.append(self.catalog)
            self.embed_soon()
        for client in self._clients.values():
            client.wake(legacy)

    def _open_catalog(self) -> Catalog:
        return Catalog(embedder=self._embedder, embeds_later=self._embedder is not None)

    def embed_soon(self) -> None:
        """Embed tools that were added to the catalog, if there is a client that may search them."""
        whole = self._whole or self
        if whole._embedded:
            whole._embeds.set()

    def embed_tools(self) -> None:
        """Embed the tools that are known before the first search, for callers that would rather wait for meaning."""
        if self._embedder is not None:
            with suppress(OnhandError, OSError):  # searches say why meaning is not compared
                self._catalog.tools.embed_tools()
                self._embedder.save()

    async def _keep_embedded(self, embedder: CachedEmbedder) -> None:
        """Embed new tools in a thread whenever there are some, so that no search waits for it."""

        def embed() -> None:
            for catalog in tuple(self._embedded):
                catalog.embed_tools(lambda: self._tasks is not None)
            embedder.save()

        while True:
            await self._embeds.wait()
            self._embeds = anyio.Event()
            try:
                await anyio.to_thread.run_sync(embed, abandon_on_cancel=True)
            except (OnhandError, OSError) as error:  # searches say so, too
                _log.warning("the tools of the servers are not embedded: %s", error)

    async def wait_until_listed(self, name: str = "") -> None:
        """Wait a moment for the lists of servers that connect, or longer for the server of an unknown tool.

        Only the first search waits, and for a known tool nobody does. A server whose tool is named need not wait for
        its turn to start.
        """
        if name in self._catalog.routes.tools:
            return
        owner = self._clients.get(name.partition(SEPARATOR)[0])
        if self._search_until is None:
            self._search_until = anyio.current_time() + SEARCH_WAIT_S
        timeout = max(self._search_until - anyio.current_time(), 0)
        if owner is not None:
            owner.hurry()
            timeout = NAMED_WAIT_S
        with anyio.move_on_after(timeout):
            for client in self._clients.values() if owner is None else (owner,):
                await client.wait_until_listed()

    async def connect(
        self,
        keys: Iterable[str] | None = None,
        legacy: bool = False,
        on_result: Callable[[str, str], None] = lambda key, failure: None,
    ) -> dict[str, str]:
        """Connect to all servers or some, concurrently; return why servers are down, by key.

        `on_result` is called with the key of each server, and why it is down or "", as soon as that is known.
        """
        clients = {key: self.client(key) for key in (self._clients if keys is None else keys)}
        down: dict[str, str] = {}

        async def connect_one(key: str, client: Upstream) -> None:
            try:
                await client.connect(legacy)
            except UpstreamError as error:
                down[key] = str(error)
            on_result(key, down.get(key, ""))

        async with anyio.create_task_group() as tasks:
            for key, client in clients.items():
                tasks.start_soon(connect_one, key, client)
        return {key: down[key] for key in self._clients if key in down}

    def status(self) -> tuple[ServerStatus, ...]:
        """Return the state of each server, in the order of the configuration."""
        routes = self._catalog.routes.tools.values()
        usable = Counter(route.key for route in routes if route.is_usable)
        disabled = Counter(route.key for route in routes if route.offered.disabled)
        waiting = Counter(
            route.key for route in routes if route.blocked not in ("", REJECTED) and not route.offered.disabled
        )
        return tuple(
            ServerStatus(key, client.status, usable[key], waiting[key], self._catalog.problems(key), disabled[key])
            for key, client in self._clients.items()
        )

    def is_listed(self, key: str) -> bool:
        """Return whether the lists of a server are known."""
        return self._catalog.is_listed(key)

    def pending(self) -> tuple[str, ...]:
        """Return the servers that are connecting and whose lists are still unknown."""
        return self._unlisted_servers("connecting")

    def unreachable(self) -> tuple[str, ...]:
        """Return the servers that are down and whose lists are unknown."""
        return self._unlisted_servers("down")

    def _unlisted_servers(self, state: str) -> tuple[str, ...]:
        unlisted = (key for key in self._clients if not self._catalog.is_listed(key))
        return tuple(key for key in unlisted if self._clients[key].status.state == state)

    def search(self, query: str, limit: int = 5) -> ToolSearchResult:
        """Return the tools that match a query best, each with the words that it was found by."""
        return self._catalog.search(query, limit)

    def discover_relevant(self, intent: str, limit: int = 5) -> Relevant:
        """Return the tools, resources and prompts that match an intent."""
        return self._catalog.discover_relevant(intent, limit)

    def nearest(self, name: str) -> tuple[str, ...]:
        """Return the tools that an unknown name may have meant."""
        return self._catalog.nearest(name)

    def skills(self) -> list[dict[str, Any]]:
        """Return the skills of all servers under public addresses, except those with hidden text."""
        return self._catalog.skills()

    def tools(self, taken: Set[str] = frozenset()) -> list[Tool]:
        """Return the tools that may be called now, except those whose name is taken."""
        routes = (route for route in self.routes() if route.is_usable)
        return [make_upstream_tool(self, route) for route in routes if route.tool.name not in taken]

    def routes(self) -> tuple[Route, ...]:
        """Return every tool, including the blocked and the disabled ones, by name."""
        tools = self._catalog.routes.tools
        return tuple(tools[name] for name in sorted(tools))

    def route(self, name: str) -> Route:
        """Return where a tool's name leads; raise an error that says what to do if it cannot be called."""
        owner = name.partition(SEPARATOR)[0]
        if name not in self._catalog.routes.tools and owner in self._clients and not self._catalog.is_listed(owner):
            status = self._clients[owner].status
            reason = f" ({status.detail})" if status.detail else ""
            raise ToolError(f"{owner} is {status.state} and has not listed its tools yet{reason}. Try again later.")
        return self._catalog.route(name)

    def prompt(self, name: str) -> tuple[str, str]:
        """Return the server of a prompt and the server's name for it."""
        return self._catalog.routes.prompt(name)

    def find_app_tool(self, upstream_name: str) -> str:
        """Return the public name of the tool that an interface means by its server's own name, or else this name."""
        return self._catalog.routes.find_app_tool(upstream_name)

    def owner(self, address: str) -> tuple[str, str]:
        """Return the server of a resource and the server's URI for it."""
        parts = split_address(address)
        return parts if parts is not None and parts[0] in self._clients else self._catalog.routes.resource(address)

    def approved_route(self, key: str, tool: types.Tool) -> Route | None:
        """Return the route to a tool that a server has just listed, if it is approved and the one that was checked."""
        return self._catalog.approved_route(key, tool)

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        ctx: RequestContext | None = None,
        params: types.CallToolRequestParams | None = None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool. Errors of the tool are results; UpstreamError means that the server does not work.

        If the user wants to be asked, a client (`ctx`) has to; without one, the caller is responsible.
        """
        route = self.route(name)
        if ctx is None or params is None or route.offered.policy != ASK:
            return await self._call(route, arguments, ctx, params)
        params = params.model_copy(update={"name": name, "arguments": dict(arguments or {})})
        permitted = await self._permissions.request(ctx, params, route.kind)
        if isinstance(permitted, types.InputRequiredResult):
            return permitted
        result = await self._call(route, arguments, ctx, permitted)
        if isinstance(result, types.InputRequiredResult):
            return self._permissions.remember(result, params)
        return result

    async def _call(
        self,
        route: Route,
        arguments: Mapping[str, Any] | None,
        ctx: RequestContext | None,
        params: types.CallToolRequestParams | None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        checked = copy_json(dict(arguments or {}), "arguments")  # a lone surrogate would end the whole connection
        filled = route.fill_in(checked)
        sent = _build_params(types.CallToolRequestParams, params, name=route.upstream_name, arguments=filled)
        request = UpstreamRequest(types.CallToolRequest(params=sent), _TOOL_RESULT, route.tool.name)
        result = await self._request_in_rounds(route.key, ctx, request)
        if isinstance(result, types.CallToolResult):
            self._catalog.routes.remember_links(route.key, result)
        return result  # type: ignore[no-any-return]

    async def read(
        self, address: str, ctx: RequestContext | None = None, params: types.ReadResourceRequestParams | None = None
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """Read a resource; raise UpstreamError if a skill's file is not what was listed."""
        key, uri = self.owner(address)
        sent = _build_params(types.ReadResourceRequestParams, params, uri=uri)
        request = UpstreamRequest(types.ReadResourceRequest(params=sent), _RESOURCE_RESULT)
        result = await self._request_in_rounds(key, ctx, request)
        mismatch = (
            self._catalog.routes.find_mismatch(key, uri, result) if isinstance(result, types.ReadResourceResult) else ""
        )
        if mismatch:
            self.client(key).refresh()
            raise UpstreamError(
                f"{key}: the {mismatch} of {uri[:200]} differs from the server's list, so it is not used. "
                "If it was changed on purpose, try again in a moment."
            )
        return result  # type: ignore[no-any-return]

    async def get(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        ctx: RequestContext | None = None,
        params: types.GetPromptRequestParams | None = None,
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """Return a prompt with its arguments filled in."""
        key, upstream_name = self.prompt(name)
        checked = copy_json(dict(arguments or {}), "arguments")
        sent = _build_params(types.GetPromptRequestParams, params, name=upstream_name, arguments=checked)
        request = UpstreamRequest(types.GetPromptRequest(params=sent), _PROMPT_RESULT)
        return await self._request_in_rounds(key, ctx, request)  # type: ignore[no-any-return]

    async def complete(
        self, key: str, ctx: RequestContext | None, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Return completions of an argument; `params` refers to it by the server's own name or URI."""
        message = types.CompleteRequest(params=params.model_copy(update={"meta": forwarded_meta(params.meta)}))
        return await self.request(key, ctx, message, types.CompleteResult)  # type: ignore[no-any-return]

    async def request(self, key: str, ctx: RequestContext | None, message: types.Request[Any, Any], result: Any) -> Any:
        """Send any other request to a server, and return its result, which has the type `result`."""
        return await self.client(key).request(ctx, UpstreamRequest(message, result))

    async def subscribe(
        self, address: str, on_update: OnResourceUpdate, ctx: RequestContext | None = None
    ) -> Callable[[], Awaitable[None]]:
        """Have `on_update` called whenever a resource changes; return a function that ends this."""
        key, uri = self.owner(address)
        return await self.client(key).subscribe(ctx, uri, partial(on_update, public_address(key, uri)))

    async def set_level(self, level: types.LoggingLevel) -> None:
        """Request log messages from a level on from every server."""
        async with anyio.create_task_group() as tasks:
            for client in self._clients.values():
                tasks.start_soon(client.set_level, level)

    async def _request_in_rounds(self, key: str, ctx: RequestContext | None, request: UpstreamRequest) -> Any:
        """Send a request until it has a result.

        A server may first ask for input. A client of the modern era receives these questions as they are; a client of
        the legacy era is asked here, in the way of its era.
        """
        client = self.client(key)
        first = await client.request(ctx, request)
        if not isinstance(first, types.InputRequiredResult) or (ctx is not None and is_modern(ctx.protocol_version)):
            return first

        async def retry(responses: types.InputResponses | None, state: str | None) -> Any:
            return await client.request(ctx, request.with_input(responses, state))

        return await run_input_required_driver(first, dispatch=lambda _, asked: ask_client(ctx, asked), retry=retry)


def _build_params(kind: type[Params], params: Any, **fields: Any) -> Params:
    """Return request parameters with the metadata and input that the client's own request carries."""
    if params is not None:
        fields |= {"input_responses": params.input_responses, "request_state": params.request_state}
        fields["_meta"] = forwarded_meta(params.meta)
    return kind(**fields)
