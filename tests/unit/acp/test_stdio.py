"""The ACP transport and its checks of messages."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from editor import opener
from onhand.acp import stdio
from onhand.acp.agent import EditorAgent
from onhand.acp.history import History
from onhand.acp.stdio import EditorTransport, ErrorResponse, converse, parse_message
from requirements import requirement

INITIALIZE = {"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {"protocolVersion": 1}}
LAST = {"jsonrpc": "2.0", "id": "last", "method": "session/list", "params": {}}


def exchanged(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """What an agent answers to these lines, one after the other, and then to one that asks whether it is alive."""

    async def talk() -> list[dict[str, Any]]:
        reading, to_agent = os.pipe()
        from_agent, writing = os.pipe()
        agent = EditorAgent(opener(lambda _: []), History(None), "1")
        wire = EditorTransport(reading, writing)
        serving = asyncio.create_task(converse(agent, wire))
        answers: list[dict[str, Any]] = []
        with open(to_agent, "wb", buffering=0) as out, open(from_agent, "rb") as back:
            for line in [*lines, json.dumps(LAST).encode()]:
                await asyncio.to_thread(out.write, line + b"\n")
            while not answers or answers[-1].get("id") != "last":
                answers.append(json.loads(await asyncio.to_thread(back.readline)))
            out.close()
            await serving
            await wire._writer.run(lambda: os.close(writing))  # by the thread that may still write
            await wire._reader.run(lambda: os.close(reading))
        return answers

    return asyncio.run(asyncio.wait_for(talk(), 60))


def asking(method: str, params: Any, id: Any = 7) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


@requirement("acp.default-adapter")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b"42", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"initialize"}', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":[1]}', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":' + b"[" * 200 + b"]" * 200 + b"}", -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":NaN}}', -32600),
        (asking("initialize", {"protocolVersion": "1"}), -32602),
        (asking("initialize", {}), -32602),
        (asking("initialize", {"protocolVersion": True}), -32602),
        (asking("session/new", {"cwd": "x", "mcpServers": []}), -32602),
        (asking("session/new", {"mcpServers": []}), -32602),
        (asking("session/prompt", {"sessionId": "nope", "prompt": []}), -32002),
        (asking("session/set_mode", {"sessionId": "nope", "modeId": "root"}), -32002),
        (asking("authenticate", {"methodId": "x"}), -32602),
        (asking("nope", {}), -32601),
        (asking("_x/y", {}), -32601),
    ],
)
def test_an_invalid_request_is_answered_and_the_agent_continues(line: bytes, code: int) -> None:
    answers = exchanged([json.dumps(INITIALIZE).encode(), line])
    assert [answer["error"]["code"] for answer in answers if "error" in answer] == [code]
    assert {answer["id"] for answer in answers} <= {"init", 7, None, "last"}
    assert "result" in answers[-1]


@requirement("acp.default-adapter")
def test_empty_lines_and_unknown_notifications_are_ignored() -> None:
    lines = [
        json.dumps(INITIALIZE).encode(),
        b"",
        b"  \r",
        b'{"jsonrpc":"2.0","method":"nope"}',
        b'{"id":99,"result":1}',
    ]
    assert [answer["id"] for answer in exchanged(lines)] == ["init", "last"]


@requirement("acp.default-adapter")
@pytest.mark.parametrize("line", [b'{"id":{},"result":1}', b'{"id":true,"error":"x"}', b'{"id":null,"result":{}}'])
def test_a_response_to_no_request_does_not_end_the_agent(line: bytes) -> None:
    answers = exchanged([json.dumps(INITIALIZE).encode(), line])
    assert [answer["error"]["code"] for answer in answers if "error" in answer] == [-32600]


@requirement("acp.default-adapter")
@pytest.mark.parametrize(
    "line",
    [
        b'{"id":0,"error":"no"}',
        b'{"id":0,"error":[1]}',
        b'{"id":0,"error":{}}',
        b'{"id":0,"error":{"code":"x","message":1}}',
        b'{"id":0,"result":NaN}',
        b'{"id":0,"result":' + b"[" * 200 + b"]" * 200 + b"}",
    ],
)
def test_an_invalid_response_reaches_its_caller_as_an_error(line: bytes) -> None:
    message = parse_message(line)
    assert isinstance(message, dict)
    assert (message["id"], message["error"]["code"]) == (0, -32600)
    assert "invalid response" in message["error"]["message"]


@requirement("acp.sessions")
def test_requests_before_initialize_are_refused() -> None:
    (answer, last) = exchanged([asking("session/new", {"cwd": "/", "mcpServers": []})])
    assert answer["error"] == {"code": -32600, "message": "call initialize first", "data": None}
    assert last["error"]["code"] == -32600


@requirement("acp.default-adapter")
@pytest.mark.parametrize("version", [0, 1, 2, 60000])
def test_our_protocol_version_is_returned_whichever_is_requested(version: int) -> None:
    (answer, _) = exchanged([asking("initialize", {"protocolVersion": version})])
    assert answer["result"]["protocolVersion"] == 1


@requirement("acp.client-abilities")
@pytest.mark.parametrize("abilities", [5, [], {"fs": 5}, {"fs": None}, None])
def test_malformed_capabilities_are_ignored(tmp_path: Path, abilities: Any) -> None:
    begin = asking("initialize", {"protocolVersion": 1, "clientCapabilities": abilities}, "init")
    answers = exchanged([begin, asking("session/new", {"cwd": str(tmp_path), "mcpServers": []})])
    assert [answer["id"] for answer in answers if "result" in answer] == ["init", 7, "last"]


@requirement("acp.default-adapter")
def test_lone_surrogates_are_replaced() -> None:
    message = parse_message(rb'{"jsonrpc":"2.0","id":1,"method":"m","params":{"t":"a\ud83d"}}')
    assert not isinstance(message, ErrorResponse)
    assert message is not None
    assert message["params"]["t"] == "a\ufffd"


@requirement("mcp.malformed-is-answered")
def test_a_line_that_is_too_long_or_too_deep_is_answered_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 1_000_000)
    begin = b'{"jsonrpc":"2.0","method":"session/list","params":{"x":'
    long = begin + b'"' + b"a" * 1_000_000 + b'"},"id":7}'
    deep = begin + b"[" * 50_000 + b"]" * 50_000 + b'},"id":"eight"}'
    answers = exchanged([json.dumps(INITIALIZE).encode(), long, deep])
    assert [(answer["id"], answer["error"]["code"]) for answer in answers[1:3]] == [(7, -32600), ("eight", -32600)]
