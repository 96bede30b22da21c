"""Look for what no test has found yet: `python tests/fuzz.py SECONDS [FILE…]`, or `make fuzz`.

The generated tests run again and again with another seed each time, file by file, until the time is over. What fails is
printed with its example, to become a test of its own, and with the command that repeats it.
"""
# ruff: noqa: T201  (it reports on the terminal)

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from random import SystemRandom

TESTS = Path(__file__).parent


def generated() -> list[Path]:
    """The files whose tests make up what they send."""
    hostile = [path for path in TESTS.glob("hostile/test_*.py") if path.stem != "test_cases"]
    return [*sorted(TESTS.glob("properties/test_*.py")), *sorted(hostile), TESTS / "e2e" / "test_power.py"]


def run(path: Path, seed: int, left_s: float) -> bool:
    """Run one file; whether it passed, or there was no time left to finish."""
    variables = {"ONHAND_FUZZ": str(seed), "ONHAND_POWER_SEED": str(seed), "ONHAND_POWER_CUTS": "40"}
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", f"--hypothesis-seed={seed}", str(path)]
    started = time.monotonic()
    try:
        environ = {**os.environ, **variables}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=left_s)
    except subprocess.TimeoutExpired:
        return True
    name, took = path.relative_to(TESTS), time.monotonic() - started
    print(f"{name} with seed {seed}: {done.stdout.strip().splitlines()[-1]} ({took:.0f} s)", flush=True)
    if done.returncode:
        set_to = " ".join(f"{name}={value}" for name, value in variables.items())
        print(done.stdout, f"to repeat: {set_to} {' '.join(command)}", sep="\n", flush=True)
    return done.returncode == 0


def main(arguments: Sequence[str]) -> int:
    ends = time.monotonic() + float(arguments[0])
    paths = [Path(name).resolve() for name in arguments[1:]] or generated()
    random, rounds, failed = SystemRandom(), 0, list[str]()
    for path in cycle(paths):
        left_s = ends - time.monotonic()
        if left_s <= 0:
            break
        rounds += 1
        if not run(path, random.randrange(2**31), left_s):
            failed.append(path.name)
    print(f"{rounds} files with other examples, {len(failed)} failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
