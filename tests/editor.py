"""What is an editor, to an agent? A real client of the official SDK on the other end of two pipes, and what it saw."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from acp import schema
from acp.client.connection import ClientSideConnection
from acp.connection import StreamEvent
from acp.exceptions import RequestError

from onhand.acp.agent import EditorAgent, SessionRequest
from onhand.acp.editor_tools import route_to_editor
from onhand.acp.history import History
from onhand.acp.session import Conversation
from onhand.acp.stdio import EditorTransport, converse
from onhand.actions.file_tools import reading_tools, writing_tools
from onhand.actions.workspace import Workspace
from onhand.agent.loop import Agent
from onhand.agent.models.scripted import Line, ScriptedModel
from onhand.agent.toolbox import Toolbox
from onhand.tools import Tool

FILES = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True))
TERMINAL = schema.ClientCapabilities(terminal=True)


class Editor:
    """Notes every update, and answers permission requests with the next answer of a list (the last one for good)."""

    def __init__(self, answers: Sequence[str] = ("allow_once",), buffers: dict[str, str] | None = None) -> None:
        self.answers = list(answers)
        self.buffers = buffers or {}
        self.updates: list[tuple[str, Any]] = []
        self.asked: list[schema.ToolCallUpdate] = []
        self.terminals: list[str] = []
        self.messages: list[dict[str, Any]] = []
        self.is_asked = asyncio.Event()
        self.never = asyncio.Event()

    def of(self, session_id: str, kind: str) -> list[Any]:
        """The updates of one kind in one session."""
        return [update for id, update in self.updates if id == session_id and update.session_update == kind]

    def text(self, session_id: str) -> str:
        """What the agent said in a session."""
        return "".join(update.content.text for update in self.of(session_id, "agent_message_chunk"))

    def see(self, event: StreamEvent) -> None:
        """Keep every message as it was on the wire."""
        self.messages.append(event.message)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(tool_call)
        self.is_asked.set()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == "never":
            await self.never.wait()
        if answer == "error":
            raise RequestError.method_not_found("session/request_permission")
        if answer == "nothing":
            return None  # type: ignore[return-value]  # as a careless editor does
        if answer == "cancelled":
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        assert answer in [option.option_id for option in options] or answer.startswith("made up")
        chosen = schema.AllowedOutcome(outcome="selected", option_id=answer)
        return schema.RequestPermissionResponse(outcome=chosen)

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> schema.ReadTextFileResponse:
        if path not in self.buffers:
            raise RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        self.buffers[path] = content

    async def create_terminal(self, session_id: str, command: str, **fields: Any) -> schema.CreateTerminalResponse:
        self.terminals.append(f"create {command} {fields['args']}")
        return schema.CreateTerminalResponse(terminal_id="t1")

    async def wait_for_terminal_exit(self, **_: Any) -> schema.WaitForTerminalExitResponse:
        if "forever" in self.terminals[0]:
            await self.never.wait()
        return schema.WaitForTerminalExitResponse(exit_code=0)

    async def terminal_output(self, **_: Any) -> schema.TerminalOutputResponse:
        status = schema.TerminalExitStatus(exit_code=0)
        return schema.TerminalOutputResponse(output="hello", truncated=False, exit_status=status)

    async def kill_terminal(self, **_: Any) -> None:
        self.terminals.append("kill")

    async def release_terminal(self, **_: Any) -> None:
        self.terminals.append("release")

    def on_connect(self, conn: Any) -> None:
        pass


Script = Callable[[str], Sequence[Line]]


def opener(script: Script, tools: Sequence[Tool] = ()) -> Callable[[SessionRequest], Any]:
    """Opens conversations whose model says what a script has for their directory, with files and the given tools."""

    async def opened(wanted: SessionRequest) -> Conversation:
        session = wanted.session
        workspace = Workspace(session.directory)
        offered = [*reading_tools(workspace), *writing_tools(workspace), *tools]
        hands = route_to_editor(session.client, session.session_id, session.abilities, workspace, offered)
        return Conversation(Agent(ScriptedModel(script(session.directory)), Toolbox(hands)))

    return opened


@asynccontextmanager
async def editing(
    editor: Editor,
    open: Callable[[SessionRequest], Any],
    history: str | None = None,
    abilities: schema.ClientCapabilities | None = None,
) -> AsyncIterator[ClientSideConnection]:
    """An editor and an agent at the two ends of two pipes, initialized."""
    reading, to_agent = os.pipe()
    from_agent, writing = os.pipe()
    agent, wire, theirs = (
        EditorAgent(open, History(history), "1.2.3"),
        EditorTransport(reading, writing),
        EditorTransport(from_agent, to_agent),
    )
    serving = asyncio.create_task(converse(agent, wire))
    client = ClientSideConnection(editor, theirs, observers=[editor.see])  # type: ignore[arg-type]
    try:
        await client.initialize(protocol_version=1, client_capabilities=abilities)
        yield client
    finally:
        # Each descriptor by the thread that uses it: a number that is free again may be somebody else's by then.
        await theirs._writer.run(lambda: os.close(to_agent))
        await serving
        await wire._writer.run(lambda: os.close(writing))
        await theirs._reader.run(lambda: os.close(from_agent))
        await wire._reader.run(lambda: os.close(reading))
        await client.close()
