"""One conversation in an editor: its agent, the updates that the editor receives, and what the person answers.

Sessions are independent: the work, queue and failures of one do not affect another.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from acp import schema
from acp.exceptions import RequestError
from acp.interfaces import Client
from pydantic import ValidationError

from onhand.acp.history import ConversationFile
from onhand.agent.approval import ANSWERS, DEFAULT_RULES, Approval, ApprovalRule
from onhand.agent.events import Answered, Began, Calling, Event, Nested, Outcome, Retrying, Returned, Text, Thought
from onhand.agent.loop import Agent
from onhand.agent.toolbox import call_paths
from onhand.formats.message import as_mapping
from onhand.hidden_characters import repair_surrogates
from onhand.text import one_line
from onhand.tools.registry import Call, Result
from onhand.tools.tool import Tool

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


class Mode(NamedTuple):
    """How much the agent may do without asking."""

    name: str
    description: str
    rules: tuple[ApprovalRule, ...]


MODES = {
    "ask": Mode("Ask", "Asks before anything that may change something.", DEFAULT_RULES),
    "read": Mode(
        "Read only",
        "Refuses every call that may change something.",
        (ApprovalRule("allow", read_only=True), ApprovalRule("deny")),
    ),
    "auto": Mode("Automatic", "Never asks; only what the configuration forbids is refused.", (ApprovalRule("allow"),)),
}
OPTIONS = [
    schema.PermissionOption(option_id="allow_once", name="Allow", kind="allow_once"),
    schema.PermissionOption(option_id="allow_always", name="Allow always in this session", kind="allow_always"),
    schema.PermissionOption(option_id="reject_once", name="Reject", kind="reject_once"),
    schema.PermissionOption(option_id="reject_always", name="Reject always in this session", kind="reject_always"),
]


Join = Callable[[], Coroutine[Any, Any, None]]
Leave = Callable[[], Awaitable[None]]


class Conversation(NamedTuple):
    """The agent of a project and what belongs to its conversation."""

    agent: Agent
    rules: tuple[ApprovalRule, ...] = ()  # of the configuration; they precede those of any mode
    plan: Callable[[], list[dict[str, str]]] | None = None
    join: Join | None = None  # connects the editor's MCP servers with the first prompt
    leave: Leave | None = None


class EditorSession:
    """One conversation in an editor."""

    def __init__(
        self, session_id: str, directory: str, client: Client, abilities: schema.ClientCapabilities | None
    ) -> None:
        self.session_id, self.directory = session_id, directory
        self.client, self.abilities = client, abilities
        self.mode = "ask"
        self._approval = Approval(ask=self.ask, root=directory)
        self._journal: ConversationFile | None = None
        self._conversation: Conversation | None = None
        self._translator = UpdateTranslator(directory)
        self._queue: asyncio.Queue[Update] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._joining: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._plan: list[dict[str, str]] = []

    def begin(self, conversation: Conversation) -> None:
        """Attach to the agent of a conversation as its listener and approval."""
        self._conversation = conversation
        conversation.agent.listeners.append(self._on_event)
        conversation.agent.approval = self._approval
        self.set_mode(self.mode)

    def record_to(self, journal: ConversationFile | None) -> None:
        """Record events in a file from now on, if there is one."""
        self._journal = journal
        if journal is not None:
            self.agent.listeners.append(journal)

    @property
    def agent(self) -> Agent:
        """The agent of this session."""
        assert self._conversation is not None, "begin() comes first"
        return self._conversation.agent

    def set_mode(self, mode: str) -> None:
        """Use another approval mode from the next call on."""
        assert self._conversation is not None, "begin() comes first"
        self._approval.set_rules((*self._conversation.rules, *MODES[mode].rules))
        self.mode = mode

    async def prompt(self, text: str) -> Outcome:
        """Run the agent on a prompt; all updates have been sent when this returns."""
        if not self._idle.is_set():
            raise RequestError(-32600, "this session is working on a prompt: cancel it, or wait for it")
        self._idle.clear()
        self._is_cancelled = False
        self._sender = asyncio.create_task(self._send_all())
        try:
            await self._connect_servers()
            if self._is_cancelled:
                return Outcome("cancelled")
            return await self.agent.run(text)
        finally:
            await self._flush_updates()
            self._sender.cancel()
            self._idle.set()

    def cancel(self) -> None:
        """Cancel the running prompt, if there is one."""
        if not self._idle.is_set():
            self._is_cancelled = True
            self.agent.cancel()
            if self._joining is not None:
                self._joining.cancel()

    async def close(self) -> None:
        """Cancel the running prompt and release everything."""
        self.cancel()
        await self._idle.wait()
        if self._journal is not None:
            self._journal.close()
        if self._conversation and self._conversation.leave:
            await self._conversation.leave()

    async def ask(self, call: Call, tool: Tool, reason: str) -> str:
        """Ask the person about a call; no choice means rejection."""
        for update in self._translator.start_call(call):
            self._queue.put_nowait(update)
        await self._flush_updates()  # the editor must know a call before it is asked about it
        fields = describe_call(call, self.directory)
        choice = await self._request_permission(schema.ToolCallUpdate(**fields), OPTIONS)
        return choice if choice in ANSWERS else "reject_once"

    async def allows(self, name: str, command: str) -> bool:
        """Ask the person whether a server may be started or connected to; the editor alone cannot decide that."""
        call = Call("connect_mcp_server", {"name": name, "command": command}, f"connect_{name}")
        fields = {**describe_call(call, self.directory), "kind": "execute"}
        update = schema.ToolCallUpdate(status="pending", **fields)
        return await self._request_permission(update, [OPTIONS[0], OPTIONS[2]]) == "allow_once"

    async def warn(self, problems: Sequence[str]) -> None:
        """Show problems to the person and continue."""
        await self.send_updates([thought_chunk(problem) for problem in problems])

    async def send_updates(self, batch: Sequence[Update]) -> None:
        """Send updates that do not come from an event."""
        with suppress(ConnectionError):  # the editor has disconnected, which ends our input and us
            for update in batch:
                await self.client.session_update(session_id=self.session_id, update=update)

    async def replay_events(self, events: Sequence[Event]) -> None:
        """Send the editor what happened earlier in the conversation."""
        await self.send_updates([update for event in events for update in self._translator.replay_updates(event)])

    async def _connect_servers(self) -> None:
        """Connect the servers of the conversation; cancelling the prompt cancels this too."""
        if not self._conversation or not self._conversation.join:
            return
        joining = self._joining = asyncio.create_task(self._conversation.join())
        try:
            await asyncio.wait({joining})
        finally:
            joining.cancel()
            self._joining = None
        if not joining.cancelled():
            joining.result()

    async def _request_permission(self, about: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> str:
        """Return the option that the person chose, or "" if none was chosen or the editor cannot ask."""
        try:
            answer = await self.client.request_permission(session_id=self.session_id, tool_call=about, options=options)
        except (RequestError, ValidationError):
            return ""
        return answer.outcome.option_id if isinstance(answer.outcome, schema.AllowedOutcome) else ""

    def _on_event(self, event: Event) -> None:
        for update in self._translator.updates(event):
            self._queue.put_nowait(update)
        if isinstance(event, Returned) and event.call.name.startswith("plan_"):
            self._update_plan()

    def _update_plan(self) -> None:
        plan = self._conversation.plan() if self._conversation and self._conversation.plan else []
        if plan != self._plan:
            self._plan = plan
            self._queue.put_nowait(plan_update(plan))

    async def _send_all(self) -> None:
        while True:
            update = await self._queue.get()
            try:
                await self.client.session_update(session_id=self.session_id, update=update)
            except (ConnectionError, OSError):
                pass  # the editor has disconnected, which ends our input and us
            finally:
                self._queue.task_done()

    async def _flush_updates(self) -> None:
        """Wait until all queued updates have been sent."""
        await self._queue.join()


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
    """Return a chunk of thought, which holds text that is not part of the answer."""
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
