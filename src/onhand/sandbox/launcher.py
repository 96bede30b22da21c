"""Start and end sandboxed commands: the half of `launch` that runs in our own process."""

import marshal
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import IO, Any

from onhand import cancellation
from onhand.errors import SandboxError
from onhand.processes import kill_descendants, kill_session
from onhand.sandbox import launch
from onhand.sandbox.layout import Layout, NamedEntry, describe_created_names
from onhand.sandbox.policy import Policy, is_below
from onhand.sandbox.proxy import Proxy
from onhand.sandbox.sandbox import Command

NOBODY = 65534
START_S = 30.0  # more than any loaded machine needs to start Python
BEGIN_S = START_S + launch.START_S  # the same, and for all to be mounted
CHECK_INTERVAL_MS = 100  # after so long without a word, look whether anybody still waits
GRACE_S = 0.6  # for the small process to clear up; with what follows, within a second
_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# -I and -S: nothing of the user's environment or site-packages has a say in the process that sets up the walls.
_START_CODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from onhand.sandbox.launch import main; main(*map(int, sys.argv[1:]))"  # noqa: E501


class SandboxedProcess:
    """A sandboxed command; what was set up for it is removed when it has ended."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        lifeline: int,
        after: list[Callable[[], None]],
        told: Callable[[], list[str]] = list,
    ) -> None:
        self._process = process
        self._lifeline = lifeline
        self._after = after
        self._told: Callable[[], list[str]] | None = told
        self._is_to_end = False
        self.notes: tuple[str, ...] = ()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdout(self) -> IO[bytes] | None:
        return self._process.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        return self._process.stderr

    def poll(self) -> int | None:
        return self._finish(self._process.poll())

    def wait(self, timeout_s: float | None = None) -> int | None:
        try:
            return self._finish(self._process.wait(timeout_s))
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Ask the supervisor to end everything; if that takes too long, kill everything from here."""
        if self.poll() is None:
            self._is_to_end = True
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            if self.wait(GRACE_S) is None:
                self._process.send_signal(signal.SIGSTOP)  # whom it buries while one looks would hide their children
                kill_descendants(self.pid)
                self._process.kill()
                self.wait()

    def _finish(self, code: int | None) -> int | None:
        if code is not None:
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1
            while self._after:
                self._after[-1]()  # again with the next look, if it was interrupted
                self._after.pop()
            if self._told is not None:
                told, self._told = self._told, None
                self.notes = (*self._report_killed_supervisor(code), *told())
        return code if code is None or code >= 0 else 128 - code

    def _report_killed_supervisor(self, code: int) -> list[str]:
        """Return a note if something else killed the supervisor, and kill what can be found of the command."""
        if code >= 0 or self._is_to_end:
            return []
        kill_session(self.pid)
        return ["the supervisor of the command was killed: what it started in other sessions may still run"]


def unprivileged_user(layout: Layout) -> tuple[int, int] | None:
    """Return the user that root becomes: the owner of the writable directory, or nobody. None if we are not root."""
    if os.geteuid() != 0:
        return None
    for path in layout.writable:
        owner = os.stat(path)
        if owner.st_uid != 0:
            return owner.st_uid, owner.st_gid
    return NOBODY, NOBODY


def reachable_layout(layout: Layout, user: tuple[int, int] | None) -> Layout:
    """Return the layout without what the user that root becomes could not reach anyway."""
    if user is None:
        return layout
    for path in layout.writable:
        if not _can_reach(user, path):
            raise SandboxError(
                f"root becomes user {user[0]} in a sandbox, who cannot get to {path}: open the way to it"
            )
    readable = tuple(path for path in layout.readable if _can_reach(user, path))
    within = (*readable, *layout.writable)
    hidden = [path for path in layout.hidden if any(is_below(path, root) for root in within)]
    return layout._replace(readable=readable, hidden=tuple(path for path in hidden if _can_reach(user, path)))


def _can_reach(user: tuple[int, int], path: str) -> bool:
    """Return whether every directory on the way admits a user without further groups."""
    above = os.path.dirname(path)
    while True:
        try:
            found = os.stat(above)
        except FileNotFoundError:
            moves = "another command moves files about; try again when it has ended"
            raise SandboxError(f"the command was not started: {path} was there and is not any more: {moves}") from None
        shift = 6 if found.st_uid == user[0] else 3 if found.st_gid == user[1] else 0
        if not found.st_mode >> shift & 1:
            return False
        if above == "/":
            return True
        above = os.path.dirname(above)


def _limits(policy: Policy) -> dict[str, Any]:
    """Return the limits of each process, which the kernel enforces, and of the total, which is watched."""
    each = {
        "RLIMIT_AS": policy.memory_bytes,
        "RLIMIT_CPU": policy.cpu_s,
        "RLIMIT_FSIZE": policy.file_bytes,
        "RLIMIT_NPROC": policy.processes,
    }
    return {"limits": each, "together": (policy.memory_bytes, policy.cpu_s), "wall_s": policy.wall_s}


def proxy_environment(environment: dict[str, str], domains: tuple[str, ...]) -> dict[str, str]:
    """Return the environment with the address of the proxy, if there are domains."""
    if not domains:
        return environment
    url = f"http://127.0.0.1:{launch.PROXY_PORT}"
    told = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), url)
    told["no_proxy"] = "localhost,127.0.0.1"  # a command may serve itself, and only it can reach that
    return environment | told | {name.upper(): value for name, value in told.items()}


def start(
    order: dict[str, Any],
    policy: Policy,
    command: Command,
    before: tuple[NamedEntry, ...],
    after: list[Callable[[], None]] | None = None,
) -> SandboxedProcess:
    """Carry out an order; SandboxError when a step of it failed. `after` is run when the command has ended.

    `before` is what programs obey unseen, as it was found: what is more of it afterwards is told.
    """
    after = after or []
    ours: list[int] = []
    theirs: list[int] = []
    process, proxy = None, None
    try:
        order_fd = launch.anonymous_file(marshal.dumps(order | _limits(policy)))
        theirs.append(order_fd)
        report, report_fd = os.pipe()
        lifeline_fd, lifeline = os.pipe()
        ours += [report, lifeline]
        theirs += [report_fd, lifeline_fd]
        door, door_fd = _proxy_socket_pair() if policy.domains else (None, -1)
        if door is not None:
            theirs.append(door_fd)
            after.append(door.close)
        process = _start_python(command, [order_fd, report_fd, lifeline_fd, door_fd], theirs)
        while theirs:
            os.close(theirs.pop())
        if door is not None:
            proxy = _open_proxy(door, policy.domains, report)
            after.append(proxy.stop)
        failure = _read_report(report)
        if failure:
            raise SandboxError(f"the command was not started: {failure}{_read_error_output(process)}")
        ours.remove(lifeline)
        refused = proxy.notes if proxy else list
        return SandboxedProcess(process, lifeline, after, lambda: [*refused(), *describe_created_names(policy, before)])
    except BaseException:
        if process is not None:
            SandboxedProcess(process, -1, []).kill()  # what it was to start may have begun
            for pipe in filter(None, (process.stdout, process.stderr)):
                pipe.close()
        while after:
            after.pop()()
        raise
    finally:
        for descriptor in (*ours, *theirs):
            os.close(descriptor)


def _start_python(command: Command, descriptors: list[int], pass_fds: list[int]) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-I", "-S", "-B", "-c", _START_CODE, _PACKAGES, *map(str, descriptors)]
    try:
        return subprocess.Popen(  # noqa: S603  # our own words
            words,
            stdin=command.stdin,
            stdout=command.stdout,
            stderr=command.stderr,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"the command was not started: {error.strerror}") from None


def _proxy_socket_pair() -> tuple[socket.socket, int]:
    """Our end of a pair of sockets, and the number of the other one."""
    ours, theirs = socket.socketpair()
    return ours, theirs.detach()


def _open_proxy(door: socket.socket, domains: tuple[str, ...], report: int) -> Proxy:
    """Put the proxy behind the listening socket that comes out of the command's own network."""
    with door:
        descriptors = (
            socket.recv_fds(door, 1, 1)[1] if _wait_until_readable(door.fileno(), monotonic() + START_S) else []
        )
    if not descriptors:
        raise SandboxError(f"the command was not started: {_read_report(report) or 'it got no network of its own'}")
    proxy = Proxy(socket.socket(fileno=descriptors[0]), domains)
    proxy.start()
    return proxy


def _read_report(report: int) -> str:
    """Return the first failure, or nothing once the command has started."""
    ends_at, told = monotonic() + BEGIN_S, b""
    while _wait_until_readable(report, ends_at):
        piece = os.read(report, 4096)
        if not piece:
            return told.decode("utf-8", "replace").partition("\n")[0]
        told += piece
    return f"it did not begin within {BEGIN_S:g} s"


def _wait_until_readable(descriptor: int, ends_at: float) -> bool:
    """Return whether the descriptor becomes readable in time; raise Cancelled if the call was cancelled."""
    says = select.poll()
    says.register(descriptor, select.POLLIN)
    while not says.poll(CHECK_INTERVAL_MS):
        cancellation.check()
        if monotonic() >= ends_at:
            return False
    return True


def _read_error_output(process: "subprocess.Popen[bytes]") -> str:
    """Return what bubblewrap wrote to its error output, where we can read that."""
    if process.stderr is None or not select.select([process.stderr], [], [], 0)[0]:
        return ""
    said = os.read(process.stderr.fileno(), 2000).decode("utf-8", "replace").strip()
    return f": {said}" if said else ""
