"""What does the gRPC door cost, and does it hold under load? A real server process over 100,000 documents.

    python -m benchmarks.grpc_load                              everything, in a file that is made and thrown away
    python -m benchmarks.grpc_load --file documents.db          keep the file there, and use the one that is there

Load: callers that each send the next call when the last one is answered, for every method; the caller is a process of
its own on the same machine. CPU: of the server process for one call at a time, from the kernel's own clock of each of
its threads, next to the same call of `Documents` in this process; the difference is the door. Snippets of hits are cut
when they are read, which the door does: they are shown by themselves, and `door` is without them. Cancelled: memory and
open files of the server before and after. Health: how long a check took while another caller wrote documents.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
from grpc_health.v1 import health_pb2

from benchmarks.keyword import made_up
from onhand import Document, Filter, app
from onhand.corpora.documents import Documents
from onhand.embed.hashing import HashingEmbedder
from onhand.grpc import Client
from onhand.grpc import search_pb2 as wire

SERVICE = "/search.v1.SearchService/"
OPTIONS = [("grpc.enable_http_proxy", 0)]
WARM = 200  # calls before any is counted


class Method(NamedTuple):
    """A call of the contract, and the same of `Documents`."""

    name: str
    request: Callable[[str], bytes]
    direct: Callable[[Documents, str], Any]


METHODS = [
    Method(
        "KeywordSearch",
        lambda query: wire.KeywordSearchRequest(query=query).SerializeToString(),
        lambda documents, query: documents.keyword(query, explain=False),
    ),
    Method(
        "SemanticSearch",
        lambda query: wire.SemanticSearchRequest(query=query, min_score=0).SerializeToString(),
        lambda documents, query: documents.semantic(query, min_score=0.0),
    ),
    Method(
        "FilterDocuments",
        lambda query: wire.FilterRequest(filter=wire.Filter(scope=[f"scope{len(query) % 10}"])).SerializeToString(),
        lambda documents, query: documents.filter(Filter(scope=(f"scope{len(query) % 10}",))),
    ),
]


@contextmanager
def served(path: Path) -> Iterator[tuple[int, str]]:
    """A server process over a file: its id and address."""
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "ONHAND_DOCUMENTS_EMBEDDER": "hashing",
        "ONHAND_GRPC_WRITES": "true",
        "ONHAND_GRPC_MAX_IN_FLIGHT": "1000",
    }
    command = [sys.executable, "-m", "onhand", "serve", "--grpc", "127.0.0.1:0", "--db", str(path)]
    log = open(path.with_suffix(".log"), "w+", encoding="utf-8")  # noqa: SIM115  # until the end
    process = subprocess.Popen(command, env=environ, cwd=path.parent, stderr=log)
    try:
        while "serving gRPC on" not in (said := path.with_suffix(".log").read_text(encoding="utf-8")):
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
    with app.open_index(path, HashingEmbedder()) as index:
        index.put(documents, batch=4096)


async def load(address: str, method: Method, queries: Sequence[str], callers: int, seconds: float) -> list[float]:
    """How long each call took, in milliseconds, while so many callers asked."""
    took: list[float] = []
    async with grpc.aio.insecure_channel(address, OPTIONS) as channel:
        call: Any = channel.unary_unary(SERVICE + method.name)
        requests = [method.request(query) for query in queries]
        end = time.monotonic() + seconds

        async def caller(place: int) -> None:
            number = place
            while time.monotonic() < end:
                start = time.perf_counter()
                await call(requests[number % len(requests)])
                took.append((time.perf_counter() - start) * 1000)
                number += callers

        await asyncio.gather(*(caller(place) for place in range(callers)))
    return took


def cpu_s(pid: int) -> float:
    """CPU seconds of all threads of a process, to the nanosecond."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


class Cost(NamedTuple):
    """CPU milliseconds of one call: in the server, in `Documents` itself, and to cut the snippets of its hits."""

    server: float
    direct: float
    snippets: float


def costs(pid: int, address: str, method: Method, queries: Sequence[str], documents: Documents) -> list[Cost]:
    """Each query through the door and at once without it, so that both meet the machine in the same state."""
    took = []
    with grpc.insecure_channel(address, OPTIONS) as channel:
        call: Any = channel.unary_unary(SERVICE + method.name)
        for number, query in enumerate(queries):
            request = method.request(query)
            before = cpu_s(pid)
            call(request)
            server = cpu_s(pid) - before
            times = [time.thread_time()]
            answer = method.direct(documents, query)
            times.append(time.thread_time())
            for hit in answer.hits:
                hit.snippet  # noqa: B018  # cut when it is read
            times.append(time.thread_time())
            if number >= WARM:
                took.append(Cost(server * 1000, (times[1] - times[0]) * 1000, (times[2] - times[1]) * 1000))
    return took


def cancelled(pid: int, address: str, queries: Sequence[str], calls: int) -> list[tuple[str, float, int]]:
    """Memory in MiB and open files of the server: before, after many cancelled calls, and after as many again."""
    rows: list[tuple[str, float, int]] = []
    with grpc.insecure_channel(address, OPTIONS) as channel:
        call: Any = channel.unary_unary(SERVICE + "KeywordSearch")
        requests = [METHODS[0].request(query) for query in queries]
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
    parser.add_argument("--seconds", type=float, default=5.0, help="of load, for each method and number of callers")
    parser.add_argument("--cancelled", type=int, default=1000)
    parser.add_argument("--written", type=int, default=20_000, help="documents that are written while health is asked")
    parser.add_argument("--file", type=Path, help="where the file is kept; one that is there is used as it is")
    options = parser.parse_args(argv)
    corpus = made_up(options.documents + options.written, 1000)
    with tempfile.TemporaryDirectory() as directory:
        path = (options.file or Path(directory) / "documents.db").absolute()
        if not path.exists():
            start = time.monotonic()
            built(path, corpus.documents[: options.documents])
            print(f"{options.documents:,} documents written in {time.monotonic() - start:.0f} s")
        with served(path) as (pid, address):
            _print_load(address, corpus.queries, options.seconds)
            _print_cpu(pid, address, path, corpus.queries)
            _print_cancelled(pid, address, corpus.queries, options.cancelled)
            written = [one._replace(id=f"new-{one.id}") for one in corpus.documents[options.documents :]]
            took, seconds = asyncio.run(health_while_writing(address, written))
            p50, p99 = percentiles(took)
            print(
                f"\nhealth while {options.written:,} documents were written in {seconds:.0f} s: {len(took)} checks, "
                f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, slowest {max(took):.1f} ms"
            )
            with Client(address) as client:
                client.delete([one.id for one in written])


def _print_load(address: str, queries: Sequence[str], seconds: float) -> None:
    print(f"\n{'load':<18}{'callers':>8}{'calls/s':>10}{'p50 ms':>10}{'p99 ms':>10}")
    for method in METHODS:
        asyncio.run(load(address, method, queries, 1, seconds / 2))
        for callers in (1, 8):
            took = asyncio.run(load(address, method, queries, callers, seconds))
            p50, p99 = percentiles(took)
            print(f"{method.name:<18}{callers:>8}{len(took) / seconds:>10.0f}{p50:>10.2f}{p99:>10.2f}", flush=True)


def _print_cpu(pid: int, address: str, path: Path, queries: Sequence[str]) -> None:
    print(f"\n{'CPU ms a call, p50':<20}{'server':>8}{'Index':>8}{'snippets':>10}{'door':>8}{'door and snippets':>20}")
    with app.open_index(path, HashingEmbedder()) as index:
        documents = Documents(index)
        for method in METHODS:
            took = costs(pid, address, method, queries, documents)
            server, bare, cut = (float(np.median(column)) for column in zip(*took, strict=True))
            both = float(np.median([one.server - one.direct for one in took]))
            door = float(np.median([one.server - one.direct - one.snippets for one in took]))
            print(f"{method.name:<20}{server:>8.2f}{bare:>8.2f}{cut:>10.2f}{door:>8.2f}{both:>20.2f}", flush=True)


def _print_cancelled(pid: int, address: str, queries: Sequence[str], calls: int) -> None:
    print(f"\n{'calls given up':<20}{'MiB':>8}{'open files':>12}")
    for name, mebibytes, files in cancelled(pid, address, queries, calls):
        print(f"{name:<20}{mebibytes:>8.1f}{files:>12}")


if __name__ == "__main__":
    main()
