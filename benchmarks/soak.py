"""Does a gateway under load for minutes lose a write, or keep memory, descriptors, threads, processes or files?

    python -m benchmarks.soak [--seconds 120] [--clients 100]

One `onhand serve --http` on loopback, in a project of its own, serves clients that search, read, write notes, change
the plan, edit files and run commands, while this process changes its documents. Behind it stand servers that crash,
hang, send garbage, are slow or send far too much. The load runs twice: first to warm up (caches fill, pools grow),
then to measure. What is left after each, when all is quiet again, is compared, and so is the memory during the second.
Every write that was acknowledged must be there at the end. The exit code is 1 if something grew or was lost.

`make soak` runs it; SOAK_SECONDS sets the time, at most 600. It needs Linux.
"""

import argparse
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from onhand.document import Document
from onhand.project import Project, load_config, open_index

ROOT = Path(__file__).parents[1]
MAX_SECONDS = 600
QUIET_S = 60.0  # at most, until the server has put away what the load left
ANSWER_S = 60.0  # far more than any call here takes; a client that waits longer has been forgotten
SAMPLE_S = 0.5
RISE = 0.08  # of the memory: allocators and caches do not keep quite still
RISE_BYTES = 12 << 20
CALL_LIMIT_S = 2  # of the servers that hang
HUGE_BYTES = 2_000_000
FILL = 40  # as many of these results as the gateway keeps the rest of, and as many jobs as are kept
KINDS = ("steady", "crashing", "hanging", "garbled", "slow", "huge")
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


# The servers behind the gateway: plain JSON lines, so that starting one again and again costs little


def behave(kind: str) -> None:
    """Be a server of one tool that misbehaves in one way."""
    calls = 0
    for line in sys.stdin.buffer:
        message = json.loads(line)
        answer: dict[str, Any] = {}
        match message.get("method"):
            case "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": kind, "version": "1"}
                answer = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                tool = {"name": "echo", "description": f"Say it again ({kind}).", "inputSchema": {"type": "object"}}
                tool["annotations"] = {"readOnlyHint": True}
                answer = {"tools": [tool]}
            case "tools/call":
                calls += 1
                if kind == "crashing" and calls > 3:
                    os._exit(3)
                if kind == "hanging" and calls % 4 == 0:
                    continue
                if kind == "garbled":
                    os.write(1, b"\xff\xfe not JSON {]\n" * 20)
                if kind == "slow":
                    time.sleep(0.2)
                text = "x" * HUGE_BYTES if kind == "huge" else "said"
                answer = {"content": [{"type": "text", "text": text}]}
            case "ping":
                pass
            case _:
                if "id" in message:
                    error = {"code": -32601, "message": "unknown method"}
                    _write_line({"jsonrpc": "2.0", "id": message["id"], "error": error})
                continue
        _write_line({"jsonrpc": "2.0", "id": message["id"], "result": answer})


def _write_line(message: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


# The project and its server


def prepare(directory: Path) -> dict[str, str]:
    """Make a project, and return the environment of its server."""
    project = directory / "project"
    shutil.copytree(ROOT / "examples" / "sample-project", project)
    (project / "src").mkdir()
    for number in range(50):
        (project / "src" / f"file{number}.txt").write_text(f"line of file {number}\n" * 20)
    (directory / "onhand").mkdir()
    servers = {
        kind: {
            "command": sys.executable,
            "args": ["-m", "benchmarks.soak", "--behave", kind],
            "env": {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
            "timeout_s": CALL_LIMIT_S,
            "connect_timeout_s": 20,
        }
        for kind in KINDS
    }
    (directory / "onhand" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (directory / "tmp").mkdir()
    with Project(load_config(str(project))) as opened:
        opened.plan.change(lambda relations: relations.add("soak", edge_type="plan", context={"description": "Soak."}))
    open_index(str(project / ".onhand" / "documents.db"), None).put([_document(0, 0)])
    homes = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), str(directory))
    settings = {
        "ONHAND_WORKSPACE_TOOLS": "write",
        "ONHAND_SHELL_ENABLED": "true",
        "ONHAND_SANDBOX_BACKEND": "none",  # the sandbox has tests of its own, and not every machine has one
        "ONHAND_DOCUMENTS_EMBEDDER": "none",
    }
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    return {**os.environ, **homes, **settings, "TMPDIR": str(directory / "tmp"), "PYTHONPATH": path}


@contextmanager
def serving(directory: Path, environment: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """Start the server; return its process id and port."""
    command = [sys.executable, "-m", "onhand", "serve", "--http", "127.0.0.1:0", "--root", str(directory / "project")]
    log = directory / "server.log"
    with log.open("wb") as stderr, subprocess.Popen(command, env=environment, stderr=stderr) as process:
        try:
            while "/mcp" not in log.read_text(errors="replace"):
                if process.poll() is not None:
                    raise SystemExit(f"the server did not start:\n{log.read_text(errors='replace')}")
                time.sleep(0.1)
            address = log.read_text().rpartition("http://")[2].partition("/mcp")[0]
            yield process.pid, int(address.rpartition(":")[2])
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


# The clients


class Lost(Exception):
    """The server did not answer as a server must."""


class Client:
    """One connection that calls tools, most of them without a session."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
        self._id = 0

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        """Call a tool; return whether it succeeded, and its text."""
        self._id += 1
        params = {"name": name, "arguments": arguments, "_meta": ENVELOPE}
        body = {"jsonrpc": "2.0", "id": self._id, "method": "tools/call", "params": params}
        message = self._post(body, {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": name})
        if "result" not in message:
            return False, message["error"]["message"]
        return not message["result"].get("isError"), message["result"]["content"][0]["text"]

    def use_session(self) -> None:
        """Open a session of the older protocol, list the tools in it, and end it."""
        told = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
        headers: dict[str, str] = {}
        self._post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": told}, headers, opened=headers)
        self._post({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}, headers)
        self._connection.request("DELETE", "/mcp", headers={**headers, "Host": f"127.0.0.1:{self._port}"})
        self._connection.getresponse().read()

    def close(self) -> None:
        self._connection.close()

    def _post(
        self, body: Mapping[str, Any], headers: Mapping[str, str], opened: dict[str, str] | None = None
    ) -> dict[str, Any]:
        usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        try:
            self._connection.request("POST", "/mcp", json.dumps(body), {**usual, **headers})
            response = self._connection.getresponse()
            raw = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Lost(f"{type(error).__name__} at {body['method']}") from None
        if response.status != 200:
            raise Lost(f"status {response.status} at {body['method']}: {raw[:100]}")
        if opened is not None:
            opened["Mcp-Session-Id"] = response.headers["mcp-session-id"]
            opened["MCP-Protocol-Version"] = "2025-11-25"
        lines = [line.removeprefix("data: ") for line in raw.splitlines() if line.startswith("data: {")]
        message: dict[str, Any] = json.loads(lines[-1] if lines else raw)
        return message


class Load:
    """The work of all clients, the writes that were acknowledged, and what went wrong."""

    def __init__(self, directory: Path, port: int, clients: int) -> None:
        self._directory = directory
        self._port = port
        self._clients = clients
        self._index = open_index(str(directory / "project" / ".onhand" / "documents.db"), None)
        self.written: dict[str, int] = {}  # the last acknowledged number of each note, node, document and file
        self.calls: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._stop = threading.Event()

    def fill(self) -> None:
        """Let the server keep as many rests of long results and outputs of jobs as it ever does."""
        client = Client(self._port)
        for _ in range(FILL):
            client.call("call_tool", {"name": "huge__echo", "arguments": {}})
            client.call("run_command", {"command": "echo kept", "background": True})
        client.close()

    def run(self, seconds: float, sample: Callable[[], None]) -> None:
        """Let every client work for some time."""
        self._stop.clear()
        works = [self._work_of(number) for number in range(self._clients)]
        threads = [threading.Thread(target=self._repeat, args=(n, work)) for n, work in enumerate(works)]
        threads.append(threading.Thread(target=self._change_documents))
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(SAMPLE_S)
            sample()
        self._stop.set()
        for thread in threads:
            thread.join(2 * ANSWER_S)
        if any(thread.is_alive() for thread in threads):
            self.failures["a client waits for ever"] += 1
        self.drain()

    def drain(self) -> None:
        """End the background jobs, let a last command forget the oldest of them, and reach every server."""
        client = Client(self._port)
        for line in client.call("list_jobs", {})[1].splitlines():
            if " running" in line:
                client.call("stop_job", {"job": line.partition(" ")[0]})
        client.call("run_command", {"command": "true"})
        for kind in KINDS:  # so that each server is connected whenever the server is measured
            for _ in range(5):
                if client.call("call_tool", {"name": f"{kind}__echo", "arguments": {}})[0]:
                    break
        client.close()

    def lost_writes(self) -> list[str]:
        """Return the acknowledged writes that are not there."""
        lost = []
        with Project(load_config(str(self._directory / "project"))) as project:
            notes = {note.name: note.body for note in project.notes.all()}
            nodes: dict[str, Any] = project.plan.read(lambda plan: {node.id: node.context for node in plan.all()})
        for key, number in sorted(self.written.items()):
            kind, _, name = key.partition(":")
            if kind == "note":
                found = _number_in(notes.get(name, ""))
            elif kind == "node":
                found = nodes.get(name, {}).get("number", -1)
            elif kind == "document":
                found = _number_in(self._index.get(name).text)
            else:
                found = _number_in((self._directory / "project" / name).read_text())
            if found < number:
                lost.append(f"{key}: {number} was acknowledged, {found} is there")
        return lost

    def _repeat(self, number: int, work: Callable[[Client, random.Random, int], None]) -> None:
        client, choose, turn = Client(self._port), random.Random(number), 0
        while not self._stop.is_set():
            turn += 1
            try:
                work(client, choose, turn)
                if turn % 50 == 0:
                    client.use_session()
            except Lost as lost:
                self.failures[str(lost)] += 1
                self._stop.wait(0.5)
        client.close()

    def _work_of(self, number: int) -> Callable[[Client, random.Random, int], None]:
        """Of a hundred clients, some write, run commands or call servers; most search and read."""
        place = number % 100
        if place < 10:
            return lambda client, choose, turn: self._write_note(client, f"note {number}")
        if place < 15:
            return lambda client, choose, turn: self._change_plan(client, f"node-{number}")
        if place < 20:
            return lambda client, choose, turn: self._write_file(client, f"src/new{number}.txt")
        if place < 23:
            return self._run_command
        if place < 40:
            return self._call_server
        return self._search

    def _call(self, client: Client, name: str, arguments: Mapping[str, Any], may_fail: bool = False) -> bool:
        ok, text = client.call(name, arguments)
        self.calls[name] += 1
        if not ok and not may_fail:
            self.failures[f"{name}: {text[:120]}"] += 1
        return ok

    def _write_note(self, client: Client, name: str) -> None:
        key, number = f"note:{name}", self.written.get(f"note:{name}", 0) + 1
        if self._call(client, "write_note", {"name": name, "description": "Of the soak.", "body": f"number {number}"}):
            self.written[key] = number
        self._call(client, "search_notes", {"query": f"soak number {number}"})

    def _change_plan(self, client: Client, name: str) -> None:
        key, number = f"node:{name}", self.written.get(f"node:{name}", 0) + 1
        if number == 1:
            node = {"id": name, "parents": ["soak"], "description": "A step.", "context": {"number": 1}}
            written = self._call(client, "plan_add", {"nodes": [node]})
        else:
            written = self._call(client, "plan_update", {"id": name, "context": {"number": number}})
        if written:
            self.written[key] = number
        self._call(client, "plan_show", {})

    def _write_file(self, client: Client, path: str) -> None:
        key, number = f"file:{path}", self.written.get(f"file:{path}", 0) + 1
        written = self._call(client, "write_file", {"path": path, "content": f"number {number}\n"}, may_fail=True)
        if written:  # it may have waited too long for the commands of others
            self.written[key] = number

    def _run_command(self, client: Client, choose: random.Random, turn: int) -> None:
        if turn % 5:
            self._call(client, "run_command", {"command": "sleep 0.2; wc -l src/*.txt | tail -1"}, may_fail=True)
            return
        self._call(client, "run_command", {"command": "seq 100000; sleep 30", "background": True}, may_fail=True)
        _, jobs = client.call("list_jobs", {})
        running = [line.partition(" ")[0] for line in jobs.splitlines() if " running" in line and "sleep 30" in line]
        if running:
            self._call(client, "stop_job", {"job": choose.choice(running)}, may_fail=True)

    def _call_server(self, client: Client, choose: random.Random, turn: int) -> None:
        kind = choose.choices(KINDS, (4, 2, 1, 2, 2, 1))[0]
        arguments = {"name": f"{kind}__echo", "arguments": {"text": "hello"}}
        self._call(client, "call_tool", arguments, may_fail=kind != "steady")

    def _search(self, client: Client, choose: random.Random, turn: int) -> None:
        name, arguments = choose.choice(
            [
                ("context_search", {"query": choose.choice(["rollback", "who leads", "rides kept", f"zq{turn}"])}),
                ("read_file", {"path": f"src/file{choose.randrange(50)}.txt"}),
                ("list_files", {"path": "src"}),
                ("grep", {"pattern": f"file {choose.randrange(50)}", "path": "src"}),
                ("keyword_search", {"query": f"document number {choose.randrange(100)}"}),
                ("search_rules", {"query": "tests"}),
                ("search_tools", {"query": "say it again"}),
            ]
        )
        self._call(client, name, arguments)

    def _change_documents(self) -> None:
        while not self._stop.wait(0.05):
            place = random.randrange(40)
            key = f"document:doc-{place}"
            number = self.written.get(key, 0) + 1
            self._index.put([_document(place, number)])
            self.written[key] = number


def _document(place: int, number: int) -> Document:
    return Document(f"doc-{place}", f"Document {place}", f"number {number}")


def _number_in(text: str) -> int:
    word = text.rpartition("number ")[2].split()
    return int(word[0]) if word else -1


# What the server holds


class Held(NamedTuple):
    """What a server holds at one moment."""

    memory: int  # bytes
    descriptors: int
    threads: int
    processes: int
    files: int  # temporary ones, and those that writes left in the project


def measure(server: int, directory: Path) -> Held:
    """Measure the server."""
    status = Path(f"/proc/{server}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    left = sum(name.endswith((".new", ".tmp")) for _, _, names in os.walk(directory / "project") for name in names)
    temporary = sum(len(names) + len(inner) for _, inner, names in os.walk(directory / "tmp"))
    return Held(
        int(fields["VmRSS"].split()[0]) * 1024,
        len(os.listdir(f"/proc/{server}/fd")),
        int(fields["Threads"]),
        len(_descendants(server)),
        left + temporary,
    )


def _descendants(process: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):
            children += map(int, (task / "children").read_text().split())
    for child in list(children):
        with suppress(OSError):
            children += _descendants(child)
    return children


def settle(server: int, directory: Path, at_most: Held | None = None) -> Held:
    """Return what the server holds when it is quiet: no more than before, or unchanged for some seconds."""
    end = time.monotonic() + QUIET_S
    steady, held = 0, measure(server, directory)
    while time.monotonic() < end:
        time.sleep(1)
        before, held = held, measure(server, directory)
        steady = steady + 1 if held[1:] == before[1:] else 0
        is_back = at_most is not None and all(now <= was for now, was in zip(held[1:], at_most[1:], strict=True))
        if is_back or (at_most is None and steady >= 12):
            break
    return held


def rise_of(samples: list[int]) -> float:
    """Return how much the straight line that fits the samples best rises from the first to the last."""
    count = len(samples)
    middle, mean = (count - 1) / 2, sum(samples) / count
    spread = sum((place - middle) ** 2 for place in range(count))
    slope = sum((place - middle) * (sample - mean) for place, sample in enumerate(samples)) / spread
    return slope * (count - 1)


def problems_of(before: Held, after: Held, memory: list[int], load: Load) -> list[str]:
    """Return everything that is wrong."""
    problems = [f"lost: {lost}" for lost in load.lost_writes()]
    problems += [f"failed {count} times: {what}" for what, count in load.failures.most_common(20)]
    for name, was, now in zip(Held._fields[1:], before[1:], after[1:], strict=True):
        if now > was:
            problems.append(f"{name} grew from {was} to {now}")
    allowed = max(RISE * before.memory, RISE_BYTES)
    if after.memory - before.memory > allowed:
        problems.append(f"memory at rest grew from {before.memory >> 20} to {after.memory >> 20} MiB")
    if len(memory) > 10 and rise_of(memory) > allowed:
        problems.append(f"memory under load rose by {rise_of(memory) / 2**20:.0f} MiB")
    return problems


def soak(seconds: float, clients: int) -> list[str]:
    """Run everything, print what is seen, and return what is wrong."""
    with tempfile.TemporaryDirectory(prefix="onhand-soak-") as name:
        directory = Path(name)
        with serving(directory, prepare(directory)) as (server, port):
            load = Load(directory, port, clients)
            load.fill()
            load.run(seconds / 3, lambda: None)
            before = settle(server, directory)
            memory: list[int] = []
            load.run(2 * seconds / 3, lambda: memory.append(measure(server, directory).memory))
            after = settle(server, directory, before)
            calls = sum(load.calls.values())
            print(f"{calls:,} calls of {clients} clients, {len(load.written)} things written, in {seconds:g} s of load")
            print(f"{'':<12}{'before':>10}{'after':>10}")
            for field, was, now in zip(Held._fields, before, after, strict=True):
                print(f"{field:<12}{_show(field, was):>10}{_show(field, now):>10}")
            if len(memory) > 10:
                print(f"memory rose by {rise_of(memory) / 2**20:.1f} MiB under load")
            return problems_of(before, after, memory, load)


def _show(field: str, value: int) -> str:
    return f"{value >> 20} MiB" if field == "memory" else str(value)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SOAK_SECONDS", "120")))
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--behave", choices=KINDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.behave:
        behave(arguments.behave)
        return 0
    if not 0 < arguments.seconds <= MAX_SECONDS or not 0 < arguments.clients <= 200:
        parser.error(f"at most {MAX_SECONDS} seconds and 200 clients")
    problems = soak(arguments.seconds, arguments.clients)
    for problem in problems:
        print(f"PROBLEM: {problem}")
    print("nothing grew and nothing was lost" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
