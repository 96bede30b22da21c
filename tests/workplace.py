"""Where can a confined command work, whoever runs the tests? A directory that the user it runs as can get to and write.

pytest's own directories are for the user of the tests alone; root becomes somebody else in a sandbox.
"""

import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from onhand.actions.shell import RunningCommand, StartCommand
from onhand.sandbox.bubblewrap import BubblewrapSandbox
from onhand.sandbox.landlock import LandlockSandbox
from onhand.sandbox.policy import Policy, workspace_policy
from onhand.sandbox.sandbox import Command, Sandbox

NOBODY = 65534
BACKENDS: dict[str, type[Sandbox]] = {"bubblewrap": BubblewrapSandbox, "landlock": LandlockSandbox}


@contextmanager
def workplace() -> Iterator[Path]:
    """A directory with a few files, gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="onhand-test-", dir="/tmp")).resolve()
    try:
        directory.chmod(0o755)
        (directory / "src").mkdir()
        (directory / "src" / "app.py").write_text("print('hello')\n")
        (directory / "notes.txt").write_text("hello\n")
        give(directory)
        yield directory
    finally:
        for above, names, _ in os.walk(directory):  # a command may have closed some
            for inner in (Path(above, name) for name in names):
                if not inner.is_symlink():
                    inner.chmod(0o700)
        for place in (str(directory), quarantine_of(directory)):
            shutil.rmtree(place, ignore_errors=True)


def give(path: Path) -> None:
    """Hand a path and all below it to whom a command runs as."""
    if os.geteuid() == 0:
        for one in [path, *path.rglob("*")]:
            os.chown(one, NOBODY, NOBODY, follow_symlinks=False)


def backend(name: str, domains: tuple[str, ...] = ()) -> Sandbox:
    """A backend that works here; else the test that needs it is skipped and says why."""
    sandbox = BACKENDS[name]()
    refusal = sandbox.refusal(Policy(domains=domains))
    if refusal:
        pytest.skip(f"{name} does not work here: {refusal}")
    return sandbox


def run(
    sandbox: Sandbox, policy: Policy, *argv: str, cwd: Path | str = "/", env: dict[str, str] | None = None
) -> "Ended":
    """Run a command to its end."""
    pipes = (subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT)
    process = sandbox.start(policy, Command(argv, str(cwd), {"PATH": "/usr/bin:/bin", **(env or {})}, *pipes))
    assert process.stdout is not None
    with process.stdout:
        printed = process.stdout.read().decode(errors="replace")
    return Ended(process.wait(60), printed, process.notes)


class Ended:
    """What came of a command."""

    def __init__(self, code: int | None, printed: str, notes: tuple[str, ...] = ()) -> None:
        self.code = code
        self.printed = printed
        self.notes = notes


def policy_for(directory: Path, **more: Any) -> Policy:
    """What is usual, for a directory."""
    usual = {"home": str(directory / "home"), "quarantine": quarantine_of(directory)}
    return workspace_policy(str(directory), **{**usual, **more})


def quarantine_of(directory: Path) -> str:
    """Where new protected names of a workplace go."""
    return f"{directory}-quarantine"


def python_inside() -> str:
    """A Python that a confined command can start: that of the system, since ours may be where only its user can go."""
    found = shutil.which("python3", path="/usr/bin:/bin")
    if found is None:
        pytest.skip("there is no Python among the system's programs")
    return found


def confined_start(sandbox: Sandbox, policy: Policy) -> StartCommand:
    """What the application gives to the shell: commands start behind the walls."""

    def start(argv: Sequence[str], cwd: str, environment: Mapping[str, str]) -> RunningCommand:
        pipes = (subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE)
        return sandbox.start(policy, Command(argv, cwd, environment, *pipes))

    return start


@contextmanager
def something_to_read() -> Iterator[Callable[[], bytes]]:
    """Something on our standard input that stays open, such as a door's next request, and what is left of it.

    pytest itself reads from nothing: whoever took its input would seem to have none.
    """
    reader, writer = os.pipe()
    kept = os.dup(0)
    os.dup2(reader, 0)
    os.write(writer, b"something")

    def left() -> bytes:
        return os.read(reader, 100) if select.select([reader], [], [], 0)[0] else b""

    try:
        yield left
    finally:
        os.dup2(kept, 0)
        for number in (reader, writer, kept):
            os.close(number)


def still_running(words: str) -> list[str]:
    """Processes that were started with these words and do not go away: a busy machine may need a while to end them."""
    end = monotonic() + 30
    while True:
        found = [process for process, line in command_lines().items() if line == words]
        if not found or monotonic() > end:
            return found


def command_lines() -> dict[str, str]:
    """What every process on this machine was started with."""
    lines = {}
    for process in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            raw = Path(f"/proc/{process}/cmdline").read_bytes()
            lines[process] = raw.replace(b"\0", b" ").decode(errors="replace").strip()
    return lines
