"""Which commands run in the background, and what did they print so far? Started, listed, read, stopped.

Commands of the foreground are kept here too, once they printed more than their answer shows: the rest can be read.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic
from typing import NamedTuple

from onhand.actions import shell
from onhand.actions.captured import Captured
from onhand.actions.processes import Start, start_unconfined
from onhand.actions.shell import Ran
from onhand.errors import InputError, NotFound, OnhandError

MAX_RUNNING = 8
MAX_KEPT = 32  # ended ones; the oldest are forgotten with their output
MAX_KEPT_BYTES = 256 << 20  # that those printed; more could fill a disk
MAX_PROBLEM_CHARS = 300
STOP_S = 5.0  # far more than ending a command takes


class Job(NamedTuple):
    """One command, as it is now."""

    id: str
    command: str
    state: str  # "running", "ended", "stopped" or "failed"
    exit_code: int | None
    duration_s: float
    stdout_bytes: int
    stderr_bytes: int
    problem: str = ""  # why it could not be started, or was ended
    notes: tuple[str, ...] = ()


class _Entry:
    def __init__(self, id: str, command: str, outputs: tuple[Captured, Captured]) -> None:
        self.id = id
        self.command = command
        self.outputs = outputs
        self.stop = Event()
        self.over = Event()
        self.began = monotonic()
        self.ran: Ran | None = None
        self.problem = ""

    def job(self) -> Job:
        ran = self.ran
        ended = "failed" if ran is None else "stopped" if ran.ended_by else "ended"
        return Job(
            self.id,
            self.command,
            ended if self.over.is_set() else "running",
            ran.exit_code if ran else None,
            ran.duration_s if ran else monotonic() - self.began,
            self.outputs[0].total_bytes,
            self.outputs[1].total_bytes,
            "its time was over" if ran and ran.ended_by == "timeout" else self.problem,
            ran.notes if ran else (),
        )


class Jobs:
    """The commands of one workspace. What still runs is ended with `close`, or with this process."""

    def __init__(self, start: Start = start_unconfined) -> None:
        self._start = start
        self._entries: dict[str, _Entry] = {}
        self._count = 0
        self._directory = ""
        self._lock = Lock()

    def run(
        self,
        command: str,
        *,
        cwd: str,
        timeout_s: float = shell.TIMEOUT_S,
        environment: Mapping[str, str] | None = None,
        stop: Event | None = None,
        keep_bytes: int = shell.KEEP_BYTES,
    ) -> tuple[Ran, str]:
        """Run a command and wait for it; with what came of it, the id by which the rest of its output can be read."""
        entry = self._entry(command, keep_bytes, at_once=False)
        entry.stop = stop or entry.stop
        try:
            ran = shell.run_into(entry.outputs, command, cwd, timeout_s, environment, self._start, entry.stop)
            entry.ran = ran
        finally:
            entry.over.set()
            if entry.ran is None or not entry.ran.files:
                self._forget(entry)
        return ran, entry.id if ran.files else ""

    def start(
        self,
        command: str,
        *,
        cwd: str,
        environment: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Job:
        """Start a command in the background; InputError when too many run already."""
        shell.checked(command)
        if sum(not entry.over.is_set() for entry in list(self._entries.values())) >= MAX_RUNNING:
            raise InputError(f"{MAX_RUNNING} jobs run already: stop one with stop_job, or wait")
        entry = self._entry(command, shell.KEEP_BYTES, at_once=True)
        work = partial(shell.run_into, entry.outputs, command, cwd, timeout_s, environment, self._start, entry.stop)
        Thread(target=_attended, args=(entry, work), name=entry.id, daemon=True).start()
        return entry.job()

    def all(self) -> list[Job]:
        """Every command that is kept, the oldest first."""
        return [entry.job() for entry in list(self._entries.values())]

    def get(self, id: str) -> Job:
        """One of them; NotFound names those that there are."""
        return self._found(id).job()

    def output(self, id: str, stream: str = "stdout", offset: int = 0, max_bytes: int = shell.KEEP_BYTES) -> bytes:
        """A part of what a command printed so far."""
        if stream not in ("stdout", "stderr"):
            raise InputError(f"{stream[:40]!r} is no stream: it is stdout or stderr")
        if offset < 0 or max_bytes < 1:
            raise InputError("offset must be at least 0 and max_bytes at least 1")
        return self._found(id).outputs[stream == "stderr"].read(offset, max_bytes)

    def kept(self, id: str) -> tuple[int, int]:
        """How much of what a command printed can be read, from the beginning of each stream."""
        stdout, stderr = self._found(id).outputs
        return stdout.kept_bytes, stderr.kept_bytes

    def stop(self, id: str) -> Job:
        """End a command with all that it started."""
        entry = self._found(id)
        entry.stop.set()
        entry.over.wait(STOP_S)
        return entry.job()

    def close(self) -> None:
        """End every command and forget what they printed."""
        entries = list(self._entries.values())
        for entry in entries:
            entry.stop.set()
        for entry in entries:
            entry.over.wait(STOP_S)
            self._forget(entry)
        if self._directory:
            atexit.unregister(self.close)
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = ""

    def _entry(self, command: str, keep_bytes: int, at_once: bool) -> _Entry:
        with self._lock:
            if not self._directory:
                self._directory = tempfile.mkdtemp(prefix="onhand-jobs-")
                atexit.register(self.close)
            self._count += 1
            id = f"job-{self._count}"
            paths = [os.path.join(self._directory, f"{id}.{stream}") for stream in ("stdout", "stderr")]
            outputs = Captured(paths[0], keep_bytes, at_once), Captured(paths[1], keep_bytes, at_once)
            entry = self._entries[id] = _Entry(id, command, outputs)
            over = [other for other in self._entries.values() if other.over.is_set()]
        for other in _surplus(over):
            self._forget(other)
        return entry

    def _forget(self, entry: _Entry) -> None:
        with suppress(KeyError):
            del self._entries[entry.id]
        for output in entry.outputs:
            output.forget()

    def _found(self, id: str) -> _Entry:
        entry = self._entries.get(id)
        if entry is None:
            there = ", ".join(list(self._entries)[-10:]) or "none"
            raise NotFound(f"there is no job {id[:40]!r}; there are: {there}")
        return entry


def _surplus(over: list[_Entry]) -> list[_Entry]:
    """Of those that ended, the oldest there is no room for."""
    room, kept = MAX_KEPT_BYTES, 0
    for entry in reversed(over):
        room -= sum(output.kept_bytes for output in entry.outputs)
        if room < 0 or kept == MAX_KEPT:
            break
        kept += 1
    return over[: len(over) - kept]


def _attended(entry: _Entry, work: Callable[[], Ran]) -> None:
    try:
        entry.ran = work()
    except OnhandError as error:
        entry.problem = str(error)
    except Exception as error:  # such as a machine that has no more descriptors: whoever lists it is told
        entry.problem = f"{type(error).__name__}: {error}"[:MAX_PROBLEM_CHARS]
    finally:
        entry.over.set()
