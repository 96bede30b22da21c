"""Route file and terminal tools through the editor.

An editor knows unsaved buffers and shows edits as they happen. The workspace still decides which paths may be touched,
and edits are applied as everywhere else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from acp import schema
from acp.exceptions import RequestError
from acp.interfaces import Client
from pydantic import ValidationError

from onhand.actions import files
from onhand.actions.edit import TextEdit, apply_edits
from onhand.actions.file_tools import fit_content, requested_edits
from onhand.actions.workspace import Workspace, display
from onhand.errors import InputError, ToolError
from onhand.tools.tool import Output, Tool

TERMINAL_BYTES = 60_000  # of output that the editor keeps for us
TIMEOUT_S = 30.0

Handler = Callable[[dict[str, Any]], Awaitable[Any]]


def route_to_editor(
    client: Client,
    session_id: str,
    abilities: schema.ClientCapabilities | None,
    workspace: Workspace,
    tools: Iterable[Tool],
) -> list[Tool]:
    """Return the tools, with those that the editor supports routed to it. None is added."""
    editor = _EditorClient(client, session_id, workspace)
    reads = bool(abilities and abilities.fs and abilities.fs.read_text_file)
    writes = bool(abilities and abilities.fs and abilities.fs.write_text_file)
    able: dict[str, Handler] = {}
    if reads:
        able["read_file"] = editor.read
    if reads and writes:
        able |= {"write_file": editor.write, "edit_file": editor.edit}
    if abilities and abilities.terminal:
        able["run_command"] = editor.run
    return [_with_handler(tool, able[tool.name]) if tool.name in able else tool for tool in tools]


def _with_handler(tool: Tool, handler: Handler) -> Tool:
    """Return the tool with another handler and no output schema: the editor knows less about a file than we do."""
    return tool._replace(handler=_report_errors(handler), output_schema=None)


class _EditorClient:
    def __init__(self, client: Client, session_id: str, workspace: Workspace) -> None:
        self._client = client
        self._session_id = session_id
        self._workspace = workspace

    async def read(self, arguments: dict[str, Any]) -> files.FileContent:
        place = self._workspace.resolve(arguments["path"])
        text = await self._text(place.path)
        name, size = self._workspace.name(place), len(text.encode())
        start_line, end_line = (
            None if (line := arguments.get(which)) is None else int(line) for which in ("start_line", "end_line")
        )
        return fit_content(
            lambda max_bytes: files.select_lines(name, text, start_line, end_line, max_bytes)._replace(size_bytes=size)
        )

    async def write(self, arguments: dict[str, Any]) -> Output:
        place = self._workspace.resolve_for_writing(arguments["path"])
        _refuse_hash(arguments)
        await self._write(place.path, arguments["content"])
        name = self._workspace.name(place)
        return Output(f"wrote {display(name)} in the editor", {"success": True, "exists": True, "path": name})

    async def edit(self, arguments: dict[str, Any]) -> Output:
        place = self._workspace.resolve_for_writing(arguments["path"])
        _refuse_hash(arguments)
        edits = [TextEdit(**edit) for edit in arguments["edits"]] if arguments.get("edits") else None
        old, new = arguments.get("old_string"), arguments.get("new_string")
        requested = requested_edits(old, new, bool(arguments.get("replace_all")), edits)
        changed = apply_edits(await self._text(place.path), requested)
        await self._write(place.path, changed.text)
        name = self._workspace.name(place)
        text = "; ".join([f"replaced {changed.replacements} in {display(name)} in the editor", *changed.notes])
        about = {"path": name, "replacements": changed.replacements, "notes": list(changed.notes)}
        return Output(text, {"success": True, "exists": True, **about})

    async def run(self, arguments: dict[str, Any]) -> Output:
        """Run a command in a terminal of the editor; cancelling kills it there too."""
        if arguments.get("background"):
            raise InputError(
                "commands in the editor's terminal cannot run in the background: run it without background"
            )
        cwd = self._workspace.directory(arguments.get("cwd") or ".")
        env = [schema.EnvVariable(name=name, value=value) for name, value in (arguments.get("env") or {}).items()]
        made = await self._client.create_terminal(
            session_id=self._session_id,
            command="sh",
            args=["-c", arguments["command"]],
            cwd=cwd,
            env=env or None,
            output_byte_limit=TERMINAL_BYTES,
        )
        at = {"session_id": self._session_id, "terminal_id": made.terminal_id}
        is_late = False
        try:
            try:
                await asyncio.wait_for(
                    self._client.wait_for_terminal_exit(**at), float(arguments.get("timeout_s") or TIMEOUT_S)
                )
            except TimeoutError:
                is_late = True
                await self._client.kill_terminal(**at)
            output = await self._client.terminal_output(**at)
        except asyncio.CancelledError:
            with suppress(Exception):  # whatever it answers, we are leaving
                await asyncio.wait_for(self._client.kill_terminal(**at), 1.0)
            raise
        finally:
            with suppress(Exception):
                await asyncio.shield(self._client.release_terminal(**at))
        return _terminal_result(output, is_late)

    async def _text(self, path: str) -> str:
        return (await self._client.read_text_file(session_id=self._session_id, path=path)).content

    async def _write(self, path: str, content: str) -> None:
        await self._client.write_text_file(session_id=self._session_id, path=path, content=content)


def _refuse_hash(arguments: dict[str, Any]) -> None:
    """Reject expected_hash, because the editor's buffer may differ from the file."""
    if arguments.get("expected_hash") is not None:
        raise InputError("the editor does not support expected_hash: read the file again instead")


def _terminal_result(output: schema.TerminalOutputResponse, is_late: bool) -> Output:
    status = output.exit_status
    code = status.exit_code if status else None
    how = "timed out" if is_late else f"exit code {code}" if code is not None else "killed by a signal"
    cut = "\n[only the end of the output is shown]" if output.truncated else ""
    fields = {"success": code == 0 and not is_late, "exit_code": code, "stdout": output.output}
    return Output(f"[{how}]\n{output.output}{cut}", fields)


def _report_errors(handler: Handler) -> Handler:
    """Wrap a handler so that the editor's refusals are reported to the model."""

    async def handle(arguments: dict[str, Any]) -> Any:
        try:
            return await handler(arguments)
        except RequestError as error:
            raise ToolError(f"the editor could not do it: {error} {error.data or ''}".strip()) from None
        except ValidationError:
            raise ToolError("the editor's response is invalid: try another way") from None

    return handle
