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
    "inside": "a relative path without '..'",
    "secret": "the name of an environment variable",
}


class Unusable(Exception):
    """A value does not fit its setting."""


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
    ) -> None:
        self.key = ""  # until the section is declared
        self.default, self.text, self.role, self.minimum, self.choices = default, text, role, minimum, choices
        self.also = also  # environment variables that are read when ONHAND_<SECTION>_<NAME> is not set

    @property
    def kind(self) -> str:
        """The kind of its values: "text", "integer", "number", "boolean", "list" or "choice"."""
        return "choice" if self.choices else KINDS[type(self.default)]

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that set it; the first that is set wins."""
        return ("ONHAND_" + self.key.replace(".", "_").upper(), *self.also)

    @property
    def expected(self) -> str:
        """What may be given, in words."""
        if self.choices:
            return "one of " + ", ".join(map(repr, self.choices))
        words = _ROLE_WORDS.get(self.role, "") or _KIND_WORDS[self.kind]
        if self.kind == "list":
            words = f"a list; each entry {words}" if self.role in _ROLE_WORDS else words
        return words if self.minimum is None else f"{words}, at least {self.minimum:g}"

    def check(self, given: Any) -> object:
        """Return a value as the setting has it; Unusable if it does not fit."""
        if self.kind == "list":
            if not isinstance(given, list | tuple):
                raise Unusable
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
            raise Unusable
        return float(given) if self.kind == "number" else given

    def parse(self, text: str) -> object:
        """Return the text of an environment variable as the setting's type; if it is not one, the text itself."""
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
        return float("-inf") < given < float("inf") and (self.minimum is None or given >= self.minimum)  # no NaN

    def _check_text(self, given: object) -> str:
        if not isinstance(given, str):
            raise Unusable
        if not given and self.default == "":
            return given  # the same as not set
        if self.role in ("path", "inside", "denied_path", "allowed_path") and (not given.strip() or "\0" in given):
            raise Unusable
        if self.role == "inside" and not _stays_inside(given):
            raise Unusable
        if self.role == "secret" and given != self.default and not (given.isascii() and given.isidentifier()):
            raise Unusable
        return given


def _stays_inside(path: str) -> bool:
    rooted = os.path.isabs(path) or os.path.splitdrive(path)[0] or path.startswith(("/", "\\"))
    return not rooted and ".." not in path.replace("\\", "/").split("/")


def setting(default: Value, text: str, role: Role = "value", **more: Any) -> Value:
    """Declare a field of a section; `more` is a `minimum`, `choices`, or other variables that set it (`also`)."""
    return Setting(default, text, role, **more)  # type: ignore[return-value]  # `declare` puts the default there


def declare(section: str, fields: Any) -> tuple[Setting, ...]:
    """Return the settings of a section, and give its record their defaults."""
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
        ("overview.md", "conventions.md"), "Files of the root that go whole into every prompt, in this order.", "inside"
    )
    pinned_max_bytes: int = setting(32_768, "The most that the pinned files together may add to a prompt.", minimum=0)
    manifest_max_tokens: int = setting(
        1_000, "The most that the list of searchable files may add to a prompt.", minimum=0
    )
    limit: int = setting(3, "How many sections a search returns by default.", minimum=1)
    max_file_bytes: int = setting(1_048_576, "Larger files are reported and not searched.", minimum=0)
    ranking: str = setting(
        "default",
        "How sections are ranked: 'seed' is plain BM25 over whole sections, without the refinements.",
        choices=("default", "seed"),
    )


class DocumentsSettings(Record):
    """Documents: where they are stored, how their meaning is compared, and how long an answer may be."""

    path: str = setting(".onhand/documents.db", "The file that documents are imported into.", "path")
    embedder: str = setting(
        "auto",
        "What embeds texts to compare their meaning: 'auto' is the best that is installed, 'none' compares words only.",
        "model",
    )
    max_output_bytes: int = setting(15_360, "The longest answer of a document tool.", minimum=4_096)


class RulesSettings(Record):
    """Rules: which files hold them, and how much of them is given at once."""

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
        "Directories that hold no rules of the project and are skipped, as is everything that git ignores.",
    )
    max_bytes: int = setting(32_768, "The most rules that a path gets; the nearest come first.", minimum=0)
    max_file_bytes: int = setting(1_048_576, "Larger files are reported and neither shown nor searched.", minimum=0)
    limit: int = setting(5, "How many sections a search returns by default.", minimum=1)


class SkillsSettings(Record):
    """Agent Skills: where they are found, and how much of them goes into every prompt."""

    roots: tuple[str, ...] = setting(
        (), 'Directories of skills to look in before the usual ones, such as ["skills"].', "path"
    )
    usual: bool = setting(True, "Whether to look in .agents/skills, .claude/skills and every other .<client>/skills.")
    user: bool = setting(True, "Whether to look in the same places of the home directory too, after the project's.")
    limit: int = setting(5, "How many skills a search returns by default.", minimum=1)
    catalog_max_chars: int = setting(
        8_000, "The most characters that the list of skills may add to a prompt.", minimum=0
    )
    max_file_bytes: int = setting(1_048_576, "Larger files are reported and not searched.", minimum=0)


class NotesSettings(Record):
    """Notes: where agents write down what they want to know later."""

    path: str = setting(".onhand/notes", "The directory of the notes, one file each.", "path")
    limit: int = setting(5, "How many notes a search returns by default.", minimum=1)


class WorkspaceSettings(Record):
    """Files: where a model may read and write them, and with which tools."""

    tools: str = setting(
        "none",
        "What a model is offered: 'none', 'read' (read_file, list_files, stat_file, glob, grep, git) or 'write' (also "
        "write_file and edit_file).",
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
        'Files that no tool and no command reads or writes, besides .env, keys and the like, such as ["*.sqlite"].',
        "deny",
    )
    protect: tuple[str, ...] = setting(
        (),
        "Files that no tool and no command writes, besides .git, AGENTS.md and others that programs obey.",
        "deny",
    )
    allow: tuple[str, ...] = setting((), 'Exceptions to what is closed, such as [".env.test"].', "grant")


class FileIndexSettings(Record):
    """The index of files: context, rules, skills and notes."""

    cached: bool = setting(
        True, "Whether it is cached in the user's cache directory, so that only changed files are read again."
    )
    embedder: str = setting(
        "none",
        "What embeds files to compare their meaning: 'none' compares words only and starts fast, 'auto' is the best "
        "that is installed.",
        "model",
    )


class AgentSettings(Record):
    """The agent: which model it uses, what it may do without asking a person, and when it stops."""

    model: str = setting(
        "",
        "The model: anthropic:NAME, openai:NAME, gguf:PATH or scripted:FILE; there is no default.",
        "model",
    )
    base_url: str = setting("", "The address of the model's server, if it is not the provider's own.", "model")
    api_key_env: str = setting(
        "",
        "The environment variable that holds the key; for a provider's own address its usual one by default.",
        "secret",
    )
    max_output_tokens: int = setting(
        0, "The longest answer of the model in one turn; 0 leaves it to the model.", "grant", minimum=0
    )
    max_turns: int = setting(25, "After this many turns a run ends without an answer.", "grant", minimum=1)
    max_tokens: int = setting(
        0,
        "After this many tokens in all its requests a run ends without an answer; 0 is no limit.",
        "grant",
        minimum=0,
    )
    allow: tuple[str, ...] = setting(
        ("write_note", "plan_*", "delegate"),
        "Tools that may write and still run without asking, by name or pattern; those that only read need no mention.",
        "grant",
    )
    deny: tuple[str, ...] = setting((), "Tools that never run, by name or pattern.", "deny")
    workspace_tools: str = setting(
        "write",
        "What it may do with files, instead of workspace.tools: 'none', 'read' or 'write'. It still asks before it "
        "writes.",
        "grant",
        choices=("none", "read", "write"),
    )
    load_tools: str = setting(
        "definitions>=10%",
        "When tools are found on demand instead of all being loaded at once: eager, lazy, definitions>=10%, "
        "conversation>=10%, count>40 or schema_tokens>16000.",
    )
    window_tokens: int = setting(200_000, "The size of the model's context window, for percentages of it.", minimum=1)
    telemetry: bool = setting(
        False,
        "Whether runs are recorded as OpenTelemetry spans; needs the telemetry extra.",
        "disclosure",
    )


class ShellSettings(Record):
    """Commands: whether a model may run them, for how long, and with which variables. The sandbox confines them."""

    enabled: bool = setting(False, "Whether there are tools that run commands, in the sandbox.", "program")
    timeout_s: float = setting(
        30.0, "Seconds after which a command is stopped if its call does not say.", "grant", minimum=0.001
    )
    environment: tuple[str, ...] = setting(
        (),
        'More variables that commands get, such as ["JAVA_HOME"]; by default they get none that may hold a secret.',
        "secret",
    )


class WebSettings(Record):
    """Pages: whether a model may fetch them."""

    enabled: bool = setting(False, "Whether there is a tool that fetches public pages.", "network")
    allow_http: bool = setting(False, "Whether it may also fetch them without encryption.", "network")


class SandboxSettings(Record):
    """The sandbox: what commands may read, write and reach. They may write to the project and read the system."""

    backend: str = setting(
        "auto",
        "What confines commands: 'auto' is the best that works here, and where none works commands are refused; "
        "'none' does not confine them at all.",
        "program",
        choices=("auto", "bubblewrap", "landlock", "none"),
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
        'What commands may reach, such as ["api.example.com", "*.example.org"]; if it is empty, there is no network.',
        "network",
    )
    memory_mb: int = setting(
        4_096,
        "The most memory, in MiB, of a command's processes: of each, and of all together with their /tmp.",
        "grant",
        minimum=16,
    )
    cpu_s: int = setting(
        3_600, "The most processor time, in seconds, of a command's processes together.", "grant", minimum=1
    )
    processes: int = setting(256, "The most processes and threads of a command.", "grant", minimum=1)


class GrpcSettings(Record):
    """Search over gRPC: who may connect, whether documents may be written, and how much at once."""

    token_env: str = setting(
        "",
        "The environment variable with the token that every call must carry; required to listen on a network.",
        "secret",
    )
    tls_cert: str = setting("", "The server's certificate chain, in PEM, which turns TLS on.", "access")
    tls_key: str = setting("", "The private key of the certificate, in PEM.", "access")
    client_ca: str = setting("", "The authority, in PEM, that must have signed a caller's certificate.", "access")
    writes: bool = setting(False, "Whether documents may be put and deleted.", "grant")
    max_in_flight: int = setting(
        64, "How many searches may run or wait; further ones are refused at once.", "grant", minimum=1
    )
    max_message_bytes: int = setting(
        4_194_304, "The largest message that is accepted or sent.", "grant", minimum=65_536
    )
    shutdown_s: float = setting(
        10.0, "How many seconds a server that is stopped may take to finish its calls.", minimum=0
    )
    log_queries: bool = setting(False, "Whether the log contains the queries.", "disclosure")
    metrics: str = setting(
        "",
        "HOST:PORT where Prometheus finds metrics; calls then have OpenTelemetry spans too. Needs the telemetry extra.",
        "network",
    )


class ServeSettings(Record):
    """`onhand serve`: who may connect."""

    token_env: str = setting(
        "", "The environment variable with the bearer token that every client over HTTP must send.", "secret"
    )


class McpSettings(Record):
    """Other MCP servers: which are behind ours, how what they offer is shown, and who approves what is new."""

    files: tuple[str, ...] = setting(
        (), 'JSON files of servers, as MCP clients share them, such as [".mcp.json"].', "program"
    )
    trust: str = setting(
        "auto",
        "Who approves a new server and its tools: 'auto' accepts what is not suspicious, 'ask' waits for "
        "`onhand mcp approve`. Later changes always wait.",
        "grant",
        choices=("ask", "auto"),
    )
    transparent: str = setting(
        "", "The one server to pass through under its own tool names, instead of tools that find tools."
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
    agent: AgentSettings
    shell: ShellSettings
    web: WebSettings
    sandbox: SandboxSettings
    grpc: GrpcSettings
    serve: ServeSettings
    mcp: McpSettings
    project: str  # the directory of the project file; without one, the directory where the search for one began
    project_file: str | None  # the configuration file of the project, if it has one
    files: tuple[str, ...]  # that were read: the user's, then the project's
    sources: Mapping[str, str]  # key of a setting → where its value came from
    warnings: tuple[str, ...]


SECTIONS: dict[str, Any] = {
    name: globals()[kind] for name, kind in Config.__annotations__.items() if kind.endswith("Settings")
}
SETTINGS = tuple(one for name, fields in SECTIONS.items() for one in declare(name, fields))
