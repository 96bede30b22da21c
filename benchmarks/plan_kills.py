"""Does a kill lose a change of a plan? `python -m benchmarks.plan_kills --kills 1000` kills writers and counts.

Two writers at once change the plan of one file, each its own nodes, and say so after each change has returned. They
are killed at a moment of no one's choosing; then the file is read, and compared with what they said. A change puts
several nodes: all of them are there, or none. The journal is compacted all the time, so that kills meet that too.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from onhand.plan import plan as plan_module
from onhand.plan.plan import Plan
from onhand.plan.relations import Relations

WRITERS = ("left", "right")
NODES = 3  # of a change
IDS = 30  # of a writer's changes: then it takes out what it put before
LONGEST_LIFE_S = 0.15


class Outcome(NamedTuple):
    """What became of some kills."""

    kills: int = 0
    acknowledged: int = 0  # changes
    lost: int = 0  # of these
    torn: int = 0  # changes of which a part is there


def write(path: str, name: str, first: int) -> None:
    """A writer: goes on until it is killed."""
    plan_module.COMPACT_ABOVE = 20
    plan = Plan(path)
    number = first
    while True:
        plan.change(lambda relations: put(relations, name, number))  # noqa: B023  # runs before the next one
        print(number, flush=True)
        number += 1


def put(relations: Relations, name: str, number: int) -> None:
    """One change: a chain of nodes, and what is IDS changes old goes."""
    above: list[str] = []
    for part in range(NODES):
        id = f"{name}-{number}-{part}"
        relations.add(id, parents=above, context={"description": "x" * (number % 500), "status": "pending"})
        above = [id]
    relations.remove(f"{name}-{number - IDS}-0", remove_descendants=True)


def start(path: str, name: str, first: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.plan_kills", "--write", path, name, str(first)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)


def last_said(writer: "subprocess.Popen[str]", said: list[str], before: int) -> int:
    assert writer.stdout is not None
    said += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    whole = [int(line) for line in said if line.endswith("\n")]
    return whole[-1] if whole else before


def judge(path: str, name: str, last: int) -> tuple[Outcome, int]:
    """What a kill after this change left behind, and the change to go on with."""
    there = Plan(path).read(lambda relations: {node.id for node in relations.all() if node.id.startswith(f"{name}-")})
    for done in (last, last + 1):  # the last one may be there without a word of it
        expected = {
            f"{name}-{number}-{part}" for number in range(max(done - IDS + 1, 0), done + 1) for part in range(NODES)
        }
        if there == expected:
            return Outcome(), done + 1
    has_last = all(f"{name}-{last}-{part}" in there for part in range(NODES))
    return Outcome(lost=int(not has_last), torn=int(has_last)), last + 1


def run(kills: int, seed: int, directory: Path) -> Outcome:
    """Kill pairs of writers of one file, one pair after the other."""
    chance = random.Random(seed)
    path, total = str(directory / f"killed{seed}.plan"), Outcome()
    following = dict.fromkeys(WRITERS, 0)
    while total.kills < kills:
        running = {name: start(path, name, following[name]) for name in WRITERS}
        said = {}
        for name, writer in running.items():
            assert writer.stdout is not None
            said[name] = [writer.stdout.readline()] if chance.random() < 0.8 else []
        time.sleep(chance.random() * LONGEST_LIFE_S)
        for writer in running.values():
            os.kill(writer.pid, signal.SIGKILL)
        for name, writer in running.items():
            last = last_said(writer, said[name], following[name] - 1)
            outcome, after = judge(path, name, last)
            acknowledged = total.acknowledged + last + 1 - following[name]
            total = Outcome(total.kills + 1, acknowledged, total.lost + outcome.lost, total.torn + outcome.torn)
            following[name] = after
        if total.lost or total.torn:
            break
    return total


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how many kills there were and what they destroyed."""
    parser = argparse.ArgumentParser(prog="benchmarks.plan_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--write", nargs=3, metavar=("PATH", "NAME", "CHANGE"), help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.write:
        write(asked.write[0], asked.write[1], int(asked.write[2]))
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        total = run(asked.kills, 1, Path(directory))
    print("kills  acknowledged  lost  torn  seconds")
    print("{:5}  {:12}  {:4}  {:4}".format(*total), f"  {time.monotonic() - began:5.0f}")
    sys.exit(bool(total.lost or total.torn))


if __name__ == "__main__":
    main()
