"""Who comes from a process? One function, for whoever has to end a command with all that it started."""

import os


def descendants(ancestor: int) -> list[int]:
    """The children of a process, theirs, and so on, as the system tells of them now; nothing where it does not tell."""
    parents = {}
    for name in filter(str.isdecimal, os.listdir("/proc") if os.path.isdir("/proc") else []):
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                parents[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has just ended
    found: list[int] = []
    generation = {ancestor}
    while generation:
        generation = {process for process, parent in parents.items() if parent in generation}
        found += sorted(generation)
    return found
