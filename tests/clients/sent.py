"""What does a client send to its model? The same of every API: the tools that it lists, and what came of calls."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from loopback import Asked, Reply
from onhand.tools import Call


class Listing(NamedTuple):
    """An entry of the list of tools, as the client wrote it; some APIs list several tools in one entry."""

    names: tuple[str, ...]
    text: str  # compact JSON


class Sent(NamedTuple):
    """One request of a client to its model."""

    listings: tuple[Listing, ...]
    results: tuple[str, ...]  # of the calls of the conversation so far, as the model reads them
    rest: str  # the instructions and everything else that was said

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for listing in self.listings for name in listing.names)


class Dialect(NamedTuple):
    """An API of models: how a request is recognized and read, and how an answer is streamed."""

    is_asked: Callable[[Asked], bool]
    read: Callable[[dict[str, Any]], Sent]
    call: Callable[[Call], Reply]
    say: Callable[[str], Reply]


def compact(value: Any) -> str:
    """JSON as clients send it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def joined_text(content: Any) -> str:
    """The text of a content that is either one text or a list of blocks, some of which have text."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if "text" in block)
