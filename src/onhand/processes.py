"""Find and kill the descendants of a process, or all processes that carry a mark in their environment."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    ProcessTable = dict[int, list[bytes]]
else:
    import _signal as signal  # only the C part of signal: every sandboxed command waits for these imports

MAX_SCANS = 100  # for new processes; five suffice wherever the number of processes is limited
_DEAD_STATES = (b"Z", b"X")  # as in proc(5)
_RESTING_STATES = (
    b"T",
    b"t",
    b"D",
)  # stopped, or waiting in the kernel, where a signal takes effect before anything else


def descendants(ancestor: int) -> "ProcessTable":
    """Return all current descendants of a process; an empty table where there is no /proc.

    The values are the fields of /proc/PID/stat from the state on, as in proc(5).
    """
    table = {process: fields for process in _process_ids() if (fields := _read_stat(process))}
    found: ProcessTable = {}
    generation = {ancestor}
    while generation:
        generation = {process for process, fields in table.items() if int(fields[1]) in generation}
        found.update((process, table[process]) for process in sorted(generation))
    return found


def processes_with_variable(mark: bytes) -> "ProcessTable":
    """Return the processes whose environment has NAME=value, which children inherit unless they remove it."""
    carriers = [process for process in _process_ids() if mark in _read_environment(process)]
    return {process: fields for process in carriers if (fields := _read_stat(process))}


def _process_ids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()] if os.path.isdir("/proc") else []


def _read_stat(process: int) -> list[bytes]:
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()
    except OSError:
        return []  # it has just ended


def _read_environment(process: int) -> list[bytes]:
    try:
        with open(f"/proc/{process}/environ", "rb") as environ:
            return environ.read().split(b"\0")
    except OSError:
        return []  # it has just ended, or belongs to another user


def kill_descendants(ancestor: int) -> list[int]:
    """Kill all descendants of a process that starts no more children, including fork bombs.

    Return the processes that survive: those of other users accept no signal from us.
    """
    return _stop_then_kill(lambda: descendants(ancestor))


def kill_processes_with_variable(mark: bytes) -> list[int]:
    """Kill all processes that carry a mark, in the same way."""
    return _stop_then_kill(lambda: processes_with_variable(mark))


def kill_session(leader: int) -> list[int]:
    """Kill the processes in the session of a process that has ended, except those with their own session."""
    return _stop_then_kill(
        lambda: {
            process: table for process in _process_ids() if (table := _read_stat(process)) and int(table[3]) == leader
        }
    )


def _stop_then_kill(look: "Callable[[], ProcessTable]") -> list[int]:
    """Stop the processes until a scan finds no new one and all at rest, then kill them.

    Killing at once would make room for the next fork, and on a busy machine a process sent SIGSTOP may still be
    about to fork.
    """
    obeys: dict[int, bool] = {}
    for _ in range(MAX_SCANS):
        there = {process: fields[0] for process, fields in look().items() if fields[0] not in _DEAD_STATES}
        new = {process: send_signal(process, signal.SIGSTOP) for process in there if process not in obeys}
        obeys |= new
        if not new and all(state in _RESTING_STATES or not obeys[process] for process, state in there.items()):
            break
    return [process for process in obeys if not send_signal(process, signal.SIGKILL)]


def send_signal(process: int, number: int) -> bool:
    """Send a signal; return False if the process belongs to another user and cannot be signalled."""
    try:
        os.kill(process, number)
    except PermissionError:
        return False
    except OSError:  # it has just ended
        return True
    return True
