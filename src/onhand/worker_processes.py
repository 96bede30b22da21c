"""Several processes that serve one port: they start again after a crash, and end with the process that started them.

Each worker is a new interpreter, because neither gRPC nor SQLite survives a fork. It holds one end of a socket, its
lifeline: through it, the worker says that it is ready, and when it closes, however the parent ended, the worker stops.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from onhand.errors import InputError
from onhand.net import ListenAddress
from onhand.serving import handle_stop_signals
from onhand.text import quantity

MAX_WORKERS = 256
MIN_DELAY_S, MAX_DELAY_S = 0.5, 30.0  # before a worker that crashed starts again; doubled each time
STEADY_S = 60.0  # a worker that lived so long starts again after the shortest delay
EXTRA_S = 5.0  # beyond the time that running calls have, before a worker is killed

Command = Callable[[int, int], Sequence[str]]
"""Returns the command that starts a worker, by its number from 1 and the descriptor of its lifeline."""


def reserve_port(address: ListenAddress) -> tuple[socket.socket, ListenAddress]:
    """Bind a port that the workers share, and return it with the address that was chosen if its port is 0.

    The socket never listens, so it receives no connection. While it is open, no program of another user gets the port.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        raise InputError(
            "--workers needs processes that share a port, which this system does not support: leave it out"
        )
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        if address.port:  # bound alone first, because a shared port could belong to another server of this user
            with socket.socket(family, kind, protocol) as alone:
                alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                alone.bind(place)
        reserved = socket.socket(family, kind, protocol)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(place)
    except OSError as error:
        raise InputError(
            f"cannot listen on {address}: {(error.strerror or str(error)).lower()}; choose another port"
        ) from None
    return reserved, address._replace(port=reserved.getsockname()[1])


async def run_workers(
    count: int, command: Command, on_ready: Callable[[], None], complain: Callable[[str], None], shutdown_s: float
) -> int:
    """Run workers until a signal arrives, and return the exit code.

    The first one is started alone: if it cannot serve, it says why, and its exit code is returned.
    """
    has_signal = asyncio.Event()
    with handle_stop_signals(lambda _: has_signal.set()):
        stopped = asyncio.ensure_future(has_signal.wait())
        tasks: list[asyncio.Future[Any]] = [stopped]
        try:
            for numbers in ([1], range(2, count + 1)):
                ready = [asyncio.Event() for _ in numbers]
                tasks += [
                    asyncio.ensure_future(_keep_running(number, command, event, complain, shutdown_s))
                    for number, event in zip(numbers, ready, strict=True)
                ]
                all_ready: asyncio.Future[Any] = asyncio.gather(*(event.wait() for event in ready))
                await asyncio.wait([*tasks, all_ready], return_when=asyncio.FIRST_COMPLETED)
                if not all_ready.done():
                    all_ready.cancel()
                    break
            else:
                on_ready()
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            failed = [int(task.result()) for task in tasks[1:] if task.done()]
            return 0 if stopped.done() or not failed else failed[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _keep_running(
    number: int, command: Command, ready: asyncio.Event, complain: Callable[[str], None], shutdown_s: float
) -> int:
    """Run a worker, and start it again whenever it ends; return its exit code if it cannot serve from the start."""
    loop, delay_s = asyncio.get_running_loop(), MIN_DELAY_S
    while True:
        began = loop.time()
        worker = await Worker.start(command, number)
        try:
            if await worker.is_ready():
                ready.set()
            code = await worker.process.wait()
        finally:
            await worker.stop(shutdown_s)
        if not ready.is_set():
            return code or 1
        if loop.time() - began >= STEADY_S:
            delay_s = MIN_DELAY_S
        cause = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        complain(f"onhand: worker {number} {cause}; it starts again in {delay_s:g} s")
        await asyncio.sleep(delay_s)
        delay_s = min(2 * delay_s, MAX_DELAY_S)


class Worker:
    """A worker as its parent sees it."""

    def __init__(self, process: asyncio.subprocess.Process, lifeline: socket.socket) -> None:
        self.process = process
        self._lifeline = lifeline

    @classmethod
    async def start(cls, command: Command, number: int) -> "Worker":
        """Start a worker in a process group of its own, so that Ctrl-C in a terminal reaches only the parent.

        A session of its own would do that too, but Linux shares its processors between sessions, and on a busy machine
        workers in others than their clients were left waiting for seconds.
        """
        lifeline, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *command(number, theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        except BaseException:
            lifeline.close()
            raise
        finally:
            theirs.close()
        lifeline.setblocking(False)
        return cls(process, lifeline)

    async def is_ready(self) -> bool:
        """Wait until the worker serves; return False if it ended before."""
        try:
            return bool(await asyncio.get_running_loop().sock_recv(self._lifeline, 1))
        except ConnectionError:
            return False

    async def stop(self, shutdown_s: float) -> None:
        """Ask the worker to end, and kill it if it takes too long."""
        self._lifeline.close()
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.terminate()
            try:
                await asyncio.wait_for(self.process.wait(), shutdown_s + EXTRA_S)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    self.process.kill()
                await self.process.wait()


class Lifeline:
    """The end of the socket that a worker holds. The worker stops, as by SIGTERM, when its parent has ended."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        os.set_inheritable(descriptor, False)

    def watch(self) -> None:
        """Begin to watch, inside the running event loop."""
        asyncio.get_running_loop().add_reader(self._socket, self._end)

    def announce_ready(self) -> None:
        """Tell the parent that this worker serves."""
        with suppress(OSError):
            self._socket.send(b"\n")

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        signal.raise_signal(signal.SIGTERM)


def describe_workers(count: int) -> str:
    """Return how many workers serve, for the user."""
    return quantity(count, "worker process")
