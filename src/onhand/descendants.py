"""Who comes from a process? For whoever has to end a command with all that it started, or to know what it uses."""

import os


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
