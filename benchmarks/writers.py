"""Do many writers of one file get in each other's way? `python -m benchmarks.writers --writers 16 --writes 1000`

Processes write two documents at a time, each time in a durable call of its own, while as many others read. Printed are
calls, documents that are missing, errors, and reads that saw half a call or documents going away.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from select import select
from typing import Any, NamedTuple

from onhand.document import Document
from onhand.store.sqlite import SqliteStore
from onhand.store.store import Entry

PAIR = 2  # documents of a call: a reader sees both or none


class Outcome(NamedTuple):
    """What became of many writers and readers."""

    writes: int
    lost: int
    errors: list[str]
    reads: int
    torn: int  # reads that saw half a call, or less than the read before
    damages: int
    slowest_s: float
    seconds: float


def write(path: str, name: str, writes: int) -> None:
    """A writer; says how long its slowest call took."""
    store = SqliteStore(path)
    slowest = 0.0
    for number in range(writes):
        began = time.monotonic()
        store.upsert([Entry(Document(f"{name}-{number}-{half}", text=f"written by {name}")) for half in range(PAIR)])
        slowest = max(slowest, time.monotonic() - began)
    store.close()
    print(json.dumps({"slowest": slowest}))


def read(path: str) -> None:
    """A reader, until its input ends; says how much it read and what it should not have seen."""
    store = SqliteStore(path)
    reads = torn = last = 0
    while not select([sys.stdin], [], [], 0)[0]:
        count, listed = store.count(), store.scan(order_by="document_id desc", limit=20)
        matches = store.keyword("written", limit=20)
        halves = [name.rsplit("-", 1)[0] for name in listed]
        torn += bool(count % PAIR) or halves[::2] != halves[1::2] or count < last or len(matches) < min(count, 20)
        reads, last = reads + 1, count
    store.close()
    print(json.dumps({"reads": reads, "torn": torn}))


def run(path: Path, writers: int, writes: int, readers: int) -> Outcome:
    """Let so many processes write and read at once."""
    began = time.monotonic()
    reading = [_start("--read", str(path)) for _ in range(readers)]
    writing = [_start("--write", str(path), f"w{number}", str(writes)) for number in range(writers)]
    written = [_said(process) for process in writing]
    read = [_said(process) for process in reading]
    store = SqliteStore(path)
    names = {f"w{number}-{call}-{half}" for number in range(writers) for call in range(writes) for half in range(PAIR)}
    there, damages = set(store.scan(limit=10**7)), store.check()
    store.close()
    return Outcome(
        writers * writes,
        len(names - there),
        [str(one["error"]) for one in written + read if "error" in one],
        sum(one.get("reads", 0) for one in read),
        sum(one.get("torn", 0) for one in read),
        len(damages),
        max(one.get("slowest", 0.0) for one in written),
        time.monotonic() - began,
    )


def _start(*arguments: str) -> "subprocess.Popen[str]":
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "benchmarks.writers", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environ)


def _said(process: "subprocess.Popen[str]") -> dict[str, Any]:
    out, err = process.communicate()  # which ends its input
    said: dict[str, Any] = json.loads(out) if process.returncode == 0 else {"error": err[-500:]}
    return said


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what happened to the writers and the readers."""
    parser = argparse.ArgumentParser(prog="benchmarks.writers", description=__doc__)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--writes", type=int, default=1000, help="by each of them")
    parser.add_argument("--readers", type=int, default=16)
    parser.add_argument("--write", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.write:
        write(asked.write[0], asked.write[1], int(asked.write[2]))
    elif asked.read:
        read(asked.read)
    else:
        with tempfile.TemporaryDirectory() as directory:
            outcome = run(Path(directory) / "shared.db", asked.writers, asked.writes, asked.readers)
        print("writes  lost  errors  reads  torn  damages  slowest write  seconds")
        print(
            f"{outcome.writes:6}  {outcome.lost:4}  {len(outcome.errors):6}  {outcome.reads:5}  {outcome.torn:4}  "
            f"{outcome.damages:7}  {outcome.slowest_s:11.2f} s  {outcome.seconds:7.0f}"
        )
        print(*outcome.errors[:3], sep="\n")
        sys.exit(bool(outcome.lost or outcome.errors or outcome.torn or outcome.damages))


if __name__ == "__main__":
    main()
