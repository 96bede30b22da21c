"""Translate the events of the agent loop into ACP updates. Nothing is decided here."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from acp import schema

from onhand.agent.events import Answered, Began, Calling, Event, Nested, Retrying, Returned, Text, Thought
from onhand.agent.toolbox import call_paths
from onhand.formats.message import as_mapping
from onhand.text import one_line, repair_surrogates
from onhand.tools.registry import Call, Result

MAX_TITLE_CHARS = 120
MAX_SHOWN_CHARS = 200_000  # of a result, or of one side of a diff; nobody reads more in an editor
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


class UpdateTranslator:
    """Translates the events of one conversation; it remembers which calls the editor knows, so each starts once."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._started: set[str] = set()

    def updates(self, event: Event) -> Iterator[Update]:
        """Yield the updates for an event."""
        match event:
            case Text(text):
                yield message_chunk(text)
            case Thought(text):
                yield schema.AgentThoughtChunk(content=_text(text), session_update="agent_thought_chunk")
            case Retrying(reason, wait_s):
                yield thought_chunk(f"retrying in {wait_s:.0f} s: {reason}")
            case Calling(call):
                yield from self.start_call(call)
                yield _progress(call, status="in_progress")
            case Returned(call, result):
                yield from self.start_call(call)
                yield _progress(call, status="completed" if result.ok else "failed", **_result_fields(result))
            case Nested(agent, event):
                yield from self._sub_agent_updates(agent, event)

    def replay_updates(self, event: Event) -> Iterator[Update]:
        """Yield the updates for an event of a reopened conversation."""
        match event:
            case Began(goal):
                yield schema.UserMessageChunk(content=_text(goal), session_update="user_message_chunk")
            case Answered(message):
                if message.text:
                    yield message_chunk(message.text)
            case Text() | Thought() | Retrying() | Nested():
                pass  # the whole message follows
            case _:
                yield from self.updates(event)

    def start_call(self, call: Call) -> Iterator[Update]:
        """Yield the start of a call, unless the editor already knows the call."""
        if call.id not in self._started:
            self._started.add(call.id)
            fields = describe_call(call, self._directory)
            yield schema.ToolCallStart(session_update="tool_call", status="pending", **fields)

    def _sub_agent_updates(self, agent: str, event: Event) -> Iterator[Update]:
        if isinstance(event, Calling):
            yield thought_chunk(f"{agent}: {call_title(event.call)}")


def describe_call(call: Call, directory: str) -> dict[str, Any]:
    """Return the fields that describe a call: its kind, the files it concerns, and its diff."""
    arguments = as_mapping(call.arguments)
    locations = [_absolute(path, directory) for path in call_paths(call)]
    line = arguments.get("start_line") or arguments.get("line")
    fields: dict[str, Any] = {
        "tool_call_id": call.id,
        "title": call_title(call),
        "kind": KINDS.get(call.name, "other"),
        "raw_input": _truncate_json(arguments),
    }
    if locations:
        at = int(line) if isinstance(line, int | float) and 0 < line < 2**31 else None
        fields["locations"] = [schema.ToolCallLocation(path=path, line=at) for path in locations]
    if fields["kind"] == "edit" and locations:
        fields["content"] = list(_file_diffs(arguments, locations[0]))
    return fields


def call_title(call: Call) -> str:
    """Return a call as one line."""
    arguments = as_mapping(call.arguments)
    about = next((value for name in ("command", "query", "pattern", "url") if (value := arguments.get(name))), None)
    about = about or next(iter(call_paths(call)), "")
    return one_line(f"{call.name} {about}", MAX_TITLE_CHARS)


def message_chunk(text: str) -> schema.AgentMessageChunk:
    """Return a chunk of the agent's message."""
    return schema.AgentMessageChunk(content=_text(text), session_update="agent_message_chunk")


def plan_update(entries: list[dict[str, str]]) -> schema.AgentPlanUpdate:
    """Return the whole plan, which replaces the editor's previous one."""
    made = [schema.PlanEntry.model_validate(entry) for entry in entries]
    return schema.AgentPlanUpdate(session_update="plan", entries=made)


def _file_diffs(arguments: Mapping[str, Any], path: str) -> Iterator[schema.FileEditToolCallContent]:
    """Yield the replacements that a call would make."""
    edits = arguments.get("edits")
    for edit in edits if isinstance(edits, list) else [arguments]:
        old = edit.get("old_string") if isinstance(edit, dict) else None
        new = edit.get("new_string", edit.get("content")) if isinstance(edit, dict) else None
        if isinstance(new, str) and len(new) <= MAX_SHOWN_CHARS:
            before = repair_surrogates(old) if isinstance(old, str) else None
            yield schema.FileEditToolCallContent(
                path=path, old_text=before, new_text=repair_surrogates(new), type="diff"
            )


def _result_fields(result: Result) -> dict[str, Any]:
    """Return the fields of a result. An edit has no content, which would replace the diff that was sent earlier."""
    shown = _truncate_json(result.text)
    fields: dict[str, Any] = {"raw_output": {"text": shown}}
    if not result.ok or KINDS.get(result.name) != "edit":
        fields["content"] = [schema.ContentToolCallContent(content=_text(shown), type="content")]
    return fields


def _progress(call: Call, **fields: Any) -> schema.ToolCallProgress:
    return schema.ToolCallProgress(session_update="tool_call_update", tool_call_id=call.id, **fields)


def thought_chunk(text: str) -> schema.AgentThoughtChunk:
    """Return a chunk of thought, for what is not part of the answer."""
    return schema.AgentThoughtChunk(content=_text(text + "\n"), session_update="agent_thought_chunk")


def _text(text: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(text=repair_surrogates(text), type="text")


def _truncate_json(value: Any) -> Any:
    """Return a JSON value with valid characters and long strings truncated."""
    if isinstance(value, str):
        text = repair_surrogates(value)
        return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"
    if isinstance(value, Mapping):
        return {repair_surrogates(str(key)): _truncate_json(one) for key, one in value.items()}
    return [_truncate_json(one) for one in value] if isinstance(value, list | tuple) else value


def _absolute(path: str, directory: str) -> str:
    return os.path.normpath(os.path.join(directory, repair_surrogates(path)))
