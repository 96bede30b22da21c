"""What does the gRPC door cost, and does it hold under load? A real server process over 100,000 documents.

    python -m benchmarks.grpc_load                              everything, in a file that is made and thrown away
    python -m benchmarks.grpc_load --file documents.db          keep the file there, and use the one that is there
    python -m benchmarks.grpc_load --workers 2                  only load, with one process and with two workers

Load: k6 (of the bench group) with callers that each send the next call when the last one is answered, on the same
machine. CPU: of the server process from one call to the next, one call at a time, from the kernel's clock of the
process. `door` is the server without `Documents` and without the snippets of hits, which are cut when they are
read. What those cost is known in two ways: `within` the server, of the same calls, by the clock of the thread that
worked on them (grpc_timed.py); and `beside` it, of the same queries asked of `Documents` in this process, some calls in
turn with those of the server. The first is exact; the second takes searches to cost as much there as here. The bare
server answers with as many bytes and does nothing else. Cancelled: memory and open files of the server before and
after. Health: how long a check took while another caller wrote documents. Workers: `per core` is how many calls a core
serves with workers, as a share of what it serves with one process, by the CPU time of all server processes: the load
generator needs a core itself, so calls per second would say little on a small machine.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from benchmarks import grpc_floor, grpc_timed
from benchmarks.keyword import made_up
from onhand import Document, Filter
from onhand.corpora.documents import Documents
from onhand.embed.embedder import HashingEmbedder
from onhand.grpc import Client
from onhand.grpc import search_pb2 as wire
from onhand.processes import descendants
from onhand.project import open_index

SERVICE = "/search.v1.SearchService/"
OPTIONS = [("grpc.enable_http_proxy", 0)]
HERE = Path(__file__).parent
PROTO = HERE.parent / "proto" / "onhand" / "search" / "v1"
ROUND = 25  # calls to one before it is the next one's turn; what is compared is compared within a round
WARM, WARM_ROUNDS = 5, 8  # calls of each round, and rounds, that are not counted
ROUNDS = 4  # of load on one process and on workers, in turns; the one that cost least counts
LEAST_S = 1.0  # of load: less is over before all callers are connected


class Method(NamedTuple):
    """A call of the contract, and the same of `Documents`."""

    name: str
    request: Callable[[str], Message]
    direct: Callable[[Documents, str], Any]


METHODS = [
    Method(
        "KeywordSearch",
        lambda query: wire.KeywordSearchRequest(query=query),
        lambda documents, query: documents.keyword(query, explain=False),
    ),
    Method(
        "SemanticSearch",
        lambda query: wire.SemanticSearchRequest(query=query, min_score=0),
        lambda documents, query: documents.semantic(query, min_score=0.0),
    ),
    Method(
        "FilterDocuments",
        lambda query: wire.FilterRequest(filter=wire.Filter(scope=[f"scope{len(query) % 10}"])),
        lambda documents, query: documents.filter(Filter(scope=(f"scope{len(query) % 10}",))),
    ),
]


@contextmanager
def served(path: Path, clock: Path | None = None, workers: int = 1) -> Iterator[tuple[int, str]]:
    """A server process over a file: its id and address. With a clock, it counts there what its searches cost."""
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "ONHAND_DOCUMENTS_EMBEDDER": "hashing",
        "ONHAND_GRPC_WRITES": "true",
        "ONHAND_GRPC_MAX_IN_FLIGHT": "1000",
    }
    program = ["benchmarks.grpc_timed", str(clock)] if clock else ["onhand"]
    command = [sys.executable, "-m", *program, "serve", "--grpc", "127.0.0.1:0", "--db", str(path)]
    command += ["--workers", str(workers)]
    log = open(path.with_suffix(f".log{workers}"), "w+", encoding="utf-8")  # noqa: SIM115  # until the end
    process = subprocess.Popen(command, env=environ, cwd=path.parent, stderr=log)
    try:
        while "serving gRPC on" not in (said := path.with_suffix(f".log{workers}").read_text(encoding="utf-8")):
            if process.poll() is not None:
                sys.exit(said)
            time.sleep(0.05)
        (line,) = (line for line in said.splitlines() if "serving gRPC on" in line)
        yield process.pid, line.split()[-1]
    finally:
        process.terminate()
        process.wait()
        log.close()


def built(path: Path, documents: Sequence[Document]) -> None:
    with open_index(path, HashingEmbedder()) as index:
        index.put(documents, batch=4096)


@contextmanager
def bare() -> Iterator[tuple[int, str]]:
    """A server process that does nothing: its id and address."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "benchmarks.grpc_floor"]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, encoding="ascii")
    assert process.stdout
    try:
        yield process.pid, f"127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.communicate()


def k6() -> str | None:
    """Where k6 is, which the bench group puts beside Python."""
    return shutil.which("k6", path=sysconfig.get_path("scripts")) or shutil.which("k6")


def load(program: str, address: str, method: Method, requests: Path, callers: int, seconds: float) -> dict[str, float]:
    """How many calls, a second, and failed, with p50 and p99 in milliseconds, while so many callers asked."""
    environ = {"ADDRESS": address, "METHOD": SERVICE[1:] + method.name, "PROTO": str(PROTO), "REQUESTS": str(requests)}
    command = [
        program,
        "run",
        "--quiet",
        "--no-usage-report",
        f"--vus={callers}",
        f"--duration={seconds}s",
        str(HERE / "grpc_load.js"),
    ]
    done = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(done.stderr)
    said: dict[str, float] = json.loads(done.stdout)
    return said


def cpu_s(pid: int) -> float:
    """CPU seconds of all threads of a process, to the nanosecond.

    The clock of another process has this number on Linux (clock_getcpuclockid). To add up what /proc says of each
    thread gives the same sums, but takes a quarter of a millisecond, and the server's caches with it.
    """
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e9


class Cost(NamedTuple):
    """CPU milliseconds of one call at p50: of the server, of gRPC alone, and of the search, known in two ways."""

    server: float
    within: float  # `Documents`, in the server
    cut_within: float  # snippets
    door_within: float
    beside: float  # `Documents`, in this process
    cut_beside: float
    door_beside: float
    bare: float


class Spent(NamedTuple):
    """CPU seconds of one call."""

    server: float
    searched: float
    cut: float


class Watched(NamedTuple):
    """A server process, and the clock of its searches."""

    pid: int
    clock: memoryview

    def now(self) -> Spent:
        return Spent(cpu_s(self.pid), *(nanoseconds / 1e9 for nanoseconds in self.clock))


def cost(server: Watched, address: str, method: Method, queries: Sequence[str], documents: Documents) -> Cost:
    """What a call costs, some queries through the door and then the same without it: the machine's moods meet both."""
    rounds = []
    with ExitStack() as opened:
        bare_pid, bare_address = opened.enter_context(bare())
        bare_server = Watched(bare_pid, memoryview(bytes(8 * grpc_timed.NUMBERS)).cast("q"))
        bare_call = opened.enter_context(_method(bare_address, grpc_floor.METHOD))
        call = opened.enter_context(_method(address, SERVICE + method.name))
        for start in range(0, len(queries), ROUND):
            some = queries[start : start + ROUND]
            requests = [method.request(query).SerializeToString() for query in some]
            size = str(len(call(requests[0]))).encode()
            beside, cut_beside = zip(*(_direct(method, documents, query) for query in some), strict=True)
            calls = _calls(server, call, requests)
            nothing = _calls(bare_server, bare_call, [size] * len(some))
            total = _median([one.server for one in calls])
            alone, snippets = _median(beside), _median(cut_beside)
            rounds.append(
                Cost(
                    total,
                    _median([one.searched for one in calls]),
                    _median([one.cut for one in calls]),
                    _median([one.server - one.searched - one.cut for one in calls]),
                    alone,
                    snippets,
                    total - alone - snippets,
                    _median([one.server for one in nothing]),
                )
            )
    return Cost(*map(statistics.median, zip(*rounds[WARM_ROUNDS:], strict=True)))


def _median(took: Sequence[float]) -> float:
    """Milliseconds at p50, once the first are through."""
    return statistics.median(took[WARM:]) * 1000


@contextmanager
def _method(address: str, name: str) -> Iterator[Any]:
    with grpc.insecure_channel(address, OPTIONS) as channel:
        yield channel.unary_unary(name)


def _calls(server: Watched, call: Any, requests: Sequence[bytes]) -> list[Spent]:
    """What each call cost, from it to the next, so that what the server does after an answer counts too."""
    spent, before = [], server.now()
    for request in requests:
        call(request)
        after = server.now()
        spent.append(Spent(*(now - then for now, then in zip(after, before, strict=True))))
        before = after
    return spent


def _direct(method: Method, documents: Documents, query: str) -> tuple[float, float]:
    """CPU seconds of the call itself, and of cutting the snippets."""
    begun = time.thread_time()
    answer = method.direct(documents, query)
    found = time.thread_time()
    for hit in answer.hits:
        hit.snippet  # noqa: B018  # cut when it is read
    return found - begun, time.thread_time() - found


def cancelled(pid: int, address: str, queries: Sequence[str], calls: int) -> list[tuple[str, float, int]]:
    """Memory in MiB and open files of the server: before, after many cancelled calls, and after as many again."""
    rows: list[tuple[str, float, int]] = []
    with grpc.insecure_channel(address, OPTIONS) as channel:
        call: Any = channel.unary_unary(SERVICE + "KeywordSearch")
        requests = [METHODS[0].request(query).SerializeToString() for query in queries]
        for name in ("before", f"{calls:,} cancelled", f"{2 * calls:,} cancelled", f"{3 * calls:,} cancelled"):
            if rows:
                for start in range(0, calls, 50):
                    futures = [call.future(requests[(start + n) % len(requests)]) for n in range(50)]
                    for future in futures:
                        future.cancel()
                    call(requests[0])
            for request in requests[:200]:
                call(request)
            status = Path(f"/proc/{pid}/status").read_text()
            (resident,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
            rows.append((name, resident / 1024, len(os.listdir(f"/proc/{pid}/fd"))))
    return rows


async def health_while_writing(address: str, documents: Sequence[Document]) -> tuple[list[float], float]:
    """How long each health check took, in milliseconds, while documents were written; and the seconds of that."""
    took: list[float] = []
    start = time.monotonic()
    async with grpc.aio.insecure_channel(address, OPTIONS) as channel:
        check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")

        def write() -> None:
            with Client(address) as client:
                client.put(documents)

        writing = asyncio.create_task(asyncio.to_thread(write))
        while not writing.done():
            began = time.perf_counter()
            answer = health_pb2.HealthCheckResponse.FromString(await check(b""))
            took.append((time.perf_counter() - began) * 1000)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
            await asyncio.sleep(0.01)
        await writing
    return took, time.monotonic() - start


def percentiles(took: Sequence[float] | np.ndarray) -> tuple[float, float]:
    return float(np.percentile(took, 50)), float(np.percentile(took, 99))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        help=f"of load, for each method and number of callers; {LEAST_S:.0f} or more",
    )
    parser.add_argument("--cancelled", type=int, default=1000)
    parser.add_argument("--written", type=int, default=20_000, help="documents that are written while health is asked")
    parser.add_argument("--file", type=Path, help="where the file is kept; one that is there is used as it is")
    parser.add_argument("--workers", type=int, help="only load, with one process and then with so many workers")
    options = parser.parse_args(argv)
    if options.seconds < LEAST_S:
        parser.error(f"--seconds is {options.seconds:g}: load needs {LEAST_S:.0f} or more to be counted")
    corpus = made_up(options.documents + options.written, 1000)
    documents = [one._replace(created_time=_written_at(number)) for number, one in enumerate(corpus.documents)]
    with tempfile.TemporaryDirectory() as directory:
        path = (options.file or Path(directory) / "documents.db").absolute()
        if not path.exists():
            start = time.monotonic()
            built(path, documents[: options.documents])
            print(f"{options.documents:,} documents written in {time.monotonic() - start:.0f} s")
        if options.workers:
            _print_workers(path, corpus.queries, options.seconds, Path(directory), options.workers)
            return
        _print_cpu(path, corpus.queries, Path(directory) / "clock")
        with served(path) as (pid, address):
            _print_load(pid, address, corpus.queries, options.seconds, Path(directory))
            _print_cancelled(pid, address, corpus.queries, options.cancelled)
            written = [one._replace(id=f"new-{one.id}") for one in documents[options.documents :]]
            took, seconds = asyncio.run(health_while_writing(address, written))
            p50, p99 = percentiles(took)
            print(
                f"\nhealth while {options.written:,} documents were written in {seconds:.0f} s: {len(took)} checks, "
                f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, slowest {max(took):.1f} ms"
            )
            with Client(address) as client:
                client.delete([one.id for one in written])


def _print_load(pid: int, address: str, queries: Sequence[str], seconds: float, directory: Path) -> None:
    program = k6()
    if program is None:
        print("\nno load: k6 is missing; install the bench group (`make bench` does)")
        return
    print(f"\n{'load':<18}{'callers':>8}{'calls/s':>10}{'p50 ms':>10}{'p99 ms':>10}{'failed':>8}{'CPU ms a call':>15}")
    for method in METHODS:
        requests = directory / f"{method.name}.json"
        requests.write_text(json.dumps([MessageToDict(method.request(query)) for query in queries]), encoding="utf-8")
        load(program, address, method, requests, 1, max(seconds / 2, LEAST_S))  # which warms it, and is not counted
        for callers in (1, 8):
            before = cpu_s(pid)
            it = load(program, address, method, requests, callers, seconds)
            each = (cpu_s(pid) - before) * 1000 / it["calls"]
            row = f"{it['rate']:>10.0f}{it['p50']:>10.2f}{it['p99']:>10.2f}{it['failed']:>8.0f}{each:>15.2f}"
            print(f"{method.name:<18}{callers:>8}{row}", flush=True)


def _print_workers(path: Path, queries: Sequence[str], seconds: float, directory: Path, workers: int) -> None:
    program = k6()
    if program is None:
        print("no load: k6 is missing; install the bench group (`make bench` does)")
        return
    print(
        f"{'load':<18}{'processes':>10}{'calls/s':>10}{'p50 ms':>10}{'p99 ms':>10}{'CPU ms a call':>15}{'per core':>10}"
    )
    for method in METHODS:
        requests = directory / f"{method.name}.json"
        requests.write_text(json.dumps([MessageToDict(method.request(query)) for query in queries]), encoding="utf-8")
        with ExitStack() as opened:
            servers = {count: opened.enter_context(served(path, workers=count)) for count in (1, workers)}
            rows: dict[int, list[tuple[float, dict[str, float]]]] = {count: [] for count in servers}
            for _ in range(ROUNDS + 1):
                for count, (pid, address) in servers.items():
                    pids = [pid, *descendants(pid)]
                    before = sum(map(cpu_s, pids))
                    it = load(program, address, method, requests, 8 * workers, max(seconds / ROUNDS, LEAST_S))
                    rows[count].append(((sum(map(cpu_s, pids)) - before) * 1000 / it["calls"], it))
        alone = min(each for each, _ in rows[1][1:])  # the first round warms
        for count, rounds in rows.items():
            each, it = min(rounds[1:], key=lambda one: one[0])
            row = f"{it['rate']:>10.0f}{it['p50']:>10.2f}{it['p99']:>10.2f}{each:>15.2f}{alone / each:>9.2f}×"
            print(f"{method.name:<18}{count:>10}{row}", flush=True)


def _written_at(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number, microseconds=number)


def _print_cpu(path: Path, queries: Sequence[str], clock: Path) -> None:
    clock.write_bytes(bytes(8 * grpc_timed.NUMBERS))
    ways = "".join(f"{name:>8}{'snippets':>10}{'door':>8}" for name in ("within", "beside"))
    print(f"\n{'CPU ms a call, p50':<20}{'server':>8}{ways}{'bare gRPC':>12}")
    with open_index(path, HashingEmbedder()) as index, served(path, clock) as (pid, address):
        server = Watched(pid, grpc_timed.opened(clock))
        for method in METHODS:
            it = cost(server, address, method, queries, Documents(index))
            within = f"{it.within:>8.2f}{it.cut_within:>10.2f}{it.door_within:>8.2f}"
            beside = f"{it.beside:>8.2f}{it.cut_beside:>10.2f}{it.door_beside:>8.2f}"
            print(f"{method.name:<20}{it.server:>8.2f}{within}{beside}{it.bare:>12.2f}", flush=True)


def _print_cancelled(pid: int, address: str, queries: Sequence[str], calls: int) -> None:
    print(f"\n{'calls given up':<20}{'MiB':>8}{'open files':>12}")
    for name, mebibytes, files in cancelled(pid, address, queries, calls):
        print(f"{name:<20}{mebibytes:>8.1f}{files:>12}")


if __name__ == "__main__":
    main()
