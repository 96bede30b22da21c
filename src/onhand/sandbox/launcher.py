"""Start and end sandboxed commands: the counterpart of `launch` that runs in our own process."""

import marshal
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from errno import ESRCH
from time import monotonic
from typing import IO, Any

from onhand import cancellation
from onhand.errors import SandboxError
from onhand.processes import COMMAND_MARK, kill_descendants, kill_session, start_time
from onhand.sandbox import kernel, launch
from onhand.sandbox.layout import Layout, outermost_paths
from onhand.sandbox.policy import Policy, is_below
from onhand.sandbox.proxy import Proxy
from onhand.sandbox.quarantine import Watch, describe_paths
from onhand.sandbox.sandbox import NOT_FOUND, Command

NOBODY = 65534
SYSTEM_SETTINGS = ("/etc", "/opt")  # what else commands can read of the system are packages, which anybody can have
START_S = 30.0  # more than any loaded machine needs to start Python
BEGIN_S = START_S + launch.START_S  # including the mounts
CHECK_INTERVAL_MS = 100  # how often to check for cancellation while the supervisor reports nothing
GRACE_S = 0.6  # for the supervisor to clean up; with what follows, a command ends within a second
ORPHANS_MS = 5000  # far more than the kernel takes to end a pid namespace
_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# -I and -S: neither the user's environment nor site-packages may influence the process that sets up the sandbox.
_START_CODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from onhand.sandbox.launch import main; main(*map(int, sys.argv[1:]))"  # noqa: E501


class SandboxedProcess:
    """A sandboxed command. When it has ended, new protected names and what was set up for it are removed."""

    def __init__(
        self,
        supervisor: "subprocess.Popen[bytes]",
        lifeline: int,
        watch: Watch,
        cleanup: list[Callable[[], None]],
        mark: bytes = b"",
    ) -> None:
        self._supervisor = supervisor
        self._lifeline = lifeline
        self._watch = watch
        self._cleanup = cleanup
        self._mark = mark
        self._first_process = -1
        self._is_killed = False
        self._collect_notes: Callable[[int], list[str]] = lambda _: []
        self.notes: tuple[str, ...] = ()

    @property
    def pid(self) -> int:
        return self._supervisor.pid

    @property
    def stdout(self) -> IO[bytes] | None:
        return self._supervisor.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        return self._supervisor.stderr

    def poll(self) -> int | None:
        return self._finish(self._supervisor.poll())

    def wait(self, timeout_s: float | None = None) -> int | None:
        try:
            return self._finish(self._supervisor.wait(timeout_s))
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Ask the supervisor to end everything; if that takes too long, kill everything from here."""
        if self.poll() is None:
            self._is_killed = True
            with suppress(ProcessLookupError):
                self._supervisor.send_signal(signal.SIGTERM)
            if self.wait(GRACE_S) is None:
                # Stopped first, because it must not reap a process whose children we are about to look for.
                self._supervisor.send_signal(signal.SIGSTOP)
                kill_descendants(self.pid)
                self._supervisor.kill()
                self.wait()

    def identify_first_process(self, process: int, started_at: int) -> None:
        """Remember the first process of the command's pid namespace, which takes the others along when it dies."""
        try:
            self._first_process = kernel.open_process(process)
        except OSError as error:
            if error.errno == ESRCH:  # it has already ended
                return
            raise
        if start_time(process) not in (started_at, 0):  # the number was reused
            os.close(self._first_process)
            self._first_process = -1

    def collect_notes_with(self, collect: Callable[[int], list[str]]) -> None:
        """Set what returns further notes for the exit code once the command has ended."""
        self._collect_notes = collect

    def _finish(self, code: int | None) -> int | None:
        if code is None:
            return None
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        killed_notes = self._kill_orphans() if code < 0 else []
        if self._first_process >= 0:
            os.close(self._first_process)
            self._first_process = -1
        while self._cleanup:
            self._cleanup[-1]()  # it is repeated by the next call if it is interrupted
            self._cleanup.pop()
        created_notes = self._watch.finish()
        if not self.notes:
            self.notes = (*killed_notes, *self._collect_notes(code), *created_notes)
        return code if code >= 0 else 128 - code

    def _kill_orphans(self) -> list[str]:
        """Kill the processes that a killed supervisor has left; return a note if the command was not to be killed."""
        note = "the supervisor of the command was killed, so the command was killed too"
        if self._first_process >= 0:
            # It normally dies with the supervisor, but bubblewrap only asks for that after it has started the command.
            with suppress(OSError):
                kernel.signal_process(self._first_process, signal.SIGKILL)
            _poll(self._first_process, ORPHANS_MS)  # it ends after all others in its namespace
        else:
            note += ", except processes of other sessions that cleared their environment"
        kill_session(self.pid, self._mark)
        return [] if self._is_killed else [note]


def unprivileged_user(layout: Layout, *, may_own_files_of_root: bool = False) -> tuple[int, int] | None:
    """Return the user and group that root becomes: the owner of a writable directory, or nobody; None without root.

    In a workspace of root it can stay root without capabilities, if the backend keeps it from root's other files.
    """
    if os.geteuid() != 0:
        return None
    if may_own_files_of_root and layout.writable and os.stat(layout.writable[0]).st_uid == 0:
        return 0, os.stat(layout.writable[0]).st_gid
    for path in layout.writable:
        owner = os.stat(path)
        if owner.st_uid != 0:
            return owner.st_uid, owner.st_gid
    return NOBODY, NOBODY


def reachable_layout(layout: Layout, user: tuple[int, int] | None) -> Layout:
    """Return the layout without the paths that this user could not reach anyway.

    For root without capabilities, also hide what other users could not read in the system.
    """
    if user is None:
        return layout
    if user[0] == 0:
        places = [place for place in SYSTEM_SETTINGS if place in layout.readable]
        own = (path for place in places for path in _files_of_root(place, layout.writable))
        of_kernel = _files_of_root("/proc", layout.writable, deep=False)
        layout = layout._replace(hidden=outermost_paths([*layout.hidden, *own, *of_kernel]))
    for path in layout.writable:
        if not _can_reach(user, path):
            raise SandboxError(
                f"in a sandbox root becomes user {user[0]}, who cannot reach {path}: make its directories accessible"
            )
    readable = tuple(path for path in layout.readable if _can_reach(user, path))
    within = (*readable, *layout.writable, "/proc")
    hidden = [path for path in layout.hidden if any(is_below(path, root) for root in within)]
    return layout._replace(readable=readable, hidden=tuple(path for path in hidden if _can_reach(user, path)))


def _files_of_root(
    directory: str, writable: Sequence[str], *, deep: bool = True, is_closed: bool = False
) -> Iterator[str]:
    """Yield the files and directories that only their owner or a group can read, but nothing writable.

    A directory with something writable in it is not yielded, but what else is in it. In one that `is_closed` to others,
    that is everything.
    """
    for entry in os.scandir(directory):
        is_directory = entry.is_dir(follow_symlinks=False)
        if not ((is_directory and deep) or entry.is_file(follow_symlinks=False)):
            continue  # most entries are links, which are known without asking for each
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:  # it has just been removed
            continue
        needed = 0o5 if is_directory else 0o4
        is_own = is_closed or mode & needed != needed
        if not (is_own or is_directory) or entry.path in writable:
            continue
        if is_directory and (not is_own or any(is_below(path, entry.path) for path in writable)):
            yield from _files_of_root(entry.path, writable, is_closed=is_own)
        else:
            yield entry.path


def _can_reach(user: tuple[int, int], path: str) -> bool:
    """Return whether a user without further groups may pass every directory above a path."""
    above = os.path.dirname(path)
    while True:
        try:
            found = os.stat(above)
        except FileNotFoundError:
            moved = "another command is moving files; try again when it has ended"
            raise SandboxError(f"the command was not started: {path} no longer exists: {moved}") from None
        shift = 6 if found.st_uid == user[0] else 3 if found.st_gid == user[1] else 0
        if not found.st_mode >> shift & 1:
            return False
        if above == "/":
            return True
        above = os.path.dirname(above)


def _limits(policy: Policy) -> dict[str, Any]:
    """Return the limits of each process, which the kernel enforces, and of all together, which `launch` checks."""
    each = {
        "RLIMIT_AS": policy.memory_bytes,
        "RLIMIT_CPU": policy.cpu_s,
        "RLIMIT_FSIZE": policy.file_bytes,
        "RLIMIT_NPROC": policy.processes,
    }
    return {
        "limits": each,
        "together": (policy.memory_bytes, policy.cpu_s),
        "processes": policy.processes,
        "wall_s": policy.wall_s,
    }


def proxy_environment(environment: dict[str, str], domains: tuple[str, ...]) -> dict[str, str]:
    """Return the environment with the address of the proxy, if there are domains."""
    if not domains:
        return environment
    url = f"http://127.0.0.1:{launch.PROXY_PORT}"
    variables = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), url)
    variables["no_proxy"] = "localhost,127.0.0.1"  # the loopback of its own network, where it may run servers
    return environment | variables | {name.upper(): value for name, value in variables.items()}


def find_program(command: Command, policy: Policy) -> list[str]:
    """Return the arguments of a command or, if its program cannot be found or run, of a shell that says so.

    The exit code is then 127 or 126, as usual. bubblewrap would exit with 1.
    """
    argv, name = list(command.argv), command.argv[0]
    path = command.environment.get("PATH", "/usr/bin:/bin")
    directories = filter(None, path.split(":")) if "/" not in name else [command.cwd]
    found = [one for one in (os.path.join(directory, name) for directory in directories) if os.path.lexists(one)]
    can_run = any(os.access(one, os.X_OK) and os.path.isfile(one) and policy.may_read(one) for one in found)
    if can_run or not policy.may_read("/bin/sh"):
        return argv
    return ["/bin/sh", "-c", 'exec "$@"' if found else 'echo "sh: $1: not found" >&2; exit 127', "sh", *argv]


def unreadable_program_directories(environment: Mapping[str, str], policy: Policy) -> list[str]:
    """Return the directories of PATH whose programs commands cannot run, such as those of a home directory."""
    directories = dict.fromkeys(filter(os.path.isdir, environment.get("PATH", "").split(":")))
    return [path for path in directories if os.path.isabs(path) and not policy.may_read(os.path.realpath(path))]


def without_unreadable_programs(environment: dict[str, str], policy: Policy) -> dict[str, str]:
    """Return an environment whose PATH has no programs that exist but cannot be run: `which` would find them."""
    unreadable = unreadable_program_directories(environment, policy)
    directories = [path for path in environment.get("PATH", "").split(":") if path not in unreadable]
    return environment | {"PATH": ":".join(directories) or "/usr/bin:/bin"} if unreadable else environment


def _explain_missing_program(code: int, command: Command, policy: Policy) -> list[str]:
    """Return a note if a program may have been missing only because commands cannot read where it is."""
    unreadable = unreadable_program_directories(command.environment, policy) if code == NOT_FOUND else []
    names = describe_paths(unreadable)
    advice = "the user can add a directory, and what its programs need, to sandbox.readable"
    return [f"commands cannot run the programs in {names}: {advice}"] if unreadable else []


def start(
    order: dict[str, Any],
    policy: Policy,
    command: Command,
    watch: Watch,
    cleanup: Sequence[Callable[[], None]] = (),
    explanation: str = "",
) -> SandboxedProcess:
    """Start a command as ordered; raise SandboxError, with everything cleaned up, if a step failed.

    When the command has ended, the `watch` finishes after all functions of `cleanup` were called, the last one first.
    The `explanation` is a note for the caller if the command fails.
    """
    cleanup = [*cleanup]
    mark = os.urandom(8).hex()
    order = order | _limits(policy) | {"environment": order["environment"] | {COMMAND_MARK: mark}}
    ours: list[int] = []
    passed: list[int] = []
    process, proxy = None, None
    try:
        order_fd = launch.anonymous_file(marshal.dumps(order))
        passed.append(order_fd)
        report, report_fd = os.pipe()
        lifeline_fd, lifeline = os.pipe()
        ours += [report, lifeline]
        passed += [report_fd, lifeline_fd]
        door, door_fd = _proxy_socket_pair() if policy.domains else (None, -1)
        if door is not None:
            passed.append(door_fd)
            cleanup.append(door.close)
        notes_fd = launch.anonymous_file(b"")
        passed.append(notes_fd)
        # The watch is not over before the supervisor is, even if we are killed.
        arguments = [order_fd, report_fd, lifeline_fd, notes_fd, door_fd, watch.descriptor]
        supervisor = _start_supervisor(command, arguments, [*passed, *filter(lambda lock: lock >= 0, arguments[5:])])
        process = SandboxedProcess(supervisor, lifeline, watch, cleanup, f"{COMMAND_MARK}={mark}".encode())
        ours.remove(lifeline)
        refusals = list[str]()
        kept_fd = os.dup(notes_fd)
        cleanup.append(lambda: refusals.extend(_take_notes(kept_fd)))
        while passed:
            os.close(passed.pop())
        if door is not None:
            proxy = _open_proxy(door, policy.domains, report, process)
            cleanup.append(proxy.stop)
        failure = _read_report(report, process)
        if failure:
            raise SandboxError(f"the command was not started: {failure}{_read_error_output(process)}")
        refused_hosts = proxy.notes if proxy is not None else list
        process.collect_notes_with(
            lambda code: [
                *refused_hosts(),
                *refusals,
                *filter(None, [explanation if code else ""]),
                *_explain_missing_program(code, command, policy),
            ]
        )
        return process
    except BaseException:
        if process is not None:
            process.kill()
            for pipe in filter(None, (process.stdout, process.stderr)):
                pipe.close()
        while cleanup:
            cleanup.pop()()
        watch.close(keep_record=True)  # it may have begun
        raise
    finally:
        for descriptor in (*ours, *passed):
            os.close(descriptor)


def _start_supervisor(command: Command, arguments: list[int], pass_fds: list[int]) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-I", "-S", "-B", "-c", _START_CODE, _PACKAGES, *map(str, arguments)]
    try:
        return subprocess.Popen(  # noqa: S603  # the arguments are our own
            argv,
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


def _take_notes(descriptor: int) -> list[str]:
    """Return the notes of the supervisor, one for each line, and close their file."""
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read().decode("utf-8", "replace").splitlines()


def _proxy_socket_pair() -> tuple[socket.socket, int]:
    """Return our end of a pair of sockets, and the descriptor of the other one."""
    ours, other = socket.socketpair()
    return ours, other.detach()


def _open_proxy(door: socket.socket, domains: tuple[str, ...], report: int, process: SandboxedProcess) -> Proxy:
    """Start the proxy on the listening socket that the supervisor sends from the command's own network."""
    with door:
        is_ready = _wait_until_readable(door.fileno(), monotonic() + START_S)
        descriptors = socket.recv_fds(door, 1, 1)[1] if is_ready else []
    if not descriptors:
        failure = _read_report(report, process) or "it got no network of its own"
        raise SandboxError(f"the command was not started: {failure}")
    proxy = Proxy(socket.socket(fileno=descriptors[0]), domains)
    proxy.start()
    return proxy


def _read_report(report: int, process: SandboxedProcess) -> str:
    """Read what the supervisor reports until the command has started; return the first failure, or nothing."""
    ends_at, rest = monotonic() + BEGIN_S, b""
    failure, has_started = "", False
    while _wait_until_readable(report, ends_at):
        piece = os.read(report, 4096)
        if not piece:
            return failure or ("" if has_started else "its supervisor ended too early")
        *lines, rest = (rest + piece).split(b"\n")
        for line in (raw.decode("utf-8", "replace") for raw in lines):
            if line.startswith(launch.FIRST_PROCESS):
                number, started_at = line.removeprefix(launch.FIRST_PROCESS).split()
                process.identify_first_process(int(number), int(started_at))
            elif line == launch.STARTED:
                has_started = True
            else:
                failure = failure or line
    return f"it did not begin within {BEGIN_S:g} s"


def _wait_until_readable(descriptor: int, ends_at: float) -> bool:
    """Return whether the descriptor becomes readable in time; raise Cancelled if the call was cancelled."""
    while not _poll(descriptor, CHECK_INTERVAL_MS):
        cancellation.check()
        if monotonic() >= ends_at:
            return False
    return True


def _poll(descriptor: int, timeout_ms: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(timeout_ms))


def _read_error_output(process: SandboxedProcess) -> str:
    """Return what bubblewrap wrote to its error output, if we can read that."""
    if process.stderr is None or not _poll(process.stderr.fileno(), 0):
        return ""
    text = os.read(process.stderr.fileno(), 2000).decode("utf-8", "replace").strip()
    return f": {text}" if text else ""
