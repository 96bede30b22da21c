"""The doors to a project: what `onhand serve` and `onhand acp` offer over MCP, gRPC and the Agent Client Protocol."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onhand import __version__, project
from onhand.config import Config
from onhand.config.files import state_directory
from onhand.errors import ConfigError
from onhand.net import read_token
from onhand.project import CORPORA, Project, open_index, require_mcp

if TYPE_CHECKING:
    from onhand.acp.agent import EditorAgent, SessionRequest
    from onhand.acp.session import Conversation
    from onhand.agent.loop import Agent
    from onhand.grpc.server import GrpcServer
    from onhand.mcp.surface import Surface
    from onhand.mcp.upstream_tools import JoinedServers

RESOURCES = {"context": "context", "document": "documents", "skill": "skills"}  # kind of a resource → its corpus
MAX_PEM_BYTES = 1024 * 1024


def mcp_surface(project: Project, profile: str = "") -> "Surface":
    """Return the surface that is served over MCP: the project itself, and the upstream servers if there are any.

    With the name of a profile, only what belongs to it is there. Surfaces of one project share the connections.
    """
    require_mcp()
    from onhand.mcp.local import LocalResources, LocalSurface
    from onhand.mcp.profiles import EVERYTHING, Profile
    from onhand.tools import Registry

    chosen = Profile(profile, *project.profile(profile)[:3]) if profile else EVERYTHING
    corpora = [name for name in CORPORA if chosen.has_corpus(name)]
    resources = LocalResources(
        lambda: project.context,
        lambda: project.skills,
        lambda: project.documents if project.has_documents else None,
        [kind for kind, corpus in RESOURCES.items() if corpus in corpora],
    )

    def open_registry() -> Registry:
        tools = project.tools(corpora=corpora)
        return Registry([tool for tool in tools if chosen.has_tool(tool.name)], gate=project.gate)

    is_structured = project.config.mcp.structured
    local = LocalSurface(open_registry(), resources, __version__, is_structured, open_registry)
    servers = [key for key in project.servers.keys if chosen.has_server(key)] if project.has_servers else []
    if not servers:
        return local
    upstreams = project.servers if chosen == EVERYTHING else project.servers.part(servers, chosen.has_tool)
    transparent = project.config.mcp.transparent
    if transparent and (transparent in servers or not profile):
        from onhand.mcp.pass_through import PassThrough

        upstreams.client(transparent)  # raises NotFound for an unknown server
        return PassThrough(upstreams, transparent)
    from onhand.mcp.gateway import Gateway

    def find_problems() -> list[str]:
        if any(not upstreams.is_listed(key) for key in servers):  # it may have these tools
            return []
        names = [*local.registry.names(), *(route.tool.name for route in upstreams.routes())]
        return chosen.find_unknown_tools(names)

    return Gateway(upstreams, local, is_structured, find_problems)


def profile_problems(project: Project, name: str, surface: "Surface") -> list[str]:
    """Return a problem for each name in a profile that does not exist, as far as it is known yet."""
    from onhand.mcp.gateway import Gateway
    from onhand.mcp.local import LocalSurface
    from onhand.mcp.profiles import Profile

    chosen = Profile(name, *project.profile(name)[:3])
    keys = project.servers.keys if project.has_servers else ()
    problems = [*chosen.find_unknown_servers(keys), *chosen.find_unknown_corpora(CORPORA)]
    if isinstance(surface, LocalSurface):
        return [*problems, *chosen.find_unknown_tools(surface.registry.names())]
    return [*problems, *(surface.find_problems() if isinstance(surface, Gateway) else ())]


def grpc_server(project: Project, shares_port: bool = False) -> "GrpcServer":
    """Return the search service over the documents. Writes use a separate connection, so that searches do not wait.

    With `shares_port`, other processes may listen on the same port, and calls are distributed among them.
    """
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
        shares_port=shares_port,
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
