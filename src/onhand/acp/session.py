"""One conversation in an editor: its agent, the updates the editor receives, and what a person answers.

Sessions are independent: the work, queue and failures of one do not affect another.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from acp import schema
from acp.exceptions import RequestError
from acp.interfaces import Client
from pydantic import ValidationError

from onhand.acp import updates
from onhand.acp.history import ConversationFile
from onhand.agent.approval import ANSWERS, DEFAULT_RULES, Approval, ApprovalRule
from onhand.agent.events import Event, Outcome, Returned
from onhand.agent.loop import Agent
from onhand.tools.registry import Call
from onhand.tools.tool import Tool


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
        self._translator = updates.UpdateTranslator(directory)
        self._queue: asyncio.Queue[updates.Update] = asyncio.Queue()
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
        fields = updates.describe_call(call, self.directory)
        choice = await self._request_permission(schema.ToolCallUpdate(**fields), OPTIONS)
        return choice if choice in ANSWERS else "reject_once"

    async def allows(self, name: str, command: str) -> bool:
        """Ask the person whether a server may be started or connected to; the editor alone cannot decide that."""
        call = Call("connect_mcp_server", {"name": name, "command": command}, f"connect_{name}")
        update = schema.ToolCallUpdate(
            tool_call_id=call.id,
            title=updates.call_title(call),
            kind="execute",
            status="pending",
            raw_input=call.arguments,
        )
        return await self._request_permission(update, [OPTIONS[0], OPTIONS[2]]) == "allow_once"

    async def warn(self, problems: Sequence[str]) -> None:
        """Show problems to the person and continue."""
        await self.send_updates([updates.thought_chunk(problem) for problem in problems])

    async def send_updates(self, batch: Sequence[updates.Update]) -> None:
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
            self._queue.put_nowait(updates.plan_update(plan))

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
