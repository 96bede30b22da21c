"""Every setting, declared once: its name, type, default, meaning, role and bounds.

Loading, `onhand config show`, `onhand init` and the reference page read these declarations. To add a setting, add a
field; to add a section, add a class and a field of `Config`.
"""

from __future__ import annotations

import os

from onhand.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal, TypeVar

    Value = TypeVar("Value")
    Role = Literal[
        "value",  # plain data
        "path",  # relative to the project; from a project file it needs trust if it leads out of the project
        "inside",  # a path inside another setting's directory: never absolute, never with '..'
        "program",  # starts a program: from a project file it needs trust
        "confinement",  # decides what confines commands: the same
        "program_path",  # a path of a file that says which programs to start: the same, and so does the file's content
        "grant",  # lets a model or a caller do more: from a project file it needs trust; choices go from less to more
        "deny",  # forbids: a project file may add entries, and needs trust to leave out those of the user's file
        "denied_path",  # forbids a path: the same, wherever it leads
        "allowed_path",  # allows a path that would be forbidden: from a project file it needs trust, wherever it leads
        "model",  # receives what documents say: from a project file it needs trust
        "network",  # reaches the network: from a project file it needs trust
        "access",  # a path of what decides who may connect: from a project file it needs trust, wherever it leads
        "disclosure",  # tells others what is done or searched for: from a project file it needs trust
        "secret",  # the name of the environment variable that holds a secret: from a project file it needs trust
    ]

KINDS: dict[type, str] = {str: "text", int: "integer", float: "number", bool: "boolean", tuple: "list"}
_KIND_WORDS = {
    "text": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list of texts",
}
_ROLE_WORDS = {
    "path": "a path",
    "denied_path": "a path",
    "allowed_path": "a path",
    "access": "a path",
    "program_path": "a path",
    "inside": "a relative path without '..'",
    "secret": "the name of an environment variable",
}


class InvalidValue(Exception):
    """A value is not valid for its setting."""


class Setting:
    """The declaration of one setting; `key` is its section and name, such as "context.root"."""

    def __init__(
        self,
        default: object,
        text: str,
        role: Role = "value",
        minimum: float | None = None,
        choices: tuple[str, ...] = (),
        also: tuple[str, ...] = (),
        maximum: float | None = None,
    ) -> None:
        self.key = ""  # set by `declare`
        self.default, self.text, self.role, self.minimum, self.choices = default, text, role, minimum, choices
        self.maximum = maximum
        self.also = also  # environment variables that are read when ONHAND_<SECTION>_<NAME> is not set

    def under(self, key: str) -> Setting:
        """Return the same setting under another key, since there may be several tables of one kind."""
        same = Setting(self.default, self.text, self.role, self.minimum, self.choices, maximum=self.maximum)
        same.key = key
        return same

    @property
    def kind(self) -> str:
        """The kind of its values: "text", "integer", "number", "boolean", "list" or "choice"."""
        return "choice" if self.choices else KINDS[type(self.default)]

    @property
    def names_paths(self) -> bool:
        """Whether its values are paths or names of files."""
        return self.role in ("path", "inside", "program_path", "denied_path", "allowed_path", "access")

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that set it; the first that is set wins."""
        return ("ONHAND_" + self.key.replace(".", "_").upper(), *self.also)

    @property
    def expected(self) -> str:
        """A description of valid values."""
        if self.choices:
            return "one of " + ", ".join(map(repr, self.choices))
        words = _ROLE_WORDS.get(self.role, "") or _KIND_WORDS[self.kind]
        if self.kind == "list":
            words = f"a list; each entry {words}" if self.role in _ROLE_WORDS else words
        if self.maximum is not None:
            return f"{words} from {self.minimum:g} to {self.maximum:g}"
        return words if self.minimum is None else f"{words}, at least {self.minimum:g}"

    def check(self, given: Any) -> object:
        """Return a value with the type of the setting; raise InvalidValue if it is not valid."""
        if self.kind == "list":
            if not isinstance(given, list | tuple):
                raise InvalidValue
            return tuple(self._check_text(entry) for entry in given)
        if self.kind == "text":
            return self._check_text(given)
        if self.kind == "boolean":
            fits = isinstance(given, bool)
        elif self.kind == "choice":
            fits = given in self.choices
        else:
            fits = self._fits_number(given)
        if not fits:
            raise InvalidValue
        return float(given) if self.kind == "number" else given

    def parse(self, text: str) -> object:
        """Parse the text of an environment variable; return the text itself if that is not possible."""
        if self.kind == "list":
            return [entry for entry in text.split(os.pathsep) if entry]
        if self.kind == "boolean":
            return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)
        if self.kind in ("integer", "number"):
            try:
                return int(text) if self.kind == "integer" else float(text)
            except ValueError:
                return text
        return text

    def _fits_number(self, given: object) -> bool:
        if isinstance(given, bool) or not isinstance(given, int if self.kind == "integer" else int | float):
            return False
        least = float("-inf") if self.minimum is None else self.minimum
        most = float("inf") if self.maximum is None else self.maximum
        return float("-inf") < given < float("inf") and least <= given <= most  # no NaN

    def _check_text(self, given: object) -> str:
        if not isinstance(given, str):
            raise InvalidValue
        if not given and self.default == "":
            return given  # the same as not set
        if self.names_paths and (not given.strip() or "\0" in given):
            raise InvalidValue
        if self.role == "inside" and not _stays_inside(given):
            raise InvalidValue
        if self.role == "secret" and given != self.default and not (given.isascii() and given.isidentifier()):
            raise InvalidValue
        return given


def _stays_inside(path: str) -> bool:
    rooted = os.path.isabs(path) or os.path.splitdrive(path)[0] or path.startswith(("/", "\\"))
    return not rooted and ".." not in path.replace("\\", "/").split("/")


def setting(default: Value, text: str, role: Role = "value", **more: Any) -> Value:
    """Declare a field of a section; `more` may have `minimum`, `maximum`, `choices` and other variables (`also`)."""
    return Setting(default, text, role, **more)  # type: ignore[return-value]  # `declare` replaces it by the default


def declare(section: str, fields: Any) -> tuple[Setting, ...]:
    """Return the settings of a section, and make their defaults those of its record."""
    declared: dict[str, Setting] = fields._field_defaults
    for name, one in declared.items():
        one.key = f"{section}.{name}"
    fields._field_defaults = {name: one.default for name, one in declared.items()}
    return tuple(declared.values())


class ContextSettings(Record):
    """Project context: what goes into every prompt and what is searched on demand."""

    root: str = setting(".AGENTS", "The directory of the project's context files.", "path", also=("AGENTS_DIR",))
    extra_roots: tuple[str, ...] = setting((), 'More directories to search recursively, such as ["docs"].', "path")
    pinned: tuple[str, ...] = setting(
        ("overview.md", "conventions.md"),
        "Files of the root that are included in every prompt, in this order.",
        "inside",
    )
    pinned_max_bytes: int = setting(32_768, "The maximum size of all pinned files in a prompt.", minimum=0)
    manifest_max_tokens: int = setting(
        1_000, "The maximum size of the list of searchable files in a prompt.", minimum=0
    )
    limit: int = setting(3, "How many sections a search returns by default.", minimum=1)
    max_file_bytes: int = setting(1_048_576, "Larger files are reported but not searched.", minimum=0)
    ranking: str = setting(
        "default",
        "How sections are ranked: 'seed' is plain BM25 over whole sections, without the refinements.",
        choices=("default", "seed"),
    )


class DocumentsSettings(Record):
    """Documents: where they are stored, how their meaning is compared, and how long results may be."""

    path: str = setting(".onhand/documents.db", "The file that documents are imported into.", "path")
    embedder: str = setting(
        "auto",
        "The embedder for semantic search: 'auto' is the best installed one, 'none' compares words only. 'bge-small', "
        "'embeddinggemma' and 'multilingual-e5-small' are downloaded on first use.",
        "model",
    )
    max_passages: int = setting(
        512,
        "How many passages of a document are embedded, of up to 165 words each; the rest is found by words only. "
        "After raising it, run `onhand docs reembed`. 1 does not divide documents: a vector represents the beginning.",
        minimum=1,
    )
    semantic_weight: float = setting(
        0.0, "The weight of meaning beside words in fused search; 0 measures it on the documents.", minimum=0
    )
    max_output_bytes: int = setting(15_360, "The maximum size of the result of a document tool.", minimum=4_096)


class RulesSettings(Record):
    """Rules: which files contain them, and how much of them a prompt gets."""

    names: tuple[str, ...] = setting(
        ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md"),
        "The names of rule files; in each directory the first that exists counts.",
        "inside",
    )
    skipped: tuple[str, ...] = setting(
        (
            *(".git", ".hg", ".svn", ".onhand", ".tox", ".nox", ".venv", "venv", "__pycache__", "site-packages"),
            *("node_modules", "bower_components", "vendor", "third_party"),
        ),
        "Directories without rules of the project. They are skipped, like everything that git ignores.",
    )
    max_bytes: int = setting(
        32_768, "The maximum size of the rules for a path; the nearest rules take precedence.", minimum=0
    )
    max_file_bytes: int = setting(1_048_576, "Larger files are reported but neither shown nor searched.", minimum=0)
    limit: int = setting(5, "How many sections a search returns by default.", minimum=1)


class SkillsSettings(Record):
    """Agent Skills: where they are found, and how much of them goes into every prompt."""

    roots: tuple[str, ...] = setting(
        (), 'Directories of skills to look in before the usual ones, such as ["skills"].', "path"
    )
    usual: bool = setting(True, "Whether to look in .agents/skills, .claude/skills and every other .<client>/skills.")
    user: bool = setting(True, "Whether to look in the same places of the home directory, after those of the project.")
    limit: int = setting(5, "How many skills a search returns by default.", minimum=1)
    catalog_max_chars: int = setting(8_000, "The maximum length of the list of skills in a prompt.", minimum=0)
    max_file_bytes: int = setting(1_048_576, "Larger files are reported but not searched.", minimum=0)


class NotesSettings(Record):
    """Notes: where agents write down information that they may need later."""

    path: str = setting(".onhand/notes", "The directory of the notes, one file each.", "path")
    limit: int = setting(5, "How many notes a search returns by default.", minimum=1)


class WorkspaceSettings(Record):
    """Files: which of them a model may read and write, and with which tools."""

    tools: str = setting(
        "none",
        "The file tools of models: 'none', 'read' (read_file, list_files, stat_file, glob, grep, git) or 'write' "
        "(also write_file and edit_file).",
        "grant",
        choices=("none", "read", "write"),
    )
    root: str = setting(".", "The directory that paths are relative to and may not leave.", "path")
    read_only_roots: tuple[str, ...] = setting((), "More directories that may be read, by absolute path.", "path")
    writable_roots: tuple[str, ...] = setting(
        (), "More directories that may be read and written, by absolute path.", "path"
    )
    deny: tuple[str, ...] = setting(
        (),
        'Files that no tool or command can access, in addition to .env, keys and the like, such as ["*.sqlite"].',
        "deny",
    )
    protect: tuple[str, ...] = setting(
        (),
        "Files that no tool or command can write, in addition to .git, AGENTS.md and files that programs obey.",
        "deny",
    )
    allow: tuple[str, ...] = setting((), 'Exceptions to denied and protected files, such as [".env.test"].', "grant")


class FileIndexSettings(Record):
    """The index of files: context, rules, skills and notes."""

    cached: bool = setting(
        True, "Whether to cache it in the user's cache directory, so that only changed files are read again."
    )
    embedder: str = setting(
        "none",
        "The embedder for semantic search in files: 'none' compares words only and starts fast, 'auto' is the best "
        "installed one.",
        "model",
    )


class CacheSettings(Record):
    """The semantic cache: how sure it is before it answers from another question."""

    caution: float = setting(
        0.5,
        "How similar a cached question must be, and how far ahead of the next one: 0 gives more hits, 1 fewer wrong "
        "ones. `onhand cache calibrate` finds the number for your own questions.",
        minimum=0,
        maximum=1,
    )


class AgentSettings(Record):
    """The agent: which model it uses, what it may do without asking, and when it stops."""

    model: str = setting(
        "",
        "The model: anthropic:NAME, openai:NAME, gguf:PATH or scripted:FILE. There is no default.",
        "model",
    )
    base_url: str = setting("", "The address of the model's server, if it is not the provider's own.", "model")
    api_key_env: str = setting(
        "",
        "The environment variable that holds the key. By default, the usual one of the provider.",
        "secret",
    )
    max_output_tokens: int = setting(
        0, "The maximum output of the model in one turn; 0 uses the default of the model.", "grant", minimum=0
    )
    max_turns: int = setting(
        25, "The maximum number of turns; after that, a run ends without an answer.", "grant", minimum=1
    )
    max_tokens: int = setting(
        0,
        "The maximum number of tokens in all requests of a run, which then ends without an answer; 0 means no limit.",
        "grant",
        minimum=0,
    )
    allow: tuple[str, ...] = setting(
        ("write_note", "plan_*", "delegate"),
        "Tools that may write without asking, by name or pattern. Tools that only read never ask.",
        "grant",
    )
    deny: tuple[str, ...] = setting((), "Tools that never run, by name or pattern.", "deny")
    workspace_tools: str = setting(
        "write",
        "The file tools of the agent, instead of workspace.tools: 'none', 'read' or 'write'. It still asks before it "
        "writes.",
        "grant",
        choices=("none", "read", "write"),
    )
    load_tools: str = setting(
        "definitions>=10%",
        "When to find tools on demand instead of loading all of them: eager, lazy, definitions>=10%, "
        "conversation>=10%, count>40 or schema_tokens>16000.",
    )
    window_tokens: int = setting(
        200_000, "The size of the model's context window, on which percentages are based.", minimum=1
    )
    telemetry: bool = setting(
        False,
        "Whether to record runs as OpenTelemetry spans, which needs the telemetry extra.",
        "disclosure",
    )


class ShellSettings(Record):
    """Commands: whether a model may run them in the sandbox, for how long, and with which variables."""

    enabled: bool = setting(False, "Whether to offer tools that run commands in the sandbox.", "program")
    timeout_s: float = setting(30.0, "The default time limit of a command in seconds.", "grant", minimum=0.001)
    environment: tuple[str, ...] = setting(
        (),
        'More variables that commands get, such as ["JAVA_HOME"]; by default they get none that may hold a secret.',
        "secret",
    )


class WebSettings(Record):
    """Web pages: whether a model may fetch them."""

    enabled: bool = setting(False, "Whether to offer a tool that fetches public web pages.", "network")
    allow_http: bool = setting(False, "Whether that tool may also use unencrypted HTTP.", "network")


class SandboxSettings(Record):
    """The sandbox: what commands may access beyond writing to the project and reading the system."""

    backend: str = setting(
        "auto",
        "The sandbox to use: 'auto' is the best one that works here (without one, commands are refused); "
        "'none' does not confine commands at all.",
        "confinement",
        choices=("auto", "bubblewrap", "landlock", "none"),
    )
    landlock: str = setting(
        "practical",
        "With Landlock, whether commands may create, rename and remove files beside protected ones, such as in the "
        "root of a project: 'practical' lets the process that supervises a command do it for the command; 'strict' "
        "leaves everything to the kernel, which then allows it only in subdirectories without protected files.",
        "grant",
        choices=("strict", "practical"),
    )
    readable: tuple[str, ...] = setting(
        (),
        "More files and directories that commands may read, including those in the project whose names look secret.",
        "allowed_path",
    )
    writable: tuple[str, ...] = setting((), "More directories that commands may write to.", "path")
    denied: tuple[str, ...] = setting(
        (), "More files and directories that commands may neither read nor write.", "denied_path"
    )
    domains: tuple[str, ...] = setting(
        (),
        'Domains that commands may reach, such as ["api.example.com", "*.example.org"]. Without any, there is none.',
        "network",
    )
    memory_mb: int = setting(
        4_096,
        "The memory limit in MiB of each process of a command, and of all of them together with their /tmp.",
        "grant",
        minimum=16,
    )
    cpu_s: int = setting(
        3_600, "The processor time limit in seconds of all processes of a command together.", "grant", minimum=1
    )
    processes: int = setting(256, "The maximum number of processes and threads of a command.", "grant", minimum=1)


class GrpcSettings(Record):
    """Search over gRPC: who may connect, whether documents may be written, and how much at once."""

    token_env: str = setting(
        "",
        "The environment variable that holds the token for all calls; required to listen on a network.",
        "secret",
    )
    tls_cert: str = setting("", "The certificate chain of the server in PEM format, which enables TLS.", "access")
    tls_key: str = setting("", "The private key of the certificate in PEM format.", "access")
    client_ca: str = setting(
        "", "The certificate authority, in PEM format, that must have signed the certificates of callers.", "access"
    )
    writes: bool = setting(False, "Whether documents may be put and deleted.", "grant")
    max_in_flight: int = setting(
        64, "How many searches may run or wait; further ones are rejected immediately.", "grant", minimum=1
    )
    max_message_bytes: int = setting(
        4_194_304, "The largest message that is accepted or sent.", "grant", minimum=65_536
    )
    shutdown_s: float = setting(10.0, "How many seconds a stopping server may take to finish its calls.", minimum=0)
    log_queries: bool = setting(False, "Whether the log contains the queries.", "disclosure")
    metrics: str = setting(
        "",
        "HOST:PORT of metrics for Prometheus; also enables OpenTelemetry spans. Needs the telemetry extra.",
        "network",
    )


class ServeSettings(Record):
    """`onhand serve --http`: who may connect, and what clients may take."""

    token_env: str = setting(
        "", "The environment variable that holds the bearer token for all clients over HTTP.", "secret"
    )
    max_connections: int = setting(
        1_000,
        "How many connections may be open, but no more than half of the file descriptors of the process. A further one "
        "takes the place of one that has sent no valid request, or else of the one that has been idle for longest; "
        "it is refused if all of them are in use.",
        "grant",
        minimum=1,
    )
    max_sessions: int = setting(
        1_000,
        "How many sessions of the older protocol may be open. A further one takes the place of one that was never "
        "used, or else of the one that has been idle for longest; it is refused if all of them are in use.",
        "grant",
        minimum=1,
    )
    session_idle_s: float = setting(
        1_800.0,
        "After how many seconds without a request or an open stream a session ends; one that was never used ends "
        "after 300 s.",
        "grant",
        minimum=1,
    )
    timeout_s: float = setting(
        30.0,
        "How many seconds a client may take to send the head of a request, to send its body and to read a response, "
        "the last two with another second for each 1,000 bytes. Calls and open streams have no such limit.",
        "grant",
        minimum=1,
    )


class McpSettings(Record):
    """Other MCP servers: which of them are used, how their tools are presented, and who approves changes."""

    files: tuple[str, ...] = setting(
        (), 'JSON files of servers in the format of MCP clients, such as [".mcp.json"].', "program_path"
    )
    trust: str = setting(
        "auto",
        "How new servers and tools are approved: 'auto' accepts them unless they look suspicious, 'ask' waits for "
        "`onhand mcp approve`. Later changes always wait.",
        "grant",
        choices=("ask", "auto"),
    )
    policy_read: str = setting(
        "allow",
        "What happens to calls of servers' tools that only read: 'allow' leaves them to the client, 'ask' asks the "
        "user each time, 'deny' disables these tools. The settings of a server override it.",
        "grant",
        choices=("deny", "ask", "allow"),
    )
    policy_write: str = setting(
        "allow",
        "The same for tools that change something but delete and overwrite nothing.",
        "grant",
        choices=("deny", "ask", "allow"),
    )
    policy_destructive: str = setting(
        "allow",
        "The same for tools that may delete or overwrite something, and for those that do not say what they do.",
        "grant",
        choices=("deny", "ask", "allow"),
    )
    transparent: str = setting(
        "", "A server whose tools are passed through under their own names, instead of being found on demand."
    )
    embedder: str = setting(
        "auto",
        "The embedder for searching tools by meaning: 'auto' is the best installed one, 'none' compares words only.",
        "model",
    )
    structured: bool = setting(
        False,
        "Whether our tools also send JSON for programs (structured content) to every client; some clients give it to "
        "their model instead of the text. A single request asks for it with onhand/structured in its _meta.",
    )


class ProfileSettings(Record):
    """A profile, NAME: the part of everything that `onhand serve --profile NAME` and `/mcp/p/NAME` offer.

    Each list has names and patterns, such as "github__get_*"; "*" is everything, and an empty list is nothing.
    """

    servers: tuple[str, ...] = setting(("*",), "The MCP servers, by their names.", "grant")
    tools: tuple[str, ...] = setting(
        ("*",), "The tools of these servers, corpora and the project, by the names that clients see.", "grant"
    )
    corpora: tuple[str, ...] = setting(
        ("*",), "What can be searched and read: context, rules, skills, notes and documents.", "grant"
    )
    token_env: str = setting(
        "",
        "The environment variable that holds the bearer token for this profile; by default serve.token_env.",
        "secret",
    )


class Config(Record):
    """The value of every setting, and where each came from.

    A path in here is relative to `project` or, where the user allowed it to lead out of there, absolute.
    """

    context: ContextSettings
    documents: DocumentsSettings
    rules: RulesSettings
    skills: SkillsSettings
    notes: NotesSettings
    workspace: WorkspaceSettings
    file_index: FileIndexSettings
    cache: CacheSettings
    agent: AgentSettings
    shell: ShellSettings
    web: WebSettings
    sandbox: SandboxSettings
    grpc: GrpcSettings
    serve: ServeSettings
    mcp: McpSettings
    profiles: Mapping[str, ProfileSettings]  # by name
    project: str  # the directory of the project file; without one, the directory where the search for one began
    project_file: str | None  # the configuration file of the project, if it has one
    files: tuple[str, ...]  # that were read: the user's, then the project's
    sources: Mapping[str, str]  # key of a setting → where its value came from
    warnings: tuple[str, ...]


SECTIONS: dict[str, Any] = {
    name: globals()[kind] for name, kind in Config.__annotations__.items() if kind.endswith("Settings")
}
SETTINGS = tuple(one for name, fields in SECTIONS.items() for one in declare(name, fields))
PROFILE_SETTINGS = declare("profiles.NAME", ProfileSettings)


def profile_settings(name: str) -> tuple[Setting, ...]:
    """Return the settings of a profile."""
    return tuple(
        one.under(f"profiles.{name}.{field}")
        for field, one in zip(ProfileSettings._fields, PROFILE_SETTINGS, strict=True)
    )
