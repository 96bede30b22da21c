"""Models behind Anthropic's Messages API, streamed over plain HTTP."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onhand.agent.events import Answered, ModelEvent, Stream, Text, Thought, Usage
from onhand.agent.models.http import DEFAULT_POLICY, RequestPolicy, StreamingEndpoint, as_count, as_object
from onhand.errors import ModelError
from onhand.formats.anthropic import AnthropicFormat
from onhand.formats.message import Message
from onhand.http_client import RetryLater

BASE_URL = "https://api.anthropic.com"
API_KEY_ENV = "ANTHROPIC_API_KEY"
VERSION = "2023-06-01"
MAX_OUTPUT_TOKENS = 8192
STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "context_full",
    "refusal": "refusal",
    "pause_turn": "pause",
}
TRANSIENT_ERRORS = {"overloaded_error", "api_error", "rate_limit_error", "timeout_error"}


class AnthropicModel:
    """A model at Anthropic, or at another address with the same API."""

    def __init__(
        self,
        model: str,
        base_url: str = BASE_URL,
        api_key_env: str | None = API_KEY_ENV,
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
        cache: bool = True,
        policy: RequestPolicy = DEFAULT_POLICY,
    ) -> None:
        self.name = model
        self._format = AnthropicFormat(cache)
        self._max_output_tokens = max_output_tokens
        base = base_url.rstrip("/").removesuffix("/v1")
        self._endpoint = StreamingEndpoint(f"{base}/v1/messages", api_key_env, _headers, policy)

    def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """Yield the answer as it arrives."""
        return self._endpoint.stream(self.build_request(messages, tools), lambda: _AnthropicReply(self._format))

    def build_request(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the body of the request, which the server receives as JSON."""
        options = {"model": self.name, "max_tokens": self._max_output_tokens, "stream": True}
        return {**options, **self._format.request(messages, tools)}


def _headers(key: str | None) -> dict[str, str]:
    return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}


class _AnthropicReply:
    """The part of an answer that has arrived."""

    def __init__(self, form: AnthropicFormat) -> None:
        self.form = form
        self.blocks: dict[Any, dict[str, Any]] = {}
        self.inputs: dict[Any, list[str]] = {}
        self.usage: dict[str, Any] = {}
        self.stop = ""
        self.is_complete = False

    def take(self, value: Any) -> Iterator[ModelEvent]:
        """Add an event of the stream, and yield the resulting events."""
        kind = value.get("type") if isinstance(value, dict) else None
        if kind == "message_start":
            self.usage.update(as_object(as_object(value.get("message")).get("usage")))
        elif kind == "content_block_start":
            self.blocks[str(value.get("index"))] = dict(as_object(value.get("content_block")))
        elif kind == "content_block_delta":
            yield from self._delta(str(value.get("index")), as_object(value.get("delta")))
        elif kind == "message_delta":
            self.stop = str(as_object(value.get("delta")).get("stop_reason") or self.stop)
            self.usage.update(as_object(value.get("usage")))
        elif kind == "message_stop":
            self.is_complete = True
        elif kind == "message":  # from a server that does not stream
            self.blocks = {str(place): dict(block) for place, block in enumerate(value.get("content") or [])}
            self.stop, self.usage, self.is_complete = str(value.get("stop_reason")), as_object(value.get("usage")), True
        elif kind == "error":
            _raise_error(as_object(value.get("error")))

    def finish(self) -> Answered:
        """Return the complete answer. Raise RetryLater if it is incomplete."""
        if not self.is_complete:
            raise RetryLater("broke off in the middle of an answer")
        for index, pieces in self.inputs.items():
            self.blocks[index]["input"] = _parse_arguments("".join(pieces))
        message = self.form.read({"content": list(self.blocks.values())})
        fallback = "calls" if message.calls else "end"
        return Answered(message, STOPS.get(self.stop, fallback), _usage(self.usage))

    def _delta(self, index: str, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        block = self.blocks.setdefault(index, {"type": "text"})
        if delta.get("type") == "input_json_delta":
            self.inputs.setdefault(index, []).append(str(delta.get("partial_json") or ""))
            return
        for field, event in (("text", Text), ("thinking", Thought), ("signature", None)):
            if isinstance(delta.get(field), str):
                block[field] = block.get(field, "") + delta[field]
                if event and delta[field]:
                    yield event(delta[field])


def _raise_error(error: Mapping[str, Any]) -> None:
    description = f"{error.get('type')}: {str(error.get('message'))[:300]}"
    if error.get("type") in TRANSIENT_ERRORS:
        raise RetryLater(f"broke off with {description}")
    raise ModelError(f"the model's server broke off with {description}")


def _parse_arguments(text: str) -> Any:
    """Return the arguments of a call. If they were cut off, return their text, which the registry rejects."""
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


def _usage(counts: Mapping[str, Any]) -> Usage:
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    uncached, output, cached, written = (as_count(counts.get(name)) for name in names)
    return Usage(uncached + cached + written, output, cached, written)
