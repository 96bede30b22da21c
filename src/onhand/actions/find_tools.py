"""How does a model find files and lines? Two tools: their words, their schemas, their answers."""

from collections.abc import Sequence
from typing import Any

from onhand.actions import shapes
from onhand.actions.answers import Schema, action, fitting, succeeded
from onhand.actions.glob import MAX_FILES, glob
from onhand.actions.grep import MAX_CONTEXT, MAX_MATCHES, TYPES, Grepped, Match, grep
from onhand.actions.workspace import Workspace, on_one_line, shown
from onhand.tools import Output, Tool

MATCHES = 100  # that grep gives unless it is told otherwise
FILES = 200  # that glob gives unless it is told otherwise

GLOB = (
    "Find files of the workspace by their path, in the order of their paths. * stands for any part of a name, ** for "
    "any directories, {a,b} for either. What git ignores, hidden files (unless the pattern names them) and closed ones "
    'are left out. For what files say use grep. Cheap. Example: glob(pattern="src/**/*.{ts,tsx}").'
)
GREP = (
    "Find lines in the files of the workspace by a regular expression of RE2, line by line; literal=true looks for the "
    "text itself. Narrow it by path, glob or type; context gives the lines around a match. What git ignores, hidden, "
    "binary, unreadable and closed files and those over 32 MB are left out. Bad at meaning: it finds what is written. "
    'Costs a line per match, at most 100 unless limit says more. Example: grep(pattern="TODO", type="py", context=2).'
)

_PATH: Schema = {"type": "string", "description": "Where to look; the whole workspace by default."}
_HIDDEN: Schema = {"type": "boolean", "description": "Hidden files too."}


def tools_over(workspace: Workspace) -> list[Tool]:
    """Both tools."""
    further = workspace.further_roots()
    return [
        action(
            "glob",
            GLOB,
            {
                "pattern": {"type": "string", "description": "Such as **/*.py, relative to path."},
                "path": {**_PATH, "description": f"The directory to look below; the workspace by default.{further}"},
                "ignore": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": 100,
                    "description": "Patterns to leave out, as in a .gitignore file.",
                },
                "hidden": _HIDDEN,
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_FILES,
                    "description": f"{FILES} by default.",
                },
            },
            ["pattern"],
            lambda given: _glob(workspace, **given),
            shapes.Globbed,
        ),
        action(
            "grep",
            GREP,
            {
                "pattern": {"type": "string", "description": "What a line has to match anywhere in it."},
                "path": {**_PATH, "description": f"A file or a directory; the workspace by default.{further}"},
                "glob": {
                    "type": "string",
                    "description": "Only files like *.ts, or from the root on like src/**/*.ts; with ! all others.",
                },
                "type": {"type": "string", "description": f"Only files of this type: {', '.join(list(TYPES)[:12])}, …"},
                "ignore_case": {"type": "boolean", "description": "Take upper and lower case as the same."},
                "literal": {"type": "boolean", "description": "Look for the pattern as a text."},
                "context": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": MAX_CONTEXT,
                    "description": "Lines before and after each match.",
                },
                "hidden": _HIDDEN,
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_MATCHES,
                    "description": f"Matches; {MATCHES} by default.",
                },
            },
            ["pattern"],
            lambda given: _grep(workspace, **given),
            shapes.Grepped,
        ),
    ]


def _glob(workspace: Workspace, pattern: str, limit: int = FILES, **options: Any) -> Output:
    found = glob(workspace, pattern, limit=int(limit), **options)

    def answer(files: Sequence[str]) -> Output:
        is_cut = found.is_cut or len(files) < len(found.files)
        lines = [on_one_line(file) for file in files] or [f"no file matches {shown(pattern)}"]
        more = [f"[more than these {len(files):,}; narrow the pattern, or send limit]"] * is_cut
        text = "\n".join([*lines, *more, *(f"[{note}]" for note in found.notes)])
        fields = {"is_cut": is_cut, "notes": list(found.notes)}
        return succeeded(text, files=list(files), pattern=pattern, count=len(files), **fields)

    return fitting(found.files, len, answer)


def _grep(workspace: Workspace, pattern: str, limit: int = MATCHES, context: int = 0, **options: Any) -> Output:
    found = grep(workspace, pattern, limit=int(limit), context=int(context), **options)

    def answer(matches: Sequence[Match]) -> Output:
        is_cut = found.is_cut or len(matches) < len(found.matches)
        return _shown_matches(found._replace(matches=tuple(matches), is_cut=is_cut))

    return fitting(found.matches, _chars, answer)


def _chars(match: Match) -> int:
    return sum(map(len, (match.content, *match.before, *match.after)))


def _shown_matches(found: Grepped) -> Output:
    lines = _listed(found.matches) or ["no line matches"]
    if found.is_cut and found.matches:
        lines.append(f"[more than these {len(found.matches):,}; narrow them by path, glob or type, or send limit]")
    lines += [f"[{note}]" for note in found.notes]
    matches = [{**match._asdict(), "before": list(match.before), "after": list(match.after)} for match in found.matches]
    fields = {"is_cut": found.is_cut, "engine": found.engine, "notes": list(found.notes)}
    return succeeded("\n".join(lines), matches=matches, count=len(matches), **fields)


def _listed(matches: Sequence[Match]) -> list[str]:
    """Matches under the name of their file, as `12: line`, and lines around them as `11- line`."""
    files: dict[str, dict[int, str]] = {}
    for match in matches:
        lines = files.setdefault(match.file, {})
        before = enumerate(match.before, match.line - len(match.before))
        for number, line in (*before, *enumerate(match.after, match.line + 1)):
            lines.setdefault(number, f"  {number}- {line}")
        lines[match.line] = f"  {match.line}: {match.content}"
    return [line for file, lines in files.items() for line in (on_one_line(file), *(lines[at] for at in sorted(lines)))]
