"""Does a conversation over two pipes go on whatever is said in it, and end when it should?"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import anyio
import pytest

from onhand.mcp import stdio
from onhand.mcp.stdio import converse
from onhand.mcp.surface import Surface
from onhand.tools import Tool
from rawmcp import initialize, request
from requirements import requirement

from .test_local import over

SCHEMA = {"type": "object", "properties": {}}


class Pipes:
    """The client's end of a conversation."""

    def __init__(self, surface: Surface) -> None:
        theirs, self._writing = os.pipe()
        reading, ours = os.pipe()
        self._lines = os.fdopen(reading, "rb")
        self._thread = Thread(target=anyio.run, args=(self._serve, surface, theirs, ours))
        self._thread.start()

    async def _serve(self, surface: Surface, reading: int, writing: int) -> None:
        try:
            await converse(surface, reading, writing)
        finally:
            os.close(reading)
            os.close(writing)

    def send(self, *messages: dict[str, Any]) -> None:
        os.write(self._writing, b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def next(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._lines.readline())
        return answer

    def stop_reading(self) -> None:
        self._lines.close()

    def ended(self) -> bool:
        self._thread.join(60)
        return not self._thread.is_alive()

    def close(self) -> None:
        os.close(self._writing)
        assert self.ended()
        self._lines.close()


@contextmanager
def talking(surface: Surface) -> Iterator[Pipes]:
    pipes = Pipes(surface)
    try:
        pipes.send(initialize(), {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert "result" in pipes.next()
        yield pipes
    finally:
        pipes.close()


def call(name: str, request_id: int | str) -> dict[str, Any]:
    return request("tools/call", request_id, name=name, arguments={})


@requirement("mcp.progress")
def test_a_cancelled_request_is_not_answered_and_its_id_is_free_again(surface: Surface) -> None:
    begun, ended = Event(), Event()

    async def hang(arguments: dict[str, Any]) -> str:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return "never"

    tools = [Tool("hang", "d", SCHEMA, hang, read_only=True), Tool("quick", "d", SCHEMA, lambda _: "q", read_only=True)]
    with talking(over(surface, *tools)) as pipes:
        pipes.send(call("hang", 7))
        assert begun.wait(60)
        pipes.send(call("quick", 7))
        assert "still at work" in pipes.next()["error"]["message"]
        pipes.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        assert ended.wait(60)
        pipes.send(call("quick", 7))
        assert pipes.next()["result"]["content"][0]["text"] == "q"


@requirement("mcp.malformed-is-answered")
def test_an_answer_with_half_of_a_character_is_mended_or_refused_and_the_session_goes_on(surface: Surface) -> None:
    tool = Tool("half", "d", SCHEMA, lambda _: "a\ud800b", read_only=True)
    with talking(over(surface, tool)) as pipes:
        pipes.send(call("half", 1))
        assert pipes.next()["result"]["content"][0]["text"] == "a\ufffdb"
        pipes.send(request("resources/read", 2, uri="onhand://context/%ed%a0%80"))
        assert pipes.next()["error"]["data"] == {"uri": "onhand://context/%ed%a0%80"}


def test_only_so_many_requests_are_at_work_and_the_others_wait_their_turn(
    surface: Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_AT_WORK", 2)
    begun: list[int] = []
    two, go = Event(), Event()

    def wait(arguments: dict[str, Any]) -> str:
        begun.append(1)
        if len(begun) == 2:
            two.set()
        go.wait(60)
        return "done"

    with talking(over(surface, Tool("wait", "d", SCHEMA, wait, read_only=True))) as pipes:
        pipes.send(*(call("wait", number) for number in range(6)))
        assert two.wait(60)
        assert len(begun) == 2
        go.set()
        assert sorted(pipes.next()["id"] for _ in range(6)) == list(range(6))


def test_a_client_that_closes_what_it_reads_from_ends_the_conversation(surface: Surface) -> None:
    with talking(surface) as pipes:
        pipes.stop_reading()
        pipes.send(*(request("ping", number) for number in range(3)))
        assert pipes.ended()
