"""Does a client that sends anything at all over the standard streams get its answers, and the next ones too?"""

import json
import re
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import rawmcp
from onhand.mcp.stdio import MAX_LINE_BYTES
from onhand.serving import MAX_SKIPPED_BYTES
from rawmcp import Stdio, request
from requirements import requirement

PING = json.dumps(request("ping", 1)).encode() + b"\n"


def codes(answers: list[dict[str, Any]]) -> list[tuple[Any, int | None]]:
    return [(answer["id"], answer.get("error", {}).get("code")) for answer in answers]


@requirement("mcp.malformed-is-answered")
def test_a_session_outlives_every_line_that_is_not_a_message_and_each_is_answered() -> None:
    with rawmcp.opened() as server:
        assert codes(server.answers(b'{"jsonrpc":"2.0",')) == [(None, -32700)]
        assert codes(server.answers(b"[]")) == [(None, -32600)]
        assert codes(server.answers(b'{"jsonrpc":"2.0","id":4,"method":"tools/list","params":[1]}')) == [(4, -32602)]
        lone = json.dumps(request("tools/call", 5, name="context_search", arguments={"query": "\ud800"})).encode()
        assert codes(server.answers(lone)) == [(5, -32602)]
        assert codes(server.answers(json.dumps(request("nope", 6)).encode(), 1)) == [(6, -32601)]
        assert codes(server.answers(json.dumps(request("tools/list", 7, cursor="../x")).encode(), 1)) == [(7, -32602)]
        assert server.answers(b"\n\r\n") == []


@requirement("mcp.malformed-is-answered")
def test_a_line_over_the_limit_is_answered_by_its_id_and_the_session_goes_on() -> None:
    value = b'{"x":"' + b"a" * (MAX_LINE_BYTES + 1) + b'"}'
    first = b'{"jsonrpc":"2.0","id":19,"method":"ping","params":' + value + b"}\n"
    last = b'{"jsonrpc":"2.0","method":"ping","params":' + value + b',"id":18}\n'
    deep = b'{"jsonrpc":"2.0","method":"ping","params":{"x":' + b"[" * 50_000 + b"]" * 50_000 + b'},"id":17}\n'
    with rawmcp.opened() as server:
        assert codes(server.answers(first, 1)) == [(19, -32600)]
        assert codes(server.answers(last, 1)) == [(18, -32600)]
        assert codes(server.answers(deep, 1)) == [(17, -32700)]
        fits = json.dumps(request("ping", 20, x="a" * (MAX_LINE_BYTES - 200))).encode()
        assert codes(server.answers(fits, 1)) == [(20, None)]


@requirement("mcp.malformed-is-answered")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads how much memory a process has from /proc")
def test_a_line_without_an_end_closes_the_connection_with_a_reason_and_takes_no_memory() -> None:
    with rawmcp.opened() as server:
        before = resident_mb(server)
        try:
            for _ in range(3 * MAX_SKIPPED_BYTES // MAX_LINE_BYTES):
                server.write(b"a" * MAX_LINE_BYTES)
        except BrokenPipeError:
            pass
        after = resident_mb(server)
        assert after is None or after - before < 64
        assert [answer["error"]["code"] for answer in server.until_end()] == [-32600]
        assert server.process.wait(rawmcp.WAIT_S) == 0


def resident_mb(server: Stdio) -> Any:
    try:
        status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else None


@requirement("mcp.malformed-is-answered")
@pytest.mark.timeout(600)
def test_ten_thousand_pipelined_requests_are_each_answered_once() -> None:
    with rawmcp.opened() as server:
        flood = b"".join(json.dumps(request("ping", number)).encode() + b"\n" for number in range(10_000))
        server.write(flood + b'{"jsonrpc":"2.0","method":"notifications/x"}\n' * 10_000)
        assert sorted(server.next()["id"] for _ in range(10_000)) == list(range(10_000))
        assert server.answers(b"") == []


def test_a_message_that_comes_byte_by_byte_is_answered() -> None:
    with rawmcp.opened() as server:
        for byte in PING:
            server.write(bytes([byte]))
        assert server.next() == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads how much memory a process has from /proc")
@pytest.mark.timeout(600)
def test_a_client_that_does_not_read_is_made_to_wait_and_loses_nothing() -> None:
    many = 3_000
    command = [sys.executable, "-m", "onhand", "serve", "--root", str(rawmcp.SAMPLE)]
    with subprocess.Popen(command, env=rawmcp.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = [rawmcp.initialize(), *(request("tools/list", number) for number in range(many))]
        flood = b"".join(json.dumps(one).encode() + b"\n" for one in asked)
        writer = Thread(target=lambda: (process.stdin.write(flood), process.stdin.close()))  # type: ignore[union-attr]
        writer.start()
        writer.join(2)
        assert writer.is_alive()  # it is the pipe that is full, not our memory
        ids = [json.loads(line)["id"] for line in islice(process.stdout, many + 1)]
        assert set(ids) == {"init", *range(many)}
        writer.join()
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8"))
        assert peak is None or int(peak[1]) < 256 * 1024


@requirement("mcp.answers-never-cross")
def test_an_id_that_is_still_at_work_is_not_taken_twice() -> None:
    with rawmcp.opened() as server:
        call = json.dumps(request("tools/call", 5, name="context_search", arguments={"query": "rollback"})).encode()
        said = server.answers(call + b"\n" + call, at_least=2)
        answered = [message for message in said if message.get("id") == 5]
        refused = [message for message in said if message.get("id") is None]
        assert len(answered) + len(refused) == 2
        assert len(answered) >= 1
        assert all("result" in message for message in answered)


def test_what_is_at_work_when_the_input_ends_is_still_answered_and_then_the_server_ends() -> None:
    with rawmcp.opened() as server:
        server.send(request("tools/call", 9, name="context_search", arguments={"query": "rollback"}))
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert [message["id"] for message in server.until_end()] == [9]
        assert server.process.wait(rawmcp.WAIT_S) == 0


def readable_id(raw: bytes) -> Any:
    try:
        message = json.loads(raw, parse_constant=int)  # which no constant can be
    except (ValueError, RecursionError):
        return None
    is_request = isinstance(message, dict) and isinstance(message.get("id"), int | str)
    return message["id"] if is_request and not isinstance(message["id"], bool) else None


@requirement("project.missing-extra-names-its-command")
def test_without_the_packages_of_mcp_the_command_that_installs_them_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-m", "onhand", "serve"]  # -S: without any package that is installed
    done = subprocess.run(
        command, cwd=tmp_path, env=rawmcp.environ(), capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert done.returncode == 1
    assert "onhand: MCP needs the 'mcp' extra: pip install 'onhand[mcp]'" in done.stderr


def test_an_interrupt_ends_the_server_though_its_client_says_nothing() -> None:
    with rawmcp.opened() as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(rawmcp.WAIT_S) == 130


def test_what_a_tool_prints_or_reads_does_not_reach_the_wire() -> None:
    program = """
import anyio, os, sys
from onhand.mcp import stdio
from onhand.mcp.local import LocalSurface
from onhand.tools import Registry, Tool

def noisy(arguments):
    print("noise")
    sys.stdout.flush()
    os.write(1, b"noise too")
    return "read: " + repr(sys.stdin.read())

tool = Tool("noisy", "d", {"type": "object", "properties": {}}, noisy)
anyio.run(stdio.serve, LocalSurface(Registry([tool]), None, "1"))
"""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program], env=rawmcp.environ(), stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        server = Stdio(process)
        server.send(rawmcp.initialize(), request("tools/call", 1, name="noisy", arguments={}))
        assert "result" in server.next()
        assert server.next()["result"]["content"][0]["text"] == "read: ''"
        assert process.stdin is not None
        process.stdin.close()
        assert server.until_end() == []
        assert process.stderr is not None
        assert process.stderr.read() == b"noise\nnoise too"
