"""Does a page stop being fetched when nobody waits for it any more, wherever that is: at names, addresses or bytes?

Each is one process in a network that has no way out (tests/isolated.py), with a server that stops answering somewhere.
"""

import os
import subprocess
import sys

import pytest

from requirements import requirement

PROGRAM = """
import asyncio, contextlib, socket, sys, threading
import isolated

isolated.enter()
from onhand.actions.web import http_get
from onhand.tools import Call, Registry, Tool

stage = sys.argv[1]
begun, never, ended = threading.Event(), threading.Event(), threading.Event()
said = {"headers": b"HTTP/1.1 200", "body": b"HTTP/1.1 200 OK\\r\\n\\r\\nhello"}
service = socket.create_server((isolated.PUBLIC, 8080))
deaf = isolated.be_deaf(8080)

def resolve(host, port):
    if stage == "resolve":
        begun.set()
        never.wait()
    return [isolated.DEAF if stage == "connect" else isolated.PUBLIC]

def serve():
    client = service.accept()[0]
    client.recv(65536)
    client.sendall(said.get(stage, b""))
    begun.set()
    with contextlib.suppress(ConnectionError):
        while client.recv(65536):
            pass
    ended.set()

def connecting():
    rows = [row.split() for row in open("/proc/self/net/tcp").readlines()[1:]]
    return [row for row in rows if row[3] == "02"]  # SYN_SENT, as in proc(5)

def get(arguments):
    url = ("https" if stage == "tls" else "http") + "://public.example.com:8080/"
    return http_get(url, allow_http=True, timeout_s=600.0, resolve=resolve).text

def tools():
    return [thread for thread in threading.enumerate() if thread.name == "tool get"]

async def cancelled():
    registry = Registry([Tool("get", "d", {"type": "object", "properties": {}}, get, read_only=True, timeout_s=None)])
    task = asyncio.create_task(registry.dispatch([Call("get", {})]))
    while not (connecting() if stage == "connect" else begun.is_set()):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    for tool in tools():
        tool.join(60)

if stage not in ("resolve", "connect"):
    threading.Thread(target=serve, daemon=True).start()
asyncio.run(cancelled())
print("left:", len(tools()) + len(connecting()))
print("told:", ended.wait(60) if stage not in ("resolve", "connect") else True)
"""


@requirement("actions.end-with-the-command", "actions.http-get")
@pytest.mark.parametrize("stage", ["resolve", "connect", "tls", "headers", "body"])
def test_a_page_that_nobody_waits_for_is_let_go_at_once_and_its_server_sees_that(stage: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, stage],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        encoding="utf-8",
        timeout=110,
    )
    if "unshare" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("there are no networks of one's own to be had here: user namespaces are switched off")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "left: 0\ntold: True\n"
