"""The sandbox protocol: start a command under a policy, or say why that is not possible and start nothing.

What does a sandbox do, without a kernel? The twin for tests: it keeps a policy over files that are only in memory.

It starts no process. It knows a few commands by name and does to its own files what they would do: `cat`, `touch`,
`true`, `false` and `sleep`. Everything else is not there.
"""

import io
import os
from collections.abc import Mapping, Sequence
from subprocess import PIPE
from typing import IO, NamedTuple, Protocol

from onhand.errors import SandboxError
from onhand.sandbox.policy import Policy

TRY_S = 30.0  # far more than a command that does nothing takes
Stream = int | IO[bytes] | None
"""What subprocess takes for one of the three streams."""


class Command(NamedTuple):
    """A command to run, as a list of arguments, not as a shell line."""

    argv: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    stdin: Stream = None
    stdout: Stream = None
    stderr: Stream = None


class Process(Protocol):
    """A command that runs."""

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
        """Return the exit code, or None while it runs."""

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the exit code; return None if that takes longer than the timeout."""

    def kill(self) -> None:
        """End it and everything that it started, within a second."""


class Sandbox(Protocol):
    """Starts commands within policies."""

    @property
    def name(self) -> str: ...
    def refusal(self, policy: Policy) -> str | None:
        """Why this machine cannot keep the policy this way; None if it can. It really tries."""

    def start(self, policy: Policy, command: Command) -> Process:
        """Start a command; SandboxError when it cannot be confined, and then it was not started."""


class RefusingSandbox:
    """The sandbox of a machine that has none: it starts nothing and says why."""

    name = "refuse"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def refusal(self, policy: Policy) -> str | None:
        return self._reason

    def start(self, policy: Policy, command: Command) -> Process:
        raise SandboxError(f"nothing was started: {self._reason}")


class BackendCheck(NamedTuple):
    """A backend, and why it cannot be used; None if it can."""

    sandbox: Sandbox
    refusal: str | None


def try_sandbox(sandbox: Sandbox, policy: Policy, cwd: str = "/") -> str | None:
    """Run a command that does nothing under a policy; return what goes wrong, or None."""
    from subprocess import DEVNULL, PIPE

    command = Command(["/bin/sh", "-c", ":"], cwd, {}, DEVNULL, DEVNULL, PIPE)
    try:
        process = sandbox.start(policy, command)
    except SandboxError as error:
        return str(error).removeprefix("the command was not started: ")
    try:
        code = process.wait(TRY_S)
    finally:
        process.kill()
    said = ""
    if process.stderr is not None:
        with process.stderr:
            said = process.stderr.read(2000).decode("utf-8", "replace").strip()
    if code is None:
        return f"a command that does nothing did not end within {TRY_S:g} s"
    return None if code == os.EX_OK else said or f"a command that does nothing ended with {code}"


def backends() -> "list[Sandbox]":
    """Return the sandbox backends, best first."""
    from onhand.sandbox.bubblewrap import BubblewrapSandbox
    from onhand.sandbox.landlock import LandlockSandbox

    return [BubblewrapSandbox(), LandlockSandbox()]


def check_backends(policy: Policy) -> list[BackendCheck]:
    """Try every backend with a policy, and return the outcomes."""
    return [BackendCheck(sandbox, sandbox.refusal(policy)) for sandbox in backends()]


def choose(policy: Policy, backend: str = "auto") -> Sandbox:
    """Return the named backend, or the best one that works here; if none does, one that refuses."""
    reasons = []
    for sandbox in backends():
        if backend in ("auto", sandbox.name):
            refusal = sandbox.refusal(policy)
            if refusal is None:
                return sandbox
            reasons.append(f"{sandbox.name}: {refusal}")
    return RefusingSandbox(f"no sandbox works here ({'; '.join(reasons)}); `onhand sandbox check` says what to do")


OUT_OF_TIME, NOT_FOUND, KILLED = 124, 127, 143


class MemorySandbox:
    """Confines pretended commands among pretended files."""

    name = "memory"

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = files if files is not None else {}

    def refusal(self, policy: Policy) -> str | None:
        return None

    def start(self, policy: Policy, command: Command) -> Process:
        policy.validate()
        if not command.argv:
            raise SandboxError("the command was not started: it has no words")
        name, *words = command.argv
        lines: list[bytes] = []
        failed = False
        for path in words if name in ("cat", "touch") else []:
            done = self._read(policy, path) if name == "cat" else self._touch(policy, path)
            failed = failed or done is None
            lines.append(done or b"")
        if name == "sleep":
            seconds = float(words[0])
            return SimulatedProcess(
                None if policy.wall_s is None or policy.wall_s > seconds else OUT_OF_TIME, b"", command
            )
        codes = {"cat": int(failed), "touch": int(failed), "true": 0, "false": 1}
        return SimulatedProcess(codes.get(name, NOT_FOUND), b"".join(lines), command)

    def _read(self, policy: Policy, path: str) -> bytes | None:
        return self.files.get(path) if policy.may_read(path) else None

    def _touch(self, policy: Policy, path: str) -> bytes | None:
        if not policy.may_write(path):
            return None
        self.files.setdefault(path, b"")
        return b""


class SimulatedProcess:
    """A simulated command that has already ended, or never will on its own."""

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
