"""Run shell commands, and capture their output.

A command gets the environment variables that are known to hold no secret, and those that the caller adds: a list of the
secret ones would never be complete. It leads a session of its own, so that one signal kills it with its children;
processes that have left the session are found among its descendants, and by a variable that they inherit. Only a
sandbox stops a process that hides from both. A command that ends by itself may leave a daemon behind, as build tools
do.

What confines a command is up to the `StartCommand` that the caller passes. Which commands may run is not decided here:
a list of forbidden words would only be a puzzle.
"""

import os
import re
import selectors
import signal
import subprocess
import tempfile
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from threading import Event, Lock
from time import monotonic
from typing import IO, Any, NamedTuple, Protocol

from onhand import cancellation
from onhand.errors import Cancelled, InputError, NotFound
from onhand.hidden_characters import repair_surrogates
from onhand.processes import COMMAND_MARK, kill_descendants, kill_processes_with_variable, send_signal

SAFE_VARIABLES = (
    *("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "TZ"),
    *("TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "USER", "LOGNAME", "SHELL", "CI"),
    *("SYSTEMROOT", "COMSPEC", "PATHEXT"),
)
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
MAX_VARIABLES_BYTES = 32 * 1024  # the kernel allows about a hundred times that, including the arguments


def command_environment(
    environ: Mapping[str, str],
    also: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the safe variables of an environment and those named in `also`, overridden by the variables of a call."""
    inherited = {name: environ[name] for name in (*SAFE_VARIABLES, *also) if name in environ}
    return inherited | check_variables(variables or {})


def check_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a call; InputError if the system would not accept them."""
    for name, value in variables.items():
        if not VARIABLE_NAME.fullmatch(name):
            raise InputError(f"{name[:100]!r} is not a variable name: use letters, digits and _, no digit first")
        if "\0" in value:
            raise InputError(f"the variable {name} contains a NUL character, which no variable can hold")
    if sum(len(name) + len(value.encode(errors="replace")) for name, value in variables.items()) > MAX_VARIABLES_BYTES:
        raise InputError(f"the variables have more than {MAX_VARIABLES_BYTES} bytes together: put the data in a file")
    return dict(variables)


END_S = 0.7  # to wait for a killed process; with what comes before, within a second


class RunningCommand(Protocol):
    """A running command with pipes to its outputs."""

    @property
    def stdout(self) -> IO[bytes] | None: ...
    @property
    def stderr(self) -> IO[bytes] | None: ...
    @property
    def notes(self) -> Sequence[str]:
        """Notes for the caller, available once it has ended."""

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""

    def kill(self) -> None:
        """Kill it and everything that it started, within a second."""


StartCommand = Callable[[Sequence[str], str, Mapping[str, str]], RunningCommand]
"""Starts a program in a directory with an environment, no input, and pipes for both outputs."""


def start_unconfined(argv: Sequence[str], cwd: str, environment: Mapping[str, str]) -> RunningCommand:
    """Start a command with all permissions of this process."""
    mark = os.urandom(8).hex()
    try:
        process = subprocess.Popen(  # noqa: S603  # running what the caller requests is its purpose
            list(argv),
            cwd=cwd,
            env={**environment, COMMAND_MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return ProcessGroup(process, f"{COMMAND_MARK}={mark}".encode())
    except OSError as error:
        raise InputError(f"the command could not be started: {error.strerror}; check its directory") from None


class ProcessGroup:
    """A command with its process group."""

    def __init__(self, process: "subprocess.Popen[bytes]", mark: bytes) -> None:
        self._process = process
        self._mark = mark
        self.notes: tuple[str, ...] = ()

    @property
    def stdout(self) -> IO[bytes] | None:
        return self._process.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        return self._process.stderr

    def poll(self) -> int | None:
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def kill(self) -> None:
        process = self._process.pid
        others = self._kill_all() if self._process.poll() is None else []
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process, signal.SIGKILL)  # its number is not reused while it has members or is not reaped
        self.notes = tuple(
            f"process {one} now belongs to another user, as with sudo, and is still running: kill it" for one in others
        )
        if process in others:
            return
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.notes += (f"process {process} was killed but has not ended yet: the kernel is still busy with it",)

    def _kill_all(self) -> list[int]:
        """Kill everything that the command started, and return the processes that survive."""
        process = self._process.pid
        obeys = send_signal(process, signal.SIGSTOP)  # it could start more while the others are killed
        return [*([] if obeys else [process]), *kill_descendants(process), *kill_processes_with_variable(self._mark)]


MAX_SPILL_BYTES = 64 << 20  # a command that never stops printing must not fill the disk


class CapturedOutput:
    """One stream of one command."""

    def __init__(self, path: str, keep_bytes: int, at_once: bool = False) -> None:
        """Long output goes to the file at `path`; with `at_once`, everything goes there from the start.

        One thread adds, and others may read at the same time.
        """
        self.path = path
        self.total_bytes = 0
        self.is_cut = False  # whether the file has more than `text` shows
        self._half = max(1, keep_bytes // 2)
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._text_bytes = 0  # of the decoded text, until it is cut
        self._head = b""
        self._tail = b""
        self._at_once = at_once
        self._file: IO[Any] | None = None
        self._written = 0
        self._is_full = False
        self._lock = Lock()

    @property
    def kept_bytes(self) -> int:
        """The number of bytes that can be read, from the beginning."""
        if self._written:
            return self._written
        return len(self._head) if self.is_cut else len(self._head) + len(self._tail)

    def add(self, piece: bytes) -> None:
        """Add the next piece of output."""
        with self._lock:
            self.total_bytes += len(piece)
            self._text_bytes += 0 if self.is_cut else len(self._decoder.decode(piece).encode())
            self.is_cut = max(self._text_bytes, self.total_bytes) > 2 * self._half
            if self._at_once or self.is_cut:
                self._spill(piece)
            room = self._half - len(self._head)
            self._head += piece[:room] if room > 0 else b""
            self._tail = (self._tail + piece[max(0, room) :])[-self._half :]

    def text(self) -> str:
        """Return all of it, or both ends with the number of bytes left out between them."""
        with self._lock:
            if not self.is_cut:
                return (self._head + self._tail).decode("utf-8", "replace")
            head = trim_partial_character(fit_prefix(self._head, self._half))
            tail = _skip_partial_character(_fit_suffix(self._tail, self._half))
            left_out = self.total_bytes - len(head) - len(tail)
            ends = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
            return f"{ends[0]}\n[… {left_out} bytes left out …]\n{ends[1]}"

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return a part of the output so far, from the file or from memory."""
        with self._lock:
            if not self._written:
                return (self._head + self._tail)[: self.kept_bytes][offset : offset + max_bytes]
            try:
                with open(self.path, "rb") as file:
                    file.seek(min(offset, self.total_bytes))
                    return file.read(max_bytes)
            except OSError:
                raise NotFound(
                    "the output no longer exists, somebody removed its file: run the command again"
                ) from None

    def finish(self) -> None:
        """Close the file, which stays, after the last piece."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def forget(self) -> None:
        """Remove the file."""
        self.finish()
        with suppress(OSError):
            os.unlink(self.path)

    def _spill(self, piece: bytes) -> None:
        """Write a piece to the file while there is room: a full disk does not stop the command."""
        if self._is_full:
            return
        try:
            if self._file is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                self._file = open(os.open(self.path, flags, 0o600), "r+b", buffering=0)  # noqa: SIM115  # until finish
                piece = self._head + self._tail + piece
            taken = self._file.write(piece[: MAX_SPILL_BYTES - self._written])
        except OSError:
            taken = 0
        self._written += taken
        self._is_full = taken < len(piece)


def fit_prefix(piece: bytes, max_bytes: int) -> bytes:
    """Cut bytes so that their text has at most max_bytes; each invalid byte takes three in the text."""
    return piece[: _fitting_bytes(piece, max_bytes)]


def _fit_suffix(piece: bytes, max_bytes: int) -> bytes:
    return piece[len(piece) - _fitting_bytes(piece, max_bytes) :]


def _fitting_bytes(piece: bytes, max_bytes: int) -> int:
    """Return how many bytes certainly fit: a third always does, and each byte less saves at least one of text."""
    excess = len(piece.decode("utf-8", "replace").encode()) - max_bytes
    return len(piece) if excess <= 0 else max(1, max_bytes // 3, len(piece) - excess)


def trim_partial_character(piece: bytes) -> bytes:
    """Drop an incomplete character at the end."""
    for back in range(1, min(4, len(piece)) + 1):
        byte = piece[-back]
        if byte & 0xC0 != 0x80:
            needed = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return piece[:-back] if needed > back else piece
    return piece


def _skip_partial_character(piece: bytes) -> bytes:
    """Drop the rest of a character at the start."""
    start = 0
    while start < min(3, len(piece)) and piece[start] & 0xC0 == 0x80:
        start += 1
    return piece[start:]


SHELL = "/bin/sh"
TIMEOUT_S = 30.0
MAX_TIMEOUT_S = 600.0  # longer commands belong in the background
KEEP_BYTES = 30_000  # of each stream
MAX_COMMAND_BYTES = 128 * 1024 - 1  # the kernel takes no longer argument
PIECE_BYTES = 64 * 1024
MAX_LEFT_BYTES = 1 << 20  # in a pipe after its command has ended; pipes have 64 KiB on Linux unless enlarged
LOOK_S = 0.05  # how often to check whether it has ended or is to be stopped


class CommandResult(NamedTuple):
    """The outcome of a command."""

    command: str
    exit_code: int | None  # None if it was killed by us; 128 plus the signal if a signal killed it
    stdout: str
    stderr: str
    duration_s: float
    ended_by: str = ""  # "timeout", "stop", or empty if it ended by itself
    files: tuple[str, ...] = ()  # with the whole output, if it is longer than the texts here
    notes: tuple[str, ...] = ()  # from the StartCommand

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


def run_command(
    command: str,
    *,
    cwd: str,
    timeout_s: float = TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
    start: StartCommand = start_unconfined,
    stop: Event | None = None,
    keep_bytes: int = KEEP_BYTES,
) -> CommandResult:
    """Run a shell command line in a directory, then kill what is left of it when it ends or times out."""
    directory = tempfile.mkdtemp(prefix="onhand-output-")
    outputs = (
        CapturedOutput(os.path.join(directory, "stdout"), keep_bytes),
        CapturedOutput(os.path.join(directory, "stderr"), keep_bytes),
    )
    try:
        return run_captured(outputs, command, cwd, timeout_s, environment, start, stop)
    finally:
        with suppress(OSError):  # it is not empty: the caller may read the files
            os.rmdir(directory)


def run_captured(
    outputs: tuple[CapturedOutput, CapturedOutput],
    command: str,
    cwd: str,
    timeout_s: float | None,
    environment: Mapping[str, str] | None = None,
    start: StartCommand = start_unconfined,
    stop: Event | None = None,
) -> CommandResult:
    """Run a command with its output going where the caller can read it in the meantime."""
    line = check_command(command)
    if timeout_s is not None and not 0 < timeout_s < float("inf"):
        raise InputError(f"timeout_s must be more than 0, not {timeout_s}")
    if not os.path.isdir(cwd):
        raise InputError(f"{cwd} is not a directory: name one to run the command in")
    began, stop = monotonic(), stop or Event()
    deadline = None if timeout_s is None else began + timeout_s
    words, variables = [SHELL, "-c", line], command_environment(os.environ) if environment is None else environment
    process = _start_unless_cancelled(lambda: start(words, cwd, variables), deadline, stop)
    if process is None:
        notes = ("it had not started yet: the sandbox was not ready",)
        return CommandResult(
            command, None, "", "", monotonic() - began, "stop" if stop.is_set() else "timeout", notes=notes
        )
    ended_by, code = "", None
    try:
        ended_by = _follow(process, outputs, deadline, stop)
        code = process.poll()
    finally:
        try:
            process.kill()
        finally:
            _drain(process, outputs)
    return CommandResult(
        command,
        None if ended_by else code,
        outputs[0].text(),
        outputs[1].text(),
        monotonic() - began,
        ended_by,
        tuple(output.path for output in outputs if output.is_cut),
        tuple(process.notes),
    )


def check_command(command: str) -> str:
    """Return a command that the system accepts; InputError for any other."""
    if not command.strip():
        raise InputError("the command is empty: send a shell command line such as ls -l")
    if "\0" in command:
        raise InputError("the command contains a NUL character, which no command can hold")
    line = repair_surrogates(command)
    if len(line.encode()) > MAX_COMMAND_BYTES:
        raise InputError(f"the command has more than {MAX_COMMAND_BYTES} bytes: write it to a file and run that")
    return line


def _start_unless_cancelled(
    start: Callable[[], RunningCommand], deadline: float | None, stop: Event
) -> RunningCommand | None:
    """Start a command; None if it is stopped or times out first, as a sandbox may take a while to start."""

    def is_wanted() -> bool:
        return not stop.is_set() and (deadline is None or monotonic() < deadline)

    context = copy_context()
    context.run(cancellation.continue_while, is_wanted)
    try:
        return context.run(start)
    except Cancelled:
        if is_wanted():
            raise
        return None


def _follow(
    process: RunningCommand, outputs: tuple[CapturedOutput, CapturedOutput], deadline: float | None, stop: Event
) -> str:
    """Read its output until the command ends or has to be killed; return why."""
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
                if _take(key.fileobj, key.data) == b"":  # type: ignore[arg-type]  # a pipe, as registered
                    selector.unregister(key.fileobj)
    return ""


def _drain(process: RunningCommand, outputs: tuple[CapturedOutput, CapturedOutput]) -> None:
    """Read what is left in the pipes, but not what a process that escaped keeps printing."""
    for pipe, output in _pipes(process, outputs):
        os.set_blocking(pipe.fileno(), False)
        with pipe:
            for _ in range(MAX_LEFT_BYTES // PIECE_BYTES):
                if not _take(pipe, output):
                    break
        output.finish()


def _take(pipe: IO[bytes], output: CapturedOutput) -> bytes | None:
    """Read what is in a pipe now: None if there is nothing yet, empty at its end."""
    try:
        piece = os.read(pipe.fileno(), PIECE_BYTES)
    except BlockingIOError:
        return None
    output.add(piece)
    return piece


def _pipes(
    process: RunningCommand, outputs: tuple[CapturedOutput, CapturedOutput]
) -> list[tuple[IO[bytes], CapturedOutput]]:
    pairs = zip((process.stdout, process.stderr), outputs, strict=True)
    return [(pipe, output) for pipe, output in pairs if pipe is not None and not pipe.closed]
