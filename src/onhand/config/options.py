"""What can be said? Every option once: its type, its default, what it means and what it may touch.

Loading, `onhand config show`, `onhand init` and the reference page all read this table. To add an option, add
a field; to add a section, add a class and a field of `Config`. Nothing here reads a file or a variable.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args

Role = Literal[
    "value",  # plain data
    "path",  # relative to the project; from a project file it needs trust when it leads out of there
    "inner",  # a path inside another option's directory: never absolute, never with '..'
    "program",  # starts a program: from a project file it needs trust
    "secret",  # the name of the environment variable that holds a secret: from a project file it needs trust
]


class About(NamedTuple):
    """What the type of an option does not say."""

    text: str  # one sentence
    role: Role = "value"
    minimum: float | None = None
    also: tuple[str, ...] = ()  # environment variables that are read when ONHAND_<SECTION>_<NAME> is not set


class Context(NamedTuple):
    """Project context: what goes into every prompt and what is searched on demand."""

    root: Annotated[str, About("The directory of the project's context files.", role="path", also=("AGENTS_DIR",))] = (
        ".AGENTS"
    )
    extra_roots: Annotated[
        tuple[str, ...],
        About('More directories to search, with their sub-directories, such as ["docs"].', role="path"),
    ] = ()
    pinned: Annotated[
        tuple[str, ...],
        About("The files of the root that go whole into every prompt, in this order.", role="inner"),
    ] = ("overview.md", "conventions.md")
    pinned_max_bytes: Annotated[
        int, About("The most that the pinned files may add to a prompt together.", minimum=0)
    ] = 32_768
    manifest_max_tokens: Annotated[
        int, About("The most that the list of what can be searched may add to a prompt.", minimum=0)
    ] = 1_000
    limit: Annotated[int, About("How many sections a search returns when it does not say.", minimum=1)] = 3
    max_file_bytes: Annotated[int, About("A file larger than this is reported and not searched.", minimum=0)] = (
        1_048_576
    )
    ranking: Annotated[
        Literal["default", "seed"],
        About("How sections are ranked: 'seed' is plain BM25 over whole sections, without the refinements."),
    ] = "default"


class Config(NamedTuple):
    """What the user asked for, and who said it.

    A path in here is relative to `project` or, when the user allowed it to lead out of there, absolute.
    """

    context: Context
    project: str  # the directory of the project file; where the search for one began when there is none
    files: tuple[str, ...]  # that were read: the user's, then the project's
    sources: Mapping[str, str]  # option → where its value came from
    warnings: tuple[str, ...]

    @property
    def project_file(self) -> str | None:
        """The configuration file of the project, when it has one."""
        last = self.files[-1] if self.files else ""
        is_project = last.startswith(self.project.rstrip("/\\")) and last != ""
        return last if is_project else None


class Option(NamedTuple):
    """One row of the table."""

    key: str  # "context.root"
    kind: str  # one of KINDS' names, or "choice"
    choices: tuple[str, ...]
    default: object
    about: About

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that set it; the first that is set wins."""
        return ("ONHAND_" + self.key.replace(".", "_").upper(), *self.about.also)

    @property
    def expected(self) -> str:
        """What may be given, in words."""
        if self.choices:
            return "one of " + ", ".join(map(repr, self.choices))
        words = _ROLE_WORDS.get(self.about.role, "") or KIND_WORDS[self.kind]
        if self.kind == "list":
            words = f"a list; each entry {words}" if self.about.role in _ROLE_WORDS else words
        return words if self.about.minimum is None else f"{words}, at least {self.about.minimum:g}"


KINDS = {str: "text", int: "integer", float: "number", bool: "boolean", tuple[str, ...]: "list"}
KIND_WORDS = {
    "text": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list of texts",
}
_ROLE_WORDS = {
    "path": "a path",
    "inner": "a relative path without '..'",
    "secret": "the name of an environment variable",
}


def options_of(section: str, fields: type[tuple[Any, ...]]) -> tuple[Option, ...]:
    """The rows of one section, from the annotated fields of its NamedTuple."""
    rows = []
    for name, annotation in fields.__annotations__.items():
        kind = annotation.__origin__  # of Annotated[kind, About(...)]
        choices = () if kind in KINDS else get_args(kind)
        default = fields._field_defaults[name]  # type: ignore[attr-defined]  # every NamedTuple has it
        about = annotation.__metadata__[0]
        rows.append(Option(f"{section}.{name}", KINDS.get(kind, "choice"), choices, default, about))
    return tuple(rows)


SECTIONS: dict[str, Any] = {
    name: fields for name, fields in Config.__annotations__.items() if hasattr(fields, "_field_defaults")
}
OPTIONS = tuple(option for name, fields in SECTIONS.items() for option in options_of(name, fields))
