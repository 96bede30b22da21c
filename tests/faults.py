"""System calls that fail, as they do on a failing disk: a seccomp filter in a process of its own.

It needs neither a compiler nor privileges. It cannot be removed, so call `fail_calls` only in a child process.
"""

import os
import platform
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from errno import errorcode
from textwrap import dedent
from typing import NamedTuple

import pytest

from onhand.sandbox import kernel, seccomp

# name: number on x86_64, on aarch64
CALLS = {
    "write": (1, 64),
    "pwrite64": (18, 68),
    "fcntl": (72, 25),
    "flock": (73, 32),
    "openat": (257, 56),  # only what may create a file
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "ftruncate": (77, 46),
}
FIRST_FILE = 3  # the descriptors below it are the standard streams
SET_LOCK = (6, 7, 37, 38)  # the commands of fcntl that take a lock


class Fault(NamedTuple):
    """Calls that fail with an error."""

    calls: Sequence[str]
    error: int
    descriptor: int | None = None  # only on this one

    @property
    def name(self) -> str:
        """How a test names the fault."""
        return f"{errorcode[self.error]} of {'/'.join(self.calls)}"


def fail_calls(*faults: Fault) -> None:
    """Make these calls fail in this process from now on, for ever. Standard streams can still be written."""
    architecture, column = seccomp._MACHINES[platform.machine()]
    rows = [
        (seccomp._LOAD, 0, 0, seccomp._ARCHITECTURE),
        (seccomp._EQUAL, 1, 0, architecture),
        seccomp._allow(),
        (seccomp._LOAD, 0, 0, seccomp._NUMBER),
    ]
    for fault in faults:
        for name in fault.calls:
            rows += seccomp._when(CALLS[name][column], _fail(name, fault))
    program = b"".join(struct.pack("=HBBI", *row) for row in [*rows, seccomp._allow()])
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.filter_calls(program)


def _fail(name: str, fault: Fault) -> list[seccomp.Instruction]:
    failure, load = seccomp._refuse(fault.error), seccomp._argument
    if fault.descriptor is not None:
        return [load(0), (seccomp._EQUAL, 0, 1, fault.descriptor), failure, seccomp._allow()]
    if name == "openat":
        return [load(2), (seccomp._ANY_BIT, 0, 1, os.O_CREAT), failure, seccomp._allow()]
    if name == "fcntl":
        rows: list[seccomp.Instruction] = [load(1)]
        for command in SET_LOCK:
            rows += [(seccomp._EQUAL, 0, 1, command), failure]
        return [*rows, seccomp._allow()]
    return [load(0), (seccomp._AT_LEAST, 0, 1, FIRST_FILE), failure, seccomp._allow()]


needs_faults = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in seccomp._MACHINES,
    reason="system calls are made to fail by a filter of Linux",
)


def run_python(code: str, *arguments: str, environ: Mapping[str, str] | None = None, timeout_s: float = 60) -> str:
    """Run code in a process of its own, which can import the modules beside this one, and return what it prints."""
    here = __file__.rpartition("/")[0]
    program = f"import sys; sys.path.insert(0, {here!r})\n" + dedent(code)
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stderr
    return done.stdout
