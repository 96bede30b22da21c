"""Models behind HTTP: retries, aborted connections, and errors with advice."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

import provider
from loopback import Asked, Loopback, Reply, serving
from onhand.agent.events import Answered, ModelEvent, Retrying, Text, Thought, Usage
from onhand.agent.models.anthropic import AnthropicModel
from onhand.agent.models.http import RETRIES, RequestPolicy
from onhand.agent.models.openai import OpenAiModel
from onhand.errors import InputError, ModelError
from onhand.formats.message import Message
from onhand.tools import Call
from requirements import requirement

KEY = "sk-very-secret"
ASKED = [Message("system", "S"), Message("user", "U")]
TOOL = {"name": "t", "description": "d", "input_schema": {"type": "object"}}


class Waits(list[float]):
    """What was waited for, without waiting."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def in_turn(*replies: Reply) -> Callable[[Asked], Reply]:
    waiting = list(replies)
    return lambda _: waiting.pop(0)


def claude(server: Loopback, waits: Waits | None = None, **options: Any) -> AnthropicModel:
    policy = RequestPolicy(timeout_s=options.pop("timeout_s", 20), wait=waits if waits is not None else Waits())
    return AnthropicModel("m", server.url, options.pop("api_key_env", None), policy=policy, **options)


def gpt(server: Loopback, **options: Any) -> OpenAiModel:
    return OpenAiModel("m", server.url, options.pop("api_key_env", None), policy=RequestPolicy(wait=Waits()), **options)


def said(model: AnthropicModel | OpenAiModel) -> list[ModelEvent]:
    async def ask() -> list[ModelEvent]:
        return [event async for event in model.stream(ASKED, [TOOL])]

    return asyncio.run(ask())


def answered(model: AnthropicModel | OpenAiModel) -> Answered:
    last = said(model)[-1]
    assert isinstance(last, Answered)
    return last


@requirement("models.http")
def test_requests_to_anthropic_follow_its_api_and_usage_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    calls = [Call("t", {"a": 1}, "x"), Call("t", {}, "y")]
    with serving(in_turn(provider.answer(provider.anthropic("Hi", calls, thought="hm")))) as server:
        events = said(claude(server, api_key_env="MY_KEY", max_output_tokens=99))
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/messages")
    assert (asked.headers["x-api-key"], asked.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert (asked.json["model"], asked.json["max_tokens"], asked.json["stream"]) == ("m", 99, True)
    assert asked.json["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert events[:3] == [Thought("hm"), Text("H"), Text("i")]
    last = events[-1]
    assert isinstance(last, Answered)
    assert (last.message.calls, last.message.text) == (tuple(calls), "Hi")
    assert last.message.kept == ({"type": "thinking", "thinking": "hm", "signature": "sig"},)
    assert last.usage == Usage(input=100, output=7, cached=90, written=5)


@requirement("models.http")
def test_requests_to_openai_follow_its_api_and_usage_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    calls = [Call("t", '{"a": 1}', "x"), Call("t", "{}", "y")]
    with serving(in_turn(provider.answer(provider.openai("Hi", calls, thought="hm"), named=False))) as server:
        events = said(gpt(server, api_key_env="MY_KEY", max_output_tokens=99))
    (asked,) = server.asked
    assert (asked.path, asked.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert (asked.json["max_tokens"], asked.json["stream_options"]) == (99, {"include_usage": True})
    assert events[:3] == [Thought("hm"), Text("H"), Text("i")]
    last = events[-1]
    assert isinstance(last, Answered)
    assert (last.message, last.stop) == (Message("assistant", "Hi", tuple(calls)), "calls")
    assert last.usage == Usage(input=100, output=7, cached=90)


@requirement("models.http")
@pytest.mark.parametrize(
    ("stop", "means"),
    [("max_tokens", "max_tokens"), ("refusal", "refusal"), ("pause_turn", "pause"), ("stop_sequence", "end"),
     ("model_context_window_exceeded", "context_full"), ("something_new", "end")],
)  # fmt: skip
def test_every_stop_reason_of_anthropic_is_mapped(stop: str, means: str) -> None:
    with serving(in_turn(provider.answer(provider.anthropic("x", stop=stop)))) as server:
        assert answered(claude(server)).stop == means


@requirement("models.http")
@pytest.mark.parametrize(("stop", "means"), [("length", "max_tokens"), ("content_filter", "refusal"), ("odd", "end")])
def test_every_stop_reason_of_openai_is_mapped(stop: str, means: str) -> None:
    with serving(in_turn(provider.answer(provider.openai("x", stop=stop), named=False))) as server:
        assert answered(gpt(server)).stop == means


@requirement("models.http")
@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_requests_to_a_busy_server_are_repeated_with_growing_waits(status: int) -> None:
    waits = Waits()
    busy = Reply({"error": {"message": "come back"}}, status)
    with serving(in_turn(busy, busy, provider.answer(provider.anthropic("Hi")))) as server:
        events = said(claude(server, waits))
    assert waits == [1.0, 2.0]
    assert events[:2] == [
        Retrying(f"answered {status}: come back", 1.0),
        Retrying(f"answered {status}: come back", 2.0),
    ]
    assert len({asked.body for asked in server.asked}) == 1


@requirement("models.http")
def test_retry_after_is_followed_up_to_a_limit() -> None:
    waits = Waits()
    soon, never = (Reply("", 429, {"Retry-After": after}) for after in ("7", str(int(RETRIES.max_wait_s) + 1)))
    with serving(in_turn(soon, never)) as server, pytest.raises(ModelError, match="asks to wait for 61 s"):
        said(claude(server, waits))
    assert waits == [7.0]


@requirement("models.http")
def test_retries_end() -> None:
    waits = Waits()
    with serving(lambda _: Reply("", 503)) as server, pytest.raises(ModelError, match="answered 503"):
        said(claude(server, waits))
    assert waits == [1.0, 2.0, 4.0, 8.0]


@requirement("models.http")
def test_a_request_is_repeated_if_its_answer_breaks_off() -> None:
    whole = provider.answer(provider.anthropic("Hello"))
    assert isinstance(whole.body, bytes)
    cut = whole._replace(cut=len(whole.body) // 2)
    ended = Reply(provider.sse(provider.anthropic("Hello")[:-3], named=True), headers=provider.STREAM)
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    told = provider.answer([*provider.anthropic("Hello")[:4], overloaded])
    with serving(in_turn(cut, ended, told, whole)) as server:
        events = said(claude(server))
    assert [event.reason for event in events if isinstance(event, Retrying)] == [
        "closed the connection",
        "broke off in the middle of an answer",
        "broke off with overloaded_error: Overloaded",
    ]
    assert isinstance(events[-1], Answered)
    assert events[-1].message.text == "Hello"


@requirement("models.http")
def test_a_silent_server_times_out() -> None:
    over = threading.Event()

    def silent(read: Callable[[int], bytes]) -> None:
        over.wait(60)

    quiet = Reply(b": nothing yet\n\n", headers=provider.STREAM, then=silent)
    whole = provider.answer(provider.anthropic("Hi"))
    with serving(lambda _: whole if len(server.asked) > 1 else quiet) as server:
        events = said(claude(server, timeout_s=1))
        over.set()
    assert events[0] == Retrying("did not answer within 1 s", 1.0)
    assert isinstance(events[-1], Answered)


@requirement("models.http")
def test_cancelling_closes_the_connection() -> None:
    hung_up = threading.Event()

    def wait_for_the_end(read: Callable[[int], bytes]) -> None:
        if read(1) == b"":
            hung_up.set()

    begun = provider.sse(provider.anthropic("Hello")[:4], named=True)
    reply = Reply(begun, headers=provider.STREAM, then=wait_for_the_end)

    async def ask(model: AnthropicModel) -> None:
        first = asyncio.Event()

        async def listen() -> None:
            async for _ in model.stream(ASKED, []):
                first.set()

        task = asyncio.create_task(listen())
        await first.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with serving(lambda _: reply) as server:
        asyncio.run(ask(claude(server)))
        assert hung_up.wait(60)


@requirement("models.http")
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply({"error": {"message": "bad \x1b[2J model sk-very-secret"}}, 400), "400: bad [U+001B][2J model …"),
        (Reply("", 401), "answered 401"),
        (Reply("", 307, {"Location": "http://127.0.0.1:1/"}), "a redirect: use the target address"),
        (Reply("<html>", headers={"Content-Type": "text/html"}), "did not answer with JSON"),
        (Reply(b"data: {oops\n\n", headers=provider.STREAM), "did not answer with JSON"),
        (Reply(b"data: " + b"[" * 100_000 + b"\n\n", headers=provider.STREAM), "did not answer with JSON"),
        (provider.answer([{"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}]),
         "broke off with invalid_request_error: no"),
    ],
)  # fmt: skip
def test_permanent_errors_are_raised_at_once_without_the_key(
    reply: Reply, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with serving(in_turn(reply)) as server, pytest.raises(ModelError) as raised:
        said(claude(server, api_key_env="MY_KEY"))
    assert words in str(raised.value)
    assert KEY not in str(raised.value)
    assert len(server.asked) == 1


@requirement("models.http")
def test_an_unreachable_address_is_named() -> None:
    with pytest.raises(ModelError, match=r"http://127.0.0.1:1/v1/messages cannot be reached"):
        said(AnthropicModel("m", "http://127.0.0.1:1", None))


@requirement("models.http")
def test_a_missing_key_is_reported_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with serving(lambda _: Reply("")) as server, pytest.raises(ModelError, match="the variable MY_KEY is empty"):
        said(claude(server, api_key_env="MY_KEY"))
    assert server.asked == []


@requirement("models.http")
def test_no_key_is_sent_unencrypted_to_another_machine() -> None:
    with pytest.raises(InputError, match="not sent unencrypted"):
        OpenAiModel("m", "http://example.com/v1", "MY_KEY")
    with pytest.raises(InputError, match="the name of the variable"):
        OpenAiModel("m", "https://example.com/v1", "sk-not a name")


@requirement("models.http")
@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        # Ollama: every call whole, all at the same place
        ([{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}},
          {"index": 0, "id": "b", "function": {"name": "u", "arguments": '{"x":1}'}}],
         (Call("t", "{}", "a"), Call("u", '{"x":1}', "b"))),
        # gateways without a place, an id, or a text of the arguments
        ([{"function": {"name": "t", "arguments": '{"x"'}}, {"function": {"arguments": ":1}"}},
          {"function": {"name": "u", "arguments": {"y": 2}}}],
         (Call("t", '{"x":1}', "call_1"), Call("u", '{"y":2}', "call_2"))),
        ([None, {"function": 3}, {"index": "odd", "function": {"name": "t"}}],
         (Call("", "", "call_1"), Call("t", "", "call_2"))),
    ],
)  # fmt: skip
def test_deviations_of_other_servers_are_understood(pieces: list[Any], calls: tuple[Call, ...]) -> None:
    chunks = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
    with serving(in_turn(provider.answer([*chunks, "[DONE]"], named=False))) as server:
        got = answered(gpt(server))
    assert tuple(call for call in got.message.calls if call.name) == tuple(call for call in calls if call.name)
    assert got.stop == "calls"


@requirement("models.http")
def test_a_server_that_does_not_stream_is_understood() -> None:
    chat = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    with serving(in_turn(Reply(chat, headers={"Content-Type": "application/json"}))) as server:
        assert answered(gpt(server)) == Answered(Message("assistant", "Hi"), "end", Usage(3))
    message = {"type": "message", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
    with serving(in_turn(Reply(message, headers={"Content-Type": "application/json"}))) as server:
        assert answered(claude(server)) == Answered(Message("assistant", "Hi"), "end")


@requirement("models.http")
def test_truncated_arguments_stay_text() -> None:
    cut = Call("t", '{"a": "b', "x")
    with serving(in_turn(provider.answer(provider.anthropic(calls=[cut], stop="max_tokens")))) as server:
        got = answered(claude(server))
    assert (got.message.calls, got.stop) == ((cut,), "max_tokens")


@requirement("models.http")
def test_unexpected_events_of_a_stream_are_ignored() -> None:
    odd = [3, [], {}, {"type": "message_start"}, {"type": "content_block_delta", "index": {"a": 1}, "delta": 3},
           {"type": "content_block_start", "content_block": None}, {"type": "new", "x": 1}]  # fmt: skip
    body = provider.sse([*map(json.dumps, odd), *map(json.dumps, provider.anthropic("Hi"))]).replace(b"\n", b"\r\n")
    with serving(in_turn(Reply(body, headers=provider.STREAM))) as server:
        assert answered(claude(server)).message.text == "Hi"
