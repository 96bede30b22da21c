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

    def find_unknown_servers(self, keys: Iterable[str]) -> list[str]:
        """Return a problem for each name or pattern that matches none of these servers."""
        return self._find_unknown("server", self.servers, keys, names_all=True)

    def find_unknown_corpora(self, names: Iterable[str]) -> list[str]:
        """Return a problem for each name or pattern that matches none of these corpora."""
        return self._find_unknown("corpus", self.corpora, names, names_all=True)

    def find_unknown_tools(self, names: Iterable[str]) -> list[str]:
        """Return a problem for each name or pattern that matches none of these tools; it names no other tools."""
        return self._find_unknown("tool", self.tools, names)

    def _find_unknown(
        self, noun: str, patterns: Iterable[str], existing: Iterable[str], names_all: bool = False
    ) -> list[str]:
        known = list(existing)
        more = f" and {len(known) - MAX_NAMED:,} more" if len(known) > MAX_NAMED else ""
        hint = f"; there are {', '.join(known[:MAX_NAMED])}{more}" if names_all and known else ""
        return [
            f"profile {self.name}: no {noun} matches {one_line(pattern, 100)!r}{hint}"
            for pattern in patterns
            if pattern != "*" and not any(matches_any(name, (pattern,)) for name in known)
        ]


MAX_NAMED = 20  # in a problem
EVERYTHING = Profile()
