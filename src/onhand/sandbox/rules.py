"""Which Landlock rules say what a layout says? Landlock only ever allows, so what is refused is cut out.

A directory with something in it that must not be written, there or not, is itself not opened for new entries: a right
on a directory holds for everything below. So under Landlock such a directory keeps its entries, while those that may be
written can be changed and, where they are directories, filled.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from onhand.sandbox.layout import Layout
from onhand.sandbox.policy import upwards

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ENTRIES = sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12, 13))  # remove and make, but no devices; link and rename
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
READ = _EXECUTE | _READ_FILE | _READ_DIR
LIST = _READ_DIR
WRITE = _WRITE_FILE | _TRUNCATE | _ENTRIES

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
LEAST_VERSION = 3  # before it, a file that may only be read can be truncated
SIGNAL_VERSION = 6  # before it, a command can send signals to other processes of its user
MAX_RULES = 20_000  # some tenths of a second


class Rule(NamedTuple):
    """Rights on a path and all below it."""

    path: str
    rights: int


def handled(version: int, tcp: bool = True) -> tuple[int, int, int]:
    """What the rules decide about, as far as the kernel knows it: files, TCP if asked to, signals and sockets."""
    files = (1 << (16 if version >= 5 else 15)) - 1
    return files, 3 if tcp and version >= 4 else 0, 3 if version >= SIGNAL_VERSION else 0


def of(layout: Layout) -> list[Rule]:
    """The rules of a layout; what is not there now gets none, and so stays closed."""
    rules = [Rule(device, _READ_FILE | _WRITE_FILE) for device in DEVICES]
    rules.append(Rule("/proc", READ))  # what other processes hold there, the kernel keeps from a confined one
    secret = {*layout.hidden, *(missing.path for missing in layout.missing)}
    ways = _ways(secret)
    for root in (*layout.readable, *layout.writable):
        rules += _carved(root, READ, LIST, secret, ways)
    for root in layout.writable:
        holes = {*layout.holes(root)}
        rules += _carved(root, WRITE, 0, holes, _ways(holes))
    return rules


def _ways(holes: set[str]) -> set[str]:
    """The directories on the way to a hole."""
    return {above for hole in holes for above in upwards(os.path.dirname(hole))}


def applicable(rule: Rule, version: int) -> int:
    """The rights of a rule that its path can have and this kernel knows; 0 when nothing is left."""
    rights = rule.rights & handled(version)[0]
    return rights if os.path.isdir(rule.path) else rights & _OF_FILES


def _carved(path: str, rights: int, above: int, holes: set[str], ways: set[str]) -> Iterator[Rule]:
    """Rules for everything below a path but the holes; `above` is for directories on the `ways` to one."""
    if path in holes:
        return
    if path not in ways:
        yield Rule(path, rights)
        return
    if above:
        yield Rule(path, above)
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not entry.is_symlink():
            yield from _carved(entry.path, rights, above, holes, ways)
