"""All upstream servers.

What do all servers behind us offer, and how is it used? Tools, resources and prompts, found together by intent.

Each is found in the one Index, under a name that is its server's for ever. What was not approved is neither found nor
called. It knows no door: a surface, a command and Python code call the same methods.
How does an agent of our own call what other servers offer? Each tool of theirs as one of the Registry's.

What a server says of its tools, such as that one only reads, is not taken for granted: a call may change something.
"""

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from mcp import MCPError
from mcp.client._input_required import run_input_required_driver
from pydantic import ValidationError

from onhand.document import Document, Filter
from onhand.errors import InputError, NotFound, ToolError, UpstreamError
from onhand.mcp import upstream_lists as lists
from onhand.mcp.approvals import Approvals, definition_of, look, pin
from onhand.mcp.client_callbacks import ask_client, forwarded, is_modern, progress_to
from onhand.mcp.servers import ServerConfig
from onhand.mcp.surface import RequestContext
from onhand.mcp.upstream import Client, Link, Status
from onhand.mcp.upstream_catalog import (
    SEPARATOR,
    Proof,
    contents_of,
    documents_of,
    findable,
    is_seen,
    own_address,
    proofs_of,
    public_address,
    public_name,
    shown_skill,
    shown_tool,
)
from onhand.mcp.upstream_lists import UpstreamLists
from onhand.mcp.upstream_transport import Starts, capped_error
from onhand.search.index import Index
from onhand.search.result import Hit
from onhand.search.validation import validate_document
from onhand.store.memory import MemoryStore
from onhand.tools.catalog import Catalog, ToolSearchResult
from onhand.tools.catalog_tool import split_id
from onhand.tools.tool import copy_json

T = TypeVar("T")
FIRST_WAIT_S = 8.0  # a program from npm takes some seconds to start; whoever hangs costs so much once
AT_ONCE = 100  # tools that are taken in before others are answered: some hundredths of a second
MAX_LINKS = 10_000  # addresses that results mentioned, by which their servers are known
MAX_LINK_CHARS = 2_000  # a longer one can still be read under its server's name
Updated = Callable[[str], Awaitable[None]]
"""Is told the address here of a resource that changed."""


class Route(NamedTuple):
    """Where a name leads."""

    key: str
    own: str  # what the server calls it
    pin: str
    tool: types.Tool  # as it is shown, under its name here
    held: str = ""  # why it can be neither found nor called


class Relevant(NamedTuple):
    """What fits an intent, of each kind, best first."""

    tools: ToolSearchResult
    resources: tuple[Hit, ...]
    prompts: tuple[Hit, ...]


class ServerStatus(NamedTuple):
    """One server, and how it is."""

    key: str
    status: Status
    tools: int
    held: int
    problems: tuple[str, ...]


class Upstreams:
    """All servers behind us; open while it is entered."""

    def __init__(
        self,
        servers: Iterable[ServerConfig],
        pins: Approvals | None = None,
        *,
        catalog: Catalog | None = None,
        lists_directory: str | None = None,
        environ: Mapping[str, str] | None = None,
        auth_of: Callable[[ServerConfig], Any] = lambda server: None,
        version: str = "",
    ) -> None:
        """`lists_directory` keeps what servers listed for the next start; `auth_of` logs in where a server asks it."""
        self.catalog = Catalog() if catalog is None else catalog
        self._index = Index(MemoryStore())
        self._pins = Approvals() if pins is None else pins
        self._directory = lists_directory
        self.version = version
        self._starts = Starts()
        self._servers = {server.key: server for server in servers if not server.disabled}
        given = os.environ if environ is None else environ
        self._clients = {key: self._client(server, given, auth_of) for key, server in self._servers.items()}
        self._listings: dict[str, UpstreamLists] = {}
        self._places: dict[str, object] = {}  # key → what stands for the list that is taken in
        self._routes: dict[str, Route] = {}
        self._findable: dict[str, dict[str, str]] = {}  # key → name here → pin of what the catalog has
        self._prompts: dict[str, tuple[str, str]] = {}  # name here → key, own name
        self._owners: dict[str, set[str]] = {}  # own address → keys of those who listed or mentioned it
        self._proofs: dict[str, dict[str, Proof]] = {}  # key → own address of a skill's file → what was listed of it
        self._problems: dict[str, tuple[str, ...]] = {}
        self._updated: dict[str, dict[object, Updated]] = {}  # address here → who wants to know
        self._tasks: TaskGroup | None = None
        self._patient_until: float | None = None  # nobody has asked for anything yet
        self.on_changed: list[Callable[[], object]] = []  # called when a list is another one
        for key, server in self._servers.items():
            before = lists.load_lists(lists_directory, key, server.identity)
            if before is not None and self._pins.held_server(server) is None:
                self._clients[key].known()
                self._take_in(key, before)

    def _client(
        self, server: ServerConfig, environ: Mapping[str, str], auth_of: Callable[[ServerConfig], Any]
    ) -> Client:
        async def on_listed(listing: UpstreamLists) -> None:
            listing = listing.beside(self.listing(server.key))
            for _ in self._taking_in(server.key, listing):
                await checkpoint()
            if self.listing(server.key) is listing:  # and no newer one
                known = listing._replace(problems=self._problems[server.key])
                lists.save_lists(self._directory, server.key, server.identity, known)

        async def on_updated(uri: str) -> None:
            await self._tell(public_address(server.key, uri))

        held = partial(self._pins.held_server, server)
        return Client(server, environ, on_listed, on_updated, held, auth_of(server), self.version, self._starts)

    async def __aenter__(self) -> Self:
        tasks = anyio.create_task_group()
        self._tasks = await tasks.__aenter__()
        for client in self._clients.values():
            client.open(tasks)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        if self._tasks is not None:
            tasks, self._tasks = self._tasks, None
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)  # an error of the block stays itself, and no group around it

    @property
    def keys(self) -> tuple[str, ...]:
        """The servers, in the order of the configuration."""
        return tuple(self._servers)

    def client(self, key: str) -> Client:
        """The client of a server."""
        if key not in self._clients:
            raise NotFound(f"there is no server {key[:100]!r}: there is {', '.join(self._clients) or 'none'}")
        return self._clients[key]

    def server(self, key: str) -> ServerConfig:
        """What the configuration says of a server."""
        return self.client(key).server

    def listing(self, key: str) -> UpstreamLists:
        """What a server offers, as it was listed last."""
        return self._listings.get(key, UpstreamLists())

    def wake(self, legacy: bool = False) -> None:
        """Connect to those whose list is not known, and ask again for lists that are out of date, in the background."""
        self.refresh()
        if self._patient_until is None:
            self._patient_until = anyio.current_time() + FIRST_WAIT_S
        for client in self._clients.values():
            client.wake(legacy)

    async def settled(self, name: str = "") -> None:
        """Wait for servers that are asked for the first time, in the seconds after the first client and never later.

        For a tool that is known nobody is waited for, and for one of a known server only that one, which is hurried,
        however late it is.
        """
        if name in self._routes:
            return
        owner = self._clients.get(name.partition(SEPARATOR)[0])
        patience = max((self._patient_until or 0) - anyio.current_time(), 0)
        if owner is not None:
            owner.hurry()
            patience = FIRST_WAIT_S
        with anyio.move_on_after(patience):
            for client in self._clients.values() if owner is None else (owner,):
                await client.answered()

    async def connect(self, keys: Iterable[str] | None = None, legacy: bool = False) -> dict[str, str]:
        """Connect to all servers, or some, side by side; why those are down that are."""
        down: dict[str, str] = {}

        async def one(key: str) -> None:
            try:
                await self.client(key).link(legacy)
            except UpstreamError as error:
                down[key] = str(error)

        async with anyio.create_task_group() as tasks:
            for key in self._clients if keys is None else keys:
                tasks.start_soon(one, key)
        return {key: down[key] for key in self._clients if key in down}

    def status(self) -> tuple[ServerStatus, ...]:
        """How each server is, in the order of the configuration."""
        counts = Counter((route.key, bool(route.held)) for route in self._routes.values())
        return tuple(
            ServerStatus(key, client.status, counts[key, False], counts[key, True], self._problems.get(key, ()))
            for key, client in self._clients.items()
        )

    def pending(self) -> tuple[str, ...]:
        """The servers that are being connected and have not said yet what they offer."""
        return self._unlisted("connecting")

    def unreachable(self) -> tuple[str, ...]:
        """The servers that are down and have never said what they offer."""
        return self._unlisted("down")

    def _unlisted(self, state: str) -> tuple[str, ...]:
        silent = (key for key in self._clients if not self._is_taken_in(key))
        return tuple(key for key in silent if self._clients[key].status.state == state)

    def refresh(self) -> None:
        """See what was approved since, by whatever process."""
        if self._pins.refresh():
            for key, listing in list(self._listings.items()):
                self._take_in(key, listing)

    def search(self, query: str, limit: int = 5) -> ToolSearchResult:
        """The tools that fit a query best, each with the words that it was found by."""
        self.refresh()
        found = self.catalog.search(query, limit, explain=True)
        silent = next((one.name for one in found.unknown if one.name in self._servers), "")
        if silent and not found.hits:
            found = found._replace(reason=f"no tool of {silent} can be used now")
        others = (one for one in found.unknown if one.name not in self._servers)
        return found._replace(unknown=tuple(one._replace(nearest=_names(one.nearest)) for one in others))

    def discover_relevant(self, intent: str, limit: int = 5) -> Relevant:
        """The tools, resources and prompts that fit an intent."""
        tools = self.search(intent, limit)
        found = {kind: self._index.keyword(intent, Filter(tags=(kind,)), limit).hits for kind in ("resource", "prompt")}
        return Relevant(tools, found["resource"], found["prompt"])

    def route(self, name: str) -> Route:
        """Where a tool's name leads; an error says what to do when it cannot be called."""
        self.refresh()
        route = self._routes.get(name)
        if route is None:
            owner = name.partition(SEPARATOR)[0]
            if owner in self._clients and not self._is_taken_in(owner):
                state = self._clients[owner].status
                why = f" ({state.detail})" if state.detail else ""
                raise ToolError(f"{owner} is {state.state} and has not said which tools it has{why}: try again later")
            near = self.nearest(name)
            advice = f"did you mean {' or '.join(near)}?" if near else "find it with search_tools"
            raise NotFound(f"there is no tool {name[:200]!r}: {advice}")
        if route.held:
            raise ToolError(
                f"{name} is held back: it {route.held}. A person has to look at it: `onhand mcp review {route.key}`"
            )
        return route

    def nearest(self, name: str) -> tuple[str, ...]:
        """The tools that may be meant by a name that there is not."""
        self.refresh()
        return _names(self.catalog.nearest(name))

    def routes(self) -> tuple[Route, ...]:
        """Every tool, those that are held too, by name."""
        return tuple(self._routes[name] for name in sorted(self._routes))

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        ctx: "RequestContext | None" = None,
        params: types.CallToolRequestParams | None = None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """What a tool answers. Errors of the tool are results; UpstreamError is for servers that do not work."""
        route = self.route(name)
        checked = copy_json(dict(arguments or {}), "arguments")  # half a character would end the whole connection
        key = route.key

        async def send(link: Link, answers: Any, state: str | None) -> Any:
            self.route(name)  # connecting may have shown that it changed
            return await link.session.call_tool(
                route.own,
                checked,
                read_timeout_seconds=self.server(key).timeout_s,
                progress_callback=progress_to(ctx),
                input_responses=answers,
                request_state=state,
                meta=forwarded(params.meta) if params else None,
                allow_input_required=True,
            )

        result = await self._in_rounds(key, ctx, params, send)
        if isinstance(result, types.CallToolResult):
            self._remember_links(key, result)
        return result  # type: ignore[no-any-return]

    async def ask(self, key: str, ctx: "RequestContext | None", send: Callable[[Link], Awaitable[T]]) -> T:
        """What a server answers to anything else."""
        return await self._asked(key, ctx, send)

    def is_approved(self, key: str, tool: types.Tool) -> bool:
        """Whether a tool of a server is one that may be called, and still says what it said when it was looked at."""
        self.refresh()
        listed = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            route = self._routes.get(public_name(key, tool.name))
        except InputError:
            return False
        return route is not None and not route.held and route.pin == pin(definition_of(listed))

    async def read(
        self, address: str, ctx: "RequestContext | None" = None, params: types.ReadResourceRequestParams | None = None
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """What is at an address; a file of a skill only as it was listed."""
        key, uri = self.owner(address)

        async def send(link: Link, answers: Any, state: str | None) -> Any:
            return await link.session.read_resource(
                uri,
                input_responses=answers,
                request_state=state,
                meta=forwarded(params.meta) if params else None,
                allow_input_required=True,
            )

        result = await self._in_rounds(key, ctx, params, send)
        if isinstance(result, types.ReadResourceResult):
            self._prove(key, uri, result)
        return result  # type: ignore[no-any-return]

    def _prove(self, key: str, uri: str, result: types.ReadResourceResult) -> None:
        proofs = self._proofs.get(key, {})
        for own, content in contents_of(result) if proofs else ():
            proof = proofs.get(uri) or proofs.get(own)
            reason = proof.fails(content) if proof else ""
            if reason:
                self.client(key).refresh()
                raise UpstreamError(
                    f"{key}: {uri[:200]} has another {reason} than it was listed with and is not used: if it was "
                    "changed on purpose, try again in a moment"
                )

    def skills(self) -> list[dict[str, Any]]:
        """The skills of all servers, under addresses that say whose they are; without what hides something."""
        return [
            shown_skill(key, skill)
            for key, listing in self._listings.items()
            for skill in listing.skills
            if is_seen(skill)
        ]

    async def get(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        ctx: "RequestContext | None" = None,
        params: types.GetPromptRequestParams | None = None,
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """A prompt, filled in."""
        key, own = self.prompt(name)
        checked = copy_json(dict(arguments or {}), "arguments")

        async def send(link: Link, answers: Any, state: str | None) -> Any:
            return await link.session.get_prompt(
                own,
                checked,
                input_responses=answers,
                request_state=state,
                meta=forwarded(params.meta) if params else None,
                allow_input_required=True,
            )

        return await self._in_rounds(key, ctx, params, send)  # type: ignore[no-any-return]

    async def complete(
        self, key: str, ctx: "RequestContext | None", params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """How an argument may go on; what `params` refers to is called as its own server calls it."""
        request = types.CompleteRequest(params=params.model_copy(update={"meta": forwarded(params.meta)}))
        return await self._asked(key, ctx, lambda link: link.session.send_request(request, types.CompleteResult))

    async def subscribe(
        self, address: str, on_update: Updated, ctx: "RequestContext | None" = None
    ) -> Callable[[], Awaitable[None]]:
        """Be told when a resource changes; what is given back ends that."""
        key, uri = self.owner(address)
        place, wanting = object(), self._updated.setdefault(public_address(key, uri), {})
        wanting[place] = on_update  # before the server knows: it may tell of a change at once
        try:
            await self.client(key).watch(ctx, uri)
        except BaseException:
            del wanting[place]
            raise

        async def end() -> None:
            if wanting.pop(place, None) is not None:
                await self.client(key).unwatch(ctx, uri)

        return end

    async def set_level(self, level: types.LoggingLevel) -> None:
        """Ask every server for log messages from a level on."""
        async with anyio.create_task_group() as tasks:
            for client in self._clients.values():
                tasks.start_soon(client.set_level, level)

    def owner(self, address: str) -> tuple[str, str]:
        """Whose an address is, and what that server calls it."""
        known = own_address(address)
        if known is not None and known[0] in self._clients:
            return known
        owners = sorted(self._owners.get(address, ()))
        if len(owners) == 1:
            return owners[0], address
        if owners:
            listed = " or ".join(public_address(key, address) for key in owners)
            raise InputError(f"{address[:200]} is at several servers: say {listed}")
        raise NotFound(f"there is no resource {address[:200]!r}: list the resources, or find one by what it is about")

    def prompt(self, name: str) -> tuple[str, str]:
        """Whose a prompt is, and what that server calls it."""
        if name not in self._prompts:
            raise NotFound(f"there is no prompt {name[:200]!r}: list the prompts")
        return self._prompts[name]

    async def _in_rounds(self, key: str, ctx: "RequestContext | None", params: Any, send: Any) -> Any:
        """Ask until there is a result. A client of the newer era is handed the server's questions as they are; for one
        of the older era they are put to it here, in its own way."""

        async def once(answers: Any, state: str | None) -> Any:
            return await self._asked(key, ctx, lambda link: send(link, answers, state))

        first = await once(getattr(params, "input_responses", None), getattr(params, "request_state", None))
        if not isinstance(first, types.InputRequiredResult) or (ctx is not None and is_modern(ctx.protocol_version)):
            return first
        return await run_input_required_driver(first, dispatch=lambda _, asked: ask_client(ctx, asked), retry=once)

    async def _asked(self, key: str, ctx: "RequestContext | None", send: Callable[[Link], Awaitable[T]]) -> T:
        async def sent(link: Link) -> T:
            try:
                return await send(link)
            except MCPError as error:
                if error.code != types.HEADER_MISMATCH:
                    raise
                await lists.listed(link.session)  # a schema changed: headers are made from the list
                return await send(link)

        try:
            return _of_its_own(await self.client(key).ask(ctx, sent))
        except MCPError as error:
            raise capped_error(error, self.server(key).max_output_bytes) from None
        except ValidationError:
            raise UpstreamError(
                f"{key} answered with something that is no such result: it does not keep to MCP"
            ) from None
        except RuntimeError as error:
            raise UpstreamError(f"{key}: {error}") from None

    def _is_taken_in(self, key: str) -> bool:
        """Whether a list of a server has been made findable, the whole of it."""
        return key in self._problems

    def _take_in(self, key: str, listing: UpstreamLists) -> None:
        """Make a list findable, without what is held."""
        for _ in self._taking_in(key, listing):
            pass

    def _taking_in(self, key: str, listing: UpstreamLists) -> Iterator[None]:
        """The same in steps, between which others may be answered; a newer list of the same server ends it."""
        place = self._places[key] = object()
        problems = list(listing.problems)
        self._listings[key] = listing
        for _ in self._taking_in_tools(key, listing, problems):
            yield
            if self._places[key] is not place:
                return
        self._take_in_others(key, listing, problems)
        self._problems[key] = tuple(dict.fromkeys(problems))[: lists.MAX_PROBLEMS]
        for changed in self.on_changed:
            changed()

    def _taking_in_tools(self, key: str, listing: UpstreamLists, problems: list[str]) -> Iterator[None]:
        definitions = _named_here(key, listing, problems)
        # By the name here: another tool that gets the same one later is a change, too.
        pinned = {_short(key, name): definition_of(tool) for name, tool in definitions.items()}
        looks = {}
        for number, (short, definition) in enumerate(pinned.items(), 1):
            if not self._pins.is_pinned(key, short, definition):
                looks[short] = look(definition)
            if number % AT_ONCE == 0:
                yield
        owns = {tool["name"] for tool in definitions.values()}
        others = {route.own for route in self._routes.values() if route.key != key} - owns
        held = self._pins.screened(key, pinned, others, looks)
        now: dict[str, Route] = {}
        for number, (name, tool) in enumerate(definitions.items(), 1):
            short = _short(key, name)
            try:
                now[name] = Route(key, tool["name"], pin(pinned[short]), shown_tool(name, tool), held.get(short, ""))
            except ValidationError as error:
                problems.append(str(error).splitlines()[0])
            if number % AT_ONCE == 0:
                yield
        before = {route.own for route in self._routes.values() if route.key == key}
        self._routes = {name: r for name, r in self._routes.items() if r.key != key} | now
        self._refresh(owns - before, key)
        yield  # which may have taken in this one, too
        found = self._findable.setdefault(key, {})
        gone = [name for name in found if name not in now or now[name].held]
        for first in range(0, len(gone), AT_ONCE):
            out = gone[first : first + AT_ONCE]
            self.catalog.remove([f"{key}/{name}" for name in out])
            for name in out:
                del found[name]
            yield
        fresh = [route for name, route in now.items() if not route.held and found.get(name) != route.pin]
        for first in range(0, len(fresh), AT_ONCE):
            some = fresh[first : first + AT_ONCE]
            added = self.catalog.add(findable(route.tool, key) for route in some)
            problems += [reason for _, reason in added.refused]
            found.update((route.tool.name, route.pin) for route in some)
            yield

    def _refresh(self, names: set[str], key: str) -> None:
        """Hold what tells a model how to use these, which were not known when it was listed."""
        for other, listing in self._listings.items() if names else ():
            if other != key and self._pins.is_led(other, names):
                self._take_in(other, listing)

    def _take_in_others(self, key: str, listing: UpstreamLists, problems: list[str]) -> None:
        self._prompts = {name: place for name, place in self._prompts.items() if place[0] != key}
        for keys in self._owners.values():
            keys.discard(key)
        self._proofs[key] = proofs_of(listing.skills)
        for resource in listing.resources:
            self._owners.setdefault(resource["uri"], set()).add(key)
        for prompt in listing.prompts:
            try:
                self._prompts[public_name(key, prompt["name"])] = (key, prompt["name"])
            except InputError as error:
                problems.append(str(error))
        documents: dict[str, Document] = {}
        for document in documents_of(key, listing):
            try:
                documents[document.id] = validate_document(document)
            except InputError as error:
                problems.append(f"it offers what cannot be found: {error}")
        stale = self._index.store.scan(Filter(scope=(key,)), limit=10**9)
        self._index.delete([document_id for document_id in stale if document_id not in documents])
        self._index.put(documents.values())

    def _remember_links(self, key: str, result: types.CallToolResult) -> None:
        for block in result.content:
            if not isinstance(block, types.ResourceLink) or len(self._owners) >= MAX_LINKS:
                continue
            if len(str(block.uri)) <= MAX_LINK_CHARS:
                self._owners.setdefault(str(block.uri), set()).add(key)

    async def _tell(self, address: str) -> None:
        for on_update in list(self._updated.get(address, {}).values()):
            await on_update(address)


def _of_its_own(result: T) -> T:
    """A result without what its server says of itself: to our clients, we are the server."""
    meta = getattr(result, "meta", None)
    if isinstance(meta, dict) and types.SERVER_INFO_META_KEY in meta:
        kept = {key: value for key, value in meta.items() if key != types.SERVER_INFO_META_KEY}
        return result.model_copy(update={"meta": kept or None})  # type: ignore[attr-defined, no-any-return]
    return result


def _named_here(key: str, listing: UpstreamLists, problems: list[str]) -> dict[str, dict[str, Any]]:
    """The tools of a list by their names here; of several that would have the same one, the first."""
    definitions: dict[str, dict[str, Any]] = {}
    for tool in listing.tools:
        try:
            name = public_name(key, tool["name"])
        except InputError as error:
            problems.append(str(error))
            continue
        known = definitions.setdefault(name, tool)
        if known is not tool and known["name"] == tool["name"]:
            problems.append(f"it lists {tool['name'][:100]!r} twice: the first is kept")
        elif known is not tool:
            problems.append(f"two of its tools would be {name} here: {known['name'][:100]!r} is kept")
    return definitions


def _names(ids: Iterable[str]) -> tuple[str, ...]:
    """What tools are called by: here no name is at two servers."""
    return tuple(dict.fromkeys(split_id(one)[1] for one in ids))


def _short(key: str, name: str) -> str:
    """A name here without its server: what the server calls the tool, where that can be spelled."""
    return name.removeprefix(f"{key}{SEPARATOR}")
