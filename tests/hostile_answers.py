"""What a hostile MCP server answers, the same as a program and over HTTP.

`python tests/hostile_answers.py KIND SIZE` runs one over stdio.
"""

import gzip
import json
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

from loopback import Asked, Reply

DEEP = b"[" * 5_000 + b"]" * 5_000
TOOLS = [{"name": "echo", "inputSchema": {"type": "object"}}, {"name": "attack", "inputSchema": {"type": "object"}}]
INFO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "hostile", "version": "1"},
}


def answer(kind: str, size: int, asked: dict[str, Any]) -> Iterator[bytes]:
    """The pieces of the response to a request; "endless" never stops."""
    text = b'{"content":[{"type":"text","text":"%s"}]}'
    number = asked["id"]
    head, long = b'{"jsonrpc":"2.0","id":%d,"result":' % number, text % (b"x" * size)
    if asked["method"] == "initialize":
        yield head + json.dumps(INFO).encode() + b"}"
    elif asked["method"] == "tools/list":
        tools = json.dumps(TOOLS).encode()[:-1]
        deep = b',{"name":"deep","inputSchema":{"type":"object","default":%s}}' % DEEP
        yield head + b'{"tools":' + tools + (deep if kind == "deep list" else b"") + b"]}}"
    elif asked["method"] != "tools/call":
        yield b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"no"}}' % number
    elif asked["params"]["name"] == "echo":
        yield head + text % b"on" + b"}"
    elif kind == "id first":
        yield head + long + b"}"
    elif kind == "id between":
        yield b'{"result":%s,"id":%d,"more":%s,"jsonrpc":"2.0"}' % (long, number, long)
    elif kind == "id last":
        yield b'{"result":%s,"jsonrpc":"2.0","id":%d}' % (long, number)
    elif kind == "error":
        yield b'{"error":{"code":-1,"message":"%s"},"jsonrpc":"2.0","id":%d}' % (b"x" * size, number)
    elif kind in ("endless", "endless event"):
        yield b'{"result":'
        while True:
            yield b'["x",' * 10_000
    elif kind == "not UTF-8":
        yield head + text % b"\xff" + b"}"
    else:
        yield head + b'{"content":[],"structuredContent":{"deep":%s}}}' % DEEP


def respond(transport: str, kind: str, size: int, asked: Asked) -> Reply:
    """The same as a response over HTTP: as JSON, compressed, or as an event."""
    if asked.method != "POST":
        return Reply(status=405)
    request = asked.json
    if "id" not in request:
        return Reply(status=202)
    pieces = answer(kind, size, request)
    if transport == "events":
        is_field = kind == "endless event" and b"attack" in asked.body
        pieces = chain([b"event: " if is_field else b"event: message\ndata: "], pieces, [b"\n\n"])
    headers = {"Content-Type": "text/event-stream" if transport == "events" else "application/json"}
    if kind.startswith("endless") and request.get("params", {}).get("name") == "attack":
        return Reply(pieces, headers=headers)
    body = b"".join(pieces)
    if transport == "compressed":
        body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
    return Reply(body, headers=headers)


def main() -> None:
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if "id" in asked:
            for piece in answer(sys.argv[1], int(sys.argv[2]), asked):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.write(b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
