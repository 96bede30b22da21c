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
    """Return the surface that is served over MCP: the project itself, and the upstream servers if there are any."""
    require_mcp()
    from onhand.mcp.local import LocalResources, LocalSurface

    resources = LocalResources(
        lambda: project.context, lambda: project.skills, lambda: project.documents if project.has_documents else None
    )
    is_structured = project.config.mcp.structured
    local = LocalSurface(project.registry(), resources, __version__, is_structured, project.registry)
    if not project.has_servers or not project.servers.keys:
        return local
    settings = project.config.mcp
    if settings.transparent:
        from onhand.mcp.pass_through import PassThrough

        project.servers.client(settings.transparent)  # raises NotFound for an unknown server
        return PassThrough(project.servers, settings.transparent)
    from onhand.mcp.gateway import Gateway

    return Gateway(project.servers, local, is_structured)


def grpc_server(project: Project) -> "GrpcServer":
    """Return the search service over the documents. Writes use a separate connection, so that searches do not wait."""
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
    """Read the PEM file of a gRPC setting; return nothing if the setting is empty."""
    setting: str = getattr(config.grpc, name)
    if not setting:
        return b""
    path = os.path.join(config.project, setting)
    try:
        with open(path, "rb") as file:
            return file.read(MAX_PEM_BYTES)
    except OSError as error:
        raise ConfigError(f"grpc.{name}: {path} cannot be read: {error.strerror or error}") from None


def editor_agent(flags: Mapping[str, Any]) -> "EditorAgent":
    """Return the agent for an editor, which opens a project for each session; `flags` override its settings."""
    from onhand.acp.agent import EditorAgent
    from onhand.acp.history import History

    async def open_conversation(request: "SessionRequest") -> "Conversation":
        return _open_conversation(request, flags)

    return EditorAgent(open_conversation, History(state_directory(os.environ)), __version__)


def _open_conversation(request: "SessionRequest", flags: Mapping[str, Any]) -> "Conversation":
    """Open the project of a session, with an agent whose file and terminal tools may go through the editor."""
    from onhand.acp.editor_tools import route_to_editor
    from onhand.acp.session import Conversation
    from onhand.agent.approval import rules_for
    from onhand.plan.render import to_acp_entries

    session, opened = request.session, project.open(request.session.directory)
    settings = opened.agent_settings(flags)
    agent = opened.agent(
        settings=settings,
        replace_tools=lambda tools: route_to_editor(
            session.client, session.session_id, session.abilities, opened.workspace, tools
        ),
    )
    servers = _EditorServers(opened, agent, request)
    return Conversation(
        agent,
        rules_for(settings.allow, settings.deny),
        lambda: opened.plan.read(to_acp_entries),
        servers.join if servers.exist else None,
        servers.leave if servers.exist else None,
    )


class _EditorServers:
    """The MCP servers of a conversation, the editor's and the user's; its first prompt connects them."""

    def __init__(self, project: Project, agent: "Agent", request: "SessionRequest") -> None:
        self._project, self._agent, self._request = project, agent, request
        self._joined: list[JoinedServers] = []
        self._is_complete = False

    @property
    def exist(self) -> bool:
        return bool(self._request.servers) or self._project.has_servers

    async def join(self) -> None:
        if self._is_complete:
            return
        session = self._request.session
        for servers in [*await self._editor_servers(), *self._user_servers()]:
            problems = await servers.open()
            self._joined.append(servers)
            await session.warn(problems)
        self._is_complete = True

    async def leave(self) -> None:
        while self._joined:
            await self._joined.pop().close()

    async def _editor_servers(self) -> "list[JoinedServers]":
        """Return the servers of the editor that the person allows: an editor alone cannot have programs started."""
        from onhand.acp.agent import server_entries
        from onhand.mcp.servers import parse_servers
        from onhand.mcp.upstreams import Upstreams

        session = self._request.session
        parsed = parse_servers({"mcpServers": server_entries(self._request.servers)}, "the editor")
        await session.warn(parsed.problems)
        allowed = [server for server in parsed.servers if await session.allows(server.key, server.summary)]
        return [self._project.join_servers(self._agent, Upstreams(allowed, version=__version__))] if allowed else []

    def _user_servers(self) -> "list[JoinedServers]":
        if not self._project.has_servers:
            return []
        servers = self._project.open_servers()  # not project.servers: after a failure, the next prompt opens new ones
        return [self._project.join_servers(self._agent, servers)]
