"""Which lines of which files match? Plain functions over a workspace.

ripgrep, where it is at hand, says which files to look into; without it every file is looked into. Either way the lines
are found by one matcher, in files that were opened below the workspace, so that both ways give the same.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from time import monotonic
from typing import NamedTuple

from onhand.actions import ripgrep
from onhand.actions.files import contents
from onhand.actions.pattern import Line, Pattern
from onhand.actions.programs import found as found_program
from onhand.actions.tree import LATE, TIMEOUT_S, Scope, Walk, expanded, in_order, matcher
from onhand.actions.workspace import Place, Workspace
from onhand.errors import InputError, NotFound

MAX_MATCHES = 1_000
MAX_CONTEXT = 20  # lines before and after a match
MAX_LINE_CHARS = 500  # of a line that is shown
BINARY_BYTES = 8_000  # a file with a NUL among its first ones is no text, as for git

TYPES = {
    "c": "*.c *.h",
    "cpp": "*.cpp *.cc *.cxx *.hpp *.hh *.hxx *.h *.inl",
    "csharp": "*.cs *.csx",
    "css": "*.css *.scss *.sass *.less",
    "dart": "*.dart",
    "docker": "Dockerfile Dockerfile.* *.dockerfile",
    "elixir": "*.ex *.exs *.eex *.heex",
    "erlang": "*.erl *.hrl",
    "go": "*.go",
    "haskell": "*.hs *.lhs",
    "html": "*.html *.htm *.xhtml",
    "java": "*.java *.jsp",
    "js": "*.js *.jsx *.mjs *.cjs *.vue",
    "json": "*.json *.jsonl *.jsonc *.ipynb",
    "kotlin": "*.kt *.kts",
    "lua": "*.lua",
    "make": "Makefile makefile GNUmakefile *.mk *.mak",
    "md": "*.md *.markdown *.mdx",
    "nix": "*.nix",
    "ocaml": "*.ml *.mli",
    "perl": "*.pl *.pm *.t",
    "php": "*.php *.phtml",
    "proto": "*.proto",
    "py": "*.py *.pyi",
    "r": "*.R *.r *.Rmd",
    "ruby": "*.rb *.gemspec Gemfile Rakefile",
    "rust": "*.rs",
    "scala": "*.scala *.sbt",
    "sh": "*.sh *.bash *.zsh *.fish *.ksh",
    "sql": "*.sql",
    "svelte": "*.svelte",
    "swift": "*.swift",
    "terraform": "*.tf *.tfvars",
    "toml": "*.toml",
    "ts": "*.ts *.tsx *.mts *.cts",
    "txt": "*.txt",
    "vue": "*.vue",
    "xml": "*.xml *.xsd *.xsl *.xslt *.svg",
    "yaml": "*.yaml *.yml",
    "zig": "*.zig",
}
_OTHER_TYPES = {"cs": "csharp", "javascript": "js", "typescript": "ts", "tsx": "ts", "jsx": "js", "python": "py"} | {
    "markdown": "md",
    "rb": "ruby",
    "rs": "rust",
    "bash": "sh",
    "shell": "sh",
    "yml": "yaml",
    "c++": "cpp",
    "kt": "kotlin",
    "golang": "go",
    "text": "txt",
    "tf": "terraform",
}


class Match(NamedTuple):
    """A line that matches, and the lines around it that were asked for."""

    file: str
    line: int
    content: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Grepped(NamedTuple):
    """The lines that match, by file and line."""

    matches: tuple[Match, ...]
    is_cut: bool = False  # there are more
    engine: str = "re2"  # or ripgrep, where it said which files to look into
    notes: tuple[str, ...] = ()


class _Search(NamedTuple):
    """What is looked for, and where."""

    scope: Scope
    pattern: Pattern
    is_wanted: Callable[[str], bool]
    names: tuple[str, ...]  # of files that may be wanted; empty when any may
    ends_at: float


def grep(
    workspace: Workspace,
    pattern: str,
    path: str = ".",
    *,
    glob: str | None = None,
    type: str | None = None,
    ignore_case: bool = False,
    literal: bool = False,
    context: int = 0,
    limit: int = 100,
    hidden: bool = False,
    use_ripgrep: bool = True,
) -> Grepped:
    """Lines of the files below a path that match a pattern, at most `limit` of them, in order of path and line."""
    compiled = Pattern(pattern, ignore_case, literal)
    is_wanted, names = _filter(glob, type)
    place = workspace.place(path)
    search = _Search(Scope.at(workspace, place, hidden), compiled, is_wanted, names, monotonic() + TIMEOUT_S)
    notes: list[str] = []
    named = None
    places: Iterable[Place] = [place]
    if _is_directory(workspace, place, path):
        named = _by_ripgrep(search, notes) if use_ripgrep else None
        places = _by_walking(search, notes) if named is None else named
    matches = list(islice(_matches(search, places, min(context, MAX_CONTEXT), notes), limit + 1))
    is_cut = len(matches) > limit or bool(notes)
    said = tuple(dict.fromkeys(notes))
    return Grepped(tuple(matches[:limit]), is_cut, "re2" if named is None else "ripgrep", said)


def _is_directory(workspace: Workspace, place: Place, path: str) -> bool:
    try:
        with workspace.opened_directory(place, path):
            return True
    except NotFound:
        raise
    except InputError:  # it is a file, or whoever reads it will be told what it is
        contents(workspace, place, path)
        return False


def _filter(glob: str | None, type: str | None) -> tuple[Callable[[str], bool], tuple[str, ...]]:
    """Whether a file is wanted by its path, and patterns of the names that those have."""
    wanted: list[Callable[[str], bool]] = []
    names: tuple[str, ...] = ()
    if glob is not None:
        wanted.append(matcher([glob], anchored=False))
        last = [pattern.rpartition("/")[2] for pattern in expanded(glob)]
        names = tuple(last) if all(map(_is_simple, last)) else ()
    if type is not None:
        known = TYPES.get(_OTHER_TYPES.get(type.lower(), type.lower()))
        if known is None:
            raise InputError(f"there is no type '{type[:40]}': use {', '.join(TYPES)}, or a glob such as *.{type[:20]}")
        names = tuple(known.split())
        wanted.append(matcher(names, anchored=False))
    return (lambda inner: all(is_one(inner) for is_one in wanted)), names


def _is_simple(name: str) -> bool:
    """Whether a pattern of names means the same to everybody."""
    return bool(name) and name != "**" and all(char.isalnum() or char in "*_.-" for char in name)


def _by_ripgrep(search: _Search, notes: list[str]) -> Iterator[Place] | None:
    """The files to look into as ripgrep names them; None where it is not at hand or cannot tell."""
    program = found_program("rg", search.scope.workspace) if search.pattern.for_ripgrep is not None else None
    if program is None:
        return None
    named = ripgrep.candidates(program, search.scope, search.pattern, search.names, TIMEOUT_S)
    if named is None:
        return None
    if named.is_late:
        notes.append(LATE)
    in_time = takewhile(lambda _: not _is_late(search, notes), in_order(named.places))
    return (place for place in in_time if search.is_wanted(place.inner) and search.scope.has(place))


def _by_walking(search: _Search, notes: list[str]) -> Iterator[Place]:
    walk = Walk(search.scope, search.ends_at)
    yield from (place for place in walk if search.is_wanted(place.inner))
    notes += walk.notes()


def _matches(search: _Search, places: Iterable[Place], context: int, notes: list[str]) -> Iterator[Match]:
    workspace = search.scope.workspace
    for place in places:
        if _is_late(search, notes):
            return
        try:
            content = contents(workspace, place, place.inner)
        except InputError:  # it went away, may not be read, or is larger than anybody reads
            continue
        if b"\0" not in content[:BINARY_BYTES]:
            name = workspace.name(place)
            lines = search.pattern.lines(content, lambda: _is_late(search, notes))
            try:
                yield from (_match(name, content, line, context) for line in lines)
            except InputError as error:
                notes.append(f"{name}: {error}")


def _is_late(search: _Search, notes: list[str]) -> bool:
    late = monotonic() > search.ends_at
    notes += [LATE] * late
    return late


def _match(name: str, content: bytes, line: Line, context: int) -> Match:
    before = _lines_before(content, line.start, context)
    after = _lines_after(content, line.end, context)
    return Match(name, line.number, _shown(content[line.start : line.end]), before, after)


def _lines_before(content: bytes, start: int, count: int) -> tuple[str, ...]:
    lines: list[str] = []
    while len(lines) < count and start > 0:
        end, start = start - 1, content.rfind(b"\n", 0, start - 1) + 1
        lines.append(_shown(content[start:end]))
    return tuple(reversed(lines))


def _lines_after(content: bytes, end: int, count: int) -> tuple[str, ...]:
    lines: list[str] = []
    while len(lines) < count and end + 1 < len(content):
        start, end = end + 1, content.find(b"\n", end + 1)
        end = len(content) if end < 0 else end
        lines.append(_shown(content[start:end]))
    return tuple(lines)


def _shown(line: bytes) -> str:
    """A line without what ends it, and cut when it is longer than anybody writes."""
    text = line[: 4 * MAX_LINE_CHARS + 4].decode("utf-8", "replace").rstrip()
    return text if len(text) <= MAX_LINE_CHARS else text[: MAX_LINE_CHARS - 1] + "…"
