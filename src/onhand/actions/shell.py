"""What comes of a command? One function: it runs it to its end, or to the end of its time, and says what it printed.

It does not know what confines a command: whoever wants walls passes another `Start`. It takes no decisions about what
may be run; a list of forbidden words would only be a riddle.
"""

import os
import selectors
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from threading import Event
from time import monotonic
from typing import IO, NamedTuple

from onhand import wanted
from onhand.actions.captured import Captured
from onhand.actions.environment import environment_of
from onhand.actions.processes import Process, Start, start_unconfined
from onhand.errors import InputError, Unwanted
from onhand.text import whole

SHELL = "/bin/sh"
TIMEOUT_S = 30.0
MAX_TIMEOUT_S = 600.0  # longer ones are for the background
KEEP_BYTES = 30_000  # of each stream
MAX_COMMAND_BYTES = 128 * 1024 - 1  # the kernel takes no longer word
PIECE_BYTES = 64 * 1024
MAX_LEFT_BYTES = 1 << 20  # in a pipe when its command has ended; Linux's have 64 KiB unless they were made larger
LOOK_S = 0.05  # how often an end of the process or a wish to stop is looked for


class Ran(NamedTuple):
    """What came of a command."""

    command: str
    exit_code: int | None  # None when it was ended; 128 and the number of a signal when one ended it
    stdout: str
    stderr: str
    duration_s: float
    ended_by: str = ""  # "timeout", "stop", or nothing when it ended by itself
    files: tuple[str, ...] = ()  # with all that was printed, when that is more than is given here
    notes: tuple[str, ...] = ()  # of whoever started it

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


def run(
    command: str,
    *,
    cwd: str,
    timeout_s: float = TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
    start: Start = start_unconfined,
    stop: Event | None = None,
    keep_bytes: int = KEEP_BYTES,
) -> Ran:
    """Run a line for the shell in a directory; what is left of it when it, or its time, has ended is ended too."""
    directory = tempfile.mkdtemp(prefix="onhand-output-")
    outputs = (
        Captured(os.path.join(directory, "stdout"), keep_bytes),
        Captured(os.path.join(directory, "stderr"), keep_bytes),
    )
    try:
        return run_into(outputs, command, cwd, timeout_s, environment, start, stop)
    finally:
        with suppress(OSError):  # it is not empty: somebody may read what is in it
            os.rmdir(directory)


def run_into(
    outputs: tuple[Captured, Captured],
    command: str,
    cwd: str,
    timeout_s: float | None,
    environment: Mapping[str, str] | None = None,
    start: Start = start_unconfined,
    stop: Event | None = None,
) -> Ran:
    """The same, with what it prints going where the caller can look at it meanwhile."""
    line = checked(command)
    if timeout_s is not None and not 0 < timeout_s < float("inf"):
        raise InputError(f"timeout_s must be more than 0, not {timeout_s}")
    if not os.path.isdir(cwd):
        raise InputError(f"{cwd} is not a directory: name one to run the command in")
    began, stop = monotonic(), stop or Event()
    deadline = None if timeout_s is None else began + timeout_s
    words, variables = [SHELL, "-c", line], environment_of(os.environ) if environment is None else environment
    process = _begun(lambda: start(words, cwd, variables), deadline, stop)
    if process is None:
        notes = ("it had not begun: its walls were not up yet",)
        return Ran(command, None, "", "", monotonic() - began, "stop" if stop.is_set() else "timeout", notes=notes)
    ended_by, code = "", None
    try:
        ended_by = _followed(process, outputs, deadline, stop)
        code = process.poll()
    finally:
        try:
            process.kill()
        finally:
            _drained(process, outputs)
    return Ran(
        command,
        None if ended_by else code,
        outputs[0].text(),
        outputs[1].text(),
        monotonic() - began,
        ended_by,
        tuple(output.path for output in outputs if output.is_cut),
        tuple(process.notes),
    )


def checked(command: str) -> str:
    """A command that the system takes; InputError for one that it does not."""
    if not command.strip():
        raise InputError("the command is empty: send a line for the shell, such as ls -l")
    if "\0" in command:
        raise InputError("the command has a NUL character, which no command can hold")
    line = whole(command)
    if len(line.encode()) > MAX_COMMAND_BYTES:
        raise InputError(f"the command has more than {MAX_COMMAND_BYTES} bytes: write it into a file and run that")
    return line


def _begun(start: Callable[[], Process], deadline: float | None, stop: Event) -> Process | None:
    """A command that was started; None when it is to be ended before it has begun, as walls may take a while."""

    def is_wanted() -> bool:
        return not stop.is_set() and (deadline is None or monotonic() < deadline)

    context = copy_context()
    context.run(wanted.ask_whether, is_wanted)
    try:
        return context.run(start)
    except Unwanted:
        if is_wanted():
            raise
        return None


def _followed(process: Process, outputs: tuple[Captured, Captured], deadline: float | None, stop: Event) -> str:
    """Take what is printed until the command ends, or is to be ended; says by what."""
    with selectors.DefaultSelector() as selector:
        for pipe, output in _pipes(process, outputs):
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, output)
        look_s = 0.001
        while process.poll() is None:
            if stop.is_set():
                return "stop"
            left = look_s if deadline is None else min(look_s, deadline - monotonic())
            look_s = min(2 * look_s, LOOK_S)  # most commands end soon
            if left <= 0:
                return "timeout"
            if not selector.get_map():
                stop.wait(left)  # it closed its outputs and goes on
                continue
            for key, _ in selector.select(left):
                if _taken(key.fileobj, key.data) == b"":  # type: ignore[arg-type]  # a pipe, as registered
                    selector.unregister(key.fileobj)
    return ""


def _drained(process: Process, outputs: tuple[Captured, Captured]) -> None:
    """What is still in the pipes; not what somebody who escaped goes on to print."""
    for pipe, output in _pipes(process, outputs):
        os.set_blocking(pipe.fileno(), False)
        with pipe:
            for _ in range(MAX_LEFT_BYTES // PIECE_BYTES):
                if not _taken(pipe, output):
                    break
        output.finish()


def _taken(pipe: IO[bytes], output: Captured) -> bytes | None:
    """What a pipe has now: nothing yet is None, nothing ever again is empty."""
    try:
        piece = os.read(pipe.fileno(), PIECE_BYTES)
    except BlockingIOError:
        return None
    output.add(piece)
    return piece


def _pipes(process: Process, outputs: tuple[Captured, Captured]) -> list[tuple[IO[bytes], Captured]]:
    pairs = zip((process.stdout, process.stderr), outputs, strict=True)
    return [(pipe, output) for pipe, output in pairs if pipe is not None and not pipe.closed]
