"""What starting a command behind walls costs, beside a plain `sh -c true`: time and CPU time, as ratios.

    python -m benchmarks.sandbox_start [--runs 30]

All rows take turns in one run, so that a busy moment of the machine meets them all. Beside the median of the time that
passed are its least (a start can be disturbed, not hurried; the ratio is of these) and the median of the CPU time, ours
and that of all that was started. `python -I -S -c pass` is shown because a confined command is started by a small
Python process that gives up its rights first; bwrap alone is what no Python at all would cost. Among many
files, the starts of the first three seconds read every directory, and later ones only those that changed.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from time import perf_counter

from onhand.actions.shell import run_command, start_unconfined
from onhand.sandbox.bubblewrap import BubblewrapSandbox
from onhand.sandbox.landlock import LandlockSandbox
from onhand.sandbox.policy import Policy, workspace_policy
from onhand.sandbox.sandbox import Command, Sandbox

NULL = subprocess.DEVNULL
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
TRUE = ["/bin/sh", "-c", "true"]
FILES = 20_000


def plain(words: Sequence[str]) -> Callable[[], None]:
    def once() -> None:
        subprocess.run(words, stdin=NULL, stdout=NULL, stderr=NULL, env=ENVIRONMENT, check=True)

    return once


def run_confined(sandbox: Sandbox, policy: Policy, cwd: str) -> Callable[[], None]:
    def once() -> None:
        code = sandbox.start(policy, Command(TRUE, cwd, ENVIRONMENT, NULL, NULL, NULL)).wait()
        assert code == 0, f"{sandbox.name} ended with {code}"

    return once


def through_shell(sandbox: Sandbox, policy: Policy, cwd: str) -> Callable[[], None]:
    pipes = (NULL, subprocess.PIPE, subprocess.PIPE)

    def once() -> None:
        ran = run_command(
            "true",
            cwd=cwd,
            environment=ENVIRONMENT,
            start=lambda argv, cwd, env: sandbox.start(policy, Command(argv, cwd, env, *pipes)),
        )
        assert ran.ok, ran

    return once


def fill(directory: str) -> None:
    """Make a workspace large: its names are looked at before and after every command."""
    for number in range(FILES // 10):
        inner = os.path.join(directory, str(number % 50), str(number))
        os.makedirs(inner)
        for name in range(10):
            open(os.path.join(inner, f"{name}.py"), "w").close()
    own(directory)


def own(directory: str) -> None:
    if os.geteuid() == 0:  # who becomes nobody for a command
        os.chmod(directory, 0o755)
        os.chown(directory, 65534, 65534)


def rows_of(cwd: str, large: str) -> tuple[dict[str, Callable[[], None]], list[str]]:
    """What is measured here, and what cannot be, with the reason."""
    policy = workspace_policy(cwd)
    networked = policy._replace(domains=("example.com",))
    rows = {"sh -c true": plain(TRUE), "python -I -S -c pass": plain([sys.executable, "-I", "-S", "-c", "pass"])}
    rows["shell tool's function, unconfined"] = lambda: _run_unconfined(cwd)
    missing = []
    bwrap = shutil.which("bwrap")
    if bwrap and os.geteuid() != 0:
        rows["bwrap alone"] = plain([bwrap, "--ro-bind", "/", "/", "--unshare-all", *TRUE])
    backends: list[Sandbox] = [BubblewrapSandbox(), LandlockSandbox()]
    for sandbox in backends:
        refusal = sandbox.refusal(policy)
        if refusal:
            missing.append(f"{sandbox.name}: {refusal}")
            continue
        rows[sandbox.name] = run_confined(sandbox, policy, cwd)
        rows[f"{sandbox.name}, among {FILES:,} files"] = run_confined(sandbox, workspace_policy(large), large)
        rows[f"{sandbox.name}, by the shell tool's function"] = through_shell(sandbox, policy, cwd)
        if sandbox.refusal(networked) is None:
            rows[f"{sandbox.name}, with domains and proxy"] = run_confined(sandbox, networked, cwd)
    return rows, missing


def _run_unconfined(cwd: str) -> None:
    assert run_command("true", cwd=cwd, environment=ENVIRONMENT, start=start_unconfined).ok


def measure(rows: dict[str, Callable[[], None]], runs: int) -> dict[str, list[tuple[float, float]]]:
    """For each row and run the milliseconds that passed and those of the CPU."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
    for _ in range(runs):
        for name, once in rows.items():
            began, worked = perf_counter(), cpu_s()
            once()
            times[name].append(((perf_counter() - began) * 1000, (cpu_s() - worked) * 1000))
    return times


def cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as large:
        cwd = os.path.realpath(directory)
        own(cwd)
        fill(os.path.realpath(large))
        rows, missing = rows_of(cwd, os.path.realpath(large))
        times = measure(rows, arguments.runs)
    base = min(passed for passed, _ in times["sh -c true"])
    print(f"{'':<44}{'median ms':>10}{'least ms':>10}{'ratio':>8}{'CPU ms':>8}")
    for name, taken in times.items():
        passed, worked = ([one[place] for one in taken] for place in (0, 1))
        median, least = statistics.median(passed), min(passed)
        print(f"{name:<44}{median:>10.1f}{least:>10.1f}{least / base:>8.1f}{statistics.median(worked):>8.1f}")
    for reason in missing:
        print(f"not measured here: {reason}")


if __name__ == "__main__":
    main()
