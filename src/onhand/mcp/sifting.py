"""Which items of a server's list can be used? Those that are what the protocol says, each looked at by itself.

The SDK takes a page of a list or refuses it whole, so that one tool without a schema would cost its server all others.
Here what it would refuse is taken out before it looks, and named. Nothing here knows what an item is used for.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import mcp_types as types
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, ValidationError

from onhand.mcp.cleaning import clean_line

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

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
