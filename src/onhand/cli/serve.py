"""Serve MCP over standard input and output or over HTTP, and document search over gRPC.

The settings workspace.tools, shell.enabled and web.enabled add tools for files, commands and web pages.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING

from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, whole_number
from onhand.doors import grpc_server, mcp_surface, profile_problems
from onhand.errors import ConfigError, InputError, MissingExtra
from onhand.net import ListenAddress, is_loopback, parse_listen_address, read_token
from onhand.project import require_mcp
from onhand.serving import handle_stop_signals, run_until_stopped
from onhand.worker_processes import MAX_WORKERS, Lifeline, describe_workers, reserve_port, run_workers

if TYPE_CHECKING:
    from onhand.mcp.http import Endpoint
    from onhand.mcp.surface import Surface
    from onhand.project import Project

LOG_SHUTDOWN_S = 5.0  # how long a reader of the log that does not read may delay the end
LOG_PERIOD_S = 0.2  # writing each line by itself would cost more than the call
MAX_LOG_LINES = 10_000  # that wait for a slow reader; beyond that, the oldest are dropped


def add_arguments(parser: Parser) -> None:
    """Declare what to serve; the default is MCP over standard input and output."""
    parser.add_argument(
        "--http", metavar="HOST:PORT", nargs="?", const="", help="serve MCP over HTTP (default: 127.0.0.1:8321)"
    )
    parser.add_argument(
        "--grpc",
        metavar="HOST:PORT",
        nargs="?",
        const="",
        help="serve document search over gRPC (default: 127.0.0.1:50051), alone or with --http",
    )
    parser.add_argument("--token-env", metavar="NAME", help="the variable that holds the token for clients over HTTP")
    parser.add_argument(
        "--profile", metavar="NAME", help="serve only what belongs to this profile of the configuration, over MCP"
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=whole_number(1, MAX_WORKERS),
        help="serve with N processes on the same port, one for each core (default: 1)",
    )
    parser.add_argument("--worker", nargs=2, type=int, help=argparse.SUPPRESS)  # its number and its lifeline
    parser.add_argument("--worker-sockets", help=argparse.SUPPRESS)
    parser.add_argument("--db", metavar="PATH", help="the database file (default: documents.path)")
    parser.add_argument("--root", metavar="DIR", help="the project directory")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client disconnects or a signal stops the server."""
    db = None if arguments.db is None else os.path.abspath(arguments.db)
    project = open_project(arguments.root, {"documents.path": db})
    if arguments.grpc is None and arguments.http is None:
        if arguments.workers:
            raise InputError("--workers needs --http or --grpc: standard input and output have a single client")
        surface = _open_surface(project, arguments.profile or "", Door(), is_stdio=True)
        import anyio

        from onhand.mcp import stdio

        return anyio.run(run_until_stopped, stdio.serve(surface))
    if (arguments.workers or 1) > 1:
        return _serve_with_workers(project, arguments)
    asyncio.run(_serve(project, arguments, Door(*arguments.worker) if arguments.worker else Door()))
    return 0


class Door:
    """How a process announces what it serves: to the user or, if it is a worker, to its parent."""

    def __init__(self, number: int = 0, lifeline: int | None = None) -> None:
        self.number = number  # of a worker, from 1; 0 for the only process
        self._lifeline = None if lifeline is None else Lifeline(lifeline)

    @property
    def shares_port(self) -> bool:
        return self._lifeline is not None

    def announce(self, text: str) -> None:
        """Tell the user what is open; for workers their parent does."""
        if self._lifeline is None:
            terminal.complain(f"onhand: {text}")

    def warn(self, problems: Iterable[str]) -> None:
        """Print warnings, which are the same for all workers, once."""
        if self.number <= 1:
            terminal.warn(problems)

    def begin(self) -> None:
        """Begin to watch whether the parent is still there."""
        if self._lifeline:
            self._lifeline.watch()

    def open(self) -> None:
        """Tell the parent that all is open."""
        if self._lifeline:
            self._lifeline.announce_ready()


def _serve_with_workers(project: Project, arguments: argparse.Namespace) -> int:
    """Serve with several processes until a signal arrives."""
    words, announcements = ["serve"], []
    with ExitStack() as stack:
        if arguments.grpc is not None:
            port, address = reserve_port(parse_listen_address(arguments.grpc, _default_grpc_port()))
            stack.enter_context(port)
            words += ["--grpc", str(address)]
            announcements.append(f"serving gRPC on {address}")
        if arguments.http is not None:
            _refuse_state(project)
            require_mcp()
            from onhand.mcp import http

            port, address = reserve_port(parse_listen_address(arguments.http, http.DEFAULT_PORT))
            stack.enter_context(port)
            sockets = stack.enter_context(TemporaryDirectory(prefix="onhand-"))
            words += ["--http", str(address), "--worker-sockets", sockets]
            profiles = () if arguments.profile else project.config.profiles
            paths = [http.PATH, *(f"{http.PATH}/p/{name}" for name in profiles)]
            announcements += [f"serving MCP at http://{address}{path}" for path in paths]
        for option in ("token_env", "profile", "db", "root"):
            if value := getattr(arguments, option):
                words += [f"--{option.replace('_', '-')}", value]
        return _run_workers(project, arguments.workers, words, announcements)


def _refuse_state(project: Project) -> None:
    """Raise InputError if something is served over MCP that is kept in one process."""
    kept = "connections to upstream servers are" if project.has_servers else ""
    if project.config.shell.enabled:
        kept = "background jobs of the shell are"
    if kept:
        raise InputError(f"--http with --workers is not possible while {kept} served, because one process has them")


def _run_workers(project: Project, count: int, words: Sequence[str], announcements: Sequence[str]) -> int:
    def command(number: int, lifeline: int) -> list[str]:
        return [sys.executable, "-P", "-m", "onhand", *words, "--worker", str(number), str(lifeline)]

    def announce() -> None:
        terminal.complain(f"onhand: {describe_workers(count)}")
        for line in announcements:
            terminal.complain(f"onhand: {line}")

    grace_s = project.config.grpc.shutdown_s
    project.close()
    return asyncio.run(run_workers(count, command, announce, terminal.complain, grace_s))


async def _serve(project: Project, arguments: argparse.Namespace, door: Door) -> None:
    """Serve over HTTP, gRPC or both in one process."""
    if arguments.http is None:
        await serve_grpc(project, arguments.grpc, door)
        return
    surface = _open_surface(project, arguments.profile or "", door)
    from onhand.mcp import http

    address = parse_listen_address(arguments.http, http.DEFAULT_PORT)
    settings = project.config.serve
    variable = arguments.token_env or settings.token_env
    profiles = [] if arguments.profile else _open_profiles(project, variable, door)
    if arguments.profile:
        variable = project.profile(arguments.profile).token_env or variable
    token = read_token(variable)
    limits = http.HttpLimits(
        settings.max_connections, settings.max_sessions, settings.timeout_s, settings.session_idle_s
    )
    worker = http.WorkerPlace(door.number, arguments.worker_sockets) if arguments.worker_sockets else None
    waiting = 1 + len(profiles)

    def announce(url: str) -> None:
        nonlocal waiting
        door.announce(f"serving MCP at {url}")
        waiting -= 1
        if not waiting:
            door.open()

    door.begin()
    async with AsyncExitStack() as stack:
        if arguments.grpc is not None:
            await stack.enter_async_context(open_grpc_door(project, arguments.grpc, door))
        await http.serve(surface, address, token, announce, limits, profiles, worker)  # a signal stops this first


def _open_surface(project: Project, profile: str, door: Door, is_stdio: bool = False) -> Surface:
    surface = mcp_surface(project, profile)
    if project.has_servers:
        door.warn(project.server_list.problems)
    if profile:
        door.warn(profile_problems(project, profile, surface))
    if sys.stdin is not None and sys.stdin.isatty():
        from onhand.cli.introduction import introduce

        introduce(project, surface, is_stdio)
    return surface


def _open_profiles(project: Project, token_variable: str, door: Door) -> list[Endpoint]:
    """Return all profiles of the configuration, each at a path and with a token of its own."""
    from onhand.mcp.http import PATH, Endpoint

    endpoints = []
    for name, profile in project.config.profiles.items():
        if profile.token_env and not token_variable:
            raise ConfigError(
                f"profiles.{name}.token_env is set, but {PATH}, where everything is served, has no token: set "
                f"serve.token_env, or serve only the profile with --profile {name}"
            )
        surface = mcp_surface(project, name)
        door.warn(profile_problems(project, name, surface))
        token = read_token(profile.token_env or token_variable)
        endpoints.append(Endpoint(f"{PATH}/p/{name}", surface, token))
    return endpoints


async def serve_grpc(project: Project, address: str, door: Door) -> None:
    """Serve until a signal arrives, then finish the calls that have begun."""
    ended = asyncio.Event()
    with handle_stop_signals(lambda _: ended.set()):
        door.begin()
        async with open_grpc_door(project, address, door):
            door.open()
            await ended.wait()


def _default_grpc_port() -> int:
    try:
        from onhand.grpc import DEFAULT_PORT
    except ModuleNotFoundError as error:
        raise MissingExtra("search over gRPC", "grpc") from error
    return DEFAULT_PORT


@asynccontextmanager
async def open_grpc_door(project: Project, address: str, door: Door) -> AsyncIterator[None]:
    """Serve gRPC in the current event loop while this context is open."""
    host, port = parse_listen_address(address, _default_grpc_port())
    settings = project.config.grpc
    server = grpc_server(project, door.shares_port)
    with _log_to_stderr() as start_logging, _serve_metrics(settings.metrics, door):
        bound = await server.start(host, port)
        try:
            if not is_loopback(host) and not settings.tls_cert:
                door.warn(["tokens and documents are sent unencrypted; set grpc.tls_cert and grpc.tls_key"])
            door.announce(f"serving gRPC on {ListenAddress(host, bound)}")
            start_logging()
            yield
        finally:
            await server.stop(settings.shutdown_s)
            server.close()


@contextmanager
def _serve_metrics(address: str, door: Door) -> Iterator[None]:
    """Serve the metrics of this process; the first worker does so at the port that was set, and others above it."""
    if not address:
        yield
        return
    from onhand.grpc.telemetry import DEFAULT_PORT, serve_metrics

    host, port = parse_listen_address(address, DEFAULT_PORT)
    server, bound = serve_metrics(host, port + max(0, door.number - 1) if port else 0)
    terminal.complain(f"onhand: metrics at http://{ListenAddress(host, bound)}/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _log_to_stderr() -> Iterator[Callable[[], None]]:
    """Log JSON lines to standard error, from the moment the yielded function is called."""
    logger, lines = logging.getLogger("onhand.grpc"), _BatchedLog()
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield lines.thread.start
    finally:
        logger.removeHandler(lines)
        lines.end()


class _BatchedLog(logging.Handler):
    """A log handler whose thread writes lines in batches, so that no call waits for a reader of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = Thread(target=self._write, daemon=True)
        self._waiting: deque[logging.LogRecord] = deque(maxlen=MAX_LOG_LINES)
        self._has_ended = Event()

    def emit(self, record: logging.LogRecord) -> None:
        self._waiting.append(record)

    def end(self) -> None:
        self._has_ended.set()
        if self.thread.is_alive():
            self.thread.join(LOG_SHUTDOWN_S)

    def _write(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._has_ended.wait(LOG_PERIOD_S)
            lines = [self._waiting.popleft().getMessage() for _ in range(len(self._waiting))]
            if lines:
                terminal.complain("\n".join(lines))
