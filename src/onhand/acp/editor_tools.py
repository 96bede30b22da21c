"""How does the agent reach files and terminals through the editor? The same tools, with the editor's hands.

An editor knows what is in a buffer that is not saved yet, and shows what is written as it happens. The workspace still
says which paths may be touched, and a passage is still replaced as everywhere else.
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
from onhand.actions.edit import apply
from onhand.actions.file_tools import line_number, shown_reading, wanted_edits
from onhand.actions.workspace import Workspace, shown
from onhand.errors import InputError, ToolError
from onhand.tools.tool import Output, Tool

TERMINAL_BYTES = 60_000  # of output that an editor keeps for us
TIMEOUT_S = 30.0

Handler = Callable[[dict[str, Any]], Awaitable[Output]]


def through(
    client: Client,
    session_id: str,
    abilities: schema.ClientCapabilities | None,
    workspace: Workspace,
    tools: Iterable[Tool],
) -> list[Tool]:
    """The tools, with those that the editor can do better done by it. None is added: what may be done was decided."""
    hands = _Hands(client, session_id, workspace)
    reads = bool(abilities and abilities.fs and abilities.fs.read_text_file)
    writes = bool(abilities and abilities.fs and abilities.fs.write_text_file)
    able: dict[str, Handler] = {}
    if reads:
        able["read_file"] = hands.read
    if reads and writes:
        able |= {"write_file": hands.write, "edit_file": hands.edit}
    if abilities and abilities.terminal:
        able["run_command"] = hands.run
    return [_handled(tool, able[tool.name]) if tool.name in able else tool for tool in tools]


def _handled(tool: Tool, handler: Handler) -> Tool:
    """The tool in the editor's hands, which know less of a file than ours do: no shape of its answers is promised."""
    return tool._replace(handler=_answered(handler), output_schema=None)


class _Hands:
    def __init__(self, client: Client, session_id: str, workspace: Workspace) -> None:
        self._client = client
        self._session_id = session_id
        self._workspace = workspace

    async def read(self, arguments: dict[str, Any]) -> Output:
        place = self._workspace.place(arguments["path"])
        text = await self._text(place.path)
        name, size = self._workspace.name(place), len(text.encode())
        lines = line_number(arguments.get("start_line")), line_number(arguments.get("end_line"))
        return shown_reading(lambda most: files.excerpt(name, text, *lines, most)._replace(size_bytes=size))

    async def write(self, arguments: dict[str, Any]) -> Output:
        place = self._workspace.place_to_write(arguments["path"])
        _refuse_hash(arguments)
        await self._write(place.path, arguments["content"])
        name = self._workspace.name(place)
        return Output(f"wrote {shown(name)} in the editor", {"success": True, "exists": True, "path": name})

    async def edit(self, arguments: dict[str, Any]) -> Output:
        place = self._workspace.place_to_write(arguments["path"])
        _refuse_hash(arguments)
        wanted = {name: value for name, value in arguments.items() if name not in ("path", "expected_hash")}
        changed = apply(await self._text(place.path), wanted_edits(**wanted))
        await self._write(place.path, changed.text)
        name = self._workspace.name(place)
        text = "; ".join([f"replaced {changed.replacements} in {shown(name)} in the editor", *changed.notes])
        about = {"path": name, "replacements": changed.replacements, "notes": list(changed.notes)}
        return Output(text, {"success": True, "exists": True, **about})

    async def run(self, arguments: dict[str, Any]) -> Output:
        """Run a command in a terminal of the editor; cancelling ends it there too."""
        if arguments.get("background"):
            raise InputError("a terminal of the editor is waited for: run it without background")
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
            with suppress(Exception):  # whatever it says, we are leaving
                await asyncio.wait_for(self._client.kill_terminal(**at), 1.0)
            raise
        finally:
            with suppress(Exception):
                await asyncio.shield(self._client.release_terminal(**at))
        return _ran(output, is_late)

    async def _text(self, path: str) -> str:
        return (await self._client.read_text_file(session_id=self._session_id, path=path)).content

    async def _write(self, path: str, content: str) -> None:
        await self._client.write_text_file(session_id=self._session_id, path=path, content=content)


def _refuse_hash(arguments: dict[str, Any]) -> None:
    """An editor's text may be another than the file's."""
    if arguments.get("expected_hash") is not None:
        raise InputError("expected_hash is not known to the editor: read the file again instead")


def _ran(output: schema.TerminalOutputResponse, is_late: bool) -> Output:
    status = output.exit_status
    code = status.exit_code if status else None
    how = "ended: its time was over" if is_late else f"exit code {code}" if code is not None else "ended by a signal"
    cut = "\n[only the end of its output]" if output.truncated else ""
    fields = {"success": code == 0 and not is_late, "exit_code": code, "stdout": output.output}
    return Output(f"[{how}]\n{output.output}{cut}", fields)


def _answered(handler: Handler) -> Handler:
    """What the editor refuses is told to the model; the turn goes on."""

    async def answered(arguments: dict[str, Any]) -> Output:
        try:
            return await handler(arguments)
        except RequestError as error:
            raise ToolError(f"the editor could not do it: {error} {error.data or ''}".strip()) from None
        except ValidationError:
            raise ToolError("the editor's answer cannot be read: do it another way") from None

    return answered
