"""Serve the skills of upstream servers by the skills extension, SEP-2640.

A gateway lists them after the local skills, under public addresses; a pass-through surface serves them under the
server's own. Skills with hidden text are left out. When a file is read, `upstream_routes` checks it against its list.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mcp_types as types
from mcp import MCPError
from pydantic import TypeAdapter

from onhand.errors import InputError, NotFound, UpstreamError
from onhand.mcp.client_callbacks import forwarded_meta
from onhand.mcp.client_sessions import ProxySurface
from onhand.mcp.local import FRESH, DirectoryParams, SkillParams
from onhand.mcp.surface import Method, RequestContext
from onhand.mcp.upstream_catalog import is_visible
from onhand.mcp.upstream_routes import public_address

LIST, GET, DIRECTORY = "skills/list", "skills/get", "resources/directory/read"
_RESULT: Any = TypeAdapter(dict[str, Any])  # the SDK has no types for an extension's results


def add_upstream_skills(front: ProxySurface, local: Mapping[str, Method]) -> dict[str, Method]:
    """Return the methods of a local surface, of which those about skills include the skills of all servers."""
    combined: dict[str, Callable[..., Any]] = {LIST: _list_all, GET: _get_any, DIRECTORY: _read_any_directory}
    return {
        name: method._replace(answer=partial(combined[name], front, method.answer)) if name in combined else method
        for name, method in local.items()
    }


def skills_of_server(front: ProxySurface, key: str) -> dict[str, Method]:
    """Return the methods of one server's skills, under its own addresses."""
    return {
        LIST: Method(types.PaginatedRequestParams, partial(_list_of_server, front, key)),
        GET: Method(SkillParams, partial(_get_of_server, front, key)),
        DIRECTORY: Method(DirectoryParams, partial(_read_directory_of_server, front, key)),
    }


async def _list_all(front: ProxySurface, list_local: Any, ctx: RequestContext, params: Any) -> Any:
    """Return a page of the local skills, of which the last one also has those of all servers."""
    front.register_client(ctx)
    page = await list_local(ctx, params)
    return page if "nextCursor" in page else {**page, "skills": [*page["skills"], *front.upstreams.skills()]}


async def _get_any(front: ProxySurface, get_local: Any, ctx: RequestContext, params: SkillParams) -> Any:
    front.register_client(ctx)
    upstream = next((skill for skill in front.upstreams.skills() if skill["uri"] == params.uri), None)
    return await get_local(ctx, params) if upstream is None else {"skill": upstream, **FRESH}


async def _read_any_directory(
    front: ProxySurface, read_local: Any, ctx: RequestContext, params: DirectoryParams
) -> Any:
    try:
        key, uri = front.upstreams.owner(params.uri)
    except InputError:
        return await read_local(ctx, params)
    result = await _request(front, key, ctx, DIRECTORY, params.model_copy(update={"uri": uri}))
    return _render_directory(key, result, partial(public_address, key))


async def _list_of_server(front: ProxySurface, key: str, ctx: RequestContext, params: Any) -> Any:
    try:
        result = await _request(front, key, ctx, LIST, params or types.PaginatedRequestParams())
    except MCPError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
        return {"skills": [], **FRESH}  # before it is connected, it is not known whether it has the extension
    return _render_page(result, "skills", [skill for skill in _items(key, result, "skills") if is_visible(skill)])


async def _get_of_server(front: ProxySurface, key: str, ctx: RequestContext, params: SkillParams) -> Any:
    skill = (await _request(front, key, ctx, GET, params)).get("skill")
    if not isinstance(skill, Mapping) or not is_visible(skill):
        raise NotFound(f"There is no skill at {params.uri[:200]!r}. Use an address from skills/list.")
    return {"skill": skill, **FRESH}


async def _read_directory_of_server(front: ProxySurface, key: str, ctx: RequestContext, params: DirectoryParams) -> Any:
    return _render_directory(key, await _request(front, key, ctx, DIRECTORY, params), str)


async def _request(front: ProxySurface, key: str, ctx: RequestContext, method: str, params: Any) -> dict[str, Any]:
    front.register_client(ctx)
    forwarded = params.model_copy(update={"meta": forwarded_meta(params.meta)})
    request = types.Request[Any, str](method=method, params=forwarded)
    return await front.upstreams.request(key, ctx, request, _RESULT)  # type: ignore[no-any-return]


def _render_directory(key: str, result: Mapping[str, Any], address: Callable[[str], str]) -> dict[str, Any]:
    """Return the files of a skill's directory under addresses of `address`, except those with hidden text."""
    files = [one for one in _items(key, result, "resources") if isinstance(one.get("uri"), str) and is_visible(one)]
    return _render_page(result, "resources", [{**file, "uri": address(file["uri"])} for file in files])


def _items(key: str, result: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    items = result.get(field)
    if not isinstance(items, list):
        raise UpstreamError(f"{key} violates the MCP protocol: its response is not a list of {field}.")
    return [item for item in items if isinstance(item, Mapping)]


def _render_page(result: Mapping[str, Any], field: str, items: list[Any]) -> dict[str, Any]:
    cursor = result.get("nextCursor")
    return {field: items, **({"nextCursor": cursor} if isinstance(cursor, str) else {}), **FRESH}
