"""The supervisor of a sandboxed command: a small process that drops its privileges, starts it and ends with it.

It is started with an empty environment and reads one order from a descriptor. It confines itself before or while it
starts the command, watches a lifeline to whoever ordered it, and when the command, its time or that one ends, it leaves
nothing of the command behind: it adopts every orphan. Whatever cannot be done is told over the report descriptor, and
then the command was not started. It knows no policy, only the steps of an order.

Nothing is imported after rights are given up, not even a codec: Python itself may be where only root can read. And
every command waits for what is imported here: hence marshal and not json, and of signal only what is written in C.
"""

import fcntl
import marshal
import os
import resource
import select
import struct
from time import monotonic, process_time

from onhand.processes import kill_descendants
from onhand.sandbox import kernel
from onhand.sandbox.procfs import MAX_DESCRIPTORS, complete_mounts, exceeded_limit, parse_mountinfo, unexpected_mount

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any, NoReturn
else:
    import _signal as signal

TIMEOUT_CODE = 124  # as timeout(1) says it
START_S = 60.0  # more than mounting takes: bubblewrap needs ten seconds for two thousand mounts
OOM_SCORE = 500  # of 1000, which is at once: a command goes before whoever ordered it
CHECK_INTERVAL_S = 0.2  # how often it is looked at what all processes use: a look takes a millisecond
BUBBLEWRAP_FAILED = "bubblewrap could not put up its walls"  # it has ended, and said why
PROXY_PORT = 3128  # in a network of its own, so it is always free
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _UP = 0x8913, 0x8914, 1


def main(order_fd: int, report_fd: int, lifeline_fd: int, door_fd: int) -> "NoReturn":
    """Follow the order; never returns."""
    with open(order_fd, "rb") as file:
        order = marshal.load(file)  # noqa: S302  # of whoever started us, with all the rights that we have
    if door_fd >= 0:
        import socket  # noqa: F401  # while it can be read
    for descriptor in (report_fd, lifeline_fd):
        os.set_inheritable(descriptor, False)
    step = "giving up rights"
    try:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        _drop_privileges(order["user"])
        if door_fd >= 0:
            _create_network(door_fd)
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        step = "getting ready"
        wakeup = _wake_on_signals()
        pipes = _prepare_descriptors(order["argv"], order["bubblewrap"]) if order["bubblewrap"] else ()
        child = os.fork()
    except Exception as error:
        _report(report_fd, f"{error} while {step}")
        os._exit(126)
    if child == 0:
        _run_as_child(order, report_fd)
    try:
        problem = _unexpected_mount(order["bubblewrap"], wakeup, *pipes) if pipes else ""
    except Exception as error:
        problem = f"{error} while looking at its mounts"
    if problem:
        _kill_everything()  # before anything is let go
        _report(report_fd, problem)
        os._exit(126)
    os.close(report_fd)
    code, reason = _supervise(child, wakeup, lifeline_fd, order)
    _kill_everything()
    _complain(reason or _kernel_limit_message(code, *order["together"]))
    os._exit(code)


def _drop_privileges(user: list[int] | None) -> None:
    """Become another user when we are root: that alone takes every capability away. None may be left."""
    if user is not None:
        _set_oom_score(0)  # said by root, none of them can go back behind it
        _hand_over_pipes(user)
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
        os.setresuid(user[0], user[0], user[0])
    if kernel.capabilities():
        kernel.drop_capabilities()
    if kernel.capabilities() or (user is not None and os.geteuid() == 0):
        raise PermissionError(1, "rights could not be given up")


def _set_oom_score(score: int) -> None:
    """Let the kernel end this process, and those that come from it, the more readily when memory is short."""
    try:
        with open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
            file.write(b"%d" % max(score, int(file.read(16))))
    except OSError:  # it is not ours to say
        return


def _hand_over_pipes(user: list[int]) -> None:
    """Let the other user open /dev/stdout and its like by name: a pipe is its maker's, who was root."""
    for descriptor in (0, 1, 2):
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:"):  # without a name, and nobody else's
                os.fchown(descriptor, *user)
        except OSError:  # it was closed
            continue


def _create_network(door_fd: int) -> None:
    """Enter a network without any way out, and hand a listening socket in it to whoever ordered us: the only door."""
    import socket

    uid, gid = os.geteuid(), os.getegid()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # as in _become
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "wb", buffering=0) as file:
            file.write(text.encode())
    _raise_loopback()
    with socket.create_server(("127.0.0.1", PROXY_PORT)) as door, socket.socket(fileno=door_fd) as channel:
        socket.send_fds(channel, [b"d"], [door.fileno()])
    kernel.drop_capabilities()


def _raise_loopback() -> None:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack("16xH14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


def _run_as_child(order: "dict[str, Any]", report_fd: int) -> "NoReturn":
    """In the child: take on every limit, then the command itself."""
    step = "starting"
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        step = f"going to {order['cwd']}"
        os.chdir(order["cwd"])
        step = "setting limits"
        _limit(order["limits"])
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # whoever was root before may not write to its own /proc otherwise
        _set_oom_score(OOM_SCORE)
        if order["landlock"]:
            step = "setting Landlock's rules"
            _confine(order["landlock"])
            step = "filtering system calls"
            kernel.filter_calls(order["landlock"]["filter"])
        step = f"starting {order['argv'][0]}"
        _run(order["argv"], order["environment"])
    except Exception as error:
        _report(report_fd, f"{error} while {step}")
    os._exit(126)


def _prepare_descriptors(argv: list[str], given: "dict[str, Any]") -> tuple[int, ...]:
    """Our ends of two pipes, where bubblewrap tells of itself and waits to be let go; then all that is its own.

    It learns of them by its words. Its options are not among those, which everybody on the machine can read, nor in its
    environment, which would have a say before there are walls.
    """
    told_fd, tell_fd = os.pipe()
    wait_fd, go_fd = os.pipe()
    theirs = (tell_fd, wait_fd, anonymous_file(given["filter"]), anonymous_file(given["options"]))
    for flag, descriptor in zip(("--info-fd", "--block-fd", "--seccomp", "--args"), theirs, strict=True):
        os.set_inheritable(descriptor, True)
        argv[1:1] = [flag, str(descriptor)]
    return told_fd, go_fd, *theirs


def anonymous_file(content: bytes) -> int:
    """Return a descriptor of a file without a name; a pipe would have to be read while it is written."""
    descriptor = os.memfd_create("onhand")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _unexpected_mount(plan: "dict[str, Any]", wakeup: int, told_fd: int, go_fd: int, *theirs: int) -> str:
    """Return the place that is not mounted as planned, or nothing once the waiting command was released."""
    for descriptor in theirs:
        os.close(descriptor)
    end = monotonic() + START_S
    process = _first_process(told_fd, end)
    if not process:
        return "bubblewrap did not begin in time" if process is None else BUBBLEWRAP_FAILED
    host = parse_mountinfo(_mountinfo(b"self"))
    began = process_time()
    while not (found := complete_mounts(lambda: _mountinfo(process), host)):
        if monotonic() > end:
            return f"bubblewrap had not mounted everything after {START_S:g} s"
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return BUBBLEWRAP_FAILED
        pause_s = max(0.002, 5 * (process_time() - began))  # nobody can mount while somebody looks
        if select.select([wakeup], [], [], pause_s)[0] and _is_asked_to_stop(wakeup):
            return "it was ended before it began"
        began = process_time()
    place = unexpected_mount(found, host, plan["bound"], plan["hidden"], _terminal())
    if place is not None:
        named = repr(os.fsdecode(place))
        return f"{named} is not mounted as planned: another command moves files about; try again when it has ended"
    os.write(go_fd, b"g")
    os.close(go_fd)
    return ""


def _first_process(told_fd: int, end: float) -> bytes | None:
    """Return the process that will be the command, empty if bubblewrap has ended instead, None if it is late."""
    told, piece = b"", b"?"
    while piece and b"}" not in told:
        if not select.select([told_fd], [], [], max(0, end - monotonic()))[0]:
            return None
        piece = os.read(told_fd, 4096)
        told += piece
    os.close(told_fd)
    number = told.partition(b'"child-pid":')[2].partition(b",")[0].strip(b" \n}")
    return b"%d" % int(number) if piece else b""


def _terminal() -> bytes:
    """Return the terminal that the command's output goes to, if any: bubblewrap makes it /dev/console."""
    try:
        return os.fsencode(os.ttyname(1))
    except OSError:
        return b""


def _mountinfo(process: bytes) -> bytes:
    try:
        with open(b"/proc/%s/mountinfo" % process, "rb") as file:
            return file.read()
    except OSError:  # it has just ended
        return b""


def _run(argv: list[str], environment: dict[str, str]) -> None:
    """As os.execvpe, which imports a module on the way; and an empty entry of PATH is not the current directory."""
    name = argv[0]
    failure: OSError = FileNotFoundError(2, "No such file or directory", name)
    directories = environment.get("PATH", "/usr/bin:/bin").split(":") if "/" not in name else [""]
    for directory in directories:
        if directory or "/" in name:
            path = os.path.join(directory, name)
            try:
                os.execve(path, argv, environment)  # noqa: S606  # the point of it all
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError as error:
                failure = error if os.access(path, os.F_OK) else failure  # else its directory is closed: not found
    raise failure


def _limit(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        kind = getattr(resource, name)
        value += _tasks() if name == "RLIMIT_NPROC" else 0  # the kernel counts all of a user's
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # Who has used its time is told by a signal of its own, and killed a second later if it goes on.
        resource.setrlimit(kind, (most, most + 1 if name == "RLIMIT_CPU" and most == value else most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _tasks() -> int:
    """Return the number of processes and threads of our user."""
    count = 0
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return count


def _confine(landlock: "dict[str, Any]") -> None:
    version = kernel.landlock_version()
    files, network, scopes = landlock["handled"]
    rules = kernel.landlock_create(files, network, scopes, version)
    for path, rights in landlock["rules"]:
        try:
            kernel.landlock_allow(rules, path, rights)
        except OSError:
            continue  # gone, or a link now: it stays closed
    kernel.landlock_restrict(rules)
    os.close(rules)


def _wake_on_signals() -> int:
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reader


def _supervise(child: int, wakeup: int, lifeline_fd: int, order: "dict[str, Any]") -> tuple[int, str]:
    """Wait for the command, its time, what it may use, a signal or the end of whoever ordered us.

    What comes first decides the code, and what a person would wonder about is a sentence.
    """
    deadline = None if order["wall_s"] is None else monotonic() + order["wall_s"]
    poller = select.poll()
    poller.register(wakeup, select.POLLIN)
    poller.register(lifeline_fd, select.POLLIN)
    look_at = monotonic() + CHECK_INTERVAL_S
    while True:
        ended, status = _reap(child)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code, ""
        now = monotonic()
        if deadline is not None and now >= deadline:
            return TIMEOUT_CODE, f"its time of {order['wall_s']:g} s was over"
        if now >= look_at:
            passed = exceeded_limit(os.getpid(), *order["together"], temporary=order["temporary"])
            if passed:
                return _limit_outcome(passed, *order["together"])
            look_at = monotonic() + CHECK_INTERVAL_S
        next_at = look_at if deadline is None else min(look_at, deadline)
        for descriptor, _ in poller.poll(max(1, (next_at - now) * 1000)):
            if descriptor == lifeline_fd:
                return 128 + signal.SIGKILL, ""
            if _is_asked_to_stop(wakeup):
                return 128 + signal.SIGTERM, ""


def _is_asked_to_stop(wakeup: int) -> bool:
    """Return whether one of the received signals asks us to stop; the others report a child."""
    return any(number != signal.SIGCHLD for number in os.read(wakeup, 512))


def _kernel_limit_message(code: int, memory_bytes: int, cpu_s: int) -> str:
    """Return the message for a command that the kernel ended because its CPU time was used up."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The limit counts in ticks, which on a machine of lent processors can be much more than what was run.
    is_used = used.ru_utime + used.ru_stime > 0.25 * cpu_s
    if code != 128 + signal.SIGXCPU or not is_used:  # a command may only say so itself
        return ""
    return _limit_outcome("cpu", memory_bytes, cpu_s)[1]


def _limit_outcome(passed: str, memory_bytes: int, cpu_s: int) -> tuple[int, str]:
    """Return the exit code that the kernel uses when one process exceeds the same limit, and a message."""
    if passed == "open":
        return 128 + signal.SIGKILL, f"its processes together had more than {MAX_DESCRIPTORS} files open"
    if passed == "memory":
        used = f"had more than {memory_bytes >> 20} MiB of memory, the limit of sandbox.memory_mb or --memory"
        return 128 + signal.SIGKILL, f"its processes together {used}"
    used = f"used more than {cpu_s} s of processor time, the limit of sandbox.cpu_s or --cpu"
    return 128 + signal.SIGXCPU, f"its processes together {used}"


def _complain(reason: str) -> None:
    """Write the reason to the command's error output, unless nothing reads it."""
    if reason and select.select([], [2], [], 0)[1]:  # else whoever waits for us would wait for ever
        try:
            os.write(2, f"onhand: the command was ended: {reason}\n".encode())
        except OSError:
            return


def _reap(child: int) -> tuple[bool, int]:
    """Return whether the command has ended, and its status; reap its orphans on the way."""
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True, 0
        if process in (0, child):
            return process == child, status


def _kill_everything() -> None:
    """Kill what is left until nothing is: the children of every parent that dies become ours."""
    while True:
        kill_descendants(os.getpid())
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        select.select([], [], [], 0.002)


def _report(report_fd: int, text: str) -> None:
    os.write(report_fd, text.encode("utf-8", "replace")[:4000] + b"\n")
