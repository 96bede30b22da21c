"""Does everything that a tool has started end with the door that it was called through, however that is closed?"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Thread
from typing import IO, Any

import pytest

import rawmcp
from rawmcp import Http, Stdio, request
from requirements import requirement
from workplace import still_running

pytestmark = [
    requirement("actions.end-with-the-door"),
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc"),
    pytest.mark.timeout(300),
]
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
SERVE = "import sys; sys.executable = sys.argv.pop(1); from onhand.cli.main import main; sys.exit(main(sys.argv[1:]))"

_numbers = count()


class Place:
    """A project, and what says that something has begun in it."""

    def __init__(self, directory: Path) -> None:
        self.project = directory / "project"
        self.kept = directory / "kept"
        self.sleep = f"sleep 96{os.getpid()}{next(_numbers):03}"
        self.programs = directory / "bin"
        for path in (self.project, self.kept, self.programs):
            path.mkdir()
        (self.project / "a.txt").write_text("hello\n", encoding="utf-8")
        fifo = directory / "begun"
        os.mkfifo(fifo)
        self._begun = os.open(fifo, os.O_RDWR)
        self.begin = f"setsid {self.sleep} & echo > '{fifo}'; exec {self.sleep}"
        git = f"#!/bin/sh\necho > '{fifo}'; {self.sleep}\n"  # it has a lot to look at
        (self.programs / "git").write_text(git, encoding="utf-8")
        (self.programs / "git").chmod(0o755)
        for part in ("objects", "refs"):
            (self.project / ".git" / part).mkdir(parents=True)
        (self.project / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")

    def has_begun(self) -> None:
        assert select.select([self._begun], [], [], rawmcp.WAIT_S)[0]
        assert os.read(self._begun, 1)

    def command(self, *words: str) -> list[str]:
        return [
            sys.executable,
            "-c",
            SERVE,
            str(self.programs / "python"),
            "serve",
            "--root",
            str(self.project),
            *words,
        ]

    @property
    def environ(self) -> dict[str, str]:
        asked = {"ONHAND_SHELL_ENABLED": "true", "ONHAND_SANDBOX_BACKEND": "none", "ONHAND_WORKSPACE_TOOLS": "read"}
        return {**rawmcp.environ(), **asked, "TMPDIR": str(self.kept)}

    def nothing_is_left(self) -> None:
        assert still_running(self.sleep) == []
        assert list(self.kept.iterdir()) == []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def calls(place: Place, what: str) -> list[dict[str, Any]]:
    job = request("tools/call", 1, name="run_command", arguments={"command": place.begin, "background": True})
    if what == "git":
        return [job, request("tools/call", 2, name="git", arguments={"args": ["status"]})]
    return [job, request("tools/call", 2, name="run_command", arguments={"command": place.begin})]


@contextmanager
def over_stdio(place: Place) -> Iterator[Stdio]:
    pipe = subprocess.PIPE
    with subprocess.Popen(place.command(), env=place.environ, stdin=pipe, stdout=pipe) as process:
        try:
            server = Stdio(process)
            server.send(rawmcp.initialize())
            server.next()
            server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            yield server
        finally:
            process.kill()


@contextmanager
def over_http(place: Place) -> Iterator[Http]:
    command = place.command("--http", "127.0.0.1:0")
    with subprocess.Popen(command, env=place.environ, stderr=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stderr is not None
            url = process.stderr.readline().split()[-1]
            Thread(target=_read_on, args=(process.stderr,), daemon=True).start()
            yield Http(url, process)
        finally:
            process.kill()


def _read_on(pipe: IO[str]) -> None:
    for _ in pipe:
        pass


@pytest.mark.parametrize(("what", "number"), [*(("command", number) for number in SIGNALS), ("git", signal.SIGTERM)])
def test_a_signal_to_a_server_over_stdio_ends_what_its_tools_started(place: Place, what: str, number: int) -> None:
    with over_stdio(place) as server:
        for call in calls(place, what):
            server.send(call)
            place.has_begun()
        server.process.send_signal(number)
        assert server.process.wait(rawmcp.WAIT_S) == 128 + number
    place.nothing_is_left()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_comes_again_and_again_cuts_nothing_short(place: Place, number: int) -> None:
    with over_stdio(place) as server:
        for call in calls(place, "command"):
            server.send(call)
            place.has_begun()
        assert _asked_until_it_ends(server.process, number) == 128 + number
    place.nothing_is_left()


def _asked_until_it_ends(process: "subprocess.Popen[bytes]", number: int) -> int:
    for _ in range(100 * rawmcp.WAIT_S):
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            return process.wait(0.01)
    raise AssertionError("it does not end")


@pytest.mark.parametrize("what", ["command", "git"])
def test_a_client_that_closes_the_stream_ends_what_it_had_started(place: Place, what: str) -> None:
    with over_stdio(place) as server:
        for call in calls(place, what):
            server.send(call)
            place.has_begun()
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait(rawmcp.WAIT_S) == 0
    place.nothing_is_left()


@requirement("actions.end-with-the-command")
@pytest.mark.parametrize("what", ["command", "git"])
def test_a_client_that_cancels_a_call_ends_what_it_had_started(place: Place, what: str) -> None:
    with over_stdio(place) as server:
        server.send(calls(place, what)[1])
        place.has_begun()
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
        assert still_running(place.sleep) == []
        read = request("tools/call", 3, name="read_file", arguments={"path": "a.txt"})
        server.send(read)
        answered = said_by(server, lambda message: message.get("id") == 3)
        assert answered["result"]["content"][0]["text"] == "hello\n"  # and nobody waits for it any longer


@pytest.mark.parametrize(("what", "number"), [*(("command", number) for number in SIGNALS), ("git", signal.SIGTERM)])
def test_a_signal_to_a_server_over_http_ends_what_its_tools_started(place: Place, what: str, number: int) -> None:
    with over_http(place) as server:
        connections = []
        for call in calls(place, what):
            connections.append(server.begin_to_call(call))
            place.has_begun()
        server.process.send_signal(number)
        assert server.process.wait(rawmcp.WAIT_S) == 0
        for connection in connections:
            connection.close()
    place.nothing_is_left()


@requirement("acp.default-adapter")
def test_a_signal_to_the_agent_in_an_editor_ends_what_its_tools_started(place: Place, tmp_path: Path) -> None:
    begin = {"name": "run_command", "arguments": {"command": place.begin}}
    (tmp_path / "script.json").write_text(json.dumps([{"calls": [begin]}, "Done."]), encoding="utf-8")
    command = [sys.executable, "-m", "onhand", "acp", "--model", f"scripted:{tmp_path / 'script.json'}"]
    homes = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env={**place.environ, **homes}, stdin=pipe, stdout=pipe) as process:
        try:
            editor = Stdio(process)
            editor.send(request("initialize", 1, protocolVersion=1, clientCapabilities={}))
            assert "result" in editor.next()
            editor.send(request("session/new", 2, cwd=str(place.project), mcpServers=[]))
            session = said_by(editor, lambda message: message.get("id") == 2)["result"]["sessionId"]
            prompt = [{"type": "text", "text": "go"}]
            editor.send(request("session/prompt", 3, sessionId=session, prompt=prompt))
            asked = said_by(editor, lambda message: message.get("method") == "session/request_permission")
            yes = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
            editor.send({"jsonrpc": "2.0", "id": asked["id"], "result": yes})
            place.has_begun()
            process.send_signal(signal.SIGTERM)
            assert process.wait(rawmcp.WAIT_S) == 128 + signal.SIGTERM
        finally:
            process.kill()
    place.nothing_is_left()


def said_by(server: Stdio, is_meant: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    while not is_meant(message := server.next()):
        pass
    return message


def test_a_hangup_that_is_ignored_ends_nothing(place: Place) -> None:
    deaf = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); {SERVE}"
    command = [sys.executable, "-c", deaf, *place.command()[3:]]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=place.environ, stdin=pipe, stdout=pipe) as process:
        server = Stdio(process)
        server.send(rawmcp.initialize())
        server.next()
        process.send_signal(signal.SIGHUP)
        assert server.answers(b"") == []  # it still answers
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(rawmcp.WAIT_S) == 0
