"""The ACP transport over standard input and output: one JSON message per line.

It protects the SDK: an invalid message is answered with an error instead of ending the connection, and lines have a
maximum length.
"""

import asyncio
import json
from typing import Any, NamedTuple, cast

from acp.agent.connection import AgentSideConnection

from onhand.acp.agent import EditorAgent
from onhand.errors import InputError
from onhand.hidden_characters import repair_surrogates
from onhand.json_rpc import find_id
from onhand.serving import BlockingWorker, EndlessLine, LineReader, LongLine, claim_stdio, write_all
from onhand.tools.tool import copy_json

MAX_LINE_BYTES = 32 * 1024 * 1024  # an editor may embed whole files in a prompt
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602

Json = dict[str, Any]


class ErrorResponse(NamedTuple):
    """An error response that is sent instead of passing the message to the SDK."""

    id: str | int | None
    code: int
    message: str

    def as_json(self) -> Json:
        """Return the JSON-RPC message."""
        return {"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.message}}


class EditorTransport:
    """A transport for the SDK over a pair of file descriptors."""

    def __init__(self, reading: int, writing: int) -> None:
        self._lines = LineReader(reading, MAX_LINE_BYTES)
        self._writing = writing
        self._reader, self._writer = BlockingWorker("acp reader"), BlockingWorker("acp writer")
        self._is_closed = False

    async def receive(self) -> Json | None:
        """Return the next valid message, or None when the editor has disconnected."""
        while True:
            try:
                line = await self._reader.run(self._lines.next)
            except EndlessLine as error:
                await self.send(reject_long_line(error.line).as_json())
                return None
            except OSError:
                return None
            if line is None:
                return None
            message = parse_message(line) if isinstance(line, bytes) else reject_long_line(line)
            if isinstance(message, dict):
                return message
            if message is not None:
                await self.send(message.as_json())

    async def send(self, message: Json) -> None:
        """Write a message as a line."""
        if self._is_closed:
            raise ConnectionError("the editor has disconnected")
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        await self._writer.run(lambda: write_all(self._writing, line))

    async def close(self) -> None:
        """Stop sending."""
        self._is_closed = True


def parse_message(line: bytes) -> Json | ErrorResponse | None:
    """Return a message for the SDK, an error response instead, or None for an empty line."""
    if not line.strip():
        return None
    try:
        value = json.loads(line)
    except RecursionError:
        return ErrorResponse(find_id(line), INVALID_REQUEST, "the message is nested too deeply: flatten it")
    except ValueError:
        return ErrorResponse(None, PARSE_ERROR, "this line is not JSON: send one message per line, in UTF-8")
    if not isinstance(value, dict):
        return ErrorResponse(None, INVALID_REQUEST, "a message must be a JSON object; this protocol has no batches")
    id = value.get("id") if isinstance(value.get("id"), str | int) and not isinstance(value.get("id"), bool) else None
    is_response = "method" not in value
    try:
        message: Json = copy_json(value, "", lambda text, _: repair_surrogates(text))
    except InputError as error:
        return _error_response(id, str(error)) if is_response else ErrorResponse(id, INVALID_REQUEST, str(error))
    return _check_response(message, id) if is_response else _find_problem(message, id) or message


def reject_long_line(line: LongLine) -> ErrorResponse:
    """Return the error for a line that is too long."""
    return ErrorResponse(line.id, INVALID_REQUEST, f"a line has more than {MAX_LINE_BYTES:,} bytes: send less at once")


def _check_response(message: Json, id: str | int | None) -> Json | ErrorResponse:
    """Return a valid response to one of our requests, or an error."""
    if id is None:
        return ErrorResponse(
            None, INVALID_REQUEST, "a message needs a method, or the id of the request that it answers"
        )
    error = message.get("error")
    if "result" in message or error is None:
        return message
    code, text = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
    is_whole = type(code) is int and isinstance(text, str)
    return message if is_whole else _error_response(id, "its error has no code and message")


def _error_response(id: str | int | None, why: str) -> Json:
    """Return an error in place of an invalid response, so that the caller does not wait forever."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": INVALID_REQUEST, "message": f"invalid response: {why}"}}


def _find_problem(message: Json, id: str | int | None) -> ErrorResponse | None:
    """Return an error for what the SDK would crash on or misread."""
    if not isinstance(message["method"], str):
        return ErrorResponse(id, INVALID_REQUEST, "method must be a string")
    if "id" in message and id is None:
        return ErrorResponse(None, INVALID_REQUEST, "the id of a request must be a string or an integer")
    if not isinstance(message.get("params", {}), dict | None):
        return ErrorResponse(id, INVALID_PARAMS, "params must be an object") if "id" in message else None
    version = (message.get("params") or {}).get("protocolVersion")
    if message["method"] == "initialize" and not (type(version) is int and 0 <= version < 2**16):
        return ErrorResponse(
            id, INVALID_PARAMS, f"protocolVersion must be an integer such as 1, not {str(version)[:40]!r}"
        )
    return None


async def serve(agent: EditorAgent) -> None:
    """Serve one editor over the standard streams until it closes them."""
    with claim_stdio() as (reading, writing):
        await converse(agent, EditorTransport(reading, writing))


async def converse(agent: EditorAgent, wire: EditorTransport) -> None:
    """Serve one editor until it disconnects."""
    # Closing and resuming sessions are stable in the protocol, but the SDK still calls them unstable.
    # It answers methods that the agent does not have with "method not found".
    connection = AgentSideConnection(cast(Any, agent), wire, listening=False, use_unstable_protocol=True)
    try:
        await connection.listen()
    finally:
        await agent.close()
        await asyncio.shield(connection.close())
