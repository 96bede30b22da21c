"""Several processes on one port: real workers, real signals, real crashes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import rawmcp
from grpc_serving import keyword, raw_channel
from mail import mails
from onhand import Document, open_index
from onhand.grpc import Client
from onhand.processes import descendants
from requirements import requirement

PATIENCE_S = 100
TOKEN = "a-token-that-nobody-guesses"
CONNECTIONS = 12  # the kernel chooses a worker for each; that all of them reach the same one is unlikely

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    with open_index(tmp_path / ".onhand" / "documents.db", embedder=None) as index:
        index.put(mails())
    return tmp_path


@pytest.fixture
def quiet(environ: dict[str, str]) -> dict[str, str]:
    return {**environ, "ONHAND_DOCUMENTS_EMBEDDER": "none", "ONHAND_GRPC_WRITES": "true", "PYTHONUNBUFFERED": "1"}


class Server:
    """`onhand serve` with workers."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self.process = process
        self.address = address

    def workers(self) -> list[int]:
        return [one for one in descendants(self.process.pid) if is_alive(one)]

    def next_line(self, part: str) -> str:
        assert self.process.stderr is not None
        return next(line for line in self.process.stderr if part in line)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_so: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def refused(where: Path, environ: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    """`onhand serve` where it ends at once, because it cannot serve this."""
    return subprocess.run(
        [sys.executable, "-m", "onhand", "serve", *words],
        cwd=where,
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )


@contextmanager
def served(where: Path, environ: dict[str, str], *words: str) -> Iterator[Server]:
    process = subprocess.Popen(
        [sys.executable, "-m", "onhand", "serve", *words],
        cwd=where,
        env=environ,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stderr is not None
    try:
        line = next((line for line in process.stderr if line.startswith("onhand: serving ")), "")
        assert line, "the server did not start"
        yield Server(process, line.split()[-1])
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


@requirement("grpc.workers")
def test_every_worker_sees_a_write_at_once_and_all_end_with_the_parent(project: Path, quiet: dict[str, str]) -> None:
    with served(project, quiet, "--grpc", "127.0.0.1:0", "--workers", "2") as server:
        assert len(server.workers()) == 2
        with Client(server.address) as client:
            for number in range(3):
                client.put([Document(f"new{number}", text=f"unheard{number} of")])
                for _ in range(CONNECTIONS):
                    with raw_channel(server.address) as channel:
                        assert [hit.document_id for hit in keyword(channel, f"unheard{number}").hits] == [
                            f"new{number}"
                        ]
        workers = server.workers()
        server.process.send_signal(signal.SIGINT)
        server.process.communicate(timeout=PATIENCE_S)
        assert server.process.returncode == 0
        assert not any(map(is_alive, workers))


@requirement("grpc.workers")
def test_a_worker_that_was_killed_starts_again_and_none_outlives_a_killed_parent(
    project: Path, quiet: dict[str, str]
) -> None:
    with served(project, quiet, "--grpc", "127.0.0.1:0", "--workers", "2") as server:
        os.kill(server.workers()[0], signal.SIGKILL)
        assert "was killed by signal 9; it starts again in 0.5 s" in server.next_line("was killed")
        for _ in range(CONNECTIONS):  # the other one serves meanwhile
            with raw_channel(server.address) as channel:
                assert keyword(channel, "projections").hits
        wait_until(lambda: len(server.workers()) == 2)
        workers = server.workers()
        server.process.kill()
        server.process.wait(PATIENCE_S)
        wait_until(lambda: not any(map(is_alive, workers)))


@requirement("grpc.workers")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--grpc", "127.0.0.1:0", "--workers", "0"], "'0' is not a whole number from 1 to 256"),
        (["--workers", "2"], "--workers needs --http or --grpc"),
        (["--grpc", "0.0.0.0:0", "--workers", "2"], "needs a token"),
    ],
)
def test_what_workers_cannot_serve_is_said_once(
    project: Path, quiet: dict[str, str], words: list[str], said: str
) -> None:
    done = refused(project, quiet, *words)
    assert done.returncode in (1, 2)
    assert done.stderr.count(said) == 1


@requirement("grpc.workers")
def test_a_port_of_another_server_is_not_shared(project: Path, quiet: dict[str, str]) -> None:
    with served(project, quiet, "--grpc", "127.0.0.1:0", "--workers", "2") as server:
        done = refused(project, quiet, "--grpc", server.address, "--workers", "2")
    assert done.returncode == 2
    assert "choose another port" in done.stderr


@requirement("mcp.http-workers")
def test_a_session_is_found_whichever_worker_receives_its_requests() -> None:
    with rawmcp.over_http("--workers", "2", "--token-env", "A_TOKEN", variables={"A_TOKEN": TOKEN}) as server:
        authorized = {"Authorization": f"Bearer {TOKEN}"}
        assert server.send(rawmcp.initialize()).status == 401
        ids = [server.send(rawmcp.initialize(), authorized).headers["mcp-session-id"] for _ in range(CONNECTIONS)]
        assert {session_id.partition("-")[0] for session_id in ids} == {"1", "2"}
        for session_id in ids:
            session = {**authorized, "Mcp-Session-Id": session_id, "MCP-Protocol-Version": rawmcp.VERSION}
            assert server.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, session).status == 202
            called = server.send(
                rawmcp.request("tools/call", 1, name="context_search", arguments={"query": "rollback"}), session
            )
            assert "Rolling back" in called.messages[0]["result"]["content"][0]["text"]
            assert server.send(None, session, method="DELETE").status == 200
            assert server.send(rawmcp.request("tools/list", 2), session).status == 404
        for unknown in ("9-0123", "../1-0123", f"1-{'0' * 32}", f"2-{'0' * 32}", "0123"):
            session = {**authorized, "Mcp-Session-Id": unknown, "MCP-Protocol-Version": rawmcp.VERSION}
            assert server.send(rawmcp.request("tools/list", 2), session).status == 404


@requirement("mcp.http-workers")
def test_only_the_sessions_of_a_worker_that_crashed_are_lost() -> None:
    with rawmcp.over_http("--workers", "2") as server:
        ids = [server.send(rawmcp.initialize()).headers["mcp-session-id"] for _ in range(CONNECTIONS)]
        first = next(one for one in descendants(server.process.pid) if b"--worker\x001\x00" in command_line(one))
        os.kill(first, signal.SIGKILL)
        assert any("starts again" in line for line in server.process.stderr)
        found = {
            session_id: server.send(
                rawmcp.request("tools/list", 1),
                {"Mcp-Session-Id": session_id, "MCP-Protocol-Version": rawmcp.VERSION},
            ).status
            for session_id in ids
        }
        assert found == {session_id: 404 if session_id.startswith("1-") else 200 for session_id in ids}


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@requirement("mcp.http-workers")
def test_workers_do_not_serve_over_mcp_what_one_process_keeps(project: Path, quiet: dict[str, str]) -> None:
    environ = {**quiet, "ONHAND_SHELL_ENABLED": "true"}
    done = refused(project, environ, "--http", "127.0.0.1:0", "--workers", "2")
    assert done.returncode == 2
    assert "background jobs of the shell" in done.stderr
