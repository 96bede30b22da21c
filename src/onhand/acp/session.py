"""What is one conversation in an editor? An agent, what the editor is told of it, and what a person answers.

Nothing here reaches another session: its work, its queue and its failures are its own.
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
from onhand.acp.history import Journal
from onhand.agent.approval import ANSWERS, DEFAULT, Approval, Rule
from onhand.agent.events import Event, Outcome, Returned
from onhand.agent.loop import Agent
from onhand.tools.registry import Call
from onhand.tools.tool import Tool


class Mode(NamedTuple):
    """How much may be done without asking."""

    name: str
    description: str
    rules: tuple[Rule, ...]


MODES = {
    "ask": Mode("Ask", "Asks before anything that may change something.", DEFAULT),
    "read": Mode(
        "Read only", "Changes nothing: whatever may is refused.", (Rule("allow", read_only=True), Rule("deny"))
    ),
    "auto": Mode("Automatic", "Asks for nothing that no rule of the configuration forbids.", (Rule("allow"),)),
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
    """What is behind a session: an agent for a project, and what belongs to it."""

    agent: Agent
    rules: tuple[Rule, ...] = ()  # of the configuration; they come before those of any mode
    plan: Callable[[], list[dict[str, str]]] | None = None
    join: Join | None = None  # connects what the editor wants connected, with the first prompt
    leave: Leave | None = None


class Session:
    """One conversation in an editor."""

    def __init__(
        self, session_id: str, directory: str, client: Client, abilities: schema.ClientCapabilities | None
    ) -> None:
        self.session_id, self.directory = session_id, directory
        self.client, self.abilities = client, abilities
        self.mode = "ask"
        self._approval = Approval(ask=self.ask, root=directory)
        self._journal: Journal | None = None
        self._conversation: Conversation | None = None
        self._narrator = updates.Narrator(directory)
        self._queue: asyncio.Queue[updates.Update] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._joining: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._plan: list[dict[str, str]] = []

    def begin(self, conversation: Conversation) -> None:
        """Listen to the agent of a conversation and decide for it."""
        self._conversation = conversation
        conversation.agent.listeners.append(self._hear)
        conversation.agent.approval = self._approval
        self.set_mode(self.mode)

    def keep(self, journal: Journal | None) -> None:
        """Write down what happens from now on, if there is a place for it."""
        self._journal = journal
        if journal is not None:
            self.agent.listeners.append(journal)

    @property
    def agent(self) -> Agent:
        """The agent at work here."""
        assert self._conversation is not None, "begin() comes first"
        return self._conversation.agent

    def set_mode(self, mode: str) -> None:
        """Decide by another mode from the next call on."""
        assert self._conversation is not None, "begin() comes first"
        self._approval.decide_by((*self._conversation.rules, *MODES[mode].rules))
        self.mode = mode

    async def prompt(self, text: str) -> Outcome:
        """Work on what a person said; everything that happened was told when this returns."""
        if not self._idle.is_set():
            raise RequestError(-32600, "a prompt is at work in this session: cancel it, or wait for it")
        self._idle.clear()
        self._is_cancelled = False
        self._sender = asyncio.create_task(self._send_all())
        try:
            await self._joined()
            if self._is_cancelled:
                return Outcome("cancelled")
            return await self.agent.run(text)
        finally:
            await self._told()
            self._sender.cancel()
            self._idle.set()

    def cancel(self) -> None:
        """Stop what is at work."""
        if not self._idle.is_set():
            self._is_cancelled = True
            self.agent.cancel()
            if self._joining is not None:
                self._joining.cancel()

    async def close(self) -> None:
        """Stop what is at work and let go of everything."""
        self.cancel()
        await self._idle.wait()
        if self._journal is not None:
            self._journal.close()
        if self._conversation and self._conversation.leave:
            await self._conversation.leave()

    async def ask(self, call: Call, tool: Tool, reason: str) -> str:
        """Ask the person about a call; whoever does not choose has rejected it."""
        for update in self._narrator.begun(call):
            self._queue.put_nowait(update)
        await self._told()  # an editor must have heard of a call that it is asked about
        fields = updates.described(call, self.directory)
        chosen = await self._chosen(schema.ToolCallUpdate(**fields), OPTIONS)
        return chosen if chosen in ANSWERS else "reject_once"

    async def allows(self, name: str, shown: str) -> bool:
        """Ask the person whether a server may be started, or connected to: the editor's word alone starts nothing."""
        call = Call("connect_mcp_server", {"name": name, "command": shown}, f"connect_{name}")
        update = schema.ToolCallUpdate(
            tool_call_id=call.id, title=updates.title(call), kind="execute", status="pending", raw_input=call.arguments
        )
        return await self._chosen(update, [OPTIONS[0], OPTIONS[2]]) == "allow_once"

    async def warn(self, problems: Sequence[str]) -> None:
        """Tell the person what is wrong, and go on without it."""
        await self.tell([updates.thought(problem) for problem in problems])

    async def tell(self, told: Sequence[updates.Update]) -> None:
        """Tell the editor something that no event is about."""
        with suppress(ConnectionError):  # the editor has gone; the end of its input ends us
            for update in told:
                await self.client.session_update(session_id=self.session_id, update=update)

    async def remember(self, events: Sequence[Event]) -> None:
        """Tell the editor what was said before."""
        await self.tell([update for event in events for update in self._narrator.remembered(event)])

    async def _joined(self) -> None:
        """Connect what belongs to the conversation; cancelling ends that too."""
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

    async def _chosen(self, about: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> str:
        """The option that the person chose; empty if none was, or if the editor cannot ask."""
        try:
            answer = await self.client.request_permission(session_id=self.session_id, tool_call=about, options=options)
        except (RequestError, ValidationError):
            return ""
        return answer.outcome.option_id if isinstance(answer.outcome, schema.AllowedOutcome) else ""

    def _hear(self, event: Event) -> None:
        for update in self._narrator.updates(event):
            self._queue.put_nowait(update)
        if isinstance(event, Returned) and event.call.name.startswith("plan_"):
            self._hear_plan()

    def _hear_plan(self) -> None:
        plan = self._conversation.plan() if self._conversation and self._conversation.plan else []
        if plan != self._plan:
            self._plan = plan
            self._queue.put_nowait(updates.planned(plan))

    async def _send_all(self) -> None:
        while True:
            update = await self._queue.get()
            try:
                await self.client.session_update(session_id=self.session_id, update=update)
            except (ConnectionError, OSError):
                pass  # the editor has gone; the end of its input ends us
            finally:
                self._queue.task_done()

    async def _told(self) -> None:
        """Wait until everything that happened was told."""
        await self._queue.join()
