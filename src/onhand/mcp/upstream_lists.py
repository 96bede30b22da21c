"""Fetch, validate and cache the lists of an upstream server: its tools, resources, templates, prompts and skills.

A list comes from a stranger: it may never end, or contain names twice or names that cannot be used. The SDK accepts a
page of a list or rejects it as a whole, so that one tool without a schema would cost a server all its others. Here,
each item is validated by itself, and the ones that cannot be used are dropped and reported as problems.
"""

import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientSession
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, ValidationError

from onhand.errors import OnhandError
from onhand.fsio import make_directories, open_regular, write_atomic
from onhand.mcp.local import EXTENSION
from onhand.mcp.upstream_transport import is_ended, is_expired, is_timeout
from onhand.text import one_line
from onhand.tools.arguments import find_dangling_reference

Items = tuple[dict[str, Any], ...]
MAX_PAGES = 1_000
MAX_ITEMS = 50_000  # of each kind
MAX_PROBLEMS = 100  # of one server
MAX_PAGE_PROBLEMS = 20
MAX_ITEM_DEPTH = 150  # of an item; messages are cut at a greater depth, so whatever was cut is deeper than this
MAX_QUOTED_CHARS = 100  # of a name or a reason
MAX_FILE_BYTES = 256 * 1024 * 1024
DROPPED = "onhand/refused"  # in the `_meta` of a page: the problems with what was dropped from it
_DEFAULTS = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}  # of a page that has them wrong


class UpstreamLists(NamedTuple):
    """What a server listed, as JSON of the wire."""

    tools: Items = ()
    resources: Items = ()
    templates: Items = ()
    prompts: Items = ()
    instructions: str = ""
    ttl_s: float | None = None  # after which the lists should be fetched again
    problems: tuple[str, ...] = ()
    skills: Items = ()  # of the skills extension
    unread: tuple[str, ...] = ()  # the kinds that could not be fetched

    def complete_from(self, before: "UpstreamLists") -> "UpstreamLists":
        """Return the same lists with earlier ones in place of those that could not be fetched."""
        return self._replace(**{kind: getattr(before, kind) for kind in self.unread})


class _Skill(BaseModel):
    model_config = ConfigDict(extra="allow")


class SkillsPage(types.PaginatedResult):
    """A page of skills, which are an extension of the protocol."""

    skills: list[_Skill]


async def fetch_lists(session: ClientSession) -> UpstreamLists:
    """Return everything that a server offers; a kind that it does not serve is empty."""
    offered = session.server_capabilities
    fetcher = _Fetcher()
    tools: Items = ()
    resources: Items = ()
    templates: Items = ()
    prompts: Items = ()
    skills: Items = ()
    if offered and offered.tools:
        tools = fetcher.usable_tools(await fetcher.fetch(session.list_tools, "tools"))
    if offered and offered.resources:
        resources = await fetcher.try_fetch("resources", session.list_resources, "resources")
        templates = await fetcher.try_fetch("templates", session.list_resource_templates, "resource_templates")
    if offered and offered.prompts:
        prompts = await fetcher.try_fetch("prompts", session.list_prompts, "prompts")
    ttl = min(fetcher.ttls) if fetcher.ttls else None  # that of skills does not count
    if offered and EXTENSION in (offered.extensions or {}):

        async def list_skills(params: types.PaginatedRequestParams) -> SkillsPage:
            request = types.Request[types.PaginatedRequestParams, str](method="skills/list", params=params)
            return await session.send_request(request, SkillsPage)

        skills = await fetcher.try_fetch("skills", list_skills, "skills")
    instructions = session.instructions or ""
    problems, unread = tuple(fetcher.problems), tuple(fetcher.unread)
    return UpstreamLists(tools, resources, templates, prompts, instructions, ttl, problems, skills, unread)


class _Fetcher:
    """Fetches lists page by page, and collects what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.unread: list[str] = []
        self.ttls: list[float] = []

    async def fetch(self, send: Callable[..., Awaitable[Any]], field: str) -> Items:
        """Return all items of a list."""
        items: list[dict[str, Any]] = []
        cursors: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await send(params=types.PaginatedRequestParams(cursor=cursor))
            items += [item.model_dump(by_alias=True, mode="json", exclude_none=True) for item in getattr(page, field)]
            self.problems += _dropped_from(page)[: max(MAX_PROBLEMS - len(self.problems), 0)]
            if "ttl_ms" in page.model_fields_set:  # otherwise it is the SDK's default of 0, which the server never sent
                self.ttls.append(page.ttl_ms / 1000)
            cursor = page.next_cursor
            if cursor is None:
                return tuple(items[:MAX_ITEMS])
            if cursor in cursors or len(items) > MAX_ITEMS:
                count = min(len(items), MAX_ITEMS)
                self.problems.append(f"its list of {field} does not end: only the first {count:,} are used")
                return tuple(items[:MAX_ITEMS])
            cursors.add(cursor)
        self.problems.append(f"its list of {field} has more than {MAX_PAGES} pages: the rest is ignored")
        return tuple(items)

    def usable_tools(self, tools: Items) -> Items:
        """Return the tools without those whose schema refers to a part that it does not have."""
        usable = []
        for tool in tools:
            if reason := find_dangling_reference(tool["inputSchema"]):
                problem = f"its tool {one_line(tool['name'], MAX_QUOTED_CHARS)!r} is ignored: {one_line(reason, 300)}"
                self.problems += [problem] if len(self.problems) < MAX_PROBLEMS else []
            else:
                usable.append(tool)
        return tuple(usable)

    async def try_fetch(self, kind: str, send: Callable[..., Awaitable[Any]], field: str) -> Items:
        """Return all items of a list, or none if it cannot be read: many servers announce kinds that they lack."""
        try:
            return await self.fetch(send, field)
        except ValidationError:
            self.problems.append(f"its list of {kind} cannot be read: it violates the MCP protocol")
            self.unread.append(kind)
        except MCPError as error:
            if is_ended(error) or is_expired(error) or is_timeout(error):
                raise
            if error.code != types.METHOD_NOT_FOUND:
                self.problems.append(f"it refuses to list its {kind}: {one_line(error.message, 200)}")
                self.unread.append(kind)
        return ()


def save_lists(directory: str | None, key: str, identity: str, lists: UpstreamLists) -> None:
    """Cache lists for the next start; if they cannot be written, the next start fetches them again."""
    if directory is None:
        return
    content = json.dumps({"identity": identity, "listing": lists._asdict()})
    with suppress(OSError):
        make_directories(directory, 0o700)
        write_atomic(os.path.join(directory, f"{key}.json"), content.encode())


def time_listed(directory: str | None, key: str) -> float | None:
    """Return when the lists of a server were cached, in seconds since 1970, or None."""
    try:
        return None if directory is None else os.stat(os.path.join(directory, f"{key}.json")).st_mtime
    except OSError:
        return None


def load_lists(directory: str | None, key: str, identity: str) -> UpstreamLists | None:
    """Return the cached lists of the same server, or None."""
    if directory is None:
        return None
    try:
        with open_regular(os.path.join(directory, f"{key}.json")) as file:
            content = json.loads(file.read(MAX_FILE_BYTES))
        if content["identity"] != identity:
            return None
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in content["listing"].items()
        }
        return UpstreamLists(**fields)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OnhandError):
        return None


class _Kind(NamedTuple):
    """A list of the protocol or of an extension."""

    field: str  # that has the items
    noun: str
    page: type[types.Result]


_KINDS = {
    "tools/list": _Kind("tools", "tool", types.ListToolsResult),
    "resources/list": _Kind("resources", "resource", types.ListResourcesResult),
    "resources/templates/list": _Kind("resourceTemplates", "template", types.ListResourceTemplatesResult),
    "prompts/list": _Kind("prompts", "prompt", types.ListPromptsResult),
    "skills/list": _Kind("skills", "skill", SkillsPage),
}
_Error = tuple[tuple[Any, ...], str]  # its location and its reason


def validate_lists(session: ClientSession) -> None:
    """Drop invalid items from every page that a session receives before the SDK validates it.

    The SDK has no hook for this, so the method that receives raw results is replaced.
    """
    dispatcher: Any = session._dispatcher
    send_raw_request = dispatcher.send_raw_request

    async def send_and_drop(method: str, *arguments: Any) -> Any:
        raw = await send_raw_request(method, *arguments)
        return drop_invalid_items(method, session.protocol_version or types.LATEST_PROTOCOL_VERSION, raw)

    dispatcher.send_raw_request = send_and_drop


def drop_invalid_items(method: str, version: str, raw: dict[str, Any]) -> dict[str, Any]:
    """Return a page without its invalid items, which its `_meta` reports; other results are returned as they are."""
    kind = _KINDS.get(method)
    if kind is None:
        return raw
    meta = raw.get("_meta")
    meta = {name: value for name, value in meta.items() if name != DROPPED} if isinstance(meta, Mapping) else None
    page = {**raw, "_meta": meta} if meta else {name: value for name, value in raw.items() if name != "_meta"}
    invalid = _find_invalid(kind, method, version, page)
    if not invalid:
        return page
    items = page.get(kind.field)
    valid = [item for number, item in enumerate(items) if number not in invalid] if isinstance(items, list) else items
    fields = {name: value for name, value in page.items() if name not in invalid}
    defaults = {name: value for name, value in _DEFAULTS.items() if name in invalid}
    problems = _render_problems(kind, items, invalid)
    return {**fields, **defaults, kind.field: valid, "_meta": {**(meta or {}), DROPPED: problems}}


def _dropped_from(page: types.Result) -> list[str]:
    problems: Any = (page.meta or {}).get(DROPPED, ())
    return list(problems)


def _find_invalid(kind: _Kind, method: str, version: str, page: dict[str, Any]) -> dict[int | str, str]:
    """Return why items, by their number, and other fields of a page, by their name, are invalid."""
    items = page.get(kind.field)
    invalid: dict[int | str, str] = {
        number: f"it is nested more than {MAX_ITEM_DEPTH} levels deep"
        for number, item in enumerate(items if isinstance(items, list) else ())
        if _is_deeper_than(MAX_ITEM_DEPTH, item)
    }
    for location, reason in (*_errors_of_version(method, version, page), *_errors_of_model(kind.page, page)):
        if location[0] == kind.field and len(location) > 1 and isinstance(location[1], int):
            invalid.setdefault(location[1], ": ".join(filter(None, [".".join(map(str, location[2:])), reason])))
        elif location[0] != kind.field:
            invalid.setdefault(location[0], reason)
    if method == "tools/list" and version in MODERN_PROTOCOL_VERSIONS:  # which requires clients to drop these
        for number, tool in enumerate(page["tools"] if isinstance(page.get("tools"), list) else ()):
            if number not in invalid and (problem := find_invalid_x_mcp_header(tool.get("inputSchema"))):
                invalid[number] = problem
    return invalid


def _is_deeper_than(levels: int, value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(inner) and (levels == 0 or any(_is_deeper_than(levels - 1, one) for one in inner))


def _errors_of_version(method: str, version: str, page: dict[str, Any]) -> Iterable[_Error]:
    try:
        validate_server_result(method, version, page)
    except KeyError:  # a list of an extension
        return ()
    except ValidationError as error:
        return _locate_errors(error)
    return ()


def _errors_of_model(model: type[BaseModel], page: dict[str, Any]) -> Iterable[_Error]:
    try:
        model.model_validate(page, by_name=False)
    except ValidationError as error:
        return _locate_errors(error)
    return ()


def _locate_errors(error: ValidationError) -> list[_Error]:
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    return [(one["loc"], one["msg"][:1].lower() + one["msg"][1:]) for one in errors if one["loc"]]


def _render_problems(kind: _Kind, items: Any, invalid: Mapping[int | str, str]) -> list[str]:
    ordered = sorted(invalid.items(), key=lambda entry: (isinstance(entry[0], str), entry[0]))  # items before fields
    problems = [
        f"its {kind.noun} {_render_name(items[place], place)} is ignored: {one_line(reason, MAX_QUOTED_CHARS)}"
        if isinstance(place, int)
        else f"the {place} of its list of {kind.noun}s is ignored: {one_line(reason, MAX_QUOTED_CHARS)}"
        for place, reason in ordered[:MAX_PAGE_PROBLEMS]
    ]
    more = len(invalid) - len(problems)
    return [*problems, f"and {more:,} more of its {kind.noun}s"] if more else problems


def _render_name(item: Any, number: int) -> str:
    fields = item if isinstance(item, Mapping) else {}
    names = (fields.get(field) for field in ("name", "uri", "uriTemplate"))
    name = next((name for name in names if isinstance(name, str)), None)
    return repr(one_line(name, MAX_QUOTED_CHARS)) if name else f"number {number + 1}"
