"""Who comes from a process? For whoever has to end a command with all that it started, or to know what it uses."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # of signal only what is written in C: every confined command waits for what is imported

MAX_LOOKS = 100  # at who is new; five are enough wherever the number of processes is limited
_AT_REST = (b"T", b"t", b"Z", b"X")  # stopped or dead, as in proc(5)


def descendants(ancestor: int) -> list[int]:
    """The children of a process, theirs, and so on, as the system tells of them now; nothing where it does not tell."""
    return list(family(ancestor))


def family(ancestor: int) -> dict[int, list[bytes]]:
    """The same with what the system says of each: the fields of its `stat` from the state on, as in proc(5)."""
    told = {}
    for name in filter(str.isdecimal, os.listdir("/proc") if os.path.isdir("/proc") else []):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
            told[int(name)] = int(fields[1]), fields
        except (OSError, IndexError):
            continue  # it has just ended
    found: dict[int, list[bytes]] = {}
    generation = {ancestor}
    while generation:
        generation = {process for process, (parent, _) in told.items() if parent in generation}
        found.update((process, told[process][1]) for process in sorted(generation))
    return found


def end_descendants(ancestor: int) -> None:
    """Kill all who come from a process that starts nobody more, also those who fork faster than one can look.

    First they are stopped, until a look finds nobody new and everybody at rest: who is killed at once makes room for
    the next fork, and on a busy machine who was told to stop may still be about to fork.
    """
    stopped: dict[int, None] = {}
    for _ in range(MAX_LOOKS):
        there = family(ancestor)
        new = [process for process in there if process not in stopped]
        for process in new:
            _send(process, signal.SIGSTOP)
        stopped |= dict.fromkeys(new)
        if not new and all(state in _AT_REST for state, *_ in there.values()):
            break
    for process in stopped:
        _send(process, signal.SIGKILL)


def _send(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except OSError:  # it has just ended, or is another user's
        return
