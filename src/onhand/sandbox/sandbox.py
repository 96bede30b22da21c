"""The sandbox protocol: start a command under a policy, or refuse with a reason and start nothing.

`MemorySandbox` is the implementation for tests. It starts no process, but simulates a few commands (`cat`, `touch`,
`true`, `false` and `sleep`) on files in memory.
"""

import io
import os
from collections.abc import Mapping, Sequence
from subprocess import DEVNULL, PIPE
from typing import IO, NamedTuple, Protocol

from onhand.errors import SandboxError
from onhand.sandbox.policy import Policy

TRY_S = 30.0  # far more than an empty command takes
Stream = int | IO[bytes] | None
"""What subprocess accepts for one of the three standard streams."""


class Command(NamedTuple):
    """A command to run, as a list of arguments, not as a shell line."""

    argv: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    stdin: Stream = None
    stdout: Stream = None
    stderr: Stream = None


class Process(Protocol):
    """A running command."""

    @property
    def pid(self) -> int: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    @property
    def stderr(self) -> IO[bytes] | None: ...
    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the caller, available once the command has ended."""

    def poll(self) -> int | None:
        """Return the exit code, or None while the command runs."""

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the exit code; return None after the timeout."""

    def kill(self) -> None:
        """Kill the command and everything that it started, within a second."""


class Sandbox(Protocol):
    """Starts commands under policies."""

    @property
    def name(self) -> str: ...
    def refusal(self, policy: Policy) -> str | None:
        """Run an empty command, and return why this machine cannot enforce the policy, or None if it can."""

    def start(self, policy: Policy, command: Command) -> Process:
        """Start a command; SandboxError if it cannot be confined, and then it was not started."""


class RefusingSandbox:
    """The sandbox of a machine where none works: it starts nothing and gives the reason."""

    name = "refuse"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def refusal(self, policy: Policy) -> str | None:
        return self._reason

    def start(self, policy: Policy, command: Command) -> Process:
        raise SandboxError(f"nothing was started: {self._reason}")


class BackendCheck(NamedTuple):
    """A backend, and why it cannot be used, or None if it can."""

    sandbox: Sandbox
    refusal: str | None


def try_sandbox(sandbox: Sandbox, policy: Policy, cwd: str = "/", line: str = ":") -> str | None:
    """Run a command, by default an empty one, under a policy; return what goes wrong, or None."""
    command = Command(["/bin/sh", "-c", line], cwd, {}, DEVNULL, DEVNULL, PIPE)
    try:
        process = sandbox.start(policy, command)
    except SandboxError as error:
        return str(error).removeprefix("the command was not started: ")
    try:
        code = process.wait(TRY_S)
    finally:
        process.kill()
    message = ""
    if process.stderr is not None:
        with process.stderr:
            message = process.stderr.read(2000).decode("utf-8", "replace").strip()
    if code is None:
        return f"a trial command did not end within {TRY_S:g} s"
    return None if code == os.EX_OK else message or f"a trial command ended with exit code {code}"


def backends() -> "list[Sandbox]":
    """Return the sandbox backends, best first."""
    from onhand.sandbox.bubblewrap import BubblewrapSandbox
    from onhand.sandbox.landlock import LandlockSandbox

    return [BubblewrapSandbox(), LandlockSandbox()]


def check_backends(policy: Policy) -> list[BackendCheck]:
    """Try every backend with a policy, and return the outcomes."""
    return [BackendCheck(sandbox, sandbox.refusal(policy)) for sandbox in backends()]


def choose(policy: Policy, backend: str = "auto") -> Sandbox:
    """Return the named backend, or the best one that works here; if none does, a sandbox that refuses every command."""
    reasons = []
    for sandbox in backends():
        if backend in ("auto", sandbox.name):
            refusal = sandbox.refusal(policy)
            if refusal is None:
                return sandbox
            reasons.append(f"{sandbox.name}: {refusal}")
    return RefusingSandbox(f"no sandbox works here ({'; '.join(reasons)}): run `onhand sandbox check` for advice")


TIMED_OUT, NOT_FOUND, KILLED = 124, 127, 143


class MemorySandbox:
    """Confines simulated commands to simulated files."""

    name = "memory"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def refusal(self, policy: Policy) -> str | None:
        return None

    def start(self, policy: Policy, command: Command) -> Process:
        policy.validate()
        if not command.argv:
            raise SandboxError("the command was not started: it is empty")
        name, *arguments = command.argv
        if name == "sleep":
            times_out = policy.wall_s is not None and policy.wall_s <= float(arguments[0])
            return SimulatedProcess(TIMED_OUT if times_out else None, b"", command)
        run = {"cat": self._read, "touch": self._touch}.get(name)
        if run is None:
            return SimulatedProcess({"true": 0, "false": 1}.get(name, NOT_FOUND), b"", command)
        printed = [run(policy, path) for path in arguments]
        return SimulatedProcess(int(None in printed), b"".join(filter(None, printed)), command)

    def _read(self, policy: Policy, path: str) -> bytes | None:
        return self.files.get(path) if policy.may_read(path) else None

    def _touch(self, policy: Policy, path: str) -> bytes | None:
        if not policy.may_write(path):
            return None
        self.files.setdefault(path, b"")
        return b""


class SimulatedProcess:
    """A simulated command that has already ended or never ends by itself."""

    pid = 0
    notes: tuple[str, ...] = ()
    stderr: IO[bytes] | None = None

    def __init__(self, code: int | None, printed: bytes, command: Command) -> None:
        self._code = code
        self.stdout: IO[bytes] | None = io.BytesIO(printed) if command.stdout == PIPE else None

    def poll(self) -> int | None:
        return self._code

    def wait(self, timeout_s: float | None = None) -> int | None:
        return self._code

    def kill(self) -> None:
        self._code = KILLED if self._code is None else self._code
