"""Which program is meant, and how is it run? One that nobody could have planted, with a clean environment and an end.

For programs of our own choice with arguments of our own making; commands of a model are the shell's.
"""

import atexit
import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from shutil import which
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryFile
from threading import Timer
from typing import IO, NamedTuple

from onhand import wanted
from onhand.actions.workspace import Workspace

MAX_ERROR_BYTES = 4096
PIECE_BYTES = 64 * 1024
ASK_MS = 100  # after so long without a word, look whether anybody still waits, and what else there is to do
_AT_WORK: "set[Program]" = set()


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
    command: Sequence[str],
    directory: str,
    environment: Mapping[str, str],
    timeout_s: float,
    max_bytes: int,
    max_memory_bytes: int | None = None,
    meanwhile: Iterable[object] = (),
) -> Ran:
    """Run a program to its end, or to the end of its time or its room, while anybody waits for it; then it and all that
    it started are killed. `meanwhile` goes on by a step for each silence of ASK_MS, and may end it by an error."""
    with Program(command, directory, environment, timeout_s, max_memory_bytes) as program:
        out = _said(program, max_bytes + 1, iter(meanwhile))
        is_cut = len(out) > max_bytes
        if is_cut:
            program.end()
        return program.ended()._replace(out=out[:max_bytes], is_cut=is_cut)


def _said(program: "Program", max_bytes: int, meanwhile: Iterator[object]) -> bytes:
    """The first of what a program says, at least so many bytes of it."""
    pipe, says, out = program.stdout.fileno(), select.poll(), bytearray()
    says.register(pipe, select.POLLIN)
    while len(out) < max_bytes:
        if says.poll(ASK_MS):
            piece = os.read(pipe, PIECE_BYTES)
            if not piece:
                break
            out += piece
        else:
            next(meanwhile, None)
        wanted.check()
    return bytes(out)


class Program:
    """A program at work. When its time is over, or whoever started it leaves, it is killed with all that it started."""

    def __init__(
        self,
        command: Sequence[str],
        directory: str,
        environment: Mapping[str, str],
        timeout_s: float,
        max_memory_bytes: int | None = None,
    ) -> None:
        self._is_late = False
        with ExitStack() as held:
            self._complaints = held.enter_context(TemporaryFile())
            self._process = Popen(  # noqa: S603  # a list and no shell; the program is absolute
                list(command),
                cwd=directory,
                env=dict(environment),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=self._complaints,
                start_new_session=True,
            )
            self._held = held.pop_all()  # from now on until __exit__
        _AT_WORK.add(self)
        if max_memory_bytes is not None:
            _limit_memory(self._process.pid, max_memory_bytes)
        self._timer = Timer(timeout_s, self._end_late)
        self._timer.daemon = True
        self._timer.start()

    @property
    def stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None  # by PIPE
        return self._process.stdout

    def reads_more_than(self, max_bytes: int) -> bool:
        """Whether it has a file open just now that is larger; no, where the system does not tell."""
        files = f"/proc/{self._process.pid}/fd"
        with suppress(OSError):  # it has ended
            for number in os.listdir(files):
                with suppress(FileNotFoundError):  # it has just closed it
                    if os.stat(f"{files}/{number}").st_size > max_bytes:
                        return True
        return False

    def end(self) -> None:
        """Kill the program's group, while its number is still its own."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def ended(self) -> Ran:
        """Wait for its end: the code and the complaints. What it said is for whoever read it."""
        code = self._process.wait()
        self._complaints.seek(0)
        err = self._complaints.read(MAX_ERROR_BYTES).decode("utf-8", "replace").strip()
        return Ran(code, b"", err, is_late=self._is_late)

    def _end_late(self) -> None:
        self._is_late = True
        self.end()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        _AT_WORK.discard(self)
        self._timer.cancel()
        with self._held, self._process:
            pass


@atexit.register
def _end_all() -> None:
    """Whoever started them has no time left to leave them."""
    for program in list(_AT_WORK):
        program.end()


def _limit_memory(process: int, max_bytes: int) -> None:
    """Give a process no more memory of its own than this, where the system can; files that it maps do not count."""
    import resource

    if hasattr(resource, "prlimit"):
        with suppress(OSError, ValueError):  # it has ended, or a lower limit holds already
            resource.prlimit(process, resource.RLIMIT_DATA, (max_bytes, max_bytes))
