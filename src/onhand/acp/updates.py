"""What is an editor told of what happens? Each event of the loop as the updates that ACP has for it.

It translates and decides nothing: whether a call may run, and what it does, is for others to know.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from acp import schema

from onhand.agent.events import Answered, Began, Calling, Event, Nested, Retrying, Returned, Text, Thought
from onhand.agent.nested_rules import paths_of
from onhand.formats.message import as_mapping
from onhand.text import whole
from onhand.tools.registry import Call, Result

MAX_TITLE_CHARS = 120
MAX_SHOWN_CHARS = 200_000  # of a result, or of one side of a difference: an editor shows them, nobody reads more
KINDS: dict[str, schema.ToolKind] = {
    **dict.fromkeys(("read_file", "list_files", "stat_file", "get_document", "git"), "read"),
    **dict.fromkeys(("write_file", "edit_file"), "edit"),
    **dict.fromkeys(("glob", "grep", "search_tools", "context_search"), "search"),
    **dict.fromkeys(("run_command", "read_output", "list_jobs", "stop_job"), "execute"),
    **dict.fromkeys(("plan_add", "plan_update", "plan_ready", "plan_show"), "think"),
    "http_get": "fetch",
}
STOP_REASONS: dict[str, schema.StopReason] = {
    "answer": "end_turn",
    "max_turns": "max_turn_requests",
    "repeated": "max_turn_requests",
    "token_budget": "max_tokens",
    "max_tokens": "max_tokens",
    "context_full": "max_tokens",
    "refusal": "refusal",
    "cancelled": "cancelled",
}

Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.CurrentModeUpdate
    | schema.ConfigOptionUpdate
    | schema.SessionInfoUpdate
)


class Narrator:
    """Tells one conversation. It remembers which calls an editor has heard of: a call begins once."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._begun: set[str] = set()

    def updates(self, event: Event) -> Iterator[Update]:
        """What an editor is told of an event."""
        match event:
            case Text(text):
                yield said(text)
            case Thought(text):
                yield schema.AgentThoughtChunk(content=_text(text), session_update="agent_thought_chunk")
            case Retrying(reason, wait_s):
                yield thought(f"asking again in {wait_s:.0f} s: {reason}")
            case Calling(call):
                yield from self.begun(call)
                yield _progress(call, status="in_progress")
            case Returned(call, result):
                yield from self.begun(call)
                yield _progress(call, status="completed" if result.ok else "failed", **_outcome(result))
            case Nested(agent, event):
                yield from self._of_sub_agent(agent, event)

    def remembered(self, event: Event) -> Iterator[Update]:
        """What an editor is told of an event of a conversation that it opens again."""
        match event:
            case Began(goal):
                yield schema.UserMessageChunk(content=_text(goal), session_update="user_message_chunk")
            case Answered(message):
                if message.text:
                    yield said(message.text)
            case Text() | Thought() | Retrying() | Nested():
                pass  # the whole message follows
            case _:
                yield from self.updates(event)

    def begun(self, call: Call) -> Iterator[Update]:
        """That a call was made, unless that was said."""
        if call.id not in self._begun:
            self._begun.add(call.id)
            fields = described(call, self._directory)
            yield schema.ToolCallStart(session_update="tool_call", status="pending", **fields)

    def _of_sub_agent(self, agent: str, event: Event) -> Iterator[Update]:
        if isinstance(event, Calling):
            yield thought(f"{agent}: {title(event.call)}")


def described(call: Call, directory: str) -> dict[str, Any]:
    """What there is to say of a call: its kind, the files that it is about, and the difference that it would make."""
    arguments = as_mapping(call.arguments)
    locations = [_absolute(path, directory) for path in paths_of(call)]
    line = arguments.get("start_line") or arguments.get("line")
    fields: dict[str, Any] = {
        "tool_call_id": call.id,
        "title": title(call),
        "kind": KINDS.get(call.name, "other"),
        "raw_input": _shown(arguments),
    }
    if locations:
        at = int(line) if isinstance(line, int | float) and 0 < line < 2**31 else None
        fields["locations"] = [schema.ToolCallLocation(path=path, line=at) for path in locations]
    if fields["kind"] == "edit" and locations:
        fields["content"] = list(_differences(arguments, locations[0]))
    return fields


def title(call: Call) -> str:
    """A call in a line."""
    arguments = as_mapping(call.arguments)
    about = next((value for name in ("command", "query", "pattern", "url") if (value := arguments.get(name))), None)
    about = about or next(iter(paths_of(call)), "")
    line = " ".join("".join(char if char.isprintable() else " " for char in f"{call.name} {about}").split())
    return line if len(line) <= MAX_TITLE_CHARS else line[: MAX_TITLE_CHARS - 1] + "…"


def said(text: str) -> schema.AgentMessageChunk:
    """Some of what the agent says."""
    return schema.AgentMessageChunk(content=_text(text), session_update="agent_message_chunk")


def planned(entries: list[dict[str, str]]) -> schema.AgentPlanUpdate:
    """The whole plan; an editor replaces what it has by it."""
    made = [schema.PlanEntry.model_validate(entry) for entry in entries]
    return schema.AgentPlanUpdate(session_update="plan", entries=made)


def _differences(arguments: Mapping[str, Any], path: str) -> Iterator[schema.FileEditToolCallContent]:
    """The passages that a call would put in the place of others."""
    edits = arguments.get("edits")
    for edit in edits if isinstance(edits, list) else [arguments]:
        old = edit.get("old_string") if isinstance(edit, dict) else None
        new = edit.get("new_string", edit.get("content")) if isinstance(edit, dict) else None
        if isinstance(new, str) and len(new) <= MAX_SHOWN_CHARS:
            before = whole(old) if isinstance(old, str) else None
            yield schema.FileEditToolCallContent(path=path, old_text=before, new_text=whole(new), type="diff")


def _outcome(result: Result) -> dict[str, Any]:
    """What came of a call. A difference that was shown before stays: what is sent here takes its place."""
    shown = _shown(result.text)
    fields: dict[str, Any] = {"raw_output": {"text": shown}}
    if not result.ok or KINDS.get(result.name) != "edit":
        fields["content"] = [schema.ContentToolCallContent(content=_text(shown), type="content")]
    return fields


def _progress(call: Call, **fields: Any) -> schema.ToolCallProgress:
    return schema.ToolCallProgress(session_update="tool_call_update", tool_call_id=call.id, **fields)


def thought(text: str) -> schema.AgentThoughtChunk:
    """Something that is not an answer."""
    return schema.AgentThoughtChunk(content=_text(text + "\n"), session_update="agent_thought_chunk")


def _text(text: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(text=whole(text), type="text")


def _shown(value: Any) -> Any:
    """A JSON value with whole characters, its texts cut where nobody would read on."""
    if isinstance(value, str):
        text = whole(value)
        return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"
    if isinstance(value, Mapping):
        return {whole(str(key)): _shown(one) for key, one in value.items()}
    return [_shown(one) for one in value] if isinstance(value, list | tuple) else value


def _absolute(path: str, directory: str) -> str:
    return os.path.normpath(os.path.join(directory, whole(path)))
