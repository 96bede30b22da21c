"""Is the command a server that programs of any language can ask? Real processes, real signals, real clients."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from grpc_serving import Running, mail_index, raw_channel, serving
from mail import mails
from onhand import Document, open_index
from onhand.errors import RemoteError, Unauthenticated
from onhand.grpc import Client
from requirements import requirement

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "grpc_client"
PEERS = os.environ.get("ONHAND_PEERS")
PATIENCE_S = 100
TOKEN = "a-token-of-enough-characters"

# A client that knows nothing but the first contract. It runs alone: one process cannot hold two contracts of one name.
FIRST_CLIENT = """
import sys
import grpc, first_pb2, first_pb2_grpc
from google.protobuf.timestamp_pb2 import Timestamp
with grpc.insecure_channel(sys.argv[1], [("grpc.enable_http_proxy", 0)]) as channel:
    search = first_pb2_grpc.SearchServiceStub(channel)
    sarah = first_pb2.Filter(author=["sarah"], tags=["email"])
    listed = search.FilterDocuments(first_pb2.FilterRequest(filter=sarah, limit=50), timeout=60)
    print(len(listed.hits), "hits, the newest", listed.hits[0].document_id)
    found = search.KeywordSearch(first_pb2.KeywordSearchRequest(query="projections", limit=5), timeout=60)
    print(found.hits[0].title, found.hits[0].score > 0, found.hits[0].created_time.ToJsonString())
    asked = first_pb2.SemanticSearchRequest(query="Q3 forecast", filter=sarah, limit=5, min_score=0.7)
    print(*(f"{hit.document_id} {hit.score:.2f}" for hit in search.SemanticSearch(asked, timeout=60).hits))
    asked.min_score = 0
    print(*(hit.document_id for hit in search.SemanticSearch(asked, timeout=60).hits))
    try:
        search.KeywordSearch(first_pb2.KeywordSearchRequest(query="a", limit=-1), timeout=60)
    except grpc.RpcError as error:
        print(error.code().name)
"""


@contextmanager
def served(where: Path, environ: dict[str, str], *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`onhand serve` in a directory, and the address that it says it listens on."""
    process = subprocess.Popen(
        [sys.executable, "-m", "onhand", "serve", "--grpc", *words],
        cwd=where,
        env=environ,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("onhand: serving gRPC on "):
                yield process, line.split()[-1]
                break
        else:
            pytest.fail("the server did not start")
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    where = tmp_path / "project"
    where.mkdir()
    with open_index(where / ".onhand" / "documents.db", embedder=None) as index:
        index.put(mails())
    return where


@pytest.fixture
def quiet(environ: dict[str, str]) -> dict[str, str]:
    """Without an embedder, which would only take time to load."""
    return {**environ, "ONHAND_DOCUMENTS_EMBEDDER": "none", "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def running() -> Iterator[Running]:
    with serving(mail_index()) as it:
        yield it


@requirement("grpc.wire-compatible")
def test_a_client_that_was_made_from_the_first_contract_works_unchanged(tmp_path: Path, running: Running) -> None:
    compile_ = [f"--python_out={tmp_path}", f"--grpc_python_out={tmp_path}", "first.proto"]
    here = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", here, *compile_], check=True, timeout=PATIENCE_S)
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CLIENT, running.address],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "23 hits, the newest mail-forecast",
        "Q3 revenue model - draft for review True 2026-06-28T09:30:00Z",
        "mail-forecast 0.87",
        "mail-forecast",
        "INVALID_ARGUMENT",
    ]


@requirement("grpc.serve-command", "grpc.health-and-reflection", "grpc.observability")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM")
@pytest.mark.parametrize("words", [(), ("--http", "127.0.0.1:0")], ids=["alone", "beside MCP"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_command_serves_until_a_signal_and_ends_well(
    project: Path, quiet: dict[str, str], number: signal.Signals, words: tuple[str, ...]
) -> None:
    with served(project, quiet, "127.0.0.1:0", *words) as (process, address):
        with Client(address) as client:
            assert client.keyword("projections").hits[0].document_id == "mail-forecast"
            with pytest.raises(RemoteError, match="UNIMPLEMENTED"):
                client.put(mails())
        if words:
            assert process.stderr is not None
            url = next(line.split()[-1] for line in process.stderr if line.startswith("onhand: serving MCP at "))
            with pytest.raises(HTTPError):  # it is there, and wants another method
                urlopen(url, timeout=PATIENCE_S)
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [event["event"] for event in events][-1] == "stopped"
    assert "projections" not in said
    assert "Traceback" not in said


@requirement("grpc.serve-command", "grpc.writes-are-opt-in", "grpc.security", "grpc.observability")
def test_a_token_writes_and_metrics_are_configured_like_everything_else(project: Path, quiet: dict[str, str]) -> None:
    asked = {
        "ONHAND_GRPC_TOKEN_ENV": "MY_TOKEN",
        "MY_TOKEN": TOKEN,
        "ONHAND_GRPC_METRICS": "127.0.0.1:0",
        "ONHAND_GRPC_WRITES": "true",
        "ONHAND_GRPC_LOG_QUERIES": "true",
    }
    environ = {**quiet, **asked}
    process = subprocess.Popen(
        [sys.executable, "-m", "onhand", "serve", "--grpc", "0.0.0.0:0"],
        cwd=project,
        env=environ,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stderr is not None
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if line.startswith("onhand: serving gRPC on "):
                break
        address = "127.0.0.1:" + said[-1].rpartition(":")[2].strip()
        with Client(address, token=TOKEN) as client:
            assert client.delete(["mail-000"]) == 1
            assert client.keyword("projections").hits
        with Client(address) as client, pytest.raises(Unauthenticated):
            client.keyword("projections")
        (metrics,) = (line.split()[-1] for line in said if line.startswith("onhand: metrics at "))
        with urlopen(metrics, timeout=PATIENCE_S) as got:
            assert b'code="OK",method="/search.v1.SearchService/KeywordSearch"' in got.read()
    finally:
        process.terminate()
        rest = process.communicate(timeout=PATIENCE_S)[1]
    assert any("sent unencrypted" in line for line in said)
    assert '"query": "projections"' in rest
    assert TOKEN not in "".join(said) + rest


@requirement("grpc.security")
@pytest.mark.parametrize(
    ("words", "settings", "why"),
    [
        (["0.0.0.0:0"], {}, "needs a token"),
        (["host:x"], {}, "is not HOST:PORT"),
        ([], {"ONHAND_GRPC_TOKEN_ENV": "NOT_SET"}, "NOT_SET should hold the token"),
        ([], {"ONHAND_GRPC_TLS_CERT": "nope.pem"}, "cannot be read"),
    ],
    ids=["open", "address", "token", "certificate"],
)
def test_a_server_that_cannot_be_safe_does_not_start(
    project: Path, quiet: dict[str, str], words: list[str], settings: dict[str, str], why: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "onhand", "serve", "--grpc", *words],
        cwd=project,
        env={**quiet, **settings},
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


@requirement("grpc.health-and-reflection")
def test_health_answers_while_documents_are_written(project: Path, quiet: dict[str, str]) -> None:
    environ = {**quiet, "ONHAND_GRPC_WRITES": "true"}
    with served(project, environ, "127.0.0.1:0") as (_, address), Client(address) as client, raw_channel(address) as it:
        stub = health_pb2_grpc.HealthStub(it)
        asked = []

        def documents() -> Iterator[Document]:
            for number in range(3_000):
                if number % 500 == 499:
                    asked.append(stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S).status)
                    assert client.keyword("projections").hits
                yield mails()[0]._replace(id=f"new-{number}", text=f"text number {number} " * 50)

        written = client.put(documents())
    assert written.added == 3_000
    assert asked == [1] * 6


@requirement("grpc.client", "grpc.examples")
def test_the_example_in_python_runs(project: Path, quiet: dict[str, str]) -> None:
    with served(project, quiet, "127.0.0.1:0") as (_, address):
        command = [sys.executable, str(EXAMPLES / "client.py"), "projections", address]
        done = subprocess.run(command, env=quiet, capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=True)
    assert_example(done.stdout.splitlines())


@requirement("grpc.wire-compatible", "grpc.examples")
@pytest.mark.timeout(600)
def test_the_example_in_node_runs(project: Path, quiet: dict[str, str]) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if not PEERS:
        pytest.skip("needs packages of Node: run `make peers`")
    if not node or not npm:
        pytest.skip("needs Node with npm: install Node 20 or newer")
    where = Path(PEERS).absolute() / "grpc-js" / "examples" / "grpc_client"
    shutil.copytree(EXAMPLES, where, dirs_exist_ok=True)
    shutil.copytree(ROOT / "proto", where.parents[1] / "proto", dirs_exist_ok=True)
    if not (where / "node_modules").exists():
        subprocess.run([npm, "install", "--silent", "--no-audit", "--no-fund"], cwd=where, check=True, timeout=500)
    with served(project, {**quiet, "ONHAND_GRPC_TOKEN_ENV": "MY_TOKEN", "MY_TOKEN": TOKEN}, "127.0.0.1:0") as (_, at):
        done = subprocess.run(
            [node, "client.mjs", "projections", at],
            cwd=where,
            env={**os.environ, "ONHAND_EXAMPLE_TOKEN": TOKEN, "no_proxy": "127.0.0.1"},
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=True,
        )
    assert_example(done.stdout.splitlines())


def assert_example(lines: list[str]) -> None:
    assert lines[0].endswith(" mail-forecast: Q3 revenue model - draft for review")
    assert lines[1:4] == [
        "112 characters in the first",
        "refused: query needs at least one letter or number: say what to look for",
        "1 by words, 1 fused",
    ]
    assert lines[4].startswith("note: only words were compared")
