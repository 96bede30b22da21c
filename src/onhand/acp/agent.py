"""What may an editor ask of us? The methods of ACP version 1, each turned into a call of what does the work.

It translates and nothing else: sessions work, history keeps, the app opens projects.
"""

import os
from collections.abc import Awaitable, Callable, Sequence
from secrets import token_hex
from typing import Any, NamedTuple

from acp import schema
from acp.exceptions import RequestError
from acp.interfaces import Client

from onhand.acp import updates
from onhand.acp.history import History, title_of
from onhand.acp.prompts import Block, text_of
from onhand.acp.session import MODES, Conversation, Session
from onhand.agent.conversation import messages_of
from onhand.errors import InputError, NotFound, OnhandError

PROTOCOL_VERSION = 1
MAX_SESSIONS = 100  # open at a time in one editor
PAGE = 50  # sessions of a list

Server = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


class Wanted(NamedTuple):
    """What an editor wants opened."""

    session: Session
    servers: tuple[Server, ...] = ()


Open = Callable[[Wanted], Awaitable[Conversation]]


def entries_of(servers: Sequence[Server]) -> dict[str, dict[str, Any]]:
    """The servers that an editor wants connected, in the form of the familiar configuration."""
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
    """The agent of one editor. `open` makes what is behind a session: a project's agent."""

    def __init__(self, open: Open, history: History, version: str) -> None:
        self._open = open
        self._history = history
        self._version = version
        self._client: Client | None = None
        self._abilities: schema.ClientCapabilities | None = None
        self._is_initialized = False
        self._sessions: dict[str, Session] = {}

    def on_connect(self, client: Client) -> None:
        """Who is on the other end."""
        self._client = client

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **_: Any,
    ) -> schema.InitializeResponse:
        """Say which version is spoken, whichever was asked for, and what can be done."""
        self._is_initialized = True
        self._abilities = _offered(client_capabilities)
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
        """There is no way to log in: the model's key is in the environment."""
        raise _wrong(f"there is no way to authenticate called {method_id[:80]!r}: initialize named none")

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_: Any,
    ) -> schema.NewSessionResponse:
        """Begin a conversation about a project."""
        session_id = token_hex(16)
        session = await self._begun(session_id, cwd, mcp_servers or [])
        session.keep(self._history.begin(session_id, cwd))
        return schema.NewSessionResponse(
            session_id=session.session_id, modes=_modes(session), config_options=_options(session)
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[Server] | None = None,
        additional_directories: list[str] | None = None,
        **_: Any,
    ) -> schema.LoadSessionResponse:
        """Open a conversation again and tell all of it."""
        session = await self._again(session_id, cwd, mcp_servers or [], is_told=True)
        return schema.LoadSessionResponse(modes=_modes(session), config_options=_options(session))

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_: Any,
    ) -> schema.ResumeSessionResponse:
        """Open a conversation again; the editor still knows what was said."""
        session = await self._again(session_id, cwd, mcp_servers or [], is_told=False)
        return schema.ResumeSessionResponse(modes=_modes(session), config_options=_options(session))

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Server] | None = None,
        **_: Any,
    ) -> schema.ForkSessionResponse:
        """The protocol has not settled on it."""
        raise RequestError.method_not_found("session/fork")

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """The conversations that can be opened again, the newest first."""
        self._check_initialized()
        kept = self._history.listed(cwd)
        start = int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) < 9 else 0
        if cursor and not start:
            raise _wrong("cursor is none that a list gave: leave it out to begin anew")
        page = kept[start : start + PAGE]
        infos = [
            schema.SessionInfo(session_id=one.session_id, cwd=one.directory, title=one.title, updated_at=one.updated)
            for one in page
        ]
        more = str(start + PAGE) if start + PAGE < len(kept) else None
        return schema.ListSessionsResponse(sessions=infos, next_cursor=more)

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """Stop what is at work in a session and let go of it; it can be opened again."""
        session = self._session(session_id)
        del self._sessions[session_id]
        await session.close()
        return schema.CloseSessionResponse()

    async def prompt(self, session_id: str, prompt: list[Block], **_: Any) -> schema.PromptResponse:
        """Work on what a person said until there is an answer, or a reason to stop."""
        session = self._session(session_id)
        text = text_of(prompt)
        is_first = not session.agent.messages
        outcome = await session.prompt(text)
        if is_first:
            await session.tell([schema.SessionInfoUpdate(session_update="session_info_update", title=title_of(text))])
        if outcome.end == "error":
            raise RequestError(-32603, outcome.detail or "the agent failed")
        if outcome.detail and outcome.end not in ("answer", "cancelled"):
            await session.tell([updates.said(f"\n\n[{outcome.detail}]")])
        return schema.PromptResponse(stop_reason=updates.STOP_REASONS[outcome.end])

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop what is at work in a session; its prompt is then answered."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.cancel()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        """Ask more, or less, from the next call on."""
        session = self._session(session_id)
        _set_mode(session, mode_id)
        await session.tell([_option_update(session)])
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Set the one option there is: the mode."""
        session = self._session(session_id)
        if config_id != "mode":
            raise _wrong(f"there is no option {config_id[:80]!r}: only mode can be set")
        _set_mode(session, str(value))
        update = schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=session.mode)
        await session.tell([update])
        return schema.SetSessionConfigOptionResponse(config_options=_options(session))

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """We have no methods of our own."""
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """What we do not know, we ignore."""

    async def close(self) -> None:
        """Let go of every session: the editor has gone."""
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()

    async def _begun(self, session_id: str, cwd: str, servers: Sequence[Server]) -> Session:
        self._check_initialized()
        if not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise _wrong(f"cwd has to be the absolute path of a directory that is there, not {cwd[:200]!r}")
        if len(self._sessions) >= MAX_SESSIONS:
            raise _wrong(f"{MAX_SESSIONS} sessions are open: close one first")
        unknown = next((one for one in servers if isinstance(one, schema.SseMcpServer | schema.AcpMcpServer)), None)
        if unknown is not None:
            raise _wrong(f"the server {unknown.name[:80]!r} speaks {unknown.type}: only stdio and http are supported")
        assert self._client is not None, "the SDK tells us of the client first"
        session = Session(session_id, os.path.normpath(cwd), self._client, self._abilities)
        try:
            session.begin(await self._open(Wanted(session, tuple(servers))))
        except InputError as error:
            raise _wrong(str(error)) from None
        except OnhandError as error:
            raise RequestError(-32603, str(error)) from None
        self._sessions[session_id] = session
        return session

    async def _again(self, session_id: str, cwd: str, servers: Sequence[Server], *, is_told: bool) -> Session:
        self._check_initialized()
        if session_id in self._sessions:
            raise _wrong("this session is open: close it first")
        journal = None
        try:
            journal = self._history.go_on(session_id)  # before it is read: from now on nobody else adds to it
            directory, events = self._history.read(session_id)
            if os.path.realpath(directory) != os.path.realpath(cwd):
                raise _wrong(f"this session belongs to another directory: {directory}")
            session = await self._begun(session_id, cwd, servers)
        except BaseException as error:
            if journal is not None:
                journal.close()
            if isinstance(error, NotFound):
                raise RequestError(-32002, str(error)) from None
            if isinstance(error, InputError):
                raise _wrong(str(error)) from None
            raise
        session.keep(journal)
        session.agent.messages[:] = messages_of(events)
        if is_told:
            await session.remember(events)
        return session

    def _session(self, session_id: str) -> Session:
        self._check_initialized()
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(-32002, f"there is no open session {session_id[:80]!r}: begin or load one")
        return session

    def _check_initialized(self) -> None:
        if not self._is_initialized:
            raise RequestError(-32600, "initialize comes first")


def _offered(said: object) -> schema.ClientCapabilities | None:
    """What an editor can do for us. Where it says so in a form that is none, the SDK leaves a dict, and it is not."""
    if not isinstance(said, schema.ClientCapabilities):
        return None
    files: object = said.fs
    return said if isinstance(files, schema.FileSystemCapabilities | None) else said.model_copy(update={"fs": None})


def _set_mode(session: Session, mode: str) -> None:
    if mode not in MODES:
        raise _wrong(f"there is no mode {mode[:80]!r}: choose one of {', '.join(MODES)}")
    session.set_mode(mode)


def _modes(session: Session) -> schema.SessionModeState:
    known = [schema.SessionMode(id=id, name=mode.name, description=mode.description) for id, mode in MODES.items()]
    return schema.SessionModeState(current_mode_id=session.mode, available_modes=known)


def _options(session: Session) -> list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean]:
    """The mode once more, as newer editors ask for it."""
    known = [
        schema.SessionConfigSelectOption(value=id, name=mode.name, description=mode.description)
        for id, mode in MODES.items()
    ]
    return [
        schema.SessionConfigOptionSelect(
            id="mode", name="Mode", category="mode", type="select", current_value=session.mode, options=known
        )
    ]


def _option_update(session: Session) -> schema.ConfigOptionUpdate:
    return schema.ConfigOptionUpdate(session_update="config_option_update", config_options=_options(session))


def _wrong(details: str) -> RequestError:
    """What was asked for cannot be; editors show the message."""
    return RequestError(-32602, details)
