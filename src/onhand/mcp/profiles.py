"""A profile: the part of the servers, tools and corpora that a client is served, by names and patterns."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from onhand.mcp.tool_settings import matches_any
from onhand.text import one_line

Problems = Callable[[], Sequence[str]]
"""Returns the problems with a profile, as far as they are known by now."""


class Profile(NamedTuple):
    """What a client is served; by default, everything."""

    name: str = ""
    servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    corpora: tuple[str, ...] = ("*",)

    def has_server(self, key: str) -> bool:
        """Return whether a server belongs to it."""
        return matches_any(key, self.servers)

    def has_tool(self, name: str) -> bool:
        """Return whether a tool belongs to it, by the name that clients see."""
        return matches_any(name, self.tools)

    def has_corpus(self, name: str) -> bool:
        """Return whether a corpus belongs to it."""
        return matches_any(name, self.corpora)

    def find_unknown(self, member: str, existing: Iterable[str]) -> list[str]:
        """Return a problem for each name of a member, such as "servers", that fits nothing that exists."""
        known = list(existing)
        unknown = [name for name in getattr(self, member) if name != "*"]
        unknown = [name for name in unknown if not any(matches_any(one, (name,)) for one in known)]
        has = ", ".join(known[:MAX_NAMED]) + (f" and {len(known) - MAX_NAMED:,} more" if len(known) > MAX_NAMED else "")
        return [
            f"profile {self.name}: {member}: {one_line(name, 100)!r} fits none of those that exist: {has or 'none'}"
            for name in unknown
        ]


MAX_NAMED = 20  # in a problem
EVERYTHING = Profile()
