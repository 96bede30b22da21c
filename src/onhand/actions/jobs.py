"""Run commands in the background, and keep their output.

Foreground commands that print more than an answer can show are kept too, so that the rest can be read.
"""

import atexit
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic
from typing import NamedTuple

from onhand.actions import shell
from onhand.actions.shell import CapturedOutput, CommandResult, StartCommand, start_unconfined
from onhand.errors import InputError, NotFound, OnhandError
from onhand.temporary import LockedDirectory, make_locked_directory

MAX_RUNNING = 8
MAX_KEPT = 32  # ended jobs; the oldest are forgotten with their output
MAX_KEPT_BYTES = 256 << 20  # of the output of ended jobs; more could fill a disk
MAX_PROBLEM_CHARS = 300
MAX_COMMAND_CHARS = 200  # of a command in an answer
STOP_S = 5.0  # far more than killing a command takes


class Job(NamedTuple):
    """The current state of one command."""

    id: str
    command: str  # its beginning
    state: str  # "running", "ended", "stopped" or "failed"
    exit_code: int | None
    duration_s: float
    stdout_bytes: int
    stderr_bytes: int
    problem: str = ""  # why it could not be started or was killed
    notes: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Return one line, and a line for each note."""
        code = "" if self.exit_code is None else f" with exit code {self.exit_code}"
        problem = f": {self.problem}" if self.problem else ""
        printed = f"{self.stdout_bytes} bytes of stdout, {self.stderr_bytes} of stderr"
        notes = "".join(f"\n  [{note}]" for note in self.notes)
        command = " ".join(self.command.split())
        return f"{self.id} {self.state}{code}{problem}, {self.duration_s:.1f} s, {printed}: {command}{notes}"


class _JobRecord:
    def __init__(self, id: str, command: str, outputs: tuple[CapturedOutput, CapturedOutput]) -> None:
        self.id = id
        self.command = command
        self.outputs = outputs
        self.stop = Event()
        self.over = Event()
        self.began = monotonic()
        self.result: CommandResult | None = None
        self.problem = ""

    def job(self) -> Job:
        result = self.result
        ended = "failed" if result is None else "stopped" if result.ended_by else "ended"
        return Job(
            self.id,
            self.command[:MAX_COMMAND_CHARS],
            ended if self.over.is_set() else "running",
            result.exit_code if result else None,
            round(result.duration_s if result else monotonic() - self.began, 3),
            self.outputs[0].total_bytes,
            self.outputs[1].total_bytes,
            "it timed out" if result and result.ended_by == "timeout" else self.problem,
            result.notes if result else (),
        )


class Jobs:
    """The commands of one workspace. Those that still run are killed by `close`, or when this process ends."""

    def __init__(self, start: StartCommand = start_unconfined) -> None:
        self._start = start
        self._entries: dict[str, _JobRecord] = {}
        self._count = 0
        self._directory: LockedDirectory | None = None
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
    ) -> tuple[CommandResult, str]:
        """Run a command and wait for it; return its result and, if its output was cut, the id to read the rest by."""
        entry = self._entry(command, keep_bytes, at_once=False)
        entry.stop = stop or entry.stop
        try:
            result = shell.run_captured(entry.outputs, command, cwd, timeout_s, environment, self._start, entry.stop)
            entry.result = result
        finally:
            entry.over.set()
            if entry.result is None or not entry.result.files:
                self._forget(entry)
        return result, entry.id if result.files else ""

    def start(
        self,
        command: str,
        *,
        cwd: str,
        environment: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Job:
        """Start a command in the background; InputError when too many run already."""
        shell.check_command(command)
        if sum(not entry.over.is_set() for entry in list(self._entries.values())) >= MAX_RUNNING:
            raise InputError(f"{MAX_RUNNING} jobs are already running: stop one with stop_job, or wait for one to end")
        entry = self._entry(command, shell.KEEP_BYTES, at_once=True)
        work = partial(shell.run_captured, entry.outputs, command, cwd, timeout_s, environment, self._start, entry.stop)
        Thread(target=_run_job, args=(entry, work), name=entry.id, daemon=True).start()
        return entry.job()

    def all(self) -> list[Job]:
        """Return all jobs, the oldest first."""
        return [entry.job() for entry in list(self._entries.values())]

    def get(self, id: str) -> Job:
        """Return one job; NotFound if it does not exist."""
        return self._get(id).job()

    def output(self, id: str, stream: str = "stdout", offset: int = 0, max_bytes: int = shell.KEEP_BYTES) -> bytes:
        """Return a part of the output of a command so far."""
        if stream not in ("stdout", "stderr"):
            raise InputError(f"{stream[:40]!r} is not a stream: send stdout or stderr")
        if offset < 0 or max_bytes < 1:
            raise InputError("offset must be at least 0 and max_bytes at least 1")
        return self._get(id).outputs[stream == "stderr"].read(offset, max_bytes)

    def readable_bytes(self, id: str) -> tuple[int, int]:
        """Return how much of each stream can be read, from its beginning."""
        stdout, stderr = self._get(id).outputs
        return stdout.kept_bytes, stderr.kept_bytes

    def stop(self, id: str) -> Job:
        """Kill a command and everything that it started."""
        entry = self._get(id)
        entry.stop.set()
        entry.over.wait(STOP_S)
        return entry.job()

    def close(self) -> None:
        """Kill every command and discard all output."""
        entries = list(self._entries.values())
        for entry in entries:
            entry.stop.set()
        for entry in entries:
            entry.over.wait(STOP_S)
            self._forget(entry)
        if self._directory:
            atexit.unregister(self.close)
            self._directory.release()
            self._directory = None

    def _entry(self, command: str, keep_bytes: int, at_once: bool) -> _JobRecord:
        with self._lock:
            if not self._directory:
                self._directory = make_locked_directory("onhand-jobs-")
                atexit.register(self.close)
            self._count += 1
            id = f"job-{self._count}"
            paths = [os.path.join(self._directory.path, f"{id}.{stream}") for stream in ("stdout", "stderr")]
            outputs = CapturedOutput(paths[0], keep_bytes, at_once), CapturedOutput(paths[1], keep_bytes, at_once)
            entry = self._entries[id] = _JobRecord(id, command, outputs)
            over = [other for other in self._entries.values() if other.over.is_set()]
        for other in _jobs_to_forget(over):
            self._forget(other)
        return entry

    def _forget(self, entry: _JobRecord) -> None:
        with suppress(KeyError):
            del self._entries[entry.id]
        for output in entry.outputs:
            output.forget()

    def _get(self, id: str) -> _JobRecord:
        entry = self._entries.get(id)
        if entry is None:
            existing = ", ".join(list(self._entries)[-10:]) or "none"
            raise NotFound(f"unknown job {id[:40]!r}; existing jobs: {existing}")
        return entry


def _jobs_to_forget(over: list[_JobRecord]) -> list[_JobRecord]:
    """Return the oldest of the ended jobs that exceed the limits."""
    room, kept = MAX_KEPT_BYTES, 0
    for entry in reversed(over):
        room -= sum(output.kept_bytes for output in entry.outputs)
        if room < 0 or kept == MAX_KEPT:
            break
        kept += 1
    return over[: len(over) - kept]


def _run_job(entry: _JobRecord, work: Callable[[], CommandResult]) -> None:
    try:
        entry.result = work()
    except OnhandError as error:
        entry.problem = str(error)
    except Exception as error:  # for example no more descriptors: list_jobs shows it
        entry.problem = f"{type(error).__name__}: {error}"[:MAX_PROBLEM_CHARS]
    finally:
        entry.over.set()
