"""While one client's command runs in the foreground, what can the other clients of the same server do?"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

import rawmcp
from onhand.project import Project, load_config
from rawmcp import request
from requirements import requirement

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the command and the test wait for each other at named pipes"),
]

# The command says that it runs, and ends when it is told to.
COMMAND = "echo begun > told && cat hold"
MEANWHILE: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("read_file", {"path": "a.txt"}, "hello"),
    ("grep", {"pattern": "hel+o"}, "a.txt"),
    ("glob", {"pattern": "*.txt"}, "a.txt"),
    ("context_search", {"query": "rollback"}, "Rolling back"),
    ("write_note", {"name": "n", "description": "About n.", "body": "Noted while a command runs."}, "n"),
    ("search_notes", {"query": "noted command"}, "Noted while a command runs."),
    ("plan_add", {"nodes": [{"id": "next", "description": "Do it."}]}, "next"),
    ("plan_show", {}, "Do it."),
    ("list_jobs", {}, "job-1 running"),
    ("f__echo", {"text": "from another server"}, "from another server"),
)
Call = Callable[..., str]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with all tools, and a server behind the gateway."""
    root = tmp_path / "project"
    shutil.copytree(rawmcp.SAMPLE, root)
    (root / "a.txt").write_text("hello\n")
    for name in ("told", "hold"):
        os.mkfifo(root / name)
    upstream = {"command": sys.executable, "args": [str(rawmcp.ROOT / "tests" / "upstreams.py"), "faithful"]}
    (tmp_path / "onhand").mkdir()
    (tmp_path / "onhand" / "mcp.json").write_text(json.dumps({"mcpServers": {"f": upstream}}))
    variables = {
        "WORKSPACE_TOOLS": "write",
        "SHELL_ENABLED": "true",
        "SHELL_TIMEOUT_S": "280",
        "SANDBOX_BACKEND": "none",
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"ONHAND_{name}", value)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    with Project(load_config(str(root))) as opened:
        opened.plan.change(lambda plan: plan.add("first"))  # its tools are served where there is a plan
    return root


def text_of(message: dict[str, Any]) -> str:
    result = message["result"]
    text: str = result["content"][0]["text"]
    assert not result.get("isError"), text
    return text


@contextmanager
def two_clients_over_http(root: Path) -> Iterator[tuple[Call, Call]]:
    with rawmcp.over_http(root=root) as server, server.kept() as first, server.kept() as second:
        calls = first.in_session(), second.in_session()

        def client(place: int) -> Call:
            return lambda name, arguments: text_of(calls[place](1, name=name, arguments=arguments))

        yield client(0), client(1)


class Pipelined:
    """Requests over one connection that do not wait for each other."""

    def __init__(self, server: rawmcp.Stdio) -> None:
        self._server = server
        self._ids = count(1)
        self._answers: dict[object, Queue[dict[str, Any]]] = {}
        self.progress: Queue[str] = Queue()
        Thread(target=self._read, daemon=True).start()

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        request_id = next(self._ids)
        self._answers[request_id] = Queue()
        meta = {"progressToken": name}
        self._server.send(request("tools/call", request_id, name=name, arguments=arguments, _meta=meta))
        return text_of(self._answers[request_id].get(timeout=rawmcp.WAIT_S))

    def _read(self) -> None:
        with suppress(AssertionError):  # the server has gone
            while True:
                message = self._server.next()
                if message.get("method") == "notifications/progress":
                    self.progress.put(message["params"]["message"])
                elif "method" not in message:
                    self._answers[message["id"]].put(message)


@contextmanager
def one_client_over_stdio(root: Path) -> Iterator[tuple[Call, Call]]:
    """Its requests run side by side, as those of two clients do."""
    with rawmcp.opened(root) as server:
        pipelined = Pipelined(server)
        yield pipelined.call, pipelined.call


@requirement("tools.long-calls-let-others-read", "tools.waiting-is-explained")
@pytest.mark.parametrize("clients", [two_clients_over_http, one_client_over_stdio], ids=["http", "stdio"])
def test_while_a_command_runs_others_read_note_plan_and_call_servers(
    clients: Callable[[Path], Any], project: Path
) -> None:
    with clients(project) as (first, second), ThreadPoolExecutor(2) as pool:
        command = pool.submit(first, "run_command", {"command": COMMAND})
        assert (project / "told").read_text() == "begun\n"
        for name, arguments, expected in MEANWHILE:
            assert expected in second(name, arguments), name
        write = pool.submit(second, "write_file", {"path": "a.txt", "content": "changed\n"})
        assert (project / "a.txt").read_text() == "hello\n"
        assert not command.done()
        (project / "hold").write_text("released")
        assert "released" in command.result(timeout=rawmcp.WAIT_S)
        write.result(timeout=rawmcp.WAIT_S)
        assert (project / "a.txt").read_text() == "changed\n"


@requirement("tools.waiting-is-explained", "mcp.progress")
def test_a_call_that_waits_for_a_command_says_so(project: Path) -> None:
    with rawmcp.opened(project) as server, ThreadPoolExecutor(2) as pool:
        client = Pipelined(server)
        command = pool.submit(client.call, "run_command", {"command": COMMAND})
        assert (project / "told").read_text() == "begun\n"
        write = pool.submit(client.call, "write_file", {"path": "a.txt", "content": "changed\n"})
        while not (said := client.progress.get(timeout=rawmcp.WAIT_S)).startswith("write_file waits"):
            pass
        assert said.startswith(f"write_file waits for run_command ({COMMAND}), which has been running for ")
        (project / "hold").write_text("released")
        command.result(timeout=rawmcp.WAIT_S)
        write.result(timeout=rawmcp.WAIT_S)
