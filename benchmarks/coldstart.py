"""What a command costs from cold, beside what Python itself costs: CPU time of the whole process, as ratios.

    python -m benchmarks.coldstart [--runs 20] [--imports MODULE ...]

The corpus is 40 Markdown files of 10 KB made here, once in plain ASCII and once with dashes and accents. The best of
all runs counts: a start can be disturbed, not hurried.
With $ONHAND_DATA set, a row for pages of real repositories (agent_trees/*.jsonl) is added: they have more sections and
more different words than what is made here, and cost more.
"""

import argparse
import compileall
import importlib.util
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.lexical import made_up_corpus

FILES, FILE_BYTES = 40, 10 * 1024
READ_THE_FILES = "import os\nfor name in os.listdir('.AGENTS'): open('.AGENTS/' + name, 'rb').read()"


def write_corpus(root: Path, period: str) -> str:
    """Fill `.AGENTS/` with sentences that end in `period` and give a query that finds something in it."""
    chance = random.Random(11)
    sentences, queries = made_up_corpus(4000, 1)
    (root / ".AGENTS").mkdir(parents=True)
    for number in range(FILES):
        parts: list[str] = []
        while sum(map(len, parts)) < FILE_BYTES:
            heading = " ".join(chance.choice(sentences).split()[:3])
            parts.append(f"## {heading}\n\n" + f"{period}\n".join(chance.choices(sentences, k=4)) + f"{period}\n\n")
        page = "".join(parts).encode()[:FILE_BYTES].decode(errors="ignore")
        (root / ".AGENTS" / f"page-{number:02d}.md").write_text(page, encoding="utf-8")
    return queries[0]


def write_real_pages(root: Path, trees: Path) -> str:
    """Fill `.AGENTS/` with pages of real repositories, and give a query that finds something in them."""
    rows = [json.loads(line) for tree in sorted(trees.glob("*.jsonl")) for line in tree.read_text("utf-8").splitlines()]
    pages = [row["text"] for row in rows if len(row["text"]) >= FILE_BYTES]
    (root / ".AGENTS").mkdir(parents=True)
    for number, page in enumerate(random.Random(3).sample(pages, FILES)):
        text = page.encode()[:FILE_BYTES].decode(errors="ignore")
        (root / ".AGENTS" / f"page-{number:02d}.md").write_text(text, encoding="utf-8")
    return "how do I run the tests"


def cpu_ms(command: Sequence[str], cwd: Path, runs: int, cache: Path | None = None) -> float:
    """The least CPU time, user and system, that the command took where nobody has set anything.

    What it keeps between runs is in `cache`; without one, nothing is kept, and each run is a first one.
    """
    settings = {name: value for name, value in os.environ.items() if not name.startswith("ONHAND_")}
    times = []
    for _ in range(runs):
        if cache is None:
            shutil.rmtree(cwd / "cache", ignore_errors=True)
        settings["XDG_CACHE_HOME"] = str(cache or cwd / "cache")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=cwd, env=settings, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times) * 1000


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--imports", nargs="+", metavar="MODULE", help="what importing these adds, and nothing else")
    options = parser.parse_args(argv)
    if options.imports:
        print_imports(options.imports, options.runs)
    else:
        print_commands(options.runs)


def print_imports(modules: Sequence[str], runs: int) -> None:
    here = Path.cwd()
    bare = cpu_ms([sys.executable, "-c", "pass"], here, runs)
    print(f"{'an import adds':<26}{'ms':>8}{'multiple of python':>22}")
    for module in modules:
        if importlib.util.find_spec(module) is None:
            print(f"{module:<26}  is not installed")
            continue
        added = cpu_ms([sys.executable, "-c", f"import {module}"], here, runs) - bare
        print(f"{module:<26}{added:>8.1f}{added / bare:>21.2f}×")


def print_commands(runs: int) -> None:
    import onhand

    compileall.compile_dir(os.path.dirname(onhand.__file__), quiet=2)  # as an installed package is
    command = str(Path(sys.executable).parent / "onhand")
    with tempfile.TemporaryDirectory() as directory:
        root, typeset = Path(directory), Path(directory) / "typeset"
        query = write_corpus(root, ".")
        write_corpus(typeset, " — voilà…")
        bare = cpu_ms([sys.executable, "-c", "pass"], root, runs)
        reading = cpu_ms([sys.executable, "-c", READ_THE_FILES], root, runs) - bare
        print(f"{'CPU of the whole process':<26}{'ms':>8}{'multiple of python':>22}")
        print(f"{'python -c pass':<26}{bare:>8.1f}{1:>21.2f}×")
        print(f"{'reading the files':<26}{reading:>8.1f}")
        rows = [
            ("onhand --help", root, ["--help"], 0.0),
            ("onhand context search", root, ["context", "search", query], reading),
            ("… with dashes and accents", typeset, ["context", "search", query], reading),
        ]
        cache = root / "kept"
        trees = Path(os.environ.get("ONHAND_DATA", "")) / "agent_trees"
        if trees.is_dir():
            real = Path(directory) / "real"
            rows.append(("… of real pages", real, ["context", "search", write_real_pages(real, trees)], reading))
        for name, where, words, allowed in rows:
            spent = cpu_ms([command, *words], where, runs, cache)
            print(f"{name:<26}{spent:>8.1f}{(spent - allowed) / bare:>21.2f}×")
            if allowed:
                first = cpu_ms([command, *words], where, max(1, runs // 4))
                print(f"{'    the first time':<26}{first:>8.1f}{(first - allowed) / bare:>21.2f}×")


if __name__ == "__main__":
    main(sys.argv[1:])
