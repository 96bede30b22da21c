"""The doors to a project: what `onhand serve` and `onhand acp` offer over MCP, gRPC and the Agent Client Protocol."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onhand import __version__, project
from onhand.config import Config
from onhand.config.files import state_directory
from onhand.errors import ConfigError
from onhand.net import read_token
from onhand.project import Project, open_index, require_mcp

if TYPE_CHECKING:
    from onhand.acp.agent import EditorAgent, SessionRequest
    from onhand.acp.session import Conversation
    from onhand.agent.loop import Agent
    from onhand.grpc.server import GrpcServer
    from onhand.mcp.surface import Surface
    from onhand.mcp.upstream_tools import JoinedServers

MAX_PEM_BYTES = 1024 * 1024


def mcp_surface(project: Project) -> "Surface":
    """Return what is served over MCP: the project itself, with the other servers behind it if there are any."""
    require_mcp()
    from onhand.mcp.local import LocalResources, LocalSurface

    library = LocalResources(
        lambda: project.context, lambda: project.skills, lambda: project.documents if project.has_documents else None
    )
    own = LocalSurface(project.registry(), library, __version__)
    if not project.has_servers or not project.servers.keys:
        return own
    settings = project.config.mcp
    if settings.transparent:
        from onhand.mcp.pass_through import PassThrough

        project.servers.client(settings.transparent)  # which raises if there is none
        return PassThrough(project.servers, settings.transparent)
    from onhand.mcp.gateway import Gateway

    return Gateway(project.servers, own)


def grpc_server(project: Project) -> "GrpcServer":
    """Return the search service over the documents. Writes have a connection of their own: searches do not wait."""
    from onhand.grpc import GrpcServer, ServerSettings

    settings = project.config.grpc
    writer = open_index(project.documents_path, project.config.documents.embedder) if settings.writes else None
    telemetry = None
    if settings.metrics:
        from onhand.grpc.telemetry import OpenTelemetry

        telemetry = OpenTelemetry()
    limits = ServerSettings(
        token=read_token(settings.token_env),
        certificate=_read_pem(project.config, "tls_cert"),
        private_key=_read_pem(project.config, "tls_key"),
        client_ca=_read_pem(project.config, "client_ca"),
        max_in_flight=settings.max_in_flight,
        max_message_bytes=settings.max_message_bytes,
        log_queries=settings.log_queries,
    )
    return GrpcServer(project.documents, writer, limits, telemetry)


def _read_pem(config: Config, name: str) -> bytes:
    """Read the file that a setting of gRPC names; nothing if it names none."""
    named: str = getattr(config.grpc, name)
    if not named:
        return b""
    path = os.path.join(config.project, named)
    try:
        with open(path, "rb") as file:
            return file.read(MAX_PEM_BYTES)
    except OSError as error:
        raise ConfigError(f"grpc.{name}: {path} cannot be read: {error.strerror or error}") from None


def editor_agent(flags: Mapping[str, Any]) -> "EditorAgent":
    """Return the agent of an editor, which opens a project with every session; `flags` override its settings."""
    from onhand.acp.agent import EditorAgent
    from onhand.acp.history import History

    return EditorAgent(_Conversations(flags), History(state_directory(os.environ)), __version__)


class _Conversations:
    """Opens the project of each session of an editor, with an agent over it."""

    def __init__(self, flags: Mapping[str, Any]) -> None:
        self._flags = flags

    async def __call__(self, wanted: "SessionRequest") -> "Conversation":
        from onhand.acp.editor_tools import route_to_editor
        from onhand.acp.session import Conversation
        from onhand.agent.approval import rules_for
        from onhand.plan.render import to_acp_entries

        session, opened = wanted.session, project.open(wanted.session.directory)
        settings = opened.agent_settings(self._flags)
        agent = opened.agent(
            settings=settings,
            replace_tools=lambda tools: route_to_editor(
                session.client, session.session_id, session.abilities, opened.workspace, tools
            ),
        )
        servers = _EditorServers(opened, agent, wanted)
        return Conversation(
            agent,
            rules_for(settings.allow, settings.deny),
            lambda: opened.plan.read(to_acp_entries),
            servers.join if servers.are_wanted else None,
            servers.leave if servers.are_wanted else None,
        )


class _EditorServers:
    """The MCP servers of a conversation, those of the editor and those of the user, joined with its first prompt."""

    def __init__(self, project: Project, agent: "Agent", wanted: "SessionRequest") -> None:
        self._project, self._agent, self._wanted = project, agent, wanted
        self._joined: list[JoinedServers] = []
        self._is_complete = False

    @property
    def are_wanted(self) -> bool:
        return bool(self._wanted.servers) or self._project.has_servers

    async def join(self) -> None:
        if self._is_complete:
            return
        session = self._wanted.session
        for servers in [*await self._join_those_of_the_editor(), *self._join_those_of_the_user()]:
            problems = await servers.open()
            self._joined.append(servers)
            await session.warn(problems)
        self._is_complete = True

    async def leave(self) -> None:
        while self._joined:
            await self._joined.pop().close()

    async def _join_those_of_the_editor(self) -> "list[JoinedServers]":
        """Ask the person about each server: what an editor says starts no program by itself."""
        from onhand.acp.agent import server_entries
        from onhand.mcp.servers import parse_servers
        from onhand.mcp.upstreams import Upstreams

        session = self._wanted.session
        named = parse_servers({"mcpServers": server_entries(self._wanted.servers)}, "the editor")
        await session.warn(named.problems)
        allowed = [server for server in named.servers if await session.allows(server.key, server.summary)]
        return [self._project.join_servers(self._agent, Upstreams(allowed, version=__version__))] if allowed else []

    def _join_those_of_the_user(self) -> "list[JoinedServers]":
        if not self._project.has_servers:
            return []
        servers = self._project.open_servers()  # not the project's own: after a failure they are opened again
        return [self._project.join_servers(self._agent, servers)]
