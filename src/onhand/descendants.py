"""Who comes from a process, or carries its mark? To end a command with all that it started, or to know what it uses."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    Family = dict[int, list[bytes]]
else:
    import _signal as signal  # of signal only what is written in C: every confined command waits for what is imported

MAX_LOOKS = 100  # at who is new; five are enough wherever the number of processes is limited
_DEAD = (b"Z", b"X")  # as in proc(5)
_AT_REST = (b"T", b"t", b"D")  # stopped, or waiting in the kernel, where a signal is met before anything else is done


def family(ancestor: int) -> "Family":
    """The children of a process, theirs, and so on, as the system tells of them now; nothing where it does not tell.

    With each, what the system says of it: the fields of its `stat` from the state on, as in proc(5).
    """
    told = {process: fields for process in _processes() if (fields := _told(process))}
    found: Family = {}
    generation = {ancestor}
    while generation:
        generation = {process for process, fields in told.items() if int(fields[1]) in generation}
        found.update((process, told[process]) for process in sorted(generation))
    return found


def marked(mark: bytes) -> "Family":
    """Who was started with a variable such as NAME=value, or by somebody who was, and did not put it off."""
    carriers = [process for process in _processes() if mark in _environment(process)]
    return {process: fields for process in carriers if (fields := _told(process))}


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()] if os.path.isdir("/proc") else []


def _told(process: int) -> list[bytes]:
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()
    except OSError:
        return []  # it has just ended


def _environment(process: int) -> list[bytes]:
    try:
        with open(f"/proc/{process}/environ", "rb") as environ:
            return environ.read().split(b"\0")
    except OSError:
        return []  # it has just ended, or is another user's


def end_descendants(ancestor: int) -> list[int]:
    """Kill all who come from a process that starts nobody more, also those who fork faster than one can look.

    It gives those that go on: another user's processes take no signal of ours.
    """
    return _end(lambda: family(ancestor))


def end_marked(mark: bytes) -> list[int]:
    """Kill all who carry a mark, in the same way."""
    return _end(lambda: marked(mark))


def end_session(leader: int) -> list[int]:
    """Kill all who are in the session of a process that has ended; not who began one of their own."""
    return _end(
        lambda: {process: told for process in _processes() if (told := _told(process)) and int(told[3]) == leader}
    )


def _end(look: "Callable[[], Family]") -> list[int]:
    """First they are stopped, until a look finds nobody new and everybody at rest.

    Who is killed at once makes room for the next fork, and on a busy machine who was told to stop may still be about to
    fork.
    """
    obeys: dict[int, bool] = {}
    for _ in range(MAX_LOOKS):
        there = {process: fields[0] for process, fields in look().items() if fields[0] not in _DEAD}
        new = {process: send(process, signal.SIGSTOP) for process in there if process not in obeys}
        obeys |= new
        if not new and all(state in _AT_REST or not obeys[process] for process, state in there.items()):
            break
    return [process for process in obeys if not send(process, signal.SIGKILL)]


def send(process: int, number: int) -> bool:
    """Send a signal; False when the process is another user's, and so takes none of ours."""
    try:
        os.kill(process, number)
    except PermissionError:
        return False
    except OSError:  # it has just ended
        return True
    return True
