"""How does Anthropic spell tools, calls and results? As blocks of messages; results are a user's.

`cache` marks the ends of what stays equal between requests: the tools and the system's text, and the conversation so
far. The API finds the longest beginning that it has seen at such a mark.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from onhand.formats.message import Message, as_mapping, split
from onhand.formats.names import ANTHROPIC, accepted_calls, accepted_tools
from onhand.tools.registry import Call

EPHEMERAL = {"cache_control": {"type": "ephemeral"}}
KEPT = ("thinking", "redacted_thinking")  # must be sent back as they were while tools are in use


class AnthropicFormat:
    """The Messages API."""

    name = "anthropic"

    def __init__(self, cache: bool = True) -> None:
        self._cache = cache

    def request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """`messages`, with `system` and `tools` where there are any; tools with a name that the API refuses are not."""
        system, rest = split(accepted_calls(messages, ANTHROPIC))
        wanted: dict[str, Any] = {}
        if taken := accepted_tools(tools, ANTHROPIC):
            wanted["tools"] = [dict(wired) for wired in taken]
        if system:
            wanted["system"] = [{"type": "text", "text": system}]
        wanted["messages"] = self._turns(rest)
        if self._cache:
            for marked in (wanted.get("system") or wanted.get("tools"), _last_content(wanted["messages"])):
                if marked:
                    marked[-1] = {**marked[-1], **EPHEMERAL}
        return wanted

    def spell(self, message: Message) -> dict[str, Any]:
        """An assistant's message: what was kept, the text, then the calls."""
        content: list[dict[str, Any]] = [dict(block) for block in message.kept]
        if message.text.strip():  # the API refuses blocks of nothing but white space
            content.append({"type": "text", "text": message.text})
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": as_mapping(call.arguments)}
            for call in message.calls
        ]
        return {"role": "assistant", "content": content}

    def read(self, said: Any) -> Message:
        """A response's message."""
        content = said.get("content") if isinstance(said, Mapping) else None
        blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
        texts = [block.get("text") for block in blocks if block.get("type") == "text"]
        calls = tuple(
            Call(block["name"], block.get("input"), str(block.get("id") or ""))
            for block in blocks
            if block.get("type") == "tool_use" and isinstance(block.get("name"), str)
        )
        kept = tuple(block for block in blocks if block.get("type") in KEPT)
        return Message("assistant", "".join(text for text in texts if isinstance(text, str)), calls, kept=kept)

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Roles take turns: what follows a message of its own role is joined to it."""
        turns: list[dict[str, Any]] = []
        for message in messages:
            turn = self._turn(message)
            if not turn["content"]:  # an answer without a word
                continue
            if turns and turns[-1]["role"] == turn["role"]:
                turns[-1]["content"] += turn["content"]
            else:
                turns.append(turn)
        return turns

    def _turn(self, message: Message) -> dict[str, Any]:
        if message.role == "assistant":
            return self.spell(message)
        blocks: list[dict[str, Any]] = [
            {
                "type": "tool_result",
                "tool_use_id": result.id,
                "content": result.text or "(no output)",
                **({} if result.ok else {"is_error": True}),
            }
            for result in message.results
        ]
        if message.text.strip():
            blocks.append({"type": "text", "text": message.text})
        return {"role": "user", "content": blocks}


def _last_content(turns: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    content: list[dict[str, Any]] | None = turns[-1]["content"] if turns else None
    return content if content and content[-1].get("type") not in KEPT else None  # thoughts take no mark
