"""How does what a server listed look here? Under its name here, without what nobody would see, and as it is found.

It turns the wire's JSON into what clients are shown and what is searched; it keeps nothing and asks nobody.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import mcp_types as types

from onhand.document import Document
from onhand.errors import InputError
from onhand.mcp.cleaning import clean, cleaned, is_hidden_in, texts_in
from onhand.mcp.listing import Listing
from onhand.mcp.naming import public_address, public_name
from onhand.tools.catalog_tool import CatalogTool


def shown_tool(name: str, tool: Mapping[str, Any]) -> types.Tool:
    """A tool as clients see it: under its name here, without what nobody would see, and icons that are pictures."""
    shown = cleaned({field: value for field, value in tool.items() if field != "icons"})
    icons = [icon for icon in tool.get("icons") or () if _is_picture(icon.get("src", ""))]
    return types.Tool.model_validate({**shown, "name": name, **({"icons": icons} if icons else {})})


def for_era(tool: types.Tool, is_newer: bool) -> types.Tool:
    """A tool as clients of an era may be told of it: in the older one, results are objects, or have no schema."""
    schema = tool.output_schema
    is_fine = is_newer or schema is None or schema.get("type") == "object"
    return tool if is_fine else tool.model_copy(update={"output_schema": None})


def _is_picture(source: str) -> bool:
    return source.startswith(("https://", "data:image/png;base64,", "data:image/jpeg;base64,"))


def findable(tool: types.Tool, key: str = "") -> CatalogTool:
    """A tool as the catalog keeps it: of the server with this key, or our own."""
    claims = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}
    return CatalogTool(
        tool.name,
        tool.description or "",
        tool.input_schema,
        "mcp" if key else "builtin",
        key,
        tool.title or claims.get("title") or "",
        output_schema=tool.output_schema or {},
        annotations=claims,
    )


def documents_of(key: str, listing: Listing) -> Iterator[Document]:
    """Everything of a list that is no tool, as it is found; what cannot be named is left out."""
    for skill in listing.skills:
        if isinstance(skill.get("uri"), str) and isinstance(skill.get("frontmatter"), Mapping):
            yield _document("resource", key, public_address(key, skill["uri"]), skill["frontmatter"])
    for resource in listing.resources:
        yield _document("resource", key, public_address(key, resource["uri"]), resource)
    for template in listing.templates:
        yield _document("template", key, public_address(key, template["uriTemplate"]), template)
    for prompt in listing.prompts:
        with suppress(InputError):
            yield _document("prompt", key, public_name(key, prompt["name"]), prompt)


def _document(kind: str, key: str, name: str, item: Mapping[str, Any]) -> Document:
    title = clean(str(item.get("title") or item.get("name") or name))
    said = clean(str(item.get("description") or ""))
    text = f"{title}\n{said}\n{clean(name)}"
    return Document(f"{kind}:{name}", title, text, tags=(kind,), scope=key, kind=kind)


def shown_skill(key: str, skill: Mapping[str, Any]) -> dict[str, Any]:
    """A skill under addresses that say whose it is."""
    return {**skill, "uri": public_address(key, str(skill.get("uri"))), "resources": _files(key, skill)}


def _files(key: str, skill: Mapping[str, Any]) -> Any:
    files = skill.get("resources")
    if not isinstance(files, list):
        return files
    return [{**file, "uri": public_address(key, str(file.get("uri")))} for file in files if isinstance(file, Mapping)]


def is_seen(skill: Any) -> bool:
    """Whether all that is said of a skill can be seen."""
    return not any(map(is_hidden_in, texts_in(skill)))
