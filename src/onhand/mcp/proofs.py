"""Is a file of another server's skill what its list says? Its size, its digest, and what SKILL.md says of itself.

The skills extension, SEP-2640, asks this of whoever reads a skill: what is not as it was listed is not used. It reads
nothing itself, and nothing is read before somebody asks for it.
"""

import hashlib
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import mcp_types as types

from onhand.markdown.frontmatter import read_front_matter


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
