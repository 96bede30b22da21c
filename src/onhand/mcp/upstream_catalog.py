"""Name, route and index what upstream servers offer.

What are the tools, prompts and resources of other servers called here? After the configuration's key, for ever.

`server__tool` comes from the key and the server's own name for the tool: never from what the server calls itself, and
never from what other servers there are. So a name cannot move to another server.
How does what a server listed look here? Under its name here, without what nobody would see, and as it is found.

It turns the wire's JSON into what clients are shown and what is searched; it keeps nothing and asks nobody.
Is a file of another server's skill what its list says? Its size, its digest, and what SKILL.md says of itself.

The skills extension, SEP-2640, asks this of whoever reads a skill: what is not as it was listed is not used. It reads
nothing itself, and nothing is read before somebody asks for it.
"""

import hashlib
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import mcp_types as types

from onhand.document import Document
from onhand.errors import InputError
from onhand.markdown.frontmatter import read_front_matter
from onhand.mcp.sanitize import clean, cleaned, is_hidden_in, texts_in
from onhand.mcp.upstream_lists import UpstreamLists
from onhand.text import digest
from onhand.tools.catalog_tool import CatalogTool
from onhand.tools.tool import NAME

SEPARATOR = "__"
MAX_CHARS = 128
ADDRESS = "mcp://"


def public_name(key: str, own: str) -> str:
    """The name here of what a server calls `own`; InputError when it is no name at all.

    What hosts and models cannot spell gets a plain name with a digest of the whole one.
    """
    if not own or not own.isprintable() or own != own.strip():
        raise InputError(f"{own[:100]!r} of {key} is no name: its server has to give it one that can be printed")
    name = f"{key}{SEPARATOR}{own}"
    if NAME.fullmatch(name):
        return name
    mark = digest(own.encode(errors="surrogatepass"))[:8]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", own).strip("_")
    return f"{key}{SEPARATOR}{plain[: MAX_CHARS - len(key) - 11]}_{mark}"


def public_address(key: str, uri: str) -> str:
    """The address here of a server's resource, or of a template of addresses."""
    return f"{ADDRESS}{key}/{uri}"


def own_address(address: str) -> tuple[str, str] | None:
    """Key and own address of what `public_address` made; None for any other address."""
    key, slash, uri = address.removeprefix(ADDRESS).partition("/")
    return (key, uri) if address.startswith(ADDRESS) and slash and uri else None


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


def documents_of(key: str, listing: UpstreamLists) -> Iterator[Document]:
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


class Proof(NamedTuple):
    """What a list says of one file; what it does not say is None."""

    digest: str | None = None
    size: int | None = None
    matter: Mapping[str, Any] | None = None  # of a SKILL.md

    def fails(self, content: bytes) -> str:
        """What of the content is not as it was listed; empty when all is."""
        if self.size is not None and len(content) != self.size:
            return "size"
        if self.digest is not None and f"sha256:{hashlib.sha256(content).hexdigest()}" != self.digest:
            return "digest"
        if self.matter is not None and not _says(content, self.matter):
            return "front matter"
        return ""


def proofs_of(skills: Iterable[Mapping[str, Any]]) -> dict[str, Proof]:
    """What can be proven of each file of listed skills, by its address."""
    found: dict[str, Proof] = {}
    for skill in skills:
        files = skill.get("resources")
        for file in files if isinstance(files, list) else ():
            if isinstance(file, Mapping):
                found[str(file.get("uri"))] = Proof(str(file.get("digest")), _size(file.get("size")))
        head, matter = str(skill.get("uri")), skill.get("frontmatter")
        if isinstance(matter, Mapping):
            found[head] = found.get(head, Proof())._replace(matter=matter)
    return found


def contents_of(result: types.ReadResourceResult) -> Iterator[tuple[str, bytes]]:
    """The address and the bytes of all that was read."""
    for one in result.contents:
        yield str(one.uri), b64decode(one.blob) if isinstance(one, types.BlobResourceContents) else one.text.encode()


def _size(said: Any) -> int | None:
    return said if isinstance(said, int) else None


def _says(content: bytes, matter: Mapping[str, Any]) -> bool:
    """Whether the front matter is the listed one, field by field; readers of YAML differ in what `1.0` is."""
    text = content.decode(errors="replace")
    return matter in (read_front_matter(text).data, read_front_matter(text, typed=False).data)
