"""How is it wired? The only place that turns a configuration into the parts that do the work."""

import os
from contextlib import suppress

from onhand import __version__, config
from onhand.config import Config
from onhand.config.files import cache_directory, is_foreign, state_directory
from onhand.corpora.context import Context
from onhand.corpora.kept import kept_at
from onhand.errors import ConfigError, EmbedderError, InputError, MissingExtra, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from onhand.acp.agent import EditorAgent, Wanted
    from onhand.acp.session import Join, Leave
    from onhand.actions.processes import Process, Start
    from onhand.actions.workspace import Workspace
    from onhand.agent.approval import Ask, Rule
    from onhand.agent.events import Listener
    from onhand.agent.loop import Agent
    from onhand.agent.models.model import Model
    from onhand.config.options import Agent as AgentOptions
    from onhand.corpora.corpus import Corpus
    from onhand.corpora.documents import Documents
    from onhand.corpora.everything import Everything, EverythingResult
    from onhand.corpora.notes import Notes
    from onhand.corpora.rules import Rules
    from onhand.corpora.skills import Skills
    from onhand.embed.embedder import Embedder
    from onhand.grpc.server import Server as GrpcServer
    from onhand.mcp.as_tools import OpenServers
    from onhand.mcp.pins import Pins
    from onhand.mcp.registry import McpRegistry
    from onhand.mcp.servers import Server, Servers
    from onhand.mcp.surface import Surface
    from onhand.memory.plan import Plan
    from onhand.sandbox.policy import Policy
    from onhand.sandbox.sandbox import Sandbox
    from onhand.search.index import Index
    from onhand.tools import Registry, Tool
    from onhand.tools.catalog import Catalog

PLAN_PATH = ".onhand/plan.journal"  # in the project
MAX_PEM_BYTES = 1024 * 1024


def configured(root: str | None = None) -> Config:
    """The configuration of the working directory's project, or of the directory that was named.

    A named directory is a project, or, when it has no context directory of its own, a directory of context files.
    """
    if root is not None and not os.path.isdir(root):
        raise InputError(f"{root} is not a directory: name a project, or a directory of context files")
    loaded = config.load(root)
    if root is None:
        if loaded.project_file or os.path.isdir(os.path.join(loaded.project, loaded.context.root)):
            return loaded
        return config.load(_project_above(loaded.project, loaded.context.root))
    has_own = os.path.isdir(os.path.join(root, loaded.context.root))
    if has_own and os.path.samefile(root, loaded.project):
        return loaded
    # The settings may be those of a project above; the context is that of the directory that was named.
    return config.load(root, flags={"context.root": loaded.context.root if has_own else "."})


def open_context(asked: Config) -> Context:
    """The project's context as the configuration asks for it."""
    settings = asked.context._asdict()
    return Context(asked.project, **settings, **_learning(asked, "context", settings))


def open_rules(asked: Config, root: str | None = None) -> "Rules":
    """The rules of the repository that the project is in, or of the directory that was named."""
    from onhand.corpora.rules import Rules

    settings = asked.rules._asdict()
    project = os.path.abspath(root) if root else _repository(asked.project)
    return Rules(project, **settings, **_learning(asked, "rules", {**settings, "root": project}))


def open_notes(asked: Config) -> "Notes":
    """The notes that agents wrote about the project."""
    from onhand.corpora.notes import Notes

    path = os.path.join(asked.project, asked.notes.path)
    if _is_smuggled(asked, asked.notes.path):
        raise ConfigError(f"{path} is a link out of the project: name the directory itself in notes.path")
    return Notes(path, limit=asked.notes.limit, **_learning(asked, "notes", {"path": path}))


def make_room_for_notes(asked: Config) -> None:
    """Make the directory of the notes now: behind the walls of a sandbox, none can be made beside a protected name."""
    if not _is_smuggled(asked, asked.notes.path):
        with suppress(OSError):  # whoever writes a note is told why it cannot be
            os.makedirs(os.path.join(asked.project, asked.notes.path), exist_ok=True)


def open_everything(asked: Config) -> "Everything":
    """One search across all that the configuration offers, those with more authority first."""
    from onhand.corpora.everything import Everything

    return Everything(
        {
            "rules": lambda: open_rules(asked),
            "context": lambda: open_context(asked),
            "skills": lambda: open_skills(asked),
            "documents": lambda: _documents_if_any(asked),
            "notes": lambda: open_notes(asked),
        }
    )


def search_everything(
    query: str, *, root: str | None = None, kinds: "Sequence[str]" = (), limit: int = 10
) -> "EverythingResult":
    """What the working directory's project, or the one that was named, has about a query, whatever it is kept in."""
    return open_everything(configured(root)).search(query, kinds, limit)


def _documents_if_any(asked: Config) -> "Corpus":
    from onhand.corpora.corpus import Absent

    path = documents_path(asked)
    if not os.path.exists(path):
        return Absent(f"there are no documents at {path}: import some with `onhand docs import PATH…`")
    return open_documents(asked, path)


def open_skills(asked: Config, root: str | None = None) -> "Skills":
    """The skills that the configuration asks for; of a directory that was named, its own.

    A named directory is a project, or, when it has none of the usual places, a directory of skills or a skill.
    """
    from onhand.corpora.skill_roots import has_usual
    from onhand.corpora.skills import Skills

    settings = asked.skills._asdict()
    project, home = asked.project, os.path.expanduser("~") if settings.pop("user") else None
    if root is not None:
        project, settings["roots"] = os.path.abspath(root), ()
        if not has_usual(project):
            settings["roots"], settings["usual"] = (".",), False
    learned = _learning(asked, "skills", {**settings, "project": project, "home": home})
    return Skills(project, home=home, **settings, **learned)


def _learning(asked: Config, name: str, settings: "Mapping[str, object]") -> "dict[str, Any]":
    """How a corpus of files learns what is in them: where it keeps that, and what works out its meaning."""
    how: dict[str, Any] = {"kept_at": None, "embedder": None, "unavailable": None}
    if asked.kept.between_runs:
        where = os.path.realpath(asked.project)
        how["kept_at"] = kept_at(cache_directory(os.environ), name, __version__, where, settings)
    if asked.kept.embedder != "none":
        from onhand.embed.choose import chosen

        how["embedder"], how["unavailable"] = chosen(asked.kept.embedder)
    return how


def open_index(path: str | os.PathLike[str] | None = None, embedder: "Embedder | str | None" = "auto") -> "Index":
    """The documents of a file, which is made if it is not there; without a path, an index in memory.

    `embedder` is "auto" (the best that is installed, or none), None, the name of one, or one of your own.
    """
    from onhand.embed.choose import chosen
    from onhand.search.index import Index
    from onhand.store.memory import MemoryStore
    from onhand.store.sqlite import SqliteStore

    at_hand, unavailable = chosen(embedder)
    return Index(MemoryStore() if path is None else SqliteStore(path), at_hand, unavailable)


def open_catalog(
    files: "Sequence[str]", embedder: "Embedder | str | None" = None, path: str | os.PathLike[str] | None = None
) -> "tuple[Catalog, list[str]]":
    """The tools that some files describe, and what in these is no tool.

    Of several files, each is a server to those of its tools that name none: no tool takes the place of another file's.
    """
    from onhand.embed.choose import chosen
    from onhand.tools.catalog import Catalog
    from onhand.tools.catalog_files import read_catalog

    read = {file: read_catalog(file) for file in files}
    at_hand, unavailable = chosen(None if embedder == "none" else embedder)
    if embedder not in (None, "none", "auto") and at_hand is None:
        raise EmbedderError(unavailable or "there is no such embedder")
    catalog = Catalog(path, at_hand)
    problems = []
    stems = [os.path.splitext(os.path.basename(file))[0] for file in read]
    for (file, (tools, unread)), stem in zip(read.items(), stems, strict=True):
        server = "" if len(read) == 1 else stem if stems.count(stem) == 1 else os.path.splitext(file)[0]
        added = catalog.add([tool if tool.server else tool._replace(server=server) for tool in tools])
        problems += [*unread, *(f"{file}: {reason}" for _, reason in added.refused)]
    return catalog, problems


def open_registry(asked: Config, workspace_tools: str | None = None) -> "Registry":
    """Every tool that the configuration offers to a model; `workspace_tools` overrides its own `workspace.tools`."""
    from onhand.tools import Registry

    tools = [open_context(asked).tool()]
    rules, skills = open_rules(asked), open_skills(asked)
    if rules.paths():  # tools that can find nothing would only cost room
        tools += rules.tools()
    if skills.all():
        tools += skills.tools()
    if not _is_smuggled(asked, asked.notes.path):  # of which the configuration's warnings tell
        tools += open_notes(asked).tools()
    documents = _documents_or_none(asked)
    if documents is not None:
        tools += documents.tools()
    plan = os.path.join(asked.project, PLAN_PATH)
    if os.path.isfile(plan) and not _is_smuggled(asked, PLAN_PATH):  # four more tools in a prompt: on request only
        from onhand.memory.plan_tool import tools_over

        tools += tools_over(open_plan(asked))
    tools += open_workspace_tools(asked, workspace_tools or asked.workspace.tools)
    tools += open_shell_tools(asked) if asked.shell.enabled else []
    tools += open_web_tools(asked) if asked.web.enabled else []
    return Registry(tools)


def open_agent(
    asked: Config,
    *,
    options: "AgentOptions | None" = None,
    model: "Model | None" = None,
    ask: "Ask | None" = None,
    listeners: "Sequence[Listener]" = (),
    hands: "Callable[[Sequence[Tool]], Sequence[Tool]] | None" = None,
) -> "Agent":
    """An agent over the project, with a conversation of its own; ModelError says how to set a model.

    `options` take the place of the configured ones, `model` of the one that they name. `ask` asks a person. `hands`
    may give tools with the same names that do their work elsewhere, such as in an editor.
    """
    from onhand.agent.approval import DEFAULT, Approval
    from onhand.agent.events import Limits
    from onhand.agent.loop import Agent
    from onhand.agent.models.choose import model_of
    from onhand.agent.nested_rules import NestedRules
    from onhand.agent.prompt import parts_of
    from onhand.agent.sub_agents import NAME, delegate
    from onhand.agent.toolbox import Toolbox
    from onhand.tools.budget import policy
    from onhand.tools.catalog_tool import MCP

    options = options or asked.agent
    model = model or model_of(options.model, options.base_url, options.api_key_env, options.max_output_tokens)
    rules = open_rules(asked)
    notes = None if _is_smuggled(asked, asked.notes.path) else open_notes(asked)
    # An agent without files is of little use, and what it writes is asked about: it has more than what is served.
    tools: Sequence[Tool] = list(open_registry(asked, options.workspace_tools))
    tools = hands(tools) if hands else tools
    toolbox = Toolbox(
        tools,
        nested_rules=NestedRules(rules),
        policy=policy(options.load_tools),
        window_tokens=options.window_tokens,
        # The few that find the rest.
        always_tools=[NAME, *(tool.name for tool in tools if not tool.name.startswith(MCP))],
    )
    agent = Agent(
        model,
        toolbox,
        parts_of(open_context(asked), rules, open_skills(asked), notes),
        approval=Approval([*_rights(options), *DEFAULT], ask, asked.project),
        limits=Limits(options.max_turns, options.max_tokens or None),
        listeners=listeners,
    )
    toolbox.add(delegate(agent, toolbox))
    if options.telemetry:
        from onhand.agent.telemetry import Telemetry

        agent.listeners.append(Telemetry(model.name))
    return agent


async def join_servers(agent: "Agent", registry: "McpRegistry") -> "tuple[OpenServers, Sequence[str]]":
    """Open MCP servers for an agent, whose tools it can then find and call; and what is wrong with some."""
    from onhand.agent.toolbox import Toolbox
    from onhand.mcp.as_tools import OpenServers, tools_of

    servers = OpenServers(registry)
    problems = await servers.open()
    toolbox = agent.tools
    assert isinstance(toolbox, Toolbox), "open_agent made it"
    for tool in tools_of(registry, taken={tool.name for tool in toolbox}):
        toolbox.add(tool)
    return servers, problems


def _rights(options: "AgentOptions") -> "tuple[Rule, ...]":
    """What the configuration forbids and allows, whatever else is asked about."""
    from onhand.agent.approval import Rule

    return (*(Rule("deny", name) for name in options.deny), *(Rule("allow", name) for name in options.allow))


def open_editor_agent(flags: "Mapping[str, Any] | None" = None) -> "EditorAgent":
    """The agent of an editor, which opens a project with every session; `flags` override the configured options."""
    from onhand.acp.agent import EditorAgent, Wanted
    from onhand.acp.editor_tools import through
    from onhand.acp.history import History
    from onhand.acp.session import Conversation
    from onhand.memory.render import acp_plan

    async def opened(wanted: Wanted) -> Conversation:
        session = wanted.session
        asked = configured(session.directory)
        options = asked.agent._replace(**flags or {})

        def hands(tools: "Sequence[Tool]") -> "Sequence[Tool]":
            return through(session.client, session.session_id, session.abilities, open_workspace(asked), tools)

        agent = open_agent(asked, options=options, hands=hands)
        plan = open_plan(asked)
        join, leave = _joining(asked, agent, wanted)
        return Conversation(agent, _rights(options), lambda: plan.look(acp_plan), join, leave)

    return EditorAgent(opened, History(state_directory(os.environ)), __version__)


def _joining(asked: Config, agent: "Agent", wanted: "Wanted") -> "tuple[Join | None, Leave | None]":
    """How the servers that an editor wants, and those of the user, join a conversation when it begins, and leave it."""
    if not wanted.servers and not has_servers(asked):
        return None, None
    from onhand.acp.agent import entries_of

    opened: list[OpenServers] = []

    async def join() -> None:
        if opened:
            return
        from onhand.mcp.registry import McpRegistry
        from onhand.mcp.servers import servers_in

        theirs = servers_in({"mcpServers": entries_of(wanted.servers)}, "the editor")
        await wanted.session.warn(theirs.problems)
        allowed = [one for one in theirs.servers if await wanted.session.allows(one.key, one.shown)]
        registries = [McpRegistry(allowed, version=__version__)] if allowed else []
        registries += [open_mcp(asked)[0]] if has_servers(asked) else []
        for registry in registries:
            servers, problems = await join_servers(agent, registry)
            opened.append(servers)
            await wanted.session.warn(problems)

    async def leave() -> None:
        while opened:
            await opened.pop().close()

    return join, leave


def has_servers(asked: Config) -> bool:
    """Whether there may be other MCP servers behind us: nothing of MCP is imported to find out."""
    return bool(asked.mcp.files) or os.path.lexists(mcp_file())


def open_workspace(asked: Config) -> "Workspace":
    """The directories that a model may work in, as the configuration asks for them."""
    from onhand.actions.workspace import Workspace

    settings = asked.workspace
    return Workspace(
        os.path.join(asked.project, settings.root),
        read_only_roots=[os.path.join(asked.project, path) for path in settings.read_only_roots],
        writable_roots=[os.path.join(asked.project, path) for path in settings.writable_roots],
        deny=settings.deny,
        protect=settings.protect,
        allow=settings.allow,
    )


def open_workspace_tools(asked: Config, which: str) -> "list[Tool]":
    """The tools over the workspace: none, those that read, or those that write too."""
    if which == "none":
        return []
    from onhand.actions import file_tools, find_tools, git_tool

    workspace = open_workspace(asked)
    tools = [*file_tools.reading_tools(workspace), *find_tools.tools_over(workspace), git_tool.tool_over(workspace)]
    return tools + (file_tools.writing_tools(workspace) if which == "write" else [])


def open_policy(asked: Config) -> "Policy":
    """What commands in the project may read, write and reach, as the configuration asks for it."""
    from onhand.sandbox.policy import for_workspace

    settings = asked.sandbox
    project = os.path.realpath(asked.project)

    def whole(paths: "Sequence[str]") -> list[str]:
        return [os.path.normpath(os.path.join(project, path)) for path in paths]

    policy = for_workspace(
        project,
        home=os.path.expanduser("~"),
        readable=whole(settings.readable),
        writable=whole(settings.writable),
        denied=[*whole(settings.denied), *_own_secrets()],
        domains=settings.domains,
    )
    limited = policy._replace(memory_bytes=settings.memory_mb << 20, cpu_s=settings.cpu_s, processes=settings.processes)
    return limited.checked()


def _own_secrets() -> list[str]:
    """Where the user's own word to us is: a command must not be able to speak for the user."""
    from onhand.config.files import trust_store, user_file

    return [path for path in (user_file(os.environ), trust_store(os.environ)) if os.path.isabs(path)]


def open_sandbox(asked: Config, policy: "Policy") -> "Sandbox | None":
    """What confines commands here; None only when the user asked for nothing to."""
    from onhand.sandbox.sandbox import choose

    return None if asked.sandbox.backend == "none" else choose(policy, asked.sandbox.backend)


def open_shell_tools(asked: Config) -> "list[Tool]":
    """The tools that run commands in the project, behind the walls that the configuration asks for."""
    from onhand.actions.environment import environment_of
    from onhand.actions.jobs import Jobs
    from onhand.actions.processes import start_unconfined
    from onhand.actions.shell_tools import tools_over
    from onhand.actions.workspace import Workspace

    policy = open_policy(asked)
    sandbox = open_sandbox(asked, policy)
    also = asked.shell.environment if sandbox else ("HOME", *asked.shell.environment)
    start = start_unconfined if sandbox is None else _starting(sandbox, policy)
    walls = "Nothing confines it." if sandbox is None else walls_of(policy)
    return tools_over(
        Jobs(start),
        Workspace(asked.project).directory,
        lambda given: environment_of(os.environ, also, given),
        walls,
        asked.shell.timeout_s,
    )


def _starting(sandbox: "Sandbox", policy: "Policy") -> "Start":
    """How the sandbox starts a command: with nothing to read, and pipes for what it prints."""
    from subprocess import DEVNULL, PIPE

    from onhand.sandbox.sandbox import Command

    def start(argv: "Sequence[str]", cwd: str, environment: "Mapping[str, str]") -> "Process":
        return sandbox.start(policy, Command(argv, cwd, environment, DEVNULL, PIPE, PIPE))

    return start


def walls_of(policy: "Policy") -> str:
    """What a model is told of the walls around its commands."""
    reached = f"reach {', '.join(policy.domains)}" if policy.domains else "reach no network"
    return f"It can write only in the workspace and its own TMPDIR, {reached}, and see no secrets."


def open_web_tools(asked: Config) -> "list[Tool]":
    """The tool that fetches pages, whose answers stand in a block that no page can close."""
    from onhand.actions.web_tool import tool_over
    from onhand.corpora.blocks import block

    return [tool_over(lambda attributes, text: block("web_page", attributes, text), asked.web.allow_http)]


def open_surface(asked: Config) -> "tuple[Surface, tuple[str, ...]]":
    """What `onhand serve` offers over MCP, with the other servers behind it; and what of these cannot be used."""
    _need_mcp()
    from onhand.mcp.library import Library
    from onhand.mcp.own import OwnSurface

    own = OwnSurface(
        open_registry(asked),
        Library(lambda: open_context(asked), lambda: open_skills(asked), lambda: _documents_or_none(asked)),
        __version__,
    )
    return _gateway_around(asked, own)


def _need_mcp() -> None:
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise MissingExtra("MCP", "mcp")


def _documents_or_none(asked: Config) -> "Documents | None":
    path = os.path.join(asked.project, asked.documents.path)
    if not os.path.isfile(path) or _is_smuggled(asked, asked.documents.path):
        return None
    return open_documents(asked, path)


def mcp_file() -> str:
    """The user's own list of MCP servers, which `onhand mcp add` writes."""
    from onhand.config.files import user_file

    return os.path.join(os.path.dirname(user_file(os.environ)), "mcp.json")


def open_servers(asked: Config) -> "Servers":
    """The MCP servers of the user's own file, then those of the files that the configuration names."""
    from onhand.mcp.servers import Servers, read_servers

    found: dict[str, Server] = {}
    problems: list[str] = []
    own = [mcp_file()] if os.path.lexists(mcp_file()) else []
    named = [os.path.join(asked.project, os.path.expanduser(path)) for path in asked.mcp.files]
    for path in own + named:
        servers, told = read_servers(path)
        problems += told
        for server in servers:
            if found.setdefault(server.key, server) != server:
                problems.append(f"{path}: there is another server {server.key!r} already, which counts")
    return Servers(tuple(found.values()), tuple(problems))


def open_pins(asked: Config) -> "Pins":
    """What was approved of those servers: one list for the user's own, one for each project that names files."""
    from onhand.config.files import trust_store
    from onhand.mcp.pins import Pins

    directory = os.path.join(os.path.dirname(trust_store(os.environ)), "mcp")
    return Pins(os.path.join(directory, f"{_whose_servers(asked)}.json"), asked.mcp.trust)


def open_mcp(asked: Config, show_login: "Callable[[str], None] | None" = None) -> "tuple[McpRegistry, tuple[str, ...]]":
    """All MCP servers behind us, and what in their configuration cannot be used; `show_login` lets a person log in."""
    _need_mcp()
    from onhand.mcp.login import login_of
    from onhand.mcp.registry import McpRegistry

    servers, problems = open_servers(asked)
    kept = os.path.join(cache_directory(os.environ), "mcp", _whose_servers(asked))
    registry = McpRegistry(
        servers,
        open_pins(asked),
        lists_directory=kept if asked.kept.between_runs else None,
        auth_of=login_of(os.path.dirname(mcp_file()), show_login),
        version=__version__,
    )
    return registry, problems


def _gateway_around(asked: Config, own: "Surface") -> "tuple[Surface, tuple[str, ...]]":
    """Our own surface with the other servers behind it, or just that where there are none; and what is wrong."""
    if not has_servers(asked):
        return own, ()
    registry, problems = open_mcp(asked)
    if not registry.keys:
        return own, problems
    if asked.mcp.transparent:
        from onhand.mcp.transparent import Transparent

        registry.client(asked.mcp.transparent)
        return Transparent(registry, asked.mcp.transparent), problems
    from onhand.mcp.gateway import Gateway

    return Gateway(registry, own, asked.mcp.surface), problems


def _whose_servers(asked: Config) -> str:
    from onhand.digest import digest

    return digest(os.path.realpath(asked.project).encode(errors="surrogateescape")) if asked.mcp.files else "user"


def documents_path(asked: Config) -> str:
    """The file of the project's documents, whether it is there or not."""
    path = os.path.join(asked.project, asked.documents.path)
    if _is_smuggled(asked, asked.documents.path):
        raise ConfigError(f"{path} is a link out of the project: name the file itself in documents.path, or by --db")
    return path


def _is_smuggled(asked: Config, path: str) -> bool:
    """Whether a configured path leads out of the project that nobody allowed to: a clone may have brought a link."""
    if os.path.isabs(path):
        return False
    real = os.path.realpath(os.path.join(asked.project, path))
    return not real.startswith(os.path.join(os.path.realpath(asked.project), ""))


def open_plan(asked: Config, path: str | None = None) -> "Plan":
    """The plan of a file, by default the project's; it is made with the first change."""
    from onhand.memory.plan import Plan

    if path is None:
        path = os.path.join(asked.project, PLAN_PATH)
        if _is_smuggled(asked, PLAN_PATH):
            raise ConfigError(f"{path} is a link out of the project: name the file itself by --file")
    return Plan(path)


def open_documents(
    asked: Config, path: str | None = None, embedder: "Embedder | str | None" = "configured"
) -> "Documents":
    """The documents of a file that is there, by default the project's; StoreError says how to make one."""
    from onhand.corpora.documents import Documents

    path = path or documents_path(asked)
    if not os.path.exists(path):
        raise StoreError(f"there are no documents at {path}: import some with `onhand docs import PATH…`")
    wanted = asked.documents.embedder if embedder == "configured" else embedder
    index = open_index(path, None if wanted == "none" else wanted)
    return Documents(index, asked.documents.max_output_bytes)


def open_grpc(asked: Config, path: str | None = None) -> "GrpcServer":
    """The search service over the documents of a file, by default the project's, as the configuration asks for it.

    What writes has a connection of its own, so that searches do not wait for it.
    """
    from onhand.grpc import Server, Settings

    path = path or documents_path(asked)
    ours = asked.grpc
    writer = open_index(path, _embedder_of(asked)) if ours.writes else None
    settings = Settings(
        token=_token(ours.token_env),
        certificate=_pem(asked, "tls_cert"),
        private_key=_pem(asked, "tls_key"),
        client_ca=_pem(asked, "client_ca"),
        max_in_flight=ours.max_in_flight,
        max_message_bytes=ours.max_message_bytes,
        log_queries=ours.log_queries,
    )
    telemetry = None
    if ours.metrics:
        from onhand.grpc.telemetry import OpenTelemetry

        telemetry = OpenTelemetry()
    return Server(open_documents(asked, path), writer, settings, telemetry)


def _token(name: str) -> str:
    token = os.environ.get(name, "") if name else ""
    if name and not token:
        raise ConfigError(f"grpc.token_env names ${name}, which is not set: set it to the token that calls carry")
    return token


def _pem(asked: Config, name: str) -> bytes:
    """What is in a file that an option of gRPC names; nothing if it names none."""
    named: str = getattr(asked.grpc, name)
    if not named:
        return b""
    path = os.path.join(asked.project, named)
    try:
        with open(path, "rb") as file:
            return file.read(MAX_PEM_BYTES)
    except OSError as error:
        raise ConfigError(f"grpc.{name}: {path} cannot be read: {error.strerror or error}") from None


def _embedder_of(asked: Config) -> str | None:
    return None if asked.documents.embedder == "none" else asked.documents.embedder


def _project_above(start: str, root: str) -> str:
    """The nearest directory upwards that has `root`, inside the repository of `start`; else `start`.

    Outside of a repository nothing above is looked for: anybody may have put it there. So may they have the repository.
    """
    found = None
    directory, above = start, os.path.dirname(start)
    while True:
        has_root = found is None and os.path.isdir(os.path.join(directory, root))
        if has_root and not is_foreign(os.path.join(directory, root), start):
            found = directory
        if os.path.lexists(os.path.join(directory, ".git")):
            return start if found is None or is_foreign(os.path.join(directory, ".git"), start) else found
        if above == directory:
            return start
        directory, above = above, os.path.dirname(above)


def _repository(start: str) -> str:
    """The nearest directory upwards that is a repository's; else `start`: above it anybody may have put files."""
    directory, above = start, os.path.dirname(start)
    while not os.path.lexists(os.path.join(directory, ".git")):
        if above == directory:
            return start
        directory, above = above, os.path.dirname(above)
    return start if is_foreign(os.path.join(directory, ".git"), start) else directory
