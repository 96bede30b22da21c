"""The tools that read, write, edit, list and describe files."""

from collections.abc import Callable, Sequence
from typing import Annotated

from onhand.actions import edit, files
from onhand.actions.action import MAX_OUTPUT_BYTES, workspace_tool
from onhand.actions.edit import EditedFile, TextEdit
from onhand.actions.files import DirectoryListing, FileContent, FileStatus, WrittenFile
from onhand.actions.workspace import Workspace
from onhand.errors import InputError
from onhand.tools import Tool
from onhand.tools.fitting import fits
from onhand.tools.tool import LOCAL, REPLACING

MAX_ECHO_CHARS = 8_000  # of an edited file: more would cost a model more than it is worth

Path = Annotated[str, "Relative to the workspace, for example src/app.py."]
Hash = Annotated[str | None, "The hash from read_file: nothing is written if the file has changed since."]


def reading_tools(workspace: Workspace) -> list[Tool]:
    """Return the tools that change nothing."""

    @workspace_tool(workspace, "read_file")
    def read_file(
        path: Path,
        start_line: Annotated[int | None, "The first line, counted from 1.", {"minimum": 1}] = None,
        end_line: Annotated[int | None, "The last line.", {"minimum": 1}] = None,
    ) -> FileContent:
        """Read a text file in the workspace exactly as it is, whole or a range of lines. Good for files whose path you
        know; to find a file use glob, to find a passage use grep. Returns at most 48 KB and says where to continue. Not
        for binary files. Example: read_file(path="src/app.py", start_line=40, end_line=80).
        """
        return fit_content(lambda max_bytes: files.read_file(workspace, path, start_line, end_line, max_bytes))

    further = workspace.describe_further_roots()

    @workspace_tool(
        workspace,
        "list_files",
        parameters={"path": {"description": f"A directory; the workspace itself by default.{further}"}},
    )
    def list_files(path: str = ".") -> DirectoryListing:
        """List a directory in the workspace by name, with kinds and sizes, including hidden entries but nothing below
        it. For files at any depth use glob. Cheap. Example: list_files(path="src").
        """
        return files.list_files(workspace, path)

    @workspace_tool(workspace, "stat_file")
    def stat_file(path: Path) -> FileStatus:
        """Tell whether a path exists, what it is, how large it is and when it was modified, without reading it. Cheap.
        Example: stat_file(path="dist/app.js").
        """
        return files.stat_file(workspace, path)

    return [read_file, list_files, stat_file]


def writing_tools(workspace: Workspace) -> list[Tool]:
    """Return the tools that change files."""

    @workspace_tool(workspace, "write_file", read_only=False, hints=REPLACING)
    def write_file(
        path: Path,
        content: Annotated[str, "The whole new content of the file."],
        create_dirs: Annotated[bool, "Create missing parent directories."] = False,
        expected_hash: Hash = None,
    ) -> WrittenFile:
        """Write a whole file, new or existing. The file is replaced in one step, and an existing one keeps its mode and
        line ends. To change a part of a file use edit_file, which costs less and cannot lose the rest. Files that
        programs obey without asking, such as .git or AGENTS.md, are refused.
        Example: write_file(path="notes/plan.md", content="# Plan\\n", create_dirs=true).
        """
        return files.write_file(workspace, path, content, create_dirs, expected_hash)

    @workspace_tool(workspace, "edit_file", read_only=False, hints=LOCAL._replace(destructive=True))
    def edit_file(
        path: Path,
        old_string: Annotated[str | None, "The passage exactly as it is in the file."] = None,
        new_string: Annotated[str | None, "Its replacement; empty to delete it."] = None,
        replace_all: Annotated[bool, "Replace every occurrence."] = False,
        edits: Annotated[
            list[TextEdit] | None,
            "Several edits, made in this order, instead of old_string and new_string.",
            {"minItems": 1, "maxItems": 100},
        ] = None,
        expected_hash: Hash = None,
    ) -> EditedFile:
        """Replace a passage of a file literally. The file must contain old_string exactly once: send enough lines
        around it, or replace_all. A passage that differs only in whitespace is found too. Several edits of one file are
        made together or not at all. Read the file first, and send its hash as expected_hash to make sure that nobody
        has changed it since. Example: edit_file(path="config.json", old_string="\\"debug\\": false",
        new_string="\\"debug\\": true").
        """
        requested = requested_edits(old_string, new_string, replace_all, edits)
        edited = edit.edit_file(workspace, path, requested, expected_hash)
        return edited._replace(content=None) if len(edited.content or "") > MAX_ECHO_CHARS else edited

    return [write_file, edit_file]


def fit_content(read: Callable[[int], FileContent]) -> FileContent:
    """Read as many bytes of a file as an answer can hold."""
    for share in (1, 2, 6):  # JSON takes up to six bytes for a control character
        content = read(files.MAX_CONTENT_BYTES // share)
        if fits(content, MAX_OUTPUT_BYTES):
            break
    return content


def requested_edits(
    old_string: str | None,
    new_string: str | None,
    replace_all: bool = False,
    edits: Sequence[TextEdit] | None = None,
) -> list[TextEdit]:
    """Return the edits that the arguments of edit_file request; `replace_all` applies to all of them."""
    if (old_string is None) != (new_string is None) or (edits is None) == (old_string is None):
        raise InputError("send either both old_string and new_string, or edits")
    every = edits or [TextEdit(old_string or "", new_string or "")]
    return [one._replace(replace_all=one.replace_all or replace_all) for one in every]
