"""Import documents into one SQLite file and into tantivy: CPU time, peak memory and size, in one run, as ratios.

    python -m benchmarks.import_speed                          100,000 documents of about 27 words
    python -m benchmarks.import_speed --words 200 --rounds 1   pages of about 200 words

Each row is a process of its own that reads the same file of JSON lines and stores and indexes title and text with
English stems, to be found by words alone. CPU time is that of the whole process, from its start, with all its threads
and children; the least of all rounds counts. `reading` only parses the lines, which is part of every other row.
`Index.put` is the Python interface, and `docs import` the command. Both have every 256 documents on disk before they
read the next ones, while tantivy commits once, at the end. It has one indexing thread and the 128 MB of memory that it
has by default.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from onhand.document import Document

TANTIVY_BYTES = 128_000_000
PEAK = "peak_kib"  # the file in which a process leaves it


class Cost(NamedTuple):
    """What one import took."""

    cpu_s: float
    peak_mib: float
    disk_mb: float


def write_documents(documents: int, words: int, path: Path) -> None:
    """Write the documents of `benchmarks.keyword`, each repeated with other words up to a length."""
    from benchmarks.keyword import made_up

    pieces = iter(made_up(documents * max(1, round(words / 27)), 0).documents)
    with path.open("w", encoding="utf-8") as file:
        for number in range(documents):
            own = [next(pieces) for _ in range(max(1, round(words / 27)))]
            record = {"id": f"d{number}", "title": own[0].title, "text": " ".join(piece.text for piece in own)}
            file.write(json.dumps(record) + "\n")


def read_records(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def read_only(source: Path, directory: Path) -> None:
    for record in read_records(source):
        assert record["id"]


def import_with_tantivy(source: Path, directory: Path) -> None:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw")
    builder.add_text_field("title", stored=True, tokenizer_name="en_stem")
    builder.add_text_field("text", stored=True, tokenizer_name="en_stem")
    writer = tantivy.Index(builder.build(), str(directory)).writer(TANTIVY_BYTES, 1)
    for record in read_records(source):
        writer.add_document(tantivy.Document(**record))
    writer.commit()
    writer.wait_merging_threads()


def import_with_index(source: Path, directory: Path) -> None:
    from onhand.search.index import Index
    from onhand.store.sqlite import SqliteStore

    with Index(SqliteStore(directory / "documents.db")) as index:
        index.put(Document(record["id"], record["title"], record["text"]) for record in read_records(source))


def import_with_command(source: Path, directory: Path) -> None:
    from onhand.cli.main import main as onhand

    os.chdir(directory)
    onhand(["docs", "import", str(source), "--db", str(directory / "documents.db"), "--embedder", "none"])


ENGINES: dict[str, Callable[[Path, Path], None]] = {
    "reading": read_only,
    "tantivy": import_with_tantivy,
    "Index.put": import_with_index,
    "docs import": import_with_command,
}


def measure(engine: str, source: Path) -> Cost:
    """Run one import in a process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "benchmarks.import_speed", "--engine", engine, str(source), directory]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{engine} failed: {process.returncode}")
        peak_kib = int((Path(directory) / PEAK).read_text())
        size = sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())
    return Cost(usage.ru_utime + usage.ru_stime, peak_kib / 1024, size / 1e6)


def read_peak_kib() -> str:
    """Return the most memory that this process had. `ru_maxrss` would include what its parent had."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=27, help="of a document, on average")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.engine:
        engine, source, directory = options.engine
        ENGINES[engine](Path(source), Path(directory))
        (Path(directory) / PEAK).write_text(read_peak_kib())
        return
    engines = [name for name in ENGINES if name != "tantivy" or importlib.util.find_spec("tantivy")]
    if "tantivy" not in engines:
        print("tantivy is not installed: there are no multiples")
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "documents.jsonl"
        write_documents(options.documents, options.words, source)
        costs: dict[str, list[Cost]] = {name: [] for name in engines}
        for _ in range(options.rounds):
            for name in engines:
                costs[name].append(measure(name, source))
    size = f"{options.documents:,} documents of {options.words} words"
    print(f"{size:<40}{'CPU s':>8}{'× tantivy':>11}{'peak MiB':>10}{'disk MB':>9}")
    peer = min(cost.cpu_s for cost in costs["tantivy"]) if "tantivy" in costs else None
    for name, found in costs.items():
        cpu_s, peak_mib, disk_mb = (min(column) for column in zip(*found, strict=True))
        multiple = f"{cpu_s / peer:.2f}" if peer else ""
        print(f"{name:<40}{cpu_s:>8.2f}{multiple:>11}{peak_mib:>10.0f}{disk_mb:>9.1f}")


if __name__ == "__main__":
    main()
