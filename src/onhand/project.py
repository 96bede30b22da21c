"""The public API: a project with its corpora, tools, servers and agent, each opened once, on first use.

This is the only module that names concrete classes. Commands, doors and agents take what they need from one `Project`.
Imports are inside the functions that need them, because a search must not pay for an agent.
"""

from __future__ import annotations

import os
from _thread import RLock  # what `threading` has, without its Python part

from onhand import __version__, config
from onhand.closed_paths import REPOSITORY, REPOSITORY_DIRECTORIES, ClosedPaths, fold, why_not_written
from onhand.config import Config
from onhand.config.files import cache_directory, is_foreign, quarantine_directory, trust_store, user_file
from onhand.corpora.file_index import cache_path
from onhand.corpora.files import SKIPPED_DIRECTORIES
from onhand.errors import ConfigError, InputError, MissingExtra, NotFound, SandboxError, StoreError
from onhand.fsio import describe_fault, find_exposed, make_directories
from onhand.search.index import MAX_PASSAGES, Index
from onhand.store.memory import MemoryStore
from onhand.text import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from functools import cached_property as part
    from typing import Any

    from onhand.actions.shell import RunningCommand, StartCommand
    from onhand.actions.workspace import Workspace
    from onhand.agent.approval import Ask
    from onhand.agent.events import Listener
    from onhand.agent.loop import Agent
    from onhand.agent.models.model import Model
    from onhand.cache.cache import SemanticCache
    from onhand.config.settings import AgentSettings, ProfileSettings
    from onhand.corpora.context import Context
    from onhand.corpora.documents import Documents
    from onhand.corpora.federated import FederatedResult, FederatedSearch, Findings
    from onhand.corpora.notes import Notes
    from onhand.corpora.rules import Rules
    from onhand.corpora.skills import Skills
    from onhand.embed.choose import OnDownload
    from onhand.embed.embedder import Embedder
    from onhand.mcp.approvals import Approvals
    from onhand.mcp.servers import ServerConfig, ServerConfigs
    from onhand.mcp.upstream_lists import UpstreamLists
    from onhand.mcp.upstream_tools import JoinedServers
    from onhand.mcp.upstreams import Upstreams
    from onhand.plan.plan import Plan
    from onhand.sandbox.policy import Policy
    from onhand.sandbox.sandbox import Sandbox
    from onhand.tools import Registry, Tool
    from onhand.tools.gate import Gate
else:

    class part:
        """`functools.cached_property` without its imports, and with a lock, so that no part is opened twice."""

        def __init__(self, open):
            self._open, self._name, self.__doc__ = open, open.__name__, open.__doc__

        def __get__(self, project, owner=None):
            if project is None:
                return self
            with project._lock:
                if self._name not in project.__dict__:
                    project.__dict__[self._name] = self._open(project)
                return project.__dict__[self._name]


CORPORA = ("rules", "context", "skills", "documents", "notes")  # in order of authority
PLAN_PATH = ".onhand/plan.journal"  # both are relative to the project
CACHE_PATH = ".onhand/cache.json"
_NO_DOCUMENTS = "there are no documents at {}: import some with `onhand docs import PATH…`"


def open(path: str | os.PathLike[str] = ".", *, settings: Mapping[str, object] | None = None) -> Project:
    """Open the project that a directory belongs to; each of its parts is opened on first use.

    `settings` override the configuration, such as {"context.limit": 5}.
    """
    return Project(load_config(start=os.fspath(path), flags=settings))


def open_index(
    path: str | os.PathLike[str] | None = None,
    embedder: Embedder | str | None = "auto",
    on_download: OnDownload | None = None,
    max_passages: int = MAX_PASSAGES,
    semantic_weight: float | None = None,
) -> Index:
    """Open an index of documents in a file, which is created if needed, or in memory if there is no path.

    `embedder` is "auto" (the best one installed, if any), None, the name of an embedder, or an Embedder. `on_download`
    gets the name of a model that is being downloaded, the bytes so far and, if known, the total. At most `max_passages`
    of a document get a vector. The weight of meaning in fused searches is measured on the documents, unless given.
    """
    from onhand.embed.choose import choose_embedder
    from onhand.store.sqlite import SqliteStore

    available, reason = choose_embedder(embedder, on_download)
    store = MemoryStore() if path is None else SqliteStore(path)
    return Index(store, available, reason, max_passages=max_passages, semantic_weight=semantic_weight)


class Project:
    """A project and its parts, each opened once, on first use.

    Corpora (`context`, `rules`, `skills`, `notes`, `documents`), `plan`, `cache` and `workspace` have `tools()`; the
    project has all that the configuration allows.
    """

    def __init__(self, config: Config, on_download: OnDownload | None = None) -> None:
        self.config = config
        self.on_download = on_download  # shows the progress when the model of an embedder is downloaded
        self._lock = RLock()

    def __repr__(self) -> str:
        return f"Project({self.directory!r})"

    @property
    def directory(self) -> str:
        """The directory of the project."""
        return self.config.project

    def close(self) -> None:
        """Write the cache to its file and close the index of documents."""
        for name in ("cache", "index"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()
        self.__dict__.pop("documents", None)

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Corpora

    @part
    def context(self) -> Context:
        """The context pages of the project."""
        from onhand.corpora.context import Context

        settings = self.config.context._asdict()
        return Context(self.directory, **settings, **self._indexing("context", settings), closed=self._closed)

    @part
    def rules(self) -> Rules:
        """The rules of the repository that the project is in."""
        return self.rules_of(repository_of(self.directory))

    def rules_of(self, directory: str) -> Rules:
        """Open the rules of another directory with the same settings."""
        from onhand.corpora.rules import Rules

        settings, directory = self.config.rules._asdict(), os.path.abspath(directory)
        indexing = self._indexing("rules", {**settings, "root": directory})
        return Rules(directory, **settings, **indexing, closed=self._closed)

    @part
    def skills(self) -> Skills:
        """The skills of the project and, unless `skills.user` is false, of the user."""
        return self._open_skills(self.directory, self.config.skills._asdict())

    def skills_of(self, directory: str) -> Skills:
        """Open the skills of a directory: a project, or a directory that is or contains skills."""
        from onhand.corpora.skill_files import has_usual

        directory, settings = os.path.abspath(directory), self.config.skills._asdict()
        settings["roots"] = ()
        if not has_usual(directory):
            settings["roots"], settings["usual"] = (".",), False
        return self._open_skills(directory, settings)

    def _open_skills(self, directory: str, settings: dict[str, Any]) -> Skills:
        from onhand.corpora.skills import Skills

        home = os.path.expanduser("~") if settings.pop("user") else None
        indexing = self._indexing("skills", {**settings, "project": directory, "home": home})
        return Skills(directory, home=home, **settings, **indexing, closed=self._closed)

    @part
    def notes(self) -> Notes:
        """The notes that agents wrote about the project."""
        from onhand.corpora.notes import Notes

        path = self._place_of("notes.path", self.config.notes.path)
        return Notes(path, limit=self.config.notes.limit, **self._indexing("notes", {"path": path}))

    @property
    def has_notes(self) -> bool:
        """Whether notes can be written to the configured directory; if not, a warning of `config` says why."""
        return not _notes_problem(self.config)

    def prepare_notes(self) -> None:
        """Create the directory of the notes, which may not be possible later in a sandbox."""
        from contextlib import suppress

        if self.has_notes:
            with suppress(OSError):  # writing a note will report it
                make_directories(os.path.join(self.directory, self.config.notes.path))

    @part
    def documents(self) -> Documents:
        """The imported documents; raises StoreError if there are none."""
        from onhand.corpora.documents import Documents

        if not os.path.exists(self.documents_path):
            raise StoreError(_NO_DOCUMENTS.format(self.documents_path))
        return Documents(self.index, self.config.documents.max_output_bytes)

    @part
    def index(self) -> Index:
        """The index of the documents, for adding and deleting them; its file is created if needed."""
        directory = os.path.dirname(os.path.abspath(self.documents_path))
        try:
            make_directories(directory)
        except OSError as error:
            raise StoreError(
                f"{directory} cannot be created, so choose another --db: {describe_fault(error)}"
            ) from None
        documents = self.config.documents
        weight = documents.semantic_weight or None
        return open_index(self.documents_path, documents.embedder, self.on_download, documents.max_passages, weight)

    @property
    def documents_path(self) -> str:
        """The path of the documents' file, whether or not it exists."""
        return self._place_of("documents.path", self.config.documents.path, ", or by --db")

    @property
    def has_documents(self) -> bool:
        """Whether documents were imported."""
        path = self.config.documents.path
        return os.path.isfile(os.path.join(self.directory, path)) and not _placement_problem(self.directory, path)

    @part
    def _closed(self) -> ClosedPaths:
        """What no corpus reads, such as secrets, and what only the notes do: they never become context or rules."""
        workspace = self.config.workspace
        notes = os.path.join(self.directory, self.config.notes.path) if self.has_notes else None
        return ClosedPaths(self.directory, workspace.deny, workspace.allow, notes)

    def search(self, query: str, kinds: Sequence[str] = (), limit: int = 10) -> FederatedResult:
        """Search rules, context, skills, documents and notes, or only the given kinds, in one ranking."""
        return self._everything.search(query, kinds, limit)

    @part
    def _everything(self) -> FederatedSearch:
        from onhand.corpora.federated import FederatedSearch

        return FederatedSearch(  # in order of authority
            {
                "rules": lambda: self.rules,
                "context": lambda: self.context,
                "skills": lambda: self.skills,
                "documents": lambda: _DocumentsIfAny(self),
                "notes": lambda: self.notes,
            }
        )

    def _indexing(self, name: str, settings: Mapping[str, object]) -> dict[str, Any]:
        """Return the cache file and the embedder of a corpus of files."""
        options: dict[str, Any] = {"cache_file": None, "embedder": None, "unavailable": None}
        if self.config.file_index.cached:
            where = os.path.realpath(self.directory)
            options["cache_file"] = cache_path(cache_directory(os.environ), name, __version__, where, settings)
        if self.config.file_index.embedder != "none":
            options["embedder"], options["unavailable"] = self._files_embedder
        return options

    @part
    def _files_embedder(self) -> tuple[Embedder | None, str | None]:
        from onhand.embed.choose import choose_embedder

        return choose_embedder(self.config.file_index.embedder, self.on_download)

    def _place_of(self, key: str, path: str, or_else: str = "") -> str:
        """Return the full path of a file or directory to write to; raise ConfigError if it is not allowed."""
        reason = _notes_problem(self.config) if key == "notes.path" else _placement_problem(self.directory, path)
        if reason:
            raise ConfigError(f"{key}: {os.path.join(self.directory, path)} {reason}{or_else}")
        return os.path.join(self.directory, path)

    # Plan and cache

    @part
    def plan(self) -> Plan:
        """The plan of the project; the first change creates its file."""
        from onhand.plan.plan import Plan

        path = os.path.join(self.directory, PLAN_PATH)
        if reason := _placement_problem(self.directory, PLAN_PATH):
            raise ConfigError(f"{path} {reason}, by --file")
        return Plan(path)

    @property
    def has_plan(self) -> bool:
        """Whether the project has a plan."""
        is_file = os.path.isfile(os.path.join(self.directory, PLAN_PATH))
        return is_file and not _placement_problem(self.directory, PLAN_PATH)

    @part
    def cache(self) -> SemanticCache:
        """The semantic cache of the project; `close` writes it to its file."""
        from onhand.cache.cache import open_cache
        from onhand.embed.choose import choose_embedder

        embedder, _ = choose_embedder(self.config.documents.embedder, self.on_download)
        return open_cache(self._place_of("the cache", CACHE_PATH), embedder, caution=self.config.cache.caution)

    # Tools

    def tools(self, workspace_tools: str | None = None, corpora: Sequence[str] = CORPORA) -> list[Tool]:
        """Return every tool that the configuration offers to models.

        `workspace_tools` ("none", "read" or "write") overrides the setting workspace.tools. `corpora` are those whose
        tools are wanted.
        """
        tools: list[Tool] = []
        if "context" in corpora and self.context.searchable():  # without anything to find, they lengthen the prompt
            tools += self.context.tools()
        if "rules" in corpora and self.rules.paths():
            tools += self.rules.tools()
        if "skills" in corpora and self.skills.all():
            tools += self.skills.tools()
        if "notes" in corpora and self.has_notes:
            has_any = bool(self.notes.all())
            tools += [tool for tool in self.notes.tools() if has_any or tool.name == "write_note"]
        if "documents" in corpora and self.has_documents:
            tools += self.documents.tools()
        if self.has_plan:
            tools += self.plan.tools()
        if (allowed := workspace_tools or self.config.workspace.tools) != "none":
            tools += self.workspace.tools(write=allowed == "write")
        if self.config.shell.enabled:
            tools = [*map(_read_after_quarantine, tools), *self._shell_tools]
        tools += self._web_tools() if self.config.web.enabled else []
        return tools

    def profile(self, name: str) -> ProfileSettings:
        """Return a profile; NotFound if there is none with this name."""
        if name not in self.config.profiles:
            names = ", ".join(self.config.profiles)
            has = f"these exist: {names}" if names else "none is configured; add a table such as [profiles.review]"
            raise NotFound(f"there is no profile {name[:100]!r}: {has}")
        return self.config.profiles[name]

    def registry(self, workspace_tools: str | None = None) -> Registry:
        """Return a new registry with `tools()`, to which more can be added."""
        from onhand.tools import Registry

        return Registry(self.tools(workspace_tools), gate=self.gate)

    @part
    def gate(self) -> Gate:
        """Where calls of this project's tools wait for each other, from whichever registry or agent they come."""
        from onhand.tools.gate import Gate
        from onhand.tools.registry import CONCURRENCY

        return Gate(CONCURRENCY)

    @part
    def workspace(self) -> Workspace:
        """The directories that a model may work in."""
        from onhand.actions.workspace import Workspace

        settings = self.config.workspace
        return Workspace(
            os.path.join(self.directory, settings.root),
            read_only_roots=[os.path.join(self.directory, path) for path in settings.read_only_roots],
            writable_roots=[os.path.join(self.directory, path) for path in settings.writable_roots],
            deny=settings.deny,
            protect=settings.protect,
            allow=settings.allow,
            project=self.directory,
            never_written=[*(os.path.dirname(path) for path in _user_decisions()), *self._obeyed_files],
        )

    @part
    def _shell_tools(self) -> list[Tool]:
        """The tools that run commands, which share one table of jobs."""
        from onhand.actions.jobs import Jobs
        from onhand.actions.shell import command_environment, start_unconfined
        from onhand.actions.shell_tools import shell_tools
        from onhand.sandbox.policy import describe_sandbox
        from onhand.sandbox.sandbox import choose

        config, workspace = self.config, self.workspace
        policy = self.sandbox_policy(workspace.root)
        sandbox = None if config.sandbox.backend == "none" else choose(policy, config.sandbox.backend)
        also = config.shell.environment if sandbox else ("HOME", *config.shell.environment)
        return shell_tools(
            Jobs(start_unconfined if sandbox is None else _confine(sandbox, policy)),
            workspace.directory,
            lambda variables: command_environment(os.environ, also, variables),
            "Nothing confines it." if sandbox is None else describe_sandbox(policy, sandbox.name),
            config.shell.timeout_s,
        )

    def _web_tools(self) -> list[Tool]:
        from onhand.actions.web import http_get_tool
        from onhand.corpora.blocks import render_block

        # The text of a page is put into a block that the page cannot close.
        return [
            http_get_tool(
                lambda attributes, text: render_block("web_page", attributes, text), self.config.web.allow_http
            )
        ]

    def sandbox_policy(self, root: str = "") -> Policy:
        """Return what commands may read, write and reach; files that are closed to tools are closed to commands too.

        Commands of a model work in `root`, the workspace; those of the user, in the whole project.
        """
        from onhand.path_rules import PathRules
        from onhand.sandbox.policy import workspace_policy

        settings, files = self.config.sandbox, self.config.workspace
        project = os.path.realpath(self.directory)

        def resolve(paths: Iterable[str]) -> list[str]:
            return [os.path.normpath(os.path.join(project, path)) for path in paths]

        policy = workspace_policy(
            root or project,
            home=os.path.expanduser("~"),
            project=project,
            quarantine=quarantine_directory(os.environ),
            readable=resolve(settings.readable),
            writable=resolve((*([] if root else [files.root]), *files.writable_roots, *settings.writable)),
            read_only=resolve(files.read_only_roots),
            denied=[*resolve(settings.denied), *_user_decisions()],
            domains=settings.domains,
            closed=PathRules(files.deny, files.protect, files.allow),
            strict=settings.landlock == "strict",
        )
        return policy._replace(
            protected=(*policy.protected, *self._obeyed_files),
            memory_bytes=settings.memory_mb << 20,
            cpu_s=settings.cpu_s,
            processes=settings.processes,
        ).validate()

    @property
    def _obeyed_files(self) -> list[str]:
        """The files that say what to start or whom to let in, and of which no trusted copy is kept."""
        settings, grpc = self.config.mcp, self.config.grpc
        source = self.config.sources["mcp.files"]
        recorded = server_files_to_trust(settings.files, source, self.directory, self.config.project_file)
        named = [path for path in settings.files if path not in recorded]
        named += filter(None, (grpc.tls_cert, grpc.tls_key, grpc.client_ca))
        return [os.path.abspath(os.path.join(self.directory, os.path.expanduser(path))) for path in named]

    # MCP servers

    @property
    def has_servers(self) -> bool:
        """Whether MCP servers may be configured; this does not import MCP."""
        return bool(self.config.mcp.files) or os.path.lexists(servers_file())

    @part
    def server_list(self) -> ServerConfigs:
        """The MCP servers in the user's own file and in the files of `mcp.files`, without those of other projects."""
        from onhand.mcp.servers import ServerConfigs, read_servers
        from onhand.trust import describe_exposure

        known: dict[str, ServerConfig] = {}
        problems: list[str] = []
        to_trust = server_files_to_trust(
            self.config.mcp.files, self.config.sources["mcp.files"], self.directory, self.config.project_file
        )
        user_files = [servers_file()] if os.path.lexists(servers_file()) else []
        for path in (*user_files, *self.config.mcp.files):
            full = os.path.join(self.directory, os.path.expanduser(path))
            if find_exposed(full):
                problems.append(describe_exposure(full))
            if path in to_trust:
                read = self._read_trusted_servers(path, full)
            else:
                read = ServerConfigs(()) if find_exposed(full) else read_servers(full)
            problems += read.problems
            for server in read.servers:
                if server.project and os.path.realpath(server.project) != os.path.realpath(self.directory):
                    continue
                if known.setdefault(server.key, server) != server:
                    problems.append(f"{full}: ignored {server.key!r}, because another server has that name")
        return ServerConfigs(tuple(known.values()), tuple(problems))

    def _read_trusted_servers(self, path: str, full: str) -> ServerConfigs:
        """Return the servers that the user trusts, even if the file was changed or deleted."""
        from shlex import quote

        from onhand import trust
        from onhand.mcp.servers import ServerConfigs, parse_servers, read_servers, servers_to_json

        record = trust.read_record(trust_store(os.environ), self.directory)
        trusted = record.servers.get(path) if record else None
        if trusted is None:
            read_servers(full)  # raises ConfigError if there is nothing to trust
            command = f"onhand trust {quote(self.directory)}"
            return ServerConfigs((), (f"{full} is ignored because you have not trusted it; to do so, run: {command}",))
        try:
            present = read_servers(full)
            if servers_to_json(present.servers) == trusted:
                return present
            change = "has changed"
        except ConfigError as error:
            change = f"has become unusable ({error})" if os.path.lexists(full) else "has disappeared"
        servers = parse_servers(trusted, full).servers
        return ServerConfigs(servers, (trust.describe_change(full, change, self.directory),))

    @part
    def servers(self) -> Upstreams:
        """The MCP servers of `server_list`, not yet connected."""
        return self.open_servers()

    def open_servers(self, show_login: Callable[[str], None] | None = None) -> Upstreams:
        """Open the MCP servers; `show_login` receives the address at which a person can log in to a server."""
        require_mcp()
        from onhand.embed.cached import CachedEmbedder
        from onhand.embed.choose import choose_embedder
        from onhand.mcp.oauth import oauth_login
        from onhand.mcp.secrets import read_secrets
        from onhand.mcp.upstreams import Upstreams

        embedder, _ = choose_embedder(self.config.mcp.embedder, self.on_download)
        return Upstreams(
            self.server_list.servers,
            self.approvals,
            lists_directory=self._lists_directory,
            environ={**os.environ, **read_secrets(secrets_file())},
            auth_of=oauth_login(os.path.dirname(servers_file()), show_login),
            version=__version__,
            policies=self._policies,
            embedder=CachedEmbedder(embedder, self._vectors_directory) if embedder else None,
        )

    @property
    def _vectors_directory(self) -> str | None:
        return os.path.join(cache_directory(os.environ), "mcp", "vectors") if self.config.file_index.cached else None

    @property
    def _policies(self) -> dict[str, str]:
        """The policies that the user has set for kinds of tools; the default is "allow"."""
        settings = self.config.mcp
        by_kind = {"read": settings.policy_read, "write": settings.policy_write}
        by_kind["destructive"] = settings.policy_destructive
        return {kind: policy for kind, policy in by_kind.items() if policy != "allow"}

    @part
    def approvals(self) -> Approvals:
        """The approved servers and tools: one list for the user, and one for each project with `mcp.files`."""
        from onhand.mcp.approvals import Approvals

        return Approvals(os.path.join(_approvals_directory(), f"{self._owner_of_servers}.json"), self.config.mcp.trust)

    def known_lists(self) -> dict[str, UpstreamLists]:
        """Return the cached lists of the servers, without starting any, and the problems with tool settings."""
        from onhand.mcp.offered_tools import offer_tools
        from onhand.mcp.upstream_lists import load_lists

        known = {}
        for server in self.server_list.servers:
            lists = load_lists(self._lists_directory, server.key, server.identity)
            if lists is not None:
                problems = offer_tools(server.key, server.tools, lists.tools, self._policies).problems
                known[server.key] = lists._replace(problems=(*problems, *lists.problems))
        return known

    def list_ages(self) -> dict[str, float | None]:
        """Return how many seconds ago each server listed its tools, or None if it never did."""
        from time import time

        from onhand.mcp.upstream_lists import time_listed

        known, now = self.known_lists(), time()
        times = {server.key: time_listed(self._lists_directory, server.key) for server in self.server_list.servers}
        return {key: max(now - at, 0.0) if at is not None and key in known else None for key, at in times.items()}

    @property
    def _lists_directory(self) -> str | None:
        directory = os.path.join(cache_directory(os.environ), "mcp", self._owner_of_servers)
        return directory if self.config.file_index.cached else None

    @property
    def _owner_of_servers(self) -> str:
        whole = os.path.realpath(self.directory).encode(errors="surrogateescape")
        return digest(whole) if self.config.mcp.files else "user"

    # Agent

    def agent(
        self,
        model: Model | str | None = None,
        *,
        settings: AgentSettings | None = None,
        ask: Ask | None = None,
        listeners: Sequence[Listener] = (),
        replace_tools: Callable[[Sequence[Tool]], Sequence[Tool]] | None = None,
    ) -> Agent:
        """Return an agent for the project, with its own conversation.

        `model` is a name such as "openai:NAME" or a Model; the default is the configured one. `settings` replace the
        configured ones. `ask` asks a person about a call; without it, such calls are refused. `replace_tools` may
        return tools with the same names that work elsewhere, such as in an editor.
        """
        from onhand.agent.approval import DEFAULT_RULES, Approval, rules_for
        from onhand.agent.events import Limits
        from onhand.agent.loop import DELEGATE, Agent, make_delegate_tool
        from onhand.agent.models import choose_model
        from onhand.agent.prompt import build_parts
        from onhand.agent.toolbox import NestedRules, Toolbox
        from onhand.tools.catalog_tool import MCP
        from onhand.tools.loading import parse_policy

        settings = settings or self.agent_settings({"model": model} if isinstance(model, str) else {})
        if model is None or isinstance(model, str):
            model = choose_model(settings.model, settings.base_url, settings.api_key_env, settings.max_output_tokens)
        # An agent needs file tools and asks before it writes, so it gets more tools than are served.
        tools: Sequence[Tool] = self.tools(settings.workspace_tools)
        tools = replace_tools(tools) if replace_tools else tools
        toolbox = Toolbox(
            tools,
            nested_rules=NestedRules(self.rules),
            gate=self.gate,
            policy=parse_policy(settings.load_tools),
            window_tokens=settings.window_tokens,
            always_tools=[DELEGATE, *(tool.name for tool in tools if not tool.name.startswith(MCP))],
        )
        agent = Agent(
            model,
            toolbox,
            build_parts(self.context, self.rules, self.skills, self.notes if self.has_notes else None),
            approval=Approval([*rules_for(settings.allow, settings.deny), *DEFAULT_RULES], ask, self.directory),
            limits=Limits(settings.max_turns, settings.max_tokens or None),
            listeners=listeners,
        )
        toolbox.add(make_delegate_tool(agent, toolbox))
        if settings.telemetry:
            from onhand.agent.telemetry import AgentTelemetry

            agent.listeners.append(AgentTelemetry(model.name))
        return agent

    def agent_settings(self, flags: Mapping[str, Any]) -> AgentSettings:
        """Return the configured settings, overridden by flags.

        The address and the key of one provider are not used for a model of another.
        """
        configured = self.config.agent
        if "model" in flags and configured.model and _provider(flags["model"]) != _provider(configured.model):
            configured = configured._replace(base_url="", api_key_env="")
        return configured._replace(**flags)

    def join_servers(self, agent: Agent, servers: Upstreams | None = None) -> JoinedServers:
        """Return an object that gives an agent the tools of MCP servers while it is open."""
        from onhand.agent.toolbox import Toolbox
        from onhand.mcp.upstream_tools import JoinedServers

        if not isinstance(agent.tools, Toolbox):
            raise InputError("only an agent with a Toolbox can use MCP servers: create it with project.agent()")
        return JoinedServers(agent.tools, self.servers if servers is None else servers)


class _DocumentsIfAny:
    """The documents as a corpus that may be empty."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def find(self, query: str, limit: int) -> Findings:
        from onhand.corpora.federated import Findings

        if os.path.exists(self._project.documents_path):
            return self._project.documents.find(query, limit)
        return Findings((), _NO_DOCUMENTS.format(self._project.documents_path))


def _provider(model: str) -> str:
    return model.partition(":")[0]


def _confine(sandbox: Sandbox, policy: Policy) -> StartCommand:
    """Return a function that starts a command in a sandbox, without input and with pipes for its output."""
    from subprocess import DEVNULL, PIPE

    from onhand.sandbox.sandbox import Command

    def start(argv: Sequence[str], cwd: str, environment: Mapping[str, str]) -> RunningCommand:
        return sandbox.start(policy, Command(argv, cwd, environment, DEVNULL, PIPE, PIPE))

    return start


def require_mcp() -> None:
    """Raise MissingExtra if the MCP packages are not installed."""
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise MissingExtra("MCP", "mcp")


def servers_file() -> str:
    """Return the path of the user's list of MCP servers, which `onhand mcp add` writes."""
    return os.path.join(os.path.dirname(user_file(os.environ)), "mcp.json")


def secrets_file() -> str:
    """Return the path of the secrets that servers in the user's list need."""
    return os.path.join(os.path.dirname(servers_file()), "secrets.json")


def server_files_to_trust(
    files: Sequence[str], source: str, directory: str, project_file: str | None
) -> tuple[str, ...]:
    """Return the server files whose content needs trust: those in the project, and those named by its settings file.

    Files that the environment or a flag names are the user's own choice. `source` is where `mcp.files` comes from.
    """
    if source.startswith(("$", "--")):
        return ()
    if project_file and source.startswith(project_file):
        return tuple(files)
    project = os.path.realpath(directory)
    places = {path: os.path.join(project, os.path.expanduser(path)) for path in files}
    return tuple(
        path
        for path, place in places.items()
        if any(
            os.path.commonpath((project, one)) == project for one in (os.path.abspath(place), os.path.realpath(place))
        )
    )


def _approvals_directory() -> str:
    return os.path.join(os.path.dirname(trust_store(os.environ)), "mcp")


def _user_decisions() -> list[str]:
    """Return the files with decisions of the user, which no tool and no command may change."""
    paths = user_file(os.environ), servers_file(), secrets_file(), trust_store(os.environ), _approvals_directory()
    return [path for path in paths if os.path.isabs(path)]


def _read_after_quarantine(tool: Tool) -> Tool:
    """Return a tool that reads nothing that a running command has just created under a protected name."""
    from inspect import iscoroutinefunction

    from onhand.sandbox.quarantine import move_names_of_running_commands

    handler = tool.handler
    if iscoroutinefunction(handler):  # none of these reads rules or settings
        return tool

    def handle(arguments: dict[str, Any]) -> Any:
        move_names_of_running_commands()
        return handler(arguments)

    return tool._replace(handler=handle)


# Which directory is the project


def load_config(
    root: str | None = None, *, start: str | None = None, flags: Mapping[str, object] | None = None
) -> Config:
    """Load the configuration of the project around `start`, by default the working directory, or of `root`.

    `root` is a project or, if it has no context directory, a directory of context files.
    """
    for directory in (root, start):
        if directory is not None and not os.path.isdir(directory):
            raise InputError(f"{directory} is not a directory: pass a project, or a directory of context files")
    left = _finish_killed_commands()
    loaded = _load_named(root, flags or {}) if root is not None else _load_around(start, flags or {})
    places = {"notes.path": loaded.notes.path, "documents.path": loaded.documents.path}
    reasons = {
        "notes.path": _notes_problem(loaded),
        "documents.path": _placement_problem(loaded.project, loaded.documents.path),
    }
    warnings = *left, *(f"{key} is ignored: {places[key]} {reason}" for key, reason in reasons.items() if reason)
    return loaded._replace(warnings=(*loaded.warnings, *warnings)) if warnings else loaded


def _finish_killed_commands() -> list[str]:
    """Move protected files away that were left by a command whose onhand was killed, before we read any of them."""
    directory = quarantine_directory(os.environ)
    try:
        if not os.listdir(os.path.join(directory, "running")):
            return []
    except OSError:  # no command has ever run
        return []
    from onhand.sandbox.quarantine import finish_killed_commands

    try:
        return finish_killed_commands(directory)
    except (OSError, SandboxError) as error:
        return [f"what killed commands have left was not moved away: {error}"]


def _load_around(start: str | None, flags: Mapping[str, object]) -> Config:
    loaded = config.load(start, flags=flags)
    if loaded.project_file or os.path.isdir(os.path.join(loaded.project, loaded.context.root)):
        return loaded
    return config.load(_project_above(loaded.project, loaded.context.root), flags=flags)


def _load_named(root: str, flags: Mapping[str, object]) -> Config:
    loaded = config.load(root, flags=flags)
    has_own = os.path.isdir(os.path.join(root, loaded.context.root))
    if has_own and os.path.samefile(root, loaded.project):
        return loaded
    # The settings may come from a project above, but the context is that of `root`.
    return config.load(root, flags={**flags, "context.root": loaded.context.root if has_own else "."})


def _project_above(start: str, root: str) -> str:
    """Return the nearest directory upwards that has `root`, inside the repository of `start`; otherwise `start`.

    Directories above `start` count only in a repository of the user, because anyone may have created the others.
    """
    found = None
    for directory in _upwards(start):
        has_root = found is None and os.path.isdir(os.path.join(directory, root))
        if has_root and not is_foreign(os.path.join(directory, root), start):
            found = directory
        if os.path.lexists(os.path.join(directory, ".git")):
            return start if found is None or is_foreign(os.path.join(directory, ".git"), start) else found
    return start


def repository_of(start: str) -> str:
    """Return the root of the repository around `start`, or `start` if there is none or it belongs to someone else."""
    for directory in _upwards(start):
        if os.path.lexists(os.path.join(directory, ".git")):
            return start if is_foreign(os.path.join(directory, ".git"), start) else directory
    return start


def _upwards(start: str) -> Iterable[str]:
    directory, above = start, os.path.dirname(start)
    yield directory
    while above != directory:
        directory, above = above, os.path.dirname(above)
        yield directory


def _placement_problem(project: str, path: str) -> str:
    """Return why a configured path must not be written to and what to use instead; "" if it may be.

    The path, or a link that leads out of the project, may have come with a clone.
    """
    project = os.path.realpath(project)
    real = os.path.realpath(os.path.join(project, path))
    if real == project:
        return "is the project itself: choose a path in it"
    is_inside = real.startswith(os.path.join(project, ""))
    if is_inside:
        reason = why_not_written(real[len(project) + 1 :])
    else:
        reason = REPOSITORY if REPOSITORY_DIRECTORIES.intersection(real.casefold().split(os.sep)) else ""
    if reason:
        return f"cannot be used because {reason}: choose another path, such as one in .onhand"
    return "" if is_inside or os.path.isabs(path) else "is a link out of the project: use the target of the link"


def _notes_problem(loaded: Config) -> str:
    """Return why notes must not be written to the configured directory and what to use instead; "" if they may be."""
    path = loaded.notes.path
    return _overlap_problem(loaded, path) or _placement_problem(loaded.project, path)


def _overlap_problem(loaded: Config, path: str) -> str:
    """Return a problem if notes would be read as context or skills, or context or skills as notes."""
    notes = _folded_place(loaded.project, path)
    if notes == _folded_place(loaded.project, "."):
        return ""  # a problem of its own
    roots = {
        "context": (loaded.context.root, *loaded.context.extra_roots),
        "skills": (*loaded.skills.roots, *_usual_skills(loaded, notes)),
    }
    for corpus, names in roots.items():
        for name in names:
            root = _folded_place(loaded.project, name)
            if root.startswith(notes) or (notes.startswith(root) and not _is_passed_over(notes[len(root) :])):
                return (
                    f"overlaps with {name}, from which {corpus} is read, and notes never become that: "
                    "choose another directory, such as .onhand/notes"
                )
    return ""


def _folded_place(project: str, path: str) -> str:
    return fold(os.path.join(os.path.realpath(os.path.join(project, path)), ""))


def _is_passed_over(below: str) -> bool:
    """Return whether a directory below a root is not searched."""
    return any(name.startswith(".") or name in SKIPPED_DIRECTORIES for name in below.split(os.sep))


def _usual_skills(loaded: Config, notes: str) -> tuple[str, ...]:
    """Return the usual directories of skills that notes may overlap with; they need not exist yet."""
    places = [loaded.project] if loaded.skills.usual else []
    if loaded.skills.usual and loaded.skills.user:
        places.append(os.path.expanduser("~"))
    found = []
    for place in places:
        around = _folded_place(place, ".")
        client = notes[len(around) :].partition(os.sep)[0] if notes.startswith(around) else ""
        if client.startswith(".") and client not in REPOSITORY_DIRECTORIES:
            found.append(os.path.join(place, client, "skills"))
    return tuple(found)
