"""The supervisor of a sandboxed command: a small process that drops its privileges, starts the command and outlives it.

It is started with an empty environment and reads one order from a descriptor. It confines itself, or the command as it
starts, and watches a lifeline to the launcher. When the command, its time limit or the launcher ends, it kills
everything that the command has left behind; as a subreaper it adopts every orphan. It knows no policy, only the steps
of an order.

The report descriptor tells the launcher how far it got, one line at a time: the identity of bubblewrap's first process,
then either what failed, after which the command does not run, or that the command was started.

Nothing is imported after privileges are dropped, not even a codec, because Python itself may be where only root can
read. Every command waits for these imports, hence marshal instead of json, and only the C part of signal.
"""

import fcntl
import marshal
import os
import resource
import select
import struct
from time import monotonic, process_time

from onhand.processes import kill_descendants, start_time
from onhand.sandbox import kernel
from onhand.sandbox.broker import Broker
from onhand.sandbox.procfs import MAX_DESCRIPTORS, complete_mounts, exceeded_limit, parse_mountinfo, unexpected_mount

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    import signal
    from typing import Any, NoReturn

    Channel = _socket.socket
else:
    import _signal as signal

TIMEOUT_CODE = 124  # as in timeout(1)
START_S = 60.0  # more than mounting takes: bubblewrap needs ten seconds for two thousand mounts
SHOWN_ID = 1000  # of root: as 0, programs would try what only root can do, such as tar to change owners
OOM_SCORE = 500  # of 1000, which would be at once: when memory is short, a command goes before its launcher
CHECK_INTERVAL_S = 0.2  # how often the use of all processes is added up, which takes a millisecond
BUBBLEWRAP_FAILED = "bubblewrap could not set up the sandbox"  # its error output says why
PROXY_PORT = 3128  # always free, in a network of its own
FIRST_PROCESS, STARTED = "first process:", "started"  # lines of the report that are not failures
_SOL_SOCKET, _SCM_RIGHTS = 1, 1
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _UP = 0x8913, 0x8914, 1


def main(order_fd: int, report_fd: int, lifeline_fd: int, notes_fd: int, door_fd: int, lock_fd: int) -> "NoReturn":
    """Carry out the order; never return. The lock is held until nothing of the command is left."""
    with open(order_fd, "rb") as file:
        order = marshal.load(file)  # noqa: S302  # from the launcher, which has all the rights that we have
    if door_fd >= 0:
        import socket  # noqa: F401  # while it can still be read
    channel = _open_channel() if order["landlock"] else ()
    for descriptor in (report_fd, lifeline_fd, notes_fd, lock_fd):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    step = "dropping privileges"
    supervisor = os.getpid()
    try:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        _drop_privileges(order["user"], door_fd, has_own_namespace=bool(order["bubblewrap"]))
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        step = "preparing"
        wakeup = _wake_on_signals()
        pipes = _prepare_descriptors(order["argv"], order["bubblewrap"]) if order["bubblewrap"] else ()
        broker = Broker(order["landlock"]["broker"]) if order["landlock"] else None
        child = os.fork()
    except Exception as error:
        _report(report_fd, f"{error} while {step}")
        os._exit(126)
    if child == 0:
        _run_as_child(order, report_fd, supervisor, *channel[1:])
    first: list[int] = []
    try:
        problem = _release_if_mounted(order["bubblewrap"], report_fd, wakeup, first, *pipes) if pipes else ""
    except Exception as error:
        problem = f"{error} while checking its mounts"
    if problem:
        _kill_everything(first)  # before its pipes are closed, which would release it
        _report(report_fd, problem)
        os._exit(126)
    listener = _receive_listener(*channel) if channel else -1
    _report(report_fd, STARTED)
    os.close(report_fd)
    code, reason = _supervise(child, wakeup, lifeline_fd, order, broker, listener)
    _kill_everything(first)
    if broker is not None:
        os.write(notes_fd, "\n".join(broker.finish()).encode("utf-8", "replace"))
    _complain(reason or _kernel_limit_message(code, *order["together"]))
    os._exit(code)


def _drop_privileges(user: list[int] | None, door_fd: int, *, has_own_namespace: bool) -> None:
    """Become another user, or root without capabilities, if we are root; PermissionError if a capability is left.

    With a `door_fd`, also enter a network without a way out.
    """
    if user is not None:
        _set_oom_score(0)  # set by root, it is a lower bound for all of them
        _hand_over_pipes(user)
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
        if user[0] != 0:
            os.setresuid(user[0], user[0], user[0])
        elif has_own_namespace:
            _enter_user_namespace(SHOWN_ID)
        else:
            if door_fd >= 0:
                _create_network(door_fd)  # which needs privileges to show root as root
            kernel.drop_capabilities_for_good()
            return
    if kernel.capabilities():
        kernel.drop_capabilities()
    if kernel.capabilities() or (user is not None and os.geteuid() == 0):
        raise PermissionError(1, "privileges could not be dropped")
    if door_fd >= 0:
        _create_network(door_fd)
        kernel.drop_capabilities()


def _set_oom_score(score: int) -> None:
    """Raise the readiness of the kernel to kill this process and its children when memory is short."""
    try:
        with open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
            file.write(b"%d" % max(score, int(file.read(16))))
    except OSError:  # we may not change it
        return


def _hand_over_pipes(user: list[int]) -> None:
    """Let the other user open /dev/stdout and the like by name: a pipe belongs to its creator, which was root."""
    for descriptor in (0, 1, 2):
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:"):  # anonymous, so nobody else uses it
                os.fchown(descriptor, *user)
        except OSError:  # it was closed
            continue


def _enter_user_namespace(shown: int, also: int = 0) -> None:
    """Enter a user namespace in which our user and group have one number and no others exist."""
    uid, gid = os.geteuid(), os.getegid()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # as in _run_as_child
    kernel.unshare(kernel.CLONE_NEWUSER | also)
    maps = ("setgroups", "deny"), ("uid_map", f"{shown} {uid} 1"), ("gid_map", f"{shown} {gid} 1")
    for name, text in maps:
        with open(f"/proc/self/{name}", "wb", buffering=0) as file:
            file.write(text.encode())


def _create_network(door_fd: int) -> None:
    """Enter a network without a way out, and send the launcher a listening socket in it, which is the only door."""
    import socket

    _enter_user_namespace(os.geteuid(), kernel.CLONE_NEWNET)
    _enable_loopback()
    with socket.create_server(("127.0.0.1", PROXY_PORT)) as door, socket.socket(fileno=door_fd) as channel:
        socket.send_fds(channel, [b"d"], [door.fileno()])


def _enable_loopback() -> None:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack("16xH14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


def _run_as_child(order: "dict[str, Any]", report_fd: int, supervisor: int, *channel: "Channel") -> "NoReturn":
    """In the child, accept every limit and become the command."""
    step = "starting"
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGIO):
            signal.signal(number, signal.SIG_DFL)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # it died before it could take us along
            os._exit(126)
        step = f"changing to {order['cwd']}"
        os.chdir(order["cwd"])
        step = "setting limits"
        _set_limits(order["limits"])
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # without it, a process that was root may not write to its own /proc
        _set_oom_score(OOM_SCORE)
        if order["landlock"]:
            step = "applying the Landlock rules"
            _apply_landlock(order["landlock"])
            step = "filtering system calls"
            _filter_calls(order["landlock"], *channel)
        step = f"starting {order['argv'][0]}"
        try:
            _execute(order["argv"], order["environment"])
        except PermissionError as error:
            if order["bubblewrap"]:
                raise
            os.write(2, f"{order['argv'][0]}: {error.strerror}\n".encode())
    except Exception as error:
        _report(report_fd, f"{error} while {step}")
    os._exit(126)


def _open_channel() -> "tuple[Channel, Channel]":
    """Return two connected sockets, on which the child sends the supervisor the descriptor for its calls."""
    import _socket  # the C part, while it can still be read

    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)


def _filter_calls(landlock: "dict[str, Any]", channel: "Channel") -> None:
    """Filter system calls, and let the supervisor answer some if this process is not filtered that way already."""
    try:
        listener = kernel.filter_calls_and_listen(landlock["filter"])
    except OSError:
        if not landlock["filter_without_broker"]:
            raise
        kernel.filter_calls(landlock["filter_without_broker"])
    else:
        channel.sendmsg([b"l"], [(_SOL_SOCKET, _SCM_RIGHTS, struct.pack("i", listener))])
        os.close(listener)


def _receive_listener(channel: "Channel", other: "Channel") -> int:
    """Return the descriptor that the child sends, or -1 if it has ended or answers its calls itself."""
    other.close()
    _, data, *_ = channel.recvmsg(1, 64)
    channel.close()
    if not data:
        return -1
    (listener,) = struct.unpack("i", data[0][2])
    os.set_inheritable(listener, False)
    return int(listener)


def _prepare_descriptors(argv: list[str], plan: "dict[str, Any]") -> tuple[int, ...]:
    """Add bubblewrap's descriptors to its arguments; return our ends of its two pipes, then the descriptors.

    On one pipe it names its first process, and on the other it waits to be released. Its options are passed in a file,
    not as arguments, which everybody on the machine can read, nor in its environment, which would take effect before
    the sandbox is set up.
    """
    info_fd, info_writer = os.pipe()
    release_reader, release_fd = os.pipe()
    passed = (info_writer, release_reader, anonymous_file(plan["filter"]), anonymous_file(plan["options"]))
    for flag, descriptor in zip(("--info-fd", "--block-fd", "--seccomp", "--args"), passed, strict=True):
        os.set_inheritable(descriptor, True)
        argv[1:1] = [flag, str(descriptor)]
    return info_fd, release_fd, *passed


def anonymous_file(content: bytes) -> int:
    """Return a descriptor of a file without a name; a pipe would have to be read while it is written."""
    descriptor = os.memfd_create("onhand")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _release_if_mounted(
    plan: "dict[str, Any]", report_fd: int, wakeup: int, first: list[int], info_fd: int, release_fd: int, *passed: int
) -> str:
    """Check bubblewrap's mounts and release the waiting command; return what is wrong instead, or nothing.

    A descriptor of the first process of its namespace is added to `first`.
    """
    for descriptor in passed:
        os.close(descriptor)
    end = monotonic() + START_S
    process = _first_process(info_fd, end)
    if not process:
        return "bubblewrap did not begin in time" if process is None else BUBBLEWRAP_FAILED
    first += _open_process(process)
    _report(report_fd, f"{FIRST_PROCESS} {process} {start_time(process)}")
    host = parse_mountinfo(_read_mountinfo("self"))
    began = process_time()
    while not (found := complete_mounts(lambda: _read_mountinfo(str(process)), host)):
        if monotonic() > end:
            return f"bubblewrap had not mounted everything after {START_S:g} s"
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return BUBBLEWRAP_FAILED
        pause_s = max(0.002, 5 * (process_time() - began))  # reading the list blocks mounting in the kernel
        if select.select([wakeup], [], [], pause_s)[0] and _received_stop(wakeup):
            return "it was stopped before it began"
        began = process_time()
    place = unexpected_mount(found, host, plan["bound"], plan["hidden"], _terminal())
    if place is not None:
        name = repr(os.fsdecode(place))
        return f"{name} is not mounted as planned, because another command is moving files; try again when it has ended"
    os.write(release_fd, b"g")
    os.close(release_fd)
    return ""


def _open_process(process: int) -> list[int]:
    try:
        return [kernel.open_process(process)]
    except OSError:  # it has just ended
        return []


def _first_process(info_fd: int, end: float) -> int | None:
    """Return the first process of the new pid namespace, 0 if bubblewrap has ended, or None if it is late."""
    info, piece = b"", b"?"
    while piece and b"}" not in info:
        if not select.select([info_fd], [], [], max(0, end - monotonic()))[0]:
            return None
        piece = os.read(info_fd, 4096)
        info += piece
    os.close(info_fd)
    number = info.partition(b'"child-pid":')[2].partition(b",")[0].strip(b" \n}")
    return int(number) if piece else 0


def _terminal() -> bytes:
    """Return the terminal of the command's output, if any, which bubblewrap mounts as /dev/console."""
    try:
        return os.fsencode(os.ttyname(1))
    except OSError:
        return b""


def _read_mountinfo(process: str) -> bytes:
    try:
        with open(f"/proc/{process}/mountinfo", "rb") as file:
            return file.read()
    except OSError:  # it has just ended
        return b""


def _execute(argv: list[str], environment: dict[str, str]) -> None:
    """Do what os.execvpe does without an import, and without taking an empty PATH entry for the current directory."""
    name = argv[0]
    failure: OSError = FileNotFoundError(2, "No such file or directory", name)
    directories = environment.get("PATH", "/usr/bin:/bin").split(":") if "/" not in name else [""]
    for directory in directories:
        if directory or "/" in name:
            path = os.path.join(directory, name)
            try:
                os.execve(path, argv, environment)  # noqa: S606  # running the command is its purpose
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError as error:
                failure = error if os.access(path, os.F_OK) else failure  # else its directory is closed: not found
    raise failure


def _set_limits(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        kind = getattr(resource, name)
        value += _count_tasks() if name == "RLIMIT_NPROC" else 0  # the kernel counts all of the user's
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # A process that has used its CPU time gets SIGXCPU, and is killed a second later if it goes on.
        resource.setrlimit(kind, (most, most + 1 if name == "RLIMIT_CPU" and most == value else most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _count_tasks() -> int:
    """Return the number of processes and threads of our user."""
    count = 0
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return count


def _apply_landlock(landlock: "dict[str, Any]") -> None:
    version = kernel.landlock_version()
    files, network, scopes = landlock["handled"]
    rules = kernel.landlock_create(files, network, scopes, version)
    for path, rights in landlock["rules"]:
        try:
            kernel.landlock_allow(rules, path, rights)
        except OSError:
            continue  # it no longer exists, or is a link now: it stays closed
    kernel.landlock_restrict(rules)
    os.close(rules)


def _wake_on_signals() -> int:
    """Return a descriptor that becomes readable with every signal."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # sent when somebody opens a file of the broker's in the meantime
    return reader


def _supervise(
    child: int, wakeup: int, lifeline_fd: int, order: "dict[str, Any]", broker: Broker | None, listener: int
) -> tuple[int, str]:
    """Wait for the end of the command, of its limits or of the launcher, or for a signal.

    Return the exit code for whatever comes first, and a reason if the user would wonder about it.
    """
    deadline = None if order["wall_s"] is None else monotonic() + order["wall_s"]
    poller = select.poll()
    poller.register(wakeup, select.POLLIN)
    poller.register(lifeline_fd, select.POLLIN)
    if listener >= 0:
        poller.register(listener, select.POLLIN)
    # The kernel limits everybody's processes but root's; two are bubblewrap's own.
    most = order["processes"] + 2 if order["user"] and order["user"][0] == 0 else None
    check_at = monotonic() + CHECK_INTERVAL_S
    while True:
        has_ended, status = _reap(child)
        if has_ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code, ""
        now = monotonic()
        if deadline is not None and now >= deadline:
            return TIMEOUT_CODE, f"it exceeded its time limit of {order['wall_s']:g} s"
        if now >= check_at:
            limit = exceeded_limit(
                os.getpid(),
                *order["together"],
                tasks=most,
                temporary=order["temporary"],
                shared_bytes=broker.shared_bytes() if broker is not None else 0,
            )
            if limit:
                return _limit_outcome(limit, *order["together"], processes=order["processes"])
            check_at = monotonic() + CHECK_INTERVAL_S
        next_at = check_at if deadline is None else min(check_at, deadline)
        for descriptor, events in poller.poll(max(1, (next_at - now) * 1000)):
            if descriptor == lifeline_fd:
                return 128 + signal.SIGKILL, ""
            if descriptor == listener and broker is not None:
                if events & select.POLLIN:
                    broker.answer(listener)
                else:
                    poller.unregister(listener)  # no process is left that could make a call
            elif _received_stop(wakeup):
                return 128 + signal.SIGTERM, ""


def _received_stop(wakeup: int) -> bool:
    """Return whether one of the received signals asks us to stop; SIGCHLD only reports a child."""
    return any(number != signal.SIGCHLD for number in os.read(wakeup, 512))


def _kernel_limit_message(code: int, memory_bytes: int, cpu_s: int) -> str:
    """Return the message for a command that the kernel ended because its CPU time was used up."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The limit counts clock ticks, which on a virtual machine can be much more than the time that was really used.
    is_used = used.ru_utime + used.ru_stime > 0.25 * cpu_s
    if code != 128 + signal.SIGXCPU or not is_used:  # a command can also exit with that code itself
        return ""
    return _limit_outcome("cpu", memory_bytes, cpu_s)[1]


def _limit_outcome(limit: str, memory_bytes: int, cpu_s: int, *, processes: int = 0) -> tuple[int, str]:
    """Return the exit code that the kernel uses when one process exceeds the same limit, and a message."""
    if limit == "open":
        return 128 + signal.SIGKILL, f"its processes together had more than {MAX_DESCRIPTORS} files open"
    if limit == "processes":
        had = f"had more than {processes} processes and threads, the limit set by sandbox.processes or --processes"
        return 128 + signal.SIGKILL, f"it {had}"
    if limit == "memory":
        used = f"used more than {memory_bytes >> 20} MiB of memory, the limit set by sandbox.memory_mb or --memory"
        return 128 + signal.SIGKILL, f"its processes together {used}"
    used = f"used more than {cpu_s} s of CPU time, the limit set by sandbox.cpu_s or --cpu"
    return 128 + signal.SIGXCPU, f"its processes together {used}"


def _complain(reason: str) -> None:
    """Write the reason to the command's error output, unless nothing reads it."""
    if reason and select.select([], [2], [], 0)[1]:  # else we would block, and the launcher with us
        try:
            os.write(2, f"onhand: the command was ended: {reason}\n".encode())
        except OSError:
            return


def _reap(child: int) -> tuple[bool, int]:
    """Return whether the command has ended, and its status; also reap orphans that were left to us."""
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True, 0
        if process in (0, child):
            return process == child, status


def _kill_everything(first: list[int]) -> None:
    """Kill all descendants until none is left: the children of every parent that dies become ours.

    When the first process of a namespace dies, nothing in it can fork any more, which matters where nothing else limits
    the number of processes.
    """
    for process in first:
        try:
            kernel.signal_process(process, signal.SIGKILL)
        except OSError:  # it has ended
            continue
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # so we have no descendants, which saves a look at every process of the machine
            return
        kill_descendants(os.getpid())
        select.select([], [], [], 0.002)


def _report(report_fd: int, line: str) -> None:
    try:
        os.write(report_fd, line.encode("utf-8", "replace")[:4000] + b"\n")
    except BrokenPipeError:  # the launcher has ended, which the lifeline shows too
        return
