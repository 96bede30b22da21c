"""Compare this tree with an older commit: run the same benchmarks in both, taking turns, and print ratios.

    python -m benchmarks.compare COMMIT [NAME …] [--runs 5]

NAME is a benchmark and may carry its options in quotes, such as "tool_search --only speed". The commit is checked out
into a temporary git worktree and runs its own copy of the benchmark with this interpreter. Instead of a commit, name
the directory of a checkout to keep using it, or to let its benchmarks print more digits. Of every number that a table
prints, the least of all runs is compared, which leaves out most of what other programs on the machine took. A ratio
above 1 means that this tree takes more. Rows that only one of the two prints are listed without a ratio, and so are
numbers that are no measurements, such as sizes.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = ("coldstart", "lexical", "keyword", "vectors", "tool_search --only speed", "gateway", "loop")
TIMEOUT_S = 900
NUMBER = re.compile(r"(?<![\w.,])\d+(?:\.\d+)?(?![\w.,]*\d)")
# A multiple of another column, a share or a percentile is no measurement of its own.
DERIVED = re.compile(r"\(?\d+(?:\.\d+)?\s?[×x%]\)?|\bp\d\d\b|\d{1,3}(?:,\d{3})+|\d+th")

Rows = dict[str, list[float]]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what to compare with, as git names it, or a directory")
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help=f"default: {', '.join(NAMES)}")
    parser.add_argument("--runs", type=int, default=5, help="how often each is run in each tree")
    options = parser.parse_args(argv)
    with checkout(options.commit) as older:
        for name in options.names:
            print_ratios(name, older, options.runs)
    return 0


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Yield a directory with the tree of a commit; a directory is used as it is."""
    if Path(commit).is_dir():
        yield Path(commit)
        return
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "tree"
        run_git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            run_git("worktree", "remove", "--force", str(tree))


def run_git(*arguments: str) -> None:
    """Run git in this repository."""
    subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True)


def print_ratios(name: str, older: Path, runs: int) -> None:
    """Run one benchmark in both trees in turns, and print each row with the ratio of its numbers."""
    before: Rows = {}
    after: Rows = {}
    for _ in range(runs):
        keep_least(before, run_benchmark(name, older))
        keep_least(after, run_benchmark(name, ROOT))
    print(f"\n# {name}: least of {runs} runs, before → now (now / before)", flush=True)
    for row, numbers in after.items():
        if row not in before:
            print(f"{row:50}  only now")
            continue
        pairs = zip(before[row], numbers, strict=True)
        print(f"{row:50}", "   ".join(f"{old:g} → {new:g} ({new / old:.2f})" if old else "-" for old, new in pairs))
    for row in before.keys() - after.keys():
        print(f"{row:50}  only before")


def keep_least(known: Rows, rows: Rows) -> None:
    """Lower the numbers that are known of each row to those of another run."""
    for row, numbers in rows.items():
        known[row] = [min(pair) for pair in zip(known.get(row, numbers), numbers, strict=True)]


def run_benchmark(name: str, tree: Path) -> Rows:
    """Run a benchmark in a tree and return the measurements of each row that it prints."""
    module, *options = shlex.split(name)
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *options],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"benchmarks.{module} failed in {tree}:\n{done.stderr[-2000:]}")
    return read_rows(done.stdout)


def read_rows(output: str) -> Rows:
    """Return the measurements of a printed table by row; rows with the same words are counted."""
    rows: Rows = {}
    for line in output.splitlines():
        plain = DERIVED.sub(" ", line)
        if numbers := [float(number) for number in NUMBER.findall(plain)]:
            row = " ".join(NUMBER.sub(" ", plain).split())
            same = sum(known == row or known.startswith(f"{row} #") for known in rows)
            rows[f"{row} #{same + 1}" if same else row] = numbers
    return rows


if __name__ == "__main__":
    sys.exit(main())
