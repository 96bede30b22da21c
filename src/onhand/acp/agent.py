"""The methods of the Agent Client Protocol, version 1, each translated into a call to a session.

Sessions do the work, the history stores conversations, and a function that is passed in opens projects.
"""

import os
from collections.abc import Awaitable, Callable, Sequence
from secrets import token_hex
from typing import Any, NamedTuple

from acp import schema
from acp.exceptions import RequestError
from acp.interfaces import Client

from onhand.acp.history import History, conversation_title
from onhand.acp.session import MODES, STOP_REASONS, Conversation, EditorSession, message_chunk
from onhand.agent.loop import rebuild_messages
from onhand.corpora.blocks import render_block
from onhand.errors import InputError, NotFound, OnhandError
from onhand.hidden_characters import repair_surrogates

PROTOCOL_VERSION = 1
MAX_SESSIONS = 100  # open at the same time in one editor
PAGE = 50  # sessions per page of a list

PromptBlock = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)
EditorMcpServer = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


class SessionRequest(NamedTuple):
    """The session to open and the MCP servers that the editor wants connected to it."""

    session: EditorSession
    servers: tuple[EditorMcpServer, ...] = ()


OpenConversation = Callable[[SessionRequest], Awaitable[Conversation]]


def server_entries(servers: Sequence[EditorMcpServer]) -> dict[str, dict[str, Any]]:
    """Return the MCP servers of an editor in the usual `mcpServers` format."""
    entries: dict[str, dict[str, Any]] = {}
    for server in servers:
        if isinstance(server, schema.McpServerStdio):
            env = {variable.name: variable.value for variable in server.env}
            entries[server.name] = {"command": server.command, "args": server.args, "env": env}
        elif isinstance(server, schema.HttpMcpServer):
            headers = {header.name: header.value for header in server.headers}
            entries[server.name] = {"url": server.url, "headers": headers}
    return entries


class EditorAgent:
    """The agent of one editor; `open` opens the project and its agent for each session."""

    def __init__(self, open: OpenConversation, history: History, version: str) -> None:
        self._open = open
        self._history = history
        self._version = version
        self._client: Client | None = None
        self._abilities: schema.ClientCapabilities | None = None
        self._is_initialized = False
        self._sessions: dict[str, EditorSession] = {}

    def on_connect(self, client: Client) -> None:
        """Remember the client at the other end."""
        self._client = client

    async def initialize(
        self, protocol_version: int, client_capabilities: schema.ClientCapabilities | None = None, **_: Any
    ) -> schema.InitializeResponse:
        """Return our protocol version, whichever was requested, and our capabilities."""
        self._is_initialized = True
        self._abilities = _valid_capabilities(client_capabilities)
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="onhand", title="onhand", version=self._version),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=False, audio=False, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=False),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[],
        )

    async def authenticate(self, method_id: str, **_: Any) -> None:
        """Refuse: there is nothing to log in to, because the model's key is in the environment."""
        raise _invalid_params(f"unknown authentication method {method_id[:80]!r}: initialize listed none")

    async def new_session(
        self, cwd: str, mcp_servers: list[EditorMcpServer] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        """Start a conversation about a project."""
        session_id = token_hex(16)
        session = await self._open_session(session_id, cwd, mcp_servers or [])
        session.record_to(self._history.begin(session_id, cwd))
        return schema.NewSessionResponse(
            session_id=session.session_id, modes=_mode_state(session), config_options=_config_options(session)
        )

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[EditorMcpServer] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Reopen a conversation and replay all of it to the editor."""
        session = await self._reopen_session(session_id, cwd, mcp_servers or [], replay=True)
        return schema.LoadSessionResponse(modes=_mode_state(session), config_options=_config_options(session))

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: list[EditorMcpServer] | None = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Reopen a conversation without replaying it, because the editor still knows it."""
        session = await self._reopen_session(session_id, cwd, mcp_servers or [], replay=False)
        return schema.ResumeSessionResponse(modes=_mode_state(session), config_options=_config_options(session))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """Return the conversations that can be reopened, newest first."""
        self._check_initialized()
        saved = self._history.list_conversations(cwd)
        start = int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) < 9 else 0
        if cursor and not start:
            raise _invalid_params("unknown cursor: leave it out to start from the beginning")
        page = saved[start : start + PAGE]
        infos = [
            schema.SessionInfo(session_id=one.session_id, cwd=one.directory, title=one.title, updated_at=one.updated)
            for one in page
        ]
        more = str(start + PAGE) if start + PAGE < len(saved) else None
        return schema.ListSessionsResponse(sessions=infos, next_cursor=more)

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """Stop and close a session; it can be reopened."""
        session = self._session(session_id)
        del self._sessions[session_id]
        await session.close()
        return schema.CloseSessionResponse()

    async def prompt(self, session_id: str, prompt: list[PromptBlock], **_: Any) -> schema.PromptResponse:
        """Run the agent on a prompt until it answers or has a reason to stop."""
        session = self._session(session_id)
        text = prompt_text(prompt)
        is_first = not session.agent.messages
        outcome = await session.prompt(text)
        if is_first:
            await session.send_updates(
                [schema.SessionInfoUpdate(session_update="session_info_update", title=conversation_title(text))]
            )
        if outcome.end == "error":
            raise RequestError(-32603, outcome.detail or "the agent failed")
        if outcome.detail and outcome.end not in ("answer", "cancelled"):
            await session.send_updates([message_chunk(f"\n\n[{outcome.detail}]")])
        return schema.PromptResponse(stop_reason=STOP_REASONS[outcome.end])

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Cancel the prompt that a session is working on, which is then answered."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.cancel()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        """Change the approval mode from the next call on."""
        session = self._session(session_id)
        _set_mode(session, mode_id)
        options = _config_options(session)
        update = schema.ConfigOptionUpdate(session_update="config_option_update", config_options=options)
        await session.send_updates([update])
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Set an option; `mode` is the only one."""
        session = self._session(session_id)
        if config_id != "mode":
            raise _invalid_params(f"unknown option {config_id[:80]!r}: only mode can be set")
        _set_mode(session, str(value))
        update = schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=session.mode)
        await session.send_updates([update])
        return schema.SetSessionConfigOptionResponse(config_options=_config_options(session))

    async def close(self) -> None:
        """Close every session, because the editor has disconnected."""
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()

    async def _open_session(self, session_id: str, cwd: str, servers: Sequence[EditorMcpServer]) -> EditorSession:
        self._check_initialized()
        if not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise _invalid_params(f"cwd must be the absolute path of an existing directory, not {cwd[:200]!r}")
        if len(self._sessions) >= MAX_SESSIONS:
            raise _invalid_params(f"{MAX_SESSIONS} sessions are open: close one first")
        unknown = next((one for one in servers if isinstance(one, schema.SseMcpServer | schema.AcpMcpServer)), None)
        if unknown is not None:
            raise _invalid_params(
                f"the server {unknown.name[:80]!r} uses {unknown.type}: only stdio and http are supported"
            )
        assert self._client is not None, "the SDK calls on_connect first"
        session = EditorSession(session_id, os.path.normpath(cwd), self._client, self._abilities)
        try:
            session.begin(await self._open(SessionRequest(session, tuple(servers))))
        except InputError as error:
            raise _invalid_params(str(error)) from None
        except OnhandError as error:
            raise RequestError(-32603, str(error)) from None
        self._sessions[session_id] = session
        return session

    async def _reopen_session(
        self, session_id: str, cwd: str, servers: Sequence[EditorMcpServer], *, replay: bool
    ) -> EditorSession:
        self._check_initialized()
        if session_id in self._sessions:
            raise _invalid_params("this session is open: close it first")
        journal = None
        try:
            journal = self._history.reopen(session_id)  # locks it, so that nobody appends after we have read it
            directory, events = self._history.read(session_id)
            if os.path.realpath(directory) != os.path.realpath(cwd):
                raise _invalid_params(f"this session belongs to another directory: {directory}")
            session = await self._open_session(session_id, cwd, servers)
        except BaseException as error:
            if journal is not None:
                journal.close()
            if isinstance(error, NotFound):
                raise RequestError(-32002, str(error)) from None
            if isinstance(error, InputError):
                raise _invalid_params(str(error)) from None
            raise
        session.record_to(journal)
        session.agent.messages[:] = rebuild_messages(events)
        if replay:
            await session.replay_events(events)
        return session

    def _session(self, session_id: str) -> EditorSession:
        self._check_initialized()
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(-32002, f"session {session_id[:80]!r} is not open: start or load one")
        return session

    def _check_initialized(self) -> None:
        if not self._is_initialized:
            raise RequestError(-32600, "call initialize first")


def _valid_capabilities(capabilities: object) -> schema.ClientCapabilities | None:
    """Return the editor's capabilities. The SDK leaves malformed ones as a dict, which counts as none."""
    if not isinstance(capabilities, schema.ClientCapabilities):
        return None
    files: object = capabilities.fs
    is_valid = isinstance(files, schema.FileSystemCapabilities | None)
    return capabilities if is_valid else capabilities.model_copy(update={"fs": None})


def _set_mode(session: EditorSession, mode: str) -> None:
    if mode not in MODES:
        raise _invalid_params(f"unknown mode {mode[:80]!r}: choose one of {', '.join(MODES)}")
    session.set_mode(mode)


def _mode_state(session: EditorSession) -> schema.SessionModeState:
    known = [schema.SessionMode(id=id, name=mode.name, description=mode.description) for id, mode in MODES.items()]
    return schema.SessionModeState(current_mode_id=session.mode, available_modes=known)


def _config_options(
    session: EditorSession,
) -> list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean]:
    """Return the mode as a configuration option, which newer editors expect."""
    known = [
        schema.SessionConfigSelectOption(value=id, name=mode.name, description=mode.description)
        for id, mode in MODES.items()
    ]
    return [
        schema.SessionConfigOptionSelect(
            id="mode", name="Mode", category="mode", type="select", current_value=session.mode, options=known
        )
    ]


def _invalid_params(details: str) -> RequestError:
    """Return an invalid-params error, whose message editors show."""
    return RequestError(-32602, details)


def prompt_text(prompt: Sequence[PromptBlock]) -> str:
    """Return the blocks of a prompt as one text; attached files are in blocks that their content cannot close."""
    text = "\n\n".join(part for one in prompt if (part := _block_text(one)).strip())
    if not text:
        raise RequestError.invalid_params({"details": "the prompt is empty: send some text"})
    return repair_surrogates(text)


def _block_text(one: PromptBlock) -> str:
    match one:
        case schema.TextContentBlock():
            return one.text
        case schema.ResourceContentBlock():
            about = {"uri": one.uri, "name": one.name, "description": one.description}
            return render_block("resource_link", {name: value for name, value in about.items() if value}, "")
        case schema.EmbeddedResourceContentBlock():
            return _embedded_text(one.resource)
    kind = "an image" if isinstance(one, schema.ImageContentBlock) else "audio"
    raise RequestError.invalid_params({"details": f"{kind} is not supported, as promptCapabilities says: send text"})


def _embedded_text(resource: schema.TextResourceContents | schema.BlobResourceContents) -> str:
    about = {"uri": resource.uri}
    if isinstance(resource, schema.TextResourceContents):
        return render_block("resource", about, resource.text)
    return render_block(
        "resource", about, f"(binary content of about {len(resource.blob) * 3 // 4:,} bytes, not shown)"
    )
