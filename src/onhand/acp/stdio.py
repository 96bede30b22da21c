"""How does an editor that started us talk to us? A message on each line of the standard streams, until their end.

It shields the SDK: what is no message is answered instead of ending the connection, and a line is never endless.
"""

import asyncio
import json
from typing import Any, NamedTuple

from acp.agent.connection import AgentSideConnection

from onhand.acp.agent import EditorAgent
from onhand.errors import InputError
from onhand.lines import EndlessLine, Lines, TooLong, Worker, claimed_streams, write_all
from onhand.text import whole
from onhand.tools.tool import plain

MAX_LINE_BYTES = 32 * 1024 * 1024  # an editor may embed whole files in a prompt
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602

Json = dict[str, Any]


class Refused(NamedTuple):
    """What is answered in the place of the SDK."""

    id: str | int | None
    code: int
    message: str

    def as_json(self) -> Json:
        """The answer."""
        return {"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.message}}


class Wire:
    """One editor over a pair of descriptors, in the form that the SDK calls a transport."""

    def __init__(self, reading: int, writing: int) -> None:
        self._lines = Lines(reading, MAX_LINE_BYTES)
        self._writing = writing
        self._reader, self._writer = Worker("acp reader"), Worker("acp writer")
        self._is_closed = False

    async def receive(self) -> Json | None:
        """The next message that the SDK can take; None when the editor has gone."""
        while True:
            try:
                line = await self._reader.run(self._lines.next)
            except (EndlessLine, OSError):
                return None
            if line is None:
                return None
            message = parsed(line) if isinstance(line, bytes) else too_long(line)
            if isinstance(message, dict):
                return message
            if message is not None:
                await self.send(message.as_json())

    async def send(self, message: Json) -> None:
        """Write a message as a line."""
        if self._is_closed:
            raise ConnectionError("the editor has gone")
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        await self._writer.run(lambda: write_all(self._writing, line))

    async def close(self) -> None:
        """Nothing is sent any more."""
        self._is_closed = True


def parsed(line: bytes) -> Json | Refused | None:
    """A message for the SDK, or what is answered instead; None for a line that says nothing."""
    if not line.strip():
        return None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return Refused(None, PARSE_ERROR, "this line is no JSON: send one message on each line, in UTF-8")
    if not isinstance(said, dict):
        return Refused(None, INVALID_REQUEST, "a message is a JSON object; batches are not part of this protocol")
    id = said.get("id") if isinstance(said.get("id"), str | int) and not isinstance(said.get("id"), bool) else None
    is_answer = "method" not in said
    try:
        message: Json = plain(said, "", lambda text, _: whole(text))
    except InputError as error:
        return _unusable(id, str(error)) if is_answer else Refused(id, INVALID_REQUEST, str(error))
    return _answer(message, id) if is_answer else _problem(message, id) or message


def too_long(line: TooLong) -> Refused:
    """The answer to a line that is longer than any honest one."""
    return Refused(None, INVALID_REQUEST, f"a line has more than {MAX_LINE_BYTES:,} bytes: send less at once")


def _answer(message: Json, id: str | int | None) -> Json | Refused:
    """An answer to one of our requests, or nothing at all."""
    if id is None:
        return Refused(None, INVALID_REQUEST, "a message has a method, or the id of the request that it answers")
    error = message.get("error")
    if "result" in message or error is None:
        return message
    code, text = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
    is_whole = type(code) is int and isinstance(text, str)
    return message if is_whole else _unusable(id, "its error has no code and message")


def _unusable(id: str | int | None, why: str) -> Json:
    """What whoever waits for an answer gets in its place: it must not wait for ever."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": INVALID_REQUEST, "message": f"the answer is none: {why}"}}


def _problem(message: Json, id: str | int | None) -> Refused | None:
    """What the SDK would fall over, or take for something else."""
    if not isinstance(message["method"], str):
        return Refused(id, INVALID_REQUEST, "method is a text")
    if "id" in message and id is None:
        return Refused(None, INVALID_REQUEST, "the id of a request is a text or a whole number")
    if not isinstance(message.get("params", {}), dict | None):
        return Refused(id, INVALID_PARAMS, "params is an object") if "id" in message else None
    version = (message.get("params") or {}).get("protocolVersion")
    if message["method"] == "initialize" and not (type(version) is int and 0 <= version < 2**16):
        return Refused(id, INVALID_PARAMS, f"protocolVersion is a whole number such as 1, not {str(version)[:40]!r}")
    return None


async def serve(agent: EditorAgent) -> None:
    """Serve one editor over the standard streams until it closes them."""
    with claimed_streams() as (reading, writing):
        await converse(agent, Wire(reading, writing))


async def converse(agent: EditorAgent, wire: Wire) -> None:
    """Serve one editor until it has gone."""
    # Closing and resuming sessions are stable in the protocol; the SDK still calls them unstable.
    connection = AgentSideConnection(agent, wire, listening=False, use_unstable_protocol=True)
    try:
        await connection.listen()
    finally:
        await agent.close()
        await asyncio.shield(connection.close())
