"""What can be said? Every option once: its type, its default, what it means and what it may touch.

Loading, `onhand config show`, `onhand init` and the reference page all read this table. To add an option, add
a field; to add a section, add a class and a field of `Config`. Nothing here reads a file or a variable.
"""

from __future__ import annotations

from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    Role = Literal[
        "value",  # plain data
        "path",  # relative to the project; from a project file it needs trust when it leads out of there
        "inner",  # a path inside another option's directory: never absolute, never with '..'
        "program",  # starts a program: from a project file it needs trust
        "grant",  # lets a model or a caller do more: from a project file it needs trust; choices go from less to more
        "limit",  # forbids: a project file needs trust to leave out what the user's file forbids, and may add to it
        "closed",  # a path that is forbidden: the same, wherever it leads
        "opened",  # a path that is not forbidden after all: from a project file it needs trust, wherever it leads
        "model",  # is given what documents say: from a project file it needs trust
        "network",  # reaches the network: from a project file it needs trust
        "door",  # a path of what decides who may connect: from a project file it needs trust, wherever it leads
        "told",  # tells others what is done or asked: from a project file it needs trust
        "secret",  # the name of the environment variable that holds a secret: from a project file it needs trust
    ]


class About(Record):
    """What the type and the default of an option do not say."""

    text: str  # one sentence
    role: Role = "value"
    minimum: float | None = None
    choices: tuple[str, ...] = ()
    also: tuple[str, ...] = ()  # environment variables that are read when ONHAND_<SECTION>_<NAME> is not set


class Context(Record):
    """Project context: what goes into every prompt and what is searched on demand."""

    root: str = ".AGENTS"
    extra_roots: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ("overview.md", "conventions.md")
    pinned_max_bytes: int = 32_768
    manifest_max_tokens: int = 1_000
    limit: int = 3
    max_file_bytes: int = 1_048_576
    ranking: str = "default"


ABOUT_CONTEXT = {
    "root": About("The directory of the project's context files.", role="path", also=("AGENTS_DIR",)),
    "extra_roots": About('More directories to search, with their sub-directories, such as ["docs"].', role="path"),
    "pinned": About("The files of the root that go whole into every prompt, in this order.", role="inner"),
    "pinned_max_bytes": About("The most that the pinned files may add to a prompt together.", minimum=0),
    "manifest_max_tokens": About("The most that the list of what can be searched may add to a prompt.", minimum=0),
    "limit": About("How many sections a search returns when it does not say.", minimum=1),
    "max_file_bytes": About("A file larger than this is reported and not searched.", minimum=0),
    "ranking": About(
        "How sections are ranked: 'seed' is plain BM25 over whole sections, without the refinements.",
        choices=("default", "seed"),
    ),
}


class Documents(Record):
    """Documents: where they are kept, by what their meaning is compared, and how much a tool may answer."""

    path: str = ".onhand/documents.db"
    embedder: str = "auto"
    max_output_bytes: int = 15_360


ABOUT_DOCUMENTS = {
    "path": About("The file that documents are imported into.", role="path"),
    "embedder": About(
        "What works out the meaning of texts: 'auto' is the best that is installed, 'none' compares words only.",
        role="model",
    ),
    "max_output_bytes": About("The most that a document tool answers at once.", minimum=4_096),
}


class Rules(Record):
    """Rules: which files have them, and how much of them is given at once."""

    names: tuple[str, ...] = ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md")
    skipped: tuple[str, ...] = (
        *(".git", ".hg", ".svn", ".onhand", ".tox", ".nox", ".venv", "venv", "__pycache__", "site-packages"),
        *("node_modules", "bower_components", "vendor", "third_party"),
    )
    max_bytes: int = 32_768
    max_file_bytes: int = 1_048_576
    limit: int = 5


ABOUT_RULES = {
    "names": About("The names of rule files; of each directory, the first that is there counts.", role="inner"),
    "skipped": About(
        "Directories that are not looked into, as they have no rules of the project; nor is what git ignores."
    ),
    "max_bytes": About("The most that the rules for a path may have together; the nearest come first.", minimum=0),
    "max_file_bytes": About("A file larger than this is reported and neither shown nor searched.", minimum=0),
    "limit": About("How many sections a search returns when it does not say.", minimum=1),
}


class Notes(Record):
    """Notes: where agents write down what they want to know later."""

    path: str = ".onhand/notes"
    limit: int = 5


ABOUT_NOTES = {
    "path": About("The directory of the notes, one file each.", role="path"),
    "limit": About("How many notes a search returns when it does not say.", minimum=1),
}


class Skills(Record):
    """Agent Skills: where they are looked for, and how much of them goes into every prompt."""

    roots: tuple[str, ...] = ()
    usual: bool = True
    user: bool = True
    limit: int = 5
    catalog_max_chars: int = 8_000
    max_file_bytes: int = 1_048_576


ABOUT_SKILLS = {
    "roots": About('Directories of skills to look into before the usual ones, such as ["skills"].', role="path"),
    "usual": About("Whether .agents/skills, .claude/skills and every other .<client>/skills are looked into."),
    "user": About("Whether the skills of the same places in the home directory count too, after the project's."),
    "limit": About("How many skills a search returns when it does not say.", minimum=1),
    "catalog_max_chars": About("The most that the list of skills may add to a prompt, in characters.", minimum=0),
    "max_file_bytes": About("A file larger than this is reported and not searched.", minimum=0),
}


class Workspace(Record):
    """Files: where a model may read and write them, and by which tools."""

    tools: str = "none"
    root: str = "."
    read_only_roots: tuple[str, ...] = ()
    writable_roots: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


ABOUT_WORKSPACE = {
    "tools": About(
        "What a model is offered: 'none', 'read' (read_file, list_files, stat_file, glob, grep, git) or 'write' (also "
        "write_file and edit_file).",
        role="grant",
        choices=("none", "read", "write"),
    ),
    "root": About("The directory that paths are relative to and may not leave.", role="path"),
    "read_only_roots": About("More directories that may be read, by their whole paths.", role="path"),
    "writable_roots": About("More directories that may be read and written, by their whole paths.", role="path"),
    "deny": About(
        'Files that no tool and no command reads or writes, besides .env, keys and the like, such as ["*.sqlite"].',
        role="limit",
    ),
    "protect": About(
        "Files that no tool and no command writes, besides .git, AGENTS.md and what else programs obey unseen.",
        role="limit",
    ),
    "allow": About('Files that are not closed after all, such as [".env.test"].', role="grant"),
}


class Kept(Record):
    """What is learned of files: context, rules, skills and notes."""

    between_runs: bool = True
    embedder: str = "none"


ABOUT_KEPT = {
    "between_runs": About("Whether it is kept in the user's cache directory, so that only changed files are read."),
    "embedder": About(
        "What works out the meaning of files: 'none' compares words only and starts fast, 'auto' is the best that is "
        "installed.",
        role="model",
    ),
}


class Agent(Record):
    """The agent: which model it asks, what it may do without asking a person, and when it stops."""

    model: str = ""
    base_url: str = ""
    api_key_env: str = ""
    max_output_tokens: int = 0
    max_turns: int = 25
    max_tokens: int = 0
    allow: tuple[str, ...] = ("write_note", "plan_*", "delegate")
    deny: tuple[str, ...] = ()
    workspace_tools: str = "write"
    load_tools: str = "definitions>=10%"
    window_tokens: int = 200_000
    telemetry: bool = False


ABOUT_AGENT = {
    "model": About(
        "Which model is asked: anthropic:NAME, openai:NAME, gguf:PATH or scripted:FILE; there is no default.",
        role="model",
    ),
    "base_url": About("The address of the model's server, when it is not its provider's own.", role="model"),
    "api_key_env": About(
        "The environment variable that holds the key; at a provider's own address its usual one by default.",
        role="secret",
    ),
    "max_output_tokens": About(
        "The most that the model may say in one turn; 0 leaves it to the model.", role="grant", minimum=0
    ),
    "max_turns": About("After so many turns a run ends without an answer.", role="grant", minimum=1),
    "max_tokens": About(
        "After so many tokens of all its requests a run ends without an answer; 0 is no limit.",
        role="grant",
        minimum=0,
    ),
    "allow": About(
        "Tools that may write and yet run without asking, by name or pattern; those that only read need no mention.",
        role="grant",
    ),
    "deny": About("Tools that never run, by name or pattern.", role="limit"),
    "workspace_tools": About(
        "What it may do with files, in place of workspace.tools: 'none', 'read' or 'write'; what it writes is asked "
        "about all the same.",
        role="grant",
        choices=("none", "read", "write"),
    ),
    "load_tools": About(
        "When all tools are loaded at once and when they wait to be found: eager, lazy, definitions>=10%, "
        "conversation>=10%, count>40 or schema_tokens>16000."
    ),
    "window_tokens": About("How much the model can read at once, for shares of it.", minimum=1),
    "telemetry": About(
        "Whether runs are spans of OpenTelemetry, for whatever exports them; needs the telemetry extra.", role="told"
    ),
}


class Shell(Record):
    """Commands: whether a model may run them, how long, and with which variables. What confines them is the sandbox."""

    enabled: bool = False
    timeout_s: float = 30.0
    environment: tuple[str, ...] = ()


ABOUT_SHELL = {
    "enabled": About("Whether there are tools that run commands, in the sandbox.", role="program"),
    "timeout_s": About(
        "Seconds after which a command is ended when its call does not say.", role="grant", minimum=0.001
    ),
    "environment": About(
        'More variables that commands get, such as ["JAVA_HOME"]; they get none that may hold a secret by themselves.',
        role="secret",
    ),
}


class Web(Record):
    """Pages: whether a model may fetch them."""

    enabled: bool = False
    allow_http: bool = False


ABOUT_WEB = {
    "enabled": About("Whether there is a tool that fetches public pages.", role="network"),
    "allow_http": About("Whether it may fetch them without encryption too.", role="network"),
}


class Sandbox(Record):
    """The sandbox: what commands may read, write and reach. The project may be written, the system read."""

    backend: str = "auto"
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    memory_mb: int = 4_096
    cpu_s: int = 3_600
    processes: int = 256


ABOUT_SANDBOX = {
    "backend": About(
        "What confines commands: 'auto' is the best that works here, and where none does they are refused; 'none' "
        "confines them not at all.",
        role="program",
        choices=("auto", "bubblewrap", "landlock", "none"),
    ),
    "readable": About(
        "More files and directories that commands may read, also those in the project whose names look secret.",
        role="opened",
    ),
    "writable": About("More directories that commands may write.", role="path"),
    "denied": About("More files and directories that commands may neither read nor write.", role="closed"),
    "domains": About(
        'What commands may reach, such as ["pypi.org", "*.pythonhosted.org"]; without any there is no network.',
        role="network",
    ),
    "memory_mb": About(
        "The most memory of a command's processes, each and all together with their /tmp, in MiB.",
        role="grant",
        minimum=16,
    ),
    "cpu_s": About("The most processor time of a command's processes together, in seconds.", role="grant", minimum=1),
    "processes": About("The most processes and threads of a command.", role="grant", minimum=1),
}


class Grpc(Record):
    """Search over gRPC: who may ask, whether documents may be written, and how much at once."""

    token_env: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    client_ca: str = ""
    writes: bool = False
    max_in_flight: int = 64
    max_message_bytes: int = 4_194_304
    shutdown_s: float = 10.0
    log_queries: bool = False
    metrics: str = ""


ABOUT_GRPC = {
    "token_env": About(
        "The environment variable with the token that every call has to carry; needed to listen on a network.",
        role="secret",
    ),
    "tls_cert": About(
        "The server's certificate, in PEM, with those that it rests on: it then speaks TLS.", role="door"
    ),
    "tls_key": About("The private key of the certificate, in PEM.", role="door"),
    "client_ca": About("The authority, in PEM, that a caller needs a certificate of.", role="door"),
    "writes": About("Whether documents may be put and deleted.", role="grant"),
    "max_in_flight": About(
        "How many searches may be worked on or wait; more are refused at once.", role="grant", minimum=1
    ),
    "max_message_bytes": About("The largest message that is taken or sent.", role="grant", minimum=65_536),
    "shutdown_s": About("How long a server that is stopped goes on with what it has begun.", minimum=0),
    "log_queries": About("Whether the log has what was asked.", role="told"),
    "metrics": About(
        "HOST:PORT where Prometheus finds metrics; calls then have OpenTelemetry spans too. Needs the telemetry extra.",
        role="network",
    ),
}


class Serve(Record):
    """`onhand serve`: who may connect."""

    token_env: str = ""


ABOUT_SERVE = {
    "token_env": About(
        "The environment variable whose value every client over HTTP must send as a bearer token.", role="secret"
    ),
}


class Mcp(Record):
    """Other MCP servers: which stand behind ours, how what they offer is shown, and who approves what is new."""

    files: tuple[str, ...] = ()
    trust: str = "auto"
    surface: str = "stable"
    transparent: str = ""


ABOUT_MCP = {
    "files": About('JSON files of servers, as MCP clients share them, such as [".mcp.json"].', role="program"),
    "trust": About(
        "Who approves a new server and its tools: 'auto' takes what is not suspicious, 'ask' waits for "
        "`onhand mcp approve`. What changed later always waits.",
        role="grant",
        choices=("ask", "auto"),
    ),
    "surface": About(
        "Whether tools that were found stay out of the list ('stable') or join it, for clients of older protocols "
        "('activate').",
        choices=("stable", "activate"),
    ),
    "transparent": About("The one server to pass through under its own names, instead of tools that find tools."),
}


class Config(Record):
    """What the user asked for, and who said it.

    A path in here is relative to `project` or, when the user allowed it to lead out of there, absolute.
    """

    context: Context
    documents: Documents
    rules: Rules
    notes: Notes
    skills: Skills
    workspace: Workspace
    kept: Kept
    agent: Agent
    shell: Shell
    web: Web
    sandbox: Sandbox
    grpc: Grpc
    serve: Serve
    mcp: Mcp
    project: str  # the directory of the project file; where the search for one began when there is none
    project_file: str | None  # the configuration file of the project, when it has one
    files: tuple[str, ...]  # that were read: the user's, then the project's
    sources: Mapping[str, str]  # option → where its value came from
    warnings: tuple[str, ...]


class Option(Record):
    """One row of the table."""

    key: str  # "context.root"
    default: object
    about: About

    @property
    def kind(self) -> str:
        """What its values are: "text", "integer", "number", "boolean", "list" or "choice"."""
        return "choice" if self.about.choices else KINDS[type(self.default)]

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that set it; the first that is set wins."""
        return ("ONHAND_" + self.key.replace(".", "_").upper(), *self.about.also)

    @property
    def expected(self) -> str:
        """What may be given, in words."""
        if self.about.choices:
            return "one of " + ", ".join(map(repr, self.about.choices))
        words = _ROLE_WORDS.get(self.about.role, "") or KIND_WORDS[self.kind]
        if self.kind == "list":
            words = f"a list; each entry {words}" if self.about.role in _ROLE_WORDS else words
        return words if self.about.minimum is None else f"{words}, at least {self.about.minimum:g}"


KINDS: dict[type, str] = {str: "text", int: "integer", float: "number", bool: "boolean", tuple: "list"}
KIND_WORDS = {
    "text": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list of texts",
}
_ROLE_WORDS = {
    "path": "a path",
    "closed": "a path",
    "opened": "a path",
    "door": "a path",
    "inner": "a relative path without '..'",
    "secret": "the name of an environment variable",
}


def options_of(section: str, fields: Any, about: Mapping[str, About]) -> tuple[Option, ...]:
    """The rows of one section, from the fields of its Record and what is said about each."""
    return tuple(Option(f"{section}.{name}", fields._field_defaults[name], about[name]) for name in fields._fields)


SECTIONS: dict[str, Any] = {
    "context": Context,
    "documents": Documents,
    "rules": Rules,
    "skills": Skills,
    "notes": Notes,
    "workspace": Workspace,
    "kept": Kept,
    "agent": Agent,
    "shell": Shell,
    "web": Web,
    "sandbox": Sandbox,
    "grpc": Grpc,
    "serve": Serve,
    "mcp": Mcp,
}
OPTIONS = (
    *options_of("context", Context, ABOUT_CONTEXT),
    *options_of("documents", Documents, ABOUT_DOCUMENTS),
    *options_of("rules", Rules, ABOUT_RULES),
    *options_of("skills", Skills, ABOUT_SKILLS),
    *options_of("notes", Notes, ABOUT_NOTES),
    *options_of("workspace", Workspace, ABOUT_WORKSPACE),
    *options_of("kept", Kept, ABOUT_KEPT),
    *options_of("agent", Agent, ABOUT_AGENT),
    *options_of("shell", Shell, ABOUT_SHELL),
    *options_of("web", Web, ABOUT_WEB),
    *options_of("sandbox", Sandbox, ABOUT_SANDBOX),
    *options_of("grpc", Grpc, ABOUT_GRPC),
    *options_of("serve", Serve, ABOUT_SERVE),
    *options_of("mcp", Mcp, ABOUT_MCP),
)
