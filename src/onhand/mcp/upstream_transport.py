"""Start an upstream server's program or connect to its address, and explain why that failed.

A program exchanges one JSON message per line. The SDK's own transport for programs accepts lines of any length, ends at
the first byte that is not UTF-8, and drops responses that it cannot parse, so it is not used.
"""

import json
import math
import os
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import httpx2
import mcp_types as types
from anyio.abc import ByteReceiveStream, Process
from mcp import MCPError
from mcp.client.sse import sse_client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from onhand.errors import OnhandError, UpstreamError
from onhand.hidden_characters import repair_surrogates
from onhand.mcp.servers import ServerConfig, expand_variables
from onhand.mcp.upstream_http import MAX_SSE_BYTES, limit_response, limit_wait
from onhand.mcp.upstream_messages import MAX_MESSAGE_BYTES, read_messages
from onhand.text import one_line

KEPT_STDERR_LINES = 20  # the last output of a program mostly says why it ended
MAX_STDERR_LINE_BYTES = 1000
MAX_REASON_CHARS = 300
STOP_S = 1.0  # time for a program to end after its input was closed, and again after it was terminated
REAP_S = 10.0  # on a busy machine; only a gateway that is closing waits for it


_CLOSED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class ServerTransport:
    """Starts the program of one server or connects to its address."""

    def __init__(self, server: ServerConfig, environ: Mapping[str, str], auth: Any = None) -> None:
        self._server = server
        self._environ = environ
        self._auth = auth
        self._stderr: deque[str] = deque(maxlen=KEPT_STDERR_LINES)
        self._http_status = 0  # of the latest response

    def open(self, on_end: Callable[[], None]) -> AbstractAsyncContextManager[Any]:
        """Return the context of the streams from and to the server; `on_end` is called when its program ends."""
        return self._connect() if self._server.url else self._start(on_end)

    @property
    def last_stderr_line(self) -> str:
        """The last line that the program wrote to its standard error, sanitized."""
        return one_line(next((line for line in reversed(self._stderr) if line), ""), MAX_REASON_CHARS)

    def explain(self, error: BaseException) -> str:
        """Return on one line why the server cannot be used, and what to do."""
        reason = self._reason(innermost(error))
        last = self.last_stderr_line
        return one_line(f"{reason} ({last})" if last else reason, MAX_REASON_CHARS)

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, OSError) and (reason := _explain_start_failure(error, self._server)):
            return reason
        if isinstance(error, MCPError) and is_ended(error):
            return "it ended at once"
        if isinstance(error, TimeoutError):
            return "no answer in time"
        if isinstance(error, MCPError) and self._http_status >= 400 and error.message in _SDK_HTTP_MESSAGES:
            return _explain_http_status(self._http_status)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False)[0]
            return f"it violates the MCP protocol: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        return str(error) if isinstance(error, OnhandError) else f"{type(error).__name__}: {error}"

    @asynccontextmanager
    async def _start(self, on_end: Callable[[], None]) -> AsyncGenerator[Any, None]:
        """Run the program until the block ends."""
        self._stderr.clear()
        server = self._server
        process = await anyio.open_process(
            [self._expand(part) for part in (server.command, *server.args)],
            env=program_environment(server, self._environ),
            cwd=working_directory(server),
            start_new_session=sys.platform != "win32",
        )
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_read, process, incoming, self._stderr, on_end)
                tasks.start_soon(_write, process, outgoing, on_end)
                tasks.start_soon(_read_stderr, process, self._stderr)
                try:
                    yield read, write
                finally:
                    with anyio.CancelScope(shield=True):
                        await _stop(process)
                    tasks.cancel_scope.cancel()
        finally:
            for stream in (incoming, read, write, outgoing):
                stream.close()
            with anyio.CancelScope(shield=True):
                await _close_output(process)

    @asynccontextmanager
    async def _connect(self) -> AsyncGenerator[Any, None]:
        """Connect to the address. Only configured headers are sent, and nothing that our own clients sent to us."""
        server = self._server
        url = self._expand(server.url)
        headers = {name: self._expand(value, f": header {name}") for name, value in server.headers.items()}
        if server.transport == "sse":
            async with sse_client(url, headers, httpx_client_factory=self._http_client, auth=self._auth) as streams:
                yield streams
            return

        async with (
            self._http_client(headers, auth=self._auth) as http,
            streamable_http_client(url, http_client=http, max_sse_event_size=None) as streams,
        ):
            yield streams

    def _http_client(
        self, headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: Any = None
    ) -> httpx2.AsyncClient:
        """Return a client whose responses are limited. The SDK has no such limit, except for events."""
        client = create_mcp_http_client(headers, timeout, auth)

        async def limit(response: httpx2.Response) -> None:
            self._http_status = response.status_code  # which the SDK's errors do not contain
            max_bytes = MAX_SSE_BYTES if self._server.transport == "sse" else MAX_MESSAGE_BYTES
            limit_response(response, max_bytes, self._server.timeout_s)

        client.event_hooks = {"response": [limit]}
        limit_wait(client, self._server.timeout_s)
        return client

    def _expand(self, text: str, part: str = "") -> str:
        return expand_variables(text, self._environ, f"server {self._server.key}{part}")


def program_environment(server: ServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server's program: what every program needs and what its entry names, nothing else."""
    named = {
        name: expand_variables(value, environ, f"server {server.key}: env {name}") for name, value in server.env.items()
    }
    return {**get_default_environment(), **named}


def working_directory(server: ServerConfig) -> str | None:
    """Return the directory in which a server's program is started; None means the current one."""
    return os.path.join(server.project, os.path.expanduser(server.cwd)) or None


async def _read(process: Process, incoming: Any, problems: deque[str], on_end: Callable[[], None]) -> None:
    assert process.stdout is not None
    try:
        async with incoming:
            async for message in read_messages(process.stdout):
                await incoming.send(message)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        pass  # either side has closed, which the session sees as the end of the stream
    except UpstreamError as error:
        problems.append(str(error))
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


async def _read_stderr(process: Process, lines: deque[str]) -> None:
    assert process.stderr is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for line in read_lines(process.stderr, MAX_STDERR_LINE_BYTES):
            lines.append(line.decode(errors="replace").strip())


async def read_lines(stream: ByteReceiveStream, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, each cut to its first bytes."""
    line = b""
    with suppress(anyio.EndOfStream):
        while True:
            *ends, rest = (await stream.receive(65_536)).split(b"\n")
            for end in ends:
                yield (line + end)[:max_bytes]
                line = b""
            line = (line + rest)[:max_bytes]


async def _stop(process: Process) -> None:
    """Close the program's input, give it time to end, then terminate it and everything that it started."""
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        if process.stdin is not None:
            await process.stdin.aclose()
    with anyio.move_on_after(STOP_S):
        await process.wait()
    if process.returncode is None:
        if sys.platform == "win32":
            process.kill()
        else:
            await terminate_posix_process_tree(process, STOP_S)
        with anyio.move_on_after(REAP_S):
            await process.wait()  # a killed program that nobody waits for stays as a zombie


async def _close_output(process: Process) -> None:
    """Close the output of a program that has ended: a pipe with unread data in it would stay open."""
    for stream in (process.stdout, process.stderr):
        with anyio.move_on_after(STOP_S), suppress(*_CLOSED):
            while stream is not None:
                await stream.receive()
        with suppress(*_CLOSED):
            if stream is not None:
                await stream.aclose()


def innermost(error: BaseException) -> BaseException:
    """Return the first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_ended(error: MCPError) -> bool:
    """Return whether the connection ended before the response; servers use the same code for their own errors."""
    return error.code == types.CONNECTION_CLOSED and error.message.startswith(("Connection closed", "SSE stream "))


def is_timeout(error: MCPError) -> bool:
    """Return whether there was no response in time; servers use the same code for their own errors."""
    return error.code == types.REQUEST_TIMEOUT and error.message.endswith("timed out")


def is_expired(error: MCPError) -> bool:
    """Return whether an HTTP server no longer knows our session: it responded with 404, so it did nothing."""
    return error.code == types.INVALID_REQUEST and error.message == "Session terminated"


def requires_modern(errors: BaseExceptionGroup[MCPError]) -> bool:
    """Return whether a server refused the legacy handshake because it knows only the modern protocol."""
    error = innermost(errors)
    codes = (types.UNSUPPORTED_PROTOCOL_VERSION, types.METHOD_NOT_FOUND)
    return isinstance(error, MCPError) and error.code in codes


_SDK_HTTP_MESSAGES = ("Server returned an error response", "Not Found")  # the SDK's, where a response was only a status


def _explain_start_failure(error: OSError, server: ServerConfig) -> str:
    if server.cwd and error.filename == working_directory(server):
        return f"it cannot be started in {server.cwd!r} ({error.strerror}): correct its cwd"
    if isinstance(error, FileNotFoundError) and server.command:
        return f"there is no program {server.command!r}: install it, or correct the command"
    if isinstance(error, PermissionError) and server.command:
        return f"{server.command!r} is not an executable program: correct the command"
    return ""


def _explain_http_status(status: int) -> str:
    if status in (401, 403):
        return f"it requires authentication (status {status}): configure a token (bearer_env), or log in (oauth)"
    return f"it responds with status {status}: check the url"


CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
FIRST_S = 0.5 / CORES  # between programs that were never started, so that they do not compete for processors
AGAIN_S = 8 * FIRST_S  # between programs that failed before: they cost only a part of one processor
BUSY_S = 40 / CORES  # while requests are made: fewer than one request in 20 meets a program that is starting
QUIET_S = 1.0  # without a request: the caller then probably thinks for longer than a program takes to start


class StartupThrottle:
    """Starts programs that nobody waits for one after the other, and rarely while requests are made.

    A program that starts keeps a processor busy for half a second or more, which slows requests to other servers, and
    one that fails or hangs is started repeatedly. A server that somebody waits for does not wait here.
    """

    def __init__(self) -> None:
        self._queue = anyio.Lock()
        self._started_at = -math.inf
        self._requests = 0
        self._quiet_at = 0.0

    @contextmanager
    def request(self) -> Generator[None, None, None]:
        """Mark that somebody waits for the response of a server."""
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            self._quiet_at = anyio.current_time() + QUIET_S

    async def wait_for_turn(self, has_failed: bool) -> None:
        """Wait until a program may start."""
        async with self._queue:
            await anyio.sleep_until(self._started_at + (AGAIN_S if has_failed else FIRST_S))
            with anyio.CancelScope(deadline=self._started_at + BUSY_S):
                await self._wait_until_quiet()
            self._started_at = anyio.current_time()

    async def _wait_until_quiet(self) -> None:
        while (wait := QUIET_S if self._requests else self._quiet_at - anyio.current_time()) > 0:
            await anyio.sleep(wait)


def cap_error(error: MCPError, max_bytes: int) -> MCPError:
    """Return a server's error, cut to so many bytes and without its data if it is larger."""
    raw = repair_surrogates(error.message).encode()
    if len(raw) + len(json.dumps(error.data)) <= max_bytes:
        return error
    text = raw[:max_bytes].decode(errors="ignore")
    note = f" [cut, of {len(raw):,} bytes]" if len(raw) > max_bytes else ""
    return MCPError(code=error.code, message=text + note)
