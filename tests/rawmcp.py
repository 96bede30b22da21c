"""How does one talk to our MCP server without a client that would mend what is sent? Bytes in, messages out."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, NamedTuple

import onhand
from onhand.mcp.surface import STRUCTURED

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "examples" / "sample-project"
WAIT_S = 90  # for one answer, on a machine that is busy
VERSION = "2025-11-25"
JSON: Any = {STRUCTURED: True}  # the `_meta` of a request that asks for JSON
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(method: str, request_id: int | str, **params: Any) -> dict[str, Any]:
    """A request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def initialize(request_id: int | str = "init") -> dict[str, Any]:
    """The request that opens a session of the older protocol."""
    client = {"name": "raw", "version": "1"}
    return request("initialize", request_id, protocolVersion=VERSION, capabilities={}, clientInfo=client)


def environ() -> dict[str, str]:
    """For a process that finds this package."""
    return {**os.environ, "PYTHONPATH": str(Path(onhand.__file__).parents[1])}


class Stdio:
    """A server that we started: write bytes to it, take its messages."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._messages: Queue[dict[str, Any] | None] = Queue()
        self._marks = 0
        Thread(target=self._read, daemon=True).start()

    def write(self, raw: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def send(self, *messages: dict[str, Any]) -> None:
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def next(self) -> dict[str, Any]:
        message = self._messages.get(timeout=WAIT_S)
        assert message is not None, "the server has gone"
        return message

    def answers(self, raw: bytes, at_least: int = 0) -> list[dict[str, Any]]:
        """Everything that a piece of input makes the server say; that it answers a ping behind it is asserted.

        An answer that takes its time may come behind the ping's: `at_least` so many are waited for.
        """
        self._marks += 1
        mark = f"mark {self._marks}"
        ping = json.dumps(request("ping", mark)).encode()
        self.write(raw + b"\n" * (not raw.endswith(b"\n")) + ping + b"\n")
        said: list[dict[str, Any]] = []
        marked = False
        while not marked or len(said) < at_least:
            message = self.next()
            if message.get("id") == mark:
                marked = True
            else:
                said.append(message)
        return said

    def until_end(self) -> list[dict[str, Any]]:
        """What the server says until it ends."""
        said = []
        while (message := self._messages.get(timeout=WAIT_S)) is not None:
            said.append(message)
        return said

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._messages.put(json.loads(line))
        self._messages.put(None)


@contextmanager
def stdio(*words: str, root: Path = SAMPLE) -> Iterator[Stdio]:
    """`onhand serve` over the standard streams."""
    command = [sys.executable, "-m", "onhand", "serve", "--root", str(root), *words]
    with subprocess.Popen(command, env=environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Stdio(process)
        finally:
            process.kill()


@contextmanager
def opened(root: Path = SAMPLE) -> Iterator[Stdio]:
    """The same, with a session open."""
    with stdio(root=root) as server:
        server.send(initialize())
        assert server.next()["result"]["protocolVersion"] == VERSION
        server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield server


class Reply(NamedTuple):
    """An answer over HTTP."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: str

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the body, whether it is JSON or a stream of events."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return [json.loads(data) for data in re.findall(r"^data: (\{.*\})\r?$", self.body, re.MULTILINE)]
        return [json.loads(self.body)] if self.body else []


class _InOnePiece(http.client.HTTPConnection):
    """Sends a request at once: who refuses its head may have gone before the rest comes, and the answer is lost."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._pieces: list[bytes] = []

    def send(self, data: Any) -> None:
        self._pieces.append(data)

    def send_all(self) -> None:
        super().send(b"".join(self._pieces))


class Http:
    """A server that we started, at an address."""

    def __init__(self, url: str, process: Any = None) -> None:
        self.url = url
        self.process = process  # unless it is this one
        self.port = int(re.findall(r":(\d+)/", url)[0])

    def send(
        self,
        body: dict[str, Any] | bytes | None,
        headers: Mapping[str, str | list[str]] | None = None,
        method: str = "POST",
        path: str = "/mcp",
    ) -> Reply:
        """One request with exactly these headers over the usual ones; one that is empty is not sent."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        usual: dict[str, str | list[str]] = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(raw)),
        }
        connection = _InOnePiece("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {**usual, **(headers or {})}.items():
                for one in [value] if isinstance(value, str) else value:
                    if one:
                        connection.putheader(name, one)
            connection.endheaders(raw)
            connection.send_all()
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, told, response.read().decode())
        finally:
            connection.close()

    def begin_to_call(self, call: dict[str, Any]) -> socket.socket:
        """Send a call without waiting for its answer."""
        call["params"]["_meta"] = ENVELOPE
        body = json.dumps(call)
        headers = {
            "Host": "localhost",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": call["params"]["name"],
            "Content-Length": str(len(body)),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n{body}".encode())
        return connection

    @contextmanager
    def kept(self) -> "Iterator[Connection]":
        """A connection that several calls share."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            yield Connection(connection)
        finally:
            connection.close()


class Connection:
    """Tools called one after the other over one connection, in either era of the protocol."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def modern(self, request_id: int, **params: Any) -> dict[str, Any]:
        """A call that stands alone."""
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": params["name"]}
        return self._posted(request("tools/call", request_id, **params, _meta=ENVELOPE), headers).messages[-1]

    def in_session(self) -> Callable[..., dict[str, Any]]:
        """What makes calls in a session, which this opens."""
        opened = self._posted(initialize(), {})
        headers = {"MCP-Protocol-Version": VERSION, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
        self._posted({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)

        def call(request_id: int, **params: Any) -> dict[str, Any]:
            return self._posted(request("tools/call", request_id, **params), headers).messages[-1]

        return call

    def _posted(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._connection.request("POST", "/mcp", json.dumps(body), {**usual, **headers})
        response = self._connection.getresponse()
        told = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, told, response.read().decode())


@contextmanager
def over_http(
    *words: str, at: str = "127.0.0.1:0", root: Path = SAMPLE, variables: Mapping[str, str] | None = None
) -> Iterator[Http]:
    """`onhand serve --http` on a free port."""
    command = [sys.executable, "-m", "onhand", "serve", "--http", at, "--root", str(root), *words]
    with subprocess.Popen(
        command, env={**environ(), **(variables or {})}, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            assert process.stderr is not None
            lines = [process.stderr.readline()]  # a warning may come first
            while lines[-1] and "serving MCP at" not in lines[-1]:
                lines.append(process.stderr.readline())
            found = re.search(r"serving MCP at (\S+)", lines[-1])
            assert found, "".join(lines)
            yield Http(found[1], process)
        finally:
            process.kill()
