"""How does a model work with files? Five tools: their words, their schemas, their answers."""

from collections.abc import Callable, Sequence
from typing import Any

from onhand.actions import files, shapes
from onhand.actions.answers import Schema, action, fits, fitting, succeeded
from onhand.actions.edit import Edit, edit
from onhand.actions.workspace import Workspace, on_one_line, shown
from onhand.amounts import counted
from onhand.errors import InputError
from onhand.tools import Output, Tool
from onhand.tools.tool import LOCAL, REPLACING

MAX_ECHO_CHARS = 8_000  # of a file after an edit: more would cost a model more than it tells it

READ = (
    "Read a text file of the workspace, whole or from one line to another, exactly as it is. Good at files whose path "
    "you know; to find one use glob, to find a passage grep. Gives at most 48 KB at once and says where to go on. Not "
    'for binary files. Example: read_file(path="src/app.py", start_line=40, end_line=80).'
)
WRITE = (
    "Write a whole file: a new one, or over one that is there. The file is never found half written, and one that is "
    "there keeps its mode and line ends. For a change in a part of a file use edit_file: it costs less and cannot lose "
    'the rest. Files that programs obey unseen, such as .git or AGENTS.md, are refused. Example: write_file(path="'
    'notes/plan.md", content="# Plan\\n", create_dirs=true).'
)
EDIT = (
    "Replace a passage of a file by another, literally. old_string must be in the file exactly once: send enough lines "
    "around it, or replace_all. When only whitespace differs, the passage is found all the same. Several edits of one "
    "file are made together or not at all. Read the file first; send the hash from there as expected_hash to be sure "
    'that nobody changed it since. Example: edit_file(path="config.json", old_string="\\"debug\\": false", '
    'new_string="\\"debug\\": true").'
)
LIST = (
    "List a directory of the workspace by name, with kinds and sizes; hidden entries too, nothing below it. For files "
    'at any depth use glob. Cheap. Example: list_files(path="src").'
)
STAT = (
    "Say whether a path exists, what it is, how large, and when it was changed, without reading it. Cheap. "
    'Example: stat_file(path="dist/app.js").'
)

_PATH: Schema = {"type": "string", "description": "Relative to the workspace, such as src/app.py."}
_LINE: Schema = {"type": "integer", "minimum": 1}
_HASH: Schema = {"type": "string", "description": "As read_file gave it: nothing is written if the file has changed."}
_OLD: Schema = {"type": "string", "description": "The passage as it is in the file."}
_NEW: Schema = {"type": "string", "description": "What stands there afterwards; empty to delete it."}
_ALL: Schema = {"type": "boolean", "description": "Replace every occurrence."}
_EDIT: Schema = {
    "type": "object",
    "properties": {"old_string": _OLD, "new_string": _NEW, "replace_all": _ALL},
    "required": ["old_string", "new_string"],
    "additionalProperties": False,
}


def reading_tools(workspace: Workspace) -> list[Tool]:
    """The tools that change nothing."""
    exists = _exists_in(workspace)
    return [
        action(
            "read_file",
            READ,
            {
                "path": _PATH,
                "start_line": {**_LINE, "description": "The first line, counted from 1."},
                "end_line": {**_LINE, "description": "The last line."},
            },
            ["path"],
            lambda given: _read(workspace, **given),
            shapes.Reading,
            exists=exists,
        ),
        action(
            "list_files",
            LIST,
            {
                "path": {
                    **_PATH,
                    "description": f"A directory; the workspace itself by default.{workspace.further_roots()}",
                }
            },
            [],
            lambda given: _list(workspace, **given),
            shapes.Listing,
            exists=exists,
        ),
        action(
            "stat_file",
            STAT,
            {"path": _PATH},
            ["path"],
            lambda given: _stat(workspace, **given),
            shapes.Status,
            exists=exists,
        ),
    ]


def writing_tools(workspace: Workspace) -> list[Tool]:
    """The tools that change files."""
    exists = _exists_in(workspace)
    return [
        action(
            "write_file",
            WRITE,
            {
                "path": _PATH,
                "content": {"type": "string", "description": "All that the file says afterwards."},
                "create_dirs": {"type": "boolean", "description": "Make the directories above it that are missing."},
                "expected_hash": _HASH,
            },
            ["path", "content"],
            lambda given: _write(workspace, **given),
            shapes.Written,
            read_only=False,
            hints=REPLACING,
            exists=exists,
        ),
        action(
            "edit_file",
            EDIT,
            {
                "path": _PATH,
                "old_string": _OLD,
                "new_string": _NEW,
                "replace_all": _ALL,
                "edits": {
                    "type": "array",
                    "items": _EDIT,
                    "minItems": 1,
                    "maxItems": 100,
                    "description": "Several edits, made in this order, in place of old_string and new_string.",
                },
                "expected_hash": _HASH,
            },
            ["path"],
            lambda given: _edit(workspace, **given),
            shapes.Edited,
            read_only=False,
            hints=LOCAL._replace(destructive=True),
            exists=exists,
        ),
    ]


def _exists_in(workspace: Workspace) -> Callable[[str], bool]:
    return lambda path: files.stat_file(workspace, path).exists


def _read(workspace: Workspace, path: str, start_line: float | None = None, end_line: float | None = None) -> Output:
    lines = line_number(start_line), line_number(end_line)
    return shown_reading(lambda max_bytes: files.read(workspace, path, *lines, max_bytes))


def line_number(number: float | None) -> int | None:
    """JSON may write 5 as 5.0; beyond all counting is beyond the end of any file."""
    return None if number is None else int(min(number, 2**53))


def shown_reading(read: Callable[[int], files.Reading]) -> Output:
    """What a model is shown of a file: as many bytes as an answer holds, and where to go on."""
    for share in (1, 2, 6):  # JSON spells a control character in six bytes
        output = _shown_reading(read(files.MAX_CONTENT_BYTES // share))
        if fits(output):
            break
    return output


def _shown_reading(reading: files.Reading) -> Output:
    fields = {name: value for name, value in reading._asdict().items() if name != "hash" or value}
    notes = [reading.problem] if fields.pop("problem") else []
    if fields.pop("is_cut"):
        notes.append(_where_to_go_on(reading))
    elif (reading.start_line, reading.end_line) != (min(1, reading.lines), reading.lines):
        notes.append(f"lines {reading.start_line} to {reading.end_line} of {reading.lines}")
    text = reading.content or "(the file is empty)"
    shown = "\n".join([text.removesuffix("\n"), *(f"[{note}]" for note in notes)]) if notes else text
    return succeeded(shown, exists=True, **fields, notes=notes)


def _where_to_go_on(reading: files.Reading) -> str:
    if not reading.content.endswith("\n"):
        return f"only the beginning of line {reading.start_line} of {reading.lines}: it is long; grep finds a passage"
    given = f"lines {reading.start_line} to {reading.end_line} of {reading.lines}"
    return f"{given}; go on with start_line={reading.end_line + 1}"


def _write(
    workspace: Workspace, path: str, content: str, create_dirs: bool = False, expected_hash: str | None = None
) -> Output:
    written = files.write(workspace, path, content, create_dirs, expected_hash)
    did = "made" if written.created else "wrote"
    return succeeded(f"{did} {shown(written.path)}: {written.bytes_written:,} bytes", exists=True, **written._asdict())


def _edit(
    workspace: Workspace,
    path: str,
    old_string: str | None = None,
    new_string: str | None = None,
    replace_all: bool = False,
    edits: list[dict[str, Any]] | None = None,
    expected_hash: str | None = None,
) -> Output:
    edited = edit(workspace, path, wanted_edits(old_string, new_string, replace_all, edits), expected_hash)
    passages = counted(edited.replacements, "passage")
    text = "; ".join([f"replaced {passages} in {shown(edited.path)}", *edited.notes])
    fields = {**edited._asdict(), "notes": list(edited.notes)}
    if len(edited.content) > MAX_ECHO_CHARS:
        fields["content"] = None
    return succeeded(text, exists=True, **fields)


def wanted_edits(
    old_string: str | None = None,
    new_string: str | None = None,
    replace_all: bool = False,
    edits: list[dict[str, Any]] | None = None,
) -> list[Edit]:
    """What the arguments of edit_file ask for."""
    if (old_string is None) != (new_string is None) or (edits is None) == (old_string is None):
        raise InputError("send old_string and new_string, or edits: one of the two, and all of it")
    together = edits or [{"old_string": old_string or "", "new_string": new_string or ""}]
    return [Edit(**{"replace_all": replace_all, **one}) for one in together]


def _list(workspace: Workspace, path: str = ".") -> Output:
    listing = files.list_files(workspace, path)

    def answer(entries: Sequence[files.Entry]) -> Output:
        lines = [_line(entry) for entry in entries] or ["(the directory is empty)"]
        more = listing.total - len(entries)
        lines += [f"[{more:,} more entries; narrow them by glob]"] if more else []
        fields = {"path": listing.path, "entries": [entry._asdict() for entry in entries], "total": listing.total}
        return succeeded("\n".join(lines), exists=True, **fields)

    return fitting(listing.entries, lambda entry: len(entry.name), answer)


def _line(entry: files.Entry) -> str:
    mark = {"directory": "/", "file": ""}.get(entry.kind, f"  ({entry.kind})")
    size = f"  {entry.size_bytes:,} bytes" if entry.size_bytes is not None else ""
    return f"{on_one_line(entry.name)}{mark}{size}{'  (closed)' if entry.is_closed else ''}"


def _stat(workspace: Workspace, path: str) -> Output:
    status = files.stat_file(workspace, path)
    if not status.exists:
        return succeeded(f"{shown(path)} does not exist", **status._asdict())
    size = f", {status.size_bytes:,} bytes" if status.size_bytes is not None else ""
    text = f"{shown(status.path)}: {status.kind}{size}, changed {status.modified}, {status.mode}"
    return succeeded(text, **status._asdict())
