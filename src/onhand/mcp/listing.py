"""What does a server offer? Its tools, resources, templates, prompts and skills, and the same as it was last time.

A list comes from a stranger: pages that never end, names twice, names that cannot be used. What cannot be taken is a
problem in words. What was listed is kept in the user's cache, so that the next start need not wait for anybody.
"""

import json
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from onhand.errors import OnhandError
from onhand.mcp.cleaning import clean_line
from onhand.regular import open_file

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

Items = tuple[dict[str, Any], ...]
MAX_PAGES = 1_000
MAX_ITEMS = 50_000  # of each kind
MAX_PROBLEMS = 100  # of items that cannot be used
MAX_FILE_BYTES = 256 * 1024 * 1024


class Listing(NamedTuple):
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

    def beside(self, before: "Listing") -> "Listing":
        """The same, where a kind that could not be given is as it was before."""
        return self._replace(**{kind: getattr(before, kind) for kind in self.unread})


async def listed(session: "ClientSession") -> Listing:
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
    return Listing(tools, resources, templates, prompts, said, ttl, tuple(problems), skills, tuple(unread))


async def _skills(session: "ClientSession", problems: list[str]) -> Items:
    """The skills of a server that serves the extension for them."""
    import mcp_types as types

    from onhand.mcp.sifting import Skills
    from onhand.mcp.skills import EXTENSION

    async def send(params: types.PaginatedRequestParams) -> Skills:
        request = types.Request[types.PaginatedRequestParams, str](method="skills/list", params=params)
        return await session.send_request(request, Skills)

    offered = session.server_capabilities
    if offered is None or EXTENSION not in (offered.extensions or {}):
        return ()
    return await _pages(send, "skills", problems, [])


async def _pages(send: Callable[..., Awaitable[Any]], field: str, problems: list[str], ttls: list[float]) -> Items:
    import mcp_types as types

    from onhand.mcp.sifting import refused_of

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

    from onhand.mcp.failures import is_ended, is_expired, is_late

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


def keep(directory: str | None, key: str, identity: str, listing: Listing) -> None:
    """Keep a list for the next start; where nothing can be written, the next start asks again."""
    if directory is None:
        return
    from contextlib import suppress

    from onhand.replace import replace_file

    content = json.dumps({"identity": identity, "listing": listing._asdict()})
    with suppress(OSError):
        os.makedirs(directory, mode=0o700, exist_ok=True)
        replace_file(os.path.join(directory, f"{key}.json"), content.encode())


def kept(directory: str | None, key: str, identity: str) -> Listing | None:
    """What the same server listed last; None where that is not known."""
    if directory is None:
        return None
    try:
        with open_file(os.path.join(directory, f"{key}.json")) as file:
            content = json.loads(file.read(MAX_FILE_BYTES))
        if content["identity"] != identity:
            return None
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in content["listing"].items()
        }
        return Listing(**fields)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OnhandError):
        return None
