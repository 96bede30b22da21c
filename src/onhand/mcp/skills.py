"""How are skills served with proof of what is in them? The skills extension of the protocol, SEP-2640.

A skill is listed with the digest and size of each of its files, so that a host can tell that what it reads is what was
listed. A skill whose name or front matter the extension does not allow can be read as a resource, but is not listed.
"""

import hashlib
import re
from typing import TYPE_CHECKING, Any

import mcp_types as types

from onhand.corpora.skill_file import SKILL_FILE
from onhand.corpora.skill_reading import MAX_LISTED
from onhand.errors import InputError, NotFound, OnhandError
from onhand.markdown.frontmatter import read_front_matter
from onhand.mcp import addresses
from onhand.mcp.library import mime_type
from onhand.mcp.paging import page

if TYPE_CHECKING:
    from onhand.mcp.library import Library

EXTENSION = "io.modelcontextprotocol/skills"
MAX_BYTES = 16 * 1024 * 1024  # of a skill whose files are listed: the extension's own limit, as 512 files are
DYNAMIC = "dynamic"  # in place of a list of files
DIRECTORY = "inode/directory"
FRESH = {"ttlMs": 0, "cacheScope": "private"}  # files change at any time
_NAME = re.compile(r"(?!.*--)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")


class SkillParams(types.RequestParams):
    """Which skill, or which directory of one."""

    uri: str


class DirectoryParams(types.PaginatedRequestParams):
    """Which directory, and which page of what is in it."""

    uri: str


def listed(library: "Library", cursor: str | None) -> dict[str, Any]:
    """One page of the skills, each with the digests of its files."""
    names = [skill.name for skill in library.skills.all() if _NAME.fullmatch(skill.name)]
    shown, following = page(names, cursor)
    entries = [entry for name in shown if (entry := _entry(library, name)) is not None]
    return {"skills": entries, **({"nextCursor": following} if following else {}), **FRESH}


def entry_at(library: "Library", uri: str) -> dict[str, Any]:
    """The one skill whose SKILL.md has that address."""
    address = addresses.parsed(uri)
    entry = None
    if address is not None and address.kind == "skill" and address.path == SKILL_FILE and _NAME.fullmatch(address.name):
        entry = _entry(library, address.name)
    if entry is None:
        raise NotFound(f"there is no skill at {uri[:200]!r}: take an address from skills/list")
    return {"skill": entry, **FRESH}


def directory(library: "Library", uri: str, cursor: str | None) -> dict[str, Any]:
    """What is directly in a directory of a skill."""
    address = addresses.parsed(uri)
    if address is None or address.kind != "skill":
        raise NotFound(f"there is no directory at {uri[:200]!r}: take one from skills/list")
    below = f"{address.path.strip('/')}/".lstrip("/")
    inside = [path.removeprefix(below) for path in library.skills.files(address.name) if path.startswith(below)]
    if not inside:
        raise NotFound(f"{uri[:200]!r} is no directory: take one from skills/list, or read it with resources/read")
    children = sorted({f"{first}/" if rest else first for first, _, rest in (path.partition("/") for path in inside)})
    shown, following = page(children, cursor)
    resources = [_child(address.name, below, child) for child in shown]
    return {"resources": resources, **({"nextCursor": following} if following else {}), **FRESH}


def _child(name: str, below: str, child: str) -> dict[str, Any]:
    uri = addresses.skill_uri(name, below + child)
    kind = DIRECTORY if child.endswith("/") else mime_type(child)
    return {"uri": uri, "name": child.rstrip("/").encode(errors="replace").decode(), "mimeType": kind}


def _entry(library: "Library", name: str) -> dict[str, Any] | None:
    """A skill as the extension lists it; None if what its SKILL.md says of itself is not what the extension asks."""
    try:
        head = library.skill_bytes(name, SKILL_FILE)
        matter = read_front_matter(head.decode()).data
        files = _digests(library, name)
    except (OnhandError, UnicodeDecodeError):  # gone, or changed into what cannot be listed, since we looked
        return None
    if matter.get("name") != name or not matter.get("description"):
        return None
    return {"uri": addresses.skill_uri(name, SKILL_FILE), "frontmatter": matter, "resources": files}


def _digests(library: "Library", name: str) -> list[dict[str, Any]] | str:
    """Every file with its digest; DYNAMIC where there are more or larger ones than the extension lists."""
    paths = library.skills.files(name)
    if len(paths) >= MAX_LISTED:  # there may be more
        return DYNAMIC
    listed: list[dict[str, Any]] = []
    room = MAX_BYTES
    for path in paths:
        try:
            content = library.skills.file_bytes(name, path)
        except InputError:  # too large, or unreadable: a list without it would not be complete
            return DYNAMIC
        room -= len(content)
        if room < 0:
            return DYNAMIC
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        listed.append({"uri": addresses.skill_uri(name, path), "digest": digest, "size": len(content)})
    return listed
