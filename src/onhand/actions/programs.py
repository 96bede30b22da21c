"""Which program is meant, and how is it run? One that nobody could have planted, with a clean environment and an end.

For programs of our own choice with arguments of our own making; commands of a model are the shell's.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from shutil import which
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryFile
from threading import Timer
from typing import NamedTuple

from onhand.actions.workspace import Workspace

MAX_ERROR_BYTES = 4096


class Ran(NamedTuple):
    """What a program left behind."""

    code: int
    out: bytes
    err: str
    is_cut: bool = False  # it said more than it may; it was ended then
    is_late: bool = False  # it took longer than it may


def found(name: str, workspace: Workspace) -> str | None:
    """A program, beside our own Python or on the PATH; never one that somebody may have written in the workspace."""
    beside = os.path.dirname(sys.executable)
    directories = [beside, *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    for directory in directories:
        if not os.path.isabs(directory):  # it would be whatever stands in the working directory
            continue
        path = which(name, path=directory)
        if path and (directory == beside or not _is_inside(path, workspace)):
            return path
    return None


def _is_inside(path: str, workspace: Workspace) -> bool:
    real = os.path.realpath(path)
    return any(root.writable and real.startswith(os.path.join(root.path, "")) for root in workspace.roots)


def run(
    command: Sequence[str], directory: str, environment: Mapping[str, str], timeout_s: float, max_bytes: int
) -> Ran:
    """Run a program to its end, or to the end of its time or its room; then it and all that it started are killed."""
    late: list[bool] = []

    def end_late() -> None:
        late.append(True)
        _end(process)

    with TemporaryFile() as complaints:
        process = Popen(  # noqa: S603  # a list and no shell; the program is absolute
            list(command),
            cwd=directory,
            env=dict(environment),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=complaints,
            start_new_session=True,
        )
        timer = Timer(timeout_s, end_late)
        timer.daemon = True
        timer.start()
        try:
            with process:
                assert process.stdout is not None  # by PIPE
                out = process.stdout.read(max_bytes + 1)
                if len(out) > max_bytes:
                    _end(process)
        finally:
            timer.cancel()
        complaints.seek(0)
        err = complaints.read(MAX_ERROR_BYTES).decode("utf-8", "replace").strip()
    return Ran(process.returncode, out[:max_bytes], err, len(out) > max_bytes, bool(late))


def _end(process: "Popen[bytes]") -> None:
    """Kill the program's group, while its number is still its own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
