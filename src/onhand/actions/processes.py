"""How is a command started, and ended with all that it started? Without walls: for those, give another Start.

A command is the leader of a session of its own, so that one signal ends it with its children. Those that left the
session are looked for among its descendants, and by a mark that they inherit; only a sandbox ends who hid from it too.
A command that ends by itself may leave a daemon behind, as build tools do.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Protocol

from onhand.descendants import end_descendants, end_marked, send
from onhand.errors import InputError

END_S = 0.7  # for who was killed to be gone; with what comes before, within a second
MARK = "_ONHAND_COMMAND"  # the variable by which all that came from one command is known


class Process(Protocol):
    """A command that runs, with pipes to what it prints."""

    @property
    def stdout(self) -> IO[bytes] | None: ...
    @property
    def stderr(self) -> IO[bytes] | None: ...
    @property
    def notes(self) -> Sequence[str]:
        """What whoever ran it should know besides, in sentences; once it has ended."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""

    def kill(self) -> None:
        """End it and everything that it started, within a second."""


Start = Callable[[Sequence[str], str, Mapping[str, str]], Process]
"""Starts words in a directory with an environment: nothing to read, and pipes for both outputs."""


def start_unconfined(argv: Sequence[str], cwd: str, environment: Mapping[str, str]) -> Process:
    """Start a command with all the rights of this process."""
    mark = os.urandom(8).hex()
    try:
        process = subprocess.Popen(  # noqa: S603  # the words are what was asked for
            list(argv),
            cwd=cwd,
            env={**environment, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return Group(process, f"{MARK}={mark}".encode())
    except OSError as error:
        raise InputError(f"the command could not be started: {error.strerror}; look at its directory") from None


class Group:
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
        others = self._end_all() if self._process.poll() is None else []
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process, signal.SIGKILL)  # its number stays taken while it has members or is not reaped
        self.notes = tuple(f"process {one} became another user's, as by sudo, and goes on: end it" for one in others)
        if process in others:
            return
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.notes += (f"process {process} was killed and is not gone yet: the system still works for it",)

    def _end_all(self) -> list[int]:
        """Kill what came of the command, and give those that go on."""
        process = self._process.pid
        obeys = send(process, signal.SIGSTOP)  # it could start more while the others are ended
        return [*([] if obeys else [process]), *end_descendants(process), *end_marked(self._mark)]
