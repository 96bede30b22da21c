"""Start or dial an upstream server, and explain why that failed.

How is a server's program spoken to? One JSON message on a line each way, whatever the program writes.

The SDK's own transport takes lines of any length, ends with the first byte that is not UTF-8, and gives an answer that
it cannot parse to nobody, so that the caller waits for ever. Here a line has a cap, and what can be told of a bad
answer is told to whoever waits for it.
What went wrong with a server that we asked? What the SDK means by the errors that it raises.

It tells a server's own words from those that the SDK puts in their place. What is done about it is the client's matter.
When may a program start that nobody waits for? One after the other, and while calls are made, only now and then.

A program that starts keeps a processor busy for half a second or more, which those feel who call other servers, and one
that is dead or hangs is started again and again. Nothing here knows servers. What somebody waits for does not ask here.
"""

import json
import math
import os
import re
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import ByteReceiveStream, Process
from mcp import MCPError
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from onhand.errors import OnhandError
from onhand.mcp.servers import ServerConfig, working_directory
from onhand.text import repair_surrogates

MAX_LINE_BYTES = 32 * 1024 * 1024  # a picture of a tool fits; more is a flood
KEPT_STDERR_LINES = 20  # what a dead program said last is mostly why it died
MAX_STDERR_LINE_BYTES = 1000
END_S = 1.0  # a program has so long to end when its input ends, and again when it is asked to
REAPED_S = 10.0  # on a machine that is busy; nobody waits for it but a gateway that closes
MAX_LEVELS = 200  # of lists in lists: what is deeper costs itself, and not the answer that it is in
MAX_FLATTENED_BYTES = 4 * 1024 * 1024  # of a line that is looked through for that: a second of work at most
_SIGNS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)  # a text without end is one, too
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{0,200}")')
_EDGE_BYTES = 4096  # of a line that is too long: its id stands near one of its ends


@asynccontextmanager
async def started(
    command: list[str],
    environment: Mapping[str, str],
    directory: str | None,
    said: deque[str],
    on_end: Callable[[], None],
) -> AsyncGenerator[Any, None]:
    """The streams to and from a program that runs until the block ends; `said` gets the last lines of its errors."""
    process = await anyio.open_process(
        command, env=dict(environment), cwd=directory, start_new_session=sys.platform != "win32"
    )
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process, incoming, on_end)
            tasks.start_soon(_write, process, outgoing, on_end)
            tasks.start_soon(_listen, process, said)
            try:
                yield read, write
            finally:
                with anyio.CancelScope(shield=True):
                    await _stop(process)
                tasks.cancel_scope.cancel()
    finally:
        for stream in (incoming, read, write, outgoing):
            stream.close()


async def _read(process: Process, incoming: Any, on_end: Callable[[], None]) -> None:
    assert process.stdout is not None
    try:
        async with incoming:
            async for line in lines(process.stdout, MAX_LINE_BYTES):
                message = parsed(line)
                if message is not None:
                    await incoming.send(message)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        pass  # either side has gone, which the session sees as the end of the stream
    finally:
        on_end()


async def _write(process: Process, outgoing: Any, on_end: Callable[[], None]) -> None:
    assert process.stdin is not None
    try:
        async with outgoing:
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(text.encode() + b"\n")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        on_end()


async def _listen(process: Process, said: deque[str]) -> None:
    """Keep the last of what the program complains of; a flood costs reading and nothing else."""
    assert process.stderr is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for line in lines(process.stderr, MAX_STDERR_LINE_BYTES):
            said.append(line[:MAX_STDERR_LINE_BYTES].decode(errors="replace").strip())


async def lines(stream: ByteReceiveStream, most: int) -> AsyncIterator[bytes]:
    """The lines of a stream; of one that is longer than `most`, its first and last bytes, with a NUL between them."""
    parts: list[bytes] = []
    size = 0
    with suppress(anyio.EndOfStream):
        while True:
            *ends, rest = (await stream.receive(65_536)).split(b"\n")
            for end in ends:
                yield _joined([*parts, end], size + len(end), most)
                parts, size = [], 0
            parts.append(rest)
            size += len(rest)
            if size > most and len(parts) > 2:
                parts = [parts[0], (parts[-2] + parts[-1])[-_EDGE_BYTES:]]


def _joined(parts: list[bytes], size: int, most: int) -> bytes:
    if size <= most:
        return b"".join(parts)
    return parts[0][:_EDGE_BYTES] + b"\0" + b"".join(parts[1:])[-_EDGE_BYTES:]


def parsed(line: bytes) -> SessionMessage | None:
    """The message of a line; an error for whoever waits, where only the id can be read; None where nothing can."""
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        pass
    if b"\0" in line:
        return _answer(_id_near_an_end(line), f"the answer has more than {MAX_LINE_BYTES:,} bytes: ask for less")
    try:
        value = _loaded(line)
    except (ValueError, RecursionError):
        return _answer(_id_near_an_end(line), "the answer is not JSON") if line.lstrip().startswith(b"{") else None
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_python(_mended(value), by_name=False))
    except (ValidationError, RecursionError):
        known = value.get("id") if isinstance(value, dict) and "method" not in value else None
        return _answer(known, "the answer is no JSON-RPC message")


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line.decode(errors="replace"), strict=False)
    except RecursionError:
        if len(line) > MAX_FLATTENED_BYTES:
            raise
        return json.loads(_flattened(line).decode(errors="replace"), strict=False)


def _flattened(line: bytes) -> bytes:
    """JSON with null in place of what is nested too deeply for any parser."""
    parts: list[bytes] = []
    level = end = 0
    for found in _SIGNS.finditer(line):
        if found[0] in (b"[", b"{"):
            if level == MAX_LEVELS:
                parts += [line[end : found.start()], b"null"]
            level += 1
        elif found[0] in (b"]", b"}"):
            level -= 1
            if level == MAX_LEVELS:
                end = found.end()
    return b"".join([*parts, line[end:]])


def _mended(value: Any, levels: int = MAX_LEVELS) -> Any:
    """A JSON value whose texts are whole: JSON can spell halves of characters, which nothing can encode."""
    if isinstance(value, str):
        return repair_surrogates(value)
    if levels == 0:
        return None
    if isinstance(value, dict):
        return {repair_surrogates(key): _mended(item, levels - 1) for key, item in value.items()}
    return [_mended(item, levels - 1) for item in value] if isinstance(value, list) else value


def _id_near_an_end(line: bytes) -> Any:
    head, _, tail = line.partition(b"\0")
    before = head[:_EDGE_BYTES].partition(b'"result"')[0]
    found = _ID.search(before) or next(reversed(list(_ID.finditer((tail or line)[-200:]))), None)
    return json.loads(found.group(1)) if found else None


def _answer(request_id: Any, reason: str) -> SessionMessage | None:
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    error = types.ErrorData(code=types.INTERNAL_ERROR, message=reason)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


async def _stop(process: Process) -> None:
    """Close its input, give it time, then end it and everything that it started."""
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        if process.stdin is not None:
            await process.stdin.aclose()
    with anyio.move_on_after(END_S):
        await process.wait()
    if process.returncode is None:
        if sys.platform == "win32":
            process.kill()
        else:
            await terminate_posix_process_tree(process, END_S)
        with anyio.move_on_after(REAPED_S):
            await process.wait()  # the kill is not the end: who is not waited for stays as a zombie
    for stream in (process.stdout, process.stderr):
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            if stream is not None:
                await stream.aclose()


def innermost(error: BaseException) -> BaseException:
    """What is at the bottom of groups of errors: the first that was raised."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_ended(error: MCPError) -> bool:
    """Whether a connection ended before the answer; servers use the same code for errors of their own."""
    return error.code == types.CONNECTION_CLOSED and error.message.startswith(("Connection closed", "SSE stream "))


def is_late(error: MCPError) -> bool:
    """Whether nobody answered in time; servers use the same code too."""
    return error.code == types.REQUEST_TIMEOUT and error.message.endswith("timed out")


def is_expired(error: MCPError) -> bool:
    """Whether an HTTP server no longer knows our session: it answered 404, so it did nothing."""
    return error.code == types.INVALID_REQUEST and error.message == "Session terminated"


def wants_newer(errors: BaseExceptionGroup[MCPError]) -> bool:
    """Whether a server refused the older handshake because it knows only the newer protocol."""
    error = innermost(errors)
    newer = (types.UNSUPPORTED_PROTOCOL_VERSION, types.METHOD_NOT_FOUND)
    return isinstance(error, MCPError) and error.code in newer


def why(error: BaseException, server: ServerConfig, status: int) -> str:
    """Why a server cannot be used, and what to do; `status` is that of the last answer of an address, or 0."""
    error = innermost(error)
    if isinstance(error, OSError) and (told := _why_not_started(error, server)):
        return told
    if isinstance(error, MCPError) and is_ended(error):
        return "it ended at once"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, MCPError) and _is_no_message(error) and status >= 400:
        return _web_status(status)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"it does not keep to MCP: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error) if isinstance(error, OnhandError) else f"{type(error).__name__}: {error}"


def _why_not_started(error: OSError, server: ServerConfig) -> str:
    if server.cwd and error.filename == working_directory(server):
        return f"it cannot be started in {server.cwd!r} ({error.strerror}): correct its cwd"
    if isinstance(error, FileNotFoundError) and server.command:
        return f"there is no program {server.command!r}: install it, or correct the command"
    if isinstance(error, PermissionError) and server.command:
        return f"{server.command!r} is no program that may be run: correct the command"
    return ""


def _is_no_message(error: MCPError) -> bool:
    """Whether these are the words for an address that answered with nothing but a status, or a server's own ones."""
    return error.message in ("Server returned an error response", "Not Found")


def _web_status(status: int) -> str:
    """What an address means by a status, and what to do."""
    if status in (401, 403):
        return f"it asks who we are, with status {status}: give it a token (bearer_env), or log in (oauth)"
    return f"it answers with status {status}: check the url"


CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
FIRST_S = 0.5 / CORES  # between programs that were never started: they come to work at most as fast as they could
AGAIN_S = 8 * FIRST_S  # between those that have failed: a part of one processor
BUSY_S = 40 / CORES  # while calls are made: so that a start meets fewer than one in 20
QUIET_S = 1.0  # without a call: then whoever calls is likely to think for longer than a program takes to start


class Starts:
    """The programs that wait for their turn to start, and the calls that they give way to."""

    def __init__(self) -> None:
        self._queue = anyio.Lock()
        self._started_at = -math.inf
        self._calls = 0
        self._quiet_at = 0.0

    @contextmanager
    def call(self) -> Generator[None, None, None]:
        """While somebody waits for a server's answer."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._quiet_at = anyio.current_time() + QUIET_S

    async def turn(self, has_failed: bool) -> None:
        """Wait until it is a program's turn."""
        async with self._queue:
            await anyio.sleep_until(self._started_at + (AGAIN_S if has_failed else FIRST_S))
            with anyio.CancelScope(deadline=self._started_at + BUSY_S):
                await self._quiet()
            self._started_at = anyio.current_time()

    async def _quiet(self) -> None:
        while (wait := QUIET_S if self._calls else self._quiet_at - anyio.current_time()) > 0:
            await anyio.sleep(wait)


def capped_error(error: MCPError, max_bytes: int) -> MCPError:
    """An error in a server's own words, as it is or within so many bytes; then without the data beside them."""
    raw = repair_surrogates(error.message).encode()
    if len(raw) + len(json.dumps(error.data)) <= max_bytes:
        return error
    kept = raw[:max_bytes].decode(errors="ignore")
    note = f" [cut, of {len(raw):,} bytes]" if len(raw) > max_bytes else ""
    return MCPError(code=error.code, message=kept + note)
