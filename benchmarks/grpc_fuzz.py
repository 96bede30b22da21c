"""Does any message bring the server down? `python -m benchmarks.grpc_fuzz --messages 100000 --seed 1`

A server process is sent messages that were right once and that somebody meddled with. Printed are how calls ended, and
what must never happen: a status that no row of the table gives, a word that tells of the server's inside, and a server
that does not answer any more or has more memory and open files than before.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import grpc

from benchmarks.grpc_load import OPTIONS, built, served

LEAKS = ("Error", "Traceback", "google.", "onhand.", "/src/", ".py", "class ")
EXPECTED = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED"}  # the last when more come than may
AT_ONCE = 50


def send(channel: grpc.Channel, messages: int, random: Random) -> tuple[Counter[str], list[str]]:
    """How calls ended, and what should not have happened."""
    from grpc_mutation import mutated

    ended: Counter[str] = Counter()
    wrong: list[str] = []
    for _ in range(0, messages, AT_ONCE):
        calls: list[tuple[str, bytes, Any]] = []
        for _ in range(AT_ONCE):
            method, raw = mutated(random)
            call: Any = channel.unary_unary(method)
            calls.append((method, raw, call.future(raw, timeout=60)))
        for method, raw, future in calls:
            code, details = future.code().name, future.details() or ""
            ended[code] += 1
            if code not in EXPECTED or any(leak in details for leak in LEAKS):
                wrong.append(f"{method} {raw!r}: {code} {details}")
    return ended, wrong


def held(pid: int) -> tuple[float, int]:
    """Memory in MiB, and open files."""
    status = Path(f"/proc/{pid}/status").read_text()
    (resident,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return resident / 1024, len(os.listdir(f"/proc/{pid}/fd"))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from mail import mails

    random, start = Random(options.seed), time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "documents.db"
        built(path, mails())
        with served(path) as (pid, address), grpc.insecure_channel(address, OPTIONS) as channel:
            send(channel, 2_000, random)
            ended, wrong, kept = Counter[str](), list[str](), [held(pid)]
            for _ in range(4):
                some, bad = send(channel, options.messages // 4, random)
                ended, wrong = ended + some, wrong + bad
                kept.append(held(pid))
    print(f"{options.messages:,} messages in {time.monotonic() - start:.0f} s: {dict(ended.most_common())}")
    print("memory in MiB and open files by quarters: " + " → ".join(f"{size:.1f}, {files}" for size, files in kept))
    print(f"{len(wrong)} that should not have happened", *wrong[:10], sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
