"""Take in what upstream servers list: check it for approval, route it, and make it searchable.

What servers write is cleaned before clients or models see it, and what is blocked can be neither found nor called.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import mcp_types as types
from anyio.lowlevel import checkpoint
from pydantic import ValidationError

from onhand.document import Document, Filter
from onhand.errors import InputError, NotFound, ToolError
from onhand.hidden_characters import is_hidden_in, sanitize, sanitize_json
from onhand.mcp.approvals import Approvals, definition_of, fingerprint, scan_definition
from onhand.mcp.offered_tools import NO_POLICIES, offer_tools
from onhand.mcp.servers import ServerConfig
from onhand.mcp.suspicions import MAX_DEPTH, texts_in
from onhand.mcp.upstream_lists import MAX_PROBLEMS, UpstreamLists, load_lists, save_lists
from onhand.mcp.upstream_routes import (
    SEPARATOR,
    Route,
    Routes,
    annotations_of,
    is_for_models,
    public_address,
    public_name,
)
from onhand.search.index import Index
from onhand.search.result import Hit
from onhand.search.validation import validate_document
from onhand.store.memory import MemoryStore
from onhand.tools.catalog import Catalog, ToolHit, ToolSearchResult
from onhand.tools.catalog_tool import CatalogTool, split_id

MAX_MENTIONED = 3  # disabled tools in the notes of a search
BATCH = 100  # tools that are taken in before other tasks run again: some hundredths of a second


class Relevant(NamedTuple):
    """The tools, resources and prompts that match an intent, best first."""

    tools: ToolSearchResult
    resources: tuple[Hit, ...]
    prompts: tuple[Hit, ...]


class UpstreamCatalog:
    """Everything that the upstream servers offer. It never talks to a server."""

    def __init__(
        self,
        servers: Mapping[str, ServerConfig],
        approvals: Approvals,
        tools: Catalog,
        lists_directory: str | None = None,
        policies: Mapping[str, str] = NO_POLICIES,
    ) -> None:
        """`servers` are by key; `lists_directory` caches their lists; `policies` are the defaults by kind of tool."""
        self.tools = tools
        self.routes = Routes()
        self.on_changed: list[Callable[[], object]] = []  # called after a list was taken in
        self.servers = servers
        self._policies = policies
        self._parts: list[CatalogPart] = []
        self._disabled_tools = Catalog()  # which a search names without finding them
        self._approvals = approvals
        self._lists_directory = lists_directory
        self._index = Index(MemoryStore())  # of resources, templates, prompts and skills
        self._lists: dict[str, UpstreamLists] = {}
        self._intakes: dict[str, object] = {}  # key → identity of the latest intake, which ends an earlier one
        self._searchable: dict[str, dict[str, str]] = {}  # key → public name → fingerprint of what `tools` has
        self._problems: dict[str, tuple[str, ...]] = {}
        self._settings_problems: dict[str, tuple[str, ...]] = {}

    def blocked_server(self, server: ServerConfig) -> str | None:
        """Return why a server may not be started or contacted, or None."""
        return self._approvals.blocked_server(server)

    def load(self, server: ServerConfig) -> bool:
        """Take in the cached lists of a server, and return whether there are any that may be used."""
        lists = load_lists(self._lists_directory, server.key, server.identity)
        if lists is None or self.blocked_server(server) is not None:
            return False
        self.take_in(server.key, lists)
        return True

    async def update(self, server: ServerConfig, lists: UpstreamLists) -> None:
        """Take in new lists of a server while other tasks go on, and cache them."""
        lists = lists.complete_from(self.lists(server.key))
        for _ in self.intake_steps(server.key, lists):
            await checkpoint()
        if self.lists(server.key) is lists:  # and not a newer one
            cached = lists._replace(problems=self._problems[server.key])
            save_lists(self._lists_directory, server.key, server.identity, cached)

    def lists(self, key: str) -> UpstreamLists:
        """Return the latest lists of a server."""
        return self._lists.get(key, UpstreamLists())

    def is_listed(self, key: str) -> bool:
        """Return whether lists of a server have been taken in completely."""
        return key in self._problems

    def problems(self, key: str) -> tuple[str, ...]:
        """Return what cannot be used of a server's lists, and of the user's settings for its tools."""
        return (*self._settings_problems.get(key, ()), *self._problems.get(key, ()))

    def part(self, keys: Collection[str], offers: Callable[[str], bool], tools: Catalog) -> "CatalogPart":
        """Return the part of this catalog with these servers, and with the tools whose public names are offered.

        `tools` is the empty catalog in which it searches.
        """
        part = CatalogPart(self, {key: server for key, server in self.servers.items() if key in keys}, offers, tools)
        for key, lists in self._lists.items():
            if key in part.servers:
                part.take_in(key, lists)
        self._parts.append(part)
        return part

    def refresh(self) -> None:
        """Apply approvals that were given since, by any process."""
        if self._approvals.refresh():
            for key, lists in list(self._lists.items()):
                self.take_in(key, lists)

    def route(self, name: str) -> Route:
        """Return where a tool's name leads; raise NotFound or, if it is blocked, ToolError."""
        self.refresh()
        route = self.routes.tools.get(name)
        if route is None:
            nearest = self.nearest(name)
            advice = f"Did you mean {' or '.join(nearest)}?" if nearest else "Find tools with search_tools."
            raise NotFound(f"There is no tool {name[:200]!r}. {advice}")
        if route.offered.disabled:
            raise ToolError(f"{_describe_disabled(route)}. Use another tool, or ask the user.")
        if route.blocked:
            raise ToolError(
                f"{name} is blocked because it {route.blocked}. "
                f"A person has to approve it: run `onhand mcp review {route.key}`."
            )
        return route

    def approved_route(self, key: str, tool: types.Tool) -> Route | None:
        """Return the route to a listed tool if it is approved and still the one that was checked."""
        self.refresh()
        route = self.routes.tool_of(key, tool.name)
        definition = definition_of(tool.model_dump(by_alias=True, mode="json", exclude_none=True))
        is_same = route is not None and not route.blocked and route.fingerprint == fingerprint(definition)
        return route if is_same else None

    def nearest(self, name: str) -> tuple[str, ...]:
        """Return the tools that an unknown name may have meant."""
        self.refresh()
        return _tool_names(self.tools.nearest(name))

    def search(self, query: str, limit: int = 5) -> ToolSearchResult:
        """Return the tools that match a query best, each with the words that it was found by."""
        self.refresh()
        result = self.tools.search(query, limit, explain=True)
        server = next((term.name for term in result.unknown if term.name in self.servers), "")
        if server and not result.hits:
            result = result._replace(reason=f"no tool of {server} can be used now")
        unknown = (term for term in result.unknown if term.name not in self.servers)
        result = result._replace(unknown=tuple(term._replace(nearest=_tool_names(term.nearest)) for term in unknown))
        return self._mention_disabled(result) if len(self._disabled_tools) else result

    def _mention_disabled(self, result: ToolSearchResult) -> ToolSearchResult:
        """Add a note about each disabled tool that the query names or that fits it as well as what was found."""
        disabled = self._disabled_tools.search(result.query, MAX_MENTIONED, explain=True)
        fewest = max((_count_words(hit) for hit in result.hits), default=0)
        mentioned = (hit.name for hit in disabled.hits if not hit.terms or _count_words(hit) >= fewest)
        routes = [self.routes.tools[name] for name in mentioned]
        names = {term.name for term in disabled.unknown}
        return result._replace(
            unknown=tuple(term for term in result.unknown if term.name in names or not disabled.hits),
            notes=(*result.notes, *map(_describe_disabled, routes)),
        )

    def discover_relevant(self, intent: str, limit: int = 5) -> Relevant:
        """Return the tools, resources and prompts that match an intent."""
        resources, prompts = (
            self._index.keyword(intent, Filter(tags=(kind,)), limit).hits for kind in ("resource", "prompt")
        )
        return Relevant(self.search(intent, limit), resources, prompts)

    def skills(self) -> list[dict[str, Any]]:
        """Return the skills of all servers under public addresses, except those with hidden text."""
        skills = ((key, skill) for key, lists in self._lists.items() for skill in lists.skills)
        return [_render_skill(key, skill) for key, skill in skills if is_visible(skill)]

    def take_in(self, key: str, lists: UpstreamLists) -> None:
        """Take in lists of a server at once."""
        for _ in self.intake_steps(key, lists):
            pass

    def intake_steps(self, key: str, lists: UpstreamLists) -> Iterator[None]:
        """Take lists in step by step, so that other tasks can run in between; a newer intake ends this one."""
        intake = self._intakes[key] = object()
        problems = list(lists.problems)
        self._lists[key] = lists
        for _ in self._take_in_tools(key, lists, problems):
            yield
            if self._intakes[key] is not intake:
                return
        problems += self.routes.replace_others(key, lists)
        self._index_others(key, lists, problems)
        self._problems[key] = tuple(dict.fromkeys(problems))[:MAX_PROBLEMS]
        for part in self._parts:
            if key in part.servers:
                yield from part.intake_steps(key, lists)
        for on_changed in self.on_changed:
            on_changed()

    def _take_in_tools(self, key: str, lists: UpstreamLists, problems: list[str]) -> Iterator[None]:
        tools = _tools_by_public_name(key, lists, problems)
        # By public name: if another tool gets the same public name later, that is a change too.
        definitions = {_short_name(key, name): definition_of(tool) for name, tool in tools.items()}
        scans = {}
        for number, (short, definition) in enumerate(definitions.items(), 1):
            if not self._approvals.is_approved(key, short, definition):
                scans[short] = scan_definition(definition)
            if number % BATCH == 0:
                yield
        offered = offer_tools(key, self.servers[key].tools, tools.values(), self._policies)
        self._settings_problems[key] = offered.problems if "tools" not in lists.unread else ()
        upstream_names = {tool["name"] for tool in tools.values()}
        others = {route.upstream_name for route in self.routes.tools.values() if route.key != key} - upstream_names
        blocked = self._approvals.screen(key, definitions, others, scans)
        routes: dict[str, Route] = {}
        for number, (name, tool) in enumerate(tools.items(), 1):
            short = _short_name(key, name)
            how = offered.tools[tool["name"]]
            name = name if how.name == tool["name"] else public_name(key, how.name)
            try:
                rendered = _render_tool(name, {**tool, **how.changes})
                pin = fingerprint(definitions[short])
                routes[name] = Route(key, tool["name"], pin, rendered, blocked.get(short, ""), how)
            except ValidationError as error:
                problems.append(str(error).splitlines()[0])
            if number % BATCH == 0:
                yield
        before = {route.upstream_name for route in self.routes.tools.values() if route.key == key}
        self.routes.replace_tools(key, routes)
        self._screen_again(upstream_names - before, key)
        yield  # a newer intake of this server may have begun
        yield from self._update_search(key, routes, problems)

    def _screen_again(self, names: set[str], key: str) -> None:
        """Block tools of other servers that tell a model how to use these tools, which were unknown until now."""
        for other, lists in self._lists.items() if names else ():
            if other != key and self._approvals.mentions_any(other, names):
                self.take_in(other, lists)

    def _update_search(self, key: str, routes: Mapping[str, Route], problems: list[str]) -> Iterator[None]:
        self._disabled_tools.clear(server=key)
        disabled = [route for route in routes.values() if route.offered.disabled]
        self._disabled_tools.add(catalog_tool(route.tool, key) for route in disabled)
        searchable = self._searchable.setdefault(key, {})
        usable = {name: route for name, route in routes.items() if route.is_usable and is_for_models(route.tool)}
        removed = [name for name in searchable if name not in usable]
        for start in range(0, len(removed), BATCH):
            batch = removed[start : start + BATCH]
            self.tools.remove([f"{key}/{name}" for name in batch])
            for name in batch:
                del searchable[name]
            yield
        new = [route for name, route in usable.items() if searchable.get(name) != route.fingerprint]
        for start in range(0, len(new), BATCH):
            some = new[start : start + BATCH]
            added = self.tools.add(catalog_tool(route.tool, key) for route in some)
            problems += [reason for _, reason in added.refused]
            searchable.update((route.tool.name, route.fingerprint) for route in some)
            yield

    def _index_others(self, key: str, lists: UpstreamLists, problems: list[str]) -> None:
        documents: dict[str, Document] = {}
        for document in _documents(key, lists):
            try:
                documents[document.id] = validate_document(document)
            except InputError as error:
                problems.append(f"an item cannot be indexed: {error}")
        indexed = self._index.store.scan(Filter(scope=(key,)), limit=10**9)
        self._index.delete([document_id for document_id in indexed if document_id not in documents])
        self._index.put(documents.values())


class CatalogPart(UpstreamCatalog):
    """A part of a catalog, which knows nothing of the rest: neither a search nor an error tells that there is more.

    What is approved was decided by the whole catalog, which also knows of tools that steer to others.
    """

    def __init__(
        self,
        whole: UpstreamCatalog,
        servers: Mapping[str, ServerConfig],
        offers: Callable[[str], bool],
        tools: Catalog,
    ) -> None:
        super().__init__(servers, Approvals(), tools)
        self._whole = whole
        self._offers = offers

    def refresh(self) -> None:
        """Apply approvals that were given since, by any process."""
        self._whole.refresh()

    def problems(self, key: str) -> tuple[str, ...]:
        """Return nothing, because problems name tools of the whole catalog."""
        return ()

    def _take_in_tools(self, key: str, lists: UpstreamLists, problems: list[str]) -> Iterator[None]:
        tools = self._whole.routes.tools
        routes = {name: route for name, route in tools.items() if route.key == key and self._offers(name)}
        self.routes.replace_tools(key, routes)
        yield from self._update_search(key, routes, problems)


def tool_for_era(tool: types.Tool, is_modern: bool) -> types.Tool:
    """Return a tool as clients of a protocol era may see it: in the legacy era, output schemas must be objects."""
    schema = tool.output_schema
    is_allowed = is_modern or schema is None or schema.get("type") == "object"
    return tool if is_allowed else tool.model_copy(update={"output_schema": None})


def catalog_tool(tool: types.Tool, key: str = "") -> CatalogTool:
    """Return the catalog's entry for a tool of the server with this key, or for a local tool."""
    annotations = annotations_of(tool)
    return CatalogTool(
        tool.name,
        tool.description or "",
        tool.input_schema,
        "mcp" if key else "builtin",
        key,
        tool.title or annotations.get("title") or "",
        output_schema=tool.output_schema or {},
        annotations=annotations,
    )


def is_visible(item: Any) -> bool:
    """Return whether an item has no hidden text."""
    return not any(map(is_hidden_in, texts_in(item)))


def _tools_by_public_name(key: str, lists: UpstreamLists, problems: list[str]) -> dict[str, dict[str, Any]]:
    """Return the listed tools by their public names; the first one wins a name that several would have."""
    tools: dict[str, dict[str, Any]] = {}
    for tool in lists.tools:
        try:
            name = public_name(key, tool["name"])
        except InputError as error:
            problems.append(str(error))
            continue
        first = tools.setdefault(name, tool)
        if first is not tool and first["name"] == tool["name"]:
            problems.append(f"it lists {tool['name'][:100]!r} twice: only the first is used")
        elif first is not tool:
            problems.append(f"two of its tools would be called {name}: only {first['name'][:100]!r} is used")
    return tools


def _describe_disabled(route: Route) -> str:
    return f"{route.tool.name} is disabled: {route.offered.disabled}"


def _count_words(hit: ToolHit) -> int:
    """Return how many words of the query a tool was found by."""
    return len({term for term, *_ in hit.terms})


def _tool_names(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the names in catalog ids: unlike in other catalogs, no two servers share a name."""
    return tuple(dict.fromkeys(split_id(tool_id)[1] for tool_id in ids))


def _short_name(key: str, name: str) -> str:
    """Return a public name without its server: mostly the server's own name for the tool."""
    return name.removeprefix(f"{key}{SEPARATOR}")


def _render_tool(name: str, tool: Mapping[str, Any]) -> types.Tool:
    """Return a tool as clients see it: under its public name, sanitized, and with safe icons only."""
    cleaned = sanitize_json({field: value for field, value in tool.items() if field != "icons"}, MAX_DEPTH)
    icons = [icon for icon in tool.get("icons") or () if _is_picture(icon.get("src", ""))]
    return types.Tool.model_validate({**cleaned, "name": name, **({"icons": icons} if icons else {})})


def _is_picture(source: str) -> bool:
    return source.startswith(("https://", "data:image/png;base64,", "data:image/jpeg;base64,"))


def _render_skill(key: str, skill: Mapping[str, Any]) -> dict[str, Any]:
    files = skill.get("resources")
    if isinstance(files, list):
        files = [
            {**file, "uri": public_address(key, str(file.get("uri")))} for file in files if isinstance(file, Mapping)
        ]
    return {**skill, "uri": public_address(key, str(skill.get("uri"))), "resources": files}


def _documents(key: str, lists: UpstreamLists) -> Iterator[Document]:
    """Yield the search documents of everything listed that is not a tool."""
    for skill in lists.skills:
        if isinstance(skill.get("uri"), str) and isinstance(skill.get("frontmatter"), Mapping):
            yield _document("resource", key, public_address(key, skill["uri"]), skill["frontmatter"])
    for resource in lists.resources:
        yield _document("resource", key, public_address(key, resource["uri"]), resource)
    for template in lists.templates:
        yield _document("template", key, public_address(key, template["uriTemplate"]), template)
    for prompt in lists.prompts:
        with suppress(InputError):  # which Routes reports
            yield _document("prompt", key, public_name(key, prompt["name"]), prompt)


def _document(kind: str, key: str, name: str, item: Mapping[str, Any]) -> Document:
    title = sanitize(str(item.get("title") or item.get("name") or name))
    description = sanitize(str(item.get("description") or ""))
    text = f"{title}\n{description}\n{sanitize(name)}"
    return Document(f"{kind}:{name}", title, text, tags=(kind,), scope=key, kind=kind)
