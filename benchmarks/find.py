"""What does a search in files cost beside ripgrep called directly? `python -m benchmarks.find --files 5000`

Each round runs our grep and the `rg` on the PATH with the same options, one after the other over the same tree of
Python-like files, or over directories of yours (--trees DIRECTORY … --patterns TODO import). Printed are the medians of
the rounds in milliseconds and their ratio: in time on the clock and, since others may use the machine too, in processor
time of all processes.
"""

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from onhand.actions.grep import DEFAULT_LIMIT, MAX_MATCHES, LinePattern, grep
from onhand.actions.workspace import Workspace
from onhand.errors import InputError

PATTERNS = {
    "rare word": "needle_4711",
    "regular expression": r"def \w+_token\(",
    "nothing": "there_is_no_such_word",
    "common word": "return",
    "in the last files": "late_marker",  # more files than matches are asked for, none of them among the first
}
LATE_FROM = "package25"  # of the directories by name, so that about half of the files come later
WORDS = "value token user path index query result count total config state cache entry node field".split()


def tree(root: Path, files: int) -> None:
    """Files that look like a project's."""
    chosen = random.Random(7)
    for number in range(files):
        place = root / f"package{number % 40}" / f"module{number % 7}"
        place.mkdir(parents=True, exist_ok=True)
        lines = [_function(chosen, line) for line in range(40)]
        if number % 500 == 0:
            lines.append("# needle_4711\n")
        if f"package{number % 40}" >= LATE_FROM:
            lines.append("# late_marker\n")
        (place / f"file{number}.py").write_text("".join(lines), encoding="utf-8")


def _function(chosen: random.Random, line: int) -> str:
    name, other, value = (chosen.choice(WORDS) for _ in range(3))
    return f"def {name}_{other}(value):\n    {value} = {line}\n    return value\n"


class Time(NamedTuple):
    """Milliseconds that something takes."""

    wall: float
    cpu: float


def measure_time(act: Callable[[], object]) -> Time:
    """How long something takes, its child processes included."""
    began, used = time.perf_counter(), _cpu_s()
    act()
    return Time(1000 * (time.perf_counter() - began), 1000 * (_cpu_s() - used))


def _cpu_s() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, whose))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each pattern."""
    parser = argparse.ArgumentParser(prog="benchmarks.find", description=__doc__)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--limit",
        type=int,
        default=MAX_MATCHES,
        help=f"matches; a model gets {DEFAULT_LIMIT} unless it asks",
    )
    parser.add_argument("--trees", nargs="+", help="directories to search, instead of one that is made")
    parser.add_argument("--patterns", nargs="+", help="what to search them for")
    asked = parser.parse_args(arguments)
    for missing in (place for place in asked.trees or () if not os.path.isdir(place)):
        parser.error(f"--trees: {missing} is not a directory: name one to search")
    patterns = PATTERNS if asked.patterns is None else {pattern: pattern for pattern in asked.patterns}
    try:
        for pattern in patterns.values():
            LinePattern(pattern)
    except InputError as error:
        parser.error(f"--patterns: {error}")
    titles = f"{'ours':>9}{'ripgrep':>9}{'ratio':>7}{'CPU':>7}"
    with tempfile.TemporaryDirectory() as directory:
        if asked.trees is None:
            tree(Path(directory), asked.files)
        for place in asked.trees or [directory]:
            workspace = Workspace(place)
            program = shutil.which("rg")
            if program is None:
                print("ripgrep is not on the PATH: install it to compare")
                return
            print(f"{place[-34:] if asked.trees else 'pattern':34}{titles[2:]}")
            for name, pattern in patterns.items():
                _print_row(name, workspace, program, pattern, asked.limit, asked.rounds)


def _print_row(name: str, workspace: Workspace, program: str, pattern: str, limit: int, rounds: int) -> None:
    command = [program, "--no-config", "--no-ignore-parent", "--line-number", "--no-heading", "-e", pattern, "./"]

    def direct() -> None:
        subprocess.run(command, cwd=workspace.root, env={"PATH": os.defpath}, capture_output=True)

    acts: list[Callable[[], object]] = [
        lambda: grep(workspace, pattern, limit=limit),
        direct,
    ]
    for act in acts:  # once before it counts: imports, and the system's cache of files
        act()
    taken = zip(*([measure_time(act) for act in acts] for _ in range(rounds)), strict=True)
    ours, theirs = (Time(*map(statistics.median, zip(*times, strict=True))) for times in taken)
    ratios = f"{ours.wall / theirs.wall:5.2f}  {ours.cpu / theirs.cpu:5.2f}"
    print(f"{name:34}{ours.wall:7.1f}  {theirs.wall:7.1f}  {ratios}", flush=True)


if __name__ == "__main__":
    main()
