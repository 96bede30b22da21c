"""What is a sandbox? Something that starts a command within a policy, or says why it cannot and starts nothing."""

import os
from collections.abc import Mapping, Sequence
from typing import IO, NamedTuple, Protocol

from onhand.errors import SandboxError
from onhand.sandbox.policy import Policy

TRY_S = 30.0  # far more than a command that does nothing takes
Stream = int | IO[bytes] | None
"""What subprocess takes for one of the three streams."""


class Command(NamedTuple):
    """What is to be run: words, not a line for a shell."""

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
        """What whoever ran it should know besides, in sentences; once it has ended."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Its exit code, as soon as it has one; None when that takes longer."""

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


class Refuse:
    """The sandbox of a machine that has none: it starts nothing and says why."""

    name = "refuse"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def refusal(self, policy: Policy) -> str | None:
        return self._reason

    def start(self, policy: Policy, command: Command) -> Process:
        raise SandboxError(f"nothing was started: {self._reason}")


class Try(NamedTuple):
    """A backend, and why it cannot be used; None if it can."""

    sandbox: Sandbox
    refusal: str | None


def trial(sandbox: Sandbox, policy: Policy, cwd: str = "/") -> str | None:
    """What goes wrong with a command that does nothing, within a policy and a time; None if it starts and ends well."""
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
    """Every way to confine a command by the kernel, the best first."""
    from onhand.sandbox.bubblewrap import BubblewrapSandbox
    from onhand.sandbox.landlock import LandlockSandbox

    return [BubblewrapSandbox(), LandlockSandbox()]


def tries(policy: Policy) -> list[Try]:
    """Every backend, each really tried with a policy."""
    return [Try(sandbox, sandbox.refusal(policy)) for sandbox in backends()]


def choose(policy: Policy, backend: str = "auto") -> Sandbox:
    """The backend of a name, or the best that can keep a policy here; where none can, one that refuses."""
    reasons = []
    for sandbox in backends():
        if backend in ("auto", sandbox.name):
            refusal = sandbox.refusal(policy)
            if refusal is None:
                return sandbox
            reasons.append(f"{sandbox.name}: {refusal}")
    return Refuse(f"no sandbox works here ({'; '.join(reasons)}); `onhand sandbox check` says what to do")
