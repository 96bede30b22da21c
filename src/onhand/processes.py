"""Find and kill descendants of a process, members of a session, or processes with a mark in their environment."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    ProcessTable = dict[int, list[bytes]]
else:
    import _signal as signal  # only the C part of signal: every sandboxed command waits for these imports

COMMAND_MARK = "_ONHAND_COMMAND"  # the environment variable by which the processes of one command are found
MAX_SCANS = 100  # for new processes; five suffice wherever the number of processes is limited
_DEAD_STATES = (b"Z", b"X")  # as in proc(5)
# Stopped, or waiting in the kernel, where a signal takes effect before anything else.
_RESTING_STATES = (b"T", b"t", b"D")
_PARENT, _SESSION, _START_TIME = 1, 3, 19  # positions in the fields of a ProcessTable


def descendants(ancestor: int) -> "ProcessTable":
    """Return all current descendants of a process; an empty table where there is no /proc.

    The values are the fields of /proc/PID/stat from the state on, as in proc(5).
    """
    return _descendants_of({ancestor}, _read_table())


def start_time(process: int) -> int:
    """Return when a process started, in clock ticks since boot, or 0 if it has ended.

    Together with its number, this identifies a process: numbers are reused.
    """
    fields = _read_stat(process)
    return int(fields[_START_TIME]) if fields else 0


def kill_descendants(ancestor: int) -> list[int]:
    """Kill all descendants of a process that starts no more children, including fork bombs.

    Return the processes that survive: those of other users accept no signal from us.
    """
    return _stop_then_kill(lambda: descendants(ancestor))


def kill_processes_with_variable(mark: bytes) -> list[int]:
    """Kill all processes whose environment has NAME=value, which children inherit; return those that survive."""
    return _stop_then_kill(lambda: _select_marked(mark, _read_table()))


def kill_session(leader: int, mark: bytes = b"") -> list[int]:
    """Kill the session of a process that has ended, processes that carry a mark, and the descendants of both.

    Return the processes that survive.
    """

    def look() -> "ProcessTable":
        table = _read_table()
        found = {process: fields for process, fields in table.items() if int(fields[_SESSION]) == leader}
        if mark:
            found |= _select_marked(mark, table)
        return found | _descendants_of(set(found), table)

    return _stop_then_kill(look)


def send_signal(process: int, number: int) -> bool:
    """Send a signal; return False if the process belongs to another user and cannot be signalled."""
    try:
        os.kill(process, number)
    except PermissionError:
        return False
    except OSError:  # it has just ended
        return True
    return True


def _read_table() -> "ProcessTable":
    names = os.listdir("/proc") if os.path.isdir("/proc") else []
    return {int(name): fields for name in names if name.isdecimal() and (fields := _read_stat(int(name)))}


def _read_stat(process: int) -> list[bytes]:
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()
    except OSError:
        return []  # it has just ended


def _descendants_of(ancestors: set[int], table: "ProcessTable") -> "ProcessTable":
    found: ProcessTable = {}
    generation = ancestors
    while generation:
        children = {process for process, fields in table.items() if int(fields[_PARENT]) in generation}
        generation = children - found.keys()
        found.update((process, table[process]) for process in sorted(generation))
    return found


def _select_marked(mark: bytes, table: "ProcessTable") -> "ProcessTable":
    return {process: fields for process, fields in table.items() if mark in _read_environment(process)}


def _read_environment(process: int) -> list[bytes]:
    try:
        with open(f"/proc/{process}/environ", "rb") as environ:
            return environ.read().split(b"\0")
    except OSError:
        return []  # it has just ended, or belongs to another user


def _stop_then_kill(look: "Callable[[], ProcessTable]") -> list[int]:
    """Stop the processes until a scan finds no new one and all at rest, then kill them; return those that survive.

    Killing at once would make room for the next fork, and on a busy machine a process sent SIGSTOP may still be
    about to fork.
    """
    obeys: dict[int, bool] = {}
    for _ in range(MAX_SCANS):
        alive = {process: fields[0] for process, fields in look().items() if fields[0] not in _DEAD_STATES}
        new = {process: send_signal(process, signal.SIGSTOP) for process in alive if process not in obeys}
        obeys |= new
        if not new and all(state in _RESTING_STATES or not obeys[process] for process, state in alive.items()):
            break
    return [process for process in obeys if not send_signal(process, signal.SIGKILL)]
