"""What does a model behind Anthropic's Messages API say? Over plain HTTP, streamed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onhand.agent.events import Answered, ModelEvent, Stream, Text, Thought, Usage
from onhand.agent.models.http import PATIENT, Endpoint, Later, Patience
from onhand.errors import ModelError
from onhand.formats.anthropic import AnthropicFormat
from onhand.formats.message import Message

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
PASSING = {"overloaded_error", "api_error", "rate_limit_error", "timeout_error"}  # told inside a stream


class AnthropicModel:
    """A model by its name, such as the API lists it."""

    def __init__(
        self,
        model: str,
        base_url: str = BASE_URL,
        api_key_env: str | None = API_KEY_ENV,
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
        cache: bool = True,
        patience: Patience = PATIENT,
    ) -> None:
        self.name = model
        self._format = AnthropicFormat(cache)
        self._max_output_tokens = max_output_tokens
        base = base_url.rstrip("/").removesuffix("/v1")
        self._endpoint = Endpoint(f"{base}/v1/messages", api_key_env, _headers, patience)

    def stream(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Stream:
        """What it says, as it says it."""
        asked = {"model": self.name, "max_tokens": self._max_output_tokens, "stream": True}
        wanted = {**asked, **self._format.request(messages, tools)}
        return self._endpoint.events(wanted, lambda: _Reply(self._format))


def _headers(key: str | None) -> dict[str, str]:
    return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}


class _Reply:
    """What has arrived of an answer."""

    def __init__(self, form: AnthropicFormat) -> None:
        self.form = form
        self.blocks: dict[Any, dict[str, Any]] = {}
        self.inputs: dict[Any, list[str]] = {}
        self.usage: dict[str, Any] = {}
        self.stop = ""
        self.whole = False

    def take(self, value: Any) -> Iterator[ModelEvent]:
        """Add an event of the stream; what it lets a listener know."""
        kind = value.get("type") if isinstance(value, dict) else None
        if kind == "message_start":
            self.usage.update(_part(_part(value, "message"), "usage"))
        elif kind == "content_block_start":
            self.blocks[str(value.get("index"))] = dict(_part(value, "content_block"))
        elif kind == "content_block_delta":
            yield from self._delta(str(value.get("index")), _part(value, "delta"))
        elif kind == "message_delta":
            self.stop = str(_part(value, "delta").get("stop_reason") or self.stop)
            self.usage.update(_part(value, "usage"))
        elif kind == "message_stop":
            self.whole = True
        elif kind == "message":  # of a server that does not stream
            self.blocks = {str(place): dict(block) for place, block in enumerate(value.get("content") or [])}
            self.stop, self.usage, self.whole = str(value.get("stop_reason")), _part(value, "usage"), True
        elif kind == "error":
            _raise(_part(value, "error"))

    def answered(self) -> Answered:
        """The whole of it; Later when it broke off."""
        if not self.whole:
            raise Later("broke off in the middle of an answer")
        for index, pieces in self.inputs.items():
            self.blocks[index]["input"] = _input("".join(pieces))
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


def _raise(error: Mapping[str, Any]) -> None:
    said = f"{error.get('type')}: {str(error.get('message'))[:300]}"
    if error.get("type") in PASSING:
        raise Later(f"broke off with {said}")
    raise ModelError(f"the model's server broke off with {said}")


def _input(text: str) -> Any:
    """The arguments of a call; what was cut off stays text, which the registry refuses with a reason."""
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


def _usage(said: Mapping[str, Any]) -> Usage:
    fresh, cached, written = (
        _number(said, name) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    return Usage(fresh + cached + written, _number(said, "output_tokens"), cached, written)


def _number(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name)
    return value if isinstance(value, int) else 0


def _part(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = value.get(name)
    return part if isinstance(part, dict) else {}
