"""Starting, trying and killing sandboxed commands, also when something goes wrong on the way."""

import os
import sys
from pathlib import Path
from threading import Event

import pytest

from onhand.actions import shell
from onhand.errors import SandboxError
from onhand.sandbox import bubblewrap, launcher
from onhand.sandbox.layout import resolve_layout
from onhand.sandbox.policy import Policy
from onhand.sandbox.sandbox import (
    KILLED,
    Command,
    MemorySandbox,
    Process,
    RefusingSandbox,
    Sandbox,
    SimulatedProcess,
    try_sandbox,
)
from requirements import requirement
from workplace import NOBODY, confined_start, policy_for, python_inside, run, still_running


class Pretending(MemorySandbox):
    """Starts another command than requested."""

    def __init__(self, *argv: str) -> None:
        super().__init__()
        self.argv = argv
        self.started: Process | None = None

    def start(self, policy: Policy, command: Command) -> Process:
        self.started = super().start(policy, command._replace(argv=self.argv))
        return self.started


@requirement("sandbox.check")
def test_a_trial_that_does_not_end_is_killed_and_reported() -> None:
    sandbox = Pretending("sleep", "600")
    assert try_sandbox(sandbox, Policy()) == "a trial command did not end within 30 s"
    assert sandbox.started is not None
    assert sandbox.started.poll() == KILLED


@requirement("sandbox.check")
def test_an_interrupted_trial_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    sandbox = Pretending("sleep", "600")
    monkeypatch.setattr(SimulatedProcess, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        try_sandbox(sandbox, Policy())
    assert sandbox.started is not None
    assert sandbox.started.poll() == KILLED


@requirement("sandbox.check")
def test_a_trial_reports_what_went_wrong() -> None:
    assert try_sandbox(Pretending("true"), Policy()) is None
    assert try_sandbox(Pretending("false"), Policy()) == "a trial command ended with exit code 1"
    assert try_sandbox(RefusingSandbox("there is none"), Policy()) == "nothing was started: there is none"


@requirement("sandbox.check", "sandbox.run")
def test_a_supervisor_that_does_not_start_times_out(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_START_CODE", "import time; time.sleep(600)")
    monkeypatch.setattr(launcher, "BEGIN_S", 0.2)
    with pytest.raises(SandboxError, match=r"the command was not started: it did not begin within 0\.2 s"):
        run(sandbox, Policy(readable=("/usr", "/bin", "/lib", "/lib64")), "/bin/sh", "-c", ":")


@requirement("actions.shell-timeout")
@pytest.mark.parametrize("domains", [(), ("example.com",)])
@pytest.mark.parametrize("by", ["timeout", "stop"])
def test_a_command_that_is_stopped_before_it_starts_does_not_run(
    sandbox: Sandbox, place: Path, monkeypatch: pytest.MonkeyPatch, by: str, domains: tuple[str, ...]
) -> None:
    monkeypatch.setattr(launcher, "_START_CODE", "import time; time.sleep(600)")
    monkeypatch.setattr(launcher, "START_S", 600.0)  # it is not this that ends the wait
    stop = Event()
    if by == "stop":
        stop.set()
    start = confined_start(sandbox, policy_for(place, domains=domains))
    ran = shell.run_command("touch begun", cwd=str(place), timeout_s=0.3, start=start, stop=stop)
    assert (ran.ended_by, ran.exit_code, ran.notes) == (
        by,
        None,
        ("it had not started yet: the sandbox was not ready",),
    )
    assert sorted(os.listdir(place)) == ["notes.txt", "src"]


STUCK = """#!{python}
import os, sys, time
told = int(sys.argv[sys.argv.index("--info-fd") + 1])
os.write(told, b'{{"child-pid": %d}}' % os.getpid())
time.sleep(600)
"""


@requirement("actions.shell-timeout")
@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_a_supervisor_that_is_stopped_while_mounting_cleans_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = place / "src" / "bwrap"
    program.write_text(STUCK.format(python=python_inside()))
    program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "_program", lambda: str(program))
    monkeypatch.setattr(bubblewrap, "_missing_requirement", lambda: None)
    monkeypatch.setattr(launcher, "GRACE_S", 10.0)
    monkeypatch.setattr(launcher, "kill_descendants", lambda _: pytest.fail("it was killed from outside"))
    start = confined_start(bubblewrap.BubblewrapSandbox(), policy_for(place))
    assert shell.run_command(":", cwd=str(place), timeout_s=0.5, start=start).ended_by == "timeout"
    assert sorted(os.listdir(place)) == ["notes.txt", "src"]


FAILING = """#!/bin/sh
{told}
echo "bwrap: no way" >&2
exit 1
"""


@requirement("sandbox.never-silently-open")
@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
@pytest.mark.parametrize("told", ["", 'while [ "$1" != --info-fd ]; do shift; done; echo "{\\"child-pid\\": $$}" >&$2'])
def test_a_command_whose_sandbox_fails_is_not_started(place: Path, monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    program = place / "src" / "bwrap"
    program.write_text(FAILING.format(told=told))
    program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "_program", lambda: str(program))
    monkeypatch.setattr(bubblewrap, "_missing_requirement", lambda: None)
    policy = policy_for(place)
    failed = "bubblewrap could not set up the sandbox: bwrap: no way"
    with pytest.raises(SandboxError, match=f"^the command was not started: {failed}$"):
        shell.run_command("true", cwd=str(place), start=confined_start(bubblewrap.BubblewrapSandbox(), policy))
    assert try_sandbox(bubblewrap.BubblewrapSandbox(), policy) == failed
    assert sorted(os.listdir(place)) == ["notes.txt", "src"]


KILLING = """#!{python}
import os, signal, sys
info_fd, block_fd = (int(sys.argv[sys.argv.index(name) + 1]) for name in ("--info-fd", "--block-fd"))
first = os.fork()
if first == 0:
    os.setsid()
    os.read(block_fd, 1)  # like bubblewrap, it goes on when the other end is closed
    os.execv("/bin/sleep", ["sleep", "{seconds}"])
os.write(info_fd, b'{{"child-pid": %d}}' % first)
os.kill(os.getppid(), signal.SIGKILL)
"""


@requirement("sandbox.never-silently-open", "sandbox.run")
@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_a_command_whose_supervisor_is_killed_before_the_check_of_its_mounts_is_not_started(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = f"93{os.getpid()}"
    program = place / "src" / "bwrap"
    program.write_text(KILLING.format(python=python_inside(), seconds=seconds))
    program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "_program", lambda: str(program))
    monkeypatch.setattr(bubblewrap, "_missing_requirement", lambda: None)
    with pytest.raises(SandboxError, match=r"^the command was not started: its supervisor ended too early"):
        run(bubblewrap.BubblewrapSandbox(), policy_for(place), "true", cwd=place)
    assert still_running(f"sleep {seconds}") == []


@requirement("sandbox.never-silently-open")
@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_a_missing_bubblewrap_program_is_reported_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "_program", lambda: str(place / "bwrap"))
    monkeypatch.setattr(bubblewrap, "_missing_requirement", lambda: None)
    with pytest.raises(SandboxError, match=r"not started: \[Errno 2\] No such file .* while starting \S*/bwrap$"):
        run(bubblewrap.BubblewrapSandbox(), policy_for(place), "true", cwd=place)


@requirement("sandbox.never-silently-open")
def test_a_path_that_disappears_during_the_setup_is_reported(place: Path) -> None:
    gone = str(place / "gone" / ".env")
    layout = resolve_layout(policy_for(place))._replace(hidden=(gone,))
    with pytest.raises(SandboxError, match=r"gone/\.env no longer exists: .*; try again when"):
        launcher.reachable_layout(layout, (NOBODY, NOBODY))
