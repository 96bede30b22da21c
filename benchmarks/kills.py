"""Does a kill lose a write that was acknowledged? `python -m benchmarks.kills --kills 1000` kills writers and counts.

A writer puts, replaces and deletes documents in one file, and says so after each call has returned. It is killed at
a moment of no one's choosing; then the file is opened, and compared with what the writer said.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from onhand.document import Document
from onhand.lexical import segment
from onhand.store import segments
from onhand.store.sqlite import SqliteStore
from onhand.store.store import Entry

BATCH = 5  # documents of a call: all of them or none
IDS = 60
LONGEST_LIFE_S = 0.12


class Outcome(NamedTuple):
    """What became of some kills."""

    kills: int = 0
    acknowledged: int = 0  # calls
    lost: int = 0  # of these
    torn: int = 0  # calls of which a part is there
    damaged: int = 0  # files that are not in order

    def __add__(self, other: object) -> "Outcome":
        assert isinstance(other, Outcome)
        return Outcome(*(own + more for own, more in zip(self, other, strict=True)))


def small_segments() -> None:
    """Segments are built, merged and cleared all the time, so that a kill meets each of these."""
    segments.MAX_TAIL_DOCUMENTS, segments.MAX_BULK_DOCUMENTS, segment.FAN = 8, 32, 2


def text_of(name: str, call: int) -> str:
    return f"{name} was written by call {call} " + "and is long enough to fill pages " * (call % 40)


def plan(call: int) -> tuple[list[str], bool]:
    """The ids that a call writes, and whether it deletes them."""
    chance = random.Random(call)
    return sorted(chance.sample([f"d{number:02}" for number in range(IDS)], BATCH)), chance.random() < 0.2


def write(path: str, first_call: int) -> None:
    """The writer: goes on until it is killed."""
    small_segments()
    store = SqliteStore(path)
    call = first_call
    while True:
        ids, deletes = plan(call)
        if deletes:
            store.delete(ids)
        else:
            vector = array("f", [1.0, 0.0])
            store.upsert([Entry(Document(name, text=text_of(name, call), tags=(str(call),)), vector) for name in ids])
        print(call, flush=True)
        call += 1


def kill_once(path: str, first_call: int, chance: random.Random) -> int:
    """Start a writer and kill it a moment later; the last call that it acknowledged, or the one before its first."""
    command = [sys.executable, "-m", "benchmarks.kills", "--write", path, str(first_call)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline()] if chance.random() < 0.7 else []  # the others die while they open the file
        time.sleep(chance.random() * LONGEST_LIFE_S)
        os.kill(writer.pid, signal.SIGKILL)
        said += writer.stdout.readlines()
    whole = [int(line) for line in said if line.endswith("\n")]
    return whole[-1] if whole else first_call - 1


def expected(calls: int) -> dict[str, int]:
    """Which call wrote what is there after so many calls."""
    there: dict[str, int] = {}
    for call in range(calls):
        ids, deletes = plan(call)
        for name in ids:
            if deletes:
                there.pop(name, None)
            else:
                there[name] = call
    return there


def found(store: SqliteStore) -> dict[str, int]:
    """Which call wrote what is there; -1 where the text is not what that call wrote."""
    there = {}
    for name in store.scan(limit=IDS + 1):
        document = store.get(name)
        assert document is not None
        call = int(document.tags[0])
        there[name] = call if document.text == text_of(name, call) else -1
    return there


def judge(path: str, last: int) -> tuple[Outcome, int]:
    """What a kill after this call left behind, and the call to go on with."""
    store = SqliteStore(path)
    try:
        there, damages = found(store), store.check()
        agree = len(there) == store.count() == len(store.keyword("written", limit=IDS + 1)) == store.vectors()
    finally:
        store.close()
    damaged = bool(damages) or not agree
    if there == expected(last + 1):
        return Outcome(1, damaged=damaged), last + 1
    if there == expected(last + 2):  # it was done, and the writer had no time to say so
        return Outcome(1, damaged=damaged), last + 2
    lost = any(there.get(name) != call for name, call in expected(last + 1).items() if name not in plan(last + 1)[0])
    return Outcome(1, lost=int(lost), torn=int(not lost), damaged=damaged), last + 1


def run(kills: int, seed: int, directory: Path) -> Outcome:
    """Kill writers of one file, one after the other."""
    small_segments()
    chance = random.Random(seed)
    path, next_call, total = str(directory / f"killed{seed}.db"), 0, Outcome()
    for _ in range(kills):
        last = kill_once(path, next_call, chance)
        outcome, following = judge(path, last)
        total += outcome._replace(acknowledged=last + 1 - next_call)
        next_call = following
        if outcome.lost or outcome.torn or outcome.damaged:
            break
    return total


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how many kills there were and what they destroyed."""
    parser = argparse.ArgumentParser(prog="benchmarks.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--files", type=int, default=4, help="that are written and killed at once")
    parser.add_argument("--write", nargs=2, metavar=("PATH", "CALL"), help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.write:
        write(asked.write[0], int(asked.write[1]))
        return
    began = time.monotonic()
    shares = [asked.kills // asked.files + (number < asked.kills % asked.files) for number in range(asked.files)]
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(asked.files) as pool:
        outcomes = pool.map(lambda pair: run(pair[1], pair[0], Path(directory)), enumerate(shares))
        total = sum(outcomes, Outcome())
    print("kills  acknowledged  lost  torn  damaged  seconds")
    print("{:5}  {:12}  {:4}  {:4}  {:7}".format(*total), f"  {time.monotonic() - began:5.0f}")
    sys.exit(bool(total.lost or total.torn or total.damaged))


if __name__ == "__main__":
    main()
