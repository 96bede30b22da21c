"""Serve the skills of upstream servers.

How do skills of the servers behind us reach a client? The skills extension, SEP-2640, passed on.

Behind a gateway they stand after our own, under addresses that say whose they are; behind a transparent surface they
are the server's. What hides something is left out. Whether a file is what was listed, `proofs` says.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mcp_types as types
from mcp import MCPError
from pydantic import TypeAdapter

from onhand.errors import InputError, NotFound, UpstreamError
from onhand.mcp.client_callbacks import forwarded
from onhand.mcp.client_sessions import ProxySurface
from onhand.mcp.local import FRESH, DirectoryParams, SkillParams
from onhand.mcp.surface import Method, RequestContext
from onhand.mcp.upstream_catalog import is_seen, public_address

LIST, GET, DIRECTORY = "skills/list", "skills/get", "resources/directory/read"
_ANSWER: Any = TypeAdapter(dict[str, Any])  # the SDK types its results, of which this is none


def beside(front: ProxySurface, own: Mapping[str, Method]) -> dict[str, Method]:
    """The methods of a surface of our own, where they are about skills with those of all servers."""
    around = {LIST: _list_beside, GET: _get_beside, DIRECTORY: _directory_beside}
    return {
        name: method._replace(answer=partial(around[name], front, method.answer)) if name in around else method
        for name, method in own.items()
    }


def of_one(front: ProxySurface, key: str) -> dict[str, Method]:
    """The methods of one server's skills, under its own addresses."""
    return {
        LIST: Method(types.PaginatedRequestParams, partial(_list_of_one, front, key)),
        GET: Method(SkillParams, partial(_get_of_one, front, key)),
        DIRECTORY: Method(DirectoryParams, partial(_directory_of_one, front, key)),
    }


async def _list_beside(front: ProxySurface, own: Any, ctx: "RequestContext", params: Any) -> Any:
    """Our own skills, then, behind the last of them, those of the servers."""
    front.register_client(ctx)
    listed = await own(ctx, params)
    return listed if "nextCursor" in listed else {**listed, "skills": [*listed["skills"], *front.upstreams.skills()]}


async def _get_beside(front: ProxySurface, own: Any, ctx: "RequestContext", params: SkillParams) -> Any:
    front.register_client(ctx)
    theirs = next((skill for skill in front.upstreams.skills() if skill["uri"] == params.uri), None)
    return await own(ctx, params) if theirs is None else {"skill": theirs, **FRESH}


async def _directory_beside(front: ProxySurface, own: Any, ctx: "RequestContext", params: DirectoryParams) -> Any:
    try:
        key, uri = front.upstreams.owner(params.uri)
    except InputError:
        return await own(ctx, params)
    said = await _asked(front, key, ctx, DIRECTORY, params.model_copy(update={"uri": uri}))
    return _children(key, said, partial(public_address, key))


async def _list_of_one(front: ProxySurface, key: str, ctx: "RequestContext", params: Any) -> Any:
    try:
        said = await _asked(front, key, ctx, LIST, params or types.PaginatedRequestParams())
    except MCPError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
        return {"skills": [], **FRESH}  # before it is connected, nobody knows whether it has the extension
    return _page(said, "skills", [skill for skill in _items(key, said, "skills") if is_seen(skill)])


async def _get_of_one(front: ProxySurface, key: str, ctx: "RequestContext", params: SkillParams) -> Any:
    said = await _asked(front, key, ctx, GET, params)
    if not isinstance(said.get("skill"), Mapping) or not is_seen(said["skill"]):
        raise NotFound(f"there is no skill at {params.uri[:200]!r}: take an address from skills/list")
    return {"skill": said["skill"], **FRESH}


async def _directory_of_one(front: ProxySurface, key: str, ctx: "RequestContext", params: DirectoryParams) -> Any:
    return _children(key, await _asked(front, key, ctx, DIRECTORY, params), str)


async def _asked(front: ProxySurface, key: str, ctx: "RequestContext", method: str, params: Any) -> dict[str, Any]:
    front.register_client(ctx)
    sent = params.model_copy(update={"meta": forwarded(params.meta)})
    request = types.Request[Any, str](method=method, params=sent)
    return await front.upstreams.ask(key, ctx, lambda link: link.session.send_request(request, _ANSWER))


def _children(key: str, said: Mapping[str, Any], address: Callable[[str], str]) -> dict[str, Any]:
    """What is in a directory of a skill, under addresses of ours; without what could not be asked for or seen."""
    children = [one for one in _items(key, said, "resources") if isinstance(one.get("uri"), str) and is_seen(one)]
    return _page(said, "resources", [{**one, "uri": address(one["uri"])} for one in children])


def _items(key: str, said: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    items = said.get(field)
    if not isinstance(items, list):
        raise UpstreamError(f"{key} answered with something that is no list of {field}: it does not keep to MCP")
    return [one for one in items if isinstance(one, Mapping)]


def _page(said: Mapping[str, Any], field: str, items: list[Any]) -> dict[str, Any]:
    following = said.get("nextCursor")
    return {field: items, **({"nextCursor": following} if isinstance(following, str) else {}), **FRESH}
