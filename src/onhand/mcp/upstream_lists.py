"""Fetch, validate and cache the lists of an upstream server.

What does a server offer? Its tools, resources, templates, prompts and skills, and the same as it was last time.

A list comes from a stranger: pages that never end, names twice, names that cannot be used. What cannot be taken is a
problem in words. What was listed is kept in the user's cache, so that the next start need not wait for anybody.
Which items of a server's list can be used? Those that are what the protocol says, each looked at by itself.

The SDK takes a page of a list or refuses it whole, so that one tool without a schema would cost its server all others.
Here what it would refuse is taken out before it looks, and named. Nothing here knows what an item is used for.
"""

import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, ValidationError

from onhand.errors import OnhandError
from onhand.fsio import open_regular
from onhand.mcp.sanitize import clean_line

Items = tuple[dict[str, Any], ...]
MAX_PAGES = 1_000
MAX_ITEMS = 50_000  # of each kind
MAX_PROBLEMS = 100  # of items that cannot be used
MAX_FILE_BYTES = 256 * 1024 * 1024


class UpstreamLists(NamedTuple):
    """What a server said it offers, as it said it; the wire's JSON."""

    tools: Items = ()
    resources: Items = ()
    templates: Items = ()
    prompts: Items = ()
    instructions: str = ""
    ttl_s: float | None = None  # after which it should be asked again
    problems: tuple[str, ...] = ()
    skills: Items = ()  # of the skills extension
    unread: tuple[str, ...] = ()  # kinds that it could not give this time

    def beside(self, before: "UpstreamLists") -> "UpstreamLists":
        """The same, where a kind that could not be given is as it was before."""
        return self._replace(**{kind: getattr(before, kind) for kind in self.unread})


async def listed(session: "ClientSession") -> UpstreamLists:
    """Everything that a server offers; a kind that it does not serve is empty."""
    offered = session.server_capabilities
    problems: list[str] = []
    unread: list[str] = []
    ttls: list[float] = []

    async def pages(send: Callable[..., Awaitable[Any]], field: str) -> Items:
        return await _pages(send, field, problems, ttls)

    async def if_it_can(kind: str, items: Awaitable[Items]) -> Items:
        return await _or_none(items, kind, problems, unread)

    tools = await pages(session.list_tools, "tools") if offered and offered.tools else ()
    resources: Items = ()
    templates: Items = ()
    prompts: Items = ()
    if offered and offered.resources:
        resources = await if_it_can("resources", pages(session.list_resources, "resources"))
        templates = await if_it_can("templates", pages(session.list_resource_templates, "resource_templates"))
    if offered and offered.prompts:
        prompts = await if_it_can("prompts", pages(session.list_prompts, "prompts"))
    ttl = min(ttls) if ttls else None
    skills = await if_it_can("skills", _skills(session, problems))
    said = session.instructions or ""
    return UpstreamLists(tools, resources, templates, prompts, said, ttl, tuple(problems), skills, tuple(unread))


async def _skills(session: "ClientSession", problems: list[str]) -> Items:
    """The skills of a server that serves the extension for them."""
    import mcp_types as types

    from onhand.mcp.local import EXTENSION
    from onhand.mcp.upstream_lists import Skills

    async def send(params: types.PaginatedRequestParams) -> Skills:
        request = types.Request[types.PaginatedRequestParams, str](method="skills/list", params=params)
        return await session.send_request(request, Skills)

    offered = session.server_capabilities
    if offered is None or EXTENSION not in (offered.extensions or {}):
        return ()
    return await _pages(send, "skills", problems, [])


async def _pages(send: Callable[..., Awaitable[Any]], field: str, problems: list[str], ttls: list[float]) -> Items:
    import mcp_types as types

    from onhand.mcp.upstream_lists import refused_of

    items: list[dict[str, Any]] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await send(params=types.PaginatedRequestParams(cursor=cursor))
        items += [one.model_dump(by_alias=True, mode="json", exclude_none=True) for one in getattr(page, field)]
        problems += refused_of(page)[: max(MAX_PROBLEMS - len(problems), 0)]
        if "ttl_ms" in page.model_fields_set:  # the SDK's own default is 0, which an older server never said
            ttls.append(page.ttl_ms / 1000)
        cursor = page.next_cursor
        if cursor is None:
            return tuple(items[:MAX_ITEMS])
        if cursor in seen or len(items) > MAX_ITEMS:
            problems.append(f"its list of {field} does not end: the first {min(len(items), MAX_ITEMS):,} are used")
            return tuple(items[:MAX_ITEMS])
        seen.add(cursor)
    problems.append(f"its list of {field} has more than {MAX_PAGES} pages: the others are left out")
    return tuple(items)


async def _or_none(pages: Awaitable[Items], what: str, problems: list[str], unread: list[str]) -> Items:
    """A list that cannot be read costs nothing else; many servers name a kind that they have no method for."""
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND
    from pydantic import ValidationError

    from onhand.mcp.upstream_transport import is_ended, is_expired, is_late

    try:
        return await pages
    except ValidationError:
        problems.append(f"its list of {what} cannot be read: it does not keep to MCP")
        unread.append(what)
    except MCPError as error:
        if is_ended(error) or is_expired(error) or is_late(error):
            raise
        if error.code != METHOD_NOT_FOUND:
            problems.append(f"it does not give its list of {what}: {clean_line(error.message, 200)}")
            unread.append(what)
    return ()


def save_lists(directory: str | None, key: str, identity: str, listing: UpstreamLists) -> None:
    """Keep a list for the next start; where nothing can be written, the next start asks again."""
    if directory is None:
        return
    from contextlib import suppress

    from onhand.fsio import write_atomic

    content = json.dumps({"identity": identity, "listing": listing._asdict()})
    with suppress(OSError):
        os.makedirs(directory, mode=0o700, exist_ok=True)
        write_atomic(os.path.join(directory, f"{key}.json"), content.encode())


def load_lists(directory: str | None, key: str, identity: str) -> UpstreamLists | None:
    """What the same server listed last; None where that is not known."""
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


REFUSED = "onhand/refused"  # in the `_meta` of a page: what was taken out of it, in words
MAX_TOLD = 20  # of one page
MAX_SAID_CHARS = 100  # of a name, or of a reason
_USUAL = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}  # of a page that should say it, and does not


class _Skill(BaseModel):
    model_config = ConfigDict(extra="allow")


class Skills(types.PaginatedResult):
    """A page of skills, whose list is no part of the protocol itself."""

    skills: list[_Skill]


class _Kind(NamedTuple):
    """A list that the protocol or an extension has."""

    field: str  # where its items are
    one: str  # what an item is called
    page: type[types.Result]


_KINDS = {
    "tools/list": _Kind("tools", "tool", types.ListToolsResult),
    "resources/list": _Kind("resources", "resource", types.ListResourcesResult),
    "resources/templates/list": _Kind("resourceTemplates", "template", types.ListResourceTemplatesResult),
    "prompts/list": _Kind("prompts", "prompt", types.ListPromptsResult),
    "skills/list": _Kind("skills", "skill", Skills),
}


def sift_lists(session: "ClientSession") -> None:
    """Have every page that a session asks for sifted before the SDK looks at it; it has no other place for that."""
    dispatcher: Any = session._dispatcher
    send = dispatcher.send_raw_request

    async def sent(method: str, *given: Any) -> Any:
        raw = await send(method, *given)
        return sifted(method, session.protocol_version or types.LATEST_PROTOCOL_VERSION, raw)

    dispatcher.send_raw_request = sent


def sifted(method: str, version: str, raw: dict[str, Any]) -> dict[str, Any]:
    """A page without what cannot be used, which its `_meta` names; all other results as they are."""
    kind = _KINDS.get(method)
    if kind is None:
        return raw
    meta = raw.get("_meta")
    said = {name: value for name, value in meta.items() if name != REFUSED} if isinstance(meta, Mapping) else None
    page = {**raw, "_meta": said} if said else {name: value for name, value in raw.items() if name != "_meta"}
    bad = _bad(kind, method, version, page)
    if not bad:
        return page
    items = page.get(kind.field)
    kept = [one for place, one in enumerate(items) if place not in bad] if isinstance(items, list) else items
    good = {name: value for name, value in page.items() if name not in bad}
    usual = {name: value for name, value in _USUAL.items() if name in bad}
    return {**good, **usual, kind.field: kept, "_meta": {**(said or {}), REFUSED: _told(kind, items, bad)}}


def refused_of(page: types.Result) -> list[str]:
    """What was taken out of a page."""
    told: Any = (page.meta or {}).get(REFUSED, ())
    return list(told)


def _bad(kind: _Kind, method: str, version: str, page: dict[str, Any]) -> dict[int | str, str]:
    """Why each place of the list, or each field beside the list, cannot be used."""
    found: dict[int | str, str] = {}
    for place, reason in (*_refused_by_version(method, version, page), *_refused_by(kind.page, page)):
        if place[0] == kind.field and len(place) > 1 and isinstance(place[1], int):
            found.setdefault(place[1], ": ".join(filter(None, [".".join(map(str, place[2:])), reason])))
        elif place[0] != kind.field:
            found.setdefault(place[0], reason)
    if method == "tools/list" and version in MODERN_PROTOCOL_VERSIONS:  # the protocol wants these left out
        for number, tool in enumerate(page["tools"] if isinstance(page.get("tools"), list) else ()):
            if number not in found and (wrong := find_invalid_x_mcp_header(tool.get("inputSchema"))):
                found[number] = wrong
    return found


def _refused_by_version(method: str, version: str, page: dict[str, Any]) -> Iterable[tuple[tuple[Any, ...], str]]:
    try:
        validate_server_result(method, version, page)
    except KeyError:  # a list of an extension
        return ()
    except ValidationError as error:
        return _places(error)
    return ()


def _refused_by(model: type[BaseModel], page: dict[str, Any]) -> Iterable[tuple[tuple[Any, ...], str]]:
    try:
        model.model_validate(page, by_name=False)
    except ValidationError as error:
        return _places(error)
    return ()


def _places(error: ValidationError) -> list[tuple[tuple[Any, ...], str]]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [(one["loc"], one["msg"][:1].lower() + one["msg"][1:]) for one in found if one["loc"]]


def _told(kind: _Kind, items: Any, bad: Mapping[int | str, str]) -> list[str]:
    told = [
        f"its {kind.one} {_name(items[place], place)} is left out: {clean_line(reason, MAX_SAID_CHARS)}"
        if isinstance(place, int)
        else f"the {place} of its list of {kind.one}s is not used: {clean_line(reason, MAX_SAID_CHARS)}"
        for place, reason in sorted(bad.items(), key=_in_order)[:MAX_TOLD]
    ]
    more = len(bad) - len(told)
    return [*told, f"and {more:,} more of its {kind.one}s"] if more else told


def _in_order(one: tuple[int | str, str]) -> tuple[bool, int, str]:
    """Items by their places, then fields by their names."""
    place = one[0]
    return (False, place, "") if isinstance(place, int) else (True, 0, place)


def _name(item: Any, place: int) -> str:
    said = next((item[field] for field in ("name", "uri", "uriTemplate") if _is_text(item, field)), None)
    return repr(clean_line(said, MAX_SAID_CHARS)) if said else f"number {place + 1}"


def _is_text(item: Any, field: str) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get(field), str)
