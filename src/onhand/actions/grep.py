r"""Search the contents of files for a pattern, line by line.

RE2, which comes with the `actions` extra, takes time in proportion to the text times the pattern, so no pattern can
hang a search. Patterns match within one line: `^` also matches after a byte order mark and `$` before a carriage
return, since a reader sees neither, and `\d`, `\w`, `\s` and `\b` are ASCII.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Annotated, Any, NamedTuple

from onhand import cancellation
from onhand.actions.action import workspace_tool
from onhand.actions.files import check_characters, read_bytes
from onhand.actions.tree import TIMED_OUT, TIMEOUT_S, Walk, compile_globs
from onhand.actions.workspace import ResolvedPath, Workspace, display, path_line
from onhand.errors import InputError, MissingExtra, NotFound
from onhand.text import quantity
from onhand.tools import Tool

MAX_MATCHES = 500  # more do not fit in an answer
DEFAULT_LIMIT = 100  # matches
MAX_UNREAD = 5  # unreadable files that an answer names
MAX_CONTEXT = 20  # lines before and after a match
MAX_LINE_CHARS = 500  # of a line in an answer
MAX_PATTERN_CHARS = 10_000
MAX_PATTERN_BYTES = 8 * 1024 * 1024  # of a compiled pattern; ten thousand words take half of it
# A large pattern may take some nanoseconds for each of its parts and each byte, and the search cannot be interrupted.
STEPS_AT_ONCE = 500_000_000
MIN_BYTES_AT_ONCE = 16 * 1024
MAX_LINE_FACTOR = 4  # lines that are longer than this many pieces are not searched

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
TYPE_ALIASES = {
    "bash": "sh",
    "c++": "cpp",
    "cs": "csharp",
    "golang": "go",
    "javascript": "js",
    "jsx": "js",
    "kt": "kotlin",
    "markdown": "md",
    "python": "py",
    "rb": "ruby",
    "rs": "rust",
    "shell": "sh",
    "text": "txt",
    "tf": "terraform",
    "tsx": "ts",
    "typescript": "ts",
    "yml": "yaml",
}


class GrepMatch(NamedTuple):
    """A line that matches, and the context lines that were requested."""

    file: str
    line: int
    content: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class UnreadFile(NamedTuple):
    """A file that could not be searched, and why."""

    file: str
    reason: str


class GrepResult(NamedTuple):
    """The lines that match, ordered by file and line."""

    matches: tuple[GrepMatch, ...]
    count: int = 0  # type: ignore[assignment]  # the name that agents know; it hides a method of tuples
    is_cut: bool = False  # there are more, or not everything was searched
    notes: tuple[str, ...] = ()
    left_out: int = 0  # for lack of room
    unread: int = 0  # files that could not be read
    first_unread: tuple[UnreadFile, ...] = ()
    success: bool = True

    def to_text(self) -> str:
        """Return the matches under the names of their files, as `12: line`, with context lines as `11- line`."""
        files: dict[str, dict[int, str]] = {}
        for match in self.matches:
            lines = files.setdefault(match.file, {})
            before = enumerate(match.before, match.line - len(match.before))
            for number, line in (*before, *enumerate(match.after, match.line + 1)):
                lines.setdefault(number, f"  {number}- {line}")
            lines[match.line] = f"  {match.line}: {match.content}"
        text = [] if files else ["no line matches"]
        for file, lines in files.items():
            text += [path_line(file), *(lines[number] for number in sorted(lines))]
        if files and (self.is_cut or self.left_out):
            is_certain = self.left_out or not (self.notes or self.unread)
            how_many = f"{'' if is_certain else 'there may be '}more than these {len(self.matches):,}"
            text.append(f"[{how_many}; narrow them by path, glob or type, or send limit]")
        if self.unread:
            names = ", ".join(f"{path_line(file)} ({reason})" for file, reason in self.first_unread)
            more = f" and {self.unread - len(self.first_unread):,} more" * (self.unread > len(self.first_unread))
            text.append(f"[{quantity(self.unread, 'file')} could not be read: {names}{more}]")
        return "\n".join([*text, *(f"[{note}]" for note in self.notes)])


class MatchedLine(NamedTuple):
    """The number of a line that matches, and where it is in the content."""

    number: int
    start: int
    end: int  # without the line feed


@dataclass(slots=True)
class _Search:
    """The state of one search."""

    workspace: Workspace
    pattern: "LinePattern"
    context: int
    ends_at: float
    notes: list[str] = field(default_factory=list)  # for the reader of the answer
    unread: list[UnreadFile] = field(default_factory=list)

    def is_late(self) -> bool:
        cancellation.check()
        late = monotonic() > self.ends_at
        if late:
            self.notes.append(TIMED_OUT)
        return late


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
    limit: int = DEFAULT_LIMIT,
    hidden: bool = False,
) -> GrepResult:
    """Return the lines of the files below a path that match a pattern, at most `limit`, ordered by path and line."""
    compiled = LinePattern(pattern, ignore_case, literal)
    is_included = _file_filter(glob, type)
    place = workspace.resolve(path)
    search = _Search(workspace, compiled, min(context, MAX_CONTEXT), monotonic() + TIMEOUT_S)
    if _is_directory(workspace, place, path):
        sources = _contents_below(search, place, hidden, is_included)
    else:
        sources = iter([(workspace.name(place), _text_of(workspace, place, path))])
    matches = tuple(islice(_matches(search, sources), limit + 1))
    return GrepResult(
        matches[:limit],
        min(len(matches), limit),
        len(matches) > limit or bool(search.notes or search.unread),
        tuple(dict.fromkeys(search.notes)),
        unread=len(search.unread),
        first_unread=tuple(search.unread[:MAX_UNREAD]),
    )


def grep_tool(workspace: Workspace) -> Tool:
    """Return the tool that searches the contents of files."""

    @workspace_tool(
        workspace,
        "grep",
        parameters={
            "path": {
                "description": f"A file or a directory; the workspace by default.{workspace.describe_further_roots()}"
            },
            "type": {"description": f"Only files of this type: {', '.join(list(TYPES)[:12])}, …"},
        },
    )
    def search_lines(
        pattern: Annotated[str, "What to find anywhere in a line."],
        path: str = ".",
        glob: Annotated[str | None, "Only files like *.ts, or from the root src/**/*.ts; !*.ts for all others."] = None,
        type: str | None = None,
        ignore_case: Annotated[bool, "Ignore case."] = False,
        literal: Annotated[bool, "Search for the pattern as plain text."] = False,
        context: Annotated[int, "Lines before and after each match.", {"minimum": 0, "maximum": MAX_CONTEXT}] = 0,
        hidden: Annotated[bool, "Include hidden files."] = False,
        limit: Annotated[int, "At most this many matches.", {"minimum": 1, "maximum": MAX_MATCHES}] = DEFAULT_LIMIT,
    ) -> GrepResult:
        """Search the contents of files in the workspace with an RE2 regular expression, line by line; literal=true
        searches for plain text. Narrow the search by path, glob or type; context adds the lines around a match. Files
        that git ignores, hidden, binary, unreadable and closed files and files over 32 MB are left out. It finds words,
        not meanings. Costs a line per match. Example: grep(pattern="TODO", type="py", context=2).
        """
        return grep(
            workspace,
            pattern,
            path,
            glob=glob,
            type=type,
            ignore_case=ignore_case,
            literal=literal,
            context=context,
            limit=limit,
            hidden=hidden,
        )

    return search_lines


def _is_directory(workspace: Workspace, place: ResolvedPath, path: str) -> bool:
    try:
        with workspace.open_directory(place, path):
            return True
    except NotFound:
        raise
    except InputError:  # it is a file, or reading it will report what it is
        return False


def _text_of(workspace: Workspace, place: ResolvedPath, path: str) -> bytes:
    content = read_bytes(workspace, place, path)
    if b"\0" in content:
        only = "only UTF-8 text is searched; read_file can show UTF-16"
        raise InputError(f"{display(path)} contains NUL characters, as binary files do: {only}")
    return content


def _file_filter(glob: str | None, type: str | None) -> Callable[[str], bool]:
    """Return a function that tells from the path of a file whether it is included."""
    rules: list[Callable[[str], bool]] = []
    if glob is not None:
        is_negated = glob.startswith("!")
        matches_glob = compile_globs([_complete_glob(glob.removeprefix("!"))], anchored=False)
        rules.append(lambda inner: matches_glob(inner) != is_negated)
    if type is not None:
        names = TYPES.get(TYPE_ALIASES.get(type.lower(), type.lower()))
        if names is None:
            known = ", ".join(TYPES)
            raise InputError(f"unknown type '{type[:40]}': use {known}, or a glob such as *.{type[:20]}")
        rules.append(compile_globs(names.split(), anchored=False))
    return lambda inner: all(is_included(inner) for is_included in rules)


def _complete_glob(glob: str) -> str:
    """Spell out what a filter means: `./a` is at the top, and `a/` is everything in such a directory."""
    glob = glob.removeprefix(".") if glob.startswith("./") else glob
    return f"{'' if '/' in glob[:-1] else '**/'}{glob}**" if glob.endswith("/") else glob


def _contents_below(
    search: _Search, start: ResolvedPath, hidden: bool, is_included: Callable[[str], bool]
) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each text file below a directory that is included."""
    walk = Walk(search.workspace, start, hidden=hidden, ends_at=search.ends_at)
    busy: list[str] = []
    for file in walk:
        if not is_included(file.place.inner):
            continue
        if search.is_late():
            return
        try:
            content = file.read()
        except BlockingIOError:
            busy.append(search.workspace.name(file.place))
            continue
        except FileNotFoundError:  # it was removed
            continue
        except OSError as error:
            search.unread.append(UnreadFile(search.workspace.name(file.place), (error.strerror or str(error)).lower()))
            continue
        if b"\0" not in content:
            yield search.workspace.name(file.place), content
    if busy:
        more = f" and {len(busy) - 1:,} more" if len(busy) > 1 else ""
        search.notes.append(f"not searched because it is being written to: {busy[0]}{more}; try again")
    search.notes += walk.gaps.notes()


def _matches(search: _Search, sources: Iterable[tuple[str, bytes]]) -> Iterator[GrepMatch]:
    for name, content in sources:
        try:
            yield from _matches_in(search, name, content)
        except InputError as error:
            search.notes.append(f"{name}: {error}")


def _matches_in(search: _Search, name: str, content: bytes) -> Iterator[GrepMatch]:
    lines, context = search.pattern.lines(content, search.is_late), search.context
    rendered = ContextLines(content)
    for number, start, end in lines:
        before, after = (rendered.before(start, context), rendered.after(end, context)) if context else ((), ())
        yield GrepMatch(name, number, rendered.line(start, end), before, after)


class ContextLines:
    """The lines of one file as an answer shows them.

    The context of one match often overlaps that of the next. Each line is located and decoded once, so that a line of
    megabytes between many matches costs no more than one look, and all matches share it.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._starts: dict[int, int] = {}  # of lines, by their ends
        self._ends: dict[int, int] = {}  # of lines, by their starts
        self._rendered: dict[int, str] = {}  # lines, by their starts

    def line(self, start: int, end: int) -> str:
        """Return a line without its line end and trailing blanks, shortened if it is very long."""
        text = self._rendered.get(start)
        if text is None:
            text = self._rendered[start] = _render_line(self._content, start, end)
        return text

    def before(self, start: int, count: int) -> tuple[str, ...]:
        """Return up to `count` lines before the one that starts there."""
        lines: list[str] = []
        while len(lines) < count and start > 0:
            end, start = start - 1, self._start(start - 1)
            lines.append(self.line(start, end))
        return tuple(reversed(lines))

    def after(self, end: int, count: int) -> tuple[str, ...]:
        """Return up to `count` lines after the one that ends there."""
        lines: list[str] = []
        while len(lines) < count and end + 1 < len(self._content):
            start, end = end + 1, self._end(end + 1)
            lines.append(self.line(start, end))
        return tuple(lines)

    def _start(self, end: int) -> int:
        start = self._starts.get(end)
        if start is None:
            start = self._starts[end] = self._content.rfind(b"\n", 0, end) + 1
        return start

    def _end(self, start: int) -> int:
        end = self._ends.get(start)
        if end is None:
            found = self._content.find(b"\n", start)
            end = self._ends[start] = len(self._content) if found < 0 else found
        return end


def _render_line(content: bytes, start: int, end: int) -> str:
    limit = start + 4 * (MAX_LINE_CHARS + 1)  # a character has at most four bytes
    text = content[start : min(end, limit)].decode("utf-8" if start else "utf-8-sig", "replace")
    text = text.rstrip() if end <= limit else text
    return text if len(text) <= MAX_LINE_CHARS else text[: MAX_LINE_CHARS - 1] + "…"


class LinePattern:
    """A compiled pattern that matches within single lines."""

    def __init__(self, pattern: str, ignore_case: bool = False, literal: bool = False) -> None:
        """Compile a pattern; InputError says what is wrong with it."""
        _check_pattern(pattern, literal)
        self._regex = _compile(pattern, ignore_case, literal)
        steps = 1 if literal else max(1, self._regex.programsize)  # for each byte
        self._bytes_at_once = max(MIN_BYTES_AT_ONCE, STEPS_AT_ONCE // steps)

    def lines(self, content: bytes, is_over: Callable[[], bool] = lambda: False) -> Iterator[MatchedLine]:
        """Yield the lines that match, in order, until `is_over`; InputError for a line that would take too long."""
        last = len(content) - content.endswith(b"\n")  # where the last line ends
        number, counted, at, until = 1, 0, 0, -1
        while content and at <= last:
            if at > until:
                if is_over():
                    return
                until = self._end_of_piece(content, at, last)
            match = self._regex.search(content, at, until)
            if match is None:
                at = until + 1
                continue
            start = content.rfind(b"\n", 0, match.start()) + 1
            end = content.find(b"\n", match.start(), last)
            end = last if end < 0 else end
            number += content.count(b"\n", counted, start)
            counted = start
            yield MatchedLine(number, start, end)
            at = end + 1

    def _end_of_piece(self, content: bytes, at: int, last: int) -> int:
        """Return the end of the line up to which the content is searched at once."""
        enough = at + self._bytes_at_once
        if enough >= last:
            return last
        end = content.find(b"\n", enough, last)
        end = last if end < 0 else end
        if end - at <= MAX_LINE_FACTOR * self._bytes_at_once:
            return end
        before = content.rfind(b"\n", at, enough)
        if before < 0:
            raise InputError("one of its lines is too long for such a large pattern; send a smaller one")
        return before


def _check_pattern(pattern: str, literal: bool) -> None:
    if not pattern:
        raise InputError("the pattern is empty, so it would match every line: send what to search for")
    if len(pattern) > MAX_PATTERN_CHARS:
        size = f"{len(pattern):,} characters, more than {MAX_PATTERN_CHARS:,}"
        raise InputError(f"the pattern has {size}: send a shorter one")
    if "\0" in pattern or "\n" in pattern:
        raise InputError("the pattern contains a NUL or a line feed, but it is matched line by line: remove it")
    check_characters(pattern, "the pattern")
    if not literal and (found := _ACROSS_LINES.search(pattern)):
        place = f"at character {found.start(1) + 1}"
        raise InputError(f"{found[1]} ({place}) looks beyond a line, but lines are matched one by one: use ^ and $")


# Syntax that would look beyond the line: \A, \z, \C and the flag m, unless the backslash itself is escaped.
_ACROSS_LINES = re.compile(r"(?<!\\)(?:\\\\)*(\\[AzC]|\(\?[a-zA-Z]*-?[a-zA-Z]*m[a-zA-Z-]*[:)])")


def _compile(pattern: str, ignore_case: bool, literal: bool) -> Any:
    try:
        import re2
    except ImportError:
        raise MissingExtra("searching in files", "actions") from None
    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.never_capture = True
    options.max_mem = MAX_PATTERN_BYTES
    options.case_sensitive = not ignore_case
    try:
        regex = re2.escape(pattern) if literal else pattern
        re2.compile(regex, options)  # by itself first: an error quotes it
        return re2.compile(f"(?m){_SIGN.sub(lambda sign: _EDGES.get(sign[0], sign[0]), regex)}", options)
    except re2.error as error:
        raise InputError(_explain(pattern, error)) from None


# The edges of a line: after a byte order mark, and before a carriage return.
_EDGES = {"^": r"(?:^\x{FEFF}?)", "$": r"(?:\r?$)"}
# Edges and parentheses; other syntax that contains the same signs is matched as a whole.
_SIGN = re.compile(r"\\Q.*?(?:\\E|\Z)|\\[pP]\{\^|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|[\^$()]")


def _explain(pattern: str, error: Exception) -> str:
    """Translate an error of RE2, with its position in the pattern where that is known."""
    message = error.args[0] if error.args else ""
    message = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    problem, _, piece = message.partition(": ")
    at = len(pattern) - 1 if problem.startswith("trailing") else pattern.find(piece) if piece else -1
    at = _find_unpaired(pattern) if problem.endswith(")") else at  # it quotes the whole pattern
    place = f" at character {at + 1}" if at >= 0 else ""
    advice = "RE2 has no look-around and no back-references; to search for the text itself, send literal=true"
    return f"the pattern is invalid: {problem}{place}; {advice}"


def _find_unpaired(pattern: str) -> int:
    """Return the position of a parenthesis without a partner, or -1."""
    pending: list[int] = []
    for sign in _SIGN.finditer(pattern):
        if sign[0] == "(":
            pending.append(sign.start())
        elif sign[0] == ")":
            if not pending:
                return sign.start()
            pending.pop()
    return pending[-1] if pending else -1
