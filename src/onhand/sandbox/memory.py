"""What does a sandbox do, without a kernel? The twin for tests: it keeps a policy over files that are only in memory.

It starts no process. It knows a few commands by name and does to its own files what they would do: `cat`, `touch`,
`true`, `false` and `sleep`. Everything else is not there.
"""

import io
from subprocess import PIPE
from typing import IO

from onhand.errors import SandboxError
from onhand.sandbox.policy import Policy
from onhand.sandbox.sandbox import Command, Process

OUT_OF_TIME, NOT_FOUND, KILLED = 124, 127, 143


class MemorySandbox:
    """Confines pretended commands among pretended files."""

    name = "memory"

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = files if files is not None else {}

    def refusal(self, policy: Policy) -> str | None:
        return None

    def start(self, policy: Policy, command: Command) -> Process:
        policy.checked()
        if not command.argv:
            raise SandboxError("the command was not started: it has no words")
        name, *words = command.argv
        lines: list[bytes] = []
        failed = False
        for path in words if name in ("cat", "touch") else []:
            done = self._read(policy, path) if name == "cat" else self._touched(policy, path)
            failed = failed or done is None
            lines.append(done or b"")
        if name == "sleep":
            seconds = float(words[0])
            return _Pretended(None if policy.wall_s is None or policy.wall_s > seconds else OUT_OF_TIME, b"", command)
        codes = {"cat": int(failed), "touch": int(failed), "true": 0, "false": 1}
        return _Pretended(codes.get(name, NOT_FOUND), b"".join(lines), command)

    def _read(self, policy: Policy, path: str) -> bytes | None:
        return self.files.get(path) if policy.may_read(path) else None

    def _touched(self, policy: Policy, path: str) -> bytes | None:
        if not policy.may_write(path):
            return None
        self.files.setdefault(path, b"")
        return b""


class _Pretended:
    """A command that has ended already, or never will by itself."""

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
