"""Which lines of which files match? Plain functions over a workspace.

ripgrep, where it is at hand, says which files to look into, and at which lines; without it every file is looked into.
Either way one matcher decides, in files that were opened below the workspace, so that both ways give the same.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import NamedTuple

from onhand import wanted
from onhand.actions.around import Around, shown_line
from onhand.actions.files import contents
from onhand.actions.in_turn import InTurn
from onhand.actions.pattern import Line, Pattern
from onhand.actions.programs import found as found_program
from onhand.actions.ripgrep import Naming
from onhand.actions.survey import Survey
from onhand.actions.tree import LATE, TIMEOUT_S, Scope, Walk, expanded, is_too_deep, matcher
from onhand.actions.workspace import Place, Workspace, shown
from onhand.errors import InputError, NotFound

MAX_MATCHES = 500  # more do not fit into the answer of a tool
MAX_CONTEXT = 20  # lines before and after a match
PATIENCE = 64  # files in a row without a match: so long the first ones are looked into while ripgrep works
TO_READ_S = TIMEOUT_S / 4  # for the files that ripgrep named, when it takes all of its time or hangs
LOOK_EVERY = 16  # directories or files: a look takes almost as long as one of them

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


@dataclass(slots=True)
class _Search:
    """What is looked for, and where; what came of it so far."""

    scope: Scope
    pattern: Pattern
    is_wanted: Callable[[str], bool]
    context: int
    limit: int
    files: InTurn
    ends_at: float
    naming: Naming | None  # ripgrep, if it helps
    notes: list[str] = field(default_factory=list)  # what a reader of the answer should know
    busy: list[str] = field(default_factory=list)  # files that somebody is writing to
    misses: int = 0  # files that a walk came through since the last match
    ahead: dict[str, list[Match]] = field(default_factory=dict)  # of files that were read before their turn
    ahead_count: int = 0  # of the matches in them


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
    is_directory = _is_directory(workspace, place, path)
    scope, ends_at = Scope.at(workspace, place, hidden), monotonic() + TIMEOUT_S
    naming = _naming(scope, compiled, names, limit, ends_at - TO_READ_S) if use_ripgrep and is_directory else None
    with naming or nullcontext(), InTurn() as files:
        search = _Search(scope, compiled, is_wanted, min(context, MAX_CONTEXT), limit, files, ends_at, naming)
        places = _places(search) if is_directory else iter([place])
        matches = list(islice(_matches(search, places), limit + 1))
    if search.busy:
        more = f" and {len(search.busy) - 1:,} more" if len(search.busy) > 1 else ""
        search.notes.append(f"being written to, and not searched: {search.busy[0]}{more}; try again")
    is_cut = len(matches) > limit or bool(search.notes)
    engine = "ripgrep" if naming and naming.could_tell else "re2"
    return Grepped(tuple(matches[:limit]), is_cut, engine, tuple(dict.fromkeys(search.notes)))


def _is_directory(workspace: Workspace, place: Place, path: str) -> bool:
    try:
        with workspace.opened_directory(place, path):
            return True
    except NotFound:
        raise
    except InputError:  # it is a file, or whoever reads it will be told what it is
        if b"\0" in contents(workspace, place, path):
            only = "only UTF-8 text is searched; read_file shows UTF-16 too"
            raise InputError(f"{shown(path)} has NUL characters, as binary files have: {only}") from None
        return False


def _filter(glob: str | None, type: str | None) -> tuple[Callable[[str], bool], tuple[str, ...]]:
    """Whether a file is wanted by its path, and patterns of the names that those have."""
    rules: list[Callable[[str], bool]] = []
    names: tuple[str, ...] = ()
    if glob is not None:
        is_other, spelled = glob.startswith("!"), _spelled(glob.removeprefix("!"))
        is_like = matcher([spelled], anchored=False)
        rules.append(lambda inner: is_like(inner) != is_other)
        names = () if is_other else tuple(pattern.rpartition("/")[2] for pattern in expanded(spelled))
    if type is not None:
        known = TYPES.get(_OTHER_TYPES.get(type.lower(), type.lower()))
        if known is None:
            raise InputError(f"there is no type '{type[:40]}': use {', '.join(TYPES)}, or a glob such as *.{type[:20]}")
        names = tuple(known.split())
        rules.append(matcher(names, anchored=False))
    if not rules:
        return (lambda inner: True), ()
    return (lambda inner: all(is_one(inner) for is_one in rules)), names if all(map(_is_simple, names)) else ()


def _spelled(glob: str) -> str:
    """A filter as it is meant: `./a` is at the top, and `a/` all that is in such a directory."""
    glob = glob.removeprefix(".") if glob.startswith("./") else glob
    return f"{'' if '/' in glob[:-1] else '**/'}{glob}**" if glob.endswith("/") else glob


def _is_simple(name: str) -> bool:
    """Whether a pattern of names means the same to everybody; to ripgrep, what ends in two dots has no name."""
    return all(char.isalnum() or char in "*_.-" for char in name) and name[-1:] not in ("", "*", ".")


def _naming(scope: Scope, pattern: Pattern, names: Sequence[str], limit: int, ends_at: float) -> Naming | None:
    """ripgrep at work; None where it is not at hand, too deep, or may take the pattern for another."""
    if pattern.for_ripgrep is None or is_too_deep(scope.start, 0):
        return None
    program = found_program("rg", scope.workspace)
    if program is None:
        return None
    with suppress(OSError):  # the pattern is longer than a program may be told, or no program can be started now
        return Naming(program, scope, pattern, names, limit, ends_at)
    return None


def _places(search: _Search) -> Iterator[Place]:
    """The files to look into, in order: as ripgrep names them, or all of them."""
    walk = Walk(search.scope, search.ends_at)
    walking = iter(walk)
    if search.naming and (yield from _named(search, search.naming, walking)):
        return
    yield from (place for place in walking if search.is_wanted(place.inner))
    search.notes.extend(walk.gaps.notes())


def _named(search: _Search, naming: Naming, walking: Iterator[Place]) -> Generator[Place, None, bool]:
    """The files to look into, with ripgrep's help; in the end, whether it could tell all. If not, the walk goes on.

    While it works, the directories are surveyed: where it might see something else, it begins again in those that are
    meant. Then the files that it names are looked into as they come. Once it has named more than matches are asked for,
    the first files of a walk are likely to have enough. So they are walked through while it goes on; what it says
    counts from where the walk was when it was done. If they have none, the first of those that it named are looked into
    instead.
    """
    survey, last = Survey(search.scope, search.ends_at), None
    surveying = iter(survey)
    for _ in islice(surveying, 0, None, LOOK_EVERY):
        naming.look()
        if naming.count > search.limit:
            break
    _correct(naming, survey)
    while not naming.is_over and naming.count <= search.limit:
        _read_ahead(search, naming, naming.news(), search.limit // 2)
        naming.wait(naming.count)
    while not naming.is_over and search.misses < PATIENCE and (place := next(walking, None)):
        last = place
        search.misses += 1
        if search.is_wanted(place.inner):
            yield place
        naming.look()
    if not survey.is_over:
        deque(surveying, maxlen=0)
        _correct(naming, survey)
    _read_ahead(search, naming, islice(naming.so_far(last), search.limit // 2), search.limit)
    naming.wait()
    named = naming.named(last)
    if named is None:
        return False
    search.notes.extend([LATE] * named.is_late)
    yield from (place for place in named.places if _is_meant(search, place))
    search.notes.extend(survey.gaps.notes())
    return True


def _correct(naming: Naming, survey: Survey) -> None:
    if survey.is_over and not survey.is_clear:
        naming.begin_again(survey.directories)


def _read_ahead(search: _Search, naming: Naming, places: Iterable[Place], enough: int) -> None:
    """While ripgrep works, look into files that it has named: most of them will be among the first."""
    for number, place in enumerate(places):
        if number % LOOK_EVERY == 0:
            naming.look()
        if naming.is_over or search.ahead_count > enough:
            return
        if place.inner not in search.ahead and _is_meant(search, place):
            with suppress(OSError, InputError):  # to be told in its turn
                found = search.ahead[place.inner] = list(islice(_matches_in(search, place), search.limit + 1))
                search.ahead_count += len(found)


def _is_meant(search: _Search, place: Place) -> bool:
    return place.inner in search.ahead or (search.is_wanted(place.inner) and search.scope.has(place))


def _matches(search: _Search, places: Iterable[Place]) -> Iterator[Match]:
    for place in places:
        if _is_late(search):
            return
        try:
            for match in search.ahead.pop(place.inner, None) or _matches_in(search, place):
                search.misses = 0
                yield match
        except BlockingIOError:
            search.busy.append(search.scope.workspace.name(place))
        except OSError:  # it went away, may not be read, or is larger than anybody reads
            continue
        except InputError as error:
            search.notes.append(f"{search.scope.workspace.name(place)}: {error}")


def _matches_in(search: _Search, place: Place) -> Iterable[Match]:
    content = search.files.content(place)
    if b"\0" in content:  # it is no text, for us as for ripgrep
        return ()
    name, context, lines = search.scope.workspace.name(place), search.context, _lines_in(search, place, content)
    if not context:
        return (Match(name, number, shown_line(content, start, end)) for number, start, end in lines)
    around = Around(content)
    return (
        Match(name, number, around.line(start, end), around.before(start, context), around.after(end, context))
        for number, start, end in lines
    )


def _lines_in(search: _Search, place: Place, content: bytes) -> Iterable[Line]:
    """The lines that match. Where ripgrep surely read the same, no others do than those that it told of."""
    naming, pattern = search.naming, search.pattern
    if naming and pattern.is_quick_in(content) and search.files.was_same(naming.began_ns, naming.heard_at):
        told = naming.lines(place)
        if told:
            return pattern.lines_among(content, told)
    return pattern.lines(content, lambda: _is_late(search))


def _is_late(search: _Search) -> bool:
    wanted.check()
    late = monotonic() > search.ends_at
    if late:
        search.notes.append(LATE)
    return late
