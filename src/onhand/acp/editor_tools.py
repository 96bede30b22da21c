"""How does the agent reach files and terminals through the editor? The same tools, with the editor's hands.

An editor knows what is in a buffer that is not saved yet, and shows what is written as it happens. The workspace still
says which paths may be touched, and a passage is still replaced as everywhere else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from acp import schema
from acp.exceptions import RequestError
from acp.interfaces import Client
from pydantic import ValidationError

from onhand.actions import files
from onhand.actions.edit import Edit, apply
from onhand.actions.workspace import Workspace, shown
from onhand.errors import InputError, OnhandError, ToolError
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
    return [tool._replace(handler=_answered(able[tool.name])) if tool.name in able else tool for tool in tools]


class _Hands:
    def __init__(self, client: Client, session_id: str, workspace: Workspace) -> None:
        self._client = client
        self._session_id = session_id
        self._workspace = workspace

    async def read(self, arguments: dict[str, Any]) -> Output:
        place = self._workspace.place(arguments["path"])
        text = await self._text(place.path)
        lines = files.lines_of(text)
        first = int(arguments.get("start_line") or 1)
        last = int(min(arguments.get("end_line") or len(lines), len(lines)))
        asked = "".join(lines[first - 1 : last])
        given = asked.encode()[: files.MAX_CONTENT_BYTES].decode(errors="ignore")
        note = "" if given == asked else f"\n[cut after {len(given.encode()):,} bytes: ask for fewer lines]"
        name = self._workspace.name(place)
        about = {"path": name, "content": given, "start_line": first, "end_line": last, "lines": len(lines)}
        return Output((given or "(the file is empty)") + note, {"success": True, "exists": True, **about})

    async def write(self, arguments: dict[str, Any]) -> Output:
        place = self._workspace.place_to_write(arguments["path"])
        if arguments.get("expected_hash") is not None:
            raise InputError("expected_hash is not known to the editor: read the file again instead")
        await self._write(place.path, arguments["content"])
        name = self._workspace.name(place)
        return Output(f"wrote {shown(name)} in the editor", {"success": True, "exists": True, "path": name})

    async def edit(self, arguments: dict[str, Any]) -> Output:
        place = self._workspace.place_to_write(arguments["path"])
        before = await self._text(place.path)
        changed = apply(before, _edits(arguments))
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


def _edits(arguments: dict[str, Any]) -> Sequence[Edit]:
    if arguments.get("edits"):
        return [Edit(**one) for one in arguments["edits"]]
    if arguments.get("old_string") is None or arguments.get("new_string") is None:
        raise InputError("send old_string and new_string, or edits: one of the two, and all of it")
    return [Edit(arguments["old_string"], arguments["new_string"], bool(arguments.get("replace_all")))]


def _ran(output: schema.TerminalOutputResponse, is_late: bool) -> Output:
    status = output.exit_status
    code = status.exit_code if status else None
    how = "ended: its time was over" if is_late else f"exit code {code}" if code is not None else "ended by a signal"
    cut = "\n[only the end of its output]" if output.truncated else ""
    fields = {"success": code == 0 and not is_late, "exit_code": code, "stdout": output.output}
    return Output(f"[{how}]\n{output.output}{cut}", fields)


def _answered(handler: Handler) -> Handler:
    """What the editor refuses, or we do, is told to the model; the turn goes on."""

    async def answered(arguments: dict[str, Any]) -> Output:
        try:
            return await handler(arguments)
        except RequestError as error:
            raise ToolError(f"the editor could not do it: {error} {error.data or ''}".strip()) from None
        except ValidationError:
            raise ToolError("the editor's answer cannot be read: do it another way") from None
        except OnhandError as error:
            raise ToolError(str(error)) from None

    return answered
