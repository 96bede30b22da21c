"""How much of a tool's answer goes into a prompt at once? So many bytes; the rest is read on with a handle.

Texts are cut between characters, and have so many bytes together; so have pictures and all else that cannot be cut,
which is left out whole where there is more. A handle cannot be guessed and stands for what is left of one answer; it is
forgotten when it is old or when newer answers need the room.
"""

import json
from collections import Counter, OrderedDict
from secrets import token_urlsafe
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError

from onhand.errors import ToolError
from onhand.text import whole

MAX_KEPT_BYTES = 64 * 1024 * 1024
MAX_AGE_S = 3600.0
READ_TOOL = "read_on"


class Outputs:
    """What is left of answers that were cut."""

    def __init__(self, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._kept: OrderedDict[str, tuple[float, int, bytes]] = OrderedDict()  # handle → when, bytes at once, rest

    def capped(self, result: types.CallToolResult, max_bytes: int, is_checked: bool = False) -> types.CallToolResult:
        """The result within so many bytes of text; `is_checked` where a client checks the structured content."""
        if len(result.model_dump_json()) <= max_bytes:  # in most cases; never fewer than the bytes of its texts
            return result
        left, room, content, rest = max_bytes, max_bytes, [], b""
        left_out: list[tuple[str, int]] = []
        for block in result.content:
            text = _text_of(block)
            raw = b"" if text is None else whole(text).encode()
            if text is None:
                size = len(block.model_dump_json())
                if size <= room:
                    content.append(block)
                    room -= size
                else:
                    left_out.append((block.type, size))
            elif len(raw) <= left and not rest:
                content.append(block)
                left -= len(raw)
            else:
                kept = raw[:left].decode(errors="ignore") if not rest else ""
                rest += raw[len(kept.encode()) :] + b"\n"
                left = 0
                content += [_with_text(block, kept)] if kept else []
        structured, note = self._structured(result, max_bytes)
        if left_out:
            note += _named(left_out)
        if rest:
            handle = self._keep(rest, max_bytes)
            note += f'[{len(rest):,} more bytes: {READ_TOOL}(handle="{handle}") reads on]'
        if note:
            content.append(types.TextContent(text=note))
        is_error = result.is_error or (is_checked and structured is None and result.structured_content is not None)
        return result.model_copy(update={"content": content, "structured_content": structured, "is_error": is_error})

    def read(self, handle: str) -> str:
        """What comes next of an answer that was cut; each part has a handle of its own for what follows."""
        self._forget_old()
        if handle not in self._kept:
            raise ToolError("this handle is not known any more: call the tool again, and ask it for less")
        _, at_once, raw = self._kept[handle]
        text = raw[:at_once].decode(errors="ignore")
        rest = raw[len(text.encode()) :]
        if not rest:
            return text
        return f'{text}\n\n[{len(rest):,} more bytes: {READ_TOOL}(handle="{self._keep(rest, at_once)}") reads on]'

    def _structured(self, result: types.CallToolResult, max_bytes: int) -> tuple[Any, str]:
        size = len(json.dumps(result.structured_content, ensure_ascii=False).encode(errors="replace"))
        if result.structured_content is None or size <= max_bytes:
            return result.structured_content, ""
        return None, f"[structured content left out: {size:,} bytes, more than {max_bytes:,}] "

    def _keep(self, rest: bytes, at_once: int) -> str:
        self._forget_old()
        handle = token_urlsafe(18)
        self._kept[handle] = (anyio.current_time(), at_once, rest)
        while sum(len(raw) for _, _, raw in self._kept.values()) > self._max_kept_bytes:
            self._kept.popitem(last=False)
        return handle

    def _forget_old(self) -> None:
        oldest = anyio.current_time() - MAX_AGE_S
        while self._kept and next(iter(self._kept.values()))[0] < oldest:
            self._kept.popitem(last=False)


def capped_error(error: MCPError, max_bytes: int) -> MCPError:
    """An error in a server's own words, as it is or within so many bytes; then without the data beside them."""
    raw = whole(error.message).encode()
    if len(raw) + len(json.dumps(error.data)) <= max_bytes:
        return error
    kept = raw[:max_bytes].decode(errors="ignore")
    note = f" [cut, of {len(raw):,} bytes]" if len(raw) > max_bytes else ""
    return MCPError(code=error.code, message=kept + note)


def _text_of(block: Any) -> str | None:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.EmbeddedResource) and isinstance(block.resource, types.TextResourceContents):
        return block.resource.text
    return None


def _with_text(block: Any, text: str) -> Any:
    if isinstance(block, types.TextContent):
        return block.model_copy(update={"text": text})
    return block.model_copy(update={"resource": block.resource.model_copy(update={"text": text})})


def _named(left_out: list[tuple[str, int]]) -> str:
    kinds = ", ".join(f"{count} × {kind}" for kind, count in Counter(kind for kind, _ in left_out).items())
    return f"[{kinds} left out: {sum(size for _, size in left_out):,} bytes; ask the tool for less] "
