"""What the tools in this package share: the size limit, the argument aliases and the form of failures."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from onhand.actions.files import stat_file
from onhand.actions.workspace import Workspace
from onhand.errors import NotFound, OnhandError, ToolError
from onhand.tools import Tool, tool
from onhand.tools.schema import ErrorPolicy
from onhand.tools.tool import LOCAL, WORKSPACE, ArgumentAlias, Hints

MAX_OUTPUT_BYTES = 64 * 1024

_PATH = {"file_path": "path", "filePath": "path"}
_HASH = {"expectedHash": "expected_hash"}
_SEARCH = {"cwd": "path", "maxResults": "limit", "max_results": "limit"}
# Agents whose argument names have no unit count milliseconds.
_MILLISECONDS = ArgumentAlias("timeout_s", per=1000)
ALIASES: Mapping[str, Mapping[str, str | ArgumentAlias]] = {
    "read_file": {**_PATH, "startLine": "start_line", "endLine": "end_line"},
    "list_files": _PATH,
    "stat_file": _PATH,
    "write_file": {**_PATH, **_HASH, "createDirs": "create_dirs"},
    "edit_file": {
        **_PATH,
        **_HASH,
        **dict.fromkeys(("oldString", "oldText", "old_text"), "old_string"),
        **dict.fromkeys(("newString", "newText", "new_text"), "new_string"),
        "replaceAll": "replace_all",
    },
    "glob": _SEARCH,
    "grep": {**_SEARCH, "ignoreCase": "ignore_case", "include": "glob", "fixed_strings": "literal"},
    "git": {"arguments": "args", "cwd": "path"},
    "run_command": dict.fromkeys(("timeout", "timeout_ms", "timeoutMs"), _MILLISECONDS),
}
"""The names that other agents use for the arguments of our tools. Schemas have only our own names."""


def workspace_tool(
    workspace: Workspace,
    name: str,
    *,
    description: str | None = None,
    read_only: bool = True,
    hints: Hints = LOCAL,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[Callable[..., Any]], Tool]:
    """Turn a typed function into a tool for a workspace: `@workspace_tool(workspace, "read_file")`."""
    return tool(
        name=name,
        description=description,
        read_only=read_only,
        reads=[WORKSPACE],
        writes=[] if read_only else [WORKSPACE],
        hints=hints,
        parameters=parameters,
        max_output_bytes=MAX_OUTPUT_BYTES,
        aliases=ALIASES[name],
        on_error=_failure_policy(workspace),
    )


def _failure_policy(workspace: Workspace) -> ErrorPolicy:
    """Report a failure with `success`, `error` and, unless the path is denied or outside, whether it `exists`."""

    def policy(error: OnhandError, arguments: dict[str, Any]) -> ToolError:
        fields: dict[str, Any] = {"success": False, "error": str(error)}
        if isinstance(error, NotFound):
            fields["exists"] = False
        elif "path" in arguments:
            with suppress(OnhandError):  # nothing is revealed about a path that is denied or outside
                fields["exists"] = stat_file(workspace, arguments["path"]).exists
        return ToolError(str(error), fields)

    return policy
